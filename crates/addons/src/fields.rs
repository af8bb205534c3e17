//! Who owns the fields of an object, changed by JSON patches: to take over what others wrote, and to let go at a handover.
//!
//! Each patch names the version of the object that it was made for, so that it does nothing to a newer one.

use serde_json::{Map, Value, json};

use crate::MANAGER;

/// The annotation in which `kubectl apply` keeps what it applied.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Managers of tools that write whole objects without applying them on the server.
pub const WRITERS: &[&str] = &["before-first-apply", "helm", "kubectl-client-side-apply", "kubectl-create"];

/// A JSON patch that makes fields ours that these managers wrote; without it, what they wrote and we do not say stays forever.
/// None if they own nothing.
pub fn take_over(live: &Value, managers: &[&str]) -> Option<Value> {
    let entries = live["metadata"]["managedFields"].as_array()?;
    let theirs = |entry: &Value| {
        is_main(entry)
            && entry["operation"] == "Update"
            && managers.iter().any(|name| entry["manager"] == *name)
    };
    let last_applied = live["metadata"]["annotations"][LAST_APPLIED].is_string();
    if !last_applied && !entries.iter().any(theirs) {
        return None;
    }
    let mut ours: Option<Value> = entries.iter().find(|entry| is_ours(entry)).cloned();
    for entry in entries.iter().filter(|entry| theirs(entry)) {
        let mut taken = entry.clone();
        taken["manager"] = json!(MANAGER);
        taken["operation"] = json!("Apply");
        match &mut ours {
            Some(ours) => unite(&mut ours["fieldsV1"], &entry["fieldsV1"]),
            None => ours = Some(taken),
        }
    }
    let others = entries.iter().filter(|entry| !is_ours(entry) && !theirs(entry)).cloned();
    let all: Vec<Value> = ours.into_iter().chain(others).collect();
    let mut patch = patch(live, all);
    if let Some(steps) = patch.as_array_mut().filter(|_| last_applied) {
        let path = format!("/metadata/annotations/{}", LAST_APPLIED.replace('/', "~1"));
        steps.push(json!({"op": "remove", "path": path}));
    }
    Some(patch)
}

/// A JSON patch after which we own nothing of an object, so that whoever keeps it from now on can change and remove all of it.
/// None if we own nothing.
pub fn let_go(live: &Value) -> Option<Value> {
    let entries = live["metadata"]["managedFields"].as_array()?;
    let left: Vec<Value> = entries.iter().filter(|entry| entry["manager"] != MANAGER).cloned().collect();
    (left.len() < entries.len()).then(|| patch(live, left))
}

fn is_main(entry: &Value) -> bool {
    entry["subresource"].as_str().unwrap_or_default().is_empty()
}

fn is_ours(entry: &Value) -> bool {
    is_main(entry) && entry["manager"] == MANAGER && entry["operation"] == "Apply"
}

fn patch(live: &Value, mut entries: Vec<Value>) -> Value {
    if entries.is_empty() {
        // An empty list would say nothing; an empty entry says that nobody owns anything.
        entries.push(json!({}));
    }
    json!([
        {"op": "replace", "path": "/metadata/managedFields", "value": entries},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": live["metadata"]["resourceVersion"]},
    ])
}

fn unite(into: &mut Value, other: &Value) {
    let Some(other) = other.as_object() else { return };
    if !into.is_object() {
        *into = Value::Object(Map::new());
    }
    let Some(into) = into.as_object_mut() else { return };
    for (key, below) in other {
        unite(into.entry(key.clone()).or_insert_with(|| Value::Object(Map::new())), below);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(entries: &Value) -> Value {
        json!({"metadata": {"resourceVersion": "7", "managedFields": entries}})
    }

    #[test]
    fn what_others_wrote_becomes_ours_and_what_they_apply_does_not() {
        let object = live(&json!([
            {"manager": "daedal", "operation": "Apply", "apiVersion": "v1", "fieldsV1": {"f:data": {"f:a": {}}}},
            {"manager": "helm", "operation": "Update", "apiVersion": "v1", "fieldsV1": {"f:data": {".": {}, "f:b": {}}}},
            {"manager": "helm", "operation": "Apply", "fieldsV1": {"f:data": {"f:c": {}}}},
            {"manager": "helm", "operation": "Update", "subresource": "status", "fieldsV1": {"f:status": {}}},
        ]));
        let patch = take_over(&object, WRITERS).unwrap();
        let entries = patch[0]["value"].as_array().unwrap();
        assert_eq!(entries.len(), 3);
        assert_eq!(entries[0]["manager"], "daedal");
        assert_eq!(entries[0]["fieldsV1"], json!({"f:data": {"f:a": {}, ".": {}, "f:b": {}}}));
        assert_eq!(patch[1], json!({"op": "replace", "path": "/metadata/resourceVersion", "value": "7"}));
    }

    #[test]
    fn the_first_take_over_makes_our_entry_and_drops_the_annotation_of_kubectl() {
        let mut object = live(&json!([
            {"manager": "kubectl-client-side-apply", "operation": "Update", "apiVersion": "v1", "fieldsV1": {"f:data": {}}},
        ]));
        object["metadata"]["annotations"] = json!({LAST_APPLIED: "{}"});
        let patch = take_over(&object, WRITERS).unwrap();
        let entry = &patch[0]["value"][0];
        assert_eq!((&entry["manager"], &entry["operation"]), (&json!("daedal"), &json!("Apply")));
        let path = "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration";
        assert_eq!(patch[2], json!({"op": "remove", "path": path}));
        assert_eq!(take_over(&live(&patch[0]["value"]), WRITERS), None, "once is enough");
    }

    #[test]
    fn after_a_handover_nothing_is_ours() {
        let ours = json!({"manager": "daedal", "operation": "Apply", "fieldsV1": {"f:data": {}}});
        let theirs = json!({"manager": "helm-controller", "operation": "Apply", "fieldsV1": {"f:data": {}}});
        let patch = let_go(&live(&json!([ours, theirs]))).unwrap();
        assert_eq!(patch[0]["value"], json!([theirs]));
        assert_eq!(let_go(&live(&json!([ours]))).unwrap()[0]["value"], json!([{}]));
        assert_eq!(let_go(&live(&json!([theirs]))), None);
    }
}
