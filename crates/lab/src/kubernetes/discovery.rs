//! How clients learn what is served: versions, groups, resources, OpenAPI.

use std::collections::BTreeMap;

use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::resources::{self, Resource};
use super::status::Refusal;
use super::store::Store;
use crate::http::{Body, full};

/// `/version`, from the newest control plane's kubelet.
pub(crate) fn version(store: &Store) -> Value {
    let (nodes, _) = store.list("nodes", None);
    let versions = nodes.iter().filter_map(|n| n["status"]["nodeInfo"]["kubeletVersion"].as_str());
    let version = versions.max().unwrap_or("v1.35.0").to_owned();
    let minor = version.split('.').nth(1).unwrap_or("35");
    json!({
        "major": "1", "minor": minor, "gitVersion": version, "gitCommit": "lab", "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z", "goVersion": "go1.26.0", "compiler": "gc", "platform": "linux/amd64",
    })
}

/// Answers a discovery path; none when it is none.
pub(crate) fn answer(store: &Store, path: &str, accept: &str) -> Option<Response<Body>> {
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let aggregated =
        accept.contains("g=apidiscovery.k8s.io") && accept.contains("v=v2;") || accept.ends_with("v=v2");
    let value = match parts.as_slice() {
        ["api" | "apis"] if aggregated => return Some(aggregate(store, parts[0] == "api")),
        ["api"] => json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}),
        ["apis"] => {
            let list: Vec<Value> =
                groups(store).iter().map(|(name, versions)| group(name, versions)).collect();
            json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": list})
        }
        ["apis", name] => {
            let groups = groups(store);
            let mut value = group(name, groups.get(*name)?);
            value["kind"] = json!("APIGroup");
            value["apiVersion"] = json!("v1");
            value
        }
        ["api", version] => resource_list(store, "", version)?,
        ["apis", group, version] => {
            match elsewhere(store).into_iter().find(|e| e.0 == *group && e.1 == *version) {
                Some((_, _, false)) => return Some(Refusal::unavailable().response()),
                Some(_) => {
                    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{group}/{version}"),
                              "resources": []})
                }
                None => resource_list(store, group, version)?,
            }
        }
        ["openapi", "v3"] => openapi_index(store),
        ["openapi", "v3", "api", version] => openapi(store, "", version)?,
        ["openapi", "v3", "apis", group, version] => openapi(store, group, version)?,
        ["openapi", "v2"] => {
            json!({"swagger": "2.0", "info": {"title": "Kubernetes", "version": "v1"}, "paths": {}, "definitions": {}})
        }
        _ => return None,
    };
    Some(crate::http::json(StatusCode::OK, &value))
}

/// Groups and versions that other servers serve, and whether they answer.
fn elsewhere(store: &Store) -> Vec<(String, String, bool)> {
    let (services, _) = store.list("apiregistration.k8s.io/apiservices", None);
    let others = services.iter().filter(|service| service["spec"]["service"].is_object());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    others
        .map(|service| {
            let conditions = service["status"]["conditions"].as_array().into_iter().flatten();
            let answers = conditions.into_iter().any(|c| c["type"] == "Available" && c["status"] == "True");
            (text(&service["spec"]["group"]), text(&service["spec"]["version"]), answers)
        })
        .collect()
}

fn groups(store: &Store) -> BTreeMap<String, Vec<String>> {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in ["authentication.k8s.io", "authorization.k8s.io"] {
        groups.insert(name.into(), vec!["v1".into()]);
    }
    for resource in resources::all(store).into_iter().filter(|r| !r.group.is_empty()) {
        let versions = groups.entry(resource.group).or_default();
        if !versions.contains(&resource.version) {
            versions.push(resource.version);
        }
    }
    for (group, version, _) in elsewhere(store) {
        groups.entry(group).or_default().push(version);
    }
    groups
}

fn group(name: &str, versions: &[String]) -> Value {
    let entry = |v: &String| json!({"groupVersion": format!("{name}/{v}"), "version": v});
    json!({
        "name": name,
        "versions": versions.iter().map(entry).collect::<Vec<_>>(),
        "preferredVersion": versions.first().map(entry),
    })
}

fn of(store: &Store, group: &str, version: &str) -> Vec<Resource> {
    resources::all(store).into_iter().filter(|r| r.group == group && r.version == version).collect()
}

/// Resources that only answer questions.
fn reviews(group: &str) -> &'static [(&'static str, &'static str)] {
    match group {
        "authentication.k8s.io" => &[("selfsubjectreviews", "SelfSubjectReview")],
        "authorization.k8s.io" => &[
            ("selfsubjectaccessreviews", "SelfSubjectAccessReview"),
            ("selfsubjectrulesreviews", "SelfSubjectRulesReview"),
        ],
        _ => &[],
    }
}

fn resource_list(store: &Store, group: &str, version: &str) -> Option<Value> {
    let mut list = Vec::new();
    for resource in of(store, group, version) {
        list.push(resource.listing());
        for (sub, present) in [("status", resource.status), ("scale", resource.scale)] {
            if present {
                let mut entry = json!({
                    "name": format!("{}/{sub}", resource.plural), "singularName": "", "namespaced": resource.namespaced,
                    "kind": resource.kind, "verbs": ["get", "patch", "update"],
                });
                if sub == "scale" {
                    entry["kind"] = json!("Scale");
                    entry["group"] = json!("autoscaling");
                    entry["version"] = json!("v1");
                }
                list.push(entry);
            }
        }
        if resource.group.is_empty() && resource.plural == "pods" {
            list.push(json!({
                "name": "pods/eviction", "singularName": "", "namespaced": true, "kind": "Eviction",
                "group": "policy", "version": "v1", "verbs": ["create"],
            }));
        }
    }
    for (plural, kind) in reviews(group) {
        list.push(json!({"name": plural, "singularName": kind.to_ascii_lowercase(), "namespaced": false,
                         "kind": kind, "verbs": ["create"]}));
    }
    if list.is_empty() {
        return None;
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    Some(
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": list}),
    )
}

/// All groups with all resources in one answer.
fn aggregate(store: &Store, core: bool) -> Response<Body> {
    let (mut groups, elsewhere) = (groups(store), elsewhere(store));
    if core {
        groups = BTreeMap::from([(String::new(), vec!["v1".into()])]);
    }
    let items: Vec<Value> = groups
        .iter()
        .map(|(name, versions)| {
            let versions: Vec<Value> = versions
                .iter()
                .map(|version| {
                    let mut list: Vec<Value> =
                        of(store, name, version).iter().map(aggregated_resource).collect();
                    for (plural, kind) in reviews(name) {
                        list.push(json!({
                            "resource": plural, "responseKind": {"group": name, "version": version, "kind": kind},
                            "scope": "Cluster", "singularResource": kind.to_ascii_lowercase(), "verbs": ["create"],
                        }));
                    }
                    let silent = elsewhere.iter().any(|e| e.0 == *name && e.1 == *version && !e.2);
                    let freshness = if silent { "Stale" } else { "Current" };
                    json!({"version": version, "freshness": freshness, "resources": list})
                })
                .collect();
            let metadata = if name.is_empty() { json!({"creationTimestamp": null}) } else { json!({"name": name, "creationTimestamp": null}) };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    let value = json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
    });
    full(
        StatusCode::OK,
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        value.to_string(),
    )
}

fn aggregated_resource(resource: &Resource) -> Value {
    let kind =
        |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let mut entry = json!({
        "resource": resource.plural,
        "responseKind": kind(&resource.group, &resource.version, &resource.kind),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
    });
    if !resource.short.is_empty() {
        entry["shortNames"] = json!(resource.short);
    }
    if !resource.categories.is_empty() {
        entry["categories"] = json!(resource.categories);
    }
    let mut subresources = Vec::new();
    if resource.status {
        subresources.push(json!({
            "subresource": "status", "verbs": ["get", "patch", "update"],
            "responseKind": kind(&resource.group, &resource.version, &resource.kind),
        }));
    }
    if resource.scale {
        subresources.push(json!({
            "subresource": "scale", "verbs": ["get", "patch", "update"],
            "responseKind": kind("autoscaling", "v1", "Scale"),
        }));
    }
    if resource.group.is_empty() && resource.plural == "pods" {
        subresources.push(json!({
            "subresource": "eviction", "verbs": ["create"], "responseKind": kind("policy", "v1", "Eviction"),
        }));
    }
    if !subresources.is_empty() {
        entry["subresources"] = json!(subresources);
    }
    entry
}

fn openapi_index(store: &Store) -> Value {
    let mut paths = json!({"api/v1": {"serverRelativeURL": "/openapi/v3/api/v1?hash=lab"}});
    for (group, versions) in groups(store) {
        for version in versions {
            let path = format!("apis/{group}/{version}");
            let url = format!("/openapi/v3/{path}?hash=lab");
            paths[path] = json!({"serverRelativeURL": url});
        }
    }
    json!({"paths": paths})
}

/// Enough for clients to see that the server checks fields by itself and takes any content.
fn openapi(store: &Store, group: &str, version: &str) -> Option<Value> {
    let served = of(store, group, version);
    if served.is_empty() && reviews(group).is_empty() {
        return None;
    }
    let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    let mut paths = json!({});
    let mut schemas = json!({});
    for resource in served {
        let gvk = json!({"group": resource.group, "kind": resource.kind, "version": resource.version});
        let parameters: Vec<Value> = ["dryRun", "fieldManager", "fieldValidation", "force"]
            .iter()
            .map(|name| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}}))
            .collect();
        let operation = |action: &str| {
            json!({"x-kubernetes-action": action, "x-kubernetes-group-version-kind": gvk, "parameters": parameters,
                   "responses": {"200": {"description": "OK"}}})
        };
        let scope = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
        paths[format!("{root}{scope}/{}", resource.plural)] = json!({"post": operation("post")});
        paths[format!("{root}{scope}/{}/{{name}}", resource.plural)] =
            json!({"patch": operation("patch"), "put": operation("put")});
        let name = format!("lab.{}.{}.{}", resource.group.replace('.', "-"), resource.version, resource.kind);
        schemas[name] = json!({
            "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "x-kubernetes-group-version-kind": [gvk],
        });
    }
    Some(json!({
        "openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "lab"},
        "paths": paths, "components": {"schemas": schemas},
    }))
}
