//! What the mission asks for, shown through the command line against the lab. `docs/mission.md` names these tests.

use crate::common;

use common::{BESIDE, Changed, Lab, SMALL, daedal, good, root, text};
use serde_json::Value;

fn hosts_of(status: &Value) -> Vec<(String, String)> {
    let nodes = status["nodes"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    nodes.iter().map(|node| (text(&node["node"]), text(&node["host"]))).collect()
}

/// Requested against declared capacity, and against what the hosts really have; host, resource, wanted, free.
/// Mission: E1
#[test]
fn a_shortfall_names_host_resource_wanted_and_free() {
    let lab = Lab::new();
    let declared = Changed::new(
        "home",
        &[("hosts: [atlas] ", "hosts: [{name: atlas, capacity: {cores: 16, memory: 24GiB}}] ")],
    );
    let run = declared.run(&lab, &["plan"]);
    assert_eq!(run.status.code(), Some(1));
    let said = text(&run.stderr);
    assert!(
        said.contains("atlas")
            && said.contains("memory")
            && said.contains("40 GiB")
            && said.contains("24 GiB"),
        "{said}"
    );

    // The lab's host was made for that inventory; a much larger one does not fit on what is really there.
    let real = Changed::new("home", &[("memory: 8GiB", "memory: 512GiB")]);
    let run = real.run(&lab, &["plan"]);
    assert_eq!(run.status.code(), Some(1));
    let said = text(&run.stderr);
    assert!(said.contains("atlas") && said.contains("memory"), "{said}");
    let run = real.run(&lab, &["apply", "--yes"]);
    assert_eq!(run.status.code(), Some(1), "nothing is created");
    assert!(text(&Changed::new("home", &[]).run(&lab, &["status"]).stdout).matches("absent").count() == 5);
}

/// Control planes first and pinned, workers interleaved over unequal hosts, VMIDs by role.
/// Mission: E2, E3, E4, E10, M17
#[test]
fn nodes_are_spread_over_several_hosts_as_declared() {
    let lab = Lab::new();
    let platform = Changed::new("enterprise", &[]);
    good(&platform.run(&lab, &["apply", "--yes"]));
    let status = platform.json(&lab, &["status"]);
    assert_eq!(status["healthy"], true);
    let hosts = hosts_of(&status);
    let expected = [
        ("cp-1", "pve-a"),
        ("cp-2", "pve-b"),
        ("cp-3", "pve-c"),
        ("worker-1", "pve-a"),
        ("worker-2", "pve-b"),
        ("worker-3", "pve-c"),
        ("worker-4", "pve-a"),
        ("worker-5", "pve-b"),
    ];
    for (node, host) in expected {
        assert!(hosts.iter().any(|(n, h)| n == node && h == host), "{node} on {host}: {hosts:?}");
    }
    let vmids: Vec<u64> =
        status["nodes"].as_array().unwrap().iter().map(|n| n["vmid"].as_u64().unwrap()).collect();
    assert_eq!(vmids, [401, 402, 403, 501, 502, 503, 504, 505, 506]);
    // It is protected: nothing of it can be destroyed.
    let run = platform.run(&lab, &["destroy", "--confirm", "platform"]);
    assert_eq!(run.status.code(), Some(1));
    assert!(text(&run.stderr).contains("protect"), "{}", text(&run.stderr));
}

/// Secrets are unique to a cluster, made once, and reused whichever machine runs the tool.
/// Mission: E6, F8
#[test]
fn secrets_are_made_once_and_travel_with_the_store() {
    let lab = Lab::new();
    let first = Changed::new("home", SMALL);
    good(&first.run(&lab, &["apply", "--yes"]));
    let secrets = |cluster: &str| {
        std::fs::read_to_string(lab.dir().join("clusters").join(cluster).join("outputs/secrets.yaml"))
            .unwrap()
    };
    let before = secrets("home");
    good(&first.run(&lab, &["destroy", "--confirm", "home"]));
    good(&first.run(&lab, &["apply", "--yes"]));
    assert_eq!(before, secrets("home"), "made once");

    // Another machine: the same inventory, the store brought along, another folder.
    let elsewhere = tempfile::tempdir().unwrap();
    let copy = elsewhere.path().join("store");
    copy_folder(&lab.dir().join("clusters/home"), &copy);
    let run = first.run(&lab, &["plan", "--detailed-exitcode", "--state", &copy.display().to_string()]);
    assert_eq!(run.status.code(), Some(0), "{}{}", text(&run.stdout), text(&run.stderr));

    // Without the store nothing is overwritten or guessed.
    let empty = elsewhere.path().join("empty").display().to_string();
    let run = first.run(&lab, &["apply", "--yes", "--state", &empty]);
    assert_eq!(run.status.code(), Some(1));
    assert!(text(&run.stderr).contains("secrets"), "{}", text(&run.stderr));

    // A second cluster beside it has secrets of its own.
    let other = Changed::new("home", &[SMALL, BESIDE].concat());
    good(&other.run(&lab, &["apply", "--yes"]));
    assert_ne!(before, secrets("work"));
    assert_eq!(first.run(&lab, &["plan", "--detailed-exitcode"]).status.code(), Some(0), "side by side");
}

/// The table of nodes as VMs, with the workers' disk for Longhorn and what mounts it.
/// Mission: F5, F11
#[test]
fn a_table_of_nodes_becomes_their_vms() {
    let lab = Lab::new();
    let run = |words: &[&str]| lab.run(words, "fluodata");
    good(&run(&["apply", "--yes"]));
    let status: Value = serde_json::from_slice(&run(&["status", "-o", "json"]).stdout).unwrap();
    assert_eq!(status["healthy"], true, "{status}");
    let machines: Value = serde_json::from_str(&good(&run(&["outputs", "machines.json"]))).unwrap();
    let told: Vec<String> = machines
        .as_array()
        .or_else(|| machines["machines"].as_array())
        .unwrap()
        .iter()
        .map(|node| format!("{} {} {}", node["name"], node["vmid"], node["address"]).replace('"', ""))
        .collect();
    for (row, wanted) in
        told.iter().zip(["cp-0 110 10.10.0.10", "worker-0 120 10.10.0.20", "worker-1 121 10.10.0.21"])
    {
        assert!(row.starts_with(wanted), "{told:?}");
    }
    assert_eq!(told.len(), 3);
    for (node, mounts) in [("cp-0.yaml", false), ("worker-0.yaml", true), ("worker-1.yaml", true)] {
        let config = good(&run(&["outputs", node]));
        assert_eq!(config.contains("kind: UserVolumeConfig\nname: longhorn"), mounts, "{node}");
        assert_eq!(config.contains("/var/mnt/longhorn"), mounts, "{node}");
    }
    let plan = run(&["plan", "--detailed-exitcode"]);
    assert_eq!(plan.status.code(), Some(0), "{}", text(&plan.stdout));
}

fn copy_folder(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Control planes, then workers, then etcd once on the first control plane's own address, then
/// the virtual address, then Ready; the media goes as soon as the node has its config.
/// Mission: E8, E11, M8, H3, I7
#[test]
fn the_order_of_a_birth() {
    let lab = Lab::new();
    let home = Changed::new("home", &[]);
    let report = home.json(&lab, &["apply", "--yes"]);
    let steps = report["steps"].as_array().unwrap();
    let time = |node: Option<&str>, stage: &str, edge: &str| {
        steps
            .iter()
            .find(|s| s["node"].as_str() == node && s["stage"] == stage)
            .unwrap_or_else(|| panic!("{node:?} {stage}"))[edge]
            .as_f64()
            .unwrap()
    };
    let first_api = time(Some("cp-1"), "booting Talos", "end");
    for worker in ["worker-1", "worker-2"] {
        assert!(
            time(Some(worker), "booting Talos", "start") >= first_api,
            "{worker} after the control planes"
        );
    }
    assert!(time(Some("cp-1"), "bootstrapping etcd", "start") >= first_api);
    assert_eq!(steps.iter().filter(|s| s["stage"] == "bootstrapping etcd").count(), 1);
    let endpoint = time(None, "reaching the API server", "end");
    for node in ["cp-1", "cp-2", "cp-3", "worker-1", "worker-2"] {
        assert!(time(Some(node), "becoming Ready", "start") >= endpoint, "{node}");
        assert!(
            time(Some(node), "ejecting the config media", "start")
                >= time(Some(node), "booting Talos", "end")
        );
        assert!(
            time(Some(node), "deleting the config media", "start")
                >= time(Some(node), "ejecting the config media", "end")
        );
    }
    // Neither missing media nor anything else is drift.
    assert_eq!(home.run(&lab, &["plan", "--detailed-exitcode"]).status.code(), Some(0));
}

/// Bridge, VLAN and storages are the declared ones; a change of them is seen as drift and carried out.
/// Mission: E12
#[test]
fn a_changed_vlan_and_size_are_seen_and_carried_out() {
    let lab = Lab::new();
    let before = Changed::new("home", &[SMALL, &[("bridge: vmbr0", "bridge: vmbr0\n    vlan: 20")]].concat());
    good(&before.run(&lab, &["apply", "--yes"]));
    assert_eq!(before.run(&lab, &["plan", "--detailed-exitcode"]).status.code(), Some(0));
    let after = Changed::new(
        "home",
        &[SMALL, &[("bridge: vmbr0", "bridge: vmbr0\n    vlan: 30"), ("disk: 60GiB", "disk: 80GiB")]]
            .concat(),
    );
    let plan = good(&after.run(&lab, &["plan"]));
    assert!(plan.contains("20") && plan.contains("30") && plan.contains("80 GiB"), "{plan}");
    good(&after.run(&lab, &["apply", "--yes"]));
    let plan = after.run(&lab, &["plan", "--detailed-exitcode"]);
    assert_eq!(plan.status.code(), Some(0), "{}", text(&plan.stdout));
}

/// `ha` insists on three control planes, an odd number; one control plane without workers is a cluster too.
/// Mission: E13, M12
#[test]
fn counts_are_governed() {
    for (from, to, word) in [
        ("count: 3 ", "count: 2 ", "odd"),
        ("count: 3 ", "count: 0 ", "control plane"),
        ("environment: lab ", "ha: true\n  environment: lab ", ""),
    ] {
        let mut changes = vec![(from, to)];
        if word.is_empty() {
            changes.push(("count: 3 ", "count: 1 "));
        }
        let run = daedal(["check", "-f", &Changed::new("home", &changes).file().display().to_string()]);
        assert_eq!(run.status.code(), Some(65), "{changes:?}");
        assert!(text(&run.stderr).contains(word), "{}", text(&run.stderr));
    }
    let lab = Lab::new();
    let alone = Changed::new("home", &[("count: 3 ", "count: 1 "), ("count: 2\n", "count: 0\n")]);
    good(&alone.run(&lab, &["apply", "--yes"]));
    let status = alone.json(&lab, &["status"]);
    assert_eq!((status["nodes"].as_array().unwrap().len(), &status["healthy"]), (1, &Value::Bool(true)));
}

/// Static addresses and a virtual one; without it, the first control plane is the endpoint; several resolvers.
/// Mission: E7, E18, M4
#[test]
fn the_virtual_address_is_optional() {
    let lab = Lab::new();
    let with = Changed::new("home", &[]);
    good(&with.run(&lab, &["apply", "--yes"]));
    assert_eq!(with.json(&lab, &["status"])["endpoint"], "https://10.0.0.20:6443");
    let config = good(&with.run(&lab, &["outputs", "cp-1.yaml"]));
    for wanted in ["1.1.1.1", "8.8.8.8", "10.0.0.11/16", "10.0.0.20"] {
        assert!(config.contains(wanted), "{wanted}");
    }
    let worker = good(&with.run(&lab, &["outputs", "worker-1.yaml"]));
    assert!(!worker.contains("Layer2VIPConfig"), "the virtual address is for control planes");
    good(&with.run(&lab, &["destroy", "--confirm", "home"]));

    let without = Changed::new("home", &[SMALL, &[("    vip: 10.0.0.20 ", "    # vip: none ")]].concat());
    good(&without.run(&lab, &["apply", "--yes"]));
    let status = without.json(&lab, &["status"]);
    assert_eq!(
        (&status["endpoint"], &status["healthy"]),
        (&"https://10.0.0.11:6443".into(), &Value::Bool(true))
    );
}

/// Addresses counted from the network, VMIDs from ranges; running out is a clear error.
/// Mission: M3, M10
#[test]
fn addresses_and_vmids_are_counted_from_ranges() {
    let file = root().join("examples/modules/cluster.yaml").display().to_string();
    let run = daedal(["inventory", "show", "--resolved", "-o", "json", "-f", &file]);
    let cluster: Value = serde_json::from_str(&good(&run)).unwrap();
    let nodes = cluster["nodes"].as_array().unwrap();
    let of =
        |key: &str| -> Vec<String> { nodes.iter().map(|n| n[key].to_string().replace('"', "")).collect() };
    assert_eq!(of("vmid"), ["2000", "2001", "2002", "3000", "3001", "3002", "3003"]);
    assert_eq!(of("address")[0], "10.20.0.10/24");
    assert_eq!(of("address")[3], "10.20.0.20/24");
    let overflow = Changed::new("modules", &[("vmid: 2000-2999", "vmid: 2000-2001")]);
    let run = daedal(["check", "-f", &overflow.file().display().to_string()]);
    assert_eq!(run.status.code(), Some(65));
    assert!(text(&run.stderr).contains("2000"), "{}", text(&run.stderr));
}

/// MACs are derived, so they are the same on every machine and after every destroy.
/// Mission: H5, H12
#[test]
fn macs_are_deterministic() {
    let lab = Lab::new();
    let home = Changed::new("home", SMALL);
    let macs = || {
        let run = home.run(&lab, &["outputs", "machines.json"]);
        let machines: Value = serde_json::from_str(&good(&run)).unwrap();
        machines.to_string()
    };
    good(&home.run(&lab, &["apply", "--yes"]));
    let first = macs();
    good(&home.run(&lab, &["destroy", "--confirm", "home"]));
    good(&home.run(&lab, &["apply", "--yes"]));
    assert_eq!(first, macs());
    let show = home.json(&lab, &["status"]);
    assert_eq!(show["healthy"], true);
}

/// A run that is interrupted says what is left, exits with 128 and the signal's number, and the next one goes on.
#[test]
fn an_interrupted_apply_says_what_is_left_and_goes_on_later() {
    let mut lab = Lab::slow();
    for (signal, code) in [("-INT", 130), ("-TERM", 143), ("-HUP", 129)] {
        // With its first line of progress it listens.
        let (child, mut progress, mut said) = lab.begin_apply("home");
        let interrupt = std::process::Command::new("kill").args([signal, &child.id().to_string()]).status();
        std::io::Read::read_to_string(&mut progress, &mut said).unwrap();
        let run = child.wait_with_output().unwrap();
        if interrupt.is_err() {
            return; // no kill(1) on this machine
        }
        assert_eq!(run.status.code(), Some(code), "{signal}: {said}");
        assert!(
            said.contains("Stopping") && said.contains("are left") && said.contains("Run it again"),
            "{signal}: {said}"
        );
    }
    lab.hurry();
    good(&lab.run(&["apply", "--yes"], "home"));
    assert_eq!(lab.run(&["plan", "--detailed-exitcode"], "home").status.code(), Some(0));
}

/// A control plane and a worker of a Talos version become Ready, and then there is nothing left to do.
fn becomes_ready(talos: &str, kubernetes: &str) {
    let lab = Lab::new();
    let fewer = [("count: 3 ", "count: 1 "), ("count: 2", "count: 1")];
    let versions = [("version: v1.12.0", talos), ("version: v1.35.0", kubernetes)];
    let versions = versions.map(|(from, to)| (from, format!("version: {to}")));
    let replaced: Vec<(&str, &str)> =
        versions.iter().map(|(from, to)| (*from, to.as_str())).chain(fewer).collect();
    let inventory = Changed::new("home", &replaced);
    let said = good(&inventory.run(&lab, &["apply", "--yes"]));
    assert!(said.contains("2 nodes Ready"), "{said}");
    let status = inventory.json(&lab, &["status"]);
    assert_eq!(status["healthy"], true, "{status:#}");
    let plan = inventory.run(&lab, &["plan", "--detailed-exitcode"]);
    assert_eq!(plan.status.code(), Some(0), "{}", text(&plan.stdout));
}

#[test]
fn talos_1_14_with_its_many_documents_becomes_ready() {
    becomes_ready("v1.14.1", "v1.37.0");
}

#[test]
fn talos_1_12_becomes_ready() {
    becomes_ready("v1.12.0", "v1.35.0");
}

#[test]
fn talos_1_8_with_its_one_document_becomes_ready() {
    becomes_ready("v1.8.4", "v1.31.0");
}
