//! What a fresh cluster holds by itself: namespaces, system workloads, and the pods of each node.

use std::convert::Infallible;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::store::{Key, Store, timestamp};
use crate::talos::MachineConfig;

/// The objects of a cluster at bootstrap.
pub(crate) fn new_cluster(config: &MachineConfig, now: i64) -> Store {
    let store = Store::new(config.etcd_key());
    for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
        let object = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        });
        store.put(&Key::new("namespaces", "", name), object, now);
        // A controller gives every namespace the authority by which its pods know the API server.
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "kube-root-ca.crt", "namespace": name},
            "data": {"ca.crt": config.kubernetes_cas().concat()},
        });
        store.put(&Key::new("configmaps", name, "kube-root-ca.crt"), object, now);
    }
    let service_ip = config
        .list_at("/cluster/network/serviceSubnets")
        .first()
        .and_then(|s| s.parse::<ipnet::IpNet>().ok())
        .and_then(|net| net.hosts().next())
        .map_or_else(|| "10.96.0.1".to_owned(), |ip| ip.to_string());
    let object = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "kubernetes", "namespace": "default",
                     "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {"type": "ClusterIP", "clusterIP": service_ip, "clusterIPs": [service_ip],
                 "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
                 "sessionAffinity": "None"},
        "status": {"loadBalancer": {}},
    });
    store.put(&Key::new("services", "default", "kubernetes"), object, now);
    if config.cni() == "flannel" {
        daemon_set(&store, "kube-flannel", "flannel", "ghcr.io/siderolabs/flannel:v0.27.4", now);
    }
    if !config.flag_at("/cluster/proxy/disabled") {
        let image = format!("registry.k8s.io/kube-proxy:v{}", config.kubernetes_version());
        daemon_set(&store, "kube-proxy", "kube-proxy", &image, now);
    }
    store
}

/// Tells the pods of all namespaces by which authorities they know the API servers.
pub(crate) fn publish_authorities(store: &Store, config: &MachineConfig, now: i64) {
    let wanted = json!(config.kubernetes_cas().concat());
    for object in store.list("configmaps", None).0 {
        let stale = object["metadata"]["name"] == "kube-root-ca.crt" && object["data"]["ca.crt"] != wanted;
        let Some(namespace) = object["metadata"]["namespace"].as_str().filter(|_| stale) else { continue };
        let _ = store.change(&Key::new("configmaps", namespace, "kube-root-ca.crt"), now, |existing| {
            let mut object = existing.cloned();
            if let Some(object) = &mut object {
                object["data"]["ca.crt"] = wanted.clone();
            }
            Ok::<_, Infallible>(object)
        });
    }
}

fn daemon_set(store: &Store, name: &str, label: &str, image: &str, now: i64) {
    let object = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "kube-system", "labels": {"k8s-app": label}, "generation": 1},
        "spec": {
            "selector": {"matchLabels": {"k8s-app": label}},
            "template": {
                "metadata": {"labels": {"k8s-app": label}},
                "spec": {"hostNetwork": true, "containers": [{"name": name, "image": image}],
                         "tolerations": [{"operator": "Exists"}]},
            },
        },
        "status": {"desiredNumberScheduled": 0, "currentNumberScheduled": 0, "numberReady": 0,
                   "numberMisscheduled": 0},
    });
    store.put(&Key::new("apps/daemonsets", "kube-system", name), object, now);
}

/// Starts the static pods of a control plane.
pub(crate) fn of_control_plane(store: &Store, node: &str, address: &str, version: &str, now: i64) {
    for name in ["kube-apiserver", "kube-controller-manager", "kube-scheduler"] {
        let image = format!("registry.k8s.io/{name}:{version}");
        let mut pod = pod(&format!("{name}-{node}"), node, address, name, &image, now);
        pod["metadata"]["labels"] = json!({"k8s-app": name, "component": name, "tier": "control-plane"});
        let hash = hex::encode(&Sha256::digest(format!("{name}{image}"))[..16]);
        pod["metadata"]["annotations"] = json!({
            "kubernetes.io/config.source": "file",
            "kubernetes.io/config.hash": hash,
            "kubernetes.io/config.mirror": hash,
        });
        put(store, pod, now);
    }
}

fn put(store: &Store, pod: Value, now: i64) {
    let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    store.put(&Key::new("pods", "kube-system", &name), pod, now);
}

fn pod(name: &str, node: &str, address: &str, container: &str, image: &str, now: i64) -> Value {
    let at = timestamp(now);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {
            "nodeName": node, "hostNetwork": true, "restartPolicy": "Always", "priorityClassName": "system-node-critical",
            "containers": [{"name": container, "image": image}],
            "tolerations": [{"operator": "Exists"}],
        },
        "status": {
            "phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "hostIP": address, "startTime": at,
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at}],
            "containerStatuses": [{
                "name": container, "image": image, "imageID": image, "ready": true, "restartCount": 0,
                "started": true, "state": {"running": {"startedAt": at}},
            }],
        },
    })
}
