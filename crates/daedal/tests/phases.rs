//! The phases of an apply, each on its own, and a cluster that is created again: I2, I9, M1.

use crate::common;

use std::process::Stdio;
use std::time::Duration;

use common::{Changed, Lab, SMALL, good, text};
use serde_json::Value;

fn last_cluster(lab: &Lab) -> Value {
    good(&common::command(["lab", "stop", "--lab-dir"]).arg(lab.dir()).output().unwrap());
    let world: Value = serde_json::from_slice(&std::fs::read(lab.dir().join("world.json")).unwrap()).unwrap();
    world["machines"]["last_cluster"].clone()
}

fn kill_after(lab: &Lab, inventory: &Changed, command_line: &[&str], moment: u64) {
    let mut command = lab.command_on(command_line, &inventory.file());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(moment));
    // Gone already is fine: the moment was late.
    let _ = child.kill();
    child.wait().unwrap();
}

/// Mission: I2, M1 — generate, provision, bootstrap; each says what it lacks, can be repeated, and claims no more than it looked at.
#[test]
fn the_phases_of_an_apply_one_by_one() {
    let lab = Lab::new();
    let home = Changed::new("home", SMALL);
    let refused = |command_line: &[&str], words: &str, advice: &str| {
        let run = home.run(&lab, command_line);
        let said: Vec<_> = text(&run.stdout).split_whitespace().map(str::to_owned).collect();
        let said = said.join(" ");
        assert_eq!(run.status.code(), Some(1), "{said}{}", text(&run.stderr));
        assert!(said.contains(words) && said.contains(advice), "{said}");
    };
    refused(&["provision", "--yes"], "cluster home: It has no secrets yet.", "daedal generate --lab");
    refused(&["bootstrap", "--yes"], "cluster home: It has no secrets yet.", "daedal generate --lab");

    // Files only.
    let said = good(&home.run(&lab, &["generate"]));
    assert!(said.contains("its secrets are stored in"), "{said}");
    assert!(said.contains("Proxmox and the nodes were not asked"), "{said}");
    let secrets = std::fs::read(lab.dir().join("clusters/home/outputs/secrets.yaml")).unwrap();
    for name in ["talosconfig", "kubeconfig", "cp-1.yaml", "worker-1.yaml"] {
        good(&home.run(&lab, &["outputs", name]));
    }
    let status = text(&home.run(&lab, &["status"]).stdout);
    assert_eq!(status.matches("absent").count(), 2, "{status}");
    let again = home.json(&lab, &["generate"]);
    assert_eq!((&again["changed"], &again["phase"]), (&false.into(), &"generate".into()), "{again}");

    refused(&["bootstrap", "--yes"], "cp-1, worker-1: They have no VMs yet.", "daedal provision --lab");
    // Nobody to ask, and only shown: nothing happens.
    assert_eq!(home.run(&lab, &["provision"]).status.code(), Some(64));
    let said = good(&home.run(&lab, &["provision", "--plan-only"]));
    assert!(said.contains("Plan to provision cluster home") && said.contains("bootstrap:"), "{said}");
    assert!(!said.contains("bootstrap etcd"), "{said}");

    // Somebody else on another machine has the store, but not the files.
    std::fs::remove_dir_all(lab.dir().join("clusters/home/outputs")).unwrap();
    let said = good(&home.run(&lab, &["provision", "--yes"]));
    assert!(
        said.contains("Cluster home is provisioned: 2 nodes answer over mutual TLS, 2 VMs created"),
        "{said}"
    );
    assert!(said.trim_end().lines().last().unwrap().contains("daedal bootstrap"), "{said}");
    let status: Value = serde_json::from_slice(&home.run(&lab, &["status", "-o", "json"]).stdout).unwrap();
    assert_eq!(status["healthy"], false, "{status:#}");
    assert_eq!(last_cluster(&lab), 0, "no etcd yet");
    let again = home.json(&lab, &["provision", "--yes"]);
    assert_eq!((&again["changed"], &again["phase"]), (&false.into(), &"provision".into()), "{again}");
    let said = good(&home.run(&lab, &["provision"]));
    assert!(
        said.contains("No changes: cluster home is provisioned (2 nodes answer over mutual TLS)."),
        "{said}"
    );

    std::fs::remove_dir_all(lab.dir().join("clusters/home/outputs")).unwrap();
    let done = home.json(&lab, &["bootstrap", "--yes"]);
    assert_eq!((&done["changed"], &done["phase"]), (&true.into(), &"bootstrap".into()), "{done}");
    let said = good(&home.run(&lab, &["bootstrap"]));
    let all = "No changes: cluster home is bootstrapped (etcd has 1 voting member, 2 nodes Ready).";
    assert!(said.split_whitespace().collect::<Vec<_>>().join(" ").contains(all), "{said}");

    // Together they are an apply.
    let plan = home.run(&lab, &["plan", "--detailed-exitcode"]);
    assert_eq!(plan.status.code(), Some(0), "{}", text(&plan.stdout));
    assert_eq!(home.json(&lab, &["status"])["healthy"], true);
    assert_eq!(secrets, std::fs::read(lab.dir().join("clusters/home/outputs/secrets.yaml")).unwrap());
    assert_eq!(last_cluster(&lab), 1, "etcd was bootstrapped once");

    // A node that is declared later goes the same way; the others are not held up.
    let more = Changed::new("home", &[("count: 3 ", "count: 1 ")]);
    let run = more.run(&lab, &["bootstrap", "--yes"]);
    let said = text(&run.stdout);
    assert_eq!(run.status.code(), Some(1), "{said}{}", text(&run.stderr));
    assert!(said.contains("worker-2: It has no VM yet."), "{said}");
    assert!(said.contains("bootstrap leaves out worker-2"), "{said}");
    good(&more.run(&lab, &["provision", "--yes"]));
    let said = good(&more.run(&lab, &["bootstrap", "--yes"]));
    // A worker may have become Ready by itself meanwhile.
    assert!(said.contains("3 nodes Ready"), "{said}");
}

/// Mission: I2 — `generate` needs no Proxmox, no node and no token.
#[test]
fn secrets_and_outputs_are_made_without_anybody() {
    let folder = tempfile::tempdir().unwrap();
    let home = Changed::new("home", SMALL);
    let run = |words: &[&str]| {
        let mut command = common::command(words);
        command.current_dir(folder.path()).env("DAEDAL_KEY_FILE", folder.path().join("key"));
        command.arg("-f").arg(home.file()).output().unwrap()
    };
    good(&run(&["generate"]));
    let machines: Value = serde_json::from_str(&good(&run(&["outputs", "machines.json"]))).unwrap();
    assert_eq!(machines.as_array().unwrap().len(), 2);
    assert!(good(&run(&["outputs", "cp-1.yaml"])).contains("type: controlplane"));
    let said = good(&run(&["generate"])).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("No changes") && said.contains("were not asked"), "{said}");
    // Everything else asks, and needs the token for it.
    assert_eq!(run(&["provision", "--yes"]).status.code(), Some(78));
}

/// Where no network is installed, nodes are not Ready, and `bootstrap` ends truthfully.
#[test]
fn without_a_network_nodes_are_not_called_ready() {
    let lab = Lab::new();
    let bare = Changed::new("home", &[SMALL, &[("kubernetes:", "kubernetes:\n    cni: none")]].concat());
    good(&bare.run(&lab, &["generate"]));
    good(&bare.run(&lab, &["provision", "--yes"]));
    let said = good(&bare.run(&lab, &["bootstrap", "--yes"]));
    assert!(said.contains("Cluster home is up: 2 nodes, Ready once a CNI is installed"), "{said}");
    let said = good(&bare.run(&lab, &["bootstrap"]));
    assert!(said.contains("2 nodes Ready once a CNI is installed"), "{said}");
}

/// Mission: I2 — killed at any moment, a phase is simply carried out again.
#[test]
fn phases_are_killed_and_go_on() {
    let lab = Lab::new();
    let home = Changed::new("home", SMALL);
    good(&home.run(&lab, &["status"]));
    for (phase, moments) in [
        ("generate", &[30, 200][..]),
        ("provision", &[150, 400, 700, 1_100]),
        ("bootstrap", &[200, 500, 900]),
    ] {
        let yes: &[&str] = if phase == "generate" { &["generate"] } else { &[phase, "--yes"] };
        for moment in moments {
            kill_after(&lab, &home, yes, *moment);
        }
        good(&home.run(&lab, yes));
    }
    assert_eq!(home.run(&lab, &["plan", "--detailed-exitcode"]).status.code(), Some(0));
    assert_eq!(last_cluster(&lab), 1, "etcd was bootstrapped once");
}

/// Mission: I9 — destroyed and created again with one question; the same secrets, VMIDs, MACs and addresses.
#[test]
fn a_cluster_is_recreated() {
    let lab = Lab::new();
    let home = Changed::new("home", SMALL);
    good(&home.run(&lab, &["apply", "--yes"]));
    let secrets = || std::fs::read(lab.dir().join("clusters/home/outputs/secrets.yaml")).unwrap();
    let machines = || good(&home.run(&lab, &["outputs", "machines.json"]));
    let (kept, same) = (secrets(), machines());

    // Nobody to ask, the wrong name, a protected cluster: nothing dies.
    let unasked = home.run(&lab, &["recreate"]);
    assert_eq!(unasked.status.code(), Some(64), "{}", text(&unasked.stderr));
    assert!(text(&unasked.stdout).contains("These VMs are destroyed"), "{}", text(&unasked.stdout));
    assert_eq!(home.run(&lab, &["recreate", "--confirm", "work"]).status.code(), Some(1));
    let protected = Changed::new(
        "home",
        &[SMALL, &[("environment: lab ", "protect: true\n  environment: lab ")]].concat(),
    );
    let run = protected.run(&lab, &["recreate", "--confirm", "home"]);
    assert_eq!(run.status.code(), Some(1));
    assert!(text(&run.stderr).contains("protected"), "{}", text(&run.stderr));
    assert_eq!(last_cluster(&lab), 1);

    let said = good(&home.run(&lab, &["recreate", "--confirm", "home"]));
    assert!(said.contains("Cluster home is up: 2 nodes Ready, 2 VMs created"), "{said}");
    assert_eq!((secrets(), machines()), (kept.clone(), same.clone()));
    assert_eq!(last_cluster(&lab), 2, "a new etcd");

    // Killed in either half; both commands go on, and to the same end.
    for moment in [150, 400, 800, 1_400] {
        kill_after(&lab, &home, &["recreate", "--confirm", "home"], moment);
    }
    good(&home.run(&lab, &["apply", "--yes"]));
    assert_eq!(home.run(&lab, &["plan", "--detailed-exitcode"]).status.code(), Some(0));
    kill_after(&lab, &home, &["recreate", "--confirm", "home"], 500);
    let done = home.json(&lab, &["recreate", "--confirm", "home"]);
    assert_eq!(done["changed"], true, "{done}");
    assert_eq!(home.run(&lab, &["plan", "--detailed-exitcode"]).status.code(), Some(0));
    assert_eq!((secrets(), machines()), (kept, same));

    // Where nothing is left to destroy, it creates.
    good(&home.run(&lab, &["destroy", "--confirm", "home"]));
    let done = home.json(&lab, &["recreate", "--confirm", "home"]);
    assert_eq!((done.get("destroyed"), &done["changed"]), (None, &true.into()), "{done}");
}
