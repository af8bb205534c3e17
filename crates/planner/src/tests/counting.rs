//! A plan's counters count everything that happens, and its last lines say the same.

use daedal_inventory::{Boot, BootConfig, BootFrom, Cluster, Templates};

use super::simulator::{IMAGE_SIZE, Sim};
use super::told::*;
use crate::fixture::{self, GIB};
use crate::*;

fn planned(cluster: &Cluster, world: &World) -> (Plan, String) {
    let plan = plan_apply(cluster, &fixture::images(cluster), world).unwrap();
    assert_eq!(check(cluster, world, &plan), []);
    let text = render(&plan, RenderOptions::default());
    (plan, text.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[test]
fn templates_are_created_and_replaced() {
    let mut cluster = fixture::cluster("home", &["atlas"], 1, 1);
    cluster.boot = Boot { from: BootFrom::Template, config: BootConfig::Cidata, ..Boot::default() };
    cluster.boot.template = Some(Templates { control_plane: 998, worker: 999, full: false, by_iso: false });
    let (plan, said) = planned(&cluster, &fixture::home_world());
    assert_eq!(counts(&plan).templates, TemplateCounts { create: 2, ..TemplateCounts::default() });
    assert!(said.ends_with("2 to create, 0 to change, 0 to destroy, 2 templates to create."), "{said}");

    // The nodes are gone, their templates are there, and another version is declared.
    let mut sim = Sim::made(&cluster, &fixture::home_world());
    for node in &cluster.nodes {
        sim.world.guests.remove(&node.vmid);
        sim.world.nodes.remove(&node.name);
    }
    cluster.talos.version = "1.12.1".parse().unwrap();
    let (plan, said) = planned(&cluster, &sim.world);
    assert_eq!(counts(&plan).templates, TemplateCounts { replace: 2, ..TemplateCounts::default() });
    assert!(said.contains("Replaces templates 998, 999. etcd:"), "{said}");
    assert!(said.ends_with("0 to destroy, 2 templates to replace."), "{said}");
}

#[test]
fn files_are_counted_that_others_brought_there() {
    let cluster = fixture::home();
    let mut world = fixture::home_world();
    let image = fixture::image(&cluster);
    let (file, sha256) = (image.file.clone(), "ab".repeat(32));
    world.image_pins.push(ImagePin { file, size: IMAGE_SIZE, sha256, disk_size: None });
    let volid = names::image_volid("local", &image.file);
    let (host, storage, content) = ("atlas".to_owned(), "local".to_owned(), "import".to_owned());
    world.volumes.push(VolumeView { host, storage, volid: volid.clone(), content, size: 9 });
    let (plan, said) = planned(&cluster, &world);
    // The config media that it uploads and deletes itself are not among them.
    assert!(plan.steps.iter().any(|step| matches!(step.action, Action::DeleteMedia { .. })));
    assert_eq!(counts(&plan).files.delete, 1);
    assert!(said.contains(&format!("Deletes the wrong image file {volid} on atlas. etcd:")), "{said}");
    assert!(said.ends_with("5 to create, 0 to change, 0 to destroy, 1 file to delete."), "{said}");

    // A medium that an earlier run left is.
    let mut sim = Sim::made(&cluster, &fixture::home_world());
    let secrets = sim.world.secrets_id.clone();
    let medium = names::media_file(&cluster, &cluster.nodes[4], secrets.as_ref());
    let (host, storage, content) = ("atlas".to_owned(), "local".to_owned(), "iso".to_owned());
    let volid = names::media_volid("local", &medium);
    sim.world.volumes.push(VolumeView { host, storage, volid, content, size: 1 });
    let (plan, said) = planned(&cluster, &sim.world);
    assert_eq!(counts(&plan).files.delete, 1, "{said}");
}

#[test]
fn a_node_that_restarts_is_counted_once() {
    let mut cluster = fixture::home();
    let mut sim = Sim::made(&cluster, &fixture::home_world());
    cluster.nodes[1].memory = 12 * GIB;
    cluster.nodes[3].memory = 12 * GIB;
    let (plan, said) = planned(&cluster, &sim.world);
    assert_eq!(counts(&plan).vms, VmCounts { change: 2, restart: 2, ..VmCounts::default() });
    assert!(said.contains("Restarts cp-2, worker-1."), "{said}");
    assert!(said.ends_with("2 to change, 0 to destroy, 2 VMs to restart."), "{said}");
    // What stops to be destroyed does not restart.
    sim.world.guests.remove(&304);
    let plan = plan_destroy(&cluster, &sim.world).unwrap();
    assert_eq!(counts(&plan).vms, VmCounts { destroy: 4, ..VmCounts::default() });
}

#[test]
fn what_apply_leaves_out_is_said_before_the_summary() {
    let cluster = fixture::home();
    let mut world = fixture::home_world();
    let foreign = |vmid| GuestView { vmid, host: "atlas".into(), name: "nas".into(), ..GuestView::default() };
    world.guests.insert(301, foreign(301));
    let (plan, said) = planned(&cluster, &world);
    assert_eq!(counts(&plan).vms.blocked, 1);
    let end = "apply leaves out cp-2 (see Problems). The cluster gets 2 of 3 control planes. 4 to create, 0 to change, \
               0 to destroy, 1 blocked.";
    assert!(said.ends_with(end), "{said}");
    world.guests.insert(303, foreign(303));
    let (_, said) = planned(&cluster, &world);
    let end = "apply leaves out cp-2, worker-1 (see Problems). The cluster gets 2 of 3 control planes and 1 of 2 workers.";
    assert!(said.contains(end), "{said}");
    // Also where nothing else is to be done.
    let mut sim = Sim::made(&cluster, &fixture::home_world());
    sim.world.guests.insert(304, foreign(304));
    sim.world.nodes.remove("worker-2");
    let (plan, said) = planned(&cluster, &sim.world);
    assert!(plan.is_empty(), "{said}");
    assert!(said.contains("The cluster gets 1 of 2 workers. No changes: nothing can be done"), "{said}");
}
