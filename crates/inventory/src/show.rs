//! The resolved cluster as text: every default and derived value for people to look at. References to secrets only.

use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::cluster::Cluster;
use crate::resolve::size;

/// Keys whose numbers are bytes.
const SIZES: [&str; 3] = ["memory", "disk", "memoryReserve"];

/// Why a resolved cluster could not be shown.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ShowError {
    /// It could not be turned into JSON.
    #[error("writing the resolved inventory as JSON")]
    Json(#[source] serde_json::Error),
    /// It could not be turned into YAML.
    #[error("writing the resolved inventory as YAML")]
    Yaml(#[source] yaml_serde::Error),
}

/// The resolved cluster for machines: sizes in bytes. Patches are named, not quoted, as they often hold secrets.
///
/// # Errors
/// If it cannot be written as JSON.
pub fn resolved_json(cluster: &Cluster) -> Result<Value, ShowError> {
    let mut value = serde_json::to_value(cluster).map_err(ShowError::Json)?;
    without_patch_texts(&mut value);
    Ok(value)
}

/// The resolved cluster for people, as YAML: sizes with units, and nothing that is empty.
///
/// # Errors
/// If it cannot be written as YAML.
pub fn resolved_yaml(cluster: &Cluster) -> Result<String, ShowError> {
    let value = readable(resolved_json(cluster)?);
    yaml_serde::to_string(&value).map_err(ShowError::Yaml)
}

fn without_patch_texts(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map.iter_mut() {
                if key == "patches" {
                    for patch in inner.as_array_mut().into_iter().flatten() {
                        let origin = patch.get("origin").cloned().unwrap_or_default();
                        let bytes = patch.get("text").and_then(Value::as_str).map_or(0, str::len);
                        *patch = json!({"origin": origin, "bytes": bytes});
                    }
                } else {
                    without_patch_texts(inner);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(without_patch_texts),
        _ => {}
    }
}

fn readable(value: Value) -> Value {
    let empty = |v: &Value| match v {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    match value {
        Value::Object(map) => {
            let entries = map.into_iter().map(|(key, inner)| match inner.as_u64() {
                Some(bytes) if SIZES.contains(&key.as_str()) => (key, Value::from(size::shown(bytes))),
                _ => (key, readable(inner)),
            });
            Value::Object(entries.filter(|(_, v)| !empty(v)).collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(readable).collect()),
        other => other,
    }
}
