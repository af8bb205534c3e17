//! Server-side apply: who owns which field, what conflicts, and what goes when its owner drops it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::merge::same_item;
use super::schema::{Merge, Shape};
use super::status::Refusal;
use super::store::timestamp;

/// A path of field elements as managed fields write them: `f:name`, `k:{…}`.
type Path = Vec<String>;

/// One writer's fields.
#[derive(Clone, Debug)]
struct Owner {
    manager: String,
    operation: String,
    subresource: String,
    api_version: String,
    time: String,
    fields: BTreeSet<Path>,
}

/// Who writes, and how.
pub(crate) struct Writer<'a> {
    pub(crate) manager: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) api_version: &'a str,
    /// How lists and maps of the kind are merged.
    pub(crate) shape: &'a Shape,
    pub(crate) force: bool,
    pub(crate) now: i64,
}

/// Applies a configuration to what is there (if anything).
pub(crate) fn apply(live: Option<&Value>, wanted: &Value, writer: &Writer<'_>) -> Result<Value, Refusal> {
    let mut wanted = wanted.clone();
    if let Some(metadata) = wanted["metadata"].as_object_mut() {
        metadata.remove("managedFields");
        for field in ["resourceVersion", "uid", "creationTimestamp", "generation"] {
            metadata.remove(field);
        }
    }
    let mut owners = live.map(read_owners).unwrap_or_default();
    let mut fields = BTreeSet::new();
    paths(&wanted, &mut Vec::new(), writer.shape, &mut fields);
    let empty = json!({});
    let before = live.unwrap_or(&empty);

    let mut conflicts: Vec<Conflict> = Vec::new();
    for owner in &mut owners {
        if owner.manager == writer.manager
            && owner.operation == "Apply"
            && owner.subresource == writer.subresource
        {
            continue;
        }
        let contested: Vec<Path> = owner
            .fields
            .intersection(&fields)
            .filter(|p| at(before, p).is_some() && at(before, p) != at(&wanted, p))
            .cloned()
            .collect();
        for path in contested {
            if writer.force {
                owner.fields.remove(&path);
            } else {
                conflicts.push((owner.shown(), shown(&path)));
            }
        }
    }
    if !conflicts.is_empty() {
        return Err(conflict(&conflicts));
    }

    let mut merged = before.clone();
    merge(&mut merged, &wanted, writer.shape);
    let mine = |o: &Owner| {
        o.manager == writer.manager && o.operation == "Apply" && o.subresource == writer.subresource
    };
    let previous = owners.iter().find(|o| mine(o)).map(|o| o.fields.clone()).unwrap_or_default();
    for dropped in previous.difference(&fields) {
        let others = owners.iter().filter(|o| !mine(o));
        let kept = others.flat_map(|o| &o.fields).chain(&fields).any(|p| p.starts_with(dropped));
        if !kept {
            remove(&mut merged, dropped);
        }
    }
    let time = match owners.iter().find(|o| mine(o)) {
        Some(owner) if owner.fields == fields && live == Some(&merged) => owner.time.clone(),
        _ => timestamp(writer.now),
    };
    owners.retain(|o| !mine(o) && !o.fields.is_empty());
    owners.push(Owner {
        manager: writer.manager.into(),
        operation: "Apply".into(),
        subresource: writer.subresource.into(),
        api_version: writer.api_version.into(),
        time,
        fields,
    });
    write_owners(&mut merged, &owners);
    Ok(merged)
}

/// Notes an ordinary write: the fields it changed are the writer's now.
pub(crate) fn note_update(before: Option<&Value>, after: &mut Value, writer: &Writer<'_>) {
    // Who writes managed fields means them; who leaves them out does not understand them.
    let given = after["metadata"]["managedFields"].as_array().is_some_and(|list| !list.is_empty());
    let mut owners = match before {
        Some(_) if given && writer.subresource.is_empty() => read_owners(after),
        before => before.map(read_owners).unwrap_or_default(),
    };
    let empty = json!({});
    let old = before.unwrap_or(&empty);
    let mut fields = BTreeSet::new();
    paths(after, &mut Vec::new(), writer.shape, &mut fields);
    let changed: BTreeSet<Path> = fields.iter().filter(|p| at(old, p) != at(after, p)).cloned().collect();
    for owner in &mut owners {
        owner.fields.retain(|p| !changed.contains(p) && at(after, p).is_some());
    }
    let mine = owners.iter_mut().find(|o| {
        o.manager == writer.manager && o.operation == "Update" && o.subresource == writer.subresource
    });
    if !changed.is_empty() {
        match mine {
            Some(owner) => {
                owner.fields.extend(changed);
                owner.time = timestamp(writer.now);
            }
            None => owners.push(Owner {
                manager: writer.manager.into(),
                operation: "Update".into(),
                subresource: writer.subresource.into(),
                api_version: writer.api_version.into(),
                time: timestamp(writer.now),
                fields: changed,
            }),
        }
    }
    owners.retain(|o| !o.fields.is_empty());
    write_owners(after, &owners);
}

/// Who owns a field, and the field.
type Conflict = (String, String);

impl Owner {
    /// As conflicts name it: how it wrote is said only where that was no apply.
    fn shown(&self) -> String {
        let mut text = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            text.push_str(&format!(" with subresource {:?}", self.subresource));
        }
        if self.operation == "Update" {
            text.push_str(&format!(" using {} at {}", self.api_version, self.time));
        }
        text
    }
}

fn conflict(conflicts: &[Conflict]) -> Refusal {
    let message = if let [(who, field)] = conflicts {
        format!("Apply failed with 1 conflict: conflict with {who}: {field}")
    } else {
        let mut by_owner: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (who, field) in conflicts {
            by_owner.entry(who).or_default().push(field);
        }
        let each = by_owner.iter().map(|(who, fields)| {
            let fields: Vec<String> = fields.iter().map(|field| format!("\n- {field}")).collect();
            format!("conflicts with {who}:{}", fields.concat())
        });
        let each: Vec<String> = each.collect();
        format!("Apply failed with {} conflicts: {}", conflicts.len(), each.join("\n"))
    };
    let mut refusal = Refusal::conflict(message);
    let cause = |(who, field): &Conflict| json!({"reason": "FieldManagerConflict", "message": format!("conflict with {who}"), "field": field});
    refusal.details = Some(json!({"causes": conflicts.iter().map(cause).collect::<Vec<_>>()}));
    refusal
}

fn skipped(path: &[String]) -> bool {
    const META: [&str; 10] = [
        "f:name",
        "f:namespace",
        "f:uid",
        "f:resourceVersion",
        "f:creationTimestamp",
        "f:generation",
        "f:managedFields",
        "f:selfLink",
        "f:deletionTimestamp",
        "f:generateName",
    ];
    match path {
        [one] => matches!(one.as_str(), "f:apiVersion" | "f:kind"),
        [one, two] => one == "f:metadata" && META.contains(&two.as_str()),
        _ => false,
    }
}

/// All leaf paths of a value; items of keyed lists and of sets are leaves of their own.
fn paths(value: &Value, path: &mut Path, shape: &Shape, out: &mut BTreeSet<Path>) {
    match (value, shape.merge()) {
        (Value::Object(object), _) if !object.is_empty() && !shape.is_whole() => {
            for (key, inner) in object {
                path.push(format!("f:{key}"));
                if !skipped(path) {
                    paths(inner, path, shape.field(key), out);
                }
                path.pop();
            }
        }
        (Value::Array(items), Merge::Keyed(keys)) => {
            for item in items {
                path.push(item_key(item, keys));
                out.insert(path.clone());
                paths(item, path, shape.item(), out);
                path.pop();
            }
        }
        (Value::Array(items), Merge::Set) => {
            for item in items {
                path.push(format!("v:{item}"));
                out.insert(path.clone());
                path.pop();
            }
        }
        _ => {
            if !path.is_empty() {
                out.insert(path.clone());
            }
        }
    }
}

fn item_key(item: &Value, keys: &[String]) -> String {
    let mut key = Map::new();
    let mut sorted: Vec<&String> = keys.iter().collect();
    sorted.sort_unstable();
    for name in sorted {
        let value = match item.get(name) {
            Some(value) => value.clone(),
            None if name == "protocol" => json!("TCP"),
            None => continue,
        };
        key.insert(name.clone(), value);
    }
    format!("k:{}", Value::Object(key))
}

fn at<'a>(value: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(value, |at, element| match element.split_once(':')? {
        ("f", name) => at.get(name),
        ("k", key) => {
            let key: Value = serde_json::from_str(key).ok()?;
            let names: Vec<&str> = key.as_object()?.keys().map(String::as_str).collect();
            at.as_array()?.iter().find(|item| same_item(item, &key, &names))
        }
        ("v", text) => {
            let wanted: Value = serde_json::from_str(text).ok()?;
            at.as_array()?.iter().find(|item| **item == wanted)
        }
        _ => None,
    })
}

fn remove(value: &mut Value, path: &[String]) {
    let Some((last, parents)) = path.split_last() else { return };
    let mut at = value;
    for element in parents {
        let next = match element.split_once(':') {
            Some(("f", name)) => at.get_mut(name),
            Some(("k", key)) => {
                let Ok(key) = serde_json::from_str::<Value>(key) else { return };
                let names: Vec<String> =
                    key.as_object().into_iter().flatten().map(|(k, _)| k.clone()).collect();
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                at.as_array_mut().and_then(|l| l.iter_mut().find(|i| same_item(i, &key, &names)))
            }
            _ => None,
        };
        let Some(next) = next else { return };
        at = next;
    }
    match last.split_once(':') {
        Some(("f", name)) => {
            if let Some(object) = at.as_object_mut() {
                object.shift_remove(name);
            }
        }
        Some(("k", key)) => {
            let Ok(key) = serde_json::from_str::<Value>(key) else { return };
            let names: Vec<String> = key.as_object().into_iter().flatten().map(|(k, _)| k.clone()).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            if let Some(list) = at.as_array_mut() {
                list.retain(|i| !same_item(i, &key, &names));
            }
        }
        Some(("v", text)) => {
            let Ok(gone) = serde_json::from_str::<Value>(text) else { return };
            if let Some(list) = at.as_array_mut() {
                list.retain(|item| *item != gone);
            }
        }
        _ => {}
    }
}

fn merge(target: &mut Value, wanted: &Value, shape: &Shape) {
    match (wanted, shape.merge()) {
        (Value::Object(wanted), _) if !shape.is_whole() => {
            if !target.is_object() {
                *target = json!({});
            }
            let Some(object) = target.as_object_mut() else { return };
            for (key, value) in wanted {
                merge(object.entry(key.clone()).or_insert(Value::Null), value, shape.field(key));
            }
        }
        (Value::Array(items), Merge::Keyed(keys)) => {
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            let mut list = target.as_array().cloned().unwrap_or_default();
            for item in items {
                match list.iter_mut().find(|l| same_item(l, item, &keys)) {
                    Some(existing) => merge(existing, item, shape.item()),
                    None => list.push(item.clone()),
                }
            }
            *target = Value::Array(list);
        }
        (Value::Array(items), Merge::Set) => {
            let mut list = target.as_array().cloned().unwrap_or_default();
            list.extend(items.iter().filter(|item| !list.contains(item)).cloned().collect::<Vec<_>>());
            *target = Value::Array(list);
        }
        (other, _) => *target = other.clone(),
    }
}

/// A path as messages show it.
fn shown(path: &[String]) -> String {
    path.iter()
        .map(|element| match element.split_once(':') {
            Some(("f", name)) => format!(".{name}"),
            Some(("k", key)) => {
                let key: Value = serde_json::from_str(key).unwrap_or_default();
                let parts = key.as_object().into_iter().flatten().map(|(k, v)| format!("{k}={v}"));
                format!("[{}]", parts.collect::<Vec<_>>().join(","))
            }
            Some(("v", text)) => format!("[={text}]"),
            _ => element.clone(),
        })
        .collect()
}

fn read_owners(object: &Value) -> Vec<Owner> {
    let entries = object["metadata"]["managedFields"].as_array();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    entries
        .into_iter()
        .flatten()
        .map(|entry| {
            let mut fields = BTreeSet::new();
            read_fields(&entry["fieldsV1"], &mut Vec::new(), &mut fields);
            Owner {
                manager: text(&entry["manager"]),
                operation: text(&entry["operation"]),
                subresource: text(&entry["subresource"]),
                api_version: text(&entry["apiVersion"]),
                time: text(&entry["time"]),
                fields,
            }
        })
        .collect()
}

fn read_fields(value: &Value, path: &mut Path, out: &mut BTreeSet<Path>) {
    let Some(object) = value.as_object() else { return };
    if object.is_empty() && !path.is_empty() {
        out.insert(path.clone());
    }
    for (key, inner) in object {
        if key == "." {
            out.insert(path.clone());
        } else {
            path.push(key.clone());
            read_fields(inner, path, out);
            path.pop();
        }
    }
}

fn write_owners(object: &mut Value, owners: &[Owner]) {
    let entries: Vec<Value> = owners
        .iter()
        .map(|owner| {
            let mut tree = json!({});
            for path in &owner.fields {
                let mut at = &mut tree;
                for element in path {
                    at = &mut at[element];
                    if at.is_null() {
                        *at = json!({});
                    }
                }
                let deeper = owner.fields.iter().any(|p| p.len() > path.len() && p.starts_with(path));
                if deeper {
                    at["."] = json!({});
                }
            }
            let mut entry = json!({
                "manager": owner.manager, "operation": owner.operation, "apiVersion": owner.api_version,
                "time": owner.time, "fieldsType": "FieldsV1", "fieldsV1": tree,
            });
            if !owner.subresource.is_empty() {
                entry["subresource"] = json!(owner.subresource);
            }
            entry
        })
        .collect();
    object["metadata"]["managedFields"] = json!(entries);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writer(manager: &'static str, force: bool) -> Writer<'static> {
        static SHAPE: std::sync::LazyLock<Shape> =
            std::sync::LazyLock::new(|| crate::kubernetes::schema::built_in("", "v1", "Pod"));
        Writer { manager, subresource: "", api_version: "v1", shape: &SHAPE, force, now: 0 }
    }

    #[test]
    fn a_set_is_owned_one_by_one_and_a_selector_as_a_whole() {
        let pod = |finalizers: Value, selector: Value| json!({"metadata": {"name": "x", "finalizers": finalizers}, "spec": {"nodeSelector": selector}});
        let first = apply(None, &pod(json!(["a"]), json!({"x": "1"})), &writer("one", false)).unwrap();
        let refusal =
            apply(Some(&first), &pod(json!(["b"]), json!({"y": "2"})), &writer("two", false)).unwrap_err();
        assert!(refusal.message.ends_with(": .spec.nodeSelector"), "{}", refusal.message);
        let second =
            apply(Some(&first), &pod(json!(["b"]), json!({"y": "2"})), &writer("two", true)).unwrap();
        assert_eq!(second["metadata"]["finalizers"], json!(["a", "b"]));
        assert_eq!(second["spec"]["nodeSelector"], json!({"y": "2"}));
        let third = apply(Some(&second), &pod(json!([]), json!({"y": "2"})), &writer("two", true)).unwrap();
        assert_eq!(third["metadata"]["finalizers"], json!(["a"]));
    }

    #[allow(clippy::needless_pass_by_value, reason = "reads better at the calls")]
    fn config(data: Value) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": data})
    }

    #[test]
    fn what_its_only_owner_drops_goes() {
        let first = apply(None, &config(json!({"a": "1", "b": "2"})), &writer("one", false)).unwrap();
        let second = apply(Some(&first), &config(json!({"a": "1"})), &writer("one", false)).unwrap();
        assert_eq!(second["data"], json!({"a": "1"}));
        let again = apply(Some(&second), &config(json!({"a": "1"})), &writer("one", false)).unwrap();
        assert_eq!(again, second);
    }

    #[test]
    fn another_owners_value_is_a_conflict_until_forced() {
        let first = apply(None, &config(json!({"a": "1", "b": "2"})), &writer("one", false)).unwrap();
        let refusal = apply(Some(&first), &config(json!({"a": "9"})), &writer("two", false)).unwrap_err();
        assert_eq!(refusal.reason, "Conflict");
        assert_eq!(refusal.message, "Apply failed with 1 conflict: conflict with \"one\": .data.a");
        let two =
            apply(Some(&first), &config(json!({"a": "8", "b": "9"})), &writer("two", false)).unwrap_err();
        let wanted = "Apply failed with 2 conflicts: conflicts with \"one\":\n- .data.a\n- .data.b";
        assert_eq!(
            (two.message.as_str(), two.details.unwrap()["causes"].as_array().unwrap().len()),
            (wanted, 2)
        );
        let forced = apply(Some(&first), &config(json!({"a": "9"})), &writer("two", true)).unwrap();
        assert_eq!(forced["data"], json!({"a": "9", "b": "2"}));
        // The first no longer owns it, so dropping it changes nothing.
        let dropped = apply(Some(&forced), &config(json!({"b": "2"})), &writer("one", false)).unwrap();
        assert_eq!(dropped["data"], json!({"a": "9", "b": "2"}));
        // The same value is shared, not contested.
        apply(Some(&first), &config(json!({"a": "1"})), &writer("three", false)).unwrap();
    }

    #[test]
    fn containers_are_owned_one_by_one() {
        let pod = |containers: Value| json!({"metadata": {"name": "x"}, "spec": {"containers": containers}});
        let first = apply(None, &pod(json!([{"name": "a", "image": "1"}])), &writer("one", false)).unwrap();
        let second =
            apply(Some(&first), &pod(json!([{"name": "b", "image": "2"}])), &writer("two", false)).unwrap();
        assert_eq!(second["spec"]["containers"].as_array().unwrap().len(), 2);
        let third = apply(Some(&second), &pod(json!([])), &writer("two", false)).unwrap();
        assert_eq!(third["spec"]["containers"], json!([{"name": "a", "image": "1"}]));
    }

    #[test]
    fn managed_fields_can_be_handed_over_and_forgotten() {
        let mut first = config(json!({"a": "1"}));
        note_update(None, &mut first, &writer("kubectl", false));
        let mut handed = first.clone();
        handed["metadata"]["managedFields"][0]["manager"] = json!("daedal");
        handed["metadata"]["managedFields"][0]["operation"] = json!("Apply");
        note_update(Some(&first), &mut handed, &writer("mover", false));
        let second = apply(Some(&handed), &config(json!({})), &writer("daedal", false)).unwrap();
        assert_eq!(second["data"], json!({}), "it was owned, so it goes");
        let mut forgotten = first.clone();
        forgotten["metadata"]["managedFields"] = json!([{}]);
        note_update(Some(&first), &mut forgotten, &writer("mover", false));
        assert_eq!(forgotten["metadata"]["managedFields"], json!([]));
        let mut ignorant = first.clone();
        ignorant["metadata"]["managedFields"] = json!([]);
        note_update(Some(&first), &mut ignorant, &writer("mover", false));
        assert_eq!(ignorant["metadata"]["managedFields"], first["metadata"]["managedFields"]);
    }

    #[test]
    fn an_ordinary_write_takes_over_what_it_changes() {
        let first = apply(None, &config(json!({"a": "1", "b": "2"})), &writer("one", false)).unwrap();
        let mut edited = first.clone();
        edited["data"]["a"] = json!("5");
        note_update(Some(&first), &mut edited, &writer("editor", false));
        let refusal =
            apply(Some(&edited), &config(json!({"a": "1", "b": "2"})), &writer("one", false)).unwrap_err();
        let wanted = "conflict with \"editor\" using v1 at 1970-01-01T00:00:00Z: .data.a";
        assert!(refusal.message.ends_with(wanted), "{}", refusal.message);
    }
}
