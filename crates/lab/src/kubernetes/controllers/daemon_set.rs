//! DaemonSets: one pod on every node that takes it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::common::{self, Maker};
use super::schedule;
use super::{Task, Work};
use crate::kubernetes::deletion;
use crate::kubernetes::store::Key;

const HASH: &str = "controller-revision-hash";

type Pod = (Key, Arc<Value>);

pub(super) fn reconcile(work: &mut Work<'_>, key: &Key) {
    let Some(set) = work.store.get(key).filter(|object| !common::is_dying(object)) else { return };
    let template = &set["spec"]["template"];
    let hash = common::template_hash(template);
    let mut spec = template["spec"].clone();
    let tolerations = schedule::daemon_tolerations(spec["hostNetwork"] == true);
    let mut all = spec["tolerations"].as_array().cloned().unwrap_or_default();
    all.extend(tolerations);
    spec["tolerations"] = json!(all);

    let mut on: BTreeMap<String, Vec<Pod>> = BTreeMap::new();
    for pod in common::pods_of(work.store, &set) {
        let node = pod.1["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
        on.entry(node).or_default().push(pod);
    }
    let (nodes, _) = work.store.list("nodes", None);
    let (mut wanted, mut stray) = (Vec::new(), 0);
    for node in &nodes {
        let name = node["metadata"]["name"].as_str().unwrap_or_default();
        let takes = schedule::objection(node, &spec).is_none();
        // Who became NotReady keeps what runs on it.
        let keeps = takes || schedule::objection(&at_ease(node), &spec).is_none();
        let pods = on.remove(name).unwrap_or_default();
        match (takes, keeps) {
            (true, _) => wanted.push((name.to_owned(), pods)),
            (false, true) if !pods.is_empty() => wanted.push((name.to_owned(), pods)),
            (false, true) => {}
            (false, false) => {
                stray += pods.len();
                pods.iter().for_each(|(pod, _)| deletion::remove(work.store, pod, false, work.now));
            }
        }
    }
    on.into_values().flatten().for_each(|(pod, _)| deletion::remove(work.store, &pod, false, work.now));

    let maker = Maker {
        api_version: "apps/v1",
        kind: "DaemonSet",
        owner: &set,
        labels: vec![(HASH, hash.clone()), ("pod-template-generation", generation(&set))],
    };
    replace(work, &set, &hash, &mut wanted);
    for (node, pods) in &wanted {
        for (pod, _) in pods.iter().filter(|(_, pod)| common::has_ended(pod)) {
            deletion::remove(work.store, pod, false, work.now);
        }
        if pods.iter().any(|(_, pod)| !common::has_ended(pod)) {
            continue;
        }
        let name = common::fresh_name(work.store, &format!("{}-", key.name));
        let mut pod = maker.pod(&name);
        pod["spec"]["tolerations"] = spec["tolerations"].clone();
        pod["spec"]["nodeName"] = json!(node);
        if maker.create(work, pod, Task::DaemonSet(key.clone())).is_err() {
            break;
        }
    }
    report(work, key, &set, &hash, wanted.len(), stray);
}

fn generation(set: &Value) -> String {
    set["metadata"]["generation"].as_u64().unwrap_or(1).to_string()
}

/// The node as it is when nothing is wrong with it.
fn at_ease(node: &Value) -> Value {
    let mut node = node.clone();
    node["status"] = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    let ills = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
    if let Some(taints) = node["spec"]["taints"].as_array_mut() {
        taints.retain(|taint| !taint["key"].as_str().is_some_and(|key| ills.contains(&key)));
    }
    node
}

/// Takes away pods of an older template: those that are not Ready, and as many others as may be missing.
fn replace(work: &Work<'_>, set: &Value, hash: &str, wanted: &mut [(String, Vec<Pod>)]) {
    if set["spec"]["updateStrategy"]["type"] == "OnDelete" {
        return;
    }
    let rolling = &set["spec"]["updateStrategy"]["rollingUpdate"];
    let most = common::share(&rolling["maxUnavailable"], wanted.len() as u64, true, "1").max(1) as usize;
    let ready = |pods: &[Pod]| pods.iter().any(|(_, pod)| common::is_ready(pod));
    let old = |pod: &Value| pod["metadata"]["labels"][HASH] != hash;
    let mut missing = wanted.iter().filter(|(_, pods)| !ready(pods)).count();
    for (_, pods) in wanted {
        let is_ready = ready(pods);
        if !pods.iter().any(|(_, pod)| old(pod)) || is_ready && missing >= most {
            continue;
        }
        missing += usize::from(is_ready);
        for (pod, _) in pods.iter().filter(|(_, pod)| old(pod)) {
            deletion::remove(work.store, pod, false, work.now);
        }
        pods.retain(|(_, pod)| !old(pod));
    }
}

fn report(work: &mut Work<'_>, key: &Key, set: &Value, hash: &str, wanted: usize, stray: usize) {
    let pods = common::pods_of(work.store, set);
    let pods: Vec<&Value> = pods.iter().map(|(_, pod)| &**pod).collect();
    let updated = pods.iter().filter(|pod| pod["metadata"]["labels"][HASH] == hash).count();
    let least = set["spec"]["minReadySeconds"].as_u64().unwrap_or(0);
    let again = Task::DaemonSet(key.clone());
    let (ready, available) = common::ready_counts(work, pods.iter().copied(), least, &again);
    let mut status = json!({
        "observedGeneration": set["metadata"]["generation"], "desiredNumberScheduled": wanted,
        "currentNumberScheduled": pods.len(), "numberMisscheduled": stray, "numberReady": ready,
        "updatedNumberScheduled": updated, "numberAvailable": available,
        "numberUnavailable": wanted.saturating_sub(available),
    });
    common::without_zeros(&mut status, &["updatedNumberScheduled", "numberAvailable", "numberUnavailable"]);
    common::set_status(work, key, set, &status);
}
