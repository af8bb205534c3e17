//! Lists whose elements are told apart by keys, as the types of Kubernetes say.

use serde_json::Value;

/// Keys of an element, and what a key is when it is not written.
pub(super) type Keys = &'static [(&'static str, Option<&'static str>)];

const NAME: Keys = &[("name", None)];
const PROTOCOL: (&str, Option<&str>) = ("protocol", Some("TCP"));

/// The keys of a list in Kubernetes' own kinds, by the names of the fields on the way to it; none if it is one value as a whole.
pub(super) fn of(kind: &str, path: &[&str], items: &[Value]) -> Option<Keys> {
    let field = *path.last()?;
    let keys: Keys = match field {
        // As a whole it is the account's.
        "imagePullSecrets" if kind == "ServiceAccount" => return None,
        "containers"
        | "initContainers"
        | "ephemeralContainers"
        | "volumes"
        | "env"
        | "imagePullSecrets"
        | "resourceClaims"
        | "claims"
        | "schedulingGates" => NAME,
        "secrets" if kind == "ServiceAccount" => NAME,
        "webhooks" if kind.ends_with("WebhookConfiguration") => NAME,
        "matchConditions" => NAME,
        "ports" if kind == "Service" && path.len() == 2 => &[("port", None), PROTOCOL],
        "ports" if path.contains(&"containers") || path.contains(&"initContainers") => {
            &[("containerPort", None), PROTOCOL]
        }
        "volumeMounts" => &[("mountPath", None)],
        "volumeDevices" => &[("devicePath", None)],
        "hostAliases" => &[("ip", None)],
        "topologySpreadConstraints" => &[("topologyKey", None), ("whenUnsatisfiable", None)],
        "conditions" => &[("type", None)],
        "ownerReferences" => &[("uid", None)],
        _ => return None,
    };
    let complete =
        |item: &Value| keys.iter().all(|(key, otherwise)| otherwise.is_some() || !item[*key].is_null());
    // Elements that share their keys can only be told apart by their place.
    let distinct = items.iter().enumerate().all(|(i, a)| items.iter().skip(i + 1).all(|b| !same(a, b, keys)));
    (items.iter().all(complete) && distinct).then_some(keys)
}

fn key(item: &Value, (key, otherwise): (&'static str, Option<&'static str>)) -> String {
    match (&item[key], otherwise) {
        (Value::Null, Some(otherwise)) => otherwise.to_owned(),
        (Value::String(text), _) => text.clone(),
        (other, _) => other.to_string(),
    }
}

/// Whether two elements are the same one.
pub(super) fn same(a: &Value, b: &Value, keys: Keys) -> bool {
    keys.iter().all(|k| key(a, *k) == key(b, *k))
}

/// An element as a path shows it.
pub(super) fn shown(item: &Value, keys: Keys) -> String {
    keys.iter().map(|k| key(item, *k)).collect::<Vec<_>>().join("/")
}
