//! Every way to boot: a cluster from nothing, an empty second plan, destruction; and what only some ways know.

use daedal_lab::faults::{Fault, When};
use daedal_lab::proxmox::{HostSpec, StorageSpec, TokenSpec};
use daedal_planner::{Action, Level, Step, plan_apply, plan_destroy};

use daedal_lab::{Format, Guests as _, SystemImage};
use daedal_proxmox::{TaskWatcher, Upload};

use crate::crash::sweep;
use crate::faults::faults_on;
use crate::support::{Bench, CANARY, Giving, TOKEN, Way, assert_done};

pub const ISO_MAINTENANCE: Way = Way::new("{from: iso, config: maintenance}", Giving::Reserved);
pub const ISO_ANYWHERE: Way = Way::new("{from: iso, config: maintenance}", Giving::Any);
pub const ISO_CIDATA: Way = Way::new("{from: iso, config: cidata}", Giving::Nothing);
pub const IMAGE_MAINTENANCE: Way = Way::new("{from: disk-image, config: maintenance}", Giving::Reserved);
pub const IMAGE_ANYWHERE: Way = Way::new("{from: disk-image, config: maintenance}", Giving::Any);
pub const CLOUD_INIT: Way = Way::new("{from: disk-image, config: cloud-init-drive}", Giving::Nothing);
pub const ISO_CLOUD_INIT: Way = Way::new("{from: iso, config: cloud-init-drive}", Giving::Nothing);
pub const META: Way = Way::new("{from: disk-image, config: meta}", Giving::Nothing);
pub const ISO_META: Way = Way::new("{from: iso, config: meta}", Giving::Nothing);
pub const TEMPLATE: Way = Way::new("{from: template, config: cidata}", Giving::Nothing);
pub const TEMPLATE_CLOUD_INIT: Way = Way::new("{from: template, config: cloud-init-drive}", Giving::Nothing);
pub const TEMPLATE_BY_ISO: Way =
    Way::new("{from: template, config: cidata, template: {made: iso}}", Giving::Nothing);
pub const TEMPLATE_FULL: Way =
    Way::new("{from: template, config: maintenance, template: {clone: full}}", Giving::Reserved);

/// From nothing to a cluster, nothing left to do, and back to nothing but images.
async fn whole_life(way: Way) -> Bench {
    let bench = Bench::booting(way, 3, 1);
    assert_done(&bench.apply().await, way.boot);
    bench.assert_converged(way.boot).await;
    let world = bench.look().await.0;
    for guest in world.guests.values() {
        let config = guest.config.as_ref().unwrap();
        let medium = config.media.as_ref().filter(|volid| !volid.contains("-cloudinit"));
        assert_eq!((medium, &config.iso, config.waiting), (None, &None, false), "{way:?}");
    }
    // Proxmox restarts the node: it comes back from its disk, and nothing is drift.
    bench
}

async fn and_back(bench: &Bench, way: Way) {
    // Templates are images of a kind.
    let image = |v: &String| v.contains("/talos-v") || v.contains(":base-99") && !v.contains("/vm-");
    let images = bench.lab.datacenter().volumes().into_iter().filter(image);
    let images: Vec<String> = images.collect();
    assert_done(&bench.destroy().await, way.boot);
    bench.assert_destroyed(way.boot);
    assert_eq!(bench.lab.datacenter().volumes(), images, "{way:?}");
}

#[tokio::test(start_paused = true)]
async fn an_iso_and_maintenance_mode_at_a_reserved_address() {
    let bench = whole_life(ISO_MAINTENANCE).await;
    and_back(&bench, ISO_MAINTENANCE).await;
}

#[tokio::test(start_paused = true)]
async fn an_iso_and_maintenance_mode_where_the_agent_says() {
    let bench = whole_life(ISO_ANYWHERE).await;
    let asked = bench.lab.faults().log().iter().filter(|call| call.path.contains("/agent/")).count();
    assert!((4..40).contains(&asked), "the agents were asked {asked} times");
    and_back(&bench, ISO_ANYWHERE).await;
}

#[tokio::test(start_paused = true)]
async fn an_iso_and_a_config_medium_on_one_vm() {
    let bench = whole_life(ISO_CIDATA).await;
    and_back(&bench, ISO_CIDATA).await;
}

#[tokio::test(start_paused = true)]
async fn a_disk_image_and_maintenance_mode() {
    for way in [IMAGE_MAINTENANCE, IMAGE_ANYWHERE] {
        let bench = whole_life(way).await;
        and_back(&bench, way).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_network_on_a_cloud_init_drive_and_maintenance_mode() {
    for way in [CLOUD_INIT, ISO_CLOUD_INIT] {
        let bench = whole_life(way).await;
        and_back(&bench, way).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_network_in_each_nodes_own_image_and_maintenance_mode() {
    for way in [META, ISO_META] {
        let bench = whole_life(way).await;
        let images = bench.lab.datacenter().volumes().iter().filter(|v| v.contains("-metal-amd64.")).count();
        assert_eq!(images, 4, "one of its own for each node");
        and_back(&bench, way).await;
    }
}

#[tokio::test(start_paused = true)]
async fn every_death_on_the_way_through_a_cloud_init_drive_is_survived() {
    sweep(CLOUD_INIT, 1, 1, 0, 1).await;
}

#[tokio::test(start_paused = true)]
async fn every_death_on_the_way_from_images_of_their_own_is_survived() {
    sweep(META, 1, 1, 0, 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_first_contact_is_told_and_a_config_is_never_given_twice() {
    let bench = Bench::booting(IMAGE_MAINTENANCE, 1, 1);
    let plan = bench.look().await.1.unwrap();
    let note = plan.notes.iter().find(|note| note.text.contains("First contact unverified")).unwrap();
    assert_eq!((note.level, note.about.as_str()), (Level::Warning, "cp-1, worker-1"));
    assert_done(&bench.apply().await, "apply");
    let plan = bench.look().await.1.unwrap();
    assert!(!plan.notes.iter().any(|note| note.text.contains("unverified")), "{:#?}", plan.notes);

    // The worker loses its disk's content. Whoever waits for a config at its address cannot prove to be it.
    bench.reset("worker-1").await;
    let plan = bench.look().await.1.unwrap();
    let gives = |step: &daedal_planner::Step| matches!(step.action, Action::GiveConfig { .. });
    assert!(!plan.steps.iter().any(gives), "{:#?}", plan.steps);
    let note = plan.notes.iter().find(|note| note.about == "worker-1").unwrap();
    assert!(
        note.level == Level::Problem && note.text.contains("is not sent there a second time"),
        "{note:?}"
    );
    assert!(plan_destroy(&bench.cluster, &bench.look().await.0).is_ok());
}

/// A bench whose token may read consoles.
fn listening(way: Way, version: &str) -> Bench {
    Bench::on(way, 1, 1, |datacenter| {
        datacenter.version = version.to_owned();
        let mut token = TokenSpec::minimal(TOKEN, CANARY);
        let vms = token.grants.iter_mut().find(|grant| grant.path == "/vms").unwrap();
        vms.privileges.push("VM.Console".into());
        datacenter.tokens = vec![token];
    })
}

fn unverified(plan: &daedal_planner::Plan) -> bool {
    plan.notes.iter().any(|note| note.text.contains("First contact unverified"))
}

#[tokio::test(start_paused = true)]
async fn a_first_contact_is_checked_against_the_serial_console() {
    for way in [ISO_MAINTENANCE, IMAGE_ANYWHERE] {
        let bench = listening(way, "9.2.11");
        let plan = bench.look().await.1.unwrap();
        assert!(!unverified(&plan), "{:#?}", plan.notes);
        let heard = |step: &Step| matches!(step.action, Action::GiveConfig { console: true, .. });
        assert_eq!(plan.steps.iter().filter(|step| heard(step)).count(), 2);
        assert_done(&bench.apply().await, way.boot);
        bench.assert_converged(way.boot).await;
        let opened = |call: &&daedal_lab::faults::CallRecord| call.path.ends_with("/termproxy");
        assert_eq!(bench.lab.faults().log().iter().filter(opened).count(), 2, "{way:?}");
        and_back(&bench, way).await;
    }
    // Before 9.1 a console takes no tickets of tokens, and without a serial port there is nothing to read.
    let bench = listening(IMAGE_MAINTENANCE, "8.4.1");
    assert!(unverified(&bench.look().await.1.unwrap()));
    assert_done(&bench.apply().await, "8.4");
    let silent = "{from: disk-image, config: maintenance}\n  hardware: {serialConsole: false}";
    let bench = listening(Way::new(silent, Giving::Reserved), "9.2.11");
    assert!(unverified(&bench.look().await.1.unwrap()));
}

/// A machine that says to be the worker and sits at its address, where the worker itself should be.
#[tokio::test(start_paused = true)]
async fn an_impostor_gets_no_config() {
    let bench = listening(IMAGE_MAINTENANCE, "9.2.11");
    // What the worker prints never reaches us: its console is taken away, and what is shown stays unproven.
    let worker = bench.cluster.node("worker-1").unwrap().vmid;
    let console = When::call("POST", &format!("/nodes/*/qemu/{worker}/termproxy"));
    bench.lab.faults().inject(console, Fault::Status(500));
    let report = bench.apply().await;
    let said = crate::support::errors(&report).join("\n");
    assert!(
        said.contains("what waits for the config of node worker-1 cannot be told from an impostor"),
        "{said}"
    );
    assert!(said.contains("its serial console cannot be read"), "{said}");
    let given = bench.lab.faults().log();
    let given =
        given.iter().filter(|call| call.service == "talos" && call.path.contains("ApplyConfiguration"));
    assert_eq!(given.count(), 1, "only the control plane got one");
    // The next run lets it boot once more, and listens.
    bench.lab.faults().clear();
    let plan = bench.look().await.1.unwrap();
    let stops = |step: &&Step| step.action == Action::StopVm { vmid: worker };
    let stop = plan.steps.iter().find(stops).unwrap_or_else(|| panic!("{:#?}", plan.steps));
    assert!(stop.reason.contains("it prints its key only when it boots"), "{}", stop.reason);
    assert!(!unverified(&plan), "{:#?}", plan.notes);
    assert_done(&bench.apply().await, "once more");
    bench.assert_converged("once more").await;
}

/// Every other connection to a machine ends at another one, which says the same of itself but has another key.
struct Turncoat {
    ways: [daedal_dial::Dialer; 2],
    victim: std::net::IpAddr,
    dialled: std::sync::atomic::AtomicUsize,
}

impl daedal_dial::Dial for Turncoat {
    fn dial<'a>(&'a self, target: &'a daedal_dial::Target) -> daedal_dial::Dialing<'a> {
        let turns = target.host == self.victim.to_string() && target.port == 50_000;
        let at = match turns {
            true => self.dialled.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % 2,
            false => 0,
        };
        self.ways[at].dial(target)
    }
}

/// Nobody vouches for the first contact, but from then on its key is held to: a machine that takes its place in the middle of
/// the exchange, with the same uuid at the same address, gets no config, however often it is tried.
#[tokio::test(start_paused = true)]
async fn a_key_that_changes_in_the_middle_of_the_exchange_is_refused() {
    let (bench, other) = (Bench::booting(IMAGE_MAINTENANCE, 1, 1), Bench::booting(IMAGE_MAINTENANCE, 1, 1));
    // The same cluster in another datacenter, whose worker waits for its config.
    let subject = "worker-1".to_owned();
    let effect = daedal_engine::Effect { kind: daedal_engine::EffectKind::GiveConfig, subject };
    let killer = crate::support::Killer::at(&effect, crate::support::Point::Before);
    let ended = killer.run(other.apply_through(daedal_engine::Effects::through(killer.clone()))).await;
    assert!(ended.is_none());
    let victim = bench.cluster.node("worker-1").unwrap().ip().unwrap();
    let ways = [bench.lab.dialer(), other.lab.dialer()];
    let way = std::sync::Arc::new(Turncoat { ways, victim, dialled: Default::default() });
    let given = |bench: &Bench| {
        let log = bench.lab.faults().log();
        log.iter().filter(|c| c.service == "talos" && c.path.contains("ApplyConfiguration")).count()
    };
    let before = given(&other);
    let engine = bench.engine_over(way.clone(), daedal_engine::Effects::default());
    let world = engine.observe(&bench.cluster).await.unwrap();
    let plan = plan_apply(&bench.cluster, &engine.images(&bench.cluster), &world).unwrap();
    assert!(unverified(&plan));
    // It goes on trying; some minutes of it are enough to see.
    let run = daedal_engine::Run::silent();
    let enough = tokio::time::sleep(std::time::Duration::from_secs(240));
    tokio::select! {
        ended = engine.execute(&bench.cluster, &world, &plan, &run) => {
            panic!("{:?}", crate::support::errors(&ended.unwrap()));
        }
        () = enough => {}
    }
    assert!(way.dialled.load(std::sync::atomic::Ordering::Relaxed) > 10, "it was tried often");
    assert_eq!((given(&bench), given(&other)), (1, before), "only the control plane got its config");
    // Left alone, the right one gets it.
    assert_done(&bench.apply().await, "without the impostor");
    bench.assert_converged("without the impostor").await;
}

#[tokio::test(start_paused = true)]
async fn every_death_on_the_way_through_a_verified_first_contact_is_survived() {
    crate::crash::sweep_of(|| listening(ISO_MAINTENANCE, "9.2.11")).await;
}

pub fn client(bench: &Bench) -> daedal_proxmox::Client {
    daedal_proxmox::Client::builder(
        &bench.cluster.proxmox.endpoint,
        daedal_proxmox::Token::new(TOKEN, CANARY).unwrap(),
    )
    .dialer(bench.lab.dialer())
    .trust(daedal_proxmox::Trust::Insecure)
    .build()
    .unwrap()
}

/// A Talos that somebody built.
pub fn somebodys_build() -> SystemImage {
    SystemImage {
        version: "v1.12.0".into(),
        schematic: "ab".repeat(32),
        platform: "nocloud".into(),
        arch: "amd64".into(),
        extensions: vec!["siderolabs/qemu-guest-agent".into()],
        kernel_args: vec![],
        installer: false,
        secure_boot: false,
        meta: Default::default(),
    }
}

/// Puts a Talos ISO on the storage of a host, as people do.
async fn put_iso(bench: &Bench, host: &str) {
    let client = client(bench);
    let system = SystemImage { installer: true, ..somebodys_build() };
    let upload = Upload::iso("talos-v1.12.iso", system.encode(Format::Iso));
    let upid = client.upload(host, "local", &upload).await.unwrap();
    TaskWatcher::new(&client).finish(&upid, "upload").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_iso_that_is_on_the_storage_already() {
    let way =
        Way::new("{from: iso, config: maintenance, iso: \"local:iso/talos-v1.12.iso\"}", Giving::Reserved);
    let bench = Bench::booting(way, 3, 1);
    put_iso(&bench, "atlas").await;
    let (world, plan) = bench.look().await;
    // Where it is missing, no node is made; the plan says so, with the way out.
    let plan = plan.unwrap();
    assert!(plan.nodes.iter().all(|node| node.host.as_deref() == Some("atlas")), "{:#?}", plan.nodes);
    let note = plan.notes.iter().find(|note| note.about == "host boreas").unwrap();
    assert!(note.text.contains("local:iso/talos-v1.12.iso is not there"), "{note:?}");
    assert!(world.image_pins.is_empty());
    put_iso(&bench, "boreas").await;
    assert_done(&bench.apply().await, "apply");
    bench.assert_converged("apply").await;
    let downloads = bench.lab.faults().log().iter().filter(|call| call.path.contains("download-url")).count();
    assert_eq!(downloads, 0);
    and_back(&bench, way).await;
}

pub const OWN_RAW: Way = Way::new("{image: \"local:import/talos-v1.12-own.raw\"}", Giving::Nothing);
pub const RAW: Way = Way::new("{format: raw}", Giving::Nothing);

/// A disk image that somebody put on the storage, qcow2 or raw, is imported as it lies there: nothing is downloaded, and no
/// factory is asked. A raw one is known to be as large as its file.
#[tokio::test(start_paused = true)]
async fn a_disk_image_that_is_on_the_storage_already() {
    let own_qcow2 = Way::new(
        "{image: \"local:import/talos-v1.12-own.qcow2\", config: cloud-init-drive}",
        Giving::Nothing,
    );
    for (way, format, size, grown) in [
        (OWN_RAW, Format::Raw, None, true),
        (OWN_RAW, Format::Raw, Some(20 << 30), false),
        (own_qcow2, Format::Qcow2, None, true),
    ] {
        let bench = Bench::booting(way, 1, 1);
        let volid = bench.cluster.boot.image.clone().unwrap();
        let put = |host: &str| {
            let bytes = somebodys_build().encode(format);
            assert!(bench.lab.datacenter().put_image(host, &volid, bytes, size));
        };
        put("atlas");
        // Where it is missing, no node is made; the plan says so, with the way out.
        let plan = bench.look().await.1.unwrap();
        assert!(plan.nodes.iter().all(|node| node.host.as_deref() == Some("atlas")), "{:#?}", plan.nodes);
        let note = plan.notes.iter().find(|note| note.about == "host boreas").unwrap();
        assert!(note.text.contains(&format!("{volid} is not there")), "{note:?}");
        assert!(note.fix.as_ref().is_some_and(|fix| fix.contains("`boot.image`")), "{note:?}");
        put("boreas");
        let plan = bench.look().await.1.unwrap();
        assert_eq!(daedal_planner::check(&bench.cluster, &bench.look().await.0, &plan), []);
        let grows = plan.steps.iter().any(|step| matches!(step.action, Action::GrowDisk { .. }));
        assert_eq!(grows, grown, "{way:?}");
        assert_done(&bench.apply().await, way.boot);
        bench.assert_converged(way.boot).await;
        let log = bench.lab.faults().log();
        let calls = |end: &str| log.iter().filter(|call| call.path.ends_with(end)).count();
        assert_eq!((calls("/download-url"), calls("/resize")), (0, if grown { 2 } else { 0 }), "{way:?}");
        assert!(!log.iter().any(|call| call.service == "factory"), "{way:?}");
        let world = bench.look().await.0;
        assert!(
            world.guests.values().all(|guest| guest.config.as_ref().unwrap().disk == 20 << 30),
            "{way:?}"
        );
        and_back(&bench, way).await;
    }
}

/// The factory's raw image: larger to download, and Proxmox does not look what is in it, so that Daedal's own look counts.
#[tokio::test(start_paused = true)]
async fn a_raw_image_is_downloaded_and_imported() {
    let bench = whole_life(RAW).await;
    let volumes = bench.lab.datacenter().volumes();
    let images = volumes.iter().filter(|volume| volume.contains(":import/")).count();
    assert!(images > 0 && volumes.iter().all(|volume| !volume.ends_with(".qcow2")), "{volumes:?}");
    and_back(&bench, RAW).await;
    let templates = Way::new("{from: template, format: raw}", Giving::Nothing);
    assert_done(&Bench::booting(templates, 1, 0).apply().await, templates.boot);
}

#[tokio::test(start_paused = true)]
async fn every_death_on_the_way_from_an_iso_through_maintenance_is_survived() {
    sweep(ISO_MAINTENANCE, 1, 1, 0, 1).await;
}

#[tokio::test(start_paused = true)]
async fn every_death_on_the_way_from_an_iso_with_a_medium_is_survived() {
    sweep(ISO_CIDATA, 1, 1, 0, 1).await;
}

#[tokio::test(start_paused = true)]
async fn every_death_on_the_way_from_an_image_through_maintenance_anywhere_is_survived() {
    sweep(IMAGE_ANYWHERE, 1, 1, 0, 1).await;
}

#[tokio::test(start_paused = true)]
async fn every_fault_on_the_way_from_an_iso_through_maintenance_is_survived() {
    faults_on(ISO_MAINTENANCE).await;
}

#[tokio::test(start_paused = true)]
async fn every_fault_on_the_way_from_an_iso_with_a_medium_is_survived() {
    faults_on(ISO_CIDATA).await;
}

#[tokio::test(start_paused = true)]
async fn clones_of_templates_linked_and_full() {
    for way in [TEMPLATE, TEMPLATE_FULL, TEMPLATE_CLOUD_INIT, TEMPLATE_BY_ISO] {
        let bench = whole_life(way).await;
        let world = bench.look().await.0;
        let templates: Vec<(u32, &str)> =
            world.guests.values().filter(|g| g.template).map(|g| (g.vmid, g.host.as_str())).collect();
        // One for each role, where there is a node of it: disks are local.
        assert!(templates.contains(&(998, "atlas")) && templates.contains(&(996, "boreas")), "{templates:?}");
        let linked = way.boot != TEMPLATE_FULL.boot;
        for (node, guest) in bench.cluster.nodes.iter().map(|node| (node, &world.guests[&node.vmid])) {
            let config = guest.config.as_ref().unwrap();
            assert_eq!((&config.mac, config.base.is_some()), (&node.mac, linked), "{}", node.name);
        }
        and_back(&bench, way).await;
    }
}

/// Disks on a storage that both hosts see: one template for each role, and clones on whichever host.
#[tokio::test(start_paused = true)]
async fn clones_go_to_other_hosts_where_disks_are_shared() {
    let mut bench = Bench::on(TEMPLATE, 3, 1, |datacenter| {
        for host in &mut datacenter.hosts {
            let mut shared = daedal_lab::proxmox::StorageSpec::new("ceph", "rbd", &["images"], 800 << 30);
            shared.shared = true;
            host.storages.push(shared);
        }
    });
    bench.cluster.proxmox.disks_storage = "ceph".into();
    assert_done(&bench.apply().await, "apply");
    bench.assert_converged("apply").await;
    let world = bench.look().await.0;
    let templates: Vec<u32> = world.guests.values().filter(|guest| guest.template).map(|g| g.vmid).collect();
    assert_eq!(templates, [998, 999], "one for each role serves both hosts");
    let at = |vmid: u32| world.guests[&vmid].host.as_str();
    let elsewhere = bench.cluster.nodes.iter().filter(|node| at(node.vmid) != at(998)).count();
    assert!(elsewhere > 0, "no clone went to the other host");
    and_back(&bench, TEMPLATE).await;
}

#[tokio::test(start_paused = true)]
async fn templates_are_listed_and_pruned_but_never_under_a_clone() {
    let mut bench = Bench::booting(TEMPLATE, 1, 1);
    assert_done(&bench.apply().await, "apply");
    let rows = bench.engine().templates(&bench.cluster).await.unwrap();
    let told: Vec<(u32, bool, usize)> =
        rows.iter().map(|row| (row.vmid, row.current, row.linked.len())).collect();
    assert_eq!(told.iter().map(|row| row.2).sum::<usize>(), 2, "{rows:#?}");
    assert!(told.iter().all(|row| row.1), "{rows:#?}");
    assert_eq!(bench.engine().prune_templates(&bench.cluster, false).await.unwrap(), []);
    // Not even when asked for all: the nodes' disks are linked to them.
    let kept = bench.engine().prune_templates(&bench.cluster, true).await.unwrap();
    assert!(
        kept.iter().all(|one| one.kept.as_ref().is_some_and(|why| why.contains("are linked to it"))),
        "{kept:#?}"
    );
    // A new version: what is there is old, stays under its clones, and goes with them.
    bench.cluster.talos.version = "1.12.1".parse().unwrap();
    let rows = bench.engine().templates(&bench.cluster).await.unwrap();
    assert!(rows.iter().all(|row| !row.current), "{rows:#?}");
    assert!(
        bench
            .engine()
            .prune_templates(&bench.cluster, false)
            .await
            .unwrap()
            .iter()
            .all(|one| one.kept.is_some())
    );
    assert_done(&bench.destroy().await, "destroy");
    let gone = bench.engine().prune_templates(&bench.cluster, false).await.unwrap();
    assert!(gone.len() == rows.len() && gone.iter().all(|one| one.kept.is_none()), "{gone:#?}");
    assert_eq!(bench.lab.datacenter().vms(), []);
}

/// Hardware of VMs that are there: what can change is changed, and what it waits for is said; the rest is told.
#[tokio::test(start_paused = true)]
async fn hardware_of_existing_vms_changes_where_it_can() {
    let mut bench = Bench::new(1, 1);
    assert_done(&bench.apply().await, "apply");
    let hardware = "{}\n  hardware: {cpu: host, numa: true, watchdog: true, machine: i440fx, tpm: true, serialConsole: false, disks: [{size: 10GiB}], nics: [{vlan: 30}]}";
    bench.cluster = crate::support::cluster_booting(hardware, 1, 1);
    let plan = bench.look().await.1.unwrap();
    let held: Vec<&str> = plan
        .notes
        .iter()
        .map(|note| note.text.as_str())
        .filter(|t| t.starts_with("Left as it is: "))
        .collect();
    assert_eq!(held.len(), 4, "{:#?}", plan.notes);
    assert!(held.iter().any(|text| text.contains("machine is q35, declared is pc")), "{held:?}");
    let changes = plan.steps.iter().find_map(|step| match &step.action {
        Action::UpdateVm { changes, .. } => Some(changes.clone()),
        _ => None,
    });
    let told: Vec<(String, bool)> = changes
        .unwrap()
        .into_iter()
        .filter(|c| c.option != "description")
        .map(|c| (c.option, c.needs_restart))
        .collect();
    let wanted = [
        ("cpu", true),
        ("net1", false),
        ("numa", true),
        ("scsi1", false),
        ("serial0", true),
        ("watchdog", true),
    ];
    assert_eq!(told, wanted.map(|(option, restart)| (option.to_owned(), restart)));
    assert_done(&bench.apply().await, "changed");
    let (world, plan) = bench.look().await;
    assert!(plan.as_ref().unwrap().is_empty(), "{:#?}", plan.unwrap().steps);
    // The disk grows where it is.
    for node in &mut bench.cluster.nodes {
        node.disks[0].size = 20 << 30;
    }
    assert_done(&bench.apply().await, "grown");
    for node in &bench.cluster.nodes {
        let config = client(&bench).vm_config(&world.guests[&node.vmid].host, node.vmid).await.unwrap();
        assert_eq!(config.disks["scsi1"].size, Some(20 << 30));
        assert_eq!((config.raw["cpu"].as_str(), config.nics["net1"].vlan), ("host", Some(30)));
    }
    assert!(bench.look().await.1.unwrap().is_empty());
}

/// An empty disk need not grow: one call makes the VM and starts it.
#[tokio::test(start_paused = true)]
async fn a_vm_that_boots_an_iso_starts_with_its_creation() {
    let bench = Bench::booting(ISO_CIDATA, 1, 1);
    assert_done(&bench.apply().await, "apply");
    let log = bench.lab.faults().log();
    assert_eq!(log.iter().filter(|call| call.path.ends_with("/status/start")).count(), 0);
    let calls =
        |method: &str| log.iter().filter(|call| call.service == "proxmox" && call.method == method).count();
    // Upload, create, eject, delete for each of the two, and one download a host.
    let hosts = log.iter().filter(|call| call.path.ends_with("/download-url")).count();
    assert_eq!((calls("POST") - hosts, calls("PUT"), calls("DELETE")), (4, 2, 2));
}

/// A disk that is as large in its image as declared need not grow: one call makes the VM and starts it. That is known from
/// the image itself, read in the same run or in an earlier one.
#[tokio::test(start_paused = true)]
async fn a_disk_that_is_large_enough_in_its_image_is_not_grown() {
    for way in [Way::USUAL, CLOUD_INIT, META] {
        let bench = large_images(way);
        let largest = bench.cluster.nodes.iter().map(|node| node.disk).max();
        for earlier in [false, true] {
            let before = bench.lab.faults().log().len();
            let plan = bench.look().await.1.unwrap();
            let grows = plan.steps.iter().any(|step| matches!(step.action, Action::GrowDisk { .. }));
            assert_eq!(grows, !earlier, "{way:?}: only what was read once is planned with");
            assert_done(&bench.apply().await, way.boot);
            if !earlier {
                bench.assert_converged(way.boot).await;
            }
            let log = bench.lab.faults().log().split_off(before);
            let calls = |end: &str| log.iter().filter(|call| call.path.ends_with(end)).count();
            assert_eq!((calls("/status/start"), calls("/resize")), (0, 0), "{way:?}");
            let world = bench.look().await.0;
            let disks = world.guests.values().map(|guest| guest.config.as_ref().unwrap().disk);
            assert!(disks.into_iter().all(|disk| Some(disk) == largest), "{way:?}");
            assert_done(&bench.destroy().await, way.boot);
        }
    }
    // One byte too small, and all three calls are made.
    let bench = large_images(Way::USUAL);
    let smallest = bench.cluster.nodes.iter().map(|node| node.disk).min().unwrap();
    bench.lab.factory().set_disk_size(smallest - 512);
    assert_done(&bench.apply().await, "apply");
    let log = bench.lab.faults().log();
    let calls = |end: &str| log.iter().filter(|call| call.path.ends_with(end)).count();
    assert_eq!((calls("/status/start"), calls("/resize")), (2, 2));
}

/// A factory whose images hold disks as large as any node's.
fn large_images(way: Way) -> Bench {
    let bench = Bench::booting(way, 1, 1);
    bench.lab.factory().set_disk_size(bench.cluster.nodes.iter().map(|node| node.disk).max().unwrap());
    bench
}

#[tokio::test(start_paused = true)]
async fn every_death_on_the_way_from_large_images_is_survived() {
    crate::crash::sweep_of(|| large_images(Way::USUAL)).await;
}

#[tokio::test(start_paused = true)]
async fn a_template_of_something_else_is_replaced() {
    let mut bench = Bench::booting(TEMPLATE, 1, 0);
    assert_done(&bench.apply().await, "apply");
    assert_done(&bench.destroy().await, "destroy");
    bench.cluster.talos.version = "1.12.1".parse().unwrap();
    let plan = bench.look().await.1.unwrap();
    assert!(
        plan.steps.iter().any(|step| step.action == Action::DropTemplate { vmid: 998 }),
        "{:#?}",
        plan.steps
    );
    assert_done(&bench.apply().await, "apply");
    let (world, plan) = bench.look().await;
    assert!(plan.unwrap().is_empty());
    assert!(world.guests[&998].name.starts_with("talos-v1-12-1-"), "{}", world.guests[&998].name);
}

#[tokio::test(start_paused = true)]
async fn every_death_on_the_way_from_a_template_is_survived() {
    sweep(TEMPLATE, 1, 1, 0, 1).await;
}

/// A template that an ISO installed holds Talos and nothing else: no card, no media, no config.
#[tokio::test(start_paused = true)]
async fn a_template_is_installed_by_an_iso_and_stripped() {
    let bench = Bench::booting(TEMPLATE_BY_ISO, 1, 0);
    assert_done(&bench.apply().await, "apply");
    bench.assert_converged("apply").await;
    let host = bench.look().await.0.guests[&998].host.clone();
    let config = client(&bench).vm_config(&host, 998).await.unwrap();
    assert!(config.template && config.nics.is_empty() && config.cdroms.is_empty(), "{config:#?}");
    let volumes = bench.lab.datacenter().volumes();
    assert!(volumes.iter().any(|volume| volume.contains("-nocloud-amd64.iso")), "{volumes:?}");
    assert!(
        !volumes.iter().any(|volume| volume.ends_with(".qcow2") && volume.contains("/talos-v")),
        "{volumes:?}"
    );
    let saved = serde_json::to_value(bench.lab.machines().save()).unwrap();
    let with_config =
        saved["disks"].as_object().unwrap().values().filter(|disk| !disk["config"].is_null()).count();
    assert_eq!(with_config, 1, "only the node's disk has a config");
}

#[tokio::test(start_paused = true)]
async fn every_death_while_an_iso_installs_a_template_is_survived() {
    crate::crash::sweep_of(|| Bench::booting(TEMPLATE_BY_ISO, 1, 0)).await;
}

/// Images, templates, disks and cloud-init drives each on a storage of their own (M11).
#[tokio::test(start_paused = true)]
async fn templates_disks_and_drives_on_storages_of_their_own() {
    let boot = "{from: template, config: cloud-init-drive, template: {clone: full}}";
    let mut bench = Bench::on(Way::new(boot, Giving::Nothing), 1, 1, |datacenter| {
        for host in &mut datacenter.hosts {
            for name in ["bases", "drives"] {
                host.storages.push(StorageSpec::new(name, "zfspool", &["images"], 1 << 40));
            }
        }
    });
    // One that is not there is told before anything is made.
    bench.cluster.proxmox.template_disks = Some("nowhere".into());
    let refused = bench.look().await.1.unwrap_err().to_string();
    assert!(refused.contains("storage nowhere cannot be seen there"), "{refused}");

    bench.cluster.proxmox.template_disks = Some("bases".into());
    bench.cluster.proxmox.cloud_init_drives = Some("drives".into());
    assert_done(&bench.apply().await, boot);
    bench.assert_converged(boot).await;
    let world = bench.look().await.0;
    for guest in world.guests.values() {
        let config = client(&bench).vm_config(&guest.host, guest.vmid).await.unwrap();
        let storage = if guest.template { "bases" } else { "local-lvm" };
        let disks: Vec<&str> = config.disks.values().map(|disk| disk.storage()).collect();
        assert_eq!(disks, [storage; 2], "{}: {:?}", guest.name, config.raw);
        if !guest.template {
            assert!(config.raw["ide2"].starts_with("drives:vm-"), "{:?}", config.raw["ide2"]);
        }
    }
    let volumes = bench.lab.datacenter().volumes();
    assert!(volumes.iter().any(|volume| volume.contains("local:import/talos-v")), "{volumes:?}");
    and_back(&bench, Way::new(boot, Giving::Nothing)).await;
}

/// Kernel arguments ride in the schematic: no root token, no `args` on the VM (H19).
#[tokio::test(start_paused = true)]
async fn kernel_arguments_ride_in_the_schematic() {
    let mut bench = Bench::new(1, 0);
    let plain = bench.engine().images(&bench.cluster).shared.unwrap().schematic_id;
    bench.cluster.talos.kernel_args = vec!["console=ttyS1".into()];
    let with = bench.engine().images(&bench.cluster).shared.unwrap().schematic_id;
    assert_ne!(plain, with);
    assert_done(&bench.apply().await, "apply");
    let (_, host, ..) = bench.vms().remove(0);
    assert!(!client(&bench).vm_config(&host, 300).await.unwrap().raw.contains_key("args"));
    let volumes = bench.lab.datacenter().volumes();
    assert!(volumes.iter().any(|volume| volume.contains(&with[..12])), "{volumes:?}");
}

/// Signed images, and firmware that checks them: an ISO puts its keys in, so what it installs is checked from then on. A disk
/// image of a Talos before 1.14 cannot, and the plan says that nothing is checked.
#[tokio::test(start_paused = true)]
async fn secure_boot_from_an_iso_and_from_a_disk_image() {
    let ways = [
        (ISO_CIDATA, true),
        (ISO_MAINTENANCE, true),
        (TEMPLATE_BY_ISO, true),
        (Way::USUAL, false),
        (TEMPLATE, false),
    ];
    for (way, checked) in ways {
        let mut bench = Bench::booting(way, 1, 1);
        bench.cluster.talos.secure_boot = true;
        let plan = bench.look().await.1.unwrap();
        let said = plan.notes.iter().any(|note| note.text.contains("does not check signatures"));
        assert_eq!(said, !checked, "{way:?}: {:#?}", plan.notes);
        assert_done(&bench.apply().await, way.boot);
        bench.assert_converged(way.boot).await;
        for node in &bench.cluster.nodes {
            let talos = bench.talos(&node.name).await;
            let state = talos.get("runtime", "SecurityStates.talos.dev", "securitystate").await.unwrap();
            let state = state.unwrap().spec();
            assert_eq!(state["secureBoot"], checked, "{way:?}: {state:?}");
            let config = talos.machine_config().await.unwrap().unwrap();
            assert!(config.expose().contains("/nocloud-installer-secureboot/"), "{way:?}");
            let host = &bench.look().await.0.guests[&node.vmid].host.clone();
            let vm = client(&bench).vm_config(host, node.vmid).await.unwrap();
            assert!(vm.raw["efidisk0"].contains("pre-enrolled-keys=0"), "{:?}", vm.raw["efidisk0"]);
        }
        let volumes = bench.lab.datacenter().volumes();
        let signed = |volume: &&String| volume.contains("/talos-v") && volume.contains("-secureboot.");
        assert!(volumes.iter().any(|volume| signed(&volume)), "{volumes:?}");
    }
}

/// Once its keys are in, firmware lets nothing else boot: an installer that is not signed leaves the node dark.
#[tokio::test(start_paused = true)]
async fn firmware_with_keys_boots_what_is_signed_and_nothing_else() {
    let boot = "{from: iso, config: cidata}\n  patches: [{inline: \"machine: {install: {image: \
                'factory.talos.dev/nocloud-installer/0123:v1.12.0'}}\"}]";
    let mut bench = Bench::booting(Way::new(boot, Giving::Nothing), 1, 0);
    bench.cluster.talos.secure_boot = true;
    let report = bench.apply().await;
    assert!(!report.succeeded());
    let console = bench.lab.machines().console(bench.cluster.nodes[0].vmid);
    assert!(console.iter().any(|line| line.contains("enrolling secure boot keys")), "{console:#?}");
    assert!(console.last().unwrap().contains("Access Denied"), "{console:#?}");
}

#[tokio::test(start_paused = true)]
async fn every_fault_on_the_way_from_a_template_is_survived() {
    faults_on(TEMPLATE).await;
}

#[tokio::test(start_paused = true)]
async fn hardware_of_every_kind() {
    for boot in ["{}", "{from: template, config: cidata}"] {
        let hardware = "\n  hardware: {tpm: true, numa: true, watchdog: true, disks: [{size: 10GiB}], nics: [{vlan: 30}]}";
        let boot: &'static str = format!("{boot}{hardware}").leak();
        let bench = Bench::booting(Way::new(boot, Giving::Nothing), 1, 1);
        assert_done(&bench.apply().await, boot);
        let (world, plan) = bench.look().await;
        let plan = plan.unwrap();
        assert!(plan.is_empty(), "{:#?}", plan.steps);
        for node in &bench.cluster.nodes {
            let config = client(&bench).vm_config(&world.guests[&node.vmid].host, node.vmid).await.unwrap();
            let raw = |option: &str| config.raw.get(option).map(String::as_str).unwrap_or_default();
            assert_eq!(config.nics["net1"].mac.as_ref(), Some(&node.nics[0].mac), "{boot}");
            assert_eq!((config.nics["net1"].vlan, config.disks["scsi1"].size), (Some(30), Some(10 << 30)));
            assert!(config.disks.contains_key("tpmstate0"), "{boot}");
            assert_eq!((raw("numa"), raw("watchdog")), ("1", "model=i6300esb,action=reset"), "{boot}");
        }
        assert_done(&bench.destroy().await, boot);
        bench.assert_destroyed_with(boot, 3);
    }
}

/// Two workers whose addresses the network has mixed up, each where the other should be, and no agent to say so.
fn swapped() -> Bench {
    let mut bench = Bench::booting(IMAGE_MAINTENANCE, 1, 2);
    let address = |name: &str| bench.cluster.node(name).unwrap().address;
    let (first, second) = (address("worker-1"), address("worker-2"));
    let reserved = bench.cluster.nodes.iter().map(|node| {
        let address = match node.name.as_str() {
            "worker-1" => second,
            "worker-2" => first,
            _ => node.address,
        };
        (node.mac.clone(), address.unwrap())
    });
    let dhcp = daedal_lab::Dhcp::reserved(reserved.collect::<Vec<_>>());
    let datacenter = daedal_lab::proxmox::DatacenterSpec {
        hosts: vec![HostSpec::new("atlas", 64, 256 << 30), HostSpec::new("boreas", 64, 256 << 30)],
        tokens: vec![TokenSpec::minimal(TOKEN, CANARY)],
        ..Default::default()
    };
    let spec = daedal_lab::LabSpec {
        datacenter,
        epoch: 1_790_000_000,
        dhcp: Some(dhcp),
        ..daedal_lab::LabSpec::default()
    };
    bench.lab = daedal_lab::Lab::new(spec).unwrap();
    let asked = When::call("GET", "/nodes/*/qemu/*/agent/*");
    bench.lab.faults().inject(asked, Fault::Status(500));
    bench
}

/// Who waits at a node's address is known by the uuid it tells, and by its MAC only where it tells none: the wrong one gets
/// nothing either way.
#[tokio::test(start_paused = true)]
async fn a_machine_in_anothers_place_gets_no_config() {
    for firmware in [true, false] {
        let bench = swapped();
        if !firmware {
            bench.lab.machines().without_firmware();
        }
        // They would be waited for for a quarter of an hour.
        let ended = tokio::time::timeout(std::time::Duration::from_secs(60), bench.apply()).await;
        assert!(ended.is_err(), "{:?}", ended.map(|report| crate::support::errors(&report)));
        let waiting = bench.look().await.0;
        assert!(waiting.guests.values().all(|guest| guest.running), "{:?}", waiting.guests);
        let log = bench.lab.faults().log();
        let given =
            log.iter().filter(|call| call.service == "talos" && call.path.contains("ApplyConfiguration"));
        assert_eq!(given.count(), 1, "firmware: {firmware}: only the control plane got one");
    }
}

#[tokio::test(start_paused = true)]
async fn machines_that_tell_no_uuid_are_known_by_their_macs() {
    for way in [IMAGE_MAINTENANCE, IMAGE_ANYWHERE, CLOUD_INIT] {
        let bench = Bench::booting(way, 1, 1);
        bench.lab.machines().without_firmware();
        assert_done(&bench.apply().await, way.boot);
        bench.assert_converged(way.boot).await;
    }
}
