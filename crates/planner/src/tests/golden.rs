//! Whole plan texts. Someone chose every word; a change here is a change of what people read.

use crate::fixture::{self, GIB};
use crate::*;

fn apply_text(cluster: &daedal_inventory::Cluster, world: &World) -> String {
    match plan_apply(cluster, &fixture::image(cluster), world) {
        Ok(plan) => render(&plan, RenderOptions::default()),
        Err(error) => format!("error: {error}\n"),
    }
}

#[test]
fn create_home() {
    insta::assert_snapshot!(apply_text(&fixture::home(), &fixture::home_world()));
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

fn made() -> (daedal_inventory::Cluster, super::simulator::Sim) {
    let cluster = fixture::home();
    let sim = super::simulator::Sim::made(&cluster, &fixture::home_world());
    (cluster, sim)
}

#[test]
fn empty() {
    let (cluster, sim) = made();
    insta::assert_snapshot!(apply_text(&cluster, &sim.world));
}

fn destroy_text(cluster: &daedal_inventory::Cluster, world: &World) -> String {
    match plan_destroy(cluster, world) {
        Ok(plan) => render(&plan, RenderOptions::default()),
        Err(error) => format!("error: {error}\n"),
    }
}

#[test]
fn destroy() {
    let (cluster, mut sim) = made();
    // A node that is no longer declared, a stranger on the side, and a medium someone forgot.
    let mut old = cluster.nodes[4].clone();
    (old.name, old.vmid) = ("worker-9".into(), 309);
    let mut guest = super::simulator::Sim::made_vm(&cluster, &old, "atlas");
    guest.config.as_mut().unwrap().media = None;
    sim.world.guests.insert(309, guest);
    sim.world.guests.insert(
        100,
        GuestView {
            vmid: 100,
            host: "atlas".into(),
            name: "nas".into(),
            running: true,
            cores: 2,
            memory: 4 * GIB,
            ..GuestView::default()
        },
    );
    sim.world.volumes.push(VolumeView {
        host: "atlas".into(),
        storage: "local".into(),
        volid: names::media_volid("local", &names::media_file(&cluster, &old)),
        content: "iso".into(),
        size: 1,
    });
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
