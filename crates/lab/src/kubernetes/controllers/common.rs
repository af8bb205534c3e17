//! What all controllers need: keys, conditions, counts, pods of a template.

use std::convert::Infallible;
use std::sync::Arc;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Task, Work};
use crate::kubernetes::admission;
use crate::kubernetes::store::{Key, Store, timestamp};

/// The key of an object.
pub(super) fn key(resource: &str, object: &Value) -> Key {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    Key::new(resource, text("namespace"), text("name"))
}

/// Whether it is being deleted.
pub(super) fn is_dying(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// A condition of an object.
pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|c| c["type"] == kind)
}

/// Whether a condition holds.
pub(super) fn holds(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|c| c["status"] == "True")
}

/// A condition as it is now; its time is that of the last change.
pub(super) fn stated(before: &Value, kind: &str, status: &str, why: (&str, &str), now: i64) -> Value {
    let old = condition(before, kind);
    let since = match old {
        Some(old) if old["status"] == status => old["lastTransitionTime"].clone(),
        _ => json!(timestamp(now)),
    };
    json!({"type": kind, "status": status, "reason": why.0, "message": why.1, "lastTransitionTime": since})
}

/// The moment of a timestamp.
pub(super) fn moment(value: &Value) -> Option<i64> {
    Some(value.as_str()?.parse::<jiff::Timestamp>().ok()?.as_second())
}

/// Writes a status, if it is another one.
pub(super) fn set_status(work: &Work<'_>, key: &Key, live: &Value, status: &Value) {
    if live["status"] == *status {
        return;
    }
    change(work, key, live, |object| object["status"] = status.clone());
}

/// Changes an object that is still the one that was looked at.
pub(super) fn change(work: &Work<'_>, key: &Key, live: &Value, edit: impl FnOnce(&mut Value)) {
    let _ = work.store.change(key, work.now, |now| {
        let mut object = now.cloned();
        if let Some(object) = object.as_mut().filter(|o| o["metadata"]["uid"] == live["metadata"]["uid"]) {
            edit(object);
        }
        Ok::<_, Infallible>(object)
    });
}

/// Removes what a map of counts has none of, as the API leaves out zeros.
pub(super) fn without_zeros(status: &mut Value, fields: &[&str]) {
    if let Some(status) = status.as_object_mut() {
        status.retain(|name, value| *value != 0 || !fields.contains(&name.as_str()));
    }
}

/// The living pods of a workload.
pub(super) fn pods_of(store: &Store, owner: &Value) -> Vec<(Key, Arc<Value>)> {
    let uid = owner["metadata"]["uid"].as_str().unwrap_or_default();
    let mut pods = store.owned_by(uid);
    pods.retain(|(key, pod)| key.resource == "pods" && !is_dying(pod));
    pods
}

/// Whether a pod has ended.
pub(super) fn has_ended(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

/// Whether a pod is Ready.
pub(super) fn is_ready(pod: &Value) -> bool {
    holds(pod, "Ready")
}

/// How many of the pods are Ready, and for long enough. Where one is not yet for long enough, the workload is looked at again.
pub(super) fn ready_counts<'a>(
    work: &mut Work<'_>,
    pods: impl Iterator<Item = &'a Value>,
    least_seconds: u64,
    again: &Task,
) -> (usize, usize) {
    let (mut ready, mut available) = (0, 0);
    for pod in pods.filter(|pod| is_ready(pod)) {
        ready += 1;
        let since = condition(pod, "Ready").and_then(|c| moment(&c["lastTransitionTime"]));
        let left = since.unwrap_or(work.now) + least_seconds as i64 - work.now;
        if left <= 0 || least_seconds == 0 {
            available += 1;
        } else {
            work.later(again.clone(), std::time::Duration::from_secs(left as u64));
        }
    }
    (ready, available)
}

/// A number, or the share of a whole that a percentage says.
pub(super) fn share(value: &Value, whole: u64, round_up: bool, fallback: &str) -> u64 {
    if let Some(number) = value.as_u64() {
        return number;
    }
    let text = value.as_str().unwrap_or(fallback);
    let percent: u64 = text.trim_end_matches('%').parse().unwrap_or(0);
    let exact = whole * percent;
    if round_up { exact.div_ceil(100) } else { exact / 100 }
}

/// Ten letters that depend on a template's content only.
pub(super) fn template_hash(template: &Value) -> String {
    fn feed(hash: &mut Sha256, value: &Value) {
        match value {
            Value::Object(object) => {
                let mut keys: Vec<&String> = object.keys().collect();
                keys.sort();
                for key in keys {
                    hash.update([1]);
                    hash.update(key);
                    feed(hash, &object[key]);
                }
            }
            Value::Array(items) => {
                hash.update([2]);
                items.iter().for_each(|item| feed(hash, item));
            }
            other => {
                hash.update([3]);
                hash.update(other.to_string());
            }
        }
        hash.update([0]);
    }
    let mut hash = Sha256::new();
    feed(&mut hash, template);
    letters(&hash.finalize(), 10)
}

/// Letters as the API makes names of.
pub(super) fn letters(bytes: &[u8], count: usize) -> String {
    const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    bytes.iter().take(count).map(|b| char::from(LETTERS[*b as usize % LETTERS.len()])).collect()
}

/// A name that nobody has yet.
pub(super) fn fresh_name(store: &Store, prefix: &str) -> String {
    let digest = Sha256::digest(format!("{prefix}/{}", store.revision()));
    // Kubernetes cuts a long prefix, so that the name stays one of DNS.
    let cut = prefix.char_indices().nth(58).map_or(prefix.len(), |(at, _)| at);
    format!("{}{}", &prefix[..cut], letters(&digest, 5))
}

/// The reference that makes an object somebody's own.
pub(super) fn controlled_by(api_version: &str, kind: &str, owner: &Value) -> Value {
    json!([{
        "apiVersion": api_version, "kind": kind, "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true,
    }])
}

/// Who makes pods.
pub(super) struct Maker<'a> {
    pub(super) api_version: &'a str,
    pub(super) kind: &'a str,
    pub(super) owner: &'a Value,
    /// What its template becomes before the pod is made.
    pub(super) labels: Vec<(&'a str, String)>,
}

impl Maker<'_> {
    /// A pod of the owner's template.
    pub(super) fn pod(&self, name: &str) -> Value {
        let template = &self.owner["spec"]["template"];
        let mut metadata = json!({"name": name, "namespace": self.owner["metadata"]["namespace"]});
        for field in ["labels", "annotations", "finalizers"] {
            if !template["metadata"][field].is_null() {
                metadata[field] = template["metadata"][field].clone();
            }
        }
        for (label, value) in &self.labels {
            metadata["labels"][*label] = json!(value);
        }
        metadata["ownerReferences"] = controlled_by(self.api_version, self.kind, self.owner);
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"],
               "status": {"phase": "Pending"}})
    }

    /// Makes a pod, unless it is refused: then there is an event, and the reason is returned.
    pub(super) fn create(&self, work: &mut Work<'_>, mut pod: Value, again: Task) -> Result<(), String> {
        let key = key("pods", &pod);
        match admission::pod(work.store, &key.namespace, &mut pod) {
            Ok(_) => {
                work.store.put(&key, pod, work.now);
                Ok(())
            }
            Err(refusal) => {
                let message = format!("Error creating: {}", refusal.message);
                let source = self.source();
                super::event::warn(
                    work,
                    (self.api_version, self.kind, self.owner),
                    "FailedCreate",
                    &message,
                    source,
                );
                work.memory.refused.insert(again);
                Err(refusal.message)
            }
        }
    }

    fn source(&self) -> &'static str {
        match self.kind {
            "DaemonSet" => "daemonset-controller",
            "StatefulSet" => "statefulset-controller",
            "Job" => "job-controller",
            _ => "replicaset-controller",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_has_the_same_hash_however_its_keys_are_ordered() {
        let hash = |value: Value| template_hash(&value);
        assert_eq!(hash(json!({"a": 1, "b": [1, 2]})), hash(json!({"b": [1, 2], "a": 1})));
        assert_ne!(hash(json!({"a": 1, "b": [1, 2]})), hash(json!({"a": 1, "b": [2, 1]})));
        assert_eq!(hash(json!({})).len(), 10);
    }

    #[test]
    fn shares_are_numbers_or_percentages() {
        assert_eq!(share(&json!(2), 10, true, "25%"), 2);
        assert_eq!([share(&json!("25%"), 3, true, ""), share(&json!("25%"), 3, false, "")], [1, 0]);
        assert_eq!(share(&Value::Null, 8, true, "25%"), 2);
    }
}
