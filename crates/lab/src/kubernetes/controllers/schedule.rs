//! Which nodes may run a pod.

use serde_json::{Value, json};

use super::common;
use crate::kubernetes::selector;

/// What a DaemonSet's pods tolerate besides what they say.
pub(super) fn daemon_tolerations(host_network: bool) -> Vec<Value> {
    let always = |key: &str, effect: &str| json!({"key": key, "operator": "Exists", "effect": effect});
    let mut all = vec![
        always("node.kubernetes.io/not-ready", "NoExecute"),
        always("node.kubernetes.io/unreachable", "NoExecute"),
        always("node.kubernetes.io/disk-pressure", "NoSchedule"),
        always("node.kubernetes.io/memory-pressure", "NoSchedule"),
        always("node.kubernetes.io/pid-pressure", "NoSchedule"),
        always("node.kubernetes.io/unschedulable", "NoSchedule"),
    ];
    if host_network {
        all.push(always("node.kubernetes.io/network-unavailable", "NoSchedule"));
    }
    all
}

/// The taints of a node, with those that its state means.
fn taints(node: &Value) -> Vec<Value> {
    let mut taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let mut implied = |key: &str| {
        if !taints.iter().any(|taint| taint["key"] == key) {
            taints.push(json!({"key": key, "effect": "NoSchedule"}));
        }
    };
    match common::condition(node, "Ready").and_then(|c| c["status"].as_str()) {
        Some("True") => {}
        Some("Unknown") => implied("node.kubernetes.io/unreachable"),
        _ => implied("node.kubernetes.io/not-ready"),
    }
    if node["spec"]["unschedulable"] == true {
        implied("node.kubernetes.io/unschedulable");
    }
    taints
}

fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (effect, key) = (text(&toleration["effect"]), text(&toleration["key"]));
    let exists = toleration["operator"] == "Exists";
    (effect.is_empty() || effect == text(&taint["effect"]))
        && (key.is_empty() && exists || key == text(&taint["key"]))
        && (exists || text(&toleration["value"]) == text(&taint["value"]))
}

/// Why a node does not take a pod with this spec; none when it does.
pub(super) fn objection(node: &Value, spec: &Value) -> Option<String> {
    let tolerations = spec["tolerations"].as_array();
    let tolerated = |taint: &Value| tolerations.into_iter().flatten().any(|t| tolerates(t, taint));
    for taint in taints(node) {
        if taint["effect"] != "PreferNoSchedule" && !tolerated(&taint) {
            let text = |field: &str| taint[field].as_str().unwrap_or_default().to_owned();
            return Some(format!("node(s) had untolerated taint {{{}: {}}}", text("key"), text("value")));
        }
    }
    let labels = &node["metadata"]["labels"];
    let wanted = spec["nodeSelector"].as_object();
    let selected = wanted.into_iter().flatten().all(|(key, value)| labels[key] == *value);
    let terms = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let terms = terms["nodeSelectorTerms"].as_array();
    let affine = terms.is_none_or(|terms| terms.iter().any(|term| fits(term, node)));
    (!selected || !affine).then(|| "node(s) didn't match Pod's node affinity/selector".to_owned())
}

fn fits(term: &Value, node: &Value) -> bool {
    let labels = selector::expressions_fit(&term["matchExpressions"], &node["metadata"]["labels"]);
    let fields = term["matchFields"].as_array().into_iter().flatten();
    labels
        && fields.into_iter().all(|field| {
            let names = field["values"].as_array();
            names.into_iter().flatten().any(|name| *name == node["metadata"]["name"])
        })
}

/// Whether a pod refuses to be where another one is, or the other way round: by required anti-affinity, or by ports of the host.
pub(super) fn quarrels(pod: &Value, other: &Value) -> bool {
    let apart = |one: &Value, two: &Value| {
        let terms =
            &one["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        let same = one["metadata"]["namespace"] == two["metadata"]["namespace"];
        same && terms.as_array().into_iter().flatten().any(|term| {
            term["topologyKey"] == "kubernetes.io/hostname"
                && selector::selects(&term["labelSelector"], &two["metadata"]["labels"])
        })
    };
    let ports = |pod: &Value| -> Vec<(u64, String)> {
        let containers = pod["spec"]["containers"].as_array();
        let ports = containers.into_iter().flatten().flat_map(|c| c["ports"].as_array()).flatten();
        let host = pod["spec"]["hostNetwork"] == true;
        ports
            .filter_map(|port| {
                let number = port["hostPort"].as_u64().or(port["containerPort"].as_u64().filter(|_| host))?;
                Some((number, port["protocol"].as_str().unwrap_or("TCP").to_owned()))
            })
            .collect()
    };
    let taken = ports(other);
    apart(pod, other) || apart(other, pod) || ports(pod).iter().any(|port| taken.contains(port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(ready: &str, taints: &Value) -> Value {
        json!({"metadata": {"name": "n", "labels": {"disk": "ssd"}}, "spec": {"taints": taints},
               "status": {"conditions": [{"type": "Ready", "status": ready}]}})
    }

    #[test]
    fn taints_keep_away_who_does_not_tolerate_them() {
        let plane = json!([{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]);
        assert_eq!(
            objection(&node("True", &plane), &json!({})).unwrap(),
            "node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }"
        );
        let all = json!({"tolerations": [{"operator": "Exists"}]});
        assert_eq!(objection(&node("False", &plane), &all), None);
        let not_ready = objection(&node("False", &json!([])), &json!({})).unwrap();
        assert!(not_ready.contains("node.kubernetes.io/not-ready"), "{not_ready}");
        assert_eq!(objection(&node("True", &json!([])), &json!({"nodeSelector": {"disk": "ssd"}})), None);
        assert!(objection(&node("True", &json!([])), &json!({"nodeSelector": {"disk": "hdd"}})).is_some());
    }

    #[test]
    fn pods_that_must_be_apart_are() {
        let pod = json!({"metadata": {"namespace": "x", "labels": {"app": "a"}}, "spec": {"affinity": {"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution":
                [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}]}}}});
        assert!(quarrels(&pod, &pod));
        let other = json!({"metadata": {"namespace": "x", "labels": {"app": "b"}}, "spec": {}});
        assert!(!quarrels(&pod, &other));
    }
}
