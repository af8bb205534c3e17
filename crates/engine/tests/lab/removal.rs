//! Nodes that are no longer declared are taken out: gracefully, one at a time, and after every death again.

use std::collections::HashSet;
use std::time::Duration;

use daedal_engine::{Effect, EffectKind, Effects, Error, Report, Run};
use daedal_inventory::Cluster;
use daedal_planner::{Level, Note, Plan, Removal, World, plan_remove};
use daedal_words::Told as _;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, ListParams, PostParams};
use serde::de::DeserializeOwned;

use crate::breadth::deaths;
use crate::support::{Bench, Killer, assert_done, cluster, errors};

const GOING: [&str; 3] = ["cp-2", "cp-3", "worker-2"];

/// The large bench, of whose inventory one control plane and one worker are left.
async fn smaller() -> Bench {
    let mut bench = Bench::created_large().await;
    bench.cluster = cluster(1, 1);
    bench
}

pub(crate) async fn planned(bench: &Bench, cluster: &Cluster, names: &[&str]) -> (World, Plan) {
    let world = bench.engine().observe(cluster).await.unwrap();
    let nodes: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let plan = plan_remove(cluster, &world, &Removal { nodes: &nodes, drain: true }).unwrap();
    (world, plan)
}

pub(crate) async fn remove_through(bench: &Bench, names: &[&str], effects: Effects) -> Result<Report, Error> {
    let (world, plan) = planned(bench, &bench.cluster, names).await;
    // A name that an earlier run took out is nobody's any more, and the rest goes on.
    let problem =
        |note: &&Note| note.level == Level::Problem && !note.text().starts_with("There is no such node");
    let problems: Vec<_> = plan.notes.iter().filter(problem).collect();
    assert!(problems.is_empty(), "{problems:#?}\n{:#?}\n{:#?}", world.members, world.former);
    bench.engine_through(effects).execute(&bench.cluster, &world, &plan, &Run::silent()).await
}

pub(crate) async fn remove(bench: &Bench, names: &[&str]) -> Report {
    remove_through(bench, names, Effects::default()).await.unwrap()
}

pub(crate) async fn kubernetes<K>(bench: &Bench) -> Api<K>
where
    K: k8s_openapi::Metadata + kube::Resource<DynamicType = ()>,
{
    // Whoever had the shared address may be gone.
    tokio::time::sleep(Duration::from_secs(15)).await;
    Api::all(bench.engine().kubernetes(&bench.cluster).await.unwrap())
}

pub(crate) async fn node_names(bench: &Bench) -> Vec<String> {
    let list = kubernetes::<Node>(bench).await.list(&ListParams::default()).await.unwrap();
    list.items.into_iter().filter_map(|node| node.metadata.name).collect()
}

async fn create<K>(bench: &Bench, object: serde_json::Value)
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + DeserializeOwned
        + serde::Serialize
        + Clone
        + std::fmt::Debug,
{
    let api: Api<Node> = kubernetes(bench).await;
    let api: Api<K> = Api::namespaced(api.into_client(), "default");
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

pub(crate) async fn pod_on(bench: &Bench, name: &str, node: &str) {
    let pod = serde_json::json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
        "spec": {"nodeName": node, "containers": [{"name": "web", "image": "web:1"}]},
        "status": {"phase": "Running"},
    });
    create::<Pod>(bench, pod).await;
}

/// What is declared is there, and nothing of what was removed.
async fn assert_removed(bench: &Bench, after: &str) {
    let (world, plan) = planned(bench, &bench.cluster, &GOING).await;
    assert!(plan.is_empty(), "{after}: {:#?}", plan.steps);
    assert_eq!(world.members.len(), 1, "{after}: {:?}", world.members);
    assert_eq!(node_names(bench).await, ["cp-1", "worker-1"], "{after}");
    let vms: Vec<String> = bench.vms().into_iter().map(|vm| vm.2).collect();
    assert_eq!(vms, ["cp-1", "worker-1"], "{after}");
    bench.assert_no_orphans(after);
}

/// Mission: M21
#[tokio::test(start_paused = true)]
async fn nodes_that_are_no_longer_declared_leave_without_a_trace() {
    let bench = smaller().await;
    pod_on(&bench, "web-1", "worker-2").await;
    let watcher = Killer::never();
    let report = remove_through(&bench, &GOING, Effects::through(watcher.clone())).await.unwrap();
    assert_done(&report, "remove");
    let kinds = |kind: EffectKind| watcher.seen().iter().filter(|effect| effect.kind == kind).count();
    assert_eq!((kinds(EffectKind::LeaveEtcd), kinds(EffectKind::RemoveMember)), (2, 0));
    // Static pods and those of daemon sets end with their node.
    assert_eq!(kinds(EffectKind::EvictPod), 1, "{:?}", watcher.seen());
    assert_removed(&bench, "remove").await;
    assert_done(&remove(&bench, &GOING).await, "nothing is left");
    assert_done(&bench.apply().await, "apply");
    bench.assert_converged("apply").await;
}

async fn sweep(part: usize, parts: usize) {
    let whole = Killer::never();
    let report = remove_through(&smaller().await, &GOING, Effects::through(whole.clone())).await.unwrap();
    assert_done(&report, "the run nobody kills");
    let effects: HashSet<Effect> = whole.seen().into_iter().collect();
    assert!(effects.len() >= 3 * 4 + 2, "{effects:#?}");
    for (effect, point) in deaths(effects).into_iter().skip(part).step_by(parts) {
        let after = format!("death {point:?} {effect}");
        let bench = smaller().await;
        let killer = Killer::at(&effect, point);
        let ended = killer.run(remove_through(&bench, &GOING, Effects::through(killer.clone()))).await;
        assert!(ended.is_none(), "{after}: it went on");
        assert_done(&remove(&bench, &GOING).await, &after);
        assert_removed(&bench, &after).await;
    }
}

/// Mission: M21
#[tokio::test(start_paused = true)]
async fn every_death_while_removing_is_survived_1_of_2() {
    sweep(0, 2).await;
}

#[tokio::test(start_paused = true)]
async fn every_death_while_removing_is_survived_2_of_2() {
    sweep(1, 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_control_plane_is_taken_out_by_another() {
    let mut bench = Bench::created_large().await;
    let host = bench.look().await.0.guests[&302].host.clone();
    let proxmox = crate::strangers::proxmox(&bench);
    proxmox.stop_vm(&host, 302).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    bench.cluster = cluster(1, 2);
    // The other one cannot go while this one is dead: two of three would be one.
    let (_, plan) = planned(&bench, &bench.cluster, &["cp-2"]).await;
    assert!(
        plan.is_empty() && plan.notes.iter().any(|note| note.text().contains("cp-3 does not serve")),
        "{:?}",
        plan.notes
    );
    let watcher = Killer::never();
    let report = remove_through(&bench, &["cp-3"], Effects::through(watcher.clone())).await.unwrap();
    assert_done(&report, "the dead one");
    assert!(watcher.seen().iter().any(|effect| effect.kind == EffectKind::RemoveMember));
    assert_done(&remove(&bench, &["cp-2"]).await, "the other one");
    assert_eq!(node_names(&bench).await, ["cp-1", "worker-1", "worker-2"]);
    assert_done(&bench.apply().await, "apply");
    bench.assert_converged("both").await;
}

#[tokio::test(start_paused = true)]
async fn a_disruption_budget_is_kept_and_said() {
    let mut bench = Bench::created_large().await;
    bench.cluster = cluster(3, 1);
    pod_on(&bench, "web-1", "worker-2").await;
    let budget = serde_json::json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    });
    create::<PodDisruptionBudget>(&bench, budget).await;
    let report = remove(&bench, &["worker-2"]).await;
    let told = errors(&report).join("\n");
    assert!(told.contains("default/web-1 may not go yet") && told.contains("disruption budget"), "{told}");
    assert!(bench.vms().iter().any(|vm| vm.2 == "worker-2" && vm.3), "{:?}", bench.vms());
    // Another one elsewhere, and it may go.
    pod_on(&bench, "web-2", "worker-1").await;
    assert_done(&remove(&bench, &["worker-2"]).await, "with another pod");
    assert!(bench.vms().iter().all(|vm| vm.2 != "worker-2"), "{:?}", bench.vms());
}

/// The world may change between a plan and its execution: then nothing is taken that etcd still needs.
#[tokio::test(start_paused = true)]
async fn a_quorum_that_is_lost_meanwhile_keeps_the_member() {
    let mut bench = Bench::created_large().await;
    bench.cluster = cluster(1, 2);
    let (world, plan) = planned(&bench, &bench.cluster, &["cp-2"]).await;
    let host = world.guests[&302].host.clone();
    crate::strangers::proxmox(&bench).stop_vm(&host, 302).await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let report = bench.engine().execute(&bench.cluster, &world, &plan, &Run::silent()).await.unwrap();
    let told = errors(&report).join("\n");
    assert!(told.contains("member cp-3 does not serve"), "{told}");
    assert!(bench.vms().iter().any(|vm| vm.2 == "cp-2" && vm.3), "{:?}", bench.vms());
    let (world, _) = bench.look().await;
    assert_eq!(world.members.len(), 3, "{:?}", world.members);
}
