//! Objects as rows for people, as `kubectl get` asks for them.

use std::borrow::Borrow;

use serde_json::{Value, json};

use super::resources::Resource;

/// A column: name, type, priority (1: only with `-o wide`), and how to fill it.
type Column = (&'static str, &'static str, u8, fn(&Value, i64) -> Value);

/// A table of objects.
pub(crate) fn table<V: Borrow<Value>>(
    resource: &Resource,
    objects: &[V],
    now: i64,
    revision: Option<&str>,
) -> Value {
    let columns = built_in(&resource.plural);
    let mut definitions: Vec<Value> = columns
        .iter()
        .map(|(name, kind, priority, _)| {
            json!({"name": name, "type": kind, "format": if *name == "Name" { "name" } else { "" },
                   "description": "", "priority": priority})
        })
        .collect();
    for column in &resource.columns {
        definitions.push(json!({
            "name": column["name"], "type": column["type"], "format": column["format"].as_str().unwrap_or_default(),
            "description": column["description"].as_str().unwrap_or_default(),
            "priority": column["priority"].as_u64().unwrap_or(0),
        }));
    }
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| {
            let object: &Value = object.borrow();
            let mut cells: Vec<Value> = columns.iter().map(|(.., fill)| fill(object, now)).collect();
            for column in &resource.columns {
                let value = json_path(object, column["jsonPath"].as_str().unwrap_or_default());
                let value = if column["type"] == "date" { age_of(&value, now) } else { value };
                cells.push(value);
            }
            json!({
                "cells": cells,
                "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]},
            })
        })
        .collect();
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": revision.unwrap_or_default()},
        "columnDefinitions": definitions, "rows": rows,
    })
}

const NAME: Column = ("Name", "string", 0, |o, _| o["metadata"]["name"].clone());
const AGE: Column = ("Age", "string", 0, |o, now| age_of(&o["metadata"]["creationTimestamp"], now));

fn built_in(plural: &str) -> Vec<Column> {
    match plural {
        "nodes" => vec![
            NAME,
            ("Status", "string", 0, |o, _| json!(node_status(o))),
            ("Roles", "string", 0, |o, _| json!(node_roles(o))),
            AGE,
            ("Version", "string", 0, |o, _| o["status"]["nodeInfo"]["kubeletVersion"].clone()),
            ("Internal-IP", "string", 1, |o, _| json!(node_address(o, "InternalIP"))),
            ("External-IP", "string", 1, |o, _| json!(node_address(o, "ExternalIP"))),
            ("OS-Image", "string", 1, |o, _| o["status"]["nodeInfo"]["osImage"].clone()),
            ("Kernel-Version", "string", 1, |o, _| o["status"]["nodeInfo"]["kernelVersion"].clone()),
            ("Container-Runtime", "string", 1, |o, _| {
                o["status"]["nodeInfo"]["containerRuntimeVersion"].clone()
            }),
        ],
        "pods" => vec![
            NAME,
            ("Ready", "string", 0, |o, _| json!(pod_ready(o))),
            ("Status", "string", 0, |o, _| {
                if o["metadata"]["deletionTimestamp"].is_string() {
                    json!("Terminating")
                } else {
                    o["status"]["phase"].clone()
                }
            }),
            ("Restarts", "string", 0, |o, _| {
                let restarts = o["status"]["containerStatuses"].as_array().into_iter().flatten();
                json!(restarts.filter_map(|c| c["restartCount"].as_u64()).sum::<u64>().to_string())
            }),
            AGE,
            ("IP", "string", 1, |o, _| or_none(&o["status"]["podIP"])),
            ("Node", "string", 1, |o, _| or_none(&o["spec"]["nodeName"])),
            ("Nominated Node", "string", 1, |_, _| json!("<none>")),
            ("Readiness Gates", "string", 1, |_, _| json!("<none>")),
        ],
        "namespaces" => vec![NAME, ("Status", "string", 0, |o, _| o["status"]["phase"].clone()), AGE],
        "services" => vec![
            NAME,
            ("Type", "string", 0, |o, _| o["spec"]["type"].clone()),
            ("Cluster-IP", "string", 0, |o, _| or_none(&o["spec"]["clusterIP"])),
            ("External-IP", "string", 0, |_, _| json!("<none>")),
            ("Port(s)", "string", 0, |o, _| {
                let ports = o["spec"]["ports"].as_array().into_iter().flatten();
                let shown =
                    ports.map(|p| format!("{}/{}", p["port"], p["protocol"].as_str().unwrap_or("TCP")));
                json!(shown.collect::<Vec<_>>().join(","))
            }),
            AGE,
        ],
        "deployments" => vec![
            NAME,
            ("Ready", "string", 0, |o, _| {
                json!(format!("{}/{}", number(&o["status"]["readyReplicas"]), number(&o["spec"]["replicas"])))
            }),
            ("Up-to-date", "integer", 0, |o, _| json!(number(&o["status"]["updatedReplicas"]))),
            ("Available", "integer", 0, |o, _| json!(number(&o["status"]["availableReplicas"]))),
            AGE,
        ],
        "daemonsets" => vec![
            NAME,
            ("Desired", "integer", 0, |o, _| json!(number(&o["status"]["desiredNumberScheduled"]))),
            ("Current", "integer", 0, |o, _| json!(number(&o["status"]["currentNumberScheduled"]))),
            ("Ready", "integer", 0, |o, _| json!(number(&o["status"]["numberReady"]))),
            AGE,
        ],
        "configmaps" | "secrets" => vec![
            NAME,
            ("Data", "integer", 0, |o, _| json!(o["data"].as_object().map_or(0, serde_json::Map::len))),
            AGE,
        ],
        "customresourcedefinitions" => {
            vec![NAME, ("Created At", "string", 0, |o, _| o["metadata"]["creationTimestamp"].clone())]
        }
        _ => vec![NAME, AGE],
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn or_none(value: &Value) -> Value {
    value.as_str().map_or_else(|| json!("<none>"), |text| json!(text))
}

fn node_status(node: &Value) -> String {
    let conditions = node["status"]["conditions"].as_array();
    let ready = conditions.into_iter().flatten().find(|c| c["type"] == "Ready");
    let mut text = match ready.and_then(|c| c["status"].as_str()) {
        Some("True") => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if node["spec"]["unschedulable"] == true {
        text.push_str(",SchedulingDisabled");
    }
    text
}

fn node_roles(node: &Value) -> String {
    let labels = node["metadata"]["labels"].as_object();
    let mut roles: Vec<&str> = labels
        .into_iter()
        .flatten()
        .filter_map(|(k, _)| k.strip_prefix("node-role.kubernetes.io/"))
        .collect();
    roles.sort_unstable();
    if roles.is_empty() { "<none>".into() } else { roles.join(",") }
}

fn node_address(node: &Value, kind: &str) -> String {
    let addresses = node["status"]["addresses"].as_array();
    let found = addresses.into_iter().flatten().find(|a| a["type"] == kind);
    found.and_then(|a| a["address"].as_str()).unwrap_or("<none>").to_owned()
}

fn pod_ready(pod: &Value) -> String {
    let all = pod["spec"]["containers"].as_array().map_or(0, Vec::len);
    let statuses = pod["status"]["containerStatuses"].as_array();
    let ready = statuses.into_iter().flatten().filter(|c| c["ready"] == true).count();
    format!("{ready}/{all}")
}

/// The time since a timestamp, in the two largest units that matter.
fn age_of(timestamp: &Value, now: i64) -> Value {
    let Some(then) = timestamp.as_str().and_then(|t| t.parse::<jiff::Timestamp>().ok()) else {
        return json!("<unknown>");
    };
    let seconds = (now - then.as_second()).max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    json!(match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 && seconds % 60 > 0 => format!("{minutes}m{}s", seconds % 60),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 && minutes % 60 > 0 => format!("{hours}h{}m", minutes % 60),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 && hours % 24 > 0 => format!("{days}d{}h", hours % 24),
        () => format!("{days}d"),
    })
}

/// The simple paths that printer columns use: names, indices and `[?(@.type=="Ready")]` filters.
fn json_path(object: &Value, path: &str) -> Value {
    let mut at = object;
    let mut rest = path.trim_start_matches('.');
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let Some((inside, after)) = inner.split_once(']') else { return Value::Null };
            at = match inside.strip_prefix("?(@.") {
                Some(filter) => {
                    let Some((key, value)) = filter.trim_end_matches(')').split_once("==") else {
                        return Value::Null;
                    };
                    let value = value.trim().trim_matches(['"', '\'']);
                    let items = at.as_array().into_iter().flatten();
                    match items.into_iter().find(|i| i[key.trim()] == value) {
                        Some(found) => found,
                        None => return Value::Null,
                    }
                }
                None => match inside.parse::<usize>() {
                    Ok(index) => &at[index],
                    Err(_) => &at[inside.trim_matches(['"', '\''])],
                },
            };
            rest = after.trim_start_matches('.');
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            at = &at[&rest[..end]];
            rest = rest[end..].trim_start_matches('.');
        }
    }
    at.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_read_like_kubectl() {
        let now = 1_000_000;
        for (seconds, text) in
            [(5, "5s"), (119, "119s"), (300, "5m"), (301, "5m1s"), (7200, "120m"), (90_000, "25h")]
        {
            let then = super::super::store::timestamp(now - seconds);
            assert_eq!(age_of(&json!(then), now), json!(text));
        }
    }

    #[test]
    fn paths_find_conditions() {
        let object = json!({"status": {"conditions": [{"type": "A", "status": "x"}, {"type": "Ready", "status": "True"}]}});
        assert_eq!(json_path(&object, ".status.conditions[?(@.type==\"Ready\")].status"), json!("True"));
        assert_eq!(json_path(&object, ".status.conditions[0].status"), json!("x"));
        assert_eq!(json_path(&object, ".spec.none"), Value::Null);
    }
}
