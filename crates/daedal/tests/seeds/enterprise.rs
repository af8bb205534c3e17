//! The enterprise cluster: three unequal hosts, an ISO, DHCP and guest agents, state in a bucket and secrets in a Vault.
//!
//! Mission gap: E20 — nothing exports logs and metrics.
//! Mission gap: E22 — nothing schedules etcd snapshots.

use serde_json::json;

use super::{Step, Walk, behind};
use crate::common::{self, good, text};
use crate::stores::server::{ACCESS_KEY, S3Server};
use crate::stores::vault::{ROOT, VaultServer};
use crate::stores::{listening, serve};

const STEPS: [Step; 20] = [
    ("E1", capacity),
    ("E2", control_planes_first),
    ("E4", pins),
    ("E13", governance),
    ("E15", credentials_apart),
    ("E3", interleaved),
    ("E5", discovered),
    ("E8", order),
    ("E9", artifacts),
    ("E7", configs_by_role),
    ("E10", numbers),
    ("E11", detached),
    ("E12", settings),
    ("E14", named_iso),
    ("E16", shared_state),
    ("E17", from_the_vault),
    ("E18", static_addresses),
    ("E19", firewall),
    ("E21", approval),
    ("E22", backups),
];

#[test]
fn the_enterprise_cluster() {
    let (bucket, vault) = (S3Server::new(), VaultServer::new());
    let s3_at = format!("http://{}", serve(&bucket));
    let serving = vault.clone();
    let vault_at = format!("http://{}", listening(async move { serving.listen().await }));
    let edits = [
        ("https://s3.example.com", s3_at.as_str()),
        ("bucket: platform-clusters", "bucket: states"),
        ("https://vault.example.com:8200", &vault_at),
    ];
    let variables = [
        ("AWS_ACCESS_KEY_ID", ACCESS_KEY),
        ("AWS_SECRET_ACCESS_KEY", "hunter2-secret"),
        ("VAULT_TOKEN", ROOT),
    ];
    let walk = Walk::new("enterprise/cluster.yaml", &edits, &variables);
    vault.write("platform/proxmox", Some(json!({"token": walk.served.token()})));
    walk.through(&STEPS);
    once_and_unique(&walk);
}

/// Mission: E1
fn capacity(walk: &Walk) {
    walk.refused(
        &["apply", "--yes"],
        &[("memory: 24GiB", "memory: 96GiB")],
        1,
        &["pve-c: memory: wanted 96 GiB, free 56 GiB", "no host left for worker-3"],
    );
    let status = walk.json(&["status"]);
    assert!(status["nodes"].as_array().unwrap().iter().all(|node| node["vm"] == "absent"), "{status:#}");
}

/// Mission: E2
fn control_planes_first(walk: &Walk) {
    // The third host has room for its control plane and no worker.
    let file = walk.variant("tight", &[("cores: 16, memory: 64GiB", "cores: 16, memory: 24GiB")]);
    let plan = good(&walk.run_on(&["plan", "-o", "json"], &file));
    let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
    let hosts: Vec<_> = plan["nodes"].as_array().unwrap().iter().map(|node| &node["host"]).collect();
    let [a, b, c] = ["pve-a", "pve-b", "pve-c"];
    assert_eq!(hosts, [a, b, c, a, b, a, b, a, b]);
}

/// Mission: E4
fn pins(walk: &Walk) {
    walk.refused(
        &["check"],
        &[("strategy: spread", "strategy: pin")],
        65,
        &["every node needs a host", "`worker-1`"],
    );
    walk.refused(&["check"], &[("cp-3: pve-c", "cp-3: pve-x")], 65, &["pve-x"]);
}

/// Mission: E13
fn governance(walk: &Walk) {
    walk.refused(&["check"], &[("count: 3", "count: 2")], 65, &["odd"]);
    let alone = [("count: 3", "count: 1"), ("      cp-2: pve-b\n      cp-3: pve-c\n", "")];
    walk.refused(&["check"], &alone, 65, &["High availability (`ha: true`) needs at least 3 control planes"]);
}

/// Mission: E15
fn credentials_apart(walk: &Walk) {
    let token = walk.served.token();
    assert!(!walk.text.contains(&token));
    let secret = "secret: {vault: {path: secret/platform/proxmox, key: token}}";
    let inline = format!("secret: {token}");
    let ran = walk.run_on(&["check"], &walk.variant("inline", &[(secret, &inline)]));
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(65), "{said}");
    assert!(said.contains("kept in version control") && !said.contains(&token), "{said}");
}

/// Mission: E3
fn interleaved(walk: &Walk) {
    let [a, b, c] = ["pve-a", "pve-b", "pve-c"];
    assert_eq!(walk.column("host"), [a, b, c, a, b, c, a, b, a]);
}

/// Mission: E5
fn discovered(walk: &Walk) {
    assert!(!walk.text.contains("      address:"), "none is declared");
    for address in walk.column("address") {
        assert!(address.starts_with("10.120.0.1"), "{address}");
    }
    assert!(walk.column("ready").iter().all(|ready| ready == "Ready"));
}

/// Mission: E8
fn order(walk: &Walk) {
    let api = |node| walk.time(Some(node), "booting Talos", "end");
    assert!(walk.time(Some("cp-1"), "giving it its config", "end") <= api("cp-1"));
    assert!(walk.time(Some("worker-1"), "booting Talos", "start") >= api("cp-1"));
    assert!(walk.time(Some("cp-1"), "bootstrapping etcd", "start") >= api("cp-1"));
    let bootstrapped = walk.time(Some("cp-1"), "bootstrapping etcd", "end");
    assert!(walk.time(None, "reaching the API server", "end") >= bootstrapped);
}

/// Mission: E9
fn artifacts(walk: &Walk) {
    walk.applied();
    let files = walk.json(&["outputs"])["files"].to_string();
    for name in ["talosconfig", "kubeconfig", "control-plane.yaml", "worker.yaml", "secrets.yaml"] {
        assert!(files.contains(&format!("\"{name}\"")), "{name} in {files}");
        assert!(!walk.output(name).is_empty());
    }
}

/// Mission: E7
fn configs_by_role(walk: &Walk) {
    for (name, role) in [("control-plane.yaml", "type: controlplane"), ("worker.yaml", "type: worker")] {
        let config = walk.output(name);
        assert!(config.contains(role) && config.contains("https://10.120.0.5:6443"), "{config}");
    }
    // Without a virtual address, the one that the first control plane was given is the endpoint.
    let lone = [
        ("name: platform", "name: lone"),
        ("    vip: 10.120.0.5 ", "    # no vip "),
        ("  ha: true ", "  ha: false "),
        ("  protect: true ", "  protect: false "),
        ("count: 3", "count: 1"),
        ("count: 6", "count: 0"),
        ("vmid: 401", "vmid: 601"),
        ("vmid: 501", "vmid: 701"),
        ("    pin:\n      cp-1: pve-a\n      cp-2: pve-b\n      cp-3: pve-c\n", ""),
    ];
    let file = walk.beside("lone", &lone);
    good(&walk.run_on(&["apply", "--yes"], &file));
    let status = good(&walk.run_on(&["status", "-o", "json"], &file));
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let first = status["nodes"][0]["address"].as_str().unwrap();
    assert_eq!(status["endpoint"], format!("https://{first}:6443"), "{status:#}");
}

/// Mission: E10
fn numbers(walk: &Walk) {
    let wanted = ["401", "402", "403", "501", "502", "503", "504", "505", "506"];
    assert_eq!(walk.column("vmid"), wanted);
}

/// Mission: E11
fn detached(walk: &Walk) {
    for node in ["cp-1", "worker-6"] {
        assert_eq!(walk.vm(node)["media"], json!([]), "{node}");
    }
    walk.as_declared();
}

/// Mission: E12
fn settings(walk: &Walk) {
    let vm = walk.vm("worker-1");
    let card = &vm["nics"]["net0"];
    assert_eq!((&card["bridge"], &card["vlan"]), (&json!("vmbr1"), &json!(120)));
    assert!(vm["disks"]["scsi0"]["volume"].as_str().unwrap().starts_with("ceph-vm:"), "{vm:#}");
    let ca = format!("tls: {{ca: \"{}\"}}", walk.served.announced("ca"));
    let ran = walk.run_on(&["check"], &walk.variant("insecure", &[(&ca, "tls: {insecure: true}")]));
    good(&ran);
    assert!(text(&ran.stderr).contains("is not verified"), "{}", text(&ran.stderr));
}

/// Mission: E14
fn named_iso(walk: &Walk) {
    let steps = walk.applied()["steps"].to_string();
    assert!(!steps.contains("downloading the image") && !steps.contains("measuring the image"), "{steps}");
    // Where it is missing, nothing is created.
    let other = [("talos-1.9.0.iso", "talos-1.9.1.iso"), ("count: 6", "count: 7")];
    let ran = walk.run_on(&["plan"], &walk.variant("other", &other));
    let said = text(&ran.stdout) + &text(&ran.stderr);
    assert!(said.contains("talos-1.9.1.iso is missing on storage local"), "{said}");
}

/// Mission: E16
fn shared_state(walk: &Walk) {
    let shown = walk.say(&["secrets", "show"]);
    assert!(shown.contains("s3://states/talos/platform"), "{shown}");
    // Somebody else, in another folder: the same cluster, and nothing to do.
    let elsewhere = tempfile::tempdir().unwrap();
    let file = elsewhere.path().join("cluster.yaml");
    std::fs::write(&file, &walk.text).unwrap();
    let plan = good(&walk.run_on(&["plan"], &file));
    assert!(
        plan.contains("0 to create, 0 to change, 0 to destroy."),
        "only the output files are not there: {plan}"
    );
    let theirs = good(&walk.run_on(&["secrets", "export", "--stdout"], &file));
    assert_eq!(theirs, walk.say(&["secrets", "export", "--stdout"]));
}

/// Mission: E17
fn from_the_vault(walk: &Walk) {
    walk.refused(
        &["plan"],
        &[("key: token}", "key: tokn}")],
        78,
        &["has no key `tokn`", "It has these keys: token"],
    );
}

/// Mission: E18
fn static_addresses(walk: &Walk) {
    assert_eq!(walk.json(&["status"])["endpoint"], "https://10.120.0.5:6443");
    let declared = [
        ("    dhcp: discovered ", "    # told their addresses "),
        ("      vmid: 401", "      address: 10.120.0.11\n      vmid: 401"),
        ("      vmid: 501", "      address: 10.120.0.21\n      vmid: 501"),
        ("    config: maintenance", "    config: cidata"),
    ];
    let file = walk.variant("static", &declared);
    let resolved = good(&common::daedal(["inventory", "show", "--resolved", "-f", file.to_str().unwrap()]));
    for address in ["10.120.0.11/22", "10.120.0.13/22", "10.120.0.21/22", "10.120.0.26/22"] {
        assert!(resolved.contains(address), "{resolved}");
    }
}

/// Mission: E19
fn firewall(walk: &Walk) {
    let said = walk.say(&["proxmox", "firewall", "--yes"]);
    assert!(said.contains("9 firewalls turned on"), "{said}");
    assert_eq!(walk.vm("cp-1")["nics"]["net0"]["firewall"], true);
    let again = walk.say(&["proxmox", "firewall"]);
    assert!(again.contains("No changes: "), "{again}");
    walk.as_declared();
}

/// Mission: E21
fn approval(walk: &Walk) {
    let sarif = text(&walk.run(&["check", "--format", "sarif"]).stdout);
    assert!(sarif.contains("\"2.1.0\"") && sarif.contains("no-ingress-firewall"), "{sarif}");
    let file = walk.folder.path().join("plan.json");
    walk.say(&["plan", "--save", file.to_str().unwrap()]);
    let mut apply = common::command(["apply", "--expect", "000000000000"]);
    let ran = apply.arg(&file).envs(walk.variables.clone()).output().unwrap();
    let said = text(&ran.stderr);
    assert!(!ran.status.success() && said.contains("000000000000 was expected; nothing was done"), "{said}");
}

/// Mission: E22
fn backups(walk: &Walk) {
    let (secret, file) = (walk.folder.path().join("token.secret"), walk.folder.path().join("cluster.yaml"));
    std::fs::write(&secret, walk.served.token()).unwrap();
    std::fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let mut setup = walk.command(&["proxmox", "setup", "--with", "backup", "--yes"], &file);
    setup.arg("--secret-file").arg(&secret).env("PROXMOX_ADMIN_SECRET", walk.served.token());
    good(&setup.output().unwrap());
    let made = walk.say(&["proxmox", "backup-job", "--storage", "local", "--yes"]);
    assert!(made.contains("1 backup job created"), "{made}");
    let taken = walk.say(&["backup", "create"]);
    assert!(taken.contains("checksum verified"), "{taken}");
    let list = walk.json(&["backup", "list"]);
    assert_eq!(list.as_array().unwrap().len(), 1, "{list:#}");
}

/// Mission: E6
fn once_and_unique(walk: &Walk) {
    let before = walk.say(&["secrets", "export", "--stdout"]);
    walk.say(&["apply", "--yes"]);
    assert_eq!(before, walk.say(&["secrets", "export", "--stdout"]));
    let lone = good(&walk.run_on(&["secrets", "export", "--stdout"], &walk.folder.path().join("lone.yaml")));
    for key in ["id:", "token:"] {
        assert_ne!(behind(&before, key), behind(&lone, key));
    }
    // It is protected: nothing of it can be destroyed.
    walk.refused(&["destroy", "--confirm", "platform"], &[], 1, &["protect"]);
}
