//! Plan time: linear in the number of nodes.

use std::time::{Duration, Instant};

use super::simulator::Sim;
use super::told::*;
use crate::fixture;
use crate::*;

/// A cluster of that many nodes on hosts with just enough room, and half of it already there.
fn scene(nodes: u32) -> (daedal_inventory::Cluster, World) {
    let hosts: Vec<String> = (0..nodes.div_ceil(50)).map(|at| format!("host-{at}")).collect();
    let names: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let cluster = fixture::cluster("large", &names, 5, nodes - 5);
    let rooms: Vec<_> = names.iter().map(|name| (*name, 256, 512, 4000)).collect();
    let mut world = fixture::empty_world(&rooms);
    world.secrets_stored = true;
    for (at, node) in cluster.nodes.iter().enumerate().filter(|(at, _)| at % 2 == 1) {
        let mut guest = Sim::made_vm(&cluster, node, names[at % names.len()]);
        guest.running = true;
        world.guests.insert(node.vmid, guest);
    }
    (cluster, world)
}

/// Time this thread has spent on a processor, so that other work on the machine does not count; by the clock where the
/// system does not tell.
fn spent(since: Instant) -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split(' ').next().and_then(|word| word.parse().ok());
    nanos.map_or_else(|| since.elapsed(), Duration::from_nanos)
}

fn best_of<T>(runs: usize, mut work: impl FnMut() -> T) -> Duration {
    let start = Instant::now();
    let time = |_| {
        let before = spent(start);
        let result = std::hint::black_box(work());
        let time = spent(start) - before;
        drop(result);
        time
    };
    (0..runs).map(time).min().unwrap()
}

fn plan_time(nodes: u32, runs: usize) -> (Duration, Duration, Duration) {
    let (cluster, world) = scene(nodes);
    let images = fixture::images(&cluster);
    let plan = plan_apply(&cluster, &images, &world).unwrap();
    assert_eq!(check(&cluster, &world, &plan), []);
    (
        best_of(runs, || plan_apply(&cluster, &images, &world)),
        best_of(runs, || check(&cluster, &world, &plan)),
        best_of(runs, || render(&plan, RenderOptions::default())),
    )
}

#[test]
fn growth_is_linear() {
    // Four times the nodes; sixteen times the time would be quadratic. Caches and other work blur it, so a bad
    // measurement gets another chance.
    let linear = || {
        let (small, large) = (plan_time(250, 3), plan_time(1000, 3));
        let pairs = [(small.0, large.0), (small.1, large.1), (small.2, large.2)];
        pairs.iter().all(|(small, large)| *large < *small * 9)
    };
    assert!((0..5).any(|_| linear()));
}

/// Time to plan another config for each of so many running nodes.
fn change_time(nodes: u32, runs: usize) -> Duration {
    let (cluster, world) = scene(nodes);
    let mut sim = Sim::made(&cluster, &world);
    let field = FieldChange { path: "machine.sysctls.a".into(), from: None, to: Some("1".into()) };
    let change = DocumentChange { document: "v1alpha1".into(), fields: vec![field] };
    for (name, view) in &mut sim.world.nodes {
        let digests = [&*format!("{name} now"), &*format!("{name} then")];
        view.config = fixture::differs(digests, false, std::slice::from_ref(&change));
    }
    let plan = plan_apply(&cluster, &sim.images, &sim.world).unwrap();
    let changes = plan.steps.iter().filter(|step| matches!(step.action, Action::ApplyConfig { .. }));
    assert_eq!(changes.count(), nodes as usize);
    best_of(runs, || plan_apply(&cluster, &sim.images, &sim.world))
}

/// `cargo test --release -p daedal-planner figures -- --ignored --nocapture`
#[test]
#[ignore = "prints figures that only mean something in release mode"]
fn figures() {
    for nodes in [1_000, 10_000] {
        let (plan, check, render) = plan_time(nodes, 10);
        println!("{nodes} nodes: plan {plan:.1?}, check {check:.1?}, render {render:.1?}");
    }
    println!("1000 nodes: a plan that changes every config {:.1?}", change_time(1_000, 10));
}

/// `cargo test --release -p daedal-planner fifty -- --ignored`
#[test]
#[ignore = "measures time: run it with --release"]
fn a_thousand_nodes_are_planned_in_fifty_milliseconds() {
    let limit = Duration::from_millis(50);
    let plan = plan_time(1000, 5).0;
    assert!(plan <= limit, "{plan:?}");
    let change = change_time(250, 3);
    assert!(change <= limit / 4, "{change:?}");
}
