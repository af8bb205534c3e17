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
