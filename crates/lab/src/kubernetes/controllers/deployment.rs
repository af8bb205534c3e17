//! Deployments: a ReplicaSet per template, the newest grows while the others shrink.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::common;
use super::{Task, Work};
use crate::kubernetes::deletion;
use crate::kubernetes::store::{Key, timestamp};

const REVISION: &str = "deployment.kubernetes.io/revision";

struct Set {
    key: Key,
    object: Arc<Value>,
}

impl Set {
    fn spec(&self) -> u64 {
        self.object["spec"]["replicas"].as_u64().unwrap_or(0)
    }

    fn status(&self, field: &str) -> u64 {
        self.object["status"][field].as_u64().unwrap_or(0)
    }

    fn revision(&self) -> u64 {
        let text = self.object["metadata"]["annotations"][REVISION].as_str();
        text.and_then(|text| text.parse().ok()).unwrap_or(0)
    }
}

/// How many pods there may be too many and too few.
struct Room {
    wanted: u64,
    surge: u64,
    unavailable: u64,
}

impl Room {
    fn of(spec: &Value) -> Self {
        let wanted = spec["replicas"].as_u64().unwrap_or(1);
        if spec["strategy"]["type"] == "Recreate" {
            return Self { wanted, surge: 0, unavailable: wanted };
        }
        let rolling = &spec["strategy"]["rollingUpdate"];
        let surge = common::share(&rolling["maxSurge"], wanted, true, "25%");
        let mut unavailable = common::share(&rolling["maxUnavailable"], wanted, false, "25%").min(wanted);
        if surge == 0 && unavailable == 0 {
            unavailable = 1;
        }
        Self { wanted, surge, unavailable }
    }
}

pub(super) fn reconcile(work: &mut Work<'_>, key: &Key) {
    let Some(deployment) = work.store.get(key).filter(|object| !common::is_dying(object)) else { return };
    let name = format!("{}-{}", key.name, common::template_hash(&deployment["spec"]["template"]));
    let room = Room::of(&deployment["spec"]);
    if deployment["spec"]["paused"] != true {
        roll(work, key, &deployment, &name, &room);
    }
    report(work, key, &deployment, &name, &room);
}

fn sets(work: &Work<'_>, deployment: &Value) -> Vec<Set> {
    let uid = deployment["metadata"]["uid"].as_str().unwrap_or_default();
    let owned = work.store.owned_by(uid).into_iter().filter(|(key, _)| key.resource == "apps/replicasets");
    owned.map(|(key, object)| Set { key, object }).collect()
}

fn roll(work: &mut Work<'_>, key: &Key, deployment: &Value, name: &str, room: &Room) {
    let all = sets(work, deployment);
    let (newest, old): (Vec<Set>, Vec<Set>) = all.into_iter().partition(|set| set.key.name == name);
    let recreate = deployment["spec"]["strategy"]["type"] == "Recreate";
    let total_old: u64 = old.iter().map(Set::spec).sum();
    if recreate {
        old.iter().filter(|set| set.spec() > 0).for_each(|set| scale(work, set, 0));
    }
    let pods_left = old.iter().any(|set| !common::pods_of(work.store, &set.object).is_empty());
    let Some(newest) = newest.first() else {
        if !(recreate && pods_left) {
            let most = room.wanted + room.surge;
            let first = if recreate { room.wanted } else { room.wanted.min(most.saturating_sub(total_old)) };
            create(work, key, deployment, name, first, &old);
        }
        return;
    };
    let last = old.iter().map(Set::revision).max().unwrap_or(0);
    if newest.revision() <= last {
        // A template that was there before comes back.
        annotate(work, &newest.key, &newest.object, last + 1);
    }
    let mut size = newest.spec();
    if size > room.wanted {
        size = room.wanted;
    } else if !(recreate && pods_left) {
        let most = room.wanted + room.surge;
        let grown = size + most.saturating_sub(size + total_old);
        size = if recreate { room.wanted } else { room.wanted.min(grown).max(size) };
    }
    if size != newest.spec() {
        scale(work, newest, size);
    }
    if !recreate {
        shrink(work, newest, &old, size, room);
    }
    forget(work, deployment, &old);
}

/// Takes pods away from the old sets, as many as can be missed: first those that are of no use anyway.
fn shrink(work: &mut Work<'_>, newest: &Set, old: &[Set], size: u64, room: &Room) {
    let least = room.wanted.saturating_sub(room.unavailable);
    let total = size + old.iter().map(Set::spec).sum::<u64>();
    let coming = size.saturating_sub(newest.status("availableReplicas"));
    let mut may_go = total.saturating_sub(least).saturating_sub(coming);
    let available =
        newest.status("availableReplicas") + old.iter().map(|s| s.status("availableReplicas")).sum::<u64>();
    let mut spare = available.saturating_sub(least);
    for set in old.iter().filter(|set| set.spec() > 0) {
        let useless = set.spec().saturating_sub(set.status("availableReplicas")).min(may_go);
        may_go -= useless;
        let useful = spare.min(set.spec() - useless).min(may_go);
        spare -= useful;
        may_go -= useful;
        if useless + useful > 0 {
            scale(work, set, set.spec() - useless - useful);
        }
    }
}

fn scale(work: &Work<'_>, set: &Set, replicas: u64) {
    common::change(work, &set.key, &set.object, |object| {
        object["spec"]["replicas"] = json!(replicas);
        let generation = object["metadata"]["generation"].as_u64().unwrap_or(1);
        object["metadata"]["generation"] = json!(generation + 1);
    });
}

fn annotate(work: &Work<'_>, key: &Key, live: &Value, revision: u64) {
    let revision = json!(revision.to_string());
    if live["metadata"]["annotations"][REVISION] != revision {
        common::change(work, key, live, |object| object["metadata"]["annotations"][REVISION] = revision);
    }
}

fn create(work: &Work<'_>, key: &Key, deployment: &Value, name: &str, replicas: u64, old: &[Set]) {
    let hash = name.rsplit('-').next().unwrap_or_default();
    let spec = &deployment["spec"];
    let (mut selector, mut template) = (spec["selector"].clone(), spec["template"].clone());
    selector["matchLabels"]["pod-template-hash"] = json!(hash);
    template["metadata"]["labels"]["pod-template-hash"] = json!(hash);
    let revision = old.iter().map(Set::revision).max().unwrap_or(0) + 1;
    let set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": name, "namespace": key.namespace, "labels": template["metadata"]["labels"], "generation": 1,
            "annotations": {REVISION: revision.to_string()},
            "ownerReferences": common::controlled_by("apps/v1", "Deployment", deployment),
        },
        "spec": {"replicas": replicas, "selector": selector, "template": template, "minReadySeconds": spec["minReadySeconds"].as_u64().unwrap_or(0)},
        "status": {"replicas": 0},
    });
    work.store.put(&Key::new("apps/replicasets", &key.namespace, name), set, work.now);
}

/// Deletes the oldest sets of templates that nobody runs any more.
fn forget(work: &Work<'_>, deployment: &Value, old: &[Set]) {
    let kept = deployment["spec"]["revisionHistoryLimit"].as_u64().unwrap_or(10) as usize;
    let mut empty: Vec<&Set> =
        old.iter().filter(|set| set.spec() == 0 && set.status("replicas") == 0).collect();
    empty.sort_by_key(|set| std::cmp::Reverse(set.revision()));
    for set in empty.iter().skip(kept) {
        deletion::remove(work.store, &set.key, false, work.now);
    }
}

fn report(work: &mut Work<'_>, key: &Key, deployment: &Value, name: &str, room: &Room) {
    let all = sets(work, deployment);
    let sum = |field: &str| all.iter().map(|set| set.status(field)).sum::<u64>();
    let newest = all.iter().find(|set| set.key.name == name);
    if let Some(newest) = newest {
        annotate(work, key, deployment, newest.revision().max(1));
    }
    let updated = newest.map_or(0, |set| set.status("replicas"));
    let (replicas, ready, available) = (sum("replicas"), sum("readyReplicas"), sum("availableReplicas"));
    let unavailable = all.iter().map(Set::spec).sum::<u64>().saturating_sub(available);
    let mut status = json!({
        "observedGeneration": deployment["metadata"]["generation"], "replicas": replicas, "updatedReplicas": updated,
        "readyReplicas": ready, "availableReplicas": available, "unavailableReplicas": unavailable,
    });
    let counts = ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas"];
    common::without_zeros(&mut status, &counts);
    let available_enough = available + room.unavailable >= room.wanted;
    let stated = |kind: &str, status: &str, reason: &str, message: &str| {
        let mut one = common::stated(deployment, kind, status, (reason, message), work.now);
        let old = common::condition(deployment, kind);
        let same = old.is_some_and(|old| old["status"] == status && old["reason"] == reason);
        one["lastUpdateTime"] = match old.filter(|_| same) {
            Some(old) => old["lastUpdateTime"].clone(),
            None => json!(timestamp(work.now)),
        };
        one
    };
    let available = if available_enough {
        stated("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        stated(
            "Available",
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        )
    };
    let mut conditions = vec![available];
    let failure = newest.and_then(|set| common::condition(&set.object, "ReplicaFailure"));
    if let Some(message) = failure.and_then(|failure| failure["message"].as_str()) {
        conditions.push(stated("ReplicaFailure", "True", "FailedCreate", message));
    }
    if newest.is_some() {
        let complete = updated == room.wanted && replicas == room.wanted && ready == room.wanted;
        let progress = progress(work, deployment, &status, name, complete);
        let mut progressing = stated("Progressing", progress.0, progress.1, &progress.2);
        if progress.3 {
            progressing["lastUpdateTime"] = json!(timestamp(work.now));
        }
        if progress.1 == "ReplicaSetUpdated" {
            let since = common::moment(&progressing["lastUpdateTime"]).unwrap_or(work.now);
            let left = since + deadline(deployment) - work.now;
            work.later(Task::Deployment(key.clone()), Duration::from_secs(left.max(1) as u64));
        }
        conditions.push(progressing);
    }
    status["conditions"] = json!(conditions);
    common::set_status(work, key, deployment, &status);
}

fn deadline(deployment: &Value) -> i64 {
    deployment["spec"]["progressDeadlineSeconds"].as_i64().unwrap_or(600)
}

/// Status, reason and message of the condition `Progressing`, and whether there was progress just now.
fn progress(
    work: &Work<'_>,
    deployment: &Value,
    status: &Value,
    name: &str,
    complete: bool,
) -> (&'static str, &'static str, String, bool) {
    let old = common::condition(deployment, "Progressing");
    let settled = old.is_some_and(|old| old["reason"] == "NewReplicaSetAvailable")
        && deployment["status"]["observedGeneration"] == deployment["metadata"]["generation"];
    if complete || settled {
        let message = format!("ReplicaSet \"{name}\" has successfully progressed.");
        return ("True", "NewReplicaSetAvailable", message, false);
    }
    let before = &deployment["status"];
    let moved = ["updatedReplicas", "readyReplicas", "availableReplicas"]
        .iter()
        .any(|field| status[field].as_u64().unwrap_or(0) > before[field].as_u64().unwrap_or(0))
        || before["observedGeneration"] != deployment["metadata"]["generation"];
    let since = old.and_then(|old| common::moment(&old["lastUpdateTime"])).unwrap_or(work.now);
    let late = old.is_some_and(|old| old["reason"] == "ProgressDeadlineExceeded");
    if !moved && (late || work.now - since >= deadline(deployment)) {
        let message = format!("ReplicaSet \"{name}\" has timed out progressing.");
        return ("False", "ProgressDeadlineExceeded", message, false);
    }
    ("True", "ReplicaSetUpdated", format!("ReplicaSet \"{name}\" is progressing."), moved)
}
