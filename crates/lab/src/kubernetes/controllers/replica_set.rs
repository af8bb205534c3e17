//! ReplicaSets: as many pods as are asked for.

use std::sync::Arc;

use serde_json::{Value, json};

use super::common::{self, Maker};
use super::{Task, Work};
use crate::kubernetes::deletion;
use crate::kubernetes::store::Key;

pub(super) fn reconcile(work: &mut Work<'_>, key: &Key) {
    let Some(set) = work.store.get(key).filter(|set| !common::is_dying(set)) else { return };
    let mut pods = common::pods_of(work.store, &set);
    pods.retain(|(_, pod)| !common::has_ended(pod));
    let wanted = set["spec"]["replicas"].as_u64().unwrap_or(1) as usize;
    let mut failure = None;
    if pods.len() < wanted {
        failure = create(work, key, &set, wanted - pods.len());
    } else if pods.len() > wanted {
        // Who is of least use goes first.
        pods.sort_by_key(|(key, pod)| {
            let placed = pod["spec"]["nodeName"].is_string();
            (placed, common::is_ready(pod), std::cmp::Reverse(key.name.clone()))
        });
        for (pod, _) in pods.iter().take(pods.len() - wanted) {
            deletion::remove(work.store, pod, false, work.now);
        }
    }
    report(work, key, &set, failure.as_deref());
}

fn create(work: &mut Work<'_>, key: &Key, set: &Arc<Value>, count: usize) -> Option<String> {
    let maker = Maker { api_version: "apps/v1", kind: "ReplicaSet", owner: set, labels: Vec::new() };
    for _ in 0..count {
        let name = common::fresh_name(work.store, &format!("{}-", key.name));
        let pod = maker.pod(&name);
        if let Err(refused) = maker.create(work, pod, Task::ReplicaSet(key.clone())) {
            return Some(refused);
        }
    }
    None
}

fn report(work: &mut Work<'_>, key: &Key, set: &Value, failure: Option<&str>) {
    let pods = common::pods_of(work.store, set);
    let pods: Vec<&Value> =
        pods.iter().map(|(_, pod)| &**pod).filter(|pod| !common::has_ended(pod)).collect();
    let least = set["spec"]["minReadySeconds"].as_u64().unwrap_or(0);
    let again = Task::ReplicaSet(key.clone());
    let (ready, available) = common::ready_counts(work, pods.iter().copied(), least, &again);
    let mut status = json!({
        "observedGeneration": set["metadata"]["generation"], "replicas": pods.len(),
        "fullyLabeledReplicas": pods.len(), "readyReplicas": ready, "availableReplicas": available,
    });
    common::without_zeros(&mut status, &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"]);
    if let Some(message) = failure {
        status["conditions"] =
            json!([common::stated(set, "ReplicaFailure", "True", ("FailedCreate", message), work.now)]);
    }
    common::set_status(work, key, set, &status);
}
