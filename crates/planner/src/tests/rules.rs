//! Single rules of safety, one story each.

use daedal_inventory::{Arch, Boot, BootFrom, Cluster};
use daedal_machine::vm::Value;

use super::simulator::Sim;
use super::told::*;
use crate::fixture::{self, card, config};
use crate::*;

pub(super) fn made() -> Sim {
    Sim::made(&fixture::home(), &fixture::home_world())
}

fn bootstraps(plan: &Plan) -> Vec<&str> {
    let steps = plan.steps.iter().filter(|step| matches!(step.action, Action::Bootstrap { .. }));
    steps.filter_map(|step| step.node.as_deref()).collect()
}

pub(super) fn rules(sim: &Sim, plan: &Plan) -> Vec<Rule> {
    let mut rules: Vec<Rule> =
        check(&sim.cluster, &sim.world, plan).into_iter().map(|finding| finding.rule).collect();
    rules.dedup();
    rules
}

#[test]
fn a_lost_first_control_plane_joins_the_etcd_of_the_others() {
    let mut sim = made();
    sim.world.guests.remove(&300);
    sim.world.nodes.remove("cp-1");
    sim.disks.remove("cp-1");
    let plan = sim.plan();
    assert_eq!(bootstraps(&plan), [""; 0]);
    assert_eq!(plan.quorum, Quorum { before: 2, lowest: 2, after: 3 });
}

#[test]
fn silence_of_a_control_plane_that_once_lived_keeps_others_from_bootstrapping() {
    let mut sim = made();
    sim.world.guests.remove(&300);
    sim.world.nodes.remove("cp-1");
    sim.disks.remove("cp-1");
    sim.world.endpoint_answers = false;
    for node in ["cp-2", "cp-3", "worker-1", "worker-2"] {
        sim.world.nodes.insert(node.into(), NodeView::default());
    }
    let plan = sim.plan();
    assert_eq!(bootstraps(&plan), [""; 0]);
    let note = plan.notes.iter().find(|note| matches!(note.advice, Advice::EtcdInDoubt { .. })).unwrap();
    assert!(note.text().contains("cp-2, cp-3"), "{}", note.text());
    // A plan that bootstraps all the same is refused.
    let mut bad = plan.clone();
    let await_first =
        bad.steps.iter().find(|s| s.action == Action::AwaitApi && s.node.as_deref() == Some("cp-1"));
    let step = Step {
        id: u32::try_from(plan.steps.len()).unwrap(),
        needs: vec![await_first.unwrap().id],
        node: Some("cp-1".into()),
        host: None,
        action: Action::Bootstrap { recover: None },
        reason: String::new(),
        impact: Impact::None,
    };
    bad.steps.push(step);
    assert!(rules(&sim, &bad).contains(&Rule::Etcd));
}

#[test]
fn one_silent_control_plane_that_never_answered_is_asked_first() {
    // All three run, none was seen yet: the first bootstraps, after the others have been asked.
    let cluster = fixture::home();
    let mut sim = Sim::new(&cluster, &fixture::home_world());
    let plan = sim.plan();
    sim.run(&plan, |at| !matches!(plan.steps[at].action, Action::AwaitApi));
    let plan = sim.plan();
    assert_eq!(bootstraps(&plan), ["cp-1"]);
    let bootstrap = plan.steps.iter().find(|step| matches!(step.action, Action::Bootstrap { .. })).unwrap();
    let asked: Vec<_> =
        bootstrap.needs.iter().map(|id| plan.steps[*id as usize].node.as_deref().unwrap()).collect();
    assert_eq!(asked, ["cp-1", "cp-2", "cp-3"]);
}

#[test]
fn an_undeclared_vm_of_ours_may_hold_the_etcd() {
    let small = fixture::cluster("home", &["atlas"], 3, 0);
    let mut sim = Sim::made(&small, &fixture::home_world());
    for (node, vmid) in [("cp-1", 300), ("cp-2", 301)] {
        sim.world.guests.remove(&vmid);
        sim.world.nodes.remove(node);
    }
    sim.world.endpoint_answers = false;
    sim.world.nodes.remove("cp-3");
    sim.cluster.nodes.truncate(1);
    let plan = plan_apply(&sim.cluster, &sim.images, &sim.world).unwrap();
    assert_eq!(bootstraps(&plan), [""; 0]);
    assert_eq!(rules(&sim, &plan), []);
    let touched = plan.steps.iter().any(|step| serde_json::to_string(step).unwrap().contains("302"));
    assert!(!touched, "an undeclared VM is left alone");
}

#[test]
fn two_claimants_are_both_left_alone() {
    let mut sim = made();
    let copy = GuestView { vmid: 700, ..sim.world.guests[&303].clone() };
    sim.world.guests.insert(700, copy);
    sim.world.guests.get_mut(&303).unwrap().running = false;
    for plan in [sim.plan(), sim.plan_destroy()] {
        let text = serde_json::to_string(&plan.steps).unwrap();
        assert!(!text.contains("303") && !text.contains("700"), "{text}");
        assert!(plan.notes.iter().any(|note| note.level == Level::Problem && note.about() == "worker-1"));
    }
}

#[test]
fn a_network_change_takes_control_planes_one_at_a_time_and_only_with_a_spare() {
    let mut sim = made();
    sim.cluster.proxmox.bridge = "vmbr1".into();
    for host in sim.world.hosts.values_mut() {
        host.bridges.insert("vmbr1".into());
    }
    let plan = sim.plan();
    let interrupted: Vec<_> = plan
        .steps
        .iter()
        .filter(|step| step.impact == Impact::Interrupt)
        .filter_map(|step| step.node.as_deref())
        .filter(|node| node.starts_with("cp"))
        .collect();
    assert_eq!(interrupted, ["cp-1", "cp-2", "cp-3"]);
    assert_eq!(plan.quorum, Quorum { before: 3, lowest: 2, after: 3 });
    // The same steps side by side are refused.
    let mut bad = plan.clone();
    for step in bad.steps.iter_mut().filter(|step| step.impact == Impact::Interrupt) {
        step.needs.clear();
    }
    assert!(rules(&sim, &bad).contains(&Rule::Etcd));
    // With one member missing there is no spare one; while one learns, nothing moves at all.
    for (etcd, expected) in [(EtcdView::NotJoined, &["cp-3"][..]), (EtcdView::Learner, &[][..])] {
        sim.world.nodes.get_mut("cp-3").unwrap().etcd = etcd;
        let careful = sim.plan();
        let interrupts = careful.steps.iter().filter(|s| s.impact == Impact::Interrupt);
        let nodes: Vec<_> =
            interrupts.filter_map(|s| s.node.as_deref()).filter(|n| n.starts_with("cp")).collect();
        assert_eq!(nodes, expected);
        assert!(rules(&sim, &plan).contains(&Rule::Etcd), "the bold plan is refused now");
    }
}

#[test]
fn a_config_change_waits_until_the_one_whose_network_was_cut_votes_again() {
    for etcd in [EtcdView::Unknown, EtcdView::Member] {
        let mut sim = made();
        card(config(&mut sim.world, 302)).bridge = "vmbr9".into();
        sim.world.nodes.insert("cp-3".into(), NodeView { etcd, ..NodeView::default() });
        sim.world.nodes.get_mut("cp-1").unwrap().config = fixture::differs(["a", "b"], false, &[]);
        // The simulator holds every plan against the rules.
        let plan = sim.plan();
        let of = |node: &str, action: fn(&Action) -> bool| {
            plan.steps.iter().find(|step| step.node.as_deref() == Some(node) && action(&step.action)).unwrap()
        };
        let voting = of("cp-3", |action| *action == Action::AwaitEtcd);
        let config = of("cp-1", |action| matches!(action, Action::ApplyConfig { .. }));
        assert!(config.needs.contains(&voting.id), "{}", render(&plan, RenderOptions::default()));
        assert_eq!(sim.run(&plan, |_| true), plan.steps.len());
        assert!(sim.plan().is_empty());
    }
}

#[test]
fn a_new_mac_is_held_back_from_a_node_whose_config_names_the_old_one() {
    let mut sim = made();
    let old = sim.cluster.nodes[3].mac.clone();
    sim.cluster.nodes[3].mac = "BC:24:11:00:00:01".into();
    let plan = sim.plan();
    assert!(plan.is_empty());
    assert!(plan.notes.iter().any(|note| note.text().contains(&old)));
    // But a MAC that someone changed on the VM is put back.
    let mut sim = made();
    card(config(&mut sim.world, 303)).mac = "BC:24:11:00:00:01".into();
    let plan = sim.plan();
    assert!(matches!(&plan.steps[..], [Step { action: Action::UpdateVm { vmid: 303, .. }, .. }]));
}

#[test]
fn media_of_others_stay() {
    let mut sim = made();
    let mut other = fixture::home();
    other.name = "home-2".into();
    let mut volume = |file: String| {
        sim.world.volumes.push(VolumeView {
            host: "atlas".into(),
            storage: "local".into(),
            volid: names::media_volid("local", &file),
            content: "iso".into(),
            size: 1,
        });
    };
    volume(names::media_file(&other, &other.nodes[0], None));
    volume("debian.iso".into());
    volume("daedal-home.iso".into());
    assert!(sim.plan().is_empty());
    let deletes =
        sim.plan_destroy().steps.iter().any(|step| matches!(step.action, Action::DeleteMedia { .. }));
    assert!(!deletes);
}

#[test]
fn what_a_cut_connection_left_of_a_snippet_is_deleted() {
    let mut sim = made();
    sim.cluster.boot.config = daedal_inventory::BootConfig::Snippet;
    let volid =
        format!("local:snippets/{}.part", names::media_file(&sim.cluster, &sim.cluster.nodes[0], None));
    sim.put_volume("atlas", &volid, "snippets", 1);
    let plan = sim.plan();
    let deleted = |step: &Step| matches!(&step.action, Action::DeleteMedia { volid: gone } if *gone == volid);
    assert!(plan.steps.iter().any(deleted), "{:?}", plan.steps);
    assert_eq!(rules(&sim, &plan), []);
}

#[test]
fn a_medium_in_a_strangers_drive_stays() {
    let mut sim = made();
    let volid = names::media_volid("local", &names::media_file(&sim.cluster, &sim.cluster.nodes[0], None));
    sim.world.volumes.push(VolumeView {
        host: "atlas".into(),
        storage: "local".into(),
        volid: volid.clone(),
        content: "iso".into(),
        size: 1,
    });
    let config = VmConfig { media: Some(volid), ..VmConfig::default() };
    let guest = GuestView { vmid: 800, host: "atlas".into(), config: Some(config), ..GuestView::default() };
    sim.world.guests.insert(800, guest);
    assert!(sim.plan().is_empty());
    assert!(!sim.plan_destroy().steps.iter().any(|step| matches!(step.action, Action::DeleteMedia { .. })));
}

#[test]
fn a_locked_vm_is_left_alone() {
    let mut sim = made();
    let guest = sim.world.guests.get_mut(&304).unwrap();
    guest.lock = Some("backup".into());
    guest.config.as_mut().unwrap().options.insert("cores".into(), Value::Count(1));
    let plan = sim.plan();
    assert!(plan.is_empty());
    assert!(plan.notes.iter().any(|note| note.about() == "worker-2" && note.text().contains("backup")));
}

#[test]
fn workers_are_not_made_where_no_control_plane_can_come_up() {
    let cluster = fixture::cluster("home", &["atlas"], 1, 2);
    let mut world = fixture::home_world();
    let half = Ownership::HalfMade { node: "cp-1".into(), task_running: false, upid: "UPID:x".into() };
    let guest = GuestView { vmid: 300, host: "atlas".into(), ownership: half, ..GuestView::default() };
    world.guests.insert(300, guest);
    let plan = plan_apply(&cluster, &fixture::images(&cluster), &world).unwrap();
    assert!(!plan.steps.iter().any(|step| matches!(step.action, Action::CreateVm { .. })));
    assert!(plan.notes.iter().any(|note| note.about() == "worker-1, worker-2"));
    // Nor is a boot ISO brought for one that an earlier run began.
    let ownership =
        Ownership::HalfMade { node: "worker-1".into(), task_running: true, upid: "UPID:y".into() };
    let guest = GuestView { vmid: 301, host: "atlas".into(), ownership, ..GuestView::default() };
    world.guests.insert(301, guest);
    (world.secrets_stored, world.outputs_current) = (true, true);
    let cluster = Cluster { boot: Boot { from: BootFrom::Iso, ..Boot::default() }, ..cluster };
    let plan = plan_apply(&cluster, &fixture::images(&cluster), &world).unwrap();
    assert!(plan.is_empty(), "{}", render(&plan, RenderOptions::default()));
}

#[test]
fn a_control_plane_that_fails_holds_up_no_worker() {
    let cluster = fixture::home();
    let mut sim = Sim::new(&cluster, &fixture::home_world());
    let plan = sim.plan();
    let failing = |at: usize| matches!(plan.steps[at].action, Action::CreateVm { vmid: 301, .. });
    sim.run(&plan, |at| !failing(at));
    for worker in ["worker-1", "worker-2"] {
        assert_eq!(sim.world.nodes[worker].ready, Some(true), "{worker}");
    }
    // No more than that: a worker that waits for no control plane at all is refused.
    let awaited =
        |step: &&mut Step| step.action == Action::AwaitApi && step.node.as_deref() == Some("worker-1");
    let mut bad = plan.clone();
    let wait = bad.steps.iter_mut().find(awaited).unwrap();
    wait.needs.retain(|id| plan.steps[*id as usize].action != Action::AwaitApi);
    let fresh = Sim::new(&cluster, &fixture::home_world());
    assert_eq!(rules(&fresh, &bad), [Rule::Order]);
    // Nor does the one that vouches for them have to be the first.
    let mut world = fixture::home_world();
    let half = Ownership::HalfMade { node: "cp-1".into(), task_running: false, upid: "UPID:x".into() };
    world
        .guests
        .insert(300, GuestView { vmid: 300, host: "atlas".into(), ownership: half, ..GuestView::default() });
    let mut sim = Sim::new(&cluster, &world);
    let plan = sim.plan();
    sim.run(&plan, |at| plan.steps[at].node.as_deref() != Some("cp-3"));
    assert_eq!(bootstraps(&plan), ["cp-2"]);
    assert_eq!(sim.world.nodes["worker-1"].ready, Some(true));
}

#[test]
fn a_wiped_control_plane_is_left_alone_until_its_stale_member_is_removed() {
    let mut sim = made();
    sim.wipe("cp-2");
    config(&mut sim.world, 303).options.insert("onboot".into(), Value::Flag(false));
    let plan = sim.plan();
    let nodes: Vec<_> = plan.steps.iter().filter_map(|step| step.node.as_deref()).collect();
    assert_eq!(nodes, ["worker-1"], "the rest goes on");
    let note = plan.notes.iter().find(|note| note.about() == "cp-2").unwrap();
    assert_eq!(note.level, Level::Problem);
    let fix = note.fix().unwrap();
    assert!(fix.contains("talosctl -n 10.0.0.11 etcd remove-member"), "{fix}");
    // It does not vote, whatever the others' list says: none of them may be interrupted.
    let mut moved = sim.clone();
    moved.cluster.proxmox.bridge = "vmbr1".into();
    moved.world.hosts.get_mut("atlas").unwrap().bridges.insert("vmbr1".into());
    let plan = moved.plan();
    let interrupts = |step: &&Step| step.impact == Impact::Interrupt;
    let interrupted: Vec<_> =
        plan.steps.iter().filter(interrupts).filter_map(|step| step.node.as_deref()).collect();
    assert_eq!(interrupted, ["worker-1", "worker-2"]);
    // Once the member is removed, it gets its config and joins.
    sim.stale.clear();
    sim.world.nodes.get_mut("cp-2").unwrap().etcd = EtcdView::NotJoined;
    let plan = sim.plan();
    assert_eq!(sim.run(&plan, |_| true), plan.steps.len());
    assert_eq!(sim.world.nodes["cp-2"].etcd, EtcdView::Member);
    assert!(sim.plan().is_empty());
}

#[test]
fn no_new_secrets_while_a_guest_on_our_vmid_may_be_ours() {
    let cluster = fixture::home();
    let images = fixture::images(&cluster);
    let fresh = plan_apply(&cluster, &images, &fixture::home_world()).unwrap();
    for ownership in [
        Ownership::Unreadable { why: "its host is offline".into() },
        Ownership::LookAlike { why: "its SMBIOS uuid is another".into(), likeness: Likeness::Copy },
    ] {
        let mut world = fixture::home_world();
        let guest = GuestView { vmid: 304, host: "atlas".into(), ownership, ..GuestView::default() };
        world.guests.insert(304, guest.clone());
        let error = plan_apply(&cluster, &images, &world).unwrap_err();
        assert!(matches!(&error, PlanError::SecretsInDoubt { .. }), "{error}");
        assert!(error.to_string().contains("VM 304 on atlas"), "{error}");
        // A plan that makes them all the same is refused.
        let sim = Sim::new(&cluster, &world);
        assert!(rules(&sim, &fresh).contains(&Rule::Secrets));
        // With the secrets at hand the rest goes on.
        world.secrets_stored = true;
        let plan = Sim::new(&cluster, &world).plan();
        assert!(plan.steps.iter().any(|step| matches!(step.action, Action::CreateVm { .. })));
        // On a VMID that is not ours it is nobody's business.
        let mut world = fixture::home_world();
        world.guests.insert(900, GuestView { vmid: 900, ..guest });
        assert!(plan_apply(&cluster, &images, &world).is_ok());
    }
}

/// Whoever destroys a VM by hand as advised leaves none of its disks behind.
#[test]
fn every_advised_destroy_takes_unreferenced_disks_along() {
    let cluster = fixture::home();
    let advised = |change: &dyn Fn(&mut Sim)| {
        let mut sim = Sim::made(&cluster, &fixture::home_world());
        change(&mut sim);
        let fixes = sim.plan().notes.into_iter().filter_map(|note| note.fix());
        fixes.filter(|fix| fix.contains("qm destroy")).collect::<Vec<_>>()
    };
    for fixes in [
        advised(&|sim| config(&mut sim.world, 303).disk = 0),
        advised(&|sim| {
            config(&mut sim.world, 303).options.insert("machine".into(), Value::text("pc"));
        }),
        advised(&|sim| {
            sim.cluster.boot.config = daedal_inventory::BootConfig::Maintenance;
            sim.world.nodes.get_mut("worker-1").unwrap().talos = TalosView::Maintenance;
        }),
    ] {
        assert!(fixes.len() == 1 && fixes[0].contains("--destroy-unreferenced-disks 1"), "{fixes:?}");
    }
}

#[test]
fn a_saved_plan_fits_only_the_world_it_was_made_for() {
    let cluster = fixture::home();
    let images = fixture::images(&cluster);
    let world = fixture::home_world();
    let plan = plan_apply(&cluster, &images, &world).unwrap();
    assert_eq!(fits(&plan, &cluster, &images, &world), Ok(()));

    let mut busier = world.clone();
    busier
        .guests
        .insert(100, GuestView { vmid: 100, host: "atlas".into(), running: true, ..GuestView::default() });
    assert_eq!(fits(&plan, &cluster, &images, &busier), Ok(()), "someone else's guest does not matter");

    let mut taken = world.clone();
    taken.guests.insert(301, GuestView { vmid: 301, host: "atlas".into(), ..GuestView::default() });
    let Err(Unfit::World(moved)) = fits(&plan, &cluster, &images, &taken) else { panic!() };
    let gone = |moved: &Moved| match moved {
        Moved::Gone(step) => matches!(step.action, Action::CreateVm { vmid: 301, .. }),
        _ => false,
    };
    assert!(moved.iter().any(gone), "{moved:?}");

    let mut full = world.clone();
    full.hosts.get_mut("atlas").unwrap().memory = 1 << 30;
    assert!(matches!(fits(&plan, &cluster, &images, &full), Err(Unfit::NoPlan(PlanError::NoRoom(_)))));

    let mut changed = cluster.clone();
    changed.nodes[0].cores = 2;
    assert_eq!(fits(&plan, &changed, &images, &world), Err(Unfit::Inventory));

    let mut altered = plan;
    altered.steps.pop();
    assert_eq!(fits(&altered, &cluster, &images, &world), Err(Unfit::Altered));
}

#[test]
fn only_the_ways_that_are_built_are_planned() {
    let mut cluster = fixture::home();
    cluster.boot.from = daedal_inventory::BootFrom::Template;
    cluster.boot.config = daedal_inventory::BootConfig::Meta;
    let error = plan_apply(&cluster, &fixture::images(&cluster), &fixture::home_world()).unwrap_err();
    assert!(error.to_string().contains("{from: template, config: meta}"), "{error}");
}

#[test]
fn snippets_are_put_where_every_host_sees_them_or_not_at_all() {
    let mut cluster = fixture::cluster("home", &["atlas", "boreas"], 1, 1);
    cluster.boot.config = daedal_inventory::BootConfig::Snippet;
    let mut world = fixture::empty_world(&[("atlas", 64, 256, 4000), ("boreas", 64, 256, 4000)]);
    let error = plan_apply(&cluster, &fixture::images(&cluster), &world).unwrap_err();
    assert_eq!(error, PlanError::SnippetsApart { storage: "local".into() });
    for host in world.hosts.values_mut() {
        host.storages.get_mut("local").unwrap().shared = true;
    }
    let plan = plan_apply(&cluster, &fixture::images(&cluster), &world).unwrap();
    let media = plan.steps.iter().filter_map(|step| match &step.action {
        Action::CreateVm { media, .. } => media.clone(),
        _ => None,
    });
    for medium in media.collect::<Vec<_>>() {
        assert!(medium.starts_with("local:snippets/daedal-home.") && medium.ends_with(".yaml"), "{medium}");
    }
}

#[test]
fn colour_changes_nothing_but_colour() {
    let sim = Sim::new(&fixture::home(), &fixture::home_world());
    let plan = sim.plan();
    let plain = render(&plan, RenderOptions::default());
    let mut coloured = render(&plan, RenderOptions { color: true, ..RenderOptions::default() });
    for code in ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m", "\u{1b}[31m", "\u{1b}[32m", "\u{1b}[33m"] {
        coloured = coloured.replace(code, "");
    }
    let trimmed = |text: &str| text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    assert_eq!(trimmed(&coloured), trimmed(&plain));
    let narrow = render(&plan, RenderOptions { width: 72, ..RenderOptions::default() });
    assert!(narrow.lines().all(|line| line.chars().count() <= 90), "{narrow}");
}

#[test]
fn other_processors_are_refused_before_anything_is_made() {
    let mut cluster = fixture::home();
    cluster.talos.arch = Arch::Arm64;
    let mut world = fixture::home_world();
    let images = fixture::images(&cluster);
    // What nobody told is not held against anybody.
    assert!(plan_apply(&cluster, &images, &world).is_ok());
    for (is, fits) in [(Arch::Arm64, true), (Arch::Amd64, false)] {
        for host in world.hosts.values_mut() {
            host.arch = Some(is);
        }
        let plan = plan_apply(&cluster, &images, &world);
        assert_eq!(matches!(plan, Err(PlanError::Arch { wanted: Arch::Arm64, .. })), !fits, "{is}");
    }
}

#[test]
fn nobody_waits_for_a_node_that_is_left_as_it_is() {
    let mut sim = made();
    // Its VM has another number than the inventory says, and Kubernetes has lost sight of it.
    let node = sim.cluster.nodes.iter_mut().find(|node| node.name == "worker-1").unwrap();
    node.vmid = 399;
    sim.world.nodes.get_mut("worker-1").unwrap().ready = Some(false);
    let plan = sim.plan();
    let fate = plan.nodes.iter().find(|node| node.name == "worker-1").map(|node| node.fate);
    assert_eq!(fate, Some(Fate::Blocked));
    let steps: Vec<_> = plan.steps.iter().filter(|step| step.node.as_deref() == Some("worker-1")).collect();
    assert!(steps.is_empty(), "{steps:#?}");
}

fn snapshot() -> Recovery {
    Recovery { file: "etcd-1.db".into(), size: 3 << 20, sha256: "ab".repeat(32), revision: 4711 }
}

#[test]
fn a_snapshot_is_restored_only_where_no_etcd_is_and_under_the_old_secrets() {
    let (cluster, images) = (fixture::home(), fixture::images(&fixture::home()));
    let mut world = fixture::home_world();
    let refused = |world: &World| match plan_restore(&cluster, &images, world, &snapshot()) {
        Err(PlanError::NoRestore { why, .. }) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(&world), WhyNoRestore::NoSecrets);
    world.secrets_stored = true;
    let plan = plan_restore(&cluster, &images, &world, &snapshot()).unwrap();
    assert_eq!(check(&cluster, &world, &plan), []);
    assert_eq!(fits(&plan, &cluster, &images, &world), Ok(()));
    let told = render(&plan, RenderOptions::default());
    assert!(told.contains("bootstrap etcd from the snapshot etcd-1.db"), "{told}");
    assert!(told.contains("it begins at revision 4711"), "{told}");
    // Under secrets that this very plan makes, nobody could read it.
    let mut fresh = fixture::home_world();
    fresh.secrets_stored = false;
    assert!(check(&cluster, &fresh, &plan).iter().any(|finding| finding.rule == Rule::Secrets));
    // A living cluster keeps what it has.
    let sim = made();
    assert_eq!(refused(&sim.world), WhyNoRestore::EtcdLives);
    // Neither does one that may hold an etcd and is silent.
    let mut silent = made();
    silent.world.endpoint_answers = false;
    for node in &sim.cluster.nodes {
        silent.world.nodes.insert(node.name.clone(), NodeView::default());
    }
    let why = refused(&silent.world);
    let in_doubt = |why: &WhyNoRestore| match why {
        WhyNoRestore::Blocked(advice) => matches!(**advice, Advice::EtcdInDoubt { .. }),
        _ => false,
    };
    assert!(in_doubt(&why), "{why:?}");
}
