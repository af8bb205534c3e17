//! Laws that hold for every plan, whatever the world.

use std::collections::BTreeSet;

use daedal_inventory::{Boot, BootConfig, BootFrom, Cluster, DiskFormat};
use daedal_machine::vm::Value;
use proptest::prelude::*;

use super::simulator::Sim;
use super::told::*;
use crate::fixture::{self, GIB, card};
use crate::*;

/// A cluster and a world with strangers in it, with room for everything.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) cluster: Cluster,
    pub(crate) world: World,
    pub(crate) strangers: BTreeSet<u32>,
}

fn stranger(kind: u8, vmid: u32, host: &str, node: &str) -> GuestView {
    let guest = GuestView {
        vmid,
        host: host.into(),
        name: format!("guest-{vmid}"),
        cores: 1,
        memory: GIB,
        disk: 10 * GIB,
        ..GuestView::default()
    };
    let config =
        VmConfig { disk: 10 * GIB, media: Some("local:iso/debian.iso".into()), ..VmConfig::default() };
    match kind % 6 {
        0 => GuestView { running: true, config: Some(config), ..guest },
        1 => GuestView { config: Some(config), ..guest },
        2 => GuestView { template: true, ..guest },
        3 => GuestView {
            running: true,
            ownership: Ownership::LookAlike {
                why: "its SMBIOS uuid is another".into(),
                likeness: Likeness::Copy,
            },
            config: Some(config),
            ..guest
        },
        4 => GuestView {
            lock: Some("create".into()),
            ownership: Ownership::HalfMade { node: node.into(), task_running: false, upid: "UPID:x".into() },
            ..guest
        },
        _ => GuestView { ownership: Ownership::Unreadable { why: "permission".into() }, ..guest },
    }
}

/// Every boot path; half of the time the usual one.
fn boots() -> impl Strategy<Value = Boot> {
    let on_storage = Some("nas:iso/talos.iso".to_owned());
    let own = Some("nas:import/talos.raw".to_owned());
    let templates =
        daedal_inventory::Templates { control_plane: 998, worker: 999, full: false, by_iso: false };
    let path = |from, config| Boot { from, config, ..Boot::default() };
    prop_oneof![
        4 => Just(Boot::default()),
        1 => Just(path(BootFrom::DiskImage, BootConfig::Maintenance)),
        1 => Just(path(BootFrom::Iso, BootConfig::Cidata)),
        1 => Just(path(BootFrom::Iso, BootConfig::Maintenance)),
        1 => Just(path(BootFrom::DiskImage, BootConfig::CloudInitDrive)),
        1 => Just(Boot { template: Some(templates), ..path(BootFrom::Template, BootConfig::Cidata) }),
        1 => Just(path(BootFrom::DiskImage, BootConfig::Snippet)),
        1 => Just(path(BootFrom::DiskImage, BootConfig::Meta)),
        1 => Just(path(BootFrom::Iso, BootConfig::Meta)),
        1 => Just(Boot { iso: on_storage, ..path(BootFrom::Iso, BootConfig::Maintenance) }),
        1 => Just(Boot { image: own.clone(), ..Boot::default() }),
        1 => Just(Boot { image: own, ..path(BootFrom::DiskImage, BootConfig::CloudInitDrive) }),
        1 => Just(Boot { format: DiskFormat::Raw, ..Boot::default() }),
    ]
}

prop_compose! {
    pub(crate) fn scenes()(
        hosts in 1usize..4,
        control_planes in prop_oneof![Just(1u32), Just(3), Just(5)],
        workers in 0u32..5,
        shared in any::<bool>(),
        boot in boots(),
        inside in prop_oneof![Just(None), Just(Some(GIB)), Just(Some(super::simulator::OWN_DISK))],
        wrong_image in 0u8..4,
        creating in prop::option::weighted(0.2, any::<prop::sample::Index>()),
        guests in prop::collection::vec((any::<u8>(), 295u32..312, any::<prop::sample::Index>()), 0..4),
    ) -> Scene {
        let names = &["atlas", "boreas", "ceres"][..hosts];
        // They are put on one host only.
        let shared = shared || boot.by_snippet();
        let cluster = Cluster { boot, ..fixture::cluster("home", names, control_planes, workers) };
        let rooms: Vec<_> = names.iter().enumerate().map(|(i, n)| (*n, 64 << i, 256, 4000)).collect();
        let mut world = fixture::empty_world(&rooms);
        for host in world.hosts.values_mut() {
            host.storages.get_mut("local").unwrap().shared = shared;
        }
        if let Some(volume) = cluster.boot.volume() {
            let content = if cluster.boot.iso.is_some() { "iso" } else { "import" };
            world.volumes.extend(names.iter().map(|host| VolumeView {
                host: (*host).into(), storage: "nas".into(), volid: volume.into(), content: content.into(), size: 100,
            }));
            world.own_disk = inside.filter(|_| cluster.boot.image.is_some());
        }
        let mut strangers = BTreeSet::new();
        for (kind, vmid, host) in guests {
            let node = cluster.nodes.iter().find(|n| n.vmid == vmid);
            if node.is_none() && kind % 6 == 4 { continue }
            let name = node.map_or("", |n| &n.name);
            world.guests.insert(vmid, stranger(kind, vmid, names[host.index(hosts)], name));
            strangers.insert(vmid);
            // What may be ours forbids new secrets, so that there would be nothing to plan.
            world.secrets_stored |= node.is_some() && matches!(kind % 6, 3 | 5);
        }
        // A create task of an earlier run still runs for one of the nodes.
        let node = creating.map(|at| &cluster.nodes[at.index(cluster.nodes.len())]);
        if let Some(node) = node.filter(|node| !strangers.contains(&node.vmid)) {
            let ownership =
                Ownership::HalfMade { node: node.name.clone(), task_running: true, upid: "UPID:x".into() };
            let guest = GuestView { vmid: node.vmid, host: names[0].into(), lock: Some("create".into()), ownership, ..GuestView::default() };
            world.guests.insert(node.vmid, guest);
            world.secrets_stored = true;
        }
        if wrong_image == 0 {
            let image = fixture::image(&cluster);
            world.image_pins.push(ImagePin { file: image.file.clone(), size: super::simulator::IMAGE_SIZE, sha256: "ab".repeat(32), disk_size: None });
            let on = if shared { names } else { &names[..1] };
            world.volumes.extend(on.iter().map(|host| VolumeView {
                host: (*host).into(), storage: "local".into(), volid: image.volid("local"),
                content: image.content.as_str().into(), size: 9,
            }));
        }
        Scene { cluster, world, strangers }
    }
}

/// Whether a step happens before the crash: about nine in ten do, and others need them.
pub(crate) fn survives(seed: u64, at: usize) -> bool {
    let mixed = (seed ^ (at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    !(mixed >> 33).is_multiple_of(10)
}

fn set(config: &mut VmConfig, option: &str, value: Value) {
    config.options.insert(option.to_owned(), value);
}

/// Something happens to one of our VMs.
fn strike(sim: &mut Sim, name: &str, vmid: u32, blow: u8) {
    let worker = name.starts_with("worker");
    let guest = sim.world.guests.get_mut(&vmid).unwrap();
    // Nothing can happen to one that is not made yet.
    let Some(config) = guest.config.as_mut() else { return };
    match blow {
        0 => set(config, "cores", Value::Count(1)),
        1 => set(config, "memory", Value::Memory(GIB)),
        2 => set(config, "tags", Value::Words(vec!["mine".into()])),
        3 => set(config, "onboot", Value::Flag(false)),
        4 => card(config).vlan = Some(99),
        5 => card(config).bridge = "vmbr9".into(),
        6 => config.media = config.media.take().or(Some("local:iso/debian.iso".into())),
        // It does not answer just now.
        7 => {
            sim.world.nodes.insert(name.to_owned(), NodeView::default());
        }
        // It was switched off.
        8 => {
            guest.running = false;
            sim.world.nodes.insert(name.to_owned(), NodeView::default());
        }
        // Its disk was wiped, so that it waits for a config.
        9 if guest.running && (worker || config.media.is_none()) => {
            let member = |name: &str| sim.disks.get(name).is_some_and(|disk| disk.member);
            let others = sim.disks.keys().any(|other| other != name && member(other));
            // The loss of a whole etcd is not made good by any plan.
            if !member(name) || (others && sim.stale.is_empty()) {
                sim.wipe(name);
            }
        }
        // Someone changed the config inside.
        11 | 12 => {
            let Some(view) = sim.world.nodes.get_mut(name) else { return };
            if matches!(view.talos, TalosView::Configured { .. }) {
                view.config = crate::fixture::differs(["a", "b"], blow == 12, &[]);
            }
        }
        // Someone migrated it.
        _ => guest.host = sim.world.hosts.keys().next_back().unwrap().clone(),
    }
}

fn untouched(scene: &Scene, sim: &Sim, plan: &Plan) {
    for vmid in &scene.strangers {
        assert_eq!(sim.world.guests.get(vmid), scene.world.guests.get(vmid));
        for step in &plan.steps {
            let json = serde_json::to_value(&step.action).unwrap();
            assert_ne!(json.get("vmid"), Some(&serde_json::json!(vmid)));
        }
    }
}

proptest! {
    #![proptest_config(super::config())]

    #[test]
    fn after_apply_there_is_nothing_left_to_do(scene in scenes()) {
        let mut sim = Sim::new(&scene.cluster, &scene.world);
        let plan = sim.plan();
        // A wait may not end where a look-alike control plane keeps us from bootstrapping.
        let unsure = plan.notes.iter().any(|note| matches!(note.advice, Advice::EtcdInDoubt { .. }));
        let done = sim.run(&plan, |_| true);
        prop_assert!(unsure || done == plan.steps.len());
        untouched(&scene, &sim, &plan);
        let again = sim.plan();
        prop_assert!(unsure || again.is_empty(), "{}", render(&again, RenderOptions::default()));
        prop_assert!(unsure || sim.media() == 0);
    }

    #[test]
    fn the_same_input_gives_the_same_bytes(scene in scenes()) {
        let images = fixture::images(&scene.cluster);
        let one = plan_apply(&scene.cluster, &images, &scene.world).unwrap();
        let two = plan_apply(&scene.cluster, &images, &scene.world).unwrap();
        prop_assert_eq!(serde_json::to_string(&one).unwrap(), serde_json::to_string(&two).unwrap());
        let read: Plan = serde_json::from_str(&serde_json::to_string(&one).unwrap()).unwrap();
        prop_assert_eq!(&read, &one);
        prop_assert_eq!(fits(&read, &scene.cluster, &images, &scene.world), Ok(()));
    }

    /// Kill it anywhere; meanwhile people change VMs, hosts reboot, nodes lose their config; run again: it converges.
    #[test]
    fn any_crash_and_any_drift_is_made_good_by_the_next_runs(
        scene in scenes(),
        seed in any::<u64>(),
        complete in any::<bool>(),
        blows in prop::collection::vec((any::<prop::sample::Index>(), 0u8..13), 0..6),
        endpoint in any::<bool>(),
    ) {
        let mut sim = Sim::new(&scene.cluster, &scene.world);
        let first = sim.plan();
        let doubts = |plan: &Plan| plan.notes.iter().any(|note| matches!(note.advice, Advice::EtcdInDoubt { .. }));
        let mut unsure = doubts(&first);
        let wiped = blows.iter().any(|(_, blow)| *blow == 9);
        sim.run(&first, |at| complete || survives(seed, at));
        for (node, blow) in blows {
            let node = &scene.cluster.nodes[node.index(scene.cluster.nodes.len())];
            if !scene.strangers.contains(&node.vmid) && sim.world.guests.contains_key(&node.vmid) {
                strike(&mut sim, &node.name, node.vmid, blow);
            }
        }
        sim.world.endpoint_answers &= endpoint;
        let mut rounds = 0;
        loop {
            let plan = sim.plan();
            untouched(&scene, &sim, &plan);
            if plan.is_empty() { break }
            rounds += 1;
            // One that lost its disk before anybody bootstrapped may have held the etcd for all that can be seen.
            unsure |= wiped && doubts(&plan);
            if rounds > 4 && unsure { break }
            prop_assert!(rounds <= 4, "{}", render(&plan, RenderOptions::default()));
            sim.run(&plan, |_| true);
        }
        prop_assert!(sim.bootstraps <= 1);
        prop_assert!(unsure || sim.media() == 0);
    }

    #[test]
    fn destroy_from_anywhere_leaves_nothing_of_ours_and_everything_of_others(
        scene in scenes(),
        seed in any::<u64>(),
        again in any::<u64>(),
    ) {
        let mut sim = Sim::new(&scene.cluster, &scene.world);
        let first = sim.plan();
        sim.run(&first, |at| survives(seed, at));
        let images: Vec<_> = sim.world.volumes.iter().filter(|v| !sim.is_medium(v)).cloned().collect();
        // Killed before it made secrets: nothing proves then that what is half made on our VMIDs is ours.
        if let Err(PlanError::Unproven { .. }) = plan_destroy(&scene.cluster, &sim.world) {
            prop_assert!(!sim.world.secrets_stored);
            prop_assert_eq!(&sim.world.guests, &scene.world.guests);
            return Ok(());
        }
        let plan = sim.plan_destroy();
        sim.run(&plan, |at| survives(again, at));
        let rest = sim.plan_destroy();
        sim.run(&rest, |_| true);
        untouched(&scene, &sim, &rest);
        prop_assert!(sim.plan_destroy().is_empty());
        // Templates are images of a kind: they stay.
        sim.world.guests.retain(|_, guest| !matches!(guest.ownership, Ownership::Template { .. }));
        let strangers: BTreeSet<u32> = sim.world.guests.keys().copied().collect();
        prop_assert_eq!(&strangers, &scene.strangers);
        let left: Vec<_> = sim.world.volumes.clone();
        prop_assert_eq!(left, images);
    }
}
