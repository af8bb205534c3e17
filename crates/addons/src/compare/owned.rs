//! Fields that were applied before and are no longer said: a server-side apply takes them away.

use serde_json::{Map, Value};

use super::{Compared, Step};
use crate::MANAGER;
use crate::marks::DIGEST;

/// Adds the fields that only we own and that the object no longer says.
pub(super) fn removed(want: &Value, live: &Value, compared: &mut Compared<'_>) {
    let entries = || live["metadata"]["managedFields"].as_array().into_iter().flatten();
    let is_ours = |entry: &Value| {
        entry["manager"] == MANAGER
            && entry["operation"] == "Apply"
            && entry["subresource"].as_str().unwrap_or_default().is_empty()
    };
    let others: Vec<&Value> = entries().filter(|e| !is_ours(e)).map(|e| &e["fieldsV1"]).collect();
    for ours in entries().filter(|e| is_ours(e)) {
        walk(&ours["fieldsV1"], &others, Some(want), live, compared);
    }
}

fn walk(ours: &Value, others: &[&Value], want: Option<&Value>, live: &Value, compared: &mut Compared<'_>) {
    for (key, below) in ours.as_object().into_iter().flatten() {
        let Some((step, found)) = child(key, live, compared) else { continue };
        let said = want.and_then(|want| said(key, want, live)).filter(|value| !value.is_null());
        let others: Vec<&Value> = others.iter().filter_map(|other| other.get(key)).collect();
        if step == Step::Field(DIGEST.to_owned()) {
            continue;
        }
        compared.path.push(step);
        let leaf = below.as_object().is_none_or(Map::is_empty);
        match said {
            Some(said) if !leaf => walk(below, &others, Some(said), found, compared),
            Some(_) => {}
            // What goes comes back as its default, which is what it is.
            None if others.is_empty() && compared.says_nothing(found) => {}
            None if others.is_empty() => compared.changed(Some(found), None),
            None if !leaf => walk(below, &others, None, found, compared),
            None => {}
        }
        compared.path.pop();
    }
}

/// What a key of `fieldsV1` stands for in a live object.
fn child<'a>(key: &str, live: &'a Value, compared: &Compared<'_>) -> Option<(Step, &'a Value)> {
    if let Some(name) = key.strip_prefix("f:") {
        return Some((Step::Field(name.to_owned()), live.get(name)?));
    }
    let items = live.as_array()?;
    if let Some(keys) = key.strip_prefix("k:") {
        let keys: Map<String, Value> = serde_json::from_str(keys).ok()?;
        let item = items.iter().find(|item| has(item, &keys))?;
        let shown: Vec<String> =
            keys.values().map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned)).collect();
        let name = match super::keys::of(compared.kind, &compared.fields(), items) {
            Some(known) => super::keys::shown(item, known),
            None => shown.join("/"),
        };
        return Some((Step::Element(name), item));
    }
    let value: Value = serde_json::from_str(key.strip_prefix("v:")?).ok()?;
    let item = items.iter().find(|item| **item == value)?;
    Some((Step::Element(item.as_str().map_or_else(|| item.to_string(), str::to_owned)), item))
}

/// The same of the object as it is wanted.
fn said<'a>(key: &str, want: &'a Value, live: &Value) -> Option<&'a Value> {
    if let Some(name) = key.strip_prefix("f:") {
        return want.get(name);
    }
    let items = want.as_array()?;
    if let Some(keys) = key.strip_prefix("k:") {
        let keys: Map<String, Value> = serde_json::from_str(keys).ok()?;
        let live = live.as_array()?.iter().find(|item| has(item, &keys))?;
        // A key that is not written has its default, which the live object shows.
        return items.iter().find(|item| keys.keys().all(|k| item.get(k).is_none_or(|v| *v == live[k])));
    }
    let value: Value = serde_json::from_str(key.strip_prefix("v:")?).ok()?;
    items.iter().find(|item| **item == value)
}

fn has(item: &Value, keys: &Map<String, Value>) -> bool {
    keys.iter().all(|(key, value)| item[key] == *value)
}
