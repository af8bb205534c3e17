//! CustomResourceDefinitions: accepted and served a moment after they were made; what they define goes with them.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::common;
use super::{Task, Work};
use crate::kubernetes::deletion;
use crate::kubernetes::store::Key;

/// Until a new kind is served.
const MOMENT: Duration = Duration::from_millis(500);

pub(super) fn reconcile(work: &mut Work<'_>, key: &Key) {
    let Some(definition) = work.store.get(key) else { return };
    if common::is_dying(&definition) {
        empty(work, key, &definition);
        return;
    }
    let stored = stored_versions(&definition);
    if !common::holds(&definition, "Established") {
        let uid = definition["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let due = work.memory.due.get(key).filter(|(known, _)| *known == uid).map(|(_, at)| *at);
        match due {
            None => {
                let at = work.later(Task::Definition(key.clone()), MOMENT);
                work.memory.due.insert(key.clone(), (uid, at));
                return;
            }
            Some(at) if at > Instant::now() => return,
            Some(_) => drop(work.memory.due.remove(key)),
        }
    }
    let stated = |kind: &str, reason: &str, message: &str| {
        common::stated(&definition, kind, "True", (reason, message), work.now)
    };
    let status = json!({
        "conditions": [
            stated("NamesAccepted", "NoConflicts", "no conflicts found"),
            stated("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ],
        "acceptedNames": definition["spec"]["names"], "storedVersions": stored,
    });
    common::set_status(work, key, &definition, &status);
}

/// All versions in which objects may lie.
fn stored_versions(definition: &Value) -> Value {
    let mut stored = definition["status"]["storedVersions"].as_array().cloned().unwrap_or_default();
    for version in definition["spec"]["versions"].as_array().into_iter().flatten() {
        if version["storage"] == true && !stored.contains(&version["name"]) {
            stored.push(version["name"].clone());
        }
    }
    json!(stored)
}

/// Removes the objects of a definition that is being deleted, and then itself.
fn empty(work: &Work<'_>, key: &Key, definition: &Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let spec = &definition["spec"];
    let resource = format!("{}/{}", text(&spec["group"]), text(&spec["names"]["plural"]));
    for object in work.store.list(&resource, None).0 {
        if !common::is_dying(&object) {
            deletion::remove(work.store, &common::key(&resource, &object), false, work.now);
        }
    }
    // What finalizers hold back holds the definition back; the removal of the last one brings it here again.
    let held =
        definition["metadata"]["finalizers"].as_array().into_iter().flatten().any(|f| f != deletion::CLEANUP);
    if work.store.list(&resource, None).0.is_empty() && !held {
        work.store.remove(key, work.now);
    }
}
