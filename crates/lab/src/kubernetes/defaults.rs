//! What the API server fills in where an object says nothing.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::store::{Key, Store};

/// Sets a field that is not there.
fn or(object: &mut Value, field: &str, value: Value) {
    if object[field].is_null() {
        object[field] = value;
    }
}

fn each(object: &mut Value, field: &str, edit: impl FnMut(&mut Value)) {
    let list = object.get_mut(field).and_then(Value::as_array_mut);
    list.into_iter().flatten().for_each(edit);
}

/// A field that must be a map to have anything filled in.
fn within(object: &mut Value, field: &str, edit: impl FnOnce(&mut Value)) {
    if object[field].is_object() {
        edit(&mut object[field]);
    }
}

/// Fills in what an object of a built-in kind leaves open.
pub(crate) fn fill(store: &Store, kind: &str, object: &mut Value) {
    match kind {
        "Pod" => within(object, "spec", |spec| {
            pod(spec);
            if spec["hostNetwork"] == true {
                for field in ["initContainers", "containers"] {
                    each(spec, field, |container| {
                        each(container, "ports", |port| {
                            let number = port["containerPort"].clone();
                            or(port, "hostPort", number);
                        });
                    });
                }
            }
        }),
        "Deployment" | "ReplicaSet" | "DaemonSet" | "StatefulSet" | "Job" | "CronJob" => {
            within(object, "spec", |spec| workload(kind, spec));
        }
        "Service" => service(store, object),
        "Secret" => secret(object),
        "ClusterRoleBinding" | "RoleBinding" => binding(object),
        "PersistentVolumeClaim" => within(object, "spec", |spec| or(spec, "volumeMode", json!("Filesystem"))),
        "StorageClass" => {
            or(object, "reclaimPolicy", json!("Delete"));
            or(object, "volumeBindingMode", json!("Immediate"));
        }
        "PriorityClass" => or(object, "preemptionPolicy", json!("PreemptLowerPriority")),
        "CSIDriver" => within(object, "spec", driver),
        "CustomResourceDefinition" => within(object, "spec", definition),
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
            each(object, "webhooks", |webhook| {
                self::webhook(webhook);
                if kind == "MutatingWebhookConfiguration" {
                    or(webhook, "reinvocationPolicy", json!("Never"));
                }
            });
        }
        "NetworkPolicy" => within(object, "spec", policy),
        "APIService" => within(object, "spec", |spec| {
            within(spec, "service", |service| or(service, "port", json!(443)));
        }),
        "HorizontalPodAutoscaler" => within(object, "spec", |spec| or(spec, "minReplicas", json!(1))),
        _ => {}
    }
}

fn workload(kind: &str, spec: &mut Value) {
    match kind {
        "Deployment" => {
            or(spec, "replicas", json!(1));
            or(spec, "revisionHistoryLimit", json!(10));
            or(spec, "progressDeadlineSeconds", json!(600));
            or(spec, "strategy", json!({}));
            or(&mut spec["strategy"], "type", json!("RollingUpdate"));
            if spec["strategy"]["type"] == "RollingUpdate" {
                or(&mut spec["strategy"], "rollingUpdate", json!({}));
                or(&mut spec["strategy"]["rollingUpdate"], "maxUnavailable", json!("25%"));
                or(&mut spec["strategy"]["rollingUpdate"], "maxSurge", json!("25%"));
            }
        }
        "ReplicaSet" => or(spec, "replicas", json!(1)),
        "DaemonSet" => {
            or(spec, "revisionHistoryLimit", json!(10));
            or(spec, "updateStrategy", json!({}));
            or(&mut spec["updateStrategy"], "type", json!("RollingUpdate"));
            if spec["updateStrategy"]["type"] == "RollingUpdate" {
                or(&mut spec["updateStrategy"], "rollingUpdate", json!({}));
                or(&mut spec["updateStrategy"]["rollingUpdate"], "maxSurge", json!(0));
                or(&mut spec["updateStrategy"]["rollingUpdate"], "maxUnavailable", json!(1));
            }
        }
        "StatefulSet" => stateful(spec),
        "Job" => job(spec),
        "CronJob" => {
            or(spec, "concurrencyPolicy", json!("Allow"));
            or(spec, "suspend", json!(false));
            or(spec, "successfulJobsHistoryLimit", json!(3));
            or(spec, "failedJobsHistoryLimit", json!(1));
            within(&mut spec["jobTemplate"], "spec", |spec| {
                within(&mut spec["template"], "spec", pod);
            });
        }
        _ => {}
    }
    if kind != "CronJob" {
        within(spec, "template", |template| within(template, "spec", pod));
    }
}

fn stateful(spec: &mut Value) {
    or(spec, "replicas", json!(1));
    or(spec, "revisionHistoryLimit", json!(10));
    or(spec, "podManagementPolicy", json!("OrderedReady"));
    or(spec, "updateStrategy", json!({}));
    or(&mut spec["updateStrategy"], "type", json!("RollingUpdate"));
    if spec["updateStrategy"]["type"] == "RollingUpdate" {
        or(&mut spec["updateStrategy"], "rollingUpdate", json!({}));
        or(&mut spec["updateStrategy"]["rollingUpdate"], "partition", json!(0));
    }
    let kept = json!({"whenDeleted": "Retain", "whenScaled": "Retain"});
    or(spec, "persistentVolumeClaimRetentionPolicy", kept);
    each(spec, "volumeClaimTemplates", |claim| {
        or(claim, "apiVersion", json!("v1"));
        or(claim, "kind", json!("PersistentVolumeClaim"));
        or(claim, "status", json!({"phase": "Pending"}));
        within(claim, "spec", |spec| or(spec, "volumeMode", json!("Filesystem")));
    });
}

fn job(spec: &mut Value) {
    if spec["completions"].is_null() && spec["parallelism"].is_null() {
        or(spec, "completions", json!(1));
    }
    or(spec, "parallelism", json!(1));
    or(spec, "backoffLimit", json!(6));
    or(spec, "completionMode", json!("NonIndexed"));
    or(spec, "suspend", json!(false));
    or(spec, "podReplacementPolicy", json!("TerminatingOrFailed"));
}

fn pod(spec: &mut Value) {
    or(spec, "restartPolicy", json!("Always"));
    or(spec, "dnsPolicy", json!("ClusterFirst"));
    or(spec, "schedulerName", json!("default-scheduler"));
    or(spec, "terminationGracePeriodSeconds", json!(30));
    or(spec, "securityContext", json!({}));
    if let Some(account) = spec["serviceAccountName"].as_str().map(str::to_owned) {
        or(spec, "serviceAccount", json!(account));
    }
    for field in ["initContainers", "containers"] {
        each(spec, field, container);
    }
    each(spec, "volumes", |volume| {
        for field in ["secret", "configMap", "projected", "downwardAPI"] {
            within(volume, field, |source| or(source, "defaultMode", json!(420)));
        }
        within(volume, "hostPath", |path| or(path, "type", json!("")));
    });
}

fn container(container: &mut Value) {
    let image = container["image"].as_str().unwrap_or_default();
    let tagged = image.contains('@') || image.rsplit('/').next().is_some_and(|last| last.contains(':'));
    let newest = !tagged || image.ends_with(":latest");
    or(container, "imagePullPolicy", json!(if newest { "Always" } else { "IfNotPresent" }));
    or(container, "resources", json!({}));
    or(container, "terminationMessagePath", json!("/dev/termination-log"));
    or(container, "terminationMessagePolicy", json!("File"));
    each(container, "ports", |port| or(port, "protocol", json!("TCP")));
    each(container, "env", |env| {
        within(env, "valueFrom", |from| {
            within(from, "fieldRef", |field| or(field, "apiVersion", json!("v1")));
        });
    });
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        within(container, field, |probe| {
            or(probe, "timeoutSeconds", json!(1));
            or(probe, "periodSeconds", json!(10));
            or(probe, "successThreshold", json!(1));
            or(probe, "failureThreshold", json!(3));
            within(probe, "httpGet", |get| {
                or(get, "path", json!("/"));
                or(get, "scheme", json!("HTTP"));
            });
        });
    }
}

fn service(store: &Store, object: &mut Value) {
    let name = format!("{}/{}", object["metadata"]["namespace"], object["metadata"]["name"]);
    let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) else { return };
    or(spec, "type", json!("ClusterIP"));
    or(spec, "sessionAffinity", json!("None"));
    let kind = spec["type"].as_str().unwrap_or_default().to_owned();
    let outer = kind == "LoadBalancer" || kind == "NodePort";
    if kind == "ExternalName" {
        return;
    }
    or(spec, "internalTrafficPolicy", json!("Cluster"));
    if outer {
        or(spec, "externalTrafficPolicy", json!("Cluster"));
    }
    if kind == "LoadBalancer" {
        or(spec, "allocateLoadBalancerNodePorts", json!(true));
    }
    if spec["clusterIP"].is_null() || spec["clusterIP"] == "" {
        spec["clusterIP"] = json!(address(store, &name));
    }
    let address = spec["clusterIP"].clone();
    or(spec, "clusterIPs", json!([address]));
    or(spec, "ipFamilies", json!(["IPv4"]));
    or(spec, "ipFamilyPolicy", json!("SingleStack"));
    let mut number = 0;
    each(spec, "ports", |port| {
        or(port, "protocol", json!("TCP"));
        let own = port["port"].clone();
        or(port, "targetPort", own);
        if outer {
            let digest = Sha256::digest(format!("{name}/{number}"));
            let offset = u16::from_be_bytes([digest[0], digest[1]]) % 2_768;
            or(port, "nodePort", json!(30_000 + offset));
        }
        number += 1;
    });
}

/// An address of the cluster's network for services, by the service's name.
fn address(store: &Store, name: &str) -> String {
    let first = store.get(&Key::new("services", "default", "kubernetes"));
    let first = first.and_then(|s| s["spec"]["clusterIP"].as_str()?.parse::<std::net::Ipv4Addr>().ok());
    let [a, b, ..] = first.unwrap_or(std::net::Ipv4Addr::new(10, 96, 0, 1)).octets();
    let digest = Sha256::digest(name);
    format!("{a}.{b}.{}.{}", digest[0].max(1), digest[1].clamp(2, 254))
}

fn secret(object: &mut Value) {
    use base64::Engine as _;
    or(object, "type", json!("Opaque"));
    let written = object.as_object_mut().and_then(|object| object.shift_remove("stringData"));
    for (key, text) in written.as_ref().and_then(Value::as_object).into_iter().flatten() {
        let bytes = text.as_str().unwrap_or_default();
        object["data"][key] = json!(base64::engine::general_purpose::STANDARD.encode(bytes));
    }
}

fn binding(object: &mut Value) {
    const GROUP: &str = "rbac.authorization.k8s.io";
    within(object, "roleRef", |role| or(role, "apiGroup", json!(GROUP)));
    each(object, "subjects", |subject| {
        if subject["kind"] != "ServiceAccount" {
            or(subject, "apiGroup", json!(GROUP));
        }
    });
}

fn driver(spec: &mut Value) {
    or(spec, "attachRequired", json!(true));
    or(spec, "podInfoOnMount", json!(false));
    or(spec, "storageCapacity", json!(false));
    or(spec, "requiresRepublish", json!(false));
    or(spec, "seLinuxMount", json!(false));
    or(spec, "fsGroupPolicy", json!("ReadWriteOnceWithFSType"));
    or(spec, "volumeLifecycleModes", json!(["Persistent"]));
}

fn definition(spec: &mut Value) {
    or(spec, "conversion", json!({"strategy": "None"}));
    let kind = spec["names"]["kind"].as_str().unwrap_or_default().to_owned();
    or(&mut spec["names"], "listKind", json!(format!("{kind}List")));
    or(&mut spec["names"], "singular", json!(kind.to_ascii_lowercase()));
}

fn webhook(webhook: &mut Value) {
    or(webhook, "failurePolicy", json!("Fail"));
    or(webhook, "matchPolicy", json!("Equivalent"));
    or(webhook, "timeoutSeconds", json!(10));
    or(webhook, "namespaceSelector", json!({}));
    or(webhook, "objectSelector", json!({}));
    each(webhook, "rules", |rule| or(rule, "scope", json!("*")));
    within(&mut webhook["clientConfig"], "service", |service| or(service, "port", json!(443)));
}

fn policy(spec: &mut Value) {
    let mut kinds = vec!["Ingress"];
    if spec["egress"].is_array() {
        kinds.push("Egress");
    }
    or(spec, "policyTypes", json!(kinds));
    for field in ["ingress", "egress"] {
        each(spec, field, |rule| {
            each(rule, "ports", |port| or(port, "protocol", json!("TCP")));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(kind: &str, mut object: Value) -> Value {
        fill(&Store::new("test"), kind, &mut object);
        object
    }

    /// What is filled in once is not changed by filling it in again, and nothing becomes null.
    #[test]
    fn filling_in_twice_changes_nothing() {
        let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {
            "initContainers": [{"name": "i", "image": "x:1", "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]}],
            "containers": [{"name": "c", "image": "registry.lan:5000/x", "ports": [{"containerPort": 1}],
                            "readinessProbe": {"httpGet": {"port": 1}}, "livenessProbe": {"tcpSocket": {"port": 1}}}],
            "volumes": [{"name": "v", "hostPath": {"path": "/"}}, {"name": "s", "secret": {"secretName": "x"}}],
        }});
        let mut all = vec![
            (
                "Pod",
                json!({"spec": {"hostNetwork": true, "containers": [{"name": "c", "ports": [{"containerPort": 1}]}]}}),
            ),
            (
                "Service",
                json!({"metadata": {"name": "x", "namespace": "y"}, "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}}),
            ),
            ("Service", json!({"metadata": {"name": "x", "namespace": "y"}, "spec": {"clusterIP": "None"}})),
            ("Secret", json!({"stringData": {"a": "b"}})),
            (
                "ClusterRoleBinding",
                json!({"roleRef": {"kind": "ClusterRole", "name": "x"}, "subjects": [{"kind": "User", "name": "u"}]}),
            ),
            ("NetworkPolicy", json!({"spec": {"podSelector": {}, "egress": [{"ports": [{"port": 53}]}]}})),
            (
                "ValidatingWebhookConfiguration",
                json!({"webhooks": [{"name": "w", "clientConfig": {"service": {"name": "s"}}, "rules": [{}]}]}),
            ),
            ("CustomResourceDefinition", json!({"spec": {"names": {"kind": "Widget", "plural": "widgets"}}})),
        ];
        for kind in ["Deployment", "DaemonSet", "StatefulSet", "Job"] {
            all.push((kind, json!({"spec": {"template": template}})));
        }
        for (kind, object) in all {
            let once = filled(kind, object);
            assert_eq!(filled(kind, once.clone()), once, "{kind}");
            assert!(!once.to_string().contains("null"), "{kind}: {once}");
        }
    }

    #[test]
    fn images_without_a_version_are_always_pulled() {
        let policy = |image: &str| {
            let pod = filled("Pod", json!({"spec": {"containers": [{"name": "c", "image": image}]}}));
            pod["spec"]["containers"][0]["imagePullPolicy"].as_str().unwrap().to_owned()
        };
        assert_eq!(policy("registry.lan:5000/x"), "Always");
        assert_eq!(policy("x:latest"), "Always");
        assert_eq!(policy("registry.lan:5000/x:1"), "IfNotPresent");
        assert_eq!(policy("x@sha256:00"), "IfNotPresent");
    }

    #[test]
    fn what_is_written_as_text_becomes_data() {
        let secret = filled("Secret", json!({"stringData": {"a": "b"}, "data": {"c": "ZA=="}}));
        assert_eq!(secret, json!({"data": {"c": "ZA==", "a": "Yg=="}, "type": "Opaque"}));
    }
}
