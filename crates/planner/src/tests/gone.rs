//! Nothing is called gone while something of it may be there, or could not be seen.

use daedal_inventory::Role;

use super::told::*;
use crate::fixture;
use crate::*;

/// A cluster is not gone while something stays that may be of it: by its VMID, or because its mark names this cluster.
#[test]
fn destroy_calls_what_may_be_of_this_cluster_a_problem() {
    let cluster = fixture::home();
    let template = |dead| Ownership::Template { role: Role::Worker, digest: "ab".into(), dead };
    let unread = || Ownership::Unreadable { why: "its host does not answer".into() };
    let like = |likeness| Ownership::LookAlike { why: "it is another".into(), likeness };
    for (what, vmid, running, ownership, level) in [
        ("a copy", 900, true, like(Likeness::Copy), Level::Problem),
        ("a copy on a VMID of ours", 303, false, like(Likeness::Copy), Level::Problem),
        ("one of another store", 300, true, like(Likeness::OtherSecrets), Level::Problem),
        ("one of another store elsewhere", 900, true, like(Likeness::OtherSecrets), Level::Problem),
        ("one whose mark is lost", 300, true, like(Likeness::LostMark), Level::Problem),
        ("one whose mark is lost elsewhere", 900, true, like(Likeness::LostMark), Level::Problem),
        ("another cluster's with a uuid of ours", 900, true, like(Likeness::OtherMark), Level::Warning),
        ("another cluster's on a VMID of ours", 300, true, like(Likeness::OtherMark), Level::Problem),
        ("a template in the making that runs", 999, true, template(false), Level::Problem),
        ("a template in the making", 999, false, template(false), Level::Warning),
        ("a template whose create died", 999, false, template(true), Level::Problem),
        ("one that cannot be read", 300, true, unread(), Level::Problem),
        ("one that cannot be read elsewhere", 900, true, unread(), Level::Problem),
        ("somebody else's", 300, true, Ownership::Foreign, Level::Info),
    ] {
        let mut world = fixture::home_world();
        world.secrets_stored = true;
        let guest = GuestView { vmid, host: "atlas".into(), running, ownership, ..GuestView::default() };
        world.guests.insert(vmid, guest);
        let plan = plan_destroy(&cluster, &world).unwrap();
        let [note] = &plan.notes[..] else { panic!("{what}: {:?}", plan.notes) };
        assert!(note.about().ends_with(&format!("{vmid} on atlas")), "{what}: {note:?}");
        assert_eq!(note.level, level, "{what}");
        assert!(level != Level::Problem || note.fix().is_some(), "{what}");
    }
}

#[test]
fn destroy_calls_an_unseen_images_storage_a_problem() {
    let cluster = fixture::cluster("home", &["atlas", "boreas"], 1, 0);
    let world = fixture::empty_world(&[("atlas", 32, 64, 1000), ("boreas", 32, 64, 1000)]);
    let levels = |world: &World| {
        let plan = plan_destroy(&cluster, world).unwrap();
        plan.notes.into_iter().map(|note| (note.level, note.about())).collect::<Vec<_>>()
    };
    let mut unseen = world.clone();
    for what in [Aspect::storage_on("local", "atlas"), Aspect::Bridges("atlas".into())] {
        unseen.unobserved.push(Unobserved::new(what, "it did not answer within 5 s"));
    }
    assert_eq!(
        levels(&unseen),
        [
            (Level::Problem, "storage local on host atlas".to_owned()),
            (Level::Warning, "bridges of host atlas".to_owned()),
        ]
    );
    // A host that is off is not even asked; what is shared is seen through the other.
    let mut off = world;
    off.hosts.get_mut("boreas").unwrap().online = false;
    assert_eq!(levels(&off), [(Level::Problem, "storage local on host boreas".to_owned())]);
    for host in off.hosts.values_mut() {
        host.storages.get_mut("local").unwrap().shared = true;
    }
    assert_eq!(levels(&off), []);
}

/// What could not be seen may hold a VM of the cluster, or one whose create died.
#[test]
fn destroy_calls_a_place_where_guests_may_be_a_problem() {
    let cluster = fixture::home();
    let unseen = |what: &Aspect| {
        let mut world = fixture::home_world();
        world.unobserved.push(Unobserved::new(what.clone(), "it did not answer within 5 s"));
        world
    };
    for what in [
        Aspect::Tasks("atlas".into()),
        Aspect::Vm { vmid: 300, host: None },
        Aspect::Host("atlas".into()),
        Aspect::Guests("atlas".into()),
    ] {
        let plan = plan_destroy(&cluster, &unseen(&what)).unwrap();
        let [note] = &plan.notes[..] else { panic!("{:?}", plan.notes) };
        assert_eq!((note.level, note.about()), (Level::Problem, what.to_string()));
        assert!(note.text().contains("it did not answer") && note.fix().is_some(), "{note:?}");
        assert_eq!(plan.not_seen, [what.to_string()]);
    }
    // A host that did not list its guests, and a VM that could not be read, are one problem each.
    let mut unlisted = unseen(&Aspect::Guests("atlas".into()));
    unlisted.unlisted_hosts.insert("atlas".into());
    let problems = |world: &World| {
        let notes = plan_destroy(&cluster, world).unwrap().notes;
        notes.into_iter().filter(|note| note.level == Level::Problem).count()
    };
    assert_eq!(problems(&unlisted), 1);
    let mut unread = unseen(&Aspect::Vm { vmid: 900, host: Some("atlas".into()) });
    let ownership = Ownership::Unreadable { why: "it did not answer within 5 s".into() };
    let guest = GuestView { vmid: 900, host: "atlas".into(), ownership, ..GuestView::default() };
    unread.guests.insert(900, guest);
    assert_eq!(problems(&unread), 1);
    // What else may hide something of the cluster is named where nothing is left to do.
    let disks = Aspect::Disks { storage: "local-lvm".into(), host: "atlas".into() };
    let plan = plan_destroy(&cluster, &unseen(&disks)).unwrap();
    let said = render(&plan, RenderOptions::default()).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("is left to destroy. Not seen: disks on storage local-lvm on host atlas."),
        "{said}"
    );
    // What no destroy takes away is named among what stays.
    let guarded = unseen(&Aspect::BackupJobs);
    assert_eq!(plan_destroy(&cluster, &guarded).unwrap().notes, []);
    assert_eq!(staying(&cluster, &fixture::images(&cluster), &guarded).unseen, ["backup jobs"]);
}

/// No command of this program destroys a template whose create died, so that none is advised.
#[test]
fn a_template_whose_create_died_is_not_among_what_prune_destroys() {
    let cluster = fixture::home();
    let mut world = fixture::home_world();
    for (vmid, dead) in [(998, false), (999, true)] {
        let ownership = Ownership::Template { role: Role::Worker, digest: "ab".into(), dead };
        let (host, template) = ("atlas".to_owned(), !dead);
        world.guests.insert(vmid, GuestView { vmid, host, template, ownership, ..GuestView::default() });
    }
    assert_eq!(staying(&cluster, &fixture::images(&cluster), &world).templates, [998]);
}

/// A volume carries no mark: without secrets nothing proves that its VMID is this store's.
#[test]
fn volumes_are_not_deleted_without_the_secrets() {
    let cluster = fixture::home();
    let mut world = fixture::home_world();
    let disk = DiskView { volid: "local-lvm:vm-300-disk-0".into(), vmid: 300, size: 1 << 30 };
    world.disks = vec![DiskList { host: "atlas".into(), storage: "local-lvm".into(), disks: vec![disk] }];
    let pruning = Pruning::default();
    let refused = plan_prune_volumes(&cluster, &world, pruning).unwrap_err();
    assert!(
        refused.to_string().contains("nothing proves that 1 volume is this store's (local-lvm:vm-300-disk-0"),
        "{refused}"
    );
    assert!(refused.fix().is_some());
    let agreed = Pruning { without_secrets: true, ..pruning };
    let plan = plan_prune_volumes(&cluster, &world, agreed).unwrap();
    assert_eq!((plan.steps.len(), check(&cluster, &world, &plan)), (1, vec![]));
    // Nor does the checker let a plan pass that somebody with secrets made.
    let unproven = Plan { without_secrets: false, ..plan };
    let found = check(&cluster, &world, &unproven);
    assert!(matches!(&found[..], [Finding { rule: Rule::Secrets, .. }]), "{found:?}");
    world.secrets_stored = true;
    let plan = plan_prune_volumes(&cluster, &world, pruning).unwrap();
    assert_eq!((plan.steps.len(), check(&cluster, &world, &plan)), (1, vec![]));
    // Where nothing goes, nothing has to be proven.
    (world.secrets_stored, world.disks) = (false, Vec::new());
    assert!(plan_prune_volumes(&cluster, &world, pruning).unwrap().is_empty());
}
