//! The development cluster of the EM-Infra architecture: one host, clones of templates that an ISO installed, no guest agent.
//!
//! Mission gap: I8 — no GitOps agent is given a repository.
//! Mission elsewhere: I11 — tests of `cargo xtask image` read the image back.
//! Mission gap: I12 — no GitOps bootstrap and no image pipeline.
//! Mission gap: I13 — nothing shows the two halves together.

use serde_json::json;

use super::{Step, Walk};
use crate::common::{self, good, root, text};

const STEPS: [Step; 10] = [
    ("I1", folder),
    ("I2", phases),
    ("I7", order),
    ("I3", outputs),
    ("I4", patches),
    ("I5", templates),
    ("I6", clones),
    ("I10", no_drift),
    ("I9", runbook),
    ("I12", more_clusters),
];

const SECOND_WORKER: (&str, &str) = (
    "        - {name: dev-wk-1, vmid: 3000, address: 10.0.10.21}\n",
    "        - {name: dev-wk-1, vmid: 3000, address: 10.0.10.21}\n        - {name: dev-wk-2, vmid: 3001, address: 10.0.10.22}\n",
);
const NO_WORKER: (&str, &str) =
    ("      nodes:\n        - {name: dev-wk-1, vmid: 3000, address: 10.0.10.21}\n", "      count: 0\n");

#[test]
fn the_development_cluster() {
    Walk::new("em-infra/cluster.yaml", &[], &[]).through(&STEPS);
}

/// Mission: I1 — the folder and the one document are the same cluster
fn folder(walk: &Walk) {
    let resolved = |name: &str| {
        let file = root().join("examples/em-infra").join(name).display().to_string();
        good(&common::daedal(["inventory", "show", "--resolved", "-o", "json", "-f", &file]))
    };
    // They name the same patches from where they are.
    let document = resolved("cluster.yaml").replace("inventory/dev/patches/", "patches/");
    assert_eq!(resolved("inventory/dev"), document);
    in_its_shape(walk);
}

/// The folder as the team has it, with its secrets in `secrets.sops.yaml`: it is recognised, and a cluster is made of it.
fn in_its_shape(walk: &Walk) {
    let folder = walk.folder.path().join("inventory/dev");
    let (ca, proxy) = (walk.served.announced("ca"), walk.served.announced("proxy"));
    let cluster = std::fs::read_to_string(folder.join("cluster.yaml")).unwrap();
    let mut text = String::new();
    for line in cluster.lines().filter(|line| !line.trim().starts_with("token_secret:")) {
        match line.trim().starts_with("fingerprint:") {
            true => text.push_str(&format!("  ca: \"{ca}\"\n")),
            false => text.push_str(&format!("{line}\n")),
        }
    }
    text.push_str(&format!("  reach: {{proxy: \"{proxy}\"}}\n  talos: {{factoryTls: {{ca: \"{ca}\"}}}}\n"));
    std::fs::write(folder.join("cluster.yaml"), text).unwrap();
    walk.seal("inventory/dev/secrets.sops.yaml", &format!("proxmox_token_secret: {}\n", walk.served.token()));
    let run =
        |words: &[&str]| walk.command(words, &folder).env_remove("PROXMOX_TOKEN_SECRET").output().unwrap();
    assert!(good(&run(&["apply", "--yes"])).contains("Cluster dev is up: 2 nodes Ready"));
    let secrets = std::fs::read_to_string(folder.join("secrets.sops.yaml")).unwrap();
    assert!(secrets.contains("certs:") && !secrets.contains(&walk.served.token()), "{secrets}");
    assert!(good(&run(&["outputs"])).contains("generated/dev-wk-1.yaml"));
    good(&run(&["plan", "--detailed-exitcode"]));
    good(&run(&["destroy", "--confirm", "dev"]));
    good(&run(&["templates", "prune", "--all", "--yes"]));
}

/// Another cluster on the same host.
const STAGE: [(&str, &str); 4] = [
    ("  name: dev", "  name: stage"),
    (
        "{name: dev-cp-1, vmid: 2000, address: 10.0.10.11}",
        "{name: stage-cp-1, vmid: 2200, address: 10.0.10.41}",
    ),
    NO_WORKER,
    ("template: {made: iso}", "template: {made: iso, controlplane: 2998, worker: 2999}"),
];

/// Mission: I2, I9 — the phases one by one, and the cluster created again with one command
fn phases(walk: &Walk) {
    let stage = walk.beside("stage", &STAGE);
    walk.by_phases(&stage);
    let secrets = || good(&walk.run_on(&["secrets", "export", "--stdout"], &stage));
    let before = secrets();
    let refused = walk.run_on(&["recreate"], &stage);
    assert_eq!(refused.status.code(), Some(64), "it asks: {}", text(&refused.stderr));
    good(&walk.run_on(&["recreate", "--confirm", "stage"], &stage));
    assert_eq!(secrets(), before);
    let plan = walk.run_on(&["plan", "--detailed-exitcode"], &stage);
    assert_eq!(plan.status.code(), Some(0), "{}", text(&plan.stdout));
    good(&walk.run_on(&["destroy", "--confirm", "stage"], &stage));
}

/// Mission: I7
fn order(walk: &Walk) {
    let api = walk.time(Some("dev-cp-1"), "booting Talos", "end");
    assert!(walk.time(Some("dev-cp-1"), "bootstrapping etcd", "start") >= api);
    assert!(
        walk.time(Some("dev-wk-1"), "becoming Ready", "end")
            >= walk.time(None, "reaching the API server", "end")
    );
    assert_eq!(walk.column("ready"), ["Ready", "Ready"]);
    assert!(walk.output("kubeconfig").contains("https://10.0.10.11:6443"));
}

/// Mission: I3
fn outputs(walk: &Walk) {
    for node in ["dev-cp-1", "dev-wk-1"] {
        assert!(walk.output(&format!("{node}.yaml")).contains("v1alpha1"), "{node}");
    }
    let files = walk.json(&["outputs"])["files"].to_string();
    for name in ["generated/dev-cp-1.yaml", "generated/dev-wk-1.yaml", "talos-machines.auto.tfvars.json"] {
        assert!(files.contains(&format!("\"{name}\"")), "{name} in {files}");
    }
    let machines: serde_json::Value = serde_json::from_str(&walk.output("machines.json")).unwrap();
    assert_eq!(machines[1]["address"], "10.0.10.21", "{machines:#}");
    let variables = walk.output("talos-machines.auto.tfvars.json");
    let variables: serde_json::Value = serde_json::from_str(&variables).unwrap();
    assert_eq!(variables["talos_machines"]["dev-wk-1"]["vmid"], 3000, "{variables:#}");
}

/// Mission: I4
fn patches(walk: &Walk) {
    for node in ["dev-cp-1", "dev-wk-1"] {
        assert!(
            walk.output(&format!("{node}.yaml")).contains("rotate-server-certificates: \"true\""),
            "{node}"
        );
    }
}

/// Mission: I5
fn templates(walk: &Walk) {
    let list = walk.say(&["templates", "list"]);
    for (vmid, role) in [("998", "control plane"), ("999", "worker")] {
        let row = list.lines().find(|line| line.starts_with(vmid)).unwrap_or_else(|| panic!("{list}"));
        assert!(row.contains(role) && row.contains("current") && row.contains("talos-v1-8-2-"), "{row}");
    }
    let isos = walk.served.files("https://pve1.lan:8006", "local", "iso");
    assert!(isos.iter().any(|volume| volume.contains("talos-v1.8.2-")), "{isos:?}");
    assert!(!isos.iter().any(|volume| volume.contains("daedal-dev")), "configs are gone: {isos:?}");
}

/// Mission: I6
fn clones(walk: &Walk) {
    for (node, vmid, disk) in [("dev-cp-1", 2000, 40_u64), ("dev-wk-1", 3000, 60)] {
        let seen = walk.node(node);
        let vm = &seen["proxmox"]["seen"];
        assert_eq!(
            (&vm["vmid"], &vm["cores"], &vm["memory"]),
            (&json!(vmid), &json!(4), &json!(8_u64 << 30))
        );
        assert_eq!(vm["disks"]["scsi0"]["size"], json!(disk << 30), "{vm:#}");
        assert_eq!(vm["media"], json!([]), "the config medium is gone");
        let extensions = seen["talos"]["seen"]["extensions"].to_string();
        assert!(!extensions.contains("qemu-guest-agent"), "{extensions}");
    }
}

/// Mission: I10
fn no_drift(walk: &Walk) {
    walk.as_declared();
    assert_eq!(walk.json(&["apply", "--yes"])["changed"], false);
}

/// Mission: I9 — scale workers, replace a node
fn runbook(walk: &Walk) {
    let two = walk.variant("two", &[SECOND_WORKER]);
    let said = good(&walk.run_on(&["apply", "--yes"], &two));
    assert!(said.contains("3 nodes Ready"), "{said}");
    walk.say(&["node", "remove", "dev-wk-2", "--yes"]);
    walk.say(&["apply", "--yes"]);
    // Replaced: the old one goes, a new one takes its place.
    let machine = walk.output("machines.json");
    let none = walk.variant("none", &[NO_WORKER]);
    let said = good(&walk.run_on(&["node", "remove", "dev-wk-1", "--yes"], &none));
    assert!(said.contains("dev-wk-1 is gone"), "{said}");
    let said = walk.say(&["apply", "--yes"]);
    assert!(said.contains("1 VM created"), "{said}");
    assert_eq!(machine, walk.output("machines.json"));
    walk.as_declared();
}

/// Mission: I12 — several clusters, and three control planes
fn more_clusters(walk: &Walk) {
    let ha = [
        ("  name: dev", "  name: prod"),
        (
            "        - {name: dev-cp-1, vmid: 2000, address: 10.0.10.11}\n",
            "        - {name: prod-cp-1, vmid: 2100, address: 10.0.10.31}\n        - {name: prod-cp-2, vmid: 2101, address: 10.0.10.32}\n        - {name: prod-cp-3, vmid: 2102, address: 10.0.10.33}\n",
        ),
        NO_WORKER,
        ("template: {made: iso}", "template: {made: iso, controlplane: 1998, worker: 1999}"),
        ("    gateway: 10.0.10.1\n", "    gateway: 10.0.10.1\n    vip: 10.0.10.30\n"),
    ];
    let prod = walk.beside("prod", &ha);
    let both = |words: &[&str]| {
        let mut command = walk.command(words, &prod);
        command.arg("-f").arg(walk.folder.path().join("cluster.yaml")).arg("--all").output().unwrap()
    };
    good(&both(&["apply", "--yes"]));
    let status = good(&both(&["status", "-o", "json"]));
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let healthy: Vec<_> =
        status["clusters"].as_array().unwrap().iter().map(|one| &one["result"]["healthy"]).collect();
    assert_eq!(healthy, [&json!(true), &json!(true)], "{status:#}");
    let gone = walk.run_on(&["destroy", "--confirm", "prod"], &prod);
    assert!(gone.status.success(), "{}", text(&gone.stderr));
}
