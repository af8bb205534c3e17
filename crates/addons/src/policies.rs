//! Baseline network policies of an add-on: its pods are reached from their own namespace, and from elsewhere only where they offer
//! something.
//!
//! What is offered is read from the objects: services with an address of their own, webhooks and API services, what an Ingress or a Route leads to,
//! and metrics that a monitor collects. Kubelets reach their pods in any case.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::inputs::Seed;
use crate::marks::{self, Marks};
use crate::object::{Object, ObjectId};
use crate::order;
use crate::release::Release;

/// Adds the policies to a release. They are in its own namespace, and there is none in namespaces that every cluster has.
pub fn baseline(release: &mut Release, seed: &Seed) {
    if crate::namespace::is_given(&release.namespace) {
        return;
    }
    let mut policies =
        vec![policy(release, "baseline", &json!({}), &json!([{"from": [{"podSelector": {}}]}]))];
    let open = open_services(release);
    for object in &release.objects {
        let body = &object.body;
        let is_ours = object.id.namespace.as_deref() == Some(&release.namespace);
        let selector = &body["spec"]["selector"];
        match object.id.kind.as_str() {
            "Service" if is_ours && open.contains(&object.id.name) && selector.is_object() => {
                let ports = ports_of(body);
                let rule = if ports.is_empty() { json!([{}]) } else { json!([{"ports": ports}]) };
                policies.push(policy(release, &object.id.name, &json!({"matchLabels": selector}), &rule));
            }
            "PodMonitor" if is_ours && selector.is_object() => {
                let ports = endpoints(&body["spec"]["podMetricsEndpoints"]);
                let name = format!("{}-metrics", object.id.name);
                policies.push(policy(release, &name, selector, &from_any_pod(&ports)));
            }
            "ServiceMonitor" if is_ours => {
                for service in monitored(release, body) {
                    let ports = ports_by_name(service, &body["spec"]["endpoints"]);
                    let name =
                        format!("{}-metrics", service["metadata"]["name"].as_str().unwrap_or_default());
                    let pods = json!({"matchLabels": service["spec"]["selector"]});
                    policies.push(policy(release, &name, &pods, &from_any_pod(&ports)));
                }
            }
            _ => {}
        }
    }
    let mut seen = BTreeSet::new();
    policies.retain(|body| seen.insert(body["metadata"]["name"].as_str().map(str::to_owned)));
    let objects = policies.into_iter().map(|body| finish(body, release, seed));
    let objects: Vec<Object> = objects.collect();
    release.objects.extend(objects);
    order::sort(&mut release.objects);
}

fn policy(release: &Release, name: &str, pods: &Value, ingress: &Value) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": format!("{}-{name}", release.name), "namespace": release.namespace},
        "spec": {"podSelector": pods, "policyTypes": ["Ingress"], "ingress": ingress},
    })
}

fn finish(mut body: Value, release: &Release, seed: &Seed) -> Object {
    let id = ObjectId {
        api_version: "networking.k8s.io/v1".into(),
        kind: "NetworkPolicy".into(),
        namespace: Some(release.namespace.clone()),
        name: body["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
    };
    let digest = marks::add(&mut body, &Marks { member_of: Some(&release.name), helm: None }, seed);
    Object { stage: order::stage(&id), id, body, digest }
}

/// The names of the services that something outside of the namespace calls.
fn open_services(release: &Release) -> BTreeSet<String> {
    let mut open = BTreeSet::new();
    for Object { id, body, .. } in &release.objects {
        match id.kind.as_str() {
            "Service" if matches!(body["spec"]["type"].as_str(), Some("LoadBalancer" | "NodePort")) => {
                open.insert(id.name.clone());
            }
            "APIService" => called(&body["spec"]["service"], release, &mut open),
            "CustomResourceDefinition" => {
                called(&body["spec"]["conversion"]["webhook"]["clientConfig"]["service"], release, &mut open);
            }
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => {
                for webhook in body["webhooks"].as_array().into_iter().flatten() {
                    called(&webhook["clientConfig"]["service"], release, &mut open);
                }
            }
            "Ingress" | "HTTPRoute" | "GRPCRoute" | "TLSRoute" | "TCPRoute" | "UDPRoute" | "IngressRoute"
                if id.namespace.as_deref() == Some(&release.namespace) =>
            {
                backends(&body["spec"], &mut open);
            }
            _ => {}
        }
    }
    open
}

fn called(service: &Value, release: &Release, open: &mut BTreeSet<String>) {
    if service["namespace"] == *release.namespace {
        open.extend(service["name"].as_str().map(str::to_owned));
    }
}

/// The services that a route leads to, however it names them.
fn backends(value: &Value, open: &mut BTreeSet<String>) {
    match value {
        Value::Object(entries) => {
            for (key, below) in entries {
                match key.as_str() {
                    "service" => open.extend(below["name"].as_str().map(str::to_owned)),
                    "backendRefs" | "services" => {
                        let names = below.as_array().into_iter().flatten().filter_map(|b| b["name"].as_str());
                        open.extend(names.map(str::to_owned));
                    }
                    _ => {}
                }
                backends(below, open);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| backends(item, open)),
        _ => {}
    }
}

/// The ports of the pods behind a service.
fn ports_of(service: &Value) -> Vec<Value> {
    service["spec"]["ports"].as_array().into_iter().flatten().map(port_of).collect()
}

fn port_of(port: &Value) -> Value {
    let target = if port["targetPort"].is_null() { &port["port"] } else { &port["targetPort"] };
    let protocol = port["protocol"].as_str().unwrap_or("TCP");
    json!({"port": target, "protocol": protocol})
}

/// The services that a monitor selects.
fn monitored<'a>(release: &'a Release, monitor: &Value) -> Vec<&'a Value> {
    let empty = Map::new();
    let wanted = monitor["spec"]["selector"]["matchLabels"].as_object().unwrap_or(&empty);
    let services = release.objects.iter().filter(|object| object.id.kind == "Service");
    let matching = services.map(|object| &object.body).filter(|service| {
        let labels = &service["metadata"]["labels"];
        wanted.iter().all(|(key, value)| labels[key] == *value) && service["spec"]["selector"].is_object()
    });
    matching.collect()
}

/// The ports of pods that a monitor names by the ports of their service.
fn ports_by_name(service: &Value, endpoints: &Value) -> Vec<Value> {
    let named: BTreeMap<&str, &Value> = service["spec"]["ports"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|port| Some((port["name"].as_str()?, port)))
        .collect();
    let wanted = endpoints.as_array().into_iter().flatten();
    wanted
        .filter_map(|endpoint| match endpoint["port"].as_str() {
            Some(name) => named.get(name).map(|port| port_of(port)),
            None => Some(json!({"port": endpoint["targetPort"], "protocol": "TCP"}))
                .filter(|port| !port["port"].is_null()),
        })
        .collect()
}

fn endpoints(endpoints: &Value) -> Vec<Value> {
    let ports = endpoints.as_array().into_iter().flatten().filter_map(|endpoint| {
        let port =
            ["port", "portNumber", "targetPort"].iter().map(|key| &endpoint[*key]).find(|v| !v.is_null());
        Some(json!({"port": port?, "protocol": "TCP"}))
    });
    ports.collect()
}

fn from_any_pod(ports: &[Value]) -> Value {
    let from = json!([{"namespaceSelector": {}}]);
    if ports.is_empty() { json!([]) } else { json!([{"from": from, "ports": ports}]) }
}
