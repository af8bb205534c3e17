//! Secrets never show: every command, every format, every log level, searched for every secret there is.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "helpers of tests")]

mod common;

use std::collections::BTreeSet;
use std::path::Path;

use common::{Lab, good, text};

/// Every string in the secrets bundle, the private keys and the token that must never be seen.
fn canaries(lab: &Lab) -> BTreeSet<String> {
    let outputs = lab.dir().join("clusters/home/outputs");
    let mut found = BTreeSet::new();
    for name in ["secrets.yaml", "kubeconfig", "talosconfig"] {
        let text = std::fs::read_to_string(outputs.join(name)).unwrap();
        for line in text.lines() {
            let Some((key, value)) = line.trim().split_once(':') else { continue };
            // Certificates are public; ids are not secret.
            let public = ["crt", "ca", "id", "certificate-authority-data", "client-certificate-data"];
            let value = value.trim().trim_matches('"');
            if value.len() >= 16 && !public.contains(&key.trim()) && !value.contains("://") {
                found.insert(value.to_owned());
            }
        }
    }
    found.insert(lab_token(lab));
    assert!(found.len() >= 8, "the canaries themselves: {}", found.len());
    found
}

fn lab_token(lab: &Lab) -> String {
    std::fs::read_to_string(lab.dir().join("token")).unwrap().trim().to_owned()
}

/// A lab that writes everything it can into a file; the first command of the test finds it running.
fn serve_at_trace(lab: &Lab, log: &Path) -> std::process::Child {
    let served = common::command(["lab", "serve", "-vvv", "--lab-speed", "60", "--lab-dir"])
        .arg(lab.dir())
        .env("DAEDAL_LOG", "trace")
        .stdout(std::process::Stdio::null())
        .stderr(std::fs::File::create(log).unwrap())
        .spawn()
        .unwrap();
    for _ in 0..200 {
        if lab.dir().join("lab.json").exists() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    served
}

fn search(place: &str, haystack: &str, canaries: &BTreeSet<String>) {
    for canary in canaries {
        assert!(!haystack.contains(canary.as_str()), "a secret shows in {place}");
        // Not in part either: the first 24 characters of a key would do harm enough.
        let part: String = canary.chars().skip(canary.len() / 3).take(24).collect();
        assert!(part.len() < 16 || !haystack.contains(&part), "part of a secret shows in {place}");
    }
}

fn search_file(path: &Path, canaries: &BTreeSet<String>) {
    search(&path.display().to_string(), &text(&std::fs::read(path).unwrap()), canaries);
}

/// Every journal below a folder.
fn journals(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            found.extend(journals(&entry.path()));
        } else if entry.file_name().to_string_lossy().starts_with("journal") {
            found.push(entry.path());
        }
    }
    found
}

#[test]
fn no_command_prints_a_secret_at_any_log_level() {
    let lab = Lab::new();
    let lab_log = lab.dir().with_file_name("lab-trace.log");
    let mut served = serve_at_trace(&lab, &lab_log);
    let plan_file = lab.dir().with_file_name("plan.json");
    let timeline = lab.dir().with_file_name("timeline.svg");
    let (plan_arg, timeline_arg) = (plan_file.display().to_string(), timeline.display().to_string());
    let mut seen = Vec::new();
    let mut run_to = |exit: i32, command_line: &[&str]| {
        for format in ["text", "json"] {
            let out = lab
                .command(&[command_line, &["-o", format, "-vvv"]].concat(), "home")
                .env("DAEDAL_LOG", "trace")
                .output()
                .unwrap();
            let said = || format!("{command_line:?}: {}{}", text(&out.stdout), text(&out.stderr));
            assert_eq!(out.status.code(), Some(exit), "{}", said());
            seen.push((format!("{command_line:?} -o {format}: stdout"), text(&out.stdout)));
            seen.push((format!("{command_line:?} -o {format}: stderr"), text(&out.stderr)));
        }
    };
    let mut run = |command_line: &[&str]| run_to(0, command_line);
    run(&["plan", "--save", &plan_arg]);
    run(&["check"]);
    run(&["check", "--live"]);
    run(&["apply", "--yes", "--timeline", &timeline_arg]);
    run(&["plan"]);
    run(&["status"]);
    run(&["outputs"]);
    run(&["outputs", "machines.json"]);
    run(&["env"]);
    run(&["node", "show", "cp-1"]);
    run(&["secrets", "show"]);
    let canaries = canaries(&lab);
    search_file(&lab.dir().join("clusters/home/outputs/machines.json"), &canaries);
    // Runs that fail: without the secrets, with the wrong name, with a plan that no longer fits, with a full disk.
    let elsewhere = lab.dir().with_file_name("elsewhere").display().to_string();
    run_to(1, &["apply", "--yes", "--state", &elsewhere]);
    run_to(1, &["destroy", "--confirm", "work"]);
    run_to(1, &["apply", &plan_arg]);
    run_to(73, &["plan", "--save", "/dev/null/plan.json"]);
    run_to(66, &["outputs", "no-such-output"]);
    run_to(0, &["destroy", "--confirm", "home"]);
    for command_line in [&["inventory", "show"][..], &["inventory", "show", "--resolved"]] {
        for format in ["text", "json"] {
            let mut command = common::command(command_line);
            command.args(["-o", format, "-vvv", "-f"]).arg(common::root().join("examples/home/cluster.yaml"));
            let out = command
                .env("DAEDAL_LOG", "trace")
                .env("PROXMOX_TOKEN_SECRET", lab_token(&lab))
                .output()
                .unwrap();
            seen.push((format!("{command_line:?} -o {format}"), good(&out) + &text(&out.stderr)));
        }
    }
    good(&common::command(["lab", "stop", "--lab-dir"]).arg(lab.dir()).output().unwrap());
    served.wait().unwrap();
    let log = std::fs::read_to_string(&lab_log).unwrap();
    assert!(log.contains("TRACE"), "the lab's log is at the trace level");

    for (place, said) in &seen {
        search(place, said, &canaries);
    }
    search_file(&plan_file, &canaries);
    search_file(&timeline, &canaries);
    search("the lab's log", &log, &canaries);
    let journals = journals(&lab.dir().join("clusters"));
    assert_eq!(journals.len(), 1, "{journals:?}");
    search_file(&journals[0], &canaries);
}
