//! Deletion: of one object or of many, with what hangs on them, and as finalizers allow.

use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::api::{Call, shown};
use super::status::Refusal;
use super::store::{Key, Store, timestamp};
use super::write;
use crate::http::Body;

/// DELETE of one object.
pub(crate) fn delete(call: &Call) -> Result<Response<Body>, Refusal> {
    let key = call.key();
    let live = call.store.get(&key).ok_or_else(|| Refusal::not_found(&key.resource, &key.name))?;
    let options: Value = serde_json::from_slice(&call.body).unwrap_or_default();
    let wanted = &options["preconditions"]["uid"];
    if wanted.is_string() && *wanted != live["metadata"]["uid"] {
        return Err(Refusal::conflict("the UID in the precondition does not match the UID in record"));
    }
    write::heard(call, "DELETE", &live)?;
    let asked = call.query.contains_key("dryRun") || options["dryRun"].is_array();
    if asked {
        return shown(call, StatusCode::OK, &live);
    }
    let orphan = options["propagationPolicy"] == "Orphan";
    remove(&call.store, &key, orphan, call.now);
    match call.store.get(&key) {
        Some(dying) => shown(call, StatusCode::OK, &dying),
        None => Ok(crate::http::json(
            StatusCode::OK,
            &json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                "details": {"name": key.name, "kind": call.resource.plural, "group": call.resource.group,
                            "uid": live["metadata"]["uid"]},
            }),
        )),
    }
}

/// What holds a definition until its objects are gone.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Removes an object (or lets it die when finalizers hold it) and what hangs on it. Namespaces and definitions of custom kinds are
/// emptied by their controllers first.
pub(crate) fn remove(store: &Store, key: &Key, orphan: bool, now: i64) {
    let Some(live) = store.get(key) else { return };
    let emptied = match key.resource.as_str() {
        "namespaces" => live["spec"]["finalizers"].as_array().is_some_and(|f| !f.is_empty()),
        other => other == "apiextensions.k8s.io/customresourcedefinitions",
    };
    let held = live["metadata"]["finalizers"].as_array().is_some_and(|f| !f.is_empty());
    if held || emptied {
        let _ = store.change(key, now, |live| {
            let mut object = live.cloned().unwrap_or_default();
            if !object["metadata"]["deletionTimestamp"].is_string() {
                object["metadata"]["deletionTimestamp"] = json!(timestamp(now));
                object["metadata"]["deletionGracePeriodSeconds"] = json!(0);
                if key.resource == "namespaces" {
                    object["status"]["phase"] = json!("Terminating");
                }
            }
            Ok::<_, std::convert::Infallible>(Some(object))
        });
        if emptied {
            return;
        }
    } else {
        store.remove(key, now);
    }
    let uid = live["metadata"]["uid"].as_str().unwrap_or_default();
    let owned = if orphan || held { Vec::new() } else { store.owned_by(uid) };
    owned.into_iter().for_each(|(dependent, _)| remove(store, &dependent, false, now));
    if key.resource == "nodes" {
        let there = store.keys(|k, pod| k.resource == "pods" && pod["spec"]["nodeName"] == *key.name);
        there.iter().for_each(|pod| remove(store, pod, false, now));
    }
}

/// DELETE of a collection.
pub(crate) fn delete_collection(call: &Call) -> Result<Response<Body>, Refusal> {
    let selector = call.selector();
    let stored = call.resource.stored();
    let keys = call.store.keys(|key, object| {
        key.resource == stored && call.scope().is_none_or(|n| n == key.namespace) && selector.fits(object)
    });
    for key in keys {
        remove(&call.store, &key, false, call.now);
    }
    Ok(crate::http::json(
        StatusCode::OK,
        &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}),
    ))
}
