//! The cluster on an internal network that only its Proxmox host sees: everything here goes through SSH on that host.
//!
//! Mission gap: F6 — the example does not declare Cilium yet.
//! Mission gap: F12 — nothing is handed over to Argo CD.

use std::net::TcpListener;

use serde_json::json;

use super::{Step, Walk, copy_folders};
use crate::common::{good, text};

const STEPS: [Step; 11] = [
    ("F10", one_file),
    ("F3", reservations),
    ("F7", through_ssh),
    ("F2", iso),
    ("F4", host_names),
    ("F5", longhorn),
    ("F9", patches),
    ("F11", table),
    ("F8", reused),
    ("F13", later),
    ("F1", one_command_each),
];

#[test]
fn the_internal_cluster() {
    // This machine reaches the SSH server and an Image Factory, and nothing else.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let factory = format!("version: v1.12.4\n    factory: \"https://127.0.0.1:{port}\"");
    let ssh = "ssh: {host: 127.0.0.1, port: {ssh}, user: root, key: \"{key}\", proxmox: true}";
    let edits =
        [("version: v1.12.4", factory.as_str()), ("ssh: {host: fluodata.example.com, user: root}", ssh)];
    let walk = Walk::new("fluodata/cluster.yaml", &edits, &[]);
    let line = std::fs::read_to_string(walk.served.announced("sshKnownHosts")).unwrap();
    let at = walk.served.announced("ssh").rsplit(':').next().unwrap();
    std::fs::create_dir_all(walk.folder.path().join(".ssh")).unwrap();
    let known = format!("[127.0.0.1]:{at} {}", line.split_once(' ').unwrap().1);
    std::fs::write(walk.folder.path().join(".ssh/known_hosts"), known).unwrap();
    walk.through(&STEPS);
}

/// Mission: F10
fn one_file(walk: &Walk) {
    assert_eq!(walk.json(&["check"])["cluster"], "fluodata");
}

/// Mission: F3
fn reservations(walk: &Walk) {
    let said = walk.say(&["outputs", "dnsmasq"]);
    for wanted in [",10.10.0.10,cp-0", ",10.10.0.20,worker-0", ",10.10.0.21,worker-1"] {
        let line = said.lines().find(|line| line.ends_with(wanted)).unwrap_or_else(|| panic!("{said}"));
        assert!(line.starts_with("dhcp-host=02:"), "{line}");
    }
}

/// Mission: F7
fn through_ssh(walk: &Walk) {
    assert!(walk.text.contains("reach: {ssh: ") && !walk.text.contains("proxy"), "{}", walk.text);
    assert_eq!(walk.column("ready"), ["Ready", "Ready", "Ready"]);
    walk.as_declared();
}

/// Mission: F2
fn iso(walk: &Walk) {
    let steps = walk.applied()["steps"].to_string();
    assert!(steps.contains("measuring the image") && steps.contains("downloading the image"), "{steps}");
    assert_eq!(walk.vm("cp-0")["media"], json!([]));
}

/// Mission: F4
fn host_names(walk: &Walk) {
    for node in ["cp-0", "worker-0", "worker-1"] {
        assert!(!walk.output(&format!("{node}.yaml")).contains("\nhostname: "), "{node}");
        assert_eq!(walk.node(node)["kubernetes"]["seen"]["name"], node, "as DHCP says");
    }
}

/// Mission: F5
fn longhorn(walk: &Walk) {
    let worker = walk.node("worker-1");
    assert_eq!(worker["proxmox"]["seen"]["disks"]["scsi1"]["size"], json!(20_u64 << 30), "{worker:#}");
    let extensions = worker["talos"]["seen"]["extensions"].to_string();
    assert!(extensions.contains("iscsi-tools") && extensions.contains("util-linux-tools"), "{extensions}");
    assert!(walk.output("worker-1.yaml").contains("kind: UserVolumeConfig\nname: longhorn"));
    assert!(walk.vm("cp-0")["disks"]["scsi1"].is_null());
}

/// Mission: F9
fn patches(walk: &Walk) {
    for (node, patched) in [("cp-0", false), ("worker-0", true), ("worker-1", true)] {
        assert_eq!(walk.output(&format!("{node}.yaml")).contains("/var/mnt/longhorn"), patched, "{node}");
    }
    let one = "{name: worker-1, vmid: 121, address: 10.10.0.21, patches: [{inline: \"machine: {sysctls: {vm.swappiness: '1'}}\"}]}";
    let file = walk.variant("one", &[("{name: worker-1, vmid: 121, address: 10.10.0.21}", one)]);
    let plan = good(&walk.run_on(&["plan"], &file));
    assert!(
        plan.contains("~ worker-1") && !plan.contains("~ worker-0") && plan.contains("vm.swappiness"),
        "{plan}"
    );
}

/// Mission: F11
fn table(walk: &Walk) {
    for (node, vmid, address, cores, gib) in [
        ("cp-0", 110, "10.10.0.10", 2, 4_u64),
        ("worker-0", 120, "10.10.0.20", 4, 8),
        ("worker-1", 121, "10.10.0.21", 4, 8),
    ] {
        let seen = walk.node(node);
        let vm = &seen["proxmox"]["seen"];
        assert_eq!((&seen["address"], &vm["vmid"]), (&json!(address), &json!(vmid)));
        assert_eq!((&vm["cores"], &vm["memory"]), (&json!(cores), &json!(gib << 30)));
        assert_eq!(vm["disks"]["scsi0"]["size"], json!(20_u64 << 30));
        assert_eq!(vm["nics"]["net0"]["bridge"], "vmbr1");
    }
}

/// Mission: F8
fn reused(walk: &Walk) {
    // Another machine: the inventory and the store, brought along.
    let elsewhere = tempfile::tempdir().unwrap();
    copy_folders(walk.folder.path(), elsewhere.path());
    let file = elsewhere.path().join("cluster.yaml");
    std::fs::write(&file, &walk.text).unwrap();
    let theirs = good(&walk.run_on(&["secrets", "export", "--stdout"], &file));
    assert_eq!(theirs, walk.say(&["secrets", "export", "--stdout"]));
}

/// Mission: F13 — several hosts, secrets in a SOPS file, a plan that is approved by its id
fn later(walk: &Walk) {
    walk.seal("later.sops.yaml", &format!("proxmox: {{token: {}}}\n", walk.served.token()));
    let edits = [
        ("  name: fluodata", "  name: later"),
        ("hosts: [fluodata]", "hosts: [fluodata, second]"),
        (
            "secret: {env: PROXMOX_TOKEN_SECRET}",
            "secret: {sops: {file: later.sops.yaml, key: proxmox.token}}",
        ),
        ("cp-0, vmid: 110, address: 10.10.0.10", "cp-5, vmid: 150, address: 10.10.0.50"),
        ("worker-0, vmid: 120, address: 10.10.0.20", "worker-5, vmid: 160, address: 10.10.0.60"),
        ("worker-1, vmid: 121, address: 10.10.0.21", "worker-6, vmid: 161, address: 10.10.0.61"),
    ];
    let file = walk.beside("later", &edits);
    let run =
        |words: &[&str]| walk.command(words, &file).env_remove("PROXMOX_TOKEN_SECRET").output().unwrap();
    let found: serde_json::Value =
        serde_json::from_str(&good(&run(&["check", "--format", "sarif"]))).unwrap();
    assert_eq!(found["version"], "2.1.0", "{found:#}");
    let plan = walk.folder.path().join("later.plan.json").display().to_string();
    let planned = good(&run(&["plan", "--save", &plan, "-o", "json"]));
    let planned: serde_json::Value = serde_json::from_str(&planned).unwrap();
    let id = planned["id"].as_str().unwrap();
    let refused = run(&["apply", &plan, "--expect", "00000000", "--yes"]);
    assert!(!refused.status.success(), "{}", text(&refused.stdout));
    good(&run(&["apply", &plan, "--expect", id, "--yes"]));
    let status: serde_json::Value = serde_json::from_str(&good(&run(&["status", "-o", "json"]))).unwrap();
    let hosts: std::collections::BTreeSet<_> =
        status["nodes"].as_array().unwrap().iter().filter_map(|node| node["host"].as_str()).collect();
    assert_eq!((&status["healthy"], hosts.len()), (&json!(true), 2), "{status:#}");
    good(&run(&["destroy", "--confirm", "later"]));
}

/// Mission: F1
fn one_command_each(walk: &Walk) {
    let report = walk.json(&["destroy", "--confirm", "fluodata"]);
    let steps = report["steps"].as_array().unwrap();
    let stages: std::collections::BTreeSet<_> =
        steps.iter().filter_map(|step| step["stage"].as_str()).collect();
    assert!(
        stages.contains("stopping the VM") && !stages.iter().any(|stage| stage.contains("shut")),
        "{stages:?}"
    );
    assert_eq!(walk.column("vm"), ["absent", "absent", "absent"]);
    let again = walk.run(&["destroy", "--confirm", "fluodata"]);
    assert!(again.status.success(), "{}", text(&again.stderr));
}
