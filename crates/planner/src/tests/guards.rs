//! Firewalls, high availability and backup jobs: which VMs are guarded, what is left alone, and laws about both.

use std::collections::{BTreeMap, BTreeSet};

use daedal_inventory::{Cluster, Role};
use proptest::prelude::*;

use super::laws::{Scene, scenes, survives};
use super::simulator::Sim;
use super::told::*;
use crate::*;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// With this port besides.
    Firewall(Option<u16>),
    Ha(bool),
    Backup(Option<u32>),
}

pub(crate) fn wish(keep: u32) -> BackupWish {
    BackupWish { storage: "pbs".into(), schedule: "02:30".into(), keep }
}

/// A plan for it that the checker lets pass.
pub(crate) fn planned(cluster: &Cluster, world: &World, ask: Ask) -> Plan {
    let plan = match ask {
        Ask::Firewall(port) => {
            let wish = port.map(|port| FirewallWish { ports: BTreeSet::from([port]) });
            plan_firewall(cluster, world, wish.as_ref()).unwrap()
        }
        Ask::Ha(on) => plan_ha(cluster, world, on).unwrap(),
        Ask::Backup(keep) => plan_backup_job(cluster, world, keep.map(wish).as_ref()).unwrap(),
    };
    assert_eq!(check(cluster, world, &plan), [], "{}", render(&plan, RenderOptions::default()));
    plan
}

fn object(pairs: &[(&str, &str)]) -> ObjectOptions {
    pairs.iter().map(|(option, value)| ((*option).to_owned(), (*value).to_owned())).collect()
}

/// A world that was looked at for such plans, with objects of others in it.
pub(crate) fn looked(world: &mut World, rules: bool, hosts: usize) {
    let theirs = object(&[("comment", "backups of the NAS"), ("vmid", "120"), ("state", "stopped")]);
    let apart = BTreeMap::from([
        ("keep-apart".to_owned(), object(&[("resources", "vm:120,vm:121"), ("nodes", "atlas:1")])),
        ("daedal-other-apart".to_owned(), object(&[("comment", "control planes of other, kept by daedal")])),
    ]);
    world.availability = Some(AvailabilityView {
        rules,
        apart,
        resources: BTreeMap::from([("vm:120".to_owned(), theirs.clone())]),
        hosts,
    });
    let firewall = FirewallView { rules: vec![their_rule()], ..FirewallView::default() };
    let ours: Vec<u32> = world.ours().map(|(_, guest)| guest.vmid).collect();
    let seen = ours.into_iter().map(|vmid| (vmid, firewall.clone())).collect();
    world.firewalls = Some(FirewallsView { seen, ..FirewallsView::default() });
    let content = |kinds: &[&str]| kinds.iter().map(|kind| (*kind).to_owned()).collect();
    let storage = |kinds: &[&str]| BackupStorage { host: "atlas".into(), content: content(kinds) };
    world.backups = Some(BackupView {
        jobs: BTreeMap::from([("nightly".to_owned(), theirs)]),
        storages: BTreeMap::from([
            ("pbs".to_owned(), storage(&["backup"])),
            ("local-lvm".to_owned(), storage(&["images", "rootdir"])),
        ]),
    });
}

/// A rule that somebody else made.
fn their_rule() -> VmRule {
    VmRule {
        direction: "in".into(),
        action: "ACCEPT".into(),
        comment: Some("backup agent".into()),
        enable: true,
        ..VmRule::default()
    }
}

/// What steps do to objects and firewalls.
impl Sim {
    /// Panics where Proxmox would refuse, or where somebody would be locked out.
    pub(crate) fn set_firewall(&mut self, step: &Step) {
        if let Action::FilterCard { vmid, on } = &step.action {
            let guest = self.ours(*vmid, step);
            fixture::card(guest.config.as_mut().unwrap()).firewall = *on;
            let view = &self.world.firewalls.as_ref().unwrap().seen[vmid];
            let told = view.rules.iter().any(|rule| rule.dport.as_deref() == Some("50000"));
            assert!(told, "VM {vmid} would be locked in");
            return;
        }
        let view = |sim: &mut Self, vmid: &u32| {
            sim.ours(*vmid, step);
            sim.world.firewalls.as_mut().unwrap().seen.remove(vmid).unwrap()
        };
        let (vmid, view) = match &step.action {
            Action::FillIpSet { vmid, members, .. } => {
                (vmid, FirewallView { members: Some(members.clone()), ..view(self, vmid) })
            }
            Action::DropIpSet { vmid } => {
                let view = view(self, vmid);
                assert!(view.rules.iter().all(|rule| rule.source.as_deref() != Some("+cluster")), "in use");
                (vmid, FirewallView { members: None, ..view })
            }
            Action::SetFirewallRules { vmid, rules, .. } => {
                let mut view = view(self, vmid);
                assert!(rules.is_empty() || view.members.is_some(), "no such ipset");
                view.rules.retain(|rule| !guards::is_our_rule(rule.comment.as_deref()));
                view.rules.splice(0..0, rules.iter().cloned());
                (vmid, view)
            }
            Action::SetFirewallOptions { vmid, options, .. } => {
                let mut view = view(self, vmid);
                view.options.extend(options.clone());
                (vmid, view)
            }
            other => panic!("{other:?}"),
        };
        self.world.firewalls.as_mut().unwrap().seen.insert(*vmid, view);
    }

    fn objects(&mut self, kind: ObjectKind) -> &mut Objects {
        let availability = self.world.availability.as_mut();
        match kind {
            ObjectKind::BackupJob => &mut self.world.backups.as_mut().unwrap().jobs,
            ObjectKind::HaResource => &mut availability.unwrap().resources,
            ObjectKind::HaRule | ObjectKind::HaGroup => {
                let view = availability.unwrap();
                assert_eq!(view.rules, kind == ObjectKind::HaRule, "this release does not know any");
                &mut view.apart
            }
        }
    }

    pub(crate) fn put_object(
        &mut self,
        kind: ObjectKind,
        id: &str,
        vms: &[u32],
        options: &ObjectOptions,
        new: bool,
    ) {
        for vmid in vms {
            let guest = &self.world.guests[vmid];
            assert!(matches!(guest.ownership, Ownership::Ours { .. }), "guards {guest:?}");
        }
        if kind == ObjectKind::HaRule {
            let view = self.world.availability.as_ref().unwrap();
            assert!(vms.len() <= view.hosts, "rule defines more resources than available nodes");
            let managed = |vmid: &u32| view.resources.contains_key(&format!("vm:{vmid}"));
            assert!(vms.iter().all(managed), "cannot use unmanaged resource(s)");
        }
        let known = self.objects(kind);
        assert_eq!(new, !known.contains_key(id), "{id} already defined, or not there");
        known.entry(id.to_owned()).or_default().extend(options.clone());
    }

    pub(crate) fn remove_object(&mut self, kind: ObjectKind, id: &str) {
        if kind == ObjectKind::HaGroup {
            let resources = &self.world.availability.as_ref().unwrap().resources;
            assert!(resources.values().all(|one| one.get("group").is_none_or(|used| used != id)), "in use");
        }
        self.objects(kind).remove(id).unwrap();
    }
}

/// A finished cluster that was looked at.
fn made(control_planes: u32, workers: u32, rules: bool, hosts: usize) -> Sim {
    let cluster = fixture::cluster("home", &["atlas"], control_planes, workers);
    let mut sim = Sim::made(&cluster, &fixture::empty_world(&[("atlas", 64, 256, 4000)]));
    looked(&mut sim.world, rules, hosts);
    sim
}

fn problems(plan: &Plan) -> Vec<String> {
    let bad = plan.notes.iter().filter(|note| note.level == Level::Problem);
    bad.map(|note| note.text()).collect()
}

fn objects(plan: &Plan) -> Vec<String> {
    plan.steps.iter().map(|step| action(&step.action)).collect()
}

#[test]
fn control_planes_are_managed_and_kept_apart() {
    let mut sim = made(3, 1, true, 3);
    let plan = planned(&sim.cluster, &sim.world, Ask::Ha(true));
    assert_eq!(
        objects(&plan),
        [
            "create HA resource vm:300",
            "create HA resource vm:301",
            "create HA resource vm:302",
            "create HA rule daedal-home-apart"
        ]
    );
    assert_eq!(plan.steps[3].needs, [0, 1, 2]);
    assert_eq!(counts(&plan).objects, ObjectCounts { create: 4, ..ObjectCounts::default() });
    let said = render(&plan, RenderOptions::default());
    assert!(said.contains("Plan to set high availability of cluster home"), "{said}");
    assert!(said.ends_with("3 HA resources to create, 1 HA rule to create.\n"), "{said}");
    sim.run(&plan, |_| true);
    // Proxmox tells lists in an order of its own.
    let view = sim.world.availability.as_mut().unwrap();
    view.apart
        .get_mut("daedal-home-apart")
        .unwrap()
        .insert("resources".into(), "vm:302,vm:300,vm:301".into());
    let again = planned(&sim.cluster, &sim.world, Ask::Ha(true));
    let said = render(&again, RenderOptions::default());
    assert_eq!(said, "No changes: high availability of cluster home is as asked for.\n");
}

#[test]
fn before_rules_each_has_a_group() {
    let mut sim = made(3, 0, false, 3);
    let plan = planned(&sim.cluster, &sim.world, Ask::Ha(true));
    assert_eq!(counts(&plan).objects.create, 6);
    assert!(sim.run(&plan, |_| true) == 6 && planned(&sim.cluster, &sim.world, Ask::Ha(true)).is_empty());
    // A VM that is gone leaves its group behind.
    sim.world.guests.remove(&301);
    sim.world.availability.as_mut().unwrap().resources.remove("vm:301");
    let off = planned(&sim.cluster, &sim.world, Ask::Ha(false));
    assert_eq!(counts(&off).objects.remove, 5);
    sim.run(&off, |_| true);
    assert_eq!(sim.world.availability.unwrap().apart.len(), 2, "only those of others");
}

/// What outlives the VMs is what is advised to be removed, and nothing of it stays: resources of VMs that somebody destroyed by hand,
/// and one of a node that no longer is a control plane.
#[test]
fn resources_that_outlive_their_vms_are_removed() {
    let mut sim = made(3, 1, true, 3);
    let on = planned(&sim.cluster, &sim.world, Ask::Ha(true));
    sim.run(&on, |_| true);
    sim.world.guests.remove(&300);
    let view = sim.world.availability.as_mut().unwrap();
    let ours = view.resources["vm:301"].clone();
    let worker = sim.cluster.nodes.iter().find(|node| node.role == Role::Worker).unwrap().vmid;
    view.resources.insert(guards::ha_resource(worker), ours.clone());
    // One whose VMID went to somebody else is not touched, nor is its removal advised.
    view.resources.insert("vm:777".into(), ours);
    sim.world.guests.insert(777, GuestView { vmid: 777, ..GuestView::default() });
    let images = fixture::images(&sim.cluster);
    let advised = |world: &World| {
        let staying = staying(&sim.cluster, &images, world).guards;
        let (theirs, ours): (Vec<_>, Vec<_>) = staying.into_iter().partition(|guard| guard.theirs);
        assert_eq!(theirs.iter().map(|guard| guard.id.as_str()).collect::<Vec<_>>(), ["vm:777"]);
        ours.into_iter().map(|guard| guard.id).collect::<Vec<_>>()
    };
    let before = advised(&sim.world);
    assert_eq!(before.len(), 5, "{before:?}");
    let off = planned(&sim.cluster, &sim.world, Ask::Ha(false));
    let mut world = Sim { world: sim.world.clone(), ..sim.clone() };
    world.run(&off, |_| true);
    assert_eq!(advised(&world.world), [""; 0]);
    // Where guests are hidden, one that was not seen is not called gone.
    let mut blind = sim.world.clone();
    blind.unlisted_hosts.insert("boreas".into());
    let off = planned(&sim.cluster, &blind, Ask::Ha(false));
    assert!(objects(&off).iter().all(|object| !object.contains("vm:300")), "{:?}", objects(&off));
}

/// Proxmox refuses such a rule; everything else is done, and its absence is told.
#[test]
fn a_rule_never_names_more_vms_than_there_are_hosts() {
    let sim = made(3, 0, true, 2);
    let plan = planned(&sim.cluster, &sim.world, Ask::Ha(true));
    assert_eq!(counts(&plan).objects.create, 3);
    let note = &plan.notes[0];
    assert_eq!(note.level, Level::Warning);
    assert_eq!(note.text(), "Left out: 3 control planes cannot be on different hosts, Proxmox has 2 hosts.");
}

#[test]
fn vms_that_are_not_proven_ours_are_named_and_left_alone() {
    let why = |ownership: Ownership| {
        let mut sim = made(3, 0, true, 3);
        sim.world.guests.get_mut(&301).unwrap().ownership = ownership;
        let ha = planned(&sim.cluster, &sim.world, Ask::Ha(true));
        assert!(objects(&ha).iter().all(|object| !object.contains("301")), "{ha:#?}");
        let Action::PutClusterObject { vms, .. } = &ha.steps.last().unwrap().action else { panic!() };
        assert_eq!(vms, &[300, 302]);
        let backup = planned(&sim.cluster, &sim.world, Ask::Backup(Some(7)));
        let Action::PutClusterObject { options, .. } = &backup.steps[0].action else { panic!() };
        assert_eq!(options["vmid"], "300,302");
        assert_eq!(problems(&ha), problems(&backup));
        let firewall = planned(&sim.cluster, &sim.world, Ask::Firewall(Some(443)));
        assert_eq!((problems(&firewall), counts(&firewall).firewalls.turn_on), (problems(&ha), 2));
        let said = render(&firewall, RenderOptions::default());
        assert!(!firewall.steps.iter().any(|step| step.node.as_deref() == Some("cp-2")), "{said}");
        assert!(said.ends_with(", 1 blocked.\n"), "{said}");
        assert_eq!(problems(&ha).len(), 1);
        problems(&ha)[0].clone()
    };
    let lost = Ownership::LookAlike { why: "its mark is gone".into(), likeness: Likeness::LostMark };
    assert!(why(lost).contains("may be this node"));
    assert!(why(Ownership::Foreign).contains("is not ours"));
    assert!(why(Ownership::Unreadable { why: "denied".into() }).contains("could not be read"));
}

/// A mark without a digest of the secrets proves nothing; nor does a list that was not told.
#[test]
fn old_marks_and_unseen_hosts_are_problems() {
    let mut sim = made(3, 0, true, 3);
    fixture::config(&mut sim.world, 301).unsigned = true;
    let plan = planned(&sim.cluster, &sim.world, Ask::Ha(true));
    assert!(problems(&plan)[0].contains("names no secrets"), "{:?}", problems(&plan));
    sim.world.guests.remove(&301);
    sim.world.unlisted_hosts.insert("boreas".into());
    let plan = planned(&sim.cluster, &sim.world, Ask::Backup(Some(7)));
    assert!(problems(&plan)[0].contains("boreas could not be listed"), "{:?}", problems(&plan));
    // One that does not exist is no problem, unless none does.
    sim.world.unlisted_hosts.clear();
    let plan = planned(&sim.cluster, &sim.world, Ask::Backup(Some(7)));
    assert_eq!((problems(&plan).len(), plan.steps.len()), (0, 1));
    sim.world.guests.clear();
    for ask in [Ask::Firewall(Some(443)), Ask::Ha(true), Ask::Backup(Some(7))] {
        let plan = planned(&sim.cluster, &sim.world, ask);
        assert_eq!((problems(&plan), plan.steps.len()), (vec!["None of its VMs exists.".to_owned()], 0));
    }
    assert_eq!(problems(&planned(&sim.cluster, &sim.world, Ask::Ha(false))).len(), 0);
}

#[test]
fn without_the_secrets_nothing_is_guarded() {
    let mut sim = made(1, 0, true, 3);
    sim.world.secrets_stored = false;
    for plan in [
        plan_firewall(&sim.cluster, &sim.world, Some(&FirewallWish::default())),
        plan_firewall(&sim.cluster, &sim.world, None),
        plan_ha(&sim.cluster, &sim.world, true),
        plan_ha(&sim.cluster, &sim.world, false),
        plan_backup_job(&sim.cluster, &sim.world, Some(&wish(7))),
        plan_backup_job(&sim.cluster, &sim.world, None),
    ] {
        assert!(matches!(plan, Err(PlanError::Unproven { .. })), "{plan:?}");
    }
}

/// `protect: true` keeps data; a guard can be put back at any time.
#[test]
fn protection_stands_against_no_guard() {
    let mut sim = made(3, 0, true, 3);
    sim.cluster.protect = true;
    for ask in [
        Ask::Firewall(Some(443)),
        Ask::Ha(true),
        Ask::Backup(Some(7)),
        Ask::Firewall(None),
        Ask::Ha(false),
        Ask::Backup(None),
    ] {
        let plan = planned(&sim.cluster, &sim.world, ask);
        assert_eq!(sim.run(&plan, |_| true), plan.steps.len());
        assert!(!plan.is_empty());
    }
}

/// An object with our name that somebody else made, or that names VMs of somebody else, is neither changed nor removed.
#[test]
fn objects_of_others_stay_whatever_they_are_called() {
    let mut sim = made(1, 0, true, 3);
    let ours = "Talos cluster home, kept by daedal";
    for theirs in [object(&[("vmid", "300")]), object(&[("comment", ours), ("vmid", "300,120")])] {
        sim.world.guests.insert(120, GuestView { vmid: 120, ..GuestView::default() });
        sim.world.backups.as_mut().unwrap().jobs.insert("daedal-home".into(), theirs);
        let on = planned(&sim.cluster, &sim.world, Ask::Backup(Some(7)));
        assert!(on.is_empty() && problems(&on)[0].contains("is not this cluster's"), "{:?}", on.notes);
        let off = planned(&sim.cluster, &sim.world, Ask::Backup(None));
        assert!(off.is_empty() && off.notes[0].text().contains("It stays"), "{:?}", off.notes);
    }
}

/// A lost mark does not cost a VM its backups.
#[test]
fn a_job_is_not_changed_where_that_would_leave_a_vm_out() {
    let mut sim = made(1, 2, true, 3);
    let plan = planned(&sim.cluster, &sim.world, Ask::Backup(Some(7)));
    sim.run(&plan, |_| true);
    let worker = sim.cluster.nodes.iter().find(|node| node.role == Role::Worker).unwrap().vmid;
    sim.world.guests.get_mut(&worker).unwrap().ownership =
        Ownership::LookAlike { why: "its mark is gone".into(), likeness: Likeness::LostMark };
    let plan = planned(&sim.cluster, &sim.world, Ask::Backup(Some(3)));
    assert!(plan.is_empty() && problems(&plan).len() == 2, "{:?}", plan.notes);
    assert!(problems(&plan).iter().any(|text| text.contains("would be left out")), "{:?}", plan.notes);
}

#[test]
fn backups_go_only_where_they_are_taken() {
    let sim = made(1, 0, true, 3);
    let to = |storage: &str| {
        let wish = BackupWish { storage: storage.into(), ..wish(7) };
        plan_backup_job(&sim.cluster, &sim.world, Some(&wish)).unwrap_err()
    };
    for (storage, why, help) in [
        ("nas", "it does not exist, or the token may not see it", "storages for backups: pbs"),
        (
            "local-lvm",
            "its content types are images,rootdir",
            "pvesm set local-lvm --content images,rootdir,backup",
        ),
    ] {
        let error = to(storage);
        assert_eq!(error.to_string(), format!("storage {storage} cannot take backups: {why}"));
        assert!(matches!(&error, PlanError::NoBackups { fix, .. } if fix.contains(help)), "{error:?}");
    }
}

#[test]
fn a_firewall_lets_in_the_cluster_and_the_apis() {
    let mut sim = made(3, 1, true, 3);
    let plan = planned(&sim.cluster, &sim.world, Ask::Firewall(Some(443)));
    let said = render(&plan, RenderOptions::default());
    insta::assert_snapshot!(said);
    let new = PartCounts { create: 4, ..PartCounts::default() };
    let rules = PartCounts { create: 3 * 5 + 4, ..PartCounts::default() };
    let wanted = FirewallCounts { turn_on: 4, sets: new, rules, ..FirewallCounts::default() };
    assert_eq!(counts(&plan).firewalls, wanted);
    sim.run(&plan, |_| true);
    let again =
        render(&planned(&sim.cluster, &sim.world, Ask::Firewall(Some(443))), RenderOptions::default());
    assert!(again.ends_with("No changes: the firewall of cluster home is as asked for.\n"), "{again}");
    // Another port: ours are replaced, nothing is cut off.
    let plan = planned(&sim.cluster, &sim.world, Ask::Firewall(Some(80)));
    assert_eq!((counts(&plan).firewalls.change, counts(&plan).firewalls.rules.delete), (4, 19));
    assert!(plan.steps.iter().all(|step| step.impact == Impact::None));
    let off = planned(&sim.cluster, &sim.world, Ask::Firewall(None));
    assert_eq!(outcome(&off), "4 firewalls turned off, 19 rules deleted, 4 IP sets deleted");
}

/// A firewall that has nothing of ours was not turned on by us, and a set that others use stays.
#[test]
fn firewalls_of_others_stay_on() {
    let mut sim = made(1, 0, true, 3);
    let options = object(&[("enable", "1")]);
    sim.world.firewalls.as_mut().unwrap().seen.get_mut(&300).unwrap().options = options;
    let off = planned(&sim.cluster, &sim.world, Ask::Firewall(None));
    assert!(off.is_empty() && off.notes[0].text().contains("It stays"), "{:?}", off.notes);
    let on = planned(&sim.cluster, &sim.world, Ask::Firewall(Some(443)));
    sim.run(&on, |_| true);
    let view = sim.world.firewalls.as_mut().unwrap().seen.get_mut(&300).unwrap();
    view.rules.push(VmRule { source: Some("+cluster".into()), ..their_rule() });
    let off = planned(&sim.cluster, &sim.world, Ask::Firewall(None));
    assert_eq!(counts(&off).firewalls.sets, PartCounts::default());
    assert!(off.notes[0].text().contains("a rule of somebody else uses it"), "{:?}", off.notes);
}

#[test]
fn a_firewall_that_could_not_be_read_is_a_problem() {
    let mut sim = made(3, 0, true, 3);
    let view = sim.world.firewalls.as_mut().unwrap();
    view.seen.remove(&301);
    view.unread.insert(301, "permission denied".into());
    for ask in [Ask::Firewall(Some(443)), Ask::Firewall(None)] {
        let plan = planned(&sim.cluster, &sim.world, ask);
        assert_eq!(problems(&plan), ["The firewall of its VM could not be read: permission denied."]);
    }
}

#[test]
fn a_change_shows_what_becomes_of_what() {
    let mut sim = made(1, 0, true, 3);
    let plan = planned(&sim.cluster, &sim.world, Ask::Backup(Some(7)));
    let said = render(&plan, RenderOptions::default());
    assert!(said.contains("create backup job daedal-home  1 VM to pbs at 02:30, keeps the last 7"), "{said}");
    sim.run(&plan, |_| true);
    let plan = planned(&sim.cluster, &sim.world, Ask::Backup(Some(3)));
    let said = render(&plan, RenderOptions::default());
    assert!(said.contains("prune-backups: keep-last=7 → keep-last=3"), "{said}");
    assert!(!said.contains("schedule:") && said.ends_with("1 backup job to change.\n"), "{said}");
    assert_eq!(outcome(&plan), "1 backup job changed");
}

/// A finished scene that was looked at; how many hosts Proxmox has is anybody's guess.
fn finished(scene: &Scene, rules: bool, hosts: usize) -> Sim {
    let mut sim = Sim::new(&scene.cluster, &scene.world);
    let plan = sim.plan();
    sim.run(&plan, |_| true);
    looked(&mut sim.world, rules, hosts);
    sim
}

proptest! {
    #![proptest_config(super::config())]

    /// Killed anywhere and run again, it ends where nothing is left to do, and what others keep is as it was; turned off, only that
    /// is left.
    #[test]
    fn guards_converge_and_leave_what_is_not_ours(
        scene in scenes(),
        rules in any::<bool>(),
        hosts in 1usize..6,
        seed in any::<u64>(),
        again in any::<u64>(),
    ) {
        let mut sim = finished(&scene, rules, hosts);
        let (theirs, guests) = (sim.world.clone(), sim.world.guests.clone());
        for (ask, seed) in [
            (Ask::Firewall(Some(443)), again), (Ask::Ha(true), seed), (Ask::Backup(Some(7)), again),
            (Ask::Firewall(Some(80)), seed), (Ask::Backup(Some(9)), seed),
            (Ask::Firewall(None), seed), (Ask::Ha(false), again), (Ask::Backup(None), seed),
        ] {
            let first = planned(&sim.cluster, &sim.world, ask);
            for step in &first.steps {
                if let Action::PutClusterObject { vms, .. } = &step.action {
                    let strange: BTreeSet<u32> = vms.iter().copied().filter(|vm| scene.strangers.contains(vm)).collect();
                    prop_assert!(strange.is_empty(), "{:?}", step);
                }
            }
            sim.run(&first, |at| survives(seed, at));
            let rest = planned(&sim.cluster, &sim.world, ask);
            prop_assert_eq!(sim.run(&rest, |_| true), rest.steps.len());
            let last = planned(&sim.cluster, &sim.world, ask);
            prop_assert!(last.is_empty(), "{}", render(&last, RenderOptions::default()));
        }
        for (vmid, view) in &sim.world.firewalls.as_ref().unwrap().seen {
            prop_assert_eq!((&view.rules[..], &view.members), (&[their_rule()][..], &None), "{}", vmid);
        }
        prop_assert_eq!(&sim.world.availability, &theirs.availability);
        prop_assert_eq!(&sim.world.backups, &theirs.backups);
        prop_assert_eq!(&sim.world.guests, &guests);
    }
}
