//! Which pods bring a network to their node.

use serde_json::Value;

use super::store::Store;

/// Names by which the agents of network plugins are known.
const AGENTS: [&str; 7] =
    ["cilium", "kube-flannel", "flannel", "calico-node", "antrea-agent", "kube-router", "weave-net"];

/// Whether a pod writes the configuration that a node's container runtime waits for: it mounts the folder for it, or is a known agent.
fn brings_network(pod: &Value) -> bool {
    let volumes = pod["spec"]["volumes"].as_array();
    let mounts = volumes.into_iter().flatten().any(|volume| {
        volume["hostPath"]["path"].as_str().is_some_and(|path| path.trim_end_matches('/') == "/etc/cni/net.d")
    });
    let owners = pod["metadata"]["ownerReferences"].as_array();
    let daemons = owners.into_iter().flatten().filter(|owner| owner["kind"] == "DaemonSet");
    let names = daemons.filter_map(|owner| owner["name"].as_str());
    let label = pod["metadata"]["labels"]["k8s-app"].as_str();
    mounts || names.chain(label).any(|name| AGENTS.contains(&name)) && is_daemon(pod)
}

fn is_daemon(pod: &Value) -> bool {
    let owners = pod["metadata"]["ownerReferences"].as_array();
    owners.into_iter().flatten().any(|owner| owner["kind"] == "DaemonSet")
}

/// A pod runs on a node.
pub(crate) fn started(store: &Store, pod: &Value, node: &str) {
    if brings_network(pod) {
        store.connect(node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn agents_are_known_by_their_mount_or_their_name() {
        let pod = |owner: &str, kind: &str, path: &str| {
            json!({"metadata": {"ownerReferences": [{"kind": kind, "name": owner}]},
                   "spec": {"volumes": [{"name": "x", "hostPath": {"path": path}}]}})
        };
        assert!(brings_network(&pod("cilium", "DaemonSet", "/sys")));
        assert!(brings_network(&pod("my-agent", "DaemonSet", "/etc/cni/net.d")));
        assert!(!brings_network(&pod("longhorn-manager", "DaemonSet", "/dev")));
        assert!(!brings_network(&pod("cilium", "ReplicaSet", "/sys")));
    }
}
