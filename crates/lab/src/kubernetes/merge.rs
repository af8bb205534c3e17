//! Patches: JSON merge patch, strategic merge patch, JSON patch; and which lists are merged by key.

use serde_json::{Map, Value};

/// The fields that identify the items of a list, for lists that are merged item by item.
pub(crate) fn list_keys(field: &str, parent: &str) -> Option<&'static [&'static str]> {
    Some(match field {
        "containers"
        | "initContainers"
        | "ephemeralContainers"
        | "volumes"
        | "env"
        | "imagePullSecrets"
        | "webhooks" => &["name"],
        "volumeMounts" => &["mountPath"],
        "volumeDevices" => &["devicePath"],
        "ports" if parent == "containers" || parent == "initContainers" => &["containerPort", "protocol"],
        "ports" if parent == "spec" => &["port", "protocol"],
        "conditions" => &["type"],
        "ownerReferences" => &["uid"],
        "hostAliases" => &["ip"],
        "topologySpreadConstraints" => &["topologyKey", "whenUnsatisfiable"],
        _ => return None,
    })
}

/// Whether two list items are the same item.
pub(crate) fn same_item(a: &Value, b: &Value, keys: &[&str]) -> bool {
    keys.iter().all(|key| {
        let fallback = |v: &Value| match v.get(key) {
            Some(value) => value.clone(),
            None if *key == "protocol" => Value::from("TCP"),
            None => Value::Null,
        };
        fallback(a) == fallback(b)
    })
}

/// RFC 7386.
pub(crate) fn json_merge(target: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(object) = target.as_object_mut() else { return };
    for (key, value) in patch {
        if value.is_null() {
            object.remove(key);
        } else {
            json_merge(object.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

/// Kubernetes' own merge: as above, with known lists merged by key and `$patch` directives.
pub(crate) fn strategic(target: &mut Value, patch: &Value, field: &str, parent: &str) {
    match patch {
        Value::Object(patch) => {
            if patch.get("$patch").and_then(Value::as_str) == Some("replace") {
                let mut replacement = patch.clone();
                replacement.remove("$patch");
                *target = Value::Object(replacement);
                return;
            }
            if !target.is_object() {
                *target = Value::Object(Map::new());
            }
            let Some(object) = target.as_object_mut() else { return };
            for (key, value) in patch.iter().filter(|(k, _)| !k.starts_with('$')) {
                if value.is_null() || value.get("$patch").and_then(Value::as_str) == Some("delete") {
                    object.remove(key);
                } else {
                    strategic(object.entry(key.clone()).or_insert(Value::Null), value, key, field);
                }
            }
        }
        Value::Array(items) => {
            if field == "finalizers" {
                let mut all = target.as_array().cloned().unwrap_or_default();
                all.extend(
                    items.iter().filter(|i| !target.as_array().is_some_and(|t| t.contains(i))).cloned(),
                );
                *target = Value::Array(all);
                return;
            }
            let Some(keys) = list_keys(field, parent) else {
                *target = patch.clone();
                return;
            };
            let mut merged = target.as_array().cloned().unwrap_or_default();
            for item in items {
                let found = merged.iter().position(|m| same_item(m, item, keys));
                let delete = item.get("$patch").and_then(Value::as_str) == Some("delete");
                match (found, delete) {
                    (Some(at), true) => {
                        merged.remove(at);
                    }
                    (Some(at), false) => strategic(&mut merged[at], item, field, parent),
                    (None, true) => {}
                    (None, false) => merged.push(item.clone()),
                }
            }
            *target = Value::Array(merged);
        }
        other => *target = other.clone(),
    }
}

/// RFC 6902. An error says which operation could not be done.
pub(crate) fn json_patch(target: &mut Value, operations: &Value) -> Result<(), String> {
    let operations = operations.as_array().ok_or("a JSON patch is a list of operations")?;
    for operation in operations {
        let kind = operation["op"].as_str().unwrap_or_default();
        let path = operation["path"].as_str().ok_or("an operation has no path")?;
        match kind {
            "add" => add(target, path, operation["value"].clone())?,
            "remove" => drop(take(target, path)?),
            "replace" => {
                take(target, path)?;
                add(target, path, operation["value"].clone())?;
            }
            "test" => {
                if target.pointer(path) != Some(&operation["value"]) {
                    return Err(format!("testing value {path} failed"));
                }
            }
            "move" => {
                let value = take(target, operation["from"].as_str().unwrap_or_default())?;
                add(target, path, value)?;
            }
            "copy" => {
                let from = operation["from"].as_str().unwrap_or_default();
                let value = target.pointer(from).cloned().ok_or_else(|| format!("nothing at {from}"))?;
                add(target, path, value)?;
            }
            other => return Err(format!("unknown operation {other:?}")),
        }
    }
    Ok(())
}

fn parent_of<'a>(target: &'a mut Value, path: &str) -> Result<(&'a mut Value, String), String> {
    let (parent, last) =
        path.rsplit_once('/').ok_or_else(|| format!("path {path:?} does not start with a slash"))?;
    let parent = target.pointer_mut(parent).ok_or_else(|| format!("nothing at {path}"))?;
    Ok((parent, last.replace("~1", "/").replace("~0", "~")))
}

fn add(target: &mut Value, path: &str, value: Value) -> Result<(), String> {
    if path.is_empty() {
        *target = value;
        return Ok(());
    }
    let (parent, last) = parent_of(target, path)?;
    match parent {
        Value::Object(object) => {
            object.insert(last, value);
            Ok(())
        }
        Value::Array(list) if last == "-" => {
            list.push(value);
            Ok(())
        }
        Value::Array(list) => match last.parse::<usize>() {
            Ok(index) if index <= list.len() => {
                list.insert(index, value);
                Ok(())
            }
            _ => Err(format!("no place {last} in the list")),
        },
        _ => Err(format!("nothing at {path}")),
    }
}

fn take(target: &mut Value, path: &str) -> Result<Value, String> {
    let (parent, last) = parent_of(target, path)?;
    let taken = match parent {
        Value::Object(object) => object.shift_remove(&last),
        Value::Array(list) => last.parse::<usize>().ok().filter(|i| *i < list.len()).map(|i| list.remove(i)),
        _ => None,
    };
    taken.ok_or_else(|| format!("nothing at {path}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn merge_patches_remove_with_null() {
        let mut object = json!({"a": {"b": 1, "c": 2}, "l": [1, 2]});
        json_merge(&mut object, &json!({"a": {"b": null, "d": 3}, "l": [9]}));
        assert_eq!(object, json!({"a": {"c": 2, "d": 3}, "l": [9]}));
    }

    #[test]
    fn strategic_patches_merge_containers_by_name() {
        let mut object =
            json!({"spec": {"containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}]}});
        let patch = json!({"spec": {"containers": [{"name": "a", "image": "z"}, {"name": "b", "$patch": "delete"}, {"name": "c"}]}});
        strategic(&mut object, &patch, "", "");
        assert_eq!(object, json!({"spec": {"containers": [{"name": "a", "image": "z"}, {"name": "c"}]}}));
    }

    #[test]
    fn json_patches_follow_their_order() {
        let mut object = json!({"a": [1], "b": {"x/y": 1}});
        let patch = json!([
            {"op": "test", "path": "/a/0", "value": 1},
            {"op": "add", "path": "/a/-", "value": 2},
            {"op": "remove", "path": "/b/x~1y"},
            {"op": "replace", "path": "/a/0", "value": 5},
        ]);
        json_patch(&mut object, &patch).unwrap();
        assert_eq!(object, json!({"a": [5, 2], "b": {}}));
        assert!(json_patch(&mut object, &json!([{"op": "remove", "path": "/c"}])).is_err());
    }
}
