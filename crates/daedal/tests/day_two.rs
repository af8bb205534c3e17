//! Day two through the command line, in the lab.

use crate::common;

use common::hands::Hands;
use common::{Changed, Lab, good, text};

const FEWER: &[(&str, &str)] = &[("count: 3 ", "count: 1 "), ("count: 2\n", "count: 1\n")];

/// Mission: M21
#[test]
fn a_lowered_count_and_node_remove_scale_a_cluster_down() {
    let lab = Lab::new();
    let whole = Changed::new("home", &[]);
    good(&whole.run(&lab, &["apply", "--yes"]));

    // What is declared stays.
    let refused = whole.run(&lab, &["node", "remove", "worker-2", "--yes"]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("lower its pool's count"), "{said}");

    let fewer = Changed::new("home", FEWER);
    let going = ["node", "remove", "cp-2", "cp-3", "worker-2"];
    let said = good(&fewer.run(&lab, &["plan"]));
    // The command is whole, for this very cluster; three vote as long as none was removed.
    let advised = |said: &str, names: &str| {
        let said: Vec<_> = said.split_whitespace().collect();
        said.join(" ").contains(&format!("daedal node remove {names} --lab --lab-dir "))
    };
    assert!(advised(&said, "cp-3"), "{said}");
    assert!(said.contains("etcd: 3 voting members now, 3 after"), "{said}");
    assert!(said.contains("272 of 800"), "{said}");
    let said = good(&fewer.run(&lab, &["node", "list"]));
    assert!(said.contains("cp-3      NO        control plane"), "{said}");
    assert!(advised(&said, "cp-2 cp-3 worker-2"), "{said}");
    let status = fewer.json(&lab, &["status"]);
    assert_eq!(status["undeclared"], serde_json::json!(["cp-2", "cp-3", "worker-2"]), "{status:#}");
    assert!(status["nodes"].as_array().unwrap().iter().any(|node| node["etcd"].is_null()), "{status:#}");
    let said = good(&fewer.run(&lab, &["status"]));
    assert!(said.contains("cp-2, cp-3, worker-2 are there and not declared"), "{said}");

    // Shown only, and not done without a yes.
    let said = good(&fewer.run(&lab, &[&going[..], &["--plan-only"]].concat()));
    assert!(said.contains("etcd: 3 voting members now, 1 after"), "{said}");
    assert!(said.contains("These VMs are destroyed"), "{said}");
    let unasked = fewer.run(&lab, &going);
    assert_eq!(unasked.status.code(), Some(64), "{}", text(&unasked.stderr));
    assert_eq!(fewer.json(&lab, &["node", "list"]).as_array().unwrap().len(), 5);

    let said = good(&fewer.run(&lab, &[&going[..], &["--yes"]].concat()));
    assert!(said.contains("\ncp-2, cp-3, worker-2 are gone from cluster home"), "{said}");
    let list = fewer.json(&lab, &["node", "list"]);
    assert!(list.as_array().unwrap().iter().all(|row| row["declared"] == true), "{list:#}");
    let again = fewer.run(&lab, &[&going[..], &["--yes"]].concat());
    assert_eq!(again.status.code(), Some(66), "{}", text(&again.stderr));
    assert!(text(&again.stderr).contains("nothing is left to remove"), "{}", text(&again.stderr));

    // The rest lives on, and the count can be raised again.
    good(&fewer.run(&lab, &["apply", "--yes"]));
    assert_eq!(fewer.json(&lab, &["status"])["healthy"], true);
    good(&whole.run(&lab, &["apply", "--yes"]));
    assert_eq!(whole.json(&lab, &["status"])["healthy"], true);
    // A protected cluster loses nothing.
    let mut protected = FEWER.to_vec();
    protected.push(("  environment: lab ", "  protect: true\n  environment: lab "));
    let refused = Changed::new("home", &protected).run(&lab, &[&going[..], &["--yes"]].concat());
    assert!(text(&refused.stderr).contains("is protected"), "{}", text(&refused.stderr));
}

/// A removal whose look afterwards finds something of a node does not call it gone.
#[test]
fn a_node_is_gone_only_where_a_look_finds_nothing_of_it() {
    let lab = Lab::new();
    let two = Changed::new("home", &[("count: 3 ", "count: 1 ")]);
    good(&two.run(&lab, &["apply", "--yes"]));
    let mut medium = String::new();
    lab.tamper(|world| {
        // A config medium of the node in the drive of another VM, where no removal takes it away.
        let datacenter = &mut world["datacenter"];
        let notes = datacenter["vms"]["300"]["config"]["description"].as_str().unwrap();
        let cluster: String = notes.split("cluster=").nth(1).unwrap().chars().take(8).collect();
        let file = format!("iso/daedal-home.worker-2.{cluster}-{}.iso", "ab".repeat(6));
        medium = format!("local:{file}");
        let volumes = datacenter["stores"]["atlas/local"]["volumes"].as_object_mut().unwrap();
        let mut volume = volumes.values().next().unwrap().clone();
        (volume["content"], volume["format"]) = ("iso".into(), "iso".into());
        volumes.insert(file, volume);
        datacenter["vms"]["300"]["config"]["ide2"] = format!("{medium},media=cdrom").into();
    });
    let fewer = Changed::new("home", FEWER);
    let run = fewer.run(&lab, &["node", "remove", "worker-2", "--yes"]);
    let said = text(&run.stdout);
    assert_eq!(run.status.code(), Some(1), "{said}");
    let last = said.trim_end().lines().last().unwrap();
    assert_eq!(last, format!("worker-2 is not gone. Left: {medium} on atlas"), "{said}");
    assert!(!said.contains("is gone from"), "{said}");
    assert_eq!(fewer.json(&lab, &["node", "list"]).as_array().unwrap().len(), 2);
}

/// A VM whose notes were overwritten after its node left the inventory runs on: neither command calls it gone.
#[test]
fn a_node_whose_vm_lost_its_mark_is_not_removed() {
    let lab = Lab::new();
    let two = Changed::new("home", &[("count: 3 ", "count: 1 ")]);
    good(&two.run(&lab, &["apply", "--yes"]));
    let hands = Hands::on(&lab);
    hands.set(304, "description", "rack 4, ask Ann");
    let fewer = Changed::new("home", FEWER);
    let list = fewer.run(&lab, &["node", "list"]);
    let said = good(&list).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("mark lost") && !said.contains("absent"), "{said}");
    assert!(!said.contains("node remove") && said.contains("daedal node mark worker-2 --lab"), "{said}");
    let run = fewer.run(&lab, &["node", "remove", "worker-2", "--yes"]);
    let said = text(&run.stdout);
    assert_eq!(run.status.code(), Some(1), "{said}");
    assert!(said.contains("VM 304 \"worker-2\" on atlas may be its VM"), "{said}");
    assert!(!said.contains("is gone") && hands.vm(304).is_some(), "{said}");
    let row = &fewer.json(&lab, &["node", "list"])[2];
    assert_eq!((&row["vm"], &row["ready"]), (&"mark lost".into(), &"Ready".into()), "{row:#}");
    // Declared and marked again, it can go.
    good(&two.run(&lab, &["node", "mark", "worker-2", "--yes"]));
    let said = good(&fewer.run(&lab, &["node", "remove", "worker-2", "--yes"]));
    assert!(said.contains("worker-2 is gone") && hands.vm(304).is_none(), "{said}");
}

/// Mission: E22, H18
#[test]
fn a_backup_is_taken_listed_and_restored_into_a_fresh_cluster() {
    let lab = Lab::new();
    let cluster = Changed::new("home", common::SMALL);
    let none = good(&cluster.run(&lab, &["backup", "list"]));
    assert!(none.contains("There are none"), "{none}");
    good(&cluster.run(&lab, &["apply", "--yes"]));
    let said = good(&cluster.run(&lab, &["backup", "create"]));
    assert!(said.contains("from cp-1") && said.contains("checksum verified"), "{said}");
    let kept = lab.dir().join("other.db");
    let to = kept.display().to_string();
    let made = cluster.json(&lab, &["backup", "create", "--to", &to]);
    assert_eq!(made["backup"]["size"], std::fs::metadata(&kept).unwrap().len());
    let again = cluster.run(&lab, &["backup", "create", "--to", &to]);
    assert_eq!(again.status.code(), Some(73), "{}", text(&again.stderr));
    let list = cluster.json(&lab, &["backup", "list"]);
    assert_eq!(list.as_array().unwrap().len(), 1, "{list:#}");

    // A living cluster keeps what it has; what is no snapshot is refused.
    let refused = cluster.run(&lab, &["backup", "restore", &to, "--yes"]);
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("its etcd lives"), "{}", text(&refused.stderr));
    let other = Changed::new("home", &[common::SMALL, common::BESIDE].concat());
    good(&other.run(&lab, &["apply", "--yes"]));
    let refused = other.run(&lab, &["backup", "restore", &to, "--yes"]);
    assert_eq!(refused.status.code(), Some(65), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("it is of cluster home"), "{}", text(&refused.stderr));
    let missing = cluster.run(&lab, &["backup", "restore", "no-such-file.db", "--yes"]);
    assert_eq!(missing.status.code(), Some(66), "{}", text(&missing.stderr));
    let no_snapshot = lab.dir().join("nothing.db");
    std::fs::write(&no_snapshot, "nothing").unwrap();
    let refused = cluster.run(&lab, &["backup", "restore", &no_snapshot.display().to_string(), "--yes"]);
    assert_eq!(refused.status.code(), Some(65), "{}", text(&refused.stderr));

    good(&cluster.run(&lab, &["destroy", "--confirm", "home"]));
    let said = good(&cluster.run(&lab, &["backup", "restore", &to, "--plan-only"]));
    assert!(said.contains("bootstrap etcd from the snapshot other.db"), "{said}");
    let said = good(&cluster.run(&lab, &["backup", "restore", &to, "--yes"]));
    assert!(said.contains("Cluster home is up: 2 nodes Ready"), "{said}");
    let plan = cluster.run(&lab, &["plan", "--detailed-exitcode"]);
    assert_eq!(plan.status.code(), Some(0), "{}", text(&plan.stdout));
}
