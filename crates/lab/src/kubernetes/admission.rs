//! What is refused although it is well formed: pods that a namespace does not allow, and anything new where everything ends.

use serde_json::{Value, json};

use super::security::{self, Level};
use super::status::Refusal;
use super::store::{Key, Store};

/// Priorities that every cluster has.
const PRIORITIES: [(&str, i64); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// Admits a pod or refuses it, and fills in what admission adds. Returns the warnings.
pub(crate) fn pod(store: &Store, namespace: &str, pod: &mut Value) -> Result<Vec<String>, Refusal> {
    let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let refuse = |why: String| Refusal::forbidden_object("pods", &name, &why);
    let place = open_namespace(store, namespace, "pods", &name)?;
    let account = pod["spec"]["serviceAccountName"].as_str().filter(|name| !name.is_empty());
    let account = account.unwrap_or("default").to_owned();
    if account != "default" && store.get(&Key::new("serviceaccounts", namespace, &account)).is_none() {
        return Err(refuse(format!(
            "error looking up service account {namespace}/{account}: serviceaccount \"{account}\" not found"
        )));
    }
    pod["spec"]["serviceAccountName"] = json!(account);
    pod["spec"]["serviceAccount"] = json!(account);
    if let Some(class) = pod["spec"]["priorityClassName"].as_str().filter(|class| !class.is_empty()) {
        let known = PRIORITIES.iter().find(|known| known.0 == class).map(|known| known.1);
        let made = || store.get(&Key::new("scheduling.k8s.io/priorityclasses", "", class))?["value"].as_i64();
        let value = known.or_else(made);
        let value = value.ok_or_else(|| refuse(format!("no PriorityClass with name {class} was found")))?;
        pod["spec"]["priority"] = json!(value);
    } else {
        pod["spec"]["priority"] = json!(0);
    }
    let level = security::level(&place, "enforce");
    let violations = security::violations(&pod["spec"], level);
    if !violations.is_empty() {
        let why = format!("violates PodSecurity \"{}:latest\": {}", level.name(), violations.join(", "));
        return Err(refuse(why));
    }
    Ok(warnings(&place, &pod["spec"], "would violate"))
}

/// What a namespace warns of in a pod's spec.
fn warnings(namespace: &Value, spec: &Value, word: &str) -> Vec<String> {
    let level = security::level(namespace, "warn");
    let found = if level == Level::Privileged { Vec::new() } else { security::violations(spec, level) };
    if found.is_empty() {
        return Vec::new();
    }
    vec![format!("{word} PodSecurity \"{}:latest\": {}", level.name(), found.join(", "))]
}

/// What is to be said about the pods that a workload would make.
pub(crate) fn workload(store: &Store, namespace: &str, kind: &str, object: &Value) -> Vec<String> {
    let template = match kind {
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" | "Job" | "ReplicationController" => {
            &object["spec"]["template"]
        }
        "CronJob" => &object["spec"]["jobTemplate"]["spec"]["template"],
        _ => return Vec::new(),
    };
    let Some(place) = store.get(&Key::new("namespaces", "", namespace)) else { return Vec::new() };
    warnings(&place, &template["spec"], "would violate")
}

/// The namespace in which something new is to be; one that ends takes nothing new.
pub(crate) fn open_namespace(
    store: &Store,
    namespace: &str,
    resource: &str,
    name: &str,
) -> Result<std::sync::Arc<Value>, Refusal> {
    let place = store
        .get(&Key::new("namespaces", "", namespace))
        .ok_or_else(|| Refusal::not_found("namespaces", namespace))?;
    if place["metadata"]["deletionTimestamp"].is_string() {
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut refusal = Refusal::forbidden_object(resource, name, &why);
        if let Some(details) = &mut refusal.details {
            details["causes"] = json!([{
                "reason": "NamespaceTerminating", "field": "metadata.namespace",
                "message": format!("namespace {namespace} is being terminated"),
            }]);
        }
        return Err(refusal);
    }
    Ok(place)
}
