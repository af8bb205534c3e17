//! Death before and after every single effect, then another run: it must converge, with nothing doubled or left over.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use daedal_engine::{Effect, EffectKind, Effects};

use crate::breadth::{deaths, is_full};
use crate::support::{Bench, Killer, Point, Way, assert_done, errors};

/// Every point of a creation, in parts that run side by side.
async fn sweep_creation(control_planes: usize, workers: usize, part: usize, parts: usize) {
    sweep(Way::USUAL, control_planes, workers, part, parts).await;
}

/// The same, however the nodes boot.
pub async fn sweep(way: Way, control_planes: usize, workers: usize, part: usize, parts: usize) {
    sweep_parts(|| Bench::booting(way, control_planes, workers), part, parts).await;
}

/// The same on any bench: a third of it, or everything with `DAEDAL_PROOF=full`.
pub async fn sweep_of(make: impl Fn() -> Bench) {
    sweep_parts(make, 0, if is_full() { 1 } else { 3 }).await;
}

async fn sweep_parts(make: impl Fn() -> Bench, part: usize, parts: usize) {
    let whole = Killer::never();
    let bench = make();
    let nodes = bench.cluster.nodes.len();
    let boot = format!("{:?} {:?}", bench.cluster.boot.from, bench.cluster.boot.config);
    assert_done(&bench.apply_through(Effects::through(whole.clone())).await.unwrap(), "the run nobody kills");
    let effects: HashSet<Effect> = whole.seen().into_iter().collect();
    // So many a node, and what is made once for all.
    assert!(effects.len() >= 3 * nodes + 8, "{effects:#?}");
    for (effect, point) in deaths(effects).into_iter().skip(part).step_by(parts) {
        let after = format!("{boot}: death {point:?} {effect}");
        let bench = make();
        let killer = Killer::at(&effect, point);
        let ended = killer.run(bench.apply_through(Effects::through(killer.clone()))).await;
        assert!(ended.is_none(), "{after}: it went on");
        let secrets = bench.stored_secrets();
        let mut report = bench.apply().await;
        // A node that printed its key while nobody listened is let boot once more by the next run.
        if errors(&report).iter().any(|error| error.contains("has not printed its key")) {
            report = bench.apply().await;
        }
        assert_done(&report, &after);
        if secrets.is_some() {
            assert_eq!(bench.stored_secrets(), secrets, "{after}: the secrets changed");
        }
        bench.assert_converged(&after).await;
    }
}

#[tokio::test(start_paused = true)]
async fn every_death_while_creating_is_survived_1_of_4() {
    sweep_creation(3, 1, 0, 4).await;
}

#[tokio::test(start_paused = true)]
async fn every_death_while_creating_is_survived_2_of_4() {
    sweep_creation(3, 1, 1, 4).await;
}

#[tokio::test(start_paused = true)]
async fn every_death_while_creating_is_survived_3_of_4() {
    sweep_creation(3, 1, 2, 4).await;
}

#[tokio::test(start_paused = true)]
async fn every_death_while_creating_is_survived_4_of_4() {
    sweep_creation(3, 1, 3, 4).await;
}

/// A cluster of one control plane has nobody else to ask about etcd.
#[tokio::test(start_paused = true)]
async fn every_death_while_creating_a_lone_node_is_survived() {
    sweep_creation(1, 0, 0, 1).await;
}

#[tokio::test(start_paused = true)]
async fn every_death_while_destroying_is_survived() {
    sweep_destruction(Bench::created, 1).await;
}

/// Deaths while a cluster is destroyed, on any bench: a third of them, or all with `DAEDAL_PROOF=full`.
pub async fn sweep_destruction_of(make: impl Fn() -> Bench) {
    let created = async || {
        let bench = make();
        assert_done(&bench.apply().await, "apply");
        bench
    };
    sweep_destruction(created, if is_full() { 1 } else { 3 }).await;
}

async fn sweep_destruction(created: impl AsyncFn() -> Bench, parts: usize) {
    let whole = Killer::never();
    let bench = created().await;
    assert_done(&bench.destroy_through(Effects::through(whole.clone())).await.unwrap(), "destroy");
    let effects: HashSet<Effect> = whole.seen().into_iter().collect();
    assert!(effects.len() >= 4, "{effects:#?}");
    for (effect, point) in deaths(effects).into_iter().step_by(parts) {
        let after = format!("destroying: death {point:?} {effect}");
        let bench = created().await;
        let secrets = bench.stored_secrets();
        let killer = Killer::at(&effect, point);
        let ended = killer.run(bench.destroy_through(Effects::through(killer.clone()))).await;
        assert!(ended.is_none(), "{after}: it went on");
        assert_done(&bench.destroy().await, &after);
        bench.assert_destroyed(&after);
        assert_eq!(bench.stored_secrets(), secrets, "{after}: the secrets changed");
    }
}

#[tokio::test(start_paused = true)]
async fn a_death_repeats_no_call_more_than_once() {
    for nth in [6, 9, 12, 15, 18] {
        let bench = Bench::new(1, 1);
        let first = Killer::nth(nth, Point::After);
        first.run(bench.apply_through(Effects::through(first.clone()))).await;
        let second = Killer::never();
        assert_done(&bench.apply_through(Effects::through(second.clone())).await.unwrap(), "second apply");
        let mut times: HashMap<Effect, usize> = HashMap::new();
        // A node that cannot be bootstrapped yet is asked again until it can.
        let calls = first.seen().into_iter().chain(second.seen());
        for effect in calls.filter(|effect| effect.kind != EffectKind::Bootstrap) {
            *times.entry(effect).or_default() += 1;
        }
        let often: Vec<_> = times.iter().filter(|(_, times)| **times > 2).collect();
        assert!(often.is_empty(), "killed at {nth}: {often:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn three_control_planes_are_bootstrapped_once_however_often_it_was_asked() {
    for point in [Point::Before, Point::After] {
        let bench = Bench::new(3, 1);
        let killer = Killer::of_kind(EffectKind::Bootstrap, 9, point);
        killer.run(bench.apply_through(Effects::through(killer.clone()))).await;
        let after = format!("death {point:?} the ninth try ({:?})", killer.victim());
        assert_done(&bench.apply().await, &after);
        bench.assert_converged(&after).await;
    }
}

#[tokio::test(start_paused = true)]
async fn control_planes_of_an_earlier_run_are_asked_twice_before_etcd_is_bootstrapped() {
    let waited = |report: &daedal_engine::Report| {
        let step = report.steps.iter().find(|step| step.stage == "bootstrapping etcd").unwrap();
        step.end.unwrap() - step.start.unwrap()
    };
    let bench = Bench::new(3, 0);
    let killer = Killer::of_kind(EffectKind::Bootstrap, 1, Point::Before);
    let ended = killer.run(bench.apply_through(Effects::through(killer.clone()))).await;
    assert!(ended.is_none(), "it went on");
    let report = bench.apply().await;
    assert_done(&report, "second apply");
    assert!(waited(&report) >= Duration::from_secs(3), "{:?}", waited(&report));
    bench.assert_converged("second apply").await;
}
