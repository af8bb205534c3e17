//! Namespaces: each has an account for its pods and the authority of the API server, and takes everything in it along.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::common;
use super::{Task, Work};
use crate::kubernetes::deletion;
use crate::kubernetes::store::Key;

/// Until a namespace that is being deleted is emptied.
const MOMENT: Duration = Duration::from_secs(1);

pub(super) fn reconcile(work: &mut Work<'_>, key: &Key) {
    let Some(namespace) = work.store.get(key) else {
        work.memory.ending.remove(&key.name);
        return;
    };
    if common::is_dying(&namespace) {
        end(work, key, &namespace);
    } else {
        furnish(work, &key.name);
    }
}

fn furnish(work: &Work<'_>, name: &str) {
    let account = Key::new("serviceaccounts", name, "default");
    if work.store.get(&account).is_none() {
        let object = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": name}});
        work.store.put(&account, object, work.now);
    }
    let map = Key::new("configmaps", name, "kube-root-ca.crt");
    let known = work.store.get(&Key::new("configmaps", "kube-system", "kube-root-ca.crt"));
    if let Some(known) = known.filter(|_| work.store.get(&map).is_none()) {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": known["data"],
                            "metadata": {"name": "kube-root-ca.crt", "namespace": name}});
        work.store.put(&map, object, work.now);
    }
}

fn end(work: &mut Work<'_>, key: &Key, namespace: &Value) {
    let uid = namespace["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    work.memory.ending.insert(key.name.clone());
    let due = work.memory.due.get(key).filter(|(known, _)| *known == uid).map(|(_, at)| *at);
    match due {
        None => {
            let at = work.later(Task::Namespace(key.clone()), MOMENT);
            work.memory.due.insert(key.clone(), (uid, at));
            return;
        }
        Some(at) if at > Instant::now() => return,
        Some(_) => {}
    }
    let inside = |held: bool| {
        work.store.keys(|k, object| k.namespace == key.name && (held || !common::is_dying(object)))
    };
    for object in inside(false) {
        deletion::remove(work.store, &object, false, work.now);
    }
    let left = inside(true);
    if left.is_empty() {
        work.memory.due.remove(key);
        work.memory.ending.remove(&key.name);
        if namespace["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty) {
            work.store.remove(key, work.now);
        }
        return;
    }
    let names: Vec<String> = left.iter().map(|k| format!("{} {}", k.resource, k.name)).collect();
    let message = format!("Some content in the namespace has finalizers remaining: {}", names.join(", "));
    let why = ("SomeFinalizersRemain", message.as_str());
    let mut status = namespace["status"].clone();
    status["conditions"] =
        json!([common::stated(namespace, "NamespaceFinalizersRemaining", "True", why, work.now)]);
    common::set_status(work, key, namespace, &status);
}
