//! Add-ons: installed, kept as declared, taken from nobody, pruned; and after every death again.

use std::collections::HashSet;
use std::time::Duration;

use daedal_engine::{Effect, EffectKind, Effects};
use daedal_inventory::{Addon, AddonSource, AddonText, ManifestSource};
use daedal_planner::{Action, Advice, ObjectChange, Phase, Plan, plan_phase};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, Service};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};

use crate::breadth::deaths;
use crate::support::{Bench, Killer, assert_done, errors};

const POLICIES: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: rules}
data: {mode: strict, level: '3'}
---
apiVersion: v1
kind: Service
metadata: {name: gate}
spec: {selector: {app: gate}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Secret
metadata: {name: key}
stringData: {password: hush}
";

const CUSTOM: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gates.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {plural: gates, singular: gate, kind: Gate}
  versions:
    - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
apiVersion: example.org/v1
kind: Gate
metadata: {name: north}
spec: {open: true}
";

/// An add-on of manifests in a namespace of its own.
fn addon(name: &str, text: &str) -> Addon {
    let text = AddonText { origin: format!("{name}.yaml"), text: text.to_owned() };
    Addon {
        name: name.to_owned(),
        entry: None,
        namespace: format!("{name}-system"),
        source: AddonSource::Manifests(vec![ManifestSource::Text(text)]),
        values: Vec::new(),
        secret_values: std::collections::BTreeMap::new(),
        kept_values: std::collections::BTreeMap::new(),
        extra: Vec::new(),
        pod_security: None,
        policies: None,
        network: false,
        after: Vec::new(),
        wait: true,
        timeout: 300,
        force: false,
    }
}

/// A running cluster that is to get these.
async fn bench_with(addons: Vec<Addon>) -> Bench {
    let mut bench = Bench::created().await;
    bench.cluster.addons = addons;
    bench
}

/// A running cluster that has the policies.
async fn with_policies() -> Bench {
    let bench = bench_with(vec![addon("policies", POLICIES)]).await;
    assert_done(&bench.apply().await, "apply");
    bench.assert_converged("apply").await;
    bench
}

async fn planned(bench: &Bench) -> Plan {
    bench.look().await.1.unwrap()
}

async fn client(bench: &Bench) -> kube::Client {
    tokio::time::sleep(Duration::from_secs(15)).await;
    bench.engine().kubernetes(&bench.cluster).await.unwrap()
}

async fn rules(bench: &Bench) -> Api<ConfigMap> {
    Api::namespaced(client(bench).await, "policies-system")
}

async fn mode(bench: &Bench) -> String {
    rules(bench).await.get("rules").await.unwrap().data.unwrap()["mode"].clone()
}

/// Somebody else's field.
async fn edited(bench: &Bench, manager: &str, mode: &str) {
    let patch = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "rules"}, "data": {"mode": mode}});
    let params = PatchParams { force: true, ..PatchParams::apply(manager) };
    rules(bench).await.patch("rules", &params, &Patch::Apply(patch)).await.unwrap();
}

/// What becomes of which object.
fn changes(plan: &Plan) -> Vec<(String, String)> {
    let words = |change: &ObjectChange| match change {
        ObjectChange::Create => "create".to_owned(),
        ObjectChange::Ensure => "ensure".to_owned(),
        ObjectChange::Change { fields, .. } => {
            let field = |one: &daedal_planner::FieldChange| {
                let or = |value: &Option<String>| value.clone().unwrap_or_default();
                format!("{} {}→{}", one.path, or(&one.from), or(&one.to))
            };
            fields.iter().map(field).collect::<Vec<_>>().join(", ")
        }
    };
    let mut all = Vec::new();
    for step in &plan.steps {
        match &step.action {
            Action::ApplyAddon { objects, .. } => {
                all.extend(objects.iter().map(|one| (one.id.to_string(), words(&one.change))));
            }
            Action::PruneAddon { objects, .. } => {
                all.extend(objects.iter().map(|id| (id.to_string(), "remove".to_owned())));
            }
            _ => {}
        }
    }
    all
}

fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(id, what)| ((*id).to_owned(), (*what).to_owned())).collect()
}

#[tokio::test(start_paused = true)]
async fn an_addon_is_planned_object_by_object_and_the_second_plan_is_empty() {
    let bench = bench_with(vec![addon("policies", POLICIES)]).await;
    let plan = planned(&bench).await;
    assert_eq!(
        changes(&plan),
        pairs(&[
            ("Namespace policies-system", "create"),
            ("ConfigMap policies-system/rules", "create"),
            ("Secret policies-system/key", "create"),
            ("Service policies-system/gate", "create"),
        ])
    );
    let json = serde_json::to_string(&plan).unwrap();
    assert!(!json.contains("hush") && !json.contains("aHVzaA"), "a saved plan holds no secrets");
    assert_done(&bench.apply().await, "apply");
    assert_eq!(mode(&bench).await, "strict");
    bench.assert_converged("apply").await;
}

#[tokio::test(start_paused = true)]
async fn a_new_cluster_gets_definitions_and_what_they_define_in_one_run() {
    let mut bench = Bench::new(1, 1);
    bench.cluster.addons = vec![addon("policies", POLICIES), addon("gates", CUSTOM)];
    let plan = planned(&bench).await;
    let made = changes(&plan);
    assert!(made.contains(&("Gate gates-system/north".to_owned(), "create".to_owned())), "{made:#?}");
    assert!(made.iter().all(|(_, what)| what == "create"), "{made:#?}");
    assert_done(&bench.apply().await, "apply");
    bench.assert_converged("apply").await;
}

#[tokio::test(start_paused = true)]
async fn what_somebody_changes_or_deletes_is_shown_and_mended() {
    let bench = with_policies().await;
    let patch = serde_json::json!({"data": {"level": "9"}});
    // kubectl edit takes the field from us.
    let by_hand = PatchParams { field_manager: Some("kubectl-edit".to_owned()), ..PatchParams::default() };
    rules(&bench).await.patch("rules", &by_hand, &Patch::Merge(patch)).await.unwrap();
    let services: Api<Service> = Api::namespaced(client(&bench).await, "policies-system");
    services.delete("gate", &DeleteParams::default()).await.unwrap();
    let plan = planned(&bench).await;
    let wanted =
        [("ConfigMap policies-system/rules", "data.level 9→3"), ("Service policies-system/gate", "create")];
    assert_eq!(changes(&plan), pairs(&wanted));
    assert_done(&bench.apply().await, "mend");
    services.get("gate").await.unwrap();
    bench.assert_converged("mend").await;
}

#[tokio::test(start_paused = true)]
async fn a_conflict_names_the_other_manager_and_takes_nothing_unless_forced() {
    let mut bench = with_policies().await;
    edited(&bench, "guard-operator", "lax").await;
    let plan = planned(&bench).await;
    let conflict = plan.notes.iter().find_map(|note| match &note.advice {
        Advice::AddonConflict { object, conflicts, .. } => Some((object.clone(), conflicts.clone())),
        _ => None,
    });
    let (object, conflicts) = conflict.unwrap_or_else(|| panic!("no conflict: {:#?}", plan.notes));
    assert_eq!(object, "ConfigMap policies-system/rules");
    assert_eq!((conflicts[0].manager.as_str(), conflicts[0].field.as_str()), ("guard-operator", "data.mode"));
    assert!(changes(&plan).is_empty(), "{:#?}", plan.steps);
    assert_eq!(mode(&bench).await, "lax");
    bench.cluster.addons[0].force = true;
    let plan = planned(&bench).await;
    assert_eq!(changes(&plan).len(), 1, "{:#?}", plan.steps);
    assert_done(&bench.apply().await, "forced");
    assert_eq!(mode(&bench).await, "strict");
    bench.assert_converged("forced").await;
}

#[tokio::test(start_paused = true)]
async fn what_an_addon_no_longer_has_goes_and_its_namespace_stays() {
    let mut bench = with_policies().await;
    let fewer = POLICIES.split("---").next().unwrap().to_owned();
    bench.cluster.addons = vec![addon("policies", &fewer)];
    let plan = planned(&bench).await;
    let gone = [("Secret policies-system/key", "remove"), ("Service policies-system/gate", "remove")];
    assert_eq!(changes(&plan), pairs(&gone));
    assert_done(&bench.apply().await, "prune");
    bench.assert_converged("prune").await;
    bench.cluster.addons.clear();
    let plan = planned(&bench).await;
    assert_eq!(changes(&plan), pairs(&[("ConfigMap policies-system/rules", "remove")]));
    assert_done(&bench.apply().await, "remove");
    bench.assert_converged("remove").await;
    let client = client(&bench).await;
    let secrets = Api::<Secret>::namespaced(client.clone(), "kube-system");
    let records = secrets.list(&ListParams::default().labels("daedal.dev/addon")).await.unwrap();
    assert_eq!(records.items.len(), 0);
    Api::<Namespace>::all(client).get("policies-system").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn definitions_are_never_pruned_and_it_is_said() {
    let mut bench = bench_with(vec![addon("gates", CUSTOM)]).await;
    assert_done(&bench.apply().await, "apply");
    bench.cluster.addons.clear();
    let plan = planned(&bench).await;
    assert_eq!(changes(&plan), pairs(&[("Gate gates-system/north", "remove")]));
    let stays = plan.notes.iter().any(|note| {
        matches!(&note.advice, Advice::AddonObjectsStay { objects, .. } if objects[0].contains("gates.example.org"))
    });
    assert!(stays, "{:#?}", plan.notes);
    assert_done(&bench.apply().await, "remove");
    bench.assert_converged("remove").await;
}

#[tokio::test(start_paused = true)]
async fn what_flux_looks_after_is_left_alone() {
    let bench = with_policies().await;
    let labels = serde_json::json!({"metadata": {"labels": {
        "kustomize.toolkit.fluxcd.io/name": "apps", "kustomize.toolkit.fluxcd.io/namespace": "flux-system",
    }}, "data": {"mode": "flux"}});
    rules(&bench).await.patch("rules", &PatchParams::default(), &Patch::Merge(labels)).await.unwrap();
    let plan = planned(&bench).await;
    assert!(plan.is_empty(), "{:#?}", plan.steps);
    let owned = plan.notes.iter().any(|note| matches!(&note.advice, Advice::AddonOwned { .. }));
    assert!(owned, "{:#?}", plan.notes);
    assert_eq!(mode(&bench).await, "flux");
}

#[tokio::test(start_paused = true)]
async fn an_addon_waits_for_the_ones_that_it_names() {
    let mut second = addon("second", POLICIES);
    second.after = vec!["gates".to_owned()];
    let bench = bench_with(vec![second, addon("gates", CUSTOM)]).await;
    let plan = planned(&bench).await;
    let at = |name: &str| {
        let first =
            plan.steps.iter().find(|step| step.action.addon().is_some_and(|(addon, _)| addon == name));
        first.unwrap().id
    };
    assert!(at("gates") < at("second"), "{:#?}", plan.steps);
    let report = bench.apply().await;
    assert_done(&report, "apply");
    let of = |name: &'static str| report.steps.iter().filter(move |step| step.addon.as_deref() == Some(name));
    let ended = of("gates").filter_map(|step| step.end).max().unwrap();
    assert!(of("second").all(|step| step.start.unwrap() >= ended), "{:#?}", report.steps);
}

/// The pod network comes before any node is awaited, the rest after all of them.
#[tokio::test(start_paused = true)]
async fn the_network_comes_before_the_nodes_are_ready_and_the_rest_after() {
    let mut network = addon("net", POLICIES);
    network.network = true;
    let mut bench = Bench::new(1, 1);
    bench.cluster.addons = vec![addon("gates", CUSTOM), network];
    let plan = planned(&bench).await;
    let ready: Vec<u32> =
        plan.steps.iter().filter(|step| step.action == Action::AwaitReady).map(|step| step.id).collect();
    assert_eq!(ready.len(), 2);
    let of = |name: &str| -> Vec<u32> {
        let its = plan
            .steps
            .iter()
            .filter(|step| matches!(&step.action, Action::ApplyAddon { addon, .. } if addon == name));
        its.map(|step| step.id).collect()
    };
    assert!(of("net").iter().all(|id| ready.iter().all(|ready| id < ready)), "{:#?}", plan.steps);
    assert!(of("gates").iter().all(|id| ready.iter().all(|ready| id > ready)), "{:#?}", plan.steps);
    assert_done(&bench.apply().await, "apply");
    bench.assert_converged("apply").await;
}

#[tokio::test(start_paused = true)]
async fn add_ons_are_a_phase_of_their_own() {
    let bench = bench_with(vec![addon("policies", POLICIES)]).await;
    let engine = bench.engine();
    let world = engine.observe(&bench.cluster).await.unwrap();
    let images = engine.images(&bench.cluster);
    let earlier = plan_phase(&bench.cluster, &images, &world, Phase::Bootstrap).unwrap();
    assert!(earlier.steps.iter().all(|step| step.action.addon().is_none()), "{:#?}", earlier.steps);
    let plan = plan_phase(&bench.cluster, &images, &world, Phase::Addons).unwrap();
    assert_eq!(changes(&plan).len(), 4);
    assert_done(&bench.execute(&world, &plan).await, "addons");
    bench.assert_converged("addons").await;
}

#[tokio::test(start_paused = true)]
async fn where_kubernetes_is_silent_nothing_is_claimed_of_add_ons() {
    let bench = with_policies().await;
    let engine = bench.engine();
    let mut world = engine.observe(&bench.cluster).await.unwrap();
    // The API server answered a moment ago, and not this time.
    if let Some(addons) = &mut world.addons {
        addons.told = false;
    }
    let plan = daedal_planner::plan_apply(&bench.cluster, &engine.images(&bench.cluster), &world).unwrap();
    assert!(plan.is_empty(), "{:#?}", plan.steps);
    assert!(plan.unseen && plan.not_seen.contains(&"add-ons".to_owned()), "{:?}", plan.not_seen);
    assert!(!plan.finds_all_as_declared());
}

/// Death before and after every effect of a run that installs, changes and prunes.
#[tokio::test(start_paused = true)]
async fn every_death_while_applying_add_ons_is_survived() {
    async fn bench() -> Bench {
        let mut bench = with_policies().await;
        let changed = POLICIES.replace("strict", "loose").replace("name: key", "name: other");
        bench.cluster.addons = vec![addon("policies", &changed), addon("gates", CUSTOM)];
        bench
    }
    let whole = Killer::never();
    let first = bench().await;
    assert_done(&first.apply_through(Effects::through(whole.clone())).await.unwrap(), "the run nobody kills");
    let effects: HashSet<Effect> = whole.seen().into_iter().collect();
    let kinds: HashSet<EffectKind> = effects.iter().map(|effect| effect.kind).collect();
    for kind in [EffectKind::RecordAddon, EffectKind::ApplyObject, EffectKind::DeleteObject] {
        assert!(kinds.contains(&kind), "{effects:#?}");
    }
    for (effect, point) in deaths(effects) {
        let after = format!("death {point:?} {effect}");
        let bench = bench().await;
        let killer = Killer::at(&effect, point);
        let ended = killer.run(bench.apply_through(Effects::through(killer.clone()))).await;
        assert!(ended.is_none(), "{after}: it went on");
        let report = bench.apply().await;
        assert!(errors(&report).is_empty(), "{after}: {:?}", errors(&report));
        bench.assert_converged(&after).await;
        assert_eq!(mode(&bench).await, "loose", "{after}");
    }
}
