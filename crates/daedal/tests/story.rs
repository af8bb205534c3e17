//! The whole story through the command line, against a lab in a process of its own.

use crate::common;

use common::{Lab, good, text};

/// Mission: E9, M5, M6, M20, H1, H12, H16, I3, I10, F1, F10
#[test]
fn a_cluster_from_nothing_and_back() {
    let lab = Lab::new();

    // Before anything exists, the plan has changes and check --live is content.
    let plan = lab.run(&["plan", "--detailed-exitcode"], "home");
    assert_eq!(plan.status.code(), Some(2), "{}", text(&plan.stderr));
    let check = good(&lab.run(&["check", "--live"], "home"));
    assert!(check.contains("Everything an apply needs is there."), "{check}");

    // Nobody to ask: nothing happens.
    let apply = lab.run(&["apply"], "home");
    assert_eq!(apply.status.code(), Some(64));

    let timeline = lab.dir().with_file_name("timeline.svg");
    let apply = lab
        .command(&["apply", "--yes", "--timeline", &timeline.display().to_string()], "home")
        .output()
        .unwrap();
    let said = good(&apply);
    assert!(said.contains("Cluster home is up: 5 nodes Ready"), "{said}");
    let next = said.split_once("Next:").unwrap().1;
    assert_eq!(next.trim().lines().count(), 3, "the next three commands to try");
    assert!(std::fs::read_to_string(timeline).unwrap().contains("critical path"));

    // A second plan is empty.
    let plan = lab.run(&["plan", "--detailed-exitcode"], "home");
    assert_eq!(plan.status.code(), Some(0), "{}", text(&plan.stdout));

    // The lab's clocks run fast on purpose: nobody is told to set them right.
    let check = good(&lab.run(&["check", "--live"], "home"));
    assert!(check.contains("clocks") && !check.contains("clock of"), "{check}");

    // Every node from all three sides.
    let status = good(&lab.run(&["status"], "home"));
    for node in ["cp-1", "cp-2", "cp-3", "worker-1", "worker-2"] {
        let row = status.lines().find(|line| line.starts_with(node)).unwrap();
        assert!(row.contains("running") && row.ends_with("Ready") && row.contains("atlas"), "{row}");
        assert_eq!(row.contains("member"), node.starts_with("cp"), "{row}");
    }
    let json: serde_json::Value =
        serde_json::from_slice(&lab.run(&["status", "-o", "json"], "home").stdout).unwrap();
    assert_eq!(json["healthy"], true);

    // The outputs are there, private, and env points at them.
    let outputs = good(&lab.run(&["outputs"], "home"));
    for name in [
        "talosconfig",
        "kubeconfig",
        "controlplane.yaml",
        "worker.yaml",
        "secrets.yaml",
        "cp-1.yaml",
        "machines.json",
    ] {
        assert!(outputs.lines().any(|line| line.ends_with(name)), "{name} in {outputs}");
    }
    let machines = good(&lab.run(&["outputs", "machines.json"], "home"));
    let before: serde_json::Value = serde_json::from_str(&machines).unwrap();
    let output: serde_json::Value =
        serde_json::from_slice(&lab.run(&["outputs", "machines.json", "-o", "json"], "home").stdout).unwrap();
    assert_eq!((&output["name"], &output["content"]), (&"machines.json".into(), &machines.into()));
    assert!(std::path::Path::new(output["path"].as_str().unwrap()).is_file(), "{output}");
    // Whoever takes the files to a lab that has ended finds it running again.
    good(&common::command(["lab", "stop", "--lab-dir"]).arg(lab.dir()).output().unwrap());
    let env = good(&lab.run(&["env"], "home"));
    let running = common::command(["lab", "status", "-o", "json", "--lab-dir"]).arg(lab.dir()).output();
    assert!(good(&running.unwrap()).contains("\"proxy\""));
    assert!(env.contains("export KUBECONFIG=/") && env.contains("export TALOSCONFIG=/"), "{env}");

    // The wrong name destroys nothing; the right one everything.
    let destroy = lab.run(&["destroy", "--confirm", "work"], "home");
    assert_eq!(destroy.status.code(), Some(1));
    let said = good(&lab.run(&["destroy", "--confirm", "home"], "home"));
    assert!(said.contains("Cluster home is gone"), "{said}");
    let status = good(&lab.run(&["status"], "home"));
    assert!(status.contains("absent") && !status.contains("running"), "{status}");

    // And the same again: same VMIDs, MACs, addresses.
    good(&lab.run(&["apply", "--yes"], "home"));
    let machines = good(&lab.run(&["outputs", "machines.json"], "home"));
    let after: serde_json::Value = serde_json::from_str(&machines).unwrap();
    assert_eq!(before, after);
}

#[test]
fn a_saved_plan_is_executed_as_exactly_that_or_refused() {
    let lab = Lab::new();
    let file = lab.dir().with_file_name("plan.json").display().to_string();
    let run = |folder: &std::path::Path, command_line: &[&str]| {
        let mut command = common::command(command_line);
        command.current_dir(folder).args(["--lab", "--lab-speed", "60", "--lab-dir"]).arg(lab.dir());
        command.output().unwrap()
    };
    good(&run(&common::root(), &["plan", "--save", &file, "-f", "examples/home/cluster.yaml"]));
    // It knows its inventory, from whichever folder.
    let elsewhere = tempfile::tempdir().unwrap();
    good(&run(elsewhere.path(), &["apply", &file]));
    // The world has moved: the same plan no longer fits.
    let apply = run(elsewhere.path(), &["apply", &file]);
    assert_eq!(apply.status.code(), Some(1));
    assert!(text(&apply.stderr).contains("no longer fits"), "{}", text(&apply.stderr));
}

#[test]
fn a_second_apply_is_told_who_holds_the_lock() {
    let mut lab = Lab::slow();
    let (mut first, _progress, _) = lab.begin_apply("home");
    // The other is told, and touches nothing.
    let second = lab.run(&["apply", "--yes"], "home");
    let told = text(&second.stderr);
    assert_eq!(second.status.code(), Some(75), "{told}");
    assert!(told.contains("is locked by") && told.contains("apply, since"), "{told}");
    // The lock goes with whoever holds it.
    first.kill().unwrap();
    first.wait().unwrap();
    lab.hurry();
    good(&lab.run(&["apply", "--yes"], "home"));
}

#[test]
fn the_lab_keeps_its_world_when_it_is_stopped() {
    let lab = Lab::new();
    good(&lab.run(&["apply", "--yes"], "home"));
    let stop = common::command(["lab", "stop", "--lab-dir"]).arg(lab.dir()).output().unwrap();
    assert!(good(&stop).contains("its world stays"));
    let status = common::command(["lab", "status", "--lab-dir"]).arg(lab.dir()).output().unwrap();
    assert!(good(&status).contains("No lab runs"));
    // It is started again by itself, with the five VMs in it.
    let apply = lab.run(&["apply", "--yes"], "home");
    good(&apply);
    let status = good(&lab.run(&["status"], "home"));
    assert_eq!(status.lines().filter(|line| line.ends_with("Ready")).count(), 5, "{status}");
}

#[test]
fn a_reset_forgets_the_lab_and_nothing_else() {
    let lab = Lab::new();
    good(&lab.run(&["plan"], "home"));
    std::fs::write(lab.dir().join("notes.txt"), "mine").unwrap();
    good(&common::command(["lab", "reset", "--lab-dir"]).arg(lab.dir()).output().unwrap());
    let left: Vec<_> = std::fs::read_dir(lab.dir()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["notes.txt"]);
    // A folder that never was a lab loses nothing.
    let other = tempfile::tempdir().unwrap();
    std::fs::create_dir(other.path().join("clusters")).unwrap();
    good(&common::command(["lab", "reset", "--lab-dir"]).arg(other.path()).output().unwrap());
    assert!(other.path().join("clusters").exists());
}
