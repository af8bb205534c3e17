//! Where nodes go.

use std::collections::BTreeMap;

use daedal_inventory::{Capacity, Cluster, Disk};
use proptest::prelude::*;

use super::simulator::Sim;
use super::told::*;
use crate::fixture::{self, GIB};
use crate::*;

fn plan(cluster: &Cluster, world: &World) -> Result<Plan, PlanError> {
    plan_apply(cluster, &fixture::images(cluster), world)
}

fn places(cluster: &Cluster, world: &World) -> Vec<String> {
    let plan = plan(cluster, world).unwrap();
    plan.nodes.iter().map(|node| format!("{}@{}", node.name, node.host.clone().unwrap_or_default())).collect()
}

#[test]
fn worker_slots_are_interleaved_over_unequal_hosts() {
    // After one control plane each: room for 3, 1 and 2 workers.
    let cluster = fixture::cluster("home", &["a", "b", "c"], 3, 6);
    let world = fixture::empty_world(&[("a", 16, 64, 1000), ("b", 8, 64, 1000), ("c", 12, 64, 1000)]);
    let places = places(&cluster, &world);
    assert_eq!(places[..3], ["cp-1@a", "cp-2@b", "cp-3@c"]);
    let hosts: String = places[3..].iter().map(|place| place.split('@').nth(1).unwrap()).collect();
    assert_eq!(hosts, "abcaca");
}

/// An image of one's own on a storage that all hosts share.
fn on_nas(contents: &[&str]) -> (Cluster, World) {
    let mut cluster = fixture::cluster("home", &["a", "b"], 3, 0);
    cluster.boot.image = Some("nas:import/talos.raw".into());
    let mut world = fixture::empty_world(&[("a", 64, 256, 1000), ("b", 64, 256, 1000)]);
    for (name, host) in &mut world.hosts {
        let content = contents.iter().map(|content| (*content).to_owned()).collect();
        let nas = StorageView { content, active: true, shared: true, ..StorageView::default() };
        host.storages.insert("nas".into(), nas);
        world.volumes.push(VolumeView {
            host: name.clone(),
            storage: "nas".into(),
            volid: "nas:import/talos.raw".into(),
            content: "import".into(),
            size: super::simulator::IMAGE_SIZE,
        });
    }
    (cluster, world)
}

#[test]
fn the_storage_of_an_image_of_ones_own_must_be_active_and_take_it() {
    let (cluster, mut world) = on_nas(&["import"]);
    assert_eq!(places(&cluster, &world), ["cp-1@a", "cp-2@b", "cp-3@a"]);
    world.hosts.get_mut("b").unwrap().storages.get_mut("nas").unwrap().active = false;
    assert_eq!(places(&cluster, &world), ["cp-1@a", "cp-2@a", "cp-3@a"]);
    let notes = plan(&cluster, &world).unwrap().notes;
    let note = notes.iter().find(|note| note.about() == "host b").unwrap();
    assert_eq!(note.text(), "No new nodes go there: storage nas is not active there.");

    // What it does not take, Proxmox does not list either.
    let (cluster, mut world) = on_nas(&["backup"]);
    world.volumes.clear();
    let Err(PlanError::NoRoom(room)) = plan(&cluster, &world) else { panic!("no host can read the image") };
    assert_eq!(room.unusable[0].why, "storage nas does not take the content type import");
    assert_eq!(room.unusable[0].fix.as_deref(), Some("on a: pvesm set nas --content backup,import"));

    // Not seen is not the same as not there.
    let (cluster, mut world) = on_nas(&["import"]);
    world.volumes.clear();
    world.unobserved.push(Unobserved::new(Aspect::storage_on("nas", "a"), "timeout"));
    let Err(PlanError::NoRoom(room)) = plan(&cluster, &world) else { panic!("nobody saw the image") };
    let why = "storage nas could not be listed there, so whether it has nas:import/talos.raw is not known";
    assert_eq!(room.unusable[0].why, why);
    let missing = "the disk image talos.raw is missing on storage nas (`boot.image: nas:import/talos.raw`)";
    assert_eq!(room.unusable[1].why, missing);
    // Nothing is short, so nothing is called too small.
    let said = PlanError::NoRoom(room).to_string();
    assert!(said.starts_with("no host can take the new nodes\n  no host left for cp-1"), "{said}");
    assert!(said.contains(&format!("\n  b cannot be used: {missing}\n    fix: copy the file to")), "{said}");
}

/// Where no node is to be made, it does not matter that none could be.
#[test]
fn hosts_that_take_no_new_nodes_are_told_of_only_where_there_are_some() {
    let (cluster, world) = on_nas(&["import"]);
    let mut sim = Sim::made(&cluster, &world);
    sim.world.volumes.retain(|volume| volume.storage != "nas");
    let kept = plan(&cluster, &sim.world).unwrap();
    assert!(!kept.notes.iter().any(|note| note.about().starts_with("host ")), "{:#?}", kept.notes);
    sim.world.guests.remove(&301);
    let Err(PlanError::NoRoom(room)) = plan(&cluster, &sim.world) else { panic!("a node is missing") };
    assert_eq!(room.unusable.len(), 2);
}

#[test]
fn control_planes_share_a_host_only_when_no_other_fits() {
    let cluster = fixture::cluster("home", &["a", "b"], 3, 0);
    let world = fixture::empty_world(&[("a", 64, 256, 1000), ("b", 4, 16, 1000)]);
    assert_eq!(places(&cluster, &world), ["cp-1@a", "cp-2@b", "cp-3@a"]);
}

#[test]
fn what_is_there_stays_and_new_ones_fill_the_gaps() {
    let small = fixture::cluster("home", &["a", "b", "c"], 1, 2);
    let world = fixture::empty_world(&[("a", 64, 256, 1000), ("b", 64, 256, 1000), ("c", 64, 256, 1000)]);
    let mut sim = Sim::made(&small, &world);
    // Someone moved the first worker to c.
    sim.world.guests.get_mut(&301).unwrap().host = "c".into();
    let mut large = fixture::cluster("home", &["a", "b", "c"], 3, 4);
    large.nodes = small
        .nodes
        .iter()
        .chain(large.nodes.iter().filter(|n| small.node(&n.name).is_none()))
        .cloned()
        .collect();
    large.nodes.sort_by_key(|node| node.role);
    for (at, node) in large.nodes.iter_mut().enumerate().filter(|(_, n)| small.node(&n.name).is_none()) {
        node.vmid = 400 + u32::try_from(at).unwrap();
    }
    assert_eq!(
        places(&large, &sim.world),
        ["cp-1@a", "cp-2@b", "cp-3@c", "worker-1@c", "worker-2@b", "worker-3@a", "worker-4@a"]
    );
}

#[test]
fn pins_are_kept_or_refused() {
    let mut cluster = fixture::cluster("home", &["a", "b"], 1, 2);
    cluster.placement.pin =
        BTreeMap::from([("worker-1".into(), "b".into()), ("worker-2".into(), "b".into())]);
    let mut world = fixture::empty_world(&[("a", 64, 256, 1000), ("b", 64, 256, 1000)]);
    assert_eq!(places(&cluster, &world), ["cp-1@a", "worker-1@b", "worker-2@b"]);
    world.hosts.get_mut("b").unwrap().memory = 17 * GIB;
    let Err(PlanError::NoRoom(room)) = plan(&cluster, &world) else { panic!("it cannot fit") };
    let short = Shortfall {
        host: "b".into(),
        resource: Resource::Memory,
        wanted: 16 * GIB,
        free: 15 * GIB,
        nodes: vec!["worker-1".into(), "worker-2".into()],
    };
    assert_eq!(room.shortfalls, [short]);
    world.hosts.get_mut("b").unwrap().online = false;
    let Err(PlanError::NoRoom(room)) = plan(&cluster, &world) else { panic!("its host is offline") };
    assert_eq!(room.homeless, ["worker-1 (pinned to b)", "worker-2 (pinned to b)"]);
}

#[test]
fn a_declared_capacity_bounds_only_what_is_ours() {
    let mut cluster = fixture::cluster("home", &["a"], 1, 1);
    let capacity = |cores, memory, disk| Some(Capacity { cores, memory, disk });
    let mut world = fixture::empty_world(&[("a", 64, 256, 1000)]);
    let nas = GuestView {
        vmid: 100,
        host: "a".into(),
        running: true,
        cores: 16,
        memory: 64 * GIB,
        ..GuestView::default()
    };
    world.guests.insert(100, nas);
    cluster.proxmox.hosts[0].capacity = capacity(Some(8), Some(16 * GIB), Some(100 * GIB));
    assert!(plan(&cluster, &world).is_ok());
    for (declared, resource, wanted, free) in [
        (capacity(Some(7), None, None), Resource::Cores, 8, 7),
        (capacity(None, Some(15 * GIB), None), Resource::Memory, 16 * GIB, 15 * GIB),
        (capacity(None, None, Some(99 * GIB)), Resource::Disk, 100 * GIB, 99 * GIB),
    ] {
        cluster.proxmox.hosts[0].capacity = declared;
        let Err(PlanError::NoRoom(room)) = plan(&cluster, &world) else { panic!("{resource} is short") };
        let [short] = &room.shortfalls[..] else { panic!("{room:?}") };
        assert_eq!((short.resource, short.wanted, short.free), (resource, wanted, free));
    }
}

/// Proxmox starts no VM with more vCPUs than its host has CPUs, however much they are overcommitted.
#[test]
fn no_vm_has_more_vcpus_than_its_host_has_cpus() {
    let mut cluster = fixture::cluster("home", &["small", "large"], 1, 2);
    cluster.proxmox.cpu_overcommit = 8.0;
    cluster.nodes[1].cores = 8;
    let world = fixture::empty_world(&[("small", 4, 256, 1000), ("large", 8, 256, 1000)]);
    assert_eq!(places(&cluster, &world), ["cp-1@small", "worker-1@large", "worker-2@small"]);
    cluster.nodes[1].cores = 9;
    let Err(PlanError::NoRoom(room)) = plan(&cluster, &world) else { panic!("no host has 9 CPUs") };
    assert!(
        room.to_string().contains("large: vCPU of one VM: wanted 9, at most the host's 8 (for worker-1)"),
        "{room}"
    );
    assert_eq!(room.shortfalls.len(), 2, "{room}");
    // Where there is no choice, and where a node that is there is to get more.
    cluster.proxmox.hosts.truncate(1);
    cluster.nodes[1].cores = 8;
    let Err(PlanError::NoRoom(room)) = plan(&cluster, &world) else { panic!("it has 4 CPUs") };
    assert_eq!((room.shortfalls[0].wanted, room.shortfalls[0].free), (8, 4), "{room}");
    cluster.nodes[1].cores = 4;
    let world = Sim::made(&cluster, &world).world;
    cluster.nodes[1].cores = 5;
    let Err(PlanError::NoRoom(room)) = plan(&cluster, &world) else { panic!("it has 4 CPUs") };
    assert_eq!(room.shortfalls[0].nodes, ["worker-1"], "{room}");
}

#[test]
fn a_disk_that_is_added_to_a_vm_needs_room_too() {
    let mut cluster = fixture::cluster("home", &["a"], 1, 0);
    let world = Sim::made(&cluster, &fixture::empty_world(&[("a", 64, 256, 100)])).world;
    let disk = |size: u64| Disk { size: size * GIB, storage: None };
    cluster.nodes[0].disks = vec![disk(60)];
    assert!(plan(&cluster, &world).is_ok(), "40 + 60 = 100");
    cluster.nodes[0].disks = vec![disk(30), disk(31)];
    let Err(PlanError::NoRoom(room)) = plan(&cluster, &world) else { panic!("the disks do not fit") };
    let [short] = &room.shortfalls[..] else { panic!("{room:?}") };
    assert_eq!((short.resource, short.wanted, short.free), (Resource::Disk, 61 * GIB, 60 * GIB));

    // What is no longer declared stays, and makes no room for what grows; nor does a disk whose storage is spelled out.
    cluster.nodes[0].disks = vec![disk(10), disk(30)];
    let world = Sim::made(&cluster, &fixture::empty_world(&[("a", 64, 256, 100)])).world;
    cluster.nodes[0].disks = vec![disk(31)];
    let Err(PlanError::NoRoom(room)) = plan(&cluster, &world) else { panic!("it grows by 21 of 20") };
    assert_eq!(room.shortfalls[0].wanted, 21 * GIB);
    let spelled = Disk { storage: Some(cluster.proxmox.disks_storage.clone()), ..disk(40) };
    cluster.nodes[0].disks = vec![spelled.clone()];
    let world = Sim::made(&cluster, &fixture::empty_world(&[("a", 64, 256, 100)])).world;
    cluster.nodes[0].disks = vec![spelled, disk(21)];
    let Err(PlanError::NoRoom(room)) = plan(&cluster, &world) else { panic!("21 of 20 are left") };
    assert_eq!(room.shortfalls[0].wanted, 21 * GIB);
}

#[test]
fn what_runs_counts_and_what_sleeps_does_not() {
    let cluster = fixture::cluster("home", &["a"], 1, 0);
    let mut world = fixture::empty_world(&[("a", 4, 10, 1000)]);
    let guest =
        GuestView { vmid: 100, host: "a".into(), cores: 1, memory: GIB, disk: GIB, ..GuestView::default() };
    world.guests.insert(100, guest.clone());
    world.guests.insert(101, GuestView { vmid: 101, template: true, running: true, ..guest.clone() });
    assert!(plan(&cluster, &world).is_ok());
    world.guests.insert(100, GuestView { running: true, ..guest });
    assert!(matches!(plan(&cluster, &world), Err(PlanError::NoRoom(_))));
}

/// Where disks take room as they are written, what others hold is counted besides what ours may come to take: before an apply,
/// after it, and when ours go.
#[test]
fn what_others_hold_of_a_thin_storage_is_not_forgotten() {
    let cluster = fixture::home();
    let mut world = fixture::home_world();
    let others =
        GuestView { vmid: 100, host: "atlas".into(), disk: 32 * GIB, running: true, ..GuestView::default() };
    world.guests.insert(100, others);
    let taken = |world: &mut World, gib: u64| {
        let disks = world.hosts.get_mut("atlas").unwrap().storages.get_mut("local-lvm").unwrap();
        disks.available = disks.total - gib * GIB;
    };
    let disk = |plan: &Plan| (plan.hosts[0].disk.before / GIB, plan.hosts[0].disk.after / GIB);
    taken(&mut world, 32);
    assert_eq!(disk(&plan(&cluster, &world).unwrap()), (32, 272));
    let mut made = Sim::made(&cluster, &world);
    // Of ours, five have been written.
    taken(&mut made.world, 37);
    assert_eq!(disk(&made.plan()), (272, 272));
    assert_eq!(disk(&plan_destroy(&cluster, &made.world).unwrap()), (272, 32));
    // Where all is taken at once, all is in what Proxmox says.
    taken(&mut made.world, 272);
    assert_eq!(disk(&made.plan()), (272, 272));
    assert_eq!(disk(&plan_destroy(&cluster, &made.world).unwrap()), (272, 32));
}

#[test]
fn shared_disk_space_is_counted_once_for_all_hosts() {
    let cluster = fixture::cluster("home", &["a", "b"], 1, 3);
    let mut world = fixture::empty_world(&[("a", 64, 256, 220), ("b", 64, 256, 220)]);
    for host in world.hosts.values_mut() {
        host.storages.get_mut("local-lvm").unwrap().shared = true;
    }
    assert!(plan(&cluster, &world).is_ok(), "40 + 3 × 60 = 220");
    for host in world.hosts.values_mut() {
        host.storages.get_mut("local-lvm").unwrap().available = 219 * GIB;
    }
    assert!(matches!(plan(&cluster, &world), Err(PlanError::NoRoom(_))));
}

proptest! {
    #![proptest_config(super::config())]

    /// Whatever the hosts: a plan that is made keeps every bound (the checker counts anew), and control planes share a
    /// host only if no host with fewer of them has room left for one.
    #[test]
    fn placements_keep_their_promises(
        hosts in prop::collection::vec((4u32..40, 8u64..100, 100u64..600), 1..5),
        workers in 0u32..12,
    ) {
        let names = ["a", "b", "c", "d"];
        let cluster = fixture::cluster("home", &names[..hosts.len()], 3, workers);
        let rooms: Vec<_> = hosts.iter().zip(names).map(|((c, m, d), n)| (n, *c, *m, *d)).collect();
        let world = fixture::empty_world(&rooms);
        match plan(&cluster, &world) {
            Ok(plan) => {
                prop_assert_eq!(check(&cluster, &world, &plan), []);
                let mut count: BTreeMap<&str, usize> = names[..hosts.len()].iter().map(|n| (*n, 0)).collect();
                for node in &plan.nodes[..3] {
                    *count.get_mut(node.host.as_deref().unwrap()).unwrap() += 1;
                }
                let most = *count.values().max().unwrap();
                for host in plan.hosts.iter().filter(|host| count[host.host.as_str()] + 1 < most) {
                    // Its room before workers came.
                    let node = &cluster.nodes[0];
                    let own = count[host.host.as_str()] as u64;
                    let fits = host.cores.total >= (own + 1) * u64::from(node.cores)
                        && host.memory.total >= (own + 1) * node.memory
                        && host.disk.total >= (own + 1) * node.disk;
                    prop_assert!(!fits, "{} could have taken one", host.host);
                }
            }
            Err(PlanError::NoRoom(room)) => prop_assert!(!room.shortfalls.is_empty()),
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}
