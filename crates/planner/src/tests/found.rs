//! What the random laws found once, as stories of their own.

use daedal_inventory::{Boot, BootFrom};
use daedal_machine::vm::Value;

use super::simulator::Sim;
use crate::fixture;
use crate::*;

/// Nothing proves that it is ours: whoever began it may have other secrets.
#[test]
fn a_create_that_died_is_not_destroyed_without_secrets() {
    let cluster = fixture::home();
    let mut world = fixture::home_world();
    let ownership = Ownership::HalfMade { node: "cp-1".into(), task_running: false, upid: "UPID:x".into() };
    let half = GuestView {
        vmid: 300,
        host: "atlas".into(),
        lock: Some("create".into()),
        ownership,
        ..GuestView::default()
    };
    world.guests.insert(300, half);
    assert!(matches!(plan_destroy(&cluster, &world), Err(PlanError::Unproven { .. })));
    world.secrets_stored = true;
    assert!(plan_destroy(&cluster, &world).is_ok());
}

/// The VM installs itself when it is moved to a host that has neither its medium nor the ISO. Both come again while it runs; the
/// medium, which holds keys, may only be deleted once it is there.
#[test]
fn a_medium_that_comes_again_is_deleted_only_after_that() {
    let boot = Boot { from: BootFrom::Iso, ..Boot::default() };
    let cluster = daedal_inventory::Cluster { boot, ..fixture::cluster("home", &["atlas", "boreas"], 1, 0) };
    let mut sim =
        Sim::new(&cluster, &fixture::empty_world(&[("atlas", 64, 256, 4000), ("boreas", 64, 256, 4000)]));
    let first = sim.plan();
    sim.run(&first, |at| !matches!(first.steps[at].action, Action::AwaitApi));
    let guest = sim.world.guests.get_mut(&300).unwrap();
    assert!(guest.running);
    guest.host = if guest.host == "atlas" { "boreas" } else { "atlas" }.into();
    let host = guest.host.clone();
    let plan = sim.plan();
    let on_host = |step: &&Step| step.host.as_ref() == Some(&host);
    let upload =
        plan.steps.iter().filter(on_host).find(|s| matches!(s.action, Action::UploadMedia { .. })).unwrap();
    let answers = plan.steps.iter().find(|s| matches!(s.action, Action::AwaitApi)).unwrap();
    assert!(answers.needs.contains(&upload.id), "{:?}", answers.needs);
    assert_eq!(sim.run(&plan, |_| true), plan.steps.len());
    assert_eq!(sim.media(), 0);
}

/// A worker gets the certificate of its API from a control plane. It runs on without one, but does not come back.
#[test]
fn a_worker_is_not_restarted_while_no_control_plane_answers() {
    for config in [false, true] {
        let cluster = fixture::cluster("home", &["atlas"], 1, 1);
        let mut sim = Sim::made(&cluster, &fixture::empty_world(&[("atlas", 64, 256, 4000)]));
        let (lost, worker) = (&cluster.nodes[0], &cluster.nodes[1]);
        let guest = sim.world.guests.get_mut(&lost.vmid).unwrap();
        guest.ownership = Ownership::Unreadable { why: "permission".into() };
        sim.world.nodes.insert(lost.name.clone(), NodeView::default());
        sim.world.endpoint_answers = false;
        match config {
            true => {
                sim.world.nodes.get_mut(&worker.name).unwrap().config =
                    fixture::differs(["a", "b"], true, &[]);
            }
            false => {
                let config = sim.world.guests.get_mut(&worker.vmid).unwrap().config.as_mut().unwrap();
                config.options.insert("cores".into(), Value::Count(1));
            }
        }
        let plan = sim.plan();
        let boots = |step: &Step| {
            matches!(step.action, Action::RestartVm { .. } | Action::ApplyConfig { reboot: true, .. })
        };
        assert!(!plan.steps.iter().any(boots), "{:?}", plan.steps);
        let why = Stays::Held { why: WhyStays::NoControlPlane { config } };
        assert!(plan.differences.iter().any(|difference| difference.stays == why), "{:?}", plan.differences);
    }
}
