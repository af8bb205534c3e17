//! A difference that is not carried out is a difference: named, counted, and told by the exit code.

use crate::common;

use common::{Changed, Lab, SMALL, good, text};

/// What a command says in one line each, whatever the terminal's width.
fn flat(output: &[u8]) -> String {
    text(output).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn with(more: &[(&'static str, &'static str)]) -> Changed {
    Changed::new("home", &[SMALL, more].concat())
}

/// The plan's exit code for scripts, and what it says.
fn planned(cluster: &Changed, lab: &Lab) -> (Option<i32>, String) {
    let plan = cluster.run(lab, &["plan", "--detailed-exitcode"]);
    (plan.status.code(), flat(&plan.stdout))
}

#[test]
fn another_version_is_a_difference_and_holds_back_nothing_else() {
    let lab = Lab::new();
    good(&with(&[]).run(&lab, &["apply", "--yes"]));

    let newer: &[(&str, &str)] =
        &[("version: v1.12.0", "version: v1.12.1"), ("version: v1.35.0", "version: v1.34.0")];
    let bumped = with(newer);
    let (code, said) = planned(&bumped, &lab);
    assert_eq!(code, Some(2), "{said}");
    assert!(!said.contains("is as declared"), "{said}");
    assert!(said.contains("cp-1, worker-1: Talos version is v1.12.0, declared is v1.12.1."), "{said}");
    assert!(said.contains("cp-1, worker-1: Kubernetes version is v1.35.0, declared is v1.34.0."), "{said}");
    assert!(said.contains("talosctl upgrade -n 10.0.0.11 --image factory.talos.dev/"), "{said}");
    assert!(said.contains("0 to change, 0 to destroy; 4 differences on 2 nodes stay"), "{said}");
    // Without the flag it is no failure.
    good(&bumped.run(&lab, &["plan"]));
    good(&bumped.run(&lab, &["apply", "--yes"]));
    let (code, said) = planned(&bumped, &lab);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("No changes, but cluster home is not as declared: 4 differences on 2"), "{said}");
    let status = bumped.run(&lab, &["status", "--detailed-exitcode"]);
    assert_eq!(status.status.code(), Some(2));
    let said = text(&status.stdout);
    assert!(said.contains("0 of 2 nodes are as they should be"), "{said}");
    let told = "cp-1, worker-1: Talos version v1.12.1 declared, v1.12.0 until it is upgraded\n";
    assert!(said.contains(told), "{said}");

    // A label in the same edit is not held back.
    let label = ("      address: 10.0.0.21", "      labels: {rack: a}\n      address: 10.0.0.21");
    let labelled = with(&[newer, &[label]].concat());
    let (code, said) = planned(&labelled, &lab);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("+ machine.nodeLabels.rack: a"), "{said}");
    assert!(said.contains("0 to create, 1 to change, 0 to destroy; 4 differences on 2 nodes stay"), "{said}");
    let applied = good(&labelled.run(&lab, &["apply", "--yes"]));
    assert!(applied.contains("4 differences on 2 nodes stay"), "{applied}");
    let json = labelled.json(&lab, &["plan"]);
    assert_eq!(json["steps"].as_array().unwrap().len(), 0, "{json:#}");
    assert_eq!(json["differences"].as_array().unwrap().len(), 4, "{json:#}");
    // With the versions that run, no config is left to change, and no difference stays.
    let json = with(&[label]).json(&lab, &["plan"]);
    assert!(!json["steps"].to_string().contains("applyConfig"), "{json:#}");
    assert_eq!(json["differences"].as_array().unwrap().len(), 0, "{json:#}");
}

#[test]
fn a_smaller_disk_other_extensions_and_a_renamed_vm_are_differences() {
    let lab = Lab::new();
    let small = with(&[]);
    good(&small.run(&lab, &["apply", "--yes"]));
    let (code, said) = planned(&small, &lab);
    assert_eq!(code, Some(0), "{said}");

    let smaller = with(&[("disk: 60GiB", "disk: 50GiB")]);
    let (code, said) = planned(&smaller, &lab);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("worker-1: disk is 60 GiB, declared is 50 GiB: disks only grow."), "{said}");
    assert!(said.contains("1 difference on 1 node stays"), "{said}");
    let status = good(&smaller.run(&lab, &["status"]));
    assert!(status.contains("1 of 2 nodes is as it should be"), "{status}");
    assert!(status.contains("worker-1: disk 50 GiB declared, 60 GiB found: disks only grow\n"), "{status}");

    let fewer = with(&[("      - tailscale\n", "")]);
    good(&fewer.run(&lab, &["apply", "--yes"]));
    let (code, said) = planned(&fewer, &lab);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("cp-1, worker-1: schematic (extensions, kernel arguments) is"), "{said}");

    // A VM's name is compared, and given back while it runs.
    rename(&lab, 303, "somebody-elses");
    let (code, said) = planned(&small, &lab);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("name: somebody-elses → worker-1"), "{said}");
    good(&small.run(&lab, &["apply", "--yes"]));
    let page = good(&small.run(&lab, &["node", "show", "worker-1"]));
    assert!(page.contains("303 (worker-1) on atlas, running"), "{page}");
    let (code, said) = planned(&small, &lab);
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn hardware_that_waits_for_a_restart_is_a_difference_and_shown_apart() {
    let lab = Lab::new();
    good(&with(&[]).run(&lab, &["apply", "--yes"]));
    let more = |restarts: &'static str| {
        let worker = ("memory: 8GiB\n      disk: 60GiB", "memory: 12GiB\n      disk: 60GiB");
        with(&[worker, ("  environment: lab ", restarts)])
    };
    let never = more("  restarts: never\n  environment: lab ");
    let (code, said) = planned(&never, &lab);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("memory: 8 GiB → 12 GiB (takes effect at its next start)"), "{said}");
    good(&never.run(&lab, &["apply", "--yes"]));
    let (code, said) = planned(&never, &lab);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("worker-1: memory is 8 GiB until its next start, declared is 12 GiB."), "{said}");
    assert!(!said.contains("is as declared"), "{said}");
    let status = good(&never.run(&lab, &["status"]));
    assert!(status.contains("1 of 2 nodes is as it should be"), "{status}");
    assert!(status.contains("worker-1: memory 12 GiB declared, 8 GiB until its next start\n"), "{status}");
    let page = good(&never.run(&lab, &["node", "show", "worker-1"]));
    assert!(page.contains("4 vCPU, 8 GiB of memory"), "{page}");
    assert!(page.contains("pending      memory: 12288 from its next start on"), "{page}");

    let allowed = more("  environment: lab ");
    let (code, said) = planned(&allowed, &lab);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("restart VM 303"), "{said}");
    assert!(said.contains("Restarts worker-1."), "{said}");
    assert!(said.ends_with("1 to change, 0 to destroy, 1 VM to restart."), "{said}");
    good(&allowed.run(&lab, &["apply", "--yes"]));
    let (code, said) = planned(&allowed, &lab);
    assert_eq!(code, Some(0), "{said}");
    let page = good(&allowed.run(&lab, &["node", "show", "worker-1"]));
    assert!(page.contains("4 vCPU, 12 GiB of memory") && !page.contains("pending"), "{page}");
}

/// What could not be seen is not called as declared: it is named, and both commands tell scripts of it.
#[test]
fn what_could_not_be_seen_is_named_and_told_by_the_exit_code() {
    let lab = Lab::new();
    let small = with(&[]);
    good(&small.run(&lab, &["apply", "--yes"]));
    lab.tamper(|world| world["datacenter"]["vms"]["303"]["config"]["lock"] = "backup".into());
    let (code, said) = planned(&small, &lab);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("No changes: what could be seen of cluster home is as declared"), "{said}");
    assert!(said.ends_with("Not seen: VM 303 on host atlas."), "{said}");
    let plan = small.json(&lab, &["plan"]);
    assert_eq!(plan["notSeen"], serde_json::json!(["VM 303 on host atlas"]), "{plan:#}");
    let status = small.run(&lab, &["status", "--detailed-exitcode"]);
    assert_eq!(status.status.code(), Some(2), "{}", text(&status.stdout));
}

/// What a node differs in that was off is seen only once it runs: the last line, the JSON and the exit code tell of that.
#[test]
fn an_apply_ends_with_what_is_true_after_nodes_were_started() {
    let lab = Lab::new();
    good(&with(&[]).run(&lab, &["apply", "--yes"]));
    let newer = with(&[("version: v1.12.0", "version: v1.12.1")]);
    let off = || lab.tamper(|world| world["datacenter"]["vms"]["303"]["running"] = serde_json::Value::Null);
    off();
    let (_, said) = planned(&newer, &lab);
    assert!(said.contains("1 difference on 1 node stays"), "{said}");
    let said = flat(&newer.run(&lab, &["apply", "--yes"]).stdout);
    assert!(said.contains("Cluster home is up: 2 nodes Ready; 2 differences on 2 nodes stay"), "{said}");
    off();
    let ended = newer.json(&lab, &["apply", "--yes"]);
    assert_eq!(ended["differences"].as_array().unwrap().len(), 2, "{ended:#}");
}

/// Somebody gives a VM another name.
fn rename(lab: &Lab, vmid: u32, name: &str) {
    let update = daedal_proxmox::UpdateVm::new().set("name", name);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        lab.root("https://atlas.lan:8006").await.update_vm("atlas", vmid, &update).await.unwrap();
    });
}
