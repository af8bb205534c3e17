//! Every way to boot: a cluster from nothing, an empty second plan, destruction; and what only some ways know.

use daedal_engine::Run;
use daedal_lab::{Format, Guests as _, SystemImage};
use daedal_planner::Action;
use daedal_proxmox::{TaskWatcher, Upload};
use daedal_words::Told as _;

use crate::crash::{sweep, sweep_of};
use crate::faults::faults_on;
use crate::support::{Bench, CANARY, Giving, TOKEN, Way, assert_done, errors};

pub const ISO_MAINTENANCE: Way = Way::new("{from: iso, config: maintenance}", Giving::Reserved);
pub const ISO_ANYWHERE: Way = Way::new("{from: iso, config: maintenance}", Giving::Any);
pub const ISO_CIDATA: Way = Way::new("{from: iso, config: cidata}", Giving::Nothing);
pub const IMAGE_MAINTENANCE: Way = Way::new("{from: disk-image, config: maintenance}", Giving::Reserved);
pub const IMAGE_ANYWHERE: Way = Way::new("{from: disk-image, config: maintenance}", Giving::Any);
pub const CLOUD_INIT: Way = Way::new("{from: disk-image, config: cloud-init-drive}", Giving::Nothing);
pub const ISO_CLOUD_INIT: Way = Way::new("{from: iso, config: cloud-init-drive}", Giving::Nothing);
pub const SNIPPET: Way = Way::new("{from: disk-image, config: snippet}", Giving::Nothing);
pub const ISO_SNIPPET: Way = Way::new("{from: iso, config: snippet}", Giving::Nothing);
pub const TEMPLATE_SNIPPET: Way = Way::new("{from: template, config: snippet}", Giving::Nothing);
pub const META: Way = Way::new("{from: disk-image, config: meta}", Giving::Nothing);
pub const ISO_META: Way = Way::new("{from: iso, config: meta}", Giving::Nothing);
pub const TEMPLATE: Way = Way::new("{from: template, config: cidata}", Giving::Nothing);
pub const TEMPLATE_CLOUD_INIT: Way = Way::new("{from: template, config: cloud-init-drive}", Giving::Nothing);
pub const TEMPLATE_BY_ISO: Way =
    Way::new("{from: template, config: cidata, template: {made: iso}}", Giving::Nothing);
pub const TEMPLATE_FULL: Way =
    Way::new("{from: template, config: maintenance, template: {clone: full}}", Giving::Reserved);

/// From nothing to a cluster, nothing left to do, and back to nothing but images.
pub async fn whole_life(way: Way) -> Bench {
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

pub async fn and_back(bench: &Bench, way: Way) {
    // Templates are images of a kind.
    let image = |v: &String| v.contains("/talos-v") || v.contains(":base-99") && !v.contains("/vm-");
    let images = bench.lab.datacenter().volumes().into_iter().filter(image);
    let images: Vec<String> = images.collect();
    assert_done(&bench.destroy().await, way.boot);
    bench.assert_destroyed(way.boot);
    assert_eq!(bench.lab.datacenter().volumes(), images, "{way:?}");
}

/// Mission: E11, M13, F2
#[tokio::test(start_paused = true)]
async fn an_iso_and_maintenance_mode_at_a_reserved_address() {
    let bench = whole_life(ISO_MAINTENANCE).await;
    and_back(&bench, ISO_MAINTENANCE).await;
}

/// Mission: E5, M13
#[tokio::test(start_paused = true)]
async fn an_iso_and_maintenance_mode_where_the_agent_says() {
    let bench = whole_life(ISO_ANYWHERE).await;
    let asked = bench.lab.faults().log().iter().filter(|call| call.path.contains("/agent/")).count();
    assert!((4..40).contains(&asked), "the agents were asked {asked} times");
    and_back(&bench, ISO_ANYWHERE).await;
}

/// Mission: H13
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

/// Mission: M6
#[tokio::test(start_paused = true)]
async fn the_network_on_a_cloud_init_drive_and_maintenance_mode() {
    for way in [CLOUD_INIT, ISO_CLOUD_INIT] {
        let bench = whole_life(way).await;
        and_back(&bench, way).await;
    }
}

/// Mission: H2
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
async fn a_snippet_on_proxmoxs_own_drive() {
    for way in [SNIPPET, ISO_SNIPPET, TEMPLATE_SNIPPET] {
        let bench = whole_life(way).await;
        // The snippets hold keys, and so does the drive that Proxmox makes of them.
        let volumes = bench.lab.datacenter().volumes();
        let left = |volume: &&String| volume.contains("snippets/") || volume.contains("-cloudinit");
        assert_eq!(volumes.iter().filter(left).count(), 0, "{volumes:?}");
        and_back(&bench, way).await;
    }
}

/// The SSH server is another host than the one that the VM is made on: nothing with keys in it stays behind there.
#[tokio::test(start_paused = true)]
async fn a_snippet_on_the_wrong_host_is_removed_again() {
    let mut bench = Bench::booting(SNIPPET, 1, 0);
    let host = &mut bench.cluster.proxmox.hosts[0];
    assert_eq!(host.name, "atlas");
    host.name = "boreas".into();
    let report = bench.apply().await;
    let said = errors(&report);
    assert!(said.iter().any(|error| error.contains("/snippets/") && error.contains("boreas")), "{said:?}");
    let volumes = bench.lab.datacenter().volumes();
    assert!(!volumes.iter().any(|volume| volume.contains("snippets/")), "{volumes:?}");
}

#[tokio::test(start_paused = true)]
async fn every_death_on_the_way_through_a_snippet_is_survived() {
    sweep(SNIPPET, 1, 1, 0, 1).await;
}

#[tokio::test(start_paused = true)]
async fn every_fault_on_the_way_through_a_snippet_is_survived() {
    faults_on(SNIPPET).await;
}

#[tokio::test(start_paused = true)]
async fn every_death_on_the_way_through_a_cloud_init_drive_is_survived() {
    sweep(CLOUD_INIT, 1, 1, 0, 1).await;
}

#[tokio::test(start_paused = true)]
async fn every_death_on_the_way_from_images_of_their_own_is_survived() {
    sweep(META, 1, 1, 0, 1).await;
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

/// Mission: E14
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
    let note = plan.notes.iter().find(|note| note.about() == "host boreas").unwrap();
    assert!(note.text().contains("the boot ISO talos-v1.12.iso is missing on storage local"), "{note:?}");
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
/// factory is asked. A raw one is known to be as large as its file, and of a qcow2 Proxmox tells what its header says.
/// Mission: E14
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
        (own_qcow2, Format::Qcow2, Some(20 << 30), false),
    ] {
        let bench = Bench::booting(way, 1, 1);
        let volid = bench.cluster.boot.image.clone().unwrap();
        let put = |host: &str| {
            let mut bytes = somebodys_build().encode(format);
            let size = match (format, size) {
                (Format::Qcow2, Some(disk)) => {
                    bytes[24..32].copy_from_slice(&u64::to_be_bytes(disk));
                    None
                }
                (_, size) => size,
            };
            assert!(bench.lab.datacenter().put_image(host, &volid, bytes, size));
        };
        put("atlas");
        // Where it is missing, no node is made; the plan says so, with the way out.
        let plan = bench.look().await.1.unwrap();
        assert!(plan.nodes.iter().all(|node| node.host.as_deref() == Some("atlas")), "{:#?}", plan.nodes);
        let note = plan.notes.iter().find(|note| note.about() == "host boreas").unwrap();
        assert!(
            note.text().contains(&format!("is missing on storage local (`boot.image: {volid}`)")),
            "{note:?}"
        );
        assert!(note.fix().is_some_and(|fix| fix.to_string().contains("`boot.image`")), "{note:?}");
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

/// An image of one's own, of whatever size, on the storage of both hosts.
fn with_own_image(size: Option<u64>) -> Bench {
    let bench = Bench::booting(OWN_RAW, 1, 1);
    let volid = bench.cluster.boot.image.clone().unwrap();
    for host in ["atlas", "boreas"] {
        let bytes = somebodys_build().encode(Format::Raw);
        assert!(bench.lab.datacenter().put_image(host, &volid, bytes, size));
    }
    bench
}

/// Thin pools round disks up to whole extents: 20 GiB and 4 MiB where 20 GiB are declared is no difference.
#[tokio::test(start_paused = true)]
async fn what_the_storage_rounds_up_is_no_difference() {
    for (mib, told) in [(1, None), (512, Some(("20 GiB", "20.5 GiB")))] {
        let bench = with_own_image(Some((20 << 30) + (mib << 20)));
        assert_done(&bench.apply().await, "apply");
        bench.assert_converged("apply").await;
        let node = &bench.cluster.nodes[0];
        let (world, plan) = bench.look().await;
        let config = client(&bench).vm_config(&world.guests[&node.vmid].host, node.vmid).await.unwrap();
        let size = config.disks["scsi0"].size.unwrap();
        assert_eq!(size, (20 << 30) + (mib << 20).next_multiple_of(4 << 20));
        let plan = plan.unwrap();
        let differ = plan.differences.iter().find(|one| one.node == node.name && one.what == "disk");
        let said = differ.map(|one| (one.declared.as_str(), one.found.as_str()));
        assert_eq!(said, told, "{:#?}", plan.differences);
    }
}

/// One call makes such a VM and starts it.
#[tokio::test(start_paused = true)]
async fn every_death_on_the_way_from_an_image_of_ones_own_is_survived() {
    sweep_of(|| with_own_image(Some(20 << 30))).await;
}

/// Somebody takes it away while the plan is read. What was to be made of it is told, and leaves nothing behind.
#[tokio::test(start_paused = true)]
async fn an_image_that_is_deleted_after_the_plan_is_told_and_leaves_nothing_half_done() {
    let bench = with_own_image(None);
    let volid = bench.cluster.boot.image.clone().unwrap();
    let (world, plan) = bench.look().await;
    let plan = plan.unwrap();
    let host = plan.nodes.iter().find(|node| node.name == "worker-1").unwrap().host.clone().unwrap();
    let client = client(&bench);
    let upid = client.delete_volume(&host, &volid).await.unwrap().unwrap();
    TaskWatcher::new(&client).finish(&upid, "delete").await.unwrap();
    let report = bench.engine().execute(&bench.cluster, &world, &plan, &Run::silent()).await.unwrap();
    let told = errors(&report);
    assert!(!told.is_empty() && told.iter().all(|error| error.contains("talos-v1.12-own.raw")), "{told:#?}");
    let there: Vec<String> = bench.lab.datacenter().vms().into_iter().map(|(.., name, _)| name).collect();
    let elsewhere = plan.nodes.iter().filter(|node| node.host.as_ref() != Some(&host));
    assert_eq!(there, elsewhere.map(|node| node.name.clone()).collect::<Vec<_>>());
    // The next plan says what is missing, and once it is back the node comes up.
    let plan = bench.look().await.1.unwrap();
    assert!(
        plan.notes.iter().any(|note| note
            .text()
            .contains(&format!("is missing on storage local (`boot.image: {volid}`)"))),
        "{:?}",
        plan.notes
    );
    let bytes = somebodys_build().encode(Format::Raw);
    assert!(bench.lab.datacenter().put_image(&host, &volid, bytes, None));
    assert_done(&bench.apply().await, "once it is back");
    bench.assert_converged("once it is back").await;
}

/// The factory's raw image: larger to download, and Proxmox does not look what is in it, so that Daedal's own look counts.
/// Mission: E14
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

/// Hardware of VMs that are there: what can change is changed, and what it waits for is said; the rest is told.
#[tokio::test(start_paused = true)]
async fn hardware_of_existing_vms_changes_where_it_can() {
    let mut bench = Bench::new(1, 1);
    assert_done(&bench.apply().await, "apply");
    let hardware = "{}\n  hardware: {cpu: host, numa: true, watchdog: true, machine: i440fx, tpm: true, serialConsole: false, disks: [{size: 10GiB}], nics: [{vlan: 30}]}";
    bench.cluster = crate::support::cluster_booting(hardware, 1, 1);
    let plan = bench.look().await.1.unwrap();
    let held: Vec<String> = plan
        .differences
        .iter()
        .filter(|one| matches!(one.stays, daedal_planner::Stays::Held { .. }))
        .map(daedal_words::difference)
        .collect();
    assert_eq!(held.len(), 4, "{:#?}", plan.differences);
    assert!(held.iter().any(|text| text.starts_with("machine pc declared, q35 found")), "{held:?}");
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

/// Emptying a CD drive that is not in the boot order would append it there, as a change that waits for the next start.
#[tokio::test(start_paused = true)]
async fn ejected_media_leave_nothing_that_waits_for_a_restart() {
    for way in [Way::USUAL, ISO_CIDATA, TEMPLATE] {
        let bench = Bench::booting(way, 1, 1);
        assert_done(&bench.apply().await, way.boot);
        let saved = serde_json::to_value(bench.lab.datacenter().save()).unwrap();
        for (vmid, vm) in saved["vms"].as_object().unwrap() {
            assert_eq!(vm["pending"], serde_json::json!({}), "VM {vmid}, {way:?}");
        }
    }
}

/// A disk that grows changes the digest of its VM's config: what is set besides is sent with the new one, at the first try.
#[tokio::test(start_paused = true)]
async fn a_disk_that_grows_does_not_spoil_the_change_besides() {
    let mut bench = Bench::new(1, 1);
    bench.cluster = crate::support::cluster_booting("{}\n  hardware: {disks: [{size: 10GiB}]}", 1, 1);
    assert_done(&bench.apply().await, "apply");
    for node in &mut bench.cluster.nodes {
        node.disks[0].size = 20 << 30;
        node.cores = 6;
    }
    bench.lab.faults().clear_log();
    assert_done(&bench.apply().await, "grown and changed");
    let log = bench.lab.faults().log();
    let puts = log.iter().filter(|call| call.method == "PUT" && call.path.ends_with("/1000/config"));
    assert_eq!(puts.count(), 1, "{log:#?}");
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

/// Kernel arguments ride in the schematic: no root token, no `args` on the VM (H19).
/// Mission: H19
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
        let said = plan.notes.iter().any(|note| note.text().contains("does not check signatures"));
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

/// Mission: F5
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
            assert_eq!((raw("numa"), raw("watchdog")), ("1", "action=reset,model=i6300esb"), "{boot}");
        }
        assert_done(&bench.destroy().await, boot);
        bench.assert_destroyed_with(boot, 3);
    }
}
