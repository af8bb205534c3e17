//! The namespace of a release, with what its pods may do.

use daedal_inventory::{Addon, PodSecurity};
use serde_json::{Map, Value, json};

/// Namespaces that every cluster has, and that Daedal leaves as they are.
const GIVEN: &[&str] = &["default", "kube-node-lease", "kube-public", "kube-system"];
/// What pod security does: refuses pods, writes them to the audit log, warns whoever makes them.
const MODES: [&str; 3] = ["enforce", "audit", "warn"];

/// Whether every cluster has this namespace.
pub(crate) fn is_given(name: &str) -> bool {
    GIVEN.contains(&name)
}

/// The namespace of an add-on, unless every cluster has it.
pub(crate) fn of(addon: &Addon) -> Option<Value> {
    if is_given(&addon.namespace) {
        return None;
    }
    let mut body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": addon.namespace}});
    secure(&mut body, addon.pod_security);
    Some(body)
}

/// Says in a namespace what its pods may do, where it does not say so itself.
pub(crate) fn secure(namespace: &mut Value, pod_security: Option<PodSecurity>) {
    let (Some(level), Some(metadata)) = (pod_security, namespace["metadata"].as_object_mut()) else { return };
    let labels = metadata.entry("labels").or_insert_with(|| Value::Object(Map::new()));
    let Some(labels) = labels.as_object_mut() else { return };
    for mode in MODES {
        let key = format!("pod-security.kubernetes.io/{mode}");
        labels.entry(key).or_insert_with(|| json!(level.label()));
    }
}
