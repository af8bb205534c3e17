//! Several clusters in one folder: one by its name, or all of them at once on the Proxmox that they share.

use std::path::Path;
use std::process::Output;

use serde_json::Value as Json;

use crate::common::{Lab, good, text};

/// Declares a cluster of one node.
fn declare(file: &Path, name: &str, host: &str, vmid: u32, address: &str, memory: u32) {
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let inventory = format!(
        "apiVersion: daedal.dev/v1alpha1
kind: Cluster
metadata: {{name: {name}}}
spec:
  talos: {{version: v1.12.0}}
  proxmox:
    endpoint: https://atlas.lan:8006
    token: {{id: \"daedal@pve!cli\", secret: {{env: PROXMOX_TOKEN_SECRET}}}}
    hosts: [{host}]
    storage: {{disks: local-lvm, images: local}}
    bridge: vmbr0
  network: {{cidr: 10.0.0.0/24, gateway: 10.0.0.1, dns: [1.1.1.1]}}
  pools:
    - {{name: cp, role: controlplane, count: 1, cores: 2, memory: {memory}GiB, disk: 20GiB, vmid: {vmid}, address: {address}}}
"
    );
    std::fs::write(file, inventory).unwrap();
}

struct Folder {
    lab: Lab,
    folder: tempfile::TempDir,
}

impl Folder {
    /// A folder that declares two clusters.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        declare(&folder.path().join("home.yaml"), "home", "atlas", 300, "10.0.0.11", 4);
        declare(&folder.path().join("away/cluster.yaml"), "away", "boreas", 400, "10.0.0.21", 4);
        Self { lab: Lab::new(), folder }
    }

    fn run(&self, command_line: &[&str]) -> Output {
        self.lab.command_on(command_line, self.folder.path()).output().unwrap()
    }

    fn json(&self, command_line: &[&str]) -> Json {
        serde_json::from_slice(&self.run(command_line).stdout).unwrap()
    }
}

/// Mission: I12
#[test]
fn all_clusters_of_a_folder_are_made_at_once_and_told_of_together() {
    let all = Folder::new();
    // Which one is meant has to be said.
    let status = all.run(&["status"]);
    assert_eq!(status.status.code(), Some(64));
    assert!(text(&status.stderr).contains("--cluster NAME: away, home"), "{}", text(&status.stderr));
    let other = all.run(&["status", "--cluster", "other"]);
    assert_eq!(other.status.code(), Some(66));

    // Nobody to ask: nothing happens, and both say so.
    let apply = all.run(&["apply", "--all"]);
    assert_eq!(apply.status.code(), Some(64), "{}", text(&apply.stderr));
    for name in ["home", "away"] {
        let refused = format!("{name}: error: nothing was done: there is no terminal to ask on");
        assert!(text(&apply.stderr).contains(&refused), "{}", text(&apply.stderr));
    }

    let apply = all.run(&["apply", "--all", "--yes"]);
    let said = good(&apply);
    for name in ["home", "away"] {
        let part = said.split_once(&format!("── {name} ──\n")).unwrap().1;
        let part = part.split("\n── ").next().unwrap();
        assert!(part.contains(&format!("Cluster {name} is up: 1 node Ready")), "{said}");
    }
    assert!(said.trim_end().ends_with("2 clusters. done: away, home."), "{said}");
    // Progress says whose it is.
    assert!(text(&apply.stderr).lines().any(|line| line.starts_with("away: ") && line.contains("cp-1")));

    let status = all.json(&["status", "--all", "-o", "json"]);
    let healthy: Vec<(&Json, &Json)> = (status["clusters"].as_array().unwrap().iter())
        .map(|one| (&one["cluster"], &one["result"]["healthy"]))
        .collect();
    assert_eq!(healthy, [(&Json::from("away"), &Json::from(true)), (&Json::from("home"), &Json::from(true))]);
    assert_eq!(status["exitCode"], 0);
    let one = all.json(&["status", "--cluster", "home", "-o", "json"]);
    assert_eq!((&one["cluster"], &one["healthy"]), (&Json::from("home"), &Json::from(true)));
}

/// What is told, printed or kept for one cluster is for all; what cannot be is refused with the reason.
#[test]
fn every_command_that_can_takes_all_clusters() {
    let all = Folder::new();
    good(&all.run(&["apply", "--all", "--yes"]));
    for words in [
        &["node", "list"][..],
        &["outputs"],
        &["outputs", "machines.json"],
        &["backup", "create"],
        &["backup", "list"],
        &["secrets", "show"],
        &["secrets", "rekey"],
        &["templates", "list"],
        &["volumes", "list"],
        &["volumes", "prune", "--yes"],
        &["proxmox", "firewall", "--yes"],
        &["proxmox", "ha", "--off", "--yes"],
    ] {
        let told = all.json(&[words, &["--all", "-o", "json"]].concat());
        let clusters = told["clusters"].as_array().unwrap_or_else(|| panic!("{words:?}: {told:#}"));
        let ended: Vec<(&Json, &Json)> =
            clusters.iter().map(|one| (&one["cluster"], &one["exitCode"])).collect();
        let done = [(&Json::from("away"), &Json::from(0)), (&Json::from("home"), &Json::from(0))];
        assert_eq!(ended, done, "{words:?}: {told:#}");
        assert!(clusters.iter().all(|one| !one["result"].is_null()), "{words:?}: {told:#}");
    }
    for words in [
        &["env"][..],
        &["proxy"],
        &["kubectl"],
        &["node", "show", "cp-1"],
        &["secrets", "export", "--stdout"],
        &["store", "reset"],
    ] {
        let refused = all.run(&[words, &["--all"]].concat());
        assert_eq!(refused.status.code(), Some(64), "{words:?}");
        let said = text(&refused.stderr);
        assert!(said.contains("works on one cluster at a time: choose it with --cluster NAME"), "{said}");
    }
    good(&all.run(&["destroy", "--all", "--confirm", "away", "--confirm", "home"]));
}

/// The lab's world is made of all inventories at its first use, and is as strict as life afterwards.
#[test]
fn a_world_that_was_made_for_all_is_not_extended() {
    let all = Folder::new();
    good(&all.run(&["status", "--all"]));
    good(&all.run(&["check", "--all", "--live"]));
    declare(&all.folder.path().join("more.yaml"), "more", "chronos", 500, "10.0.0.31", 4);
    let check = all.run(&["check", "--all", "--live"]);
    let said = text(&check.stdout) + &text(&check.stderr);
    assert!(!check.status.success() && said.contains("host chronos"), "{said}");
    assert!(said.contains("done: away, home") && said.contains("failed: more"), "{said}");
}

#[test]
fn the_exit_code_of_all_is_the_worst() {
    let all = Folder::new();
    good(&all.run(&["apply", "--all", "--yes"]));
    assert_eq!(all.run(&["plan", "--all", "--detailed-exitcode"]).status.code(), Some(0));
    declare(&all.folder.path().join("home.yaml"), "home", "atlas", 300, "10.0.0.11", 5);
    let plan = all.run(&["plan", "--all", "--detailed-exitcode"]);
    assert_eq!(plan.status.code(), Some(2), "{}", text(&plan.stdout));
    assert!(text(&plan.stdout).trim_end().ends_with("2 clusters. not as declared: home; done: away."));

    // What only one of them can have is no plan's business.
    declare(&all.folder.path().join("home.yaml"), "home", "atlas", 400, "10.0.0.11", 4);
    let plan = all.run(&["plan", "--all"]);
    assert_eq!(plan.status.code(), Some(65), "{}", text(&plan.stdout));
    assert!(text(&plan.stderr).contains("away and home both declare VMID 400"), "{}", text(&plan.stderr));
    declare(&all.folder.path().join("home.yaml"), "home", "atlas", 300, "10.0.0.11", 4);

    // A cluster that nobody named stays.
    let destroy = all.run(&["destroy", "--all", "--confirm", "home"]);
    assert_eq!(destroy.status.code(), Some(1), "{}", text(&destroy.stderr));
    assert!(
        text(&destroy.stderr).contains("away: error: nothing was destroyed"),
        "{}",
        text(&destroy.stderr)
    );
    assert!(text(&destroy.stdout).contains("Cluster home is gone"), "{}", text(&destroy.stdout));
    let status = all.json(&["status", "--cluster", "away", "-o", "json"]);
    assert_eq!(status["healthy"], true);
    let said = good(&all.run(&["destroy", "--all", "--confirm", "away", "--confirm", "home"]));
    assert!(said.contains("Cluster away is gone"), "{said}");

    // An inventory that is wrong stops nobody else.
    std::fs::write(all.folder.path().join("home.yaml"), "kind: Cluster\nmetadata: {name: home}\n").unwrap();
    let check = all.run(&["check", "--all"]);
    assert_eq!(check.status.code(), Some(65));
    assert!(text(&check.stdout).contains("cluster away with 1 control plane"), "{}", text(&check.stdout));
}
