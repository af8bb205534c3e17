//! What the kubelets write into their cluster: nodes, their conditions, and the pods that run on every node.

use std::convert::Infallible;
use std::sync::Arc;

use serde_json::{Value, json};

use super::store::{Key, Store, timestamp};
use crate::talos::MachineConfig;
use crate::talos::node::Node;

/// What a kubelet knows of its machine.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) name: String,
    address: String,
    version: String,
    talos: String,
    arch: String,
    uuid: String,
    boot_id: String,
    cores: u32,
    memory: u64,
    disk: u64,
    control_plane: bool,
    config: Arc<MachineConfig>,
    extensions: Vec<String>,
    schematic: String,
}

impl Facts {
    /// The facts of a configured machine.
    pub(crate) fn of(node: &Node, config: &Arc<MachineConfig>) -> Self {
        let hardware = node.hardware();
        let state = node.state();
        let image = state.image.clone();
        Self {
            name: state.hostname.clone(),
            address: state.address.map(|a| a.to_string()).unwrap_or_default(),
            version: format!("v{}", config.kubernetes_version()),
            talos: image.as_ref().map(|i| i.version.clone()).unwrap_or_default(),
            arch: image.as_ref().map(|i| i.arch.clone()).unwrap_or_default(),
            extensions: image.as_ref().map(|i| i.extensions.clone()).unwrap_or_default(),
            schematic: image.map(|i| i.schematic).unwrap_or_default(),
            uuid: hardware.uuid,
            boot_id: state.boot_id.clone(),
            cores: hardware.cores,
            memory: hardware.memory,
            disk: hardware.disk.map_or(0, |d| d.size),
            control_plane: config.is_control_plane(),
            config: config.clone(),
        }
    }

    fn key(&self) -> Key {
        Key::new("nodes", "", &self.name)
    }

    fn labels(&self) -> Value {
        let mut labels = json!({
            "beta.kubernetes.io/arch": self.arch,
            "beta.kubernetes.io/os": "linux",
            "kubernetes.io/arch": self.arch,
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": "linux",
        });
        if self.control_plane {
            labels["node-role.kubernetes.io/control-plane"] = json!("");
        }
        for (key, value) in self.config.node_map("nodeLabels") {
            labels[key] = json!(value);
        }
        labels
    }

    fn annotations(&self) -> Value {
        let mut annotations = json!({
            "talos.dev/owned-labels": owned(&self.config, "nodeLabels"),
            "extensions.talos.dev/schematic": self.schematic,
        });
        for extension in &self.extensions {
            let name = extension.rsplit('/').next().unwrap_or(extension);
            annotations[format!("extensions.talos.dev/{name}")] = json!(self.talos);
        }
        for (key, value) in self.config.node_map("nodeAnnotations") {
            annotations[key] = json!(value);
        }
        annotations
    }

    fn taints(&self) -> Vec<Value> {
        let mut taints = Vec::new();
        if self.control_plane && !self.config.flag_at("/cluster/allowSchedulingOnControlPlanes") {
            taints.push(json!({"effect": "NoSchedule", "key": "node-role.kubernetes.io/control-plane"}));
        }
        for (key, value) in self.config.node_map("nodeTaints") {
            let (value, effect) = value.rsplit_once(':').unwrap_or(("", &value));
            taints.push(json!({"key": key, "value": value, "effect": effect}));
        }
        taints
    }

    fn status(&self, conditions: &Value) -> Value {
        let memory_kib = self.memory / 1024;
        let allocatable = memory_kib.saturating_sub(500 * 1024);
        let resources = |memory: u64| {
            json!({
                "cpu": self.cores.to_string(),
                "memory": format!("{memory}Ki"),
                "ephemeral-storage": format!("{}Ki", self.disk / 1024),
                "pods": "110",
                "hugepages-2Mi": "0",
            })
        };
        json!({
            "addresses": [
                {"type": "InternalIP", "address": self.address},
                {"type": "Hostname", "address": self.name},
            ],
            "capacity": resources(memory_kib),
            "allocatable": resources(allocatable),
            "conditions": conditions,
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "architecture": self.arch,
                "bootID": self.boot_id,
                "containerRuntimeVersion": "containerd://2.1.5",
                "kernelVersion": "6.18.1-talos",
                "kubeProxyVersion": "",
                "kubeletVersion": self.version,
                "machineID": self.uuid.replace('-', ""),
                "operatingSystem": "linux",
                "osImage": format!("Talos ({})", self.talos),
                "systemUUID": self.uuid.to_ascii_lowercase(),
            },
        })
    }
}

fn owned(config: &MachineConfig, field: &str) -> String {
    json!(config.node_map(field).into_keys().collect::<Vec<_>>()).to_string()
}

fn conditions(ready: bool, now: i64) -> Value {
    let at = timestamp(now);
    let calm = |kind: &str, reason: &str, message: &str| {
        json!({"type": kind, "status": "False", "reason": reason, "message": message,
               "lastHeartbeatTime": at, "lastTransitionTime": at})
    };
    let (status, reason, message) = if ready {
        ("True", "KubeletReady", "kubelet is posting ready status")
    } else {
        (
            "False",
            "KubeletNotReady",
            "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady \
             message:Network plugin returns error: cni plugin not initialized",
        )
    };
    json!([
        calm("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        calm("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        calm("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        {"type": "Ready", "status": status, "reason": reason, "message": message,
         "lastHeartbeatTime": at, "lastTransitionTime": at},
    ])
}

/// Registers the node, not ready yet. A known node keeps what others wrote on it.
pub(crate) fn register(store: &Store, facts: &Facts, now: i64) {
    let _ = store.change(&facts.key(), now, |existing| {
        let mut node = existing.cloned().unwrap_or_else(
            || json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": facts.name}, "spec": {}}),
        );
        if existing.is_none() {
            let mut taints = facts.taints();
            taints.push(json!({"effect": "NoSchedule", "key": "node.kubernetes.io/not-ready"}));
            node["spec"]["taints"] = json!(taints);
        }
        merge(&mut node["metadata"]["labels"], &facts.labels());
        merge(&mut node["metadata"]["annotations"], &facts.annotations());
        node["status"] = facts.status(&conditions(false, now));
        Ok::<_, Infallible>(Some(node))
    });
}

/// Reports the node Ready and starts its static pods.
pub(crate) fn ready(store: &Store, facts: &Facts, now: i64) {
    let _ = store.change(&facts.key(), now, |existing| {
        let Some(mut node) = existing.cloned() else { return Ok::<_, Infallible>(None) };
        node["status"] = facts.status(&conditions(true, now));
        let taints: Vec<Value> = node["spec"]["taints"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|t| {
                !matches!(
                    t["key"].as_str(),
                    Some("node.kubernetes.io/not-ready" | "node.kubernetes.io/unreachable")
                )
            })
            .cloned()
            .collect();
        if let Some(spec) = node["spec"].as_object_mut() {
            spec.remove("taints");
            if !taints.is_empty() {
                spec.insert("taints".into(), json!(taints));
            }
        }
        Ok(Some(node))
    });
    if facts.control_plane {
        super::pods::of_control_plane(store, &facts.name, &facts.address, &facts.version, now);
    }
}

/// Brings labels and taints in line with a configuration that changed without a reboot.
pub(crate) fn follow(store: &Store, facts: &Facts, now: i64) {
    let _ = store.change(&facts.key(), now, |existing| {
        let Some(mut node) = existing.cloned() else { return Ok::<_, Infallible>(None) };
        let wanted = facts.labels();
        let owned = node["metadata"]["annotations"]["talos.dev/owned-labels"].as_str().unwrap_or("[]");
        let owned: Vec<String> = serde_json::from_str(owned).unwrap_or_default();
        if let Some(labels) = node["metadata"]["labels"].as_object_mut() {
            labels.retain(|key, _| !owned.contains(key) || wanted.get(key).is_some());
        }
        merge(&mut node["metadata"]["labels"], &wanted);
        merge(&mut node["metadata"]["annotations"], &facts.annotations());
        node["status"]["nodeInfo"]["kubeletVersion"] = json!(facts.version);
        Ok(Some(node))
    });
}

/// Marks a node whose kubelet has gone silent.
pub(crate) fn lost(store: &Store, name: &str, now: i64) {
    let _ = store.change(&Key::new("nodes", "", name), now, |existing| {
        let Some(mut node) = existing.cloned() else { return Ok::<_, Infallible>(None) };
        let at = timestamp(now);
        for condition in node["status"]["conditions"].as_array_mut().into_iter().flatten() {
            condition["status"] = json!("Unknown");
            condition["reason"] = json!("NodeStatusUnknown");
            condition["message"] = json!("Kubelet stopped posting node status.");
            condition["lastTransitionTime"] = json!(at);
        }
        let mut taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        if !taints.iter().any(|t| t["key"] == "node.kubernetes.io/unreachable") {
            taints.push(
                json!({"effect": "NoSchedule", "key": "node.kubernetes.io/unreachable", "timeAdded": at}),
            );
        }
        node["spec"]["taints"] = json!(taints);
        Ok(Some(node))
    });
}

fn merge(target: &mut Value, source: &Value) {
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in source.as_object().into_iter().flatten() {
        target[key] = value.clone();
    }
}
