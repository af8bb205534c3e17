//! Whole plan texts. Someone chose every word; a change here is a change of what people read.

use daedal_inventory::{Boot, BootConfig, BootFrom, Cluster, TlsTrust};
use daedal_machine::vm::Value;

use super::simulator::{IMAGE_SIZE, Sim};
use super::told::*;
use crate::fixture::{self, GIB, card, config};
use crate::*;

fn apply_text(cluster: &Cluster, world: &World) -> String {
    match plan_apply(cluster, &fixture::images(cluster), world) {
        Ok(plan) => {
            assert_eq!(check(cluster, world, &plan), []);
            render(&plan, RenderOptions::default())
        }
        Err(error) => {
            let fix = error.fix().map(|fix| format!("help: {fix}\n")).unwrap_or_default();
            format!("error: {error}\n{fix}")
        }
    }
}

fn destroy_text(cluster: &Cluster, world: &World) -> String {
    match plan_destroy(cluster, world) {
        Ok(plan) => {
            assert_eq!(check(cluster, world, &plan), []);
            render(&plan, RenderOptions::default())
        }
        Err(error) => format!("error: {error}\n"),
    }
}

fn made() -> (Cluster, Sim) {
    let cluster = fixture::home();
    let sim = Sim::made(&cluster, &fixture::home_world());
    (cluster, sim)
}

/// The home cluster after a crash: only steps that `done` lets through happened.
fn crashed(done: impl Fn(&Step) -> bool) -> (Cluster, Sim) {
    let cluster = fixture::home();
    let mut sim = Sim::new(&cluster, &fixture::home_world());
    let plan = sim.plan();
    sim.run(&plan, |at| done(&plan.steps[at]));
    (cluster, sim)
}

fn nas(vmid: u32) -> GuestView {
    GuestView {
        vmid,
        host: "atlas".into(),
        name: "nas".into(),
        running: true,
        cores: 2,
        memory: 4 * GIB,
        disk: 100 * GIB,
        ..GuestView::default()
    }
}

#[test]
fn create_home() {
    insta::assert_snapshot!(apply_text(&fixture::home(), &fixture::home_world()));
}

#[test]
fn empty() {
    let (cluster, sim) = made();
    insta::assert_snapshot!(apply_text(&cluster, &sim.world));
}

#[test]
fn shortfall() {
    let mut world = fixture::home_world();
    if let Some(host) = world.hosts.get_mut("atlas") {
        host.memory = 24 * GIB;
        host.cpus = 16;
    }
    insta::assert_snapshot!(apply_text(&fixture::home(), &world));
}

#[test]
fn shortfall_on_several_hosts() {
    let cluster = fixture::cluster("home", &["atlas", "boreas", "ceres"], 3, 4);
    let mut world =
        fixture::empty_world(&[("atlas", 8, 20, 1000), ("boreas", 16, 20, 1000), ("ceres", 32, 64, 1000)]);
    world.hosts.get_mut("ceres").unwrap().storages.get_mut("local").unwrap().content.remove("import");
    insta::assert_snapshot!(apply_text(&cluster, &world));
}

#[test]
fn crash_after_the_first_vm_was_made() {
    let (cluster, sim) = crashed(|step| match step.action {
        Action::CreateVm { vmid, .. } => vmid == 300,
        Action::GrowDisk { .. } => false,
        _ => true,
    });
    insta::assert_snapshot!(apply_text(&cluster, &sim.world));
}

#[test]
fn crash_before_bootstrap() {
    let (cluster, sim) = crashed(|step| {
        let cp_3 = step.node.as_deref() == Some("cp-3");
        !matches!(step.action, Action::Bootstrap { .. }) && (step.action != Action::AwaitApi || !cp_3)
    });
    insta::assert_snapshot!(apply_text(&cluster, &sim.world));
}

#[test]
fn crash_before_the_media_were_deleted() {
    let (cluster, sim) = crashed(|step| {
        let left = matches!(
            (step.node.as_deref(), &step.action),
            (Some("worker-1" | "worker-2"), Action::DeleteMedia { .. })
                | (Some("worker-2"), Action::EjectMedia { .. })
        );
        !left
    });
    insta::assert_snapshot!(apply_text(&cluster, &sim.world));
}

#[test]
fn drift() {
    let (mut cluster, mut sim) = made();
    cluster.nodes[1].cores = 6;
    cluster.nodes[1].memory = 12 * GIB;
    cluster.nodes[3].disk = 80 * GIB;
    cluster.nodes[4].disk = 20 * GIB;
    cluster.proxmox.vlan = Some(20);
    for vmid in [300, 301, 302, 303, 304] {
        let config = config(&mut sim.world, vmid);
        // Everything is on VLAN 20 already, but for one control plane and a worker that someone moved.
        card(config).vlan = if matches!(vmid, 302 | 303) { None } else { Some(20) };
    }
    match config(&mut sim.world, 304).options.get_mut("tags") {
        Some(Value::Words(tags)) => tags.push("mine".into()),
        other => panic!("{other:?}"),
    }
    // A changed label is part of the machine config, which this plan does not touch.
    cluster.nodes[0].labels.insert("rack".into(), "a".into());
    insta::assert_snapshot!(apply_text(&cluster, &sim.world));
}

#[test]
fn changed_machine_configs() {
    let (mut cluster, mut sim) = made();
    // A label is part of the machine config; the VM's mark speaks of the one without it.
    cluster.nodes[0].labels.insert("rack".into(), "a".into());
    let field = |path: &str, from: Option<&str>, to: Option<&str>| FieldChange {
        path: path.into(),
        from: from.map(Into::into),
        to: to.map(Into::into),
    };
    let digests = ["aa".repeat(32), "bb".repeat(32)];
    let differs =
        |reboot, changes: &[DocumentChange]| fixture::differs([&digests[0], &digests[1]], reboot, changes);
    let sysctls = [
        DocumentChange {
            document: "v1alpha1".into(),
            fields: vec![
                field("machine.sysctls.\"vm.max_map_count\"", None, Some("262144")),
                field("machine.nodeLabels.rack", Some("b"), Some("a")),
            ],
        },
        DocumentChange {
            document: "RegistryAuthConfig ghcr.io".into(),
            fields: vec![field("password", Some("[secret 0a1b2c3d]"), None)],
        },
    ];
    let kernel = [DocumentChange {
        document: "v1alpha1".into(),
        fields: vec![field("machine.udev.rules[0]", None, Some("SUBSYSTEM==\"drm\""))],
    }];
    let mut set = |node: &str, view| sim.world.nodes.get_mut(node).unwrap().config = view;
    set("cp-1", differs(false, &sysctls));
    set("cp-2", differs(false, &sysctls));
    set("cp-3", differs(true, &kernel));
    set("worker-1", differs(true, &kernel));
    let disk = [DocumentChange {
        document: "v1alpha1".into(),
        fields: vec![field("machine.install.disk", Some("/dev/sda"), Some("/dev/vda"))],
    }];
    set("worker-2", differs(false, &disk));
    insta::assert_snapshot!(apply_text(&cluster, &sim.world));
}

#[test]
fn a_stopped_and_an_unready_node() {
    let (cluster, mut sim) = made();
    sim.world.guests.get_mut(&301).unwrap().running = false;
    sim.world.nodes.insert("cp-2".into(), NodeView { ready: Some(false), ..NodeView::default() });
    sim.world.nodes.get_mut("worker-1").unwrap().ready = Some(false);
    // Of what was never started, Kubernetes knows nothing; that is not what it is waited for.
    sim.world.guests.get_mut(&304).unwrap().running = false;
    sim.world.nodes.insert("worker-2".into(), NodeView::default());
    insta::assert_snapshot!(apply_text(&cluster, &sim.world));
}

#[test]
fn a_node_in_maintenance_mode() {
    let (cluster, mut sim) = made();
    sim.world
        .nodes
        .insert("worker-2".into(), NodeView { talos: TalosView::Maintenance, ..NodeView::default() });
    insta::assert_snapshot!(apply_text(&cluster, &sim.world));
}

#[test]
fn foreign_vm_on_our_vmid() {
    let mut world = fixture::home_world();
    world.guests.insert(301, nas(301));
    let look_alike = Ownership::LookAlike {
        why: "it has the tag daedal-home but no mark".into(),
        likeness: Likeness::LostMark,
    };
    world.guests.insert(900, GuestView { name: "cp-1".into(), ownership: look_alike, ..nas(900) });
    insta::assert_snapshot!(apply_text(&fixture::home(), &world));
}

#[test]
fn half_made() {
    let mut world = fixture::home_world();
    let half = |node: &str, task_running| Ownership::HalfMade {
        node: node.into(),
        task_running,
        upid: "UPID:atlas:0001:qmcreate:".into(),
    };
    world.secrets_stored = true;
    for (vmid, node, running) in [(300, "cp-1", false), (303, "worker-1", true)] {
        let guest =
            GuestView { vmid, host: "atlas".into(), lock: Some("create".into()), ..GuestView::default() };
        world.guests.insert(vmid, GuestView { ownership: half(node, running), ..guest });
    }
    insta::assert_snapshot!(apply_text(&fixture::home(), &world));
}

#[test]
fn blind_spots() {
    let (mut cluster, mut sim) = made();
    cluster.proxmox.tls = TlsTrust::Insecure;
    sim.world.unlisted_hosts.insert("boreas".into());
    let guests = Aspect::Guests("boreas".into());
    sim.world.unobserved.push(Unobserved::new(guests, "it did not answer within 5 s"));
    sim.world.guests.remove(&302);
    sim.world.guests.remove(&304);
    sim.world.nodes.remove("cp-3");
    sim.world.nodes.remove("worker-2");
    insta::assert_snapshot!(apply_text(&cluster, &sim.world));
}

#[test]
fn secrets_lost() {
    let (cluster, mut sim) = made();
    sim.world.secrets_stored = false;
    insta::assert_snapshot!(apply_text(&cluster, &sim.world));
}

#[test]
fn multi_host_spread() {
    let mut cluster = fixture::cluster("prod", &["atlas", "boreas", "ceres", "dione"], 3, 7);
    cluster.placement.pin.insert("worker-7".into(), "atlas".into());
    cluster.proxmox.cpu_overcommit = 2.0;
    cluster.proxmox.hosts[2].capacity =
        Some(daedal_inventory::Capacity { cores: Some(8), memory: None, disk: None });
    let mut world = fixture::empty_world(&[
        ("atlas", 16, 64, 1000),
        ("boreas", 8, 32, 500),
        ("ceres", 32, 128, 2000),
        ("dione", 32, 128, 2000),
    ]);
    world.hosts.get_mut("dione").unwrap().online = false;
    world.guests.insert(100, nas(100));
    world.guests.insert(101, GuestView { running: false, memory: 48 * GIB, ..nas(101) });
    // The wrong image is on one host, the right one on another.
    let image = fixture::image(&cluster);
    world.image_pins.push(ImagePin {
        file: image.file.clone(),
        size: IMAGE_SIZE,
        sha256: "ab".repeat(32),
        disk_size: None,
    });
    world.volumes = [("atlas", 9), ("boreas", IMAGE_SIZE)]
        .map(|(host, size)| VolumeView {
            host: host.into(),
            storage: "local".into(),
            volid: names::image_volid("local", &image.file),
            content: "import".into(),
            size,
        })
        .to_vec();
    insta::assert_snapshot!(apply_text(&cluster, &world));
}

#[test]
fn destroy() {
    let (cluster, mut sim) = made();
    // A node that is no longer declared, a stranger on the side, and a medium someone forgot.
    let mut old = cluster.nodes[4].clone();
    (old.name, old.vmid) = ("worker-9".into(), 309);
    let mut guest = Sim::made_vm(&cluster, &old, "atlas");
    guest.config.as_mut().unwrap().media = None;
    sim.world.guests.insert(309, guest);
    sim.world.guests.insert(100, nas(100));
    sim.world.volumes.push(VolumeView {
        host: "atlas".into(),
        storage: "local".into(),
        volid: names::media_volid("local", &names::media_file(&cluster, &old, None)),
        content: "iso".into(),
        size: 1,
    });
    insta::assert_snapshot!(destroy_text(&cluster, &sim.world));
}

#[test]
fn destroy_around_locks() {
    let (cluster, mut sim) = made();
    sim.world.guests.get_mut(&303).unwrap().lock = Some("backup".into());
    let half = Ownership::HalfMade { node: "worker-2".into(), task_running: false, upid: "UPID:x".into() };
    let guest = sim.world.guests.get_mut(&304).unwrap();
    (guest.ownership, guest.lock, guest.config, guest.running) = (half, Some("create".into()), None, false);
    sim.world.guests.insert(302, nas(302));
    insta::assert_snapshot!(destroy_text(&cluster, &sim.world));
}

#[test]
fn destroy_nothing() {
    insta::assert_snapshot!(destroy_text(&fixture::home(), &fixture::home_world()));
}

#[test]
fn protect() {
    let (mut cluster, sim) = made();
    cluster.protect = true;
    insta::assert_snapshot!(destroy_text(&cluster, &sim.world));
}

fn on_path(from: BootFrom, config: BootConfig) -> Cluster {
    let mut cluster = fixture::cluster("home", &["atlas"], 1, 1);
    cluster.boot = Boot { from, config, ..Boot::default() };
    cluster
}

#[test]
fn from_an_iso_through_maintenance_mode() {
    let cluster = on_path(BootFrom::Iso, BootConfig::Maintenance);
    insta::assert_snapshot!(apply_text(&cluster, &fixture::home_world()));
}

#[test]
fn from_an_iso_with_a_config_medium() {
    let cluster = on_path(BootFrom::Iso, BootConfig::Cidata);
    insta::assert_snapshot!(apply_text(&cluster, &fixture::home_world()));
}

#[test]
fn from_a_template() {
    let mut cluster = on_path(BootFrom::Template, BootConfig::Cidata);
    cluster.boot.template =
        Some(daedal_inventory::Templates { control_plane: 998, worker: 999, full: false, by_iso: false });
    insta::assert_snapshot!(apply_text(&cluster, &fixture::home_world()));
    // Another Talos, while a clone still needs the old template.
    let mut sim = Sim::made(&cluster, &fixture::home_world());
    let worker = sim.world.guests.get_mut(&301).unwrap();
    worker.config.as_mut().unwrap().base = Some(999);
    cluster.nodes.push(fixture::node(
        cluster.uuid,
        "worker",
        daedal_inventory::Role::Worker,
        2,
        302,
        "10.0.0.22",
    ));
    cluster.talos.version = "1.12.1".parse().unwrap();
    insta::assert_snapshot!("from_a_template_that_clones_need", apply_text(&cluster, &sim.world));
}
