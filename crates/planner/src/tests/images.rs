//! What VMs are made from: compared, measured, and left alone where it is not ours.

use daedal_inventory::DiskFormat;

use super::rules::{made, rules};
use crate::fixture;
use crate::*;

#[test]
fn an_image_that_is_there_is_compared_before_a_vm_is_made_from_it() {
    let mut sim = made();
    sim.world.guests.remove(&300);
    sim.world.nodes.remove("cp-1");
    sim.disks.remove("cp-1");
    let plan = sim.plan();
    let compare = plan.steps.iter().find(|step| matches!(step.action, Action::DownloadImage { .. })).unwrap();
    let create = plan.steps.iter().find(|step| matches!(step.action, Action::CreateVm { .. })).unwrap();
    assert!(create.needs.contains(&compare.id), "{create:?}");
    assert!(!plan.steps.iter().any(|step| matches!(step.action, Action::RegisterSchematic { .. })));
    assert_eq!(rules(&sim, &plan), []);
    // The right size alone is not enough for the checker either.
    let mut bad = plan.clone();
    bad.steps[create.id as usize].needs.retain(|need| *need != compare.id);
    assert!(!rules(&sim, &bad).is_empty());
}

#[test]
fn a_host_without_room_for_the_image_takes_no_node() {
    let cluster = fixture::home();
    let mut world = fixture::home_world();
    let (image, images) = (fixture::image(&cluster), fixture::images(&cluster));
    world.image_pins.push(ImagePin {
        file: image.file,
        size: 2 << 30,
        sha256: "ab".repeat(32),
        disk_size: None,
    });
    for host in world.hosts.values_mut() {
        host.storages.get_mut("local").unwrap().available = 1 << 30;
    }
    let refused = plan_apply(&cluster, &images, &world).unwrap_err().to_string();
    assert!(
        refused.contains("storage local has 1 GiB free there, and the disk image takes 2 GiB"),
        "{refused}"
    );
}

#[test]
fn an_image_that_is_larger_than_the_known_one_is_somebody_elses_and_stays() {
    let cluster = fixture::home();
    let (image, images) = (fixture::image(&cluster), fixture::images(&cluster));
    for (size, deleted) in [(9, true), (3 << 30, false)] {
        let mut world = fixture::home_world();
        world.image_pins.push(ImagePin {
            file: image.file.clone(),
            size: 1 << 30,
            sha256: "ab".repeat(32),
            disk_size: None,
        });
        let host = world.hosts.keys().next().unwrap().clone();
        let volid = names::image_volid("local", &image.file);
        let content = "import".to_owned();
        world.volumes.push(VolumeView { host, storage: "local".into(), volid, content, size });
        let plan = plan_apply(&cluster, &images, &world).unwrap();
        let deletes = plan.steps.iter().any(|step| matches!(step.action, Action::DeleteImage { .. }));
        assert_eq!(deletes, deleted, "{size}");
        assert_eq!(check(&cluster, &world, &plan), [], "{size}");
    }
}

#[test]
fn a_disk_that_is_large_enough_in_its_image_is_not_grown() {
    let cluster = fixture::home();
    let (image, images) = (fixture::image(&cluster), fixture::images(&cluster));
    let largest = cluster.nodes.iter().map(|node| node.disk).max().unwrap();
    let smallest = cluster.nodes.iter().map(|node| node.disk).min().unwrap();
    assert!(smallest < largest);
    let grown =
        |plan: &Plan| plan.steps.iter().filter(|step| matches!(step.action, Action::GrowDisk { .. })).count();
    let larger = |size: u64| cluster.nodes.iter().filter(|node| node.disk > size).count();
    for inside in [None, Some(smallest - 1), Some(smallest), Some(largest), Some(largest * 2)] {
        let mut world = fixture::home_world();
        let (file, sha256) = (image.file.clone(), "ab".repeat(32));
        world.image_pins.push(ImagePin { file, size: 1 << 30, sha256, disk_size: inside });
        let plan = plan_apply(&cluster, &images, &world).unwrap();
        assert_eq!(grown(&plan), larger(inside.unwrap_or(0)), "{inside:?}");
        assert_eq!(check(&cluster, &world, &plan), [], "{inside:?}");
        // The checker does not take it on trust.
        world.image_pins[0].disk_size = Some(smallest - 1);
        let found = check(&cluster, &world, &plan);
        assert_eq!(found.is_empty(), inside.unwrap_or(0) < smallest, "{inside:?}: {found:?}");
    }
}

/// Whatever lies there under the name of what is to be downloaded: until its checksum was compared, its size says nothing of
/// the disk that other hosts will get.
#[test]
fn a_foreign_raw_file_does_not_tell_how_large_the_disk_will_be() {
    let mut cluster = fixture::home();
    cluster.boot.format = DiskFormat::Raw;
    let (image, images) = (fixture::image(&cluster), fixture::images(&cluster));
    assert!(image.file.ends_with(".raw"), "{image:?}");
    let mut world = fixture::home_world();
    let (host, volid) = (world.hosts.keys().next().unwrap().clone(), image.volid("local"));
    let (storage, content) = ("local".to_owned(), "import".to_owned());
    world.volumes.push(VolumeView { host, storage, volid, content, size: 1 << 50 });
    let plan = plan_apply(&cluster, &images, &world).unwrap();
    let grown = plan.steps.iter().filter(|step| matches!(step.action, Action::GrowDisk { .. })).count();
    assert_eq!(grown, cluster.nodes.len());
    assert_eq!(check(&cluster, &world, &plan), []);
}

#[test]
fn an_image_of_ones_own_is_as_large_as_proxmox_says() {
    let mut cluster = fixture::home();
    cluster.boot.image = Some("nas:import/talos.qcow2".into());
    let images = Images::default();
    let smallest = cluster.nodes.iter().map(|node| node.disk).min().unwrap();
    for inside in [None, Some(smallest), Some(1 << 50)] {
        let mut world = fixture::home_world();
        let volume = |host: &String| VolumeView {
            host: host.clone(),
            storage: "nas".into(),
            volid: "nas:import/talos.qcow2".into(),
            content: "import".into(),
            size: 1 << 50,
        };
        world.volumes = world.hosts.keys().map(volume).collect();
        world.own_disk = inside;
        let plan = plan_apply(&cluster, &images, &world).unwrap();
        let grown = plan.steps.iter().filter(|step| matches!(step.action, Action::GrowDisk { .. })).count();
        let known = inside.unwrap_or(0);
        assert_eq!(grown, cluster.nodes.iter().filter(|node| node.disk > known).count(), "{inside:?}");
        assert_eq!(check(&cluster, &world, &plan), [], "{inside:?}");
    }
}
