//! The declared machine configs change under running nodes.

use std::collections::{BTreeMap, HashSet};

use daedal_engine::{Effect, EffectKind, Effects, Run};
use daedal_inventory::Cluster;
use daedal_planner::{Action, ConfigView, Impact, Plan, plan_apply};
use daedal_words::Told as _;

use crate::breadth::deaths;
use crate::support::{Bench, Killer, assert_done, cluster_with, errors};

/// Takes effect at once.
pub const LIVE: &str = "machine: {sysctls: {vm.max_map_count: '262144'}, nodeLabels: {rack: a}}";
/// A node has to reboot for it.
pub const REBOOT: &str = "machine: {udev: {rules: ['SUBSYSTEM==\"drm\"']}}";

/// The inventory of a bench with a patch for all nodes.
pub fn changed(control_planes: usize, workers: usize, patch: &str) -> Cluster {
    let patch = serde_json::to_string(patch).unwrap();
    cluster_with(control_planes, workers, &format!("  patches: [{{inline: {patch}}}]\n"))
}

/// Nodes in the order in which they get their config, and what the plan says of each.
fn configs(plan: &Plan) -> Vec<(String, bool, Impact)> {
    let steps = plan.steps.iter();
    steps
        .filter_map(|step| match &step.action {
            Action::ApplyConfig { reboot, .. } => Some((step.node.clone().unwrap(), *reboot, step.impact)),
            _ => None,
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_change_without_a_reboot_is_told_field_by_field_and_carried_out() {
    let mut bench = Bench::created_large().await;
    bench.cluster = changed(3, 2, LIVE);
    let plan = bench.look().await.1.unwrap();
    let names = ["cp-1", "cp-2", "cp-3", "worker-1", "worker-2"];
    let expected: Vec<_> = names.iter().map(|name| ((*name).to_owned(), false, Impact::None)).collect();
    assert_eq!(configs(&plan), expected);
    let told = daedal_words::render(&plan, Default::default());
    assert!(told.contains("+ machine.sysctls.\"vm.max_map_count\": 262144"), "{told}");
    assert!(told.contains("the same changes as worker-1"), "{told}");
    assert!(!told.contains("sensitive"), "{told}");

    let gate = Killer::never();
    let report = bench.apply_through(Effects::through(gate.clone())).await.unwrap();
    assert_done(&report, "change");
    let seen: Vec<EffectKind> = gate.seen().iter().map(|effect| effect.kind).collect();
    assert!(!seen.contains(&EffectKind::StopVm) && !seen.contains(&EffectKind::StartVm), "{seen:?}");
    assert_eq!(seen.iter().filter(|kind| **kind == EffectKind::ApplyConfig).count(), 5);
    let span = |node: &str| {
        let step = report
            .steps
            .iter()
            .find(|step| step.node.as_deref() == Some(node) && step.stage == "changing its config")
            .unwrap();
        (step.start.unwrap(), step.end.unwrap())
    };
    for pair in names[..3].windows(2) {
        assert!(span(pair[1]).0 >= span(pair[0]).1, "one control plane at a time");
    }
    bench.assert_converged("change").await;
    let (world, _) = bench.look().await;
    assert!(world.nodes.values().all(|view| view.config == ConfigView::AsDeclared), "{:#?}", world.nodes);
}

/// Mission: M21
#[tokio::test(start_paused = true)]
async fn a_change_that_needs_a_reboot_says_so_and_keeps_the_quorum() {
    let mut bench = Bench::created_large().await;
    bench.cluster = changed(3, 2, REBOOT);
    let plan = bench.look().await.1.unwrap();
    assert_eq!(configs(&plan).len(), 5);
    assert!(configs(&plan).iter().all(|(_, reboot, impact)| *reboot && *impact == Impact::Restart));
    assert_eq!((plan.quorum.before, plan.quorum.lowest), (3, 2));
    assert!(daedal_words::render(&plan, Default::default()).contains("has to reboot"));
    let report = bench.apply().await;
    assert_done(&report, "change");
    let mut spans: Vec<_> = report
        .steps
        .iter()
        .filter(|step| step.stage == "changing its config")
        .map(|step| (step.start.unwrap(), step.end.unwrap()))
        .collect();
    spans.sort();
    assert!(spans.windows(2).all(|pair| pair[1].0 >= pair[0].1), "one node at a time: {spans:?}");
    // What Kubernetes remembers of a node from before its reboot is not that it is Ready again.
    let of = |node: &str, stage| {
        let mut steps = report.steps.iter();
        steps.find(|step| step.node.as_deref() == Some(node) && step.stage == stage).unwrap().end.unwrap()
    };
    for node in ["worker-1", "worker-2"] {
        let (changed, ready) = (of(node, "changing its config"), of(node, "becoming Ready"));
        assert!(ready > changed, "{node} was changed at {changed:?} and Ready at {ready:?}");
    }
    let (world, _) = bench.look().await;
    assert!(world.nodes.values().all(|view| view.ready == Some(true)), "{:#?}", world.nodes);
    bench.assert_converged("change").await;
}

#[tokio::test(start_paused = true)]
async fn what_must_not_change_on_a_running_node_is_left_and_named() {
    for (patch, word) in [
        ("machine: {install: {disk: /dev/vda}}", "install disk"),
        ("cluster: {apiServer: {image: registry.k8s.io/kube-apiserver:v1.35.9}}", "upgrade"),
        ("machine: {token: abcdef.0123456789abcdef}", "which says what cluster"),
        ("machine: {kubelet: {image: ghcr.io/siderolabs/kubelet:v1.34.0}}", "upgrade"),
    ] {
        let mut bench = Bench::created().await;
        bench.cluster = changed(1, 1, patch);
        let (world, plan) = bench.look().await;
        let plan = plan.unwrap();
        assert_eq!(configs(&plan), [], "{patch}: {:#?}", world.nodes);
        let note = plan.notes.iter().find(|note| note.about().starts_with("cp-1"));
        let note = note.unwrap_or_else(|| panic!("{patch}"));
        assert!(note.text().contains(word), "{patch}: {}", note.text());
        assert!(!note.text().contains("abcdef.0123456789abcdef"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_address_is_declared_anew_is_left_and_named() {
    let mut bench = Bench::created().await;
    let worker = bench.cluster.nodes.iter_mut().find(|node| node.name == "worker-1").unwrap();
    let before = worker.address.replace("10.0.0.77/24".parse().unwrap()).unwrap().addr();
    let plan = bench.look().await.1.unwrap();
    let about: Vec<_> = plan.steps.iter().filter(|step| step.node.is_some()).collect();
    assert!(about.is_empty(), "{about:#?}");
    let note = plan.notes.iter().find(|note| note.about() == "worker-1").unwrap();
    assert!(
        note.text().contains(&format!("Ready at {before}")) && note.text().contains("10.0.0.77"),
        "{note:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_config_that_changed_meanwhile_is_not_overwritten() {
    let mut bench = Bench::created().await;
    let theirs = changed(1, 1, "machine: {sysctls: {net.core.somaxconn: '4096'}}");
    bench.cluster = changed(1, 1, LIVE);
    let engine = bench.engine();
    let world = engine.observe(&bench.cluster).await.unwrap();
    let plan = plan_apply(&bench.cluster, &engine.images(&bench.cluster), &world).unwrap();
    assert_eq!(configs(&plan).len(), 2);
    let ours = std::mem::replace(&mut bench.cluster, theirs);
    assert_done(&bench.apply().await, "somebody else");
    bench.cluster = ours;
    let report = engine.execute(&bench.cluster, &world, &plan, &Run::silent()).await.unwrap();
    let failed = errors(&report).join("\n");
    assert!(failed.contains("runs on another config than when the plan was made"), "{failed}");
    assert_done(&bench.apply().await, "a new plan");
    bench.assert_converged("a new plan").await;
}

/// Every config that a process makes, it makes once: for its verdict on the inventory, its look, its steps and its outputs.
#[tokio::test(start_paused = true)]
async fn a_config_is_made_once_per_run_node_and_version() {
    let mut bench = Bench::new(3, 2);
    let apply = async |bench: &Bench| {
        let engine = bench.engine();
        assert_eq!(engine.vet(&bench.cluster).await.unwrap(), []);
        let world = engine.observe(&bench.cluster).await.unwrap();
        let plan = plan_apply(&bench.cluster, &engine.images(&bench.cluster), &world).unwrap();
        assert_done(&engine.execute(&bench.cluster, &world, &plan, &Run::silent()).await.unwrap(), "apply");
        (plan, engine.config_generations())
    };
    let once = |bench: &Bench, versions: &str| -> BTreeMap<(String, String), usize> {
        bench.cluster.nodes.iter().map(|node| ((node.name.clone(), versions.to_owned()), 1)).collect()
    };
    let versions = "Talos v1.12.0, Kubernetes v1.35.0";
    let (_, made) = apply(&bench).await;
    assert_eq!(made, once(&bench, versions), "created");
    let (plan, made) = apply(&bench).await;
    assert!(plan.is_empty());
    assert_eq!(made, once(&bench, versions), "nothing to do");
    bench.cluster = changed(3, 2, LIVE);
    let (plan, made) = apply(&bench).await;
    assert_eq!(configs(&plan).len(), 5);
    assert_eq!(made, once(&bench, versions), "changed");
    // Nodes that run another version are compared with what is declared for that.
    bench.cluster.talos.version = "1.12.1".parse().unwrap();
    let (_, made) = apply(&bench).await;
    let mut both = once(&bench, versions);
    both.extend(once(&bench, "Talos v1.12.1, Kubernetes v1.35.0"));
    assert_eq!(made, both, "behind");
}

/// Death at every point that is this change's own: the others are those of every run.
async fn sweep_deaths(bench: impl AsyncFn() -> Bench, cluster: Cluster, kinds: &[EffectKind]) {
    let whole = Killer::never();
    let mut first = bench().await;
    first.cluster = cluster.clone();
    assert_done(&first.apply_through(Effects::through(whole.clone())).await.unwrap(), "change");
    let effects: HashSet<Effect> =
        whole.seen().into_iter().filter(|effect| kinds.contains(&effect.kind)).collect();
    assert_eq!(effects.len(), kinds.len() * cluster.nodes.len(), "{effects:#?}");
    for (effect, point) in deaths(effects) {
        let after = format!("death {point:?} {effect}");
        let mut bench = bench().await;
        bench.cluster = cluster.clone();
        let killer = Killer::at(&effect, point);
        let ended = killer.run(bench.apply_through(Effects::through(killer.clone()))).await;
        assert!(ended.is_none(), "{after}: it went on");
        assert_done(&bench.apply().await, &after);
        // One that was just rebooting could not be asked.
        assert_done(&bench.apply().await, &after);
        bench.assert_converged(&after).await;
    }
}

#[tokio::test(start_paused = true)]
async fn every_death_while_changing_configs_is_survived() {
    let kinds = [EffectKind::ApplyConfig, EffectKind::UpdateVm];
    sweep_deaths(Bench::created, changed(1, 1, LIVE), &kinds).await;
}

#[tokio::test(start_paused = true)]
async fn every_death_while_nodes_reboot_for_their_config_is_survived() {
    sweep_deaths(Bench::created_large, changed(3, 2, REBOOT), &[EffectKind::ApplyConfig]).await;
}
