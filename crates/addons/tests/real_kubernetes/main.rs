//! What is said of objects, beside a real API server and kubectl.
//!
//! `DAEDAL_PEERS` names the folder that holds `etcd-v*/etcd`, `kubernetes-*/{kube-apiserver,kubectl}`.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::type_complexity,
    reason = "helpers of tests"
)]

mod objects;
mod server;

use daedal_addons::{Seed, applyset, compare, readiness};
use serde_json::{Value, json};
use server::Server;

fn seed() -> Seed {
    Seed::new([5; 32])
}

/// What is left of an object when what every write changes is taken away.
fn settled(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for key in ["managedFields", "resourceVersion", "generation"] {
            metadata.remove(key);
        }
    }
    object
}

fn changes(want: &Value, live: &Value) -> Vec<String> {
    let found = compare::differences(want, live, &seed());
    found.into_iter().map(|c| format!("{}: {:?} → {:?}", c.path, c.from, c.to)).collect()
}

/// Every way to write an object, and every edit of it: what we say would change is what the server changes.
#[test]
#[ignore = "needs real peers: cargo xtask conformance addons"]
fn differences_are_those_of_a_server_side_apply() {
    let Some(server) = Server::start() else { return };
    server.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}), false);
    let mut wrong = Vec::new();
    for (name, object, edits) in objects::all() {
        server.apply(&object, false);
        let live = server.get(&object);
        let found = changes(&object, &live);
        if !found.is_empty() {
            wrong.push(format!("{name} as it was applied: {found:?}"));
        }
        for (index, edit) in edits.iter().enumerate() {
            let mut edited = object.clone();
            edit(&mut edited);
            let dry = server.apply(&edited, true);
            let (ours, theirs) = (changes(&edited, &live), settled(&dry) != settled(&live));
            if ours.is_empty() == theirs {
                wrong.push(format!("{name}, edit {index}: we say {ours:?}, the server changes it: {theirs}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// kubectl names the set of an add-on as we do, and its own sets are not ours.
#[test]
#[ignore = "needs real peers: cargo xtask conformance addons"]
fn kubectl_has_the_same_applysets() {
    let Some(server) = Server::start() else { return };
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "kube-system"}});
    let name = applyset::parent_name("web");
    let args = ["apply", "--server-side", "-n", "kube-system", "--prune", "--applyset", &name, "-f", "-"];
    server.kubectl_ok(&args, &object.to_string());
    let args = ["get", "secret", &name, "-n", "kube-system", "-o", "json"];
    let parent: Value = serde_json::from_str(&server.kubectl_ok(&args, "")).unwrap();
    assert_eq!(parent["metadata"]["labels"][applyset::ID], applyset::id_of("web"));
    let error = applyset::Parent::read(&parent).unwrap_err().to_string();
    assert!(error.contains("belongs to kubectl/v1."), "{error}");
    let member = server.get(&object);
    assert_eq!(member["metadata"]["labels"][applyset::PART_OF], applyset::id_of("web"));

    let ours = applyset::Parent {
        addon: "other".into(),
        namespace: "shop".into(),
        inputs: String::new(),
        version: "1.0.0".into(),
        members: applyset::Members::default(),
    };
    server.apply(&ours.to_object(), false);
    let name = applyset::parent_name("other");
    let args = ["apply", "--server-side", "-n", "kube-system", "--prune", "--applyset", &name, "-f", "-"];
    let refused = server.kubectl(&args, &object.to_string());
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("daedal"), "{said}");
}

/// A definition is ready when its objects can be made, and what nobody runs is not.
#[test]
#[ignore = "needs real peers: cargo xtask conformance addons"]
fn readiness_is_that_of_the_server() {
    let Some(server) = Server::start() else { return };
    let definition = objects::definition();
    let mut live = server.apply(&definition, false);
    while readiness::of(&live) != readiness::Readiness::Ready {
        live = server.get(&definition);
    }
    server.apply(&json!({"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": "a", "namespace": "default"}}), true);
    let deployment = server.apply(&objects::deployment("default"), false);
    assert!(matches!(readiness::of(&deployment), readiness::Readiness::Waiting { .. }), "no controller runs");
}
