//! What depends on pods behind a Service: aggregated APIs, and the authorities of webhooks.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::common;
use super::{Task, Work};
use crate::kubernetes::apply::{Writer, note_update};
use crate::kubernetes::schema;
use crate::kubernetes::store::Key;
use crate::kubernetes::webhooks::{self, Behind};

/// Until a webhook has got its authority once there is somebody who gives it.
const MOMENT: Duration = Duration::from_secs(1);

/// Says whether an aggregated API answers.
pub(super) fn api_service(work: &Work<'_>, key: &Key) {
    let Some(service) = work.store.get(key).filter(|object| !common::is_dying(object)) else { return };
    let at = &service["spec"]["service"];
    let (status, reason, message) = if at.is_object() {
        let (name, namespace) = (&at["name"], &at["namespace"]);
        let (name, namespace) = (name.as_str().unwrap_or_default(), namespace.as_str().unwrap_or_default());
        match webhooks::behind(work.store, namespace, name) {
            Behind::NoService => {
                let message = format!("service/{name} in \"{namespace}\" is not present");
                ("False", "ServiceNotFound", message)
            }
            Behind::Nobody => {
                let message = format!("endpoints for service/{name} in \"{namespace}\" have no addresses");
                ("False", "MissingEndpoints", message)
            }
            Behind::Pods => ("True", "Passed", "all checks passed".to_owned()),
        }
    } else {
        ("True", "Local", "Local APIServices are always available".to_owned())
    };
    let stated = common::stated(&service, "Available", status, (reason, &message), work.now);
    common::set_status(work, key, &service, &json!({"conditions": [stated]}));
}

/// Gives the webhooks that ask cert-manager for it their authority, while that runs.
pub(super) fn webhook(work: &mut Work<'_>, key: &Key) {
    let Some(config) = work.store.get(key).filter(|object| !common::is_dying(object)) else { return };
    let annotations = config["metadata"]["annotations"].as_object();
    let asks = annotations
        .is_some_and(|all| all.keys().any(|key| key.starts_with("cert-manager.io/inject-ca-from")));
    let lacks = |webhook: &Value| webhook["clientConfig"]["caBundle"].as_str().is_none_or(str::is_empty);
    let hooks = config["webhooks"].as_array();
    if !asks || !hooks.into_iter().flatten().any(lacks) || !injector_runs(work) {
        return;
    }
    let uid = config["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    match work.memory.due.get(key).filter(|(known, _)| *known == uid).map(|(_, at)| *at) {
        None => {
            let at = work.later(Task::Webhook(key.clone()), MOMENT);
            work.memory.due.insert(key.clone(), (uid, at));
            return;
        }
        Some(at) if at > Instant::now() => return,
        Some(_) => drop(work.memory.due.remove(key)),
    }
    let mut after = (*config).clone();
    for webhook in after["webhooks"].as_array_mut().into_iter().flatten() {
        webhook["clientConfig"]["caBundle"] = json!(webhooks::AUTHORITY);
    }
    let generation = config["metadata"]["generation"].as_u64().unwrap_or(1);
    after["metadata"]["generation"] = json!(generation + 1);
    let kind = config["kind"].as_str().unwrap_or_default();
    let shape = schema::built_in("admissionregistration.k8s.io", "v1", kind);
    let writer = Writer {
        manager: "cainjector",
        subresource: "",
        api_version: "admissionregistration.k8s.io/v1",
        shape: &shape,
        force: false,
        now: work.now,
    };
    note_update(Some(&config), &mut after, &writer);
    common::change(work, key, &config, |object| *object = after);
}

fn injector_runs(work: &Work<'_>) -> bool {
    let is = |pod: &Value| pod["metadata"]["labels"]["app.kubernetes.io/name"] == "cainjector";
    work.store.list("pods", None).0.iter().any(|pod| is(pod) && common::is_ready(pod))
}
