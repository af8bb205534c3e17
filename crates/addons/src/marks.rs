//! The labels and annotations that an object gets besides its own.

use serde_json::{Map, Value, json};

use crate::applyset;
use crate::digest;
use crate::inputs::Seed;

/// The annotation that says which object was applied: its [`digest`](crate::Object::digest).
pub const DIGEST: &str = "daedal.dev/digest";
/// The label that says which tool manages an object.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The annotation that says to which Helm release an object belongs.
pub const HELM_RELEASE: &str = "meta.helm.sh/release-name";
/// The annotation that says in which namespace that release is.
pub const HELM_NAMESPACE: &str = "meta.helm.sh/release-namespace";

/// Which marks an object gets.
pub(crate) struct Marks<'a> {
    /// The add-on whose member it is; none for what several add-ons may share.
    pub(crate) member_of: Option<&'a str>,
    /// The Helm release and its namespace, for objects of a chart.
    pub(crate) helm: Option<(&'a str, &'a str)>,
}

/// Marks an object, and gives the digest of what it was before.
pub(crate) fn add(body: &mut Value, marks: &Marks<'_>, seed: &Seed) -> String {
    let digest = digest::of_object(body, seed);
    let mut set = |group: &str, key: &str, value: &str| {
        let Some(metadata) = body["metadata"].as_object_mut() else { return };
        let entries = metadata.entry(group).or_insert_with(|| Value::Object(Map::new()));
        if let Some(entries) = entries.as_object_mut() {
            entries.insert(key.to_owned(), json!(value));
        }
    };
    set("annotations", DIGEST, &digest);
    if let Some(addon) = marks.member_of {
        set("labels", applyset::PART_OF, &applyset::id_of(addon));
    }
    if let Some((release, namespace)) = marks.helm {
        set("labels", MANAGED_BY, "Helm");
        set("annotations", HELM_RELEASE, release);
        set("annotations", HELM_NAMESPACE, namespace);
    }
    digest
}

/// The digest that a live object says it was applied with.
pub fn digest_of(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"][DIGEST].as_str()
}

/// An object without the marks that only Daedal and Helm add. The label that says who manages it stays, because charts write it themselves.
pub fn unmarked(body: &Value) -> Value {
    let mut body = body.clone();
    for (group, marks) in [
        ("annotations", [DIGEST, HELM_RELEASE, HELM_NAMESPACE].as_slice()),
        ("labels", [applyset::PART_OF].as_slice()),
    ] {
        let Some(metadata) = body["metadata"].as_object_mut() else { continue };
        let Some(entries) = metadata.get_mut(group).and_then(Value::as_object_mut) else { continue };
        entries.retain(|key, _| !marks.contains(&key.as_str()));
        if entries.is_empty() {
            metadata.shift_remove(group);
        }
    }
    body
}
