//! Phases: together they do what an apply does, whoever carries them out and however often they are cut short.

use proptest::prelude::*;

use super::laws::{scenes, survives};
use super::simulator::Sim;
use super::told::*;
use crate::fixture;
use crate::*;

const ALL: [Phase; 3] = [Phase::Generate, Phase::Provision, Phase::Bootstrap];

/// What a look shows that goes no further than the store.
fn kept(world: &World) -> World {
    World {
        secrets_stored: world.secrets_stored,
        secrets_id: world.secrets_id.clone(),
        known: world.known.clone(),
        addresses: world.addresses.clone(),
        outputs_current: world.outputs_current,
        ..World::default()
    }
}

/// The plan of a phase, judged in the world that it was made of.
fn plan(sim: &Sim, phase: Phase) -> Plan {
    let world = if phase == Phase::Generate { kept(&sim.world) } else { sim.world.clone() };
    let plan = plan_phase(&sim.cluster, &sim.images, &world, phase).unwrap();
    let told = render(&plan, RenderOptions::default());
    assert_eq!(check(&sim.cluster, &world, &plan), [], "{told}");
    assert_eq!(plan.phase, Some(phase));
    plan
}

fn missing(plan: &Plan) -> Vec<(Missing, Phase)> {
    let missing = plan.notes.iter().filter_map(|note| match note.advice {
        Advice::PhaseMissing { what, phase, .. } => Some((what, phase)),
        _ => None,
    });
    missing.collect()
}

proptest! {
    #![proptest_config(super::config())]

    #[test]
    fn the_phases_together_are_an_apply(scene in scenes(), seed in any::<u64>(), killed in any::<bool>()) {
        let mut sim = Sim::new(&scene.cluster, &scene.world);
        let whole = sim.plan();
        let unsure = whole.notes.iter().any(|note| matches!(note.advice, Advice::EtcdInDoubt { .. }));
        for phase in ALL {
            if killed {
                let first = plan(&sim, phase);
                sim.run(&first, |at| survives(seed, at));
            }
            let plan_of_it = plan(&sim, phase);
            prop_assert!(unsure || missing(&plan_of_it).is_empty(), "{}", render(&plan_of_it, RenderOptions::default()));
            let done = sim.run(&plan_of_it, |_| true);
            prop_assert!(unsure || done == plan_of_it.steps.len());
            let again = plan(&sim, phase);
            prop_assert!(unsure || again.is_empty(), "{}", render(&again, RenderOptions::default()));
        }
        let rest = sim.plan();
        prop_assert!(unsure || rest.is_empty(), "{}", render(&rest, RenderOptions::default()));
        prop_assert!(sim.bootstraps <= 1);
        // Done at once it comes to the same.
        let mut at_once = Sim::new(&scene.cluster, &scene.world);
        at_once.run(&whole, |_| true);
        prop_assert!(unsure || at_once.world.nodes == sim.world.nodes);
    }
}

#[test]
fn a_phase_says_which_earlier_one_is_not_done() {
    let cluster = fixture::cluster("home", &["atlas"], 3, 2);
    let mut sim = Sim::new(&cluster, &fixture::empty_world(&[("atlas", 64, 256, 4000)]));
    for phase in [Phase::Provision, Phase::Bootstrap] {
        let plan = plan(&sim, phase);
        assert!(plan.is_empty());
        assert_eq!(missing(&plan), [(Missing::Secrets, Phase::Generate)]);
        assert!(plan.nodes.iter().all(|node| node.fate == Fate::Blocked));
    }
    let generate = plan(&sim, Phase::Generate);
    assert_eq!(generate.steps.len(), 2);
    sim.run(&generate, |_| true);
    let early = plan(&sim, Phase::Bootstrap);
    assert!(early.is_empty());
    assert_eq!(missing(&early), [(Missing::Vm, Phase::Provision)]);
    // One worker is not made: the others are bootstrapped, and it is named.
    let provision = plan(&sim, Phase::Provision);
    let spared = |at: usize| provision.steps[at].node.as_deref() != Some("worker-2");
    sim.run(&provision, spared);
    let bootstrap = plan(&sim, Phase::Bootstrap);
    assert!(bootstrap.steps.iter().any(|step| matches!(step.action, Action::Bootstrap { .. })));
    assert!(bootstrap.steps.iter().all(|step| step.node.as_deref() != Some("worker-2")));
    let names: Vec<_> = bootstrap.notes.iter().filter(|note| note.level == Level::Problem).collect();
    let expected = Advice::PhaseMissing {
        cluster: "home".into(),
        nodes: vec!["worker-2".into()],
        what: Missing::Vm,
        phase: Phase::Provision,
    };
    assert_eq!(names.iter().map(|note| &note.advice).collect::<Vec<_>>(), [&expected]);
    assert_eq!(bootstrap.quorum, Quorum { before: 0, lowest: 0, after: 3 });
}

#[test]
fn a_phase_that_does_what_is_anothers_is_refused() {
    let cluster = fixture::cluster("home", &["atlas"], 1, 1);
    let world = fixture::empty_world(&[("atlas", 64, 256, 4000)]);
    let whole = plan_apply(&cluster, &fixture::images(&cluster), &world).unwrap();
    for phase in ALL {
        let plan = Plan { phase: Some(phase), ..whole.clone() };
        let findings = check(&cluster, &world, &plan);
        assert!(findings.iter().any(|finding| finding.rule == Rule::Phase), "{phase}: {findings:?}");
    }
}

#[test]
fn changes_one_by_one_belong_to_one_phase() {
    let cluster = fixture::cluster("home", &["atlas"], 3, 0);
    let mut sim = Sim::made(&cluster, &fixture::empty_world(&[("atlas", 64, 256, 4000)]));
    for node in &mut sim.cluster.nodes {
        node.memory *= 2;
    }
    sim.world.outputs_current = true;
    let plan_of_it = plan(&sim, Phase::Provision);
    let restarts = |action: &Action| matches!(action, Action::RestartVm { .. });
    assert_eq!(plan_of_it.steps.iter().filter(|step| restarts(&step.action)).count(), 3);
    let waits = plan_of_it.steps.iter().filter(|step| step.action == Action::AwaitEtcd).count();
    assert!(waits >= 2, "each but the first after the one before votes again");
    assert!(plan(&sim, Phase::Bootstrap).steps.iter().all(|step| !restarts(&step.action)));
}

/// Changes of nodes that are up are left to `provision` and hold up no bootstrap, and the other way round.
#[test]
fn a_change_of_nodes_that_are_up_is_no_dead_end() {
    let left = |plan: &Plan| -> Vec<(Phase, Option<Phase>)> {
        let left = plan.notes.iter().filter_map(|note| match note.advice {
            Advice::PhaseLeft { phase, after, .. } => Some((phase, after)),
            _ => None,
        });
        left.collect()
    };
    let restarts = |plan: &Plan| {
        plan.steps.iter().filter(|step| matches!(step.action, Action::RestartVm { .. })).count()
    };
    // Provisioned, and declared larger before it is bootstrapped.
    let cluster = fixture::cluster("home", &["atlas"], 3, 1);
    let mut sim = Sim::new(&cluster, &fixture::empty_world(&[("atlas", 64, 256, 4000)]));
    for phase in [Phase::Generate, Phase::Provision] {
        sim.run(&plan(&sim, phase), |_| true);
    }
    for node in &mut sim.cluster.nodes {
        node.memory *= 2;
    }
    sim.world.outputs_current = true;
    let provision = plan(&sim, Phase::Provision);
    assert_eq!(restarts(&provision), 0);
    assert_eq!(left(&provision), [(Phase::Bootstrap, None), (Phase::Provision, Some(Phase::Bootstrap))]);
    sim.run(&provision, |_| true);
    let bootstrap = plan(&sim, Phase::Bootstrap);
    assert_eq!((missing(&bootstrap), restarts(&bootstrap)), (vec![], 0));
    assert_eq!(left(&bootstrap), [(Phase::Provision, None)]);
    assert_eq!(sim.run(&bootstrap, |_| true), bootstrap.steps.len());
    assert_eq!(sim.bootstraps, 1);
    assert!(sim.world.nodes.values().all(|view| view.ready == Some(true)), "all of them are awaited");

    // Bootstrapped: nothing is left for it, whatever is to be changed, and no node is said not to answer.
    let again = plan(&sim, Phase::Bootstrap);
    assert!(again.is_empty() && missing(&again).is_empty(), "{}", render(&again, RenderOptions::default()));
    assert!(again.nodes.iter().all(|node| node.fate == Fate::Keep));
    assert_eq!(left(&again), [(Phase::Provision, None)]);
    let provision = plan(&sim, Phase::Provision);
    assert_eq!(restarts(&provision), 4);
    sim.run(&provision, |_| true);
    let rest = plan(&sim, Phase::Bootstrap);
    sim.run(&rest, |_| true);
    assert_eq!(left(&plan(&sim, Phase::Bootstrap)), []);
    assert!(sim.plan().is_empty());
}

/// Where no network is installed nobody waits for a node to be Ready; one that is not there is missing all the same.
#[test]
fn a_node_that_is_not_there_is_missing_without_a_network_too() {
    let mut cluster = fixture::cluster("home", &["atlas"], 1, 2);
    cluster.kubernetes.cni = daedal_inventory::Cni::None;
    let mut sim = Sim::new(&cluster, &fixture::empty_world(&[("atlas", 64, 256, 4000)]));
    sim.run(&plan(&sim, Phase::Generate), |_| true);
    let provision = plan(&sim, Phase::Provision);
    sim.run(&provision, |at| provision.steps[at].node.as_deref() != Some("worker-2"));
    for _ in 0..2 {
        let bootstrap = plan(&sim, Phase::Bootstrap);
        assert_eq!(missing(&bootstrap), [(Missing::Vm, Phase::Provision)]);
        let fate = |name: &str| bootstrap.nodes.iter().find(|node| node.name == name).unwrap().fate;
        assert_eq!(fate("worker-2"), Fate::Blocked);
        sim.run(&bootstrap, |_| true);
    }
}
