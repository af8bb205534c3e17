//! Whose a VM is: nothing that is not proven ours is destroyed, and nothing that may be ours is called gone.

use crate::common;

use common::hands::Hands;
use common::{Changed, Lab, SMALL, good, text};

#[test]
fn a_vm_whose_notes_were_overwritten_is_left_told_and_can_be_marked_again() {
    let lab = Lab::new();
    let small = Changed::new("home", SMALL);
    good(&small.run(&lab, &["apply", "--yes"]));
    let hands = Hands::on(&lab);
    let marked = hands.notes(303);
    hands.set(303, "description", "rack 4, ask Ann");

    // What may be ours is in the way, and the command that helps is whole.
    let plan = small.run(&lab, &["plan"]);
    let said = text(&plan.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("which may be this node") && said.contains("daedal node mark worker-1 --lab"),
        "{said}"
    );

    // Its firewall is not touched either; that is told, and the others' is turned on.
    let firewall = small.run(&lab, &["proxmox", "firewall", "--yes"]);
    let said = text(&firewall.stdout);
    assert_eq!(firewall.status.code(), Some(1), "{said}");
    assert!(said.contains("worker-1: Its VMID 303 is taken by") && said.contains("1 blocked"), "{said}");
    assert!(said.contains("1 firewall turned on, 4 rules created, 1 IP set created"), "{said}");
    // The last line says the same as the exit code.
    assert!(said.trim_end().ends_with("It is incomplete: see Problems above."), "{said}");
    let filtered = |vmid| hands.vm(vmid).unwrap().1.nics["net0"].firewall;
    assert!(filtered(300) && !filtered(303));

    let destroy = small.run(&lab, &["destroy", "--confirm", "home"]);
    let said = text(&destroy.stdout);
    assert_eq!(destroy.status.code(), Some(1), "{said}");
    assert!(!said.contains("Cluster home is gone"), "{said}");
    let last = said.lines().last().unwrap();
    assert!(last.contains("is not gone") && last.contains("VM 303 \"worker-1\" on"), "{last}");
    assert!(hands.vm(300).is_none() && hands.vm(303).is_some());
    // Once more, with nothing else to do.
    let destroy = small.run(&lab, &["destroy", "--confirm", "home"]);
    let said = text(&destroy.stdout);
    assert_eq!(destroy.status.code(), Some(1), "{said}");
    assert!(said.lines().last().unwrap().contains("VM 303"), "{said}");

    // The mark comes back only where VMID, uuid and MAC agree, and only on a yes.
    let unasked = small.run(&lab, &["node", "mark", "worker-1"]);
    assert_eq!(unasked.status.code(), Some(64), "{}", text(&unasked.stderr));
    assert!(!hands.notes(303).contains("daedal-mark"));
    let only = good(&small.run(&lab, &["node", "mark", "worker-1", "--plan-only"]));
    assert!(only.contains("restore the mark of VM 303") && only.contains("1 mark to restore"), "{only}");
    assert!(!hands.notes(303).contains("daedal-mark"));
    let net = hands.vm(303).unwrap().1.nics["net0"].property_string();
    let mac = hands.vm(303).unwrap().1.nics["net0"].mac.clone().unwrap();
    hands.set(303, "net0", &net.replace(&mac, "02:00:00:00:00:99"));
    let refused = small.run(&lab, &["node", "mark", "worker-1", "--yes"]);
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused.stdout));
    assert!(
        text(&refused.stderr).contains("the MAC of the first network card of VM 303"),
        "{}",
        text(&refused.stderr)
    );
    hands.set(303, "net0", &net);
    let said = good(&small.run(&lab, &["node", "mark", "worker-1", "--yes"]));
    assert!(said.contains("its VMID, SMBIOS uuid and MAC match"), "{said}");
    assert!(said.contains("Talos accepts the keys of this cluster") && said.contains(&mac), "{said}");
    assert!(said.contains("Cluster home: 1 mark restored, 1 step in"), "{said}");
    let notes = hands.notes(303);
    assert!(notes.starts_with("rack 4, ask Ann\n") && notes.contains("daedal-mark cluster="), "{notes}");
    assert!(!marked.contains("rack 4"));
    let again = good(&small.run(&lab, &["node", "mark", "worker-1"]));
    assert_eq!(again.trim_end(), "No changes: the VM of worker-1 has its mark.");
    let journal = std::fs::read_to_string(lab.dir().join("clusters/home/home/journal.jsonl")).unwrap();
    assert!(journal.contains("worker-1: restoring the mark"), "{journal}");

    let said = good(&small.run(&lab, &["destroy", "--confirm", "home"]));
    assert!(said.contains("Cluster home is gone") && hands.vm(303).is_none(), "{said}");
}

/// The same inventory with a store of its own, as on another person's machine.
fn elsewhere(lab: &Lab, name: &str) -> String {
    lab.dir().with_file_name(name).display().to_string()
}

#[test]
fn a_strangers_cluster_of_the_same_name_is_not_destroyed() {
    let lab = Lab::new();
    let small = Changed::new("home", SMALL);
    good(&small.run(&lab, &["apply", "--yes"]));
    let hands = Hands::on(&lab);
    let vms = || [300, 303].map(|vmid| hands.vm(vmid).is_some());
    assert!(hands.notes(300).contains(" secrets="), "{}", hands.notes(300));

    // With an empty store nothing proves whose they are.
    let empty = elsewhere(&lab, "empty");
    for guard in [&["firewall"][..], &["firewall", "--off"]] {
        let refused = small.run(&lab, &[&["proxmox"], guard, &["--yes", "--state", &empty]].concat());
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(said.contains("nothing proves that 2 VMs are this store's"), "{said}");
    }
    let destroy = ["destroy", "--confirm", "home", "--state", &empty];
    let refused = small.run(&lab, &destroy);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("nothing proves that 2 VMs are this store's") && said.contains("VM 300"), "{said}");
    assert!(said.contains("--without-secrets"), "{said}");
    // To say so is not enough: whoever does must know how many they are.
    let unasked = small.run(&lab, &[&destroy[..], &["--without-secrets"]].concat());
    assert_eq!(unasked.status.code(), Some(64), "{}", text(&unasked.stderr));
    assert!(text(&unasked.stdout).contains("cp-1 (VM 300), worker-1 (VM 303)"), "{}", text(&unasked.stdout));
    let wrong = small.run(&lab, &[&destroy[..], &["--without-secrets=5"]].concat());
    assert_eq!(wrong.status.code(), Some(1), "{}", text(&wrong.stderr));
    assert_eq!(vms(), [true, true]);

    // Nor do VMs elsewhere help: with an empty store no apply goes on beside them.
    let other = Changed::new("home", &[SMALL, common::BESIDE, &[("name: work ", "name: home ")]].concat());
    let theirs = elsewhere(&lab, "theirs");
    let elsewhere = other.run(&lab, &["apply", "--yes", "--state", &theirs]);
    let said = text(&elsewhere.stderr);
    assert_eq!(elsewhere.status.code(), Some(1), "{said}");
    assert!(said.contains("secrets of cluster home are not in the store"), "{said}");
    assert_eq!(vms(), [true, true]);

    let gone = good(&small.run(&lab, &[&destroy[..], &["--without-secrets=2"]].concat()));
    assert!(gone.contains("Cluster home is gone"), "{gone}");
    assert_eq!(vms(), [false, false]);
}

/// VMs of another store's secrets, and VMs without a mark, are not asked: nothing is known of their health.
#[test]
fn status_does_not_call_a_cluster_dead_that_it_cannot_ask() {
    let (lab, other) = (Lab::new(), Lab::new());
    let small = Changed::new("home", SMALL);
    for lab in [&lab, &other] {
        good(&small.run(lab, &["apply", "--yes"]));
    }
    let rows = |json: &[u8]| -> Vec<serde_json::Value> {
        let status: serde_json::Value = serde_json::from_slice(json).unwrap();
        assert!(status["healthy"].is_null() && status["asDeclared"].is_null(), "{status:#}");
        status["nodes"].as_array().unwrap().clone()
    };
    // The store of another cluster of the same name.
    let theirs = other.dir().join("clusters/home").display().to_string();
    let key = other.dir().join("clusters/key.txt").display().to_string();
    let status = ["status", "--state", &theirs, "--key", &key];
    let run = small.run(&lab, &status);
    let (said, why) = (text(&run.stdout), text(&run.stderr));
    assert_eq!(run.status.code(), Some(78), "{said}{why}");
    assert!(said.contains("other secrets") && said.contains("2 not proven to be of this cluster"), "{said}");
    assert!(
        why.contains("the VMs were made with other secrets than those of this store (cp-1, worker-1)"),
        "{why}"
    );
    assert!(why.contains("--state DIR") && why.contains("secrets import --replace FILE --lab"), "{why}");
    for row in rows(&small.run(&lab, &[&status[..], &["-o", "json"]].concat()).stdout) {
        assert!(row["running"].is_null() && row["healthy"].is_null(), "{row:#}");
        assert_eq!(row["talos"], "not asked", "{row:#}");
    }

    // One that lost its mark beside one of ours is named with the command that helps.
    let hands = Hands::on(&lab);
    hands.set(303, "description", "rack 4, ask Ann");
    let said = good(&small.run(&lab, &["status"])).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("1 of 2 VMs runs, 1 not proven to be of this cluster"), "{said}");
    assert!(said.contains("1 node is as it should be, 1 node could not be checked"), "{said}");
    assert!(said.contains("daedal node mark worker-1 --lab"), "{said}");
    // Where all have lost theirs, nothing can be asked at all.
    hands.set(300, "description", "rack 4, ask Ann");
    let run = small.run(&lab, &["status"]);
    let why = text(&run.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(run.status.code(), Some(1), "{why}");
    assert!(
        why.contains("the VMs have lost their marks") && why.contains("daedal node mark cp-1 --lab"),
        "{why}"
    );
    let lost = small.run(&lab, &["status", "-o", "json"]);
    assert!(rows(&lost.stdout).iter().all(|row| row["running"].is_null() && row["vm"] == "mark lost"));
}

/// A volume carries no mark: whoever has no secrets does not delete it by a mere yes.
#[test]
fn a_volume_is_not_deleted_without_the_secrets() {
    let lab = Lab::new();
    good(&Changed::new("home", SMALL).run(&lab, &["apply", "--yes"]));
    lab.tamper(|world| {
        let volumes = &mut world["datacenter"]["stores"]["atlas/local-lvm"]["volumes"];
        let mut left = volumes["vm-303-disk-0"].clone();
        left["vmid"] = 304.into();
        volumes["vm-304-disk-0"] = left;
    });
    // Worker-2 is declared and not created: the volume has its VMID.
    let two = Changed::new("home", &[("count: 3 ", "count: 1 ")]);
    let left = || two.json(&lab, &["volumes", "list"])["volumes"].as_array().unwrap().len();
    let empty = elsewhere(&lab, "empty");
    let prune = ["volumes", "prune", "--yes", "--state", &empty];
    let refused = two.run(&lab, &prune);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("nothing proves that 1 volume is this store's (local-lvm:vm-304-disk-0"), "{said}");
    assert!(said.contains("--without-secrets"), "{said}");
    let unasked = two.run(&lab, &[&prune[..], &["--without-secrets"]].concat());
    assert_eq!(unasked.status.code(), Some(64), "{}", text(&unasked.stderr));
    let wrong = two.run(&lab, &[&prune[..], &["--without-secrets=2"]].concat());
    assert_eq!(wrong.status.code(), Some(1), "{}", text(&wrong.stderr));
    assert_eq!(left(), 1);
    good(&two.run(&lab, &[&prune[..], &["--without-secrets=1"]].concat()));
    assert_eq!(left(), 0);
}

/// A colleague's copy of the store of cluster home as it is now.
fn copied(lab: &Lab) -> String {
    let (store, copy) = (lab.dir().join("clusters/home"), elsewhere(lab, "copy"));
    let copied = std::process::Command::new("cp").arg("-r").arg(&store).arg(&copy).status().unwrap();
    assert!(copied.success());
    copy
}

#[test]
fn a_restore_by_a_store_that_is_behind_does_not_go_on_by_a_mere_yes() {
    let lab = Lab::new();
    let (first, second) = (
        Changed::new("home", SMALL),
        Changed::new("home", &[SMALL, &[("environment: lab ", "environment: two ")]].concat()),
    );
    good(&first.run(&lab, &["apply", "--yes"]));
    let copy = copied(&lab);
    good(&second.run(&lab, &["apply", "--yes"]));
    let snapshot = elsewhere(&lab, "kept.db");
    good(&second.run(&lab, &["backup", "create", "--to", &snapshot]));
    // The only control plane is lost; the worker's mark says what was applied last.
    let hands = Hands::on(&lab);
    hands.destroy(300);
    assert!(hands.notes(303).contains(" generation=2 "), "{}", hands.notes(303));

    let restore = ["backup", "restore", &snapshot, "--yes", "--state", &copy];
    let refused = first.run(&lab, &restore);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(64), "{said}");
    assert!(said.contains("one generation after") && said.contains("--onto 2"), "{said}");
    assert!(said.contains(&format!("backup restore {snapshot}")), "{said}");
    let wrong = first.run(&lab, &[&restore[..], &["--onto", "1"]].concat());
    assert_eq!(wrong.status.code(), Some(1), "{}", text(&wrong.stderr));
    assert!(hands.vm(300).is_none());
    good(&first.run(&lab, &[&restore[..], &["--onto", "2"]].concat()));
    assert!(hands.notes(300).contains(" generation=3 "), "{}", hands.notes(300));
}

#[test]
fn a_store_that_is_behind_is_told_and_does_not_go_on_by_a_mere_yes() {
    let lab = Lab::new();
    let first = Changed::new("home", SMALL);
    good(&first.run(&lab, &["apply", "--yes"]));
    let hands = Hands::on(&lab);
    assert!(hands.notes(300).contains(" generation=1 "), "{}", hands.notes(300));
    let copy = copied(&lab);

    let second = Changed::new("home", &[SMALL, &[("environment: lab ", "environment: two ")]].concat());
    let third = Changed::new("home", &[SMALL, &[("environment: lab ", "environment: three ")]].concat());
    let said = good(&second.run(&lab, &["apply", "--yes"]));
    assert!(!said.contains("what this store knows"), "{said}");
    good(&third.run(&lab, &["apply", "--yes"]));
    assert!(hands.notes(300).contains(" generation=3 "), "{}", hands.notes(300));

    // The copy would move the cluster back: it says so first of all.
    let with_copy = |line: &[&str]| first.run(&lab, &[line, &["--state", &copy]].concat());
    let plan = good(&with_copy(&["plan"]));
    let top = plan.split("\n\n").next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        top.contains("generation 3 was applied by")
            && top.contains("two generations after what this store knows"),
        "{plan}"
    );
    let refused = with_copy(&["apply", "--yes"]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(64), "{said}");
    assert!(said.contains("--onto 3"), "{said}");
    let wrong = with_copy(&["apply", "--yes", "--onto", "2"]);
    assert_eq!(wrong.status.code(), Some(1), "{}", text(&wrong.stderr));
    assert!(hands.vm(300).unwrap().1.tags.contains(&"three".to_owned()));

    // Nor does it change anything else by a mere yes; what it would do is told with the same words.
    let guards = ["proxmox", "firewall"];
    let shown = good(&with_copy(&[&guards[..], &["--plan-only"]].concat()));
    let top = shown.split("\n\n").next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(top.contains("two generations after what this store knows"), "{shown}");
    let refused = with_copy(&[&guards[..], &["--yes"]].concat());
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(64), "{said}");
    assert!(said.contains("proxmox firewall --lab") && said.contains("--onto 3"), "{said}");
    assert!(!hands.vm(300).unwrap().1.nics["net0"].firewall);

    // Who applies what is there already agrees, and is asked nothing.
    let agrees = third.run(&lab, &["apply", "--yes", "--state", &copy]);
    good(&agrees);
    let said = good(&with_copy(&["apply", "--yes"]));
    assert!(!said.contains("what this store knows"), "{said}");
    assert!(hands.notes(300).contains(" generation=4 "), "{}", hands.notes(300));
    // Now the first one is behind, and says that it goes on.
    let refused = second.run(&lab, &["apply", "--yes"]);
    assert_eq!(refused.status.code(), Some(64), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("one generation after"), "{}", text(&refused.stderr));
    good(&second.run(&lab, &["apply", "--yes", "--onto", "4"]));
    assert!(hands.vm(300).unwrap().1.tags.contains(&"two".to_owned()));

    // Nor does the copy destroy what it has not seen by a mere name.
    let destroy = ["destroy", "--confirm", "home"];
    let refused = with_copy(&destroy);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(64), "{said}");
    assert!(said.contains("one generation after") && said.contains("--onto 5"), "{said}");
    let wrong = with_copy(&[&destroy[..], &["--onto", "4"]].concat());
    assert_eq!(wrong.status.code(), Some(1), "{}", text(&wrong.stderr));
    assert!(hands.vm(300).is_some() && hands.vm(303).is_some());
    good(&with_copy(&[&destroy[..], &["--onto", "5"]].concat()));
    assert!(hands.vm(300).is_none() && hands.vm(303).is_none());
    // It knows of that generation now: what it creates next comes after it.
    good(&with_copy(&["apply", "--yes"]));
    assert!(hands.notes(300).contains(" generation=6 "), "{}", hands.notes(300));
}

/// To go on with something small, or to stop before the end, is not to agree to what somebody else applied.
#[test]
fn only_an_answer_to_the_end_makes_a_store_know_a_generation() {
    let lab = Lab::new();
    const TWO: (&str, &str) = ("count: 3 ", "count: 1 ");
    let (first, fewer) = (Changed::new("home", &[TWO]), Changed::new("home", SMALL));
    good(&first.run(&lab, &["apply", "--yes"]));
    let copy = copied(&lab);
    let second = Changed::new("home", &[TWO, ("environment: lab ", "environment: two ")]);
    good(&second.run(&lab, &["apply", "--yes"]));

    let with_copy = |line: &[&str]| first.run(&lab, &[line, &["--state", &copy]].concat());
    let still_behind = |after: &str| {
        let refused = with_copy(&["apply", "--yes"]);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(64), "{after}: {said}");
        assert!(said.contains("one generation after") && said.contains("--onto 2"), "{after}: {said}");
    };
    let stopped = with_copy(&["destroy", "--confirm", "other", "--onto", "2"]);
    assert_eq!(stopped.status.code(), Some(1), "{}", text(&stopped.stderr));
    still_behind("destroy");
    let stopped = fewer.run(&lab, &["node", "remove", "worker-2", "--onto", "2", "--state", &copy]);
    assert_eq!(stopped.status.code(), Some(64), "{}", text(&stopped.stderr));
    still_behind("node remove");
    good(&with_copy(&["proxmox", "firewall", "--yes", "--onto", "2"]));
    still_behind("proxmox firewall");
    good(&with_copy(&["apply", "--yes", "--onto", "2"]));
}

/// Last week's copy of the store does not destroy templates that somebody made since.
#[test]
fn a_store_that_is_behind_prunes_no_templates_by_a_mere_yes() {
    const CLONES: (&str, &str) = ("  network:\n", "  boot: {from: template, config: cidata}\n\n  network:\n");
    let lab = Lab::new();
    let first = Changed::new("home", &[SMALL, &[CLONES]].concat());
    let second = [SMALL, &[CLONES, ("environment: lab ", "environment: two ")]].concat();
    good(&first.run(&lab, &["apply", "--yes"]));
    let copy = copied(&lab);
    good(&Changed::new("home", &second).run(&lab, &["apply", "--yes"]));
    let prune = ["templates", "prune", "--all", "--yes", "--state", &copy];
    let refused = first.run(&lab, &prune);
    let (shown, said) = (text(&refused.stdout), text(&refused.stderr));
    assert_eq!(refused.status.code(), Some(64), "{said}");
    assert!(shown.contains("generation 2 was applied by"), "{shown}");
    assert!(said.contains("one generation after") && said.contains("--onto 2"), "{said}");
    let hands = Hands::on(&lab);
    assert!([998, 999].iter().all(|vmid| hands.vm(*vmid).is_some()));
    let wrong = first.run(&lab, &[&prune[..], &["--onto", "1"]].concat());
    assert_eq!(wrong.status.code(), Some(1), "{}", text(&wrong.stderr));
    good(&first.run(&lab, &[&prune[..], &["--onto", "2"]].concat()));
    assert!([998, 999].iter().all(|vmid| hands.vm(*vmid).is_none()));
}

#[test]
fn a_protected_cluster_is_protected_in_proxmox_too() {
    const PROTECTED: &[(&str, &str)] = &[("  environment: lab ", "  protect: true\n  environment: lab ")];
    let lab = Lab::new();
    let (open, protected) = (Changed::new("home", SMALL), Changed::new("home", &[SMALL, PROTECTED].concat()));
    good(&protected.run(&lab, &["apply", "--yes"]));
    let hands = Hands::on(&lab);
    let flags = || [300, 303].map(|vmid| hands.vm(vmid).unwrap().1.protection);
    assert_eq!(flags(), [true, true]);
    let plan = protected.run(&lab, &["plan", "--detailed-exitcode"]);
    assert_eq!(plan.status.code(), Some(0), "{}", text(&plan.stdout));
    // Taken off by hand, it comes back; what somebody else set, stays.
    hands.set(300, "protection", "0");
    good(&protected.run(&lab, &["apply", "--yes"]));
    assert_eq!(flags(), [true, true]);
    good(&open.run(&lab, &["apply", "--yes"]));
    assert_eq!(flags(), [false, false]);
    hands.set(303, "protection", "1");
    let plan = open.run(&lab, &["plan", "--detailed-exitcode"]);
    assert_eq!(plan.status.code(), Some(0), "{}", text(&plan.stdout));
    let destroy = open.run(&lab, &["destroy", "--confirm", "home"]);
    assert_eq!(destroy.status.code(), Some(1), "{}", text(&destroy.stdout));
    assert!(hands.vm(303).is_some() && hands.vm(300).is_none());
    hands.set(303, "protection", "0");
    good(&open.run(&lab, &["destroy", "--confirm", "home"]));
    // What we set ourselves does not stand in the way of a destroy that is allowed.
    good(&protected.run(&lab, &["apply", "--yes"]));
    assert_eq!(flags(), [true, true]);
    let said = good(&open.run(&lab, &["destroy", "--confirm", "home"]));
    assert!(said.contains("Cluster home is gone"), "{said}");
}

#[test]
fn marks_of_an_older_version_are_upgraded_in_passing_and_nothing_else_changes() {
    let lab = Lab::new();
    let small = Changed::new("home", SMALL);
    good(&small.run(&lab, &["apply", "--yes"]));
    let hands = Hands::on(&lab);
    // Everything of a VM but its notes and what Proxmox derives of them.
    let rest = |vmid: u32| {
        let mut raw = hands.vm(vmid).unwrap().1.raw;
        raw.retain(|option, _| !matches!(option.as_str(), "description" | "digest"));
        raw
    };
    let before = [300, 303].map(rest);
    for vmid in [300, 303] {
        let notes = hands.notes(vmid);
        let (old, _) = notes.split_once(" secrets=").unwrap();
        assert!(notes.contains(" by=") && notes.contains(" at="), "{notes}");
        hands.set(vmid, "description", &format!("rack 4, ask Ann\n{old}"));
    }
    // An older version had no generation in its store either.
    std::fs::remove_file(lab.dir().join("clusters/home/home/generation.json")).unwrap();

    let plan = small.json(&lab, &["plan"]);
    let steps = plan["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 2, "{plan:#}");
    for step in steps {
        let changes = step["action"]["changes"].as_array().unwrap();
        assert!(changes.len() == 1 && changes[0]["option"] == "description", "{step:#}");
    }
    good(&small.run(&lab, &["apply", "--yes"]));
    for vmid in [300, 303] {
        let notes = hands.notes(vmid);
        assert!(notes.starts_with("rack 4, ask Ann\n"), "{notes}");
        for part in [" generation=1 ", " secrets=", " by=", " at="] {
            assert!(notes.contains(part), "{part} in {notes}");
        }
    }
    assert_eq!([300, 303].map(rest), before);
    let plan = small.run(&lab, &["plan", "--detailed-exitcode"]);
    assert_eq!(plan.status.code(), Some(0), "{}", text(&plan.stdout));
}

/// A store that lost the race for a cluster has secrets that fit nothing: it says so, and what it advises works.
#[test]
fn secrets_that_lost_a_race_are_told_and_give_way() {
    let lab = Lab::new();
    let small = Changed::new("home", SMALL);
    let beside = Changed::new("home", &[SMALL, common::BESIDE].concat());
    let files = tempfile::tempdir().unwrap();
    let at = |name: &str| files.path().join(name).display().to_string();
    good(&beside.run(&lab, &["apply", "--yes"]));
    good(&beside.run(&lab, &["secrets", "export", "--to", &at("unused.yaml")]));
    good(&small.run(&lab, &["apply", "--yes"]));
    // As the loser's store is afterwards: secrets of its own, and no VM that was made with them.
    let loser = elsewhere(&lab, "loser");
    let with_loser = |line: &[&str]| small.run(&lab, &[line, &["--state", &loser]].concat());
    good(&with_loser(&["secrets", "import", &at("unused.yaml"), "--unchecked"]));

    let plan = with_loser(&["plan"]);
    let said = text(&plan.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(plan.status.code(), Some(1), "{said}");
    assert!(said.contains("another store created this cluster (2 VMs) with others"), "{said}");
    assert!(said.contains("secrets export --to FILE"), "{said}");
    assert!(
        said.contains(&format!("--state {loser}")) && said.contains("secrets import --replace FILE"),
        "{said}"
    );
    let apply = with_loser(&["apply", "--yes"]);
    assert_eq!(apply.status.code(), Some(1), "{}", text(&apply.stdout));

    // What another store created is not gone because this one cannot touch it.
    let hands = Hands::on(&lab);
    for _ in 0..2 {
        let destroy = with_loser(&["destroy", "--confirm", "home"]);
        let said = text(&destroy.stdout);
        assert_eq!(destroy.status.code(), Some(1), "{said}");
        let last = said.lines().last().unwrap();
        assert!(last.starts_with("Cluster home is not gone."), "{said}");
        assert!(last.contains("VM 300 \"cp-1\" on") && last.contains("VM 303 \"worker-1\" on"), "{said}");
        assert!(hands.vm(300).is_some() && hands.vm(303).is_some());
    }

    good(&small.run(&lab, &["secrets", "export", "--to", &at("used.yaml")]));
    let said = good(&with_loser(&["secrets", "import", "--replace", &at("used.yaml")]));
    assert!(said.contains("those before them in") && said.contains("secrets-until-"), "{said}");
    let plan = with_loser(&["plan", "--detailed-exitcode"]);
    let said = text(&plan.stdout);
    assert!(!said.contains("another store created"), "{said}");
    good(&with_loser(&["apply", "--yes"]));
    good(&with_loser(&["status"]));
}
