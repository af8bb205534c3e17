//! StatefulSets: pods with numbers, one after the other.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::common::{self, Maker};
use super::{Task, Work};
use crate::kubernetes::deletion;
use crate::kubernetes::store::Key;

const HASH: &str = "controller-revision-hash";

pub(super) fn reconcile(work: &mut Work<'_>, key: &Key) {
    let Some(set) = work.store.get(key).filter(|object| !common::is_dying(object)) else { return };
    let revision = format!("{}-{}", key.name, common::template_hash(&set["spec"]["template"]));
    let pods = pods(work, key, &set);
    let wanted = set["spec"]["replicas"].as_u64().unwrap_or(1);
    let at_once = set["spec"]["podManagementPolicy"] == "Parallel";
    let mut settled = true;
    for number in 0..wanted {
        let ready = match pods.get(&number) {
            Some((pod, _)) if common::has_ended(&work.store.get(pod).unwrap_or_default()) => {
                deletion::remove(work.store, pod, false, work.now);
                false
            }
            Some((_, pod)) => common::is_ready(pod),
            None => {
                create(work, key, &set, number, &revision);
                false
            }
        };
        settled &= ready;
        if !ready && !at_once {
            break;
        }
    }
    if settled || at_once {
        let extra = pods.range(wanted..).next_back();
        if let Some((_, (pod, _))) = extra {
            deletion::remove(work.store, pod, false, work.now);
        } else {
            update(work, &set, &pods, wanted, &revision);
        }
    }
    report(work, key, &set, &revision);
}

/// The pods by their numbers.
fn pods(work: &Work<'_>, key: &Key, set: &Value) -> BTreeMap<u64, (Key, Arc<Value>)> {
    let pods = common::pods_of(work.store, set).into_iter();
    pods.filter_map(|(pod, object)| {
        let number = pod.name.strip_prefix(&key.name)?.strip_prefix('-')?.parse().ok()?;
        Some((number, (pod, object)))
    })
    .collect()
}

fn create(work: &mut Work<'_>, key: &Key, set: &Value, number: u64, revision: &str) {
    let name = format!("{}-{number}", key.name);
    let labels = vec![
        (HASH, revision.to_owned()),
        ("statefulset.kubernetes.io/pod-name", name.clone()),
        ("apps.kubernetes.io/pod-index", number.to_string()),
    ];
    let maker = Maker { api_version: "apps/v1", kind: "StatefulSet", owner: set, labels };
    let mut pod = maker.pod(&name);
    pod["spec"]["hostname"] = json!(name);
    pod["spec"]["subdomain"] = set["spec"]["serviceName"].clone();
    for claim in set["spec"]["volumeClaimTemplates"].as_array().into_iter().flatten() {
        let volume = claim["metadata"]["name"].as_str().unwrap_or_default();
        let claim_name = format!("{volume}-{name}");
        let mut volumes = pod["spec"]["volumes"].as_array().cloned().unwrap_or_default();
        volumes.push(json!({"name": volume, "persistentVolumeClaim": {"claimName": claim_name}}));
        pod["spec"]["volumes"] = json!(volumes);
        let at = Key::new("persistentvolumeclaims", &key.namespace, &claim_name);
        if work.store.get(&at).is_none() {
            let mut metadata = claim["metadata"].clone();
            metadata["name"] = json!(claim_name);
            metadata["namespace"] = json!(key.namespace);
            let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata,
                               "spec": claim["spec"], "status": {"phase": "Pending"}});
            work.store.put(&at, claim, work.now);
        }
    }
    let _ = maker.create(work, pod, Task::StatefulSet(key.clone()));
}

/// Takes away the last pod of an older template; it comes back with the new one.
fn update(
    work: &Work<'_>,
    set: &Value,
    pods: &BTreeMap<u64, (Key, Arc<Value>)>,
    wanted: u64,
    revision: &str,
) {
    let strategy = &set["spec"]["updateStrategy"];
    let from = strategy["rollingUpdate"]["partition"].as_u64().unwrap_or(0).min(wanted);
    if strategy["type"] == "OnDelete" {
        return;
    }
    for (_, (key, pod)) in pods.range(from..wanted).rev() {
        if pod["metadata"]["labels"][HASH] != revision {
            deletion::remove(work.store, key, false, work.now);
            return;
        }
        if !common::is_ready(pod) {
            return;
        }
    }
}

fn report(work: &mut Work<'_>, key: &Key, set: &Value, revision: &str) {
    let pods = pods(work, key, set);
    let all: Vec<&Value> = pods.values().map(|(_, pod)| &**pod).collect();
    let updated = all.iter().filter(|pod| pod["metadata"]["labels"][HASH] == revision).count();
    let least = set["spec"]["minReadySeconds"].as_u64().unwrap_or(0);
    let again = Task::StatefulSet(key.clone());
    let (ready, available) = common::ready_counts(work, all.iter().copied(), least, &again);
    let wanted = set["spec"]["replicas"].as_u64().unwrap_or(1) as usize;
    let done = updated == wanted && ready == wanted && all.len() == wanted;
    let before = set["status"]["currentRevision"].as_str().filter(|_| !done).unwrap_or(revision);
    let current = all.iter().filter(|pod| pod["metadata"]["labels"][HASH] == before).count();
    let mut status = json!({
        "observedGeneration": set["metadata"]["generation"], "replicas": all.len(), "readyReplicas": ready,
        "availableReplicas": available, "currentReplicas": current, "updatedReplicas": updated,
        "currentRevision": before, "updateRevision": revision, "collisionCount": 0,
    });
    common::without_zeros(&mut status, &["readyReplicas", "currentReplicas", "updatedReplicas"]);
    common::set_status(work, key, set, &status);
}
