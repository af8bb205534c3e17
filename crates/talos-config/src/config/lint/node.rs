//! Faults of what Kubernetes is told of a node: labels, annotations, taints, its address.

use yaml_serde::Value;

use super::{Findings, items};
use crate::config::{
    document::MachineConfig,
    schema::{is_address, is_prefix, meant},
};

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
/// Annotations that Talos keeps its own accounts in.
const RESERVED: [&str; 3] =
    ["talos.dev/owned-labels", "talos.dev/owned-annotations", "talos.dev/owned-taints"];
/// What all annotations of a node may have together, in bytes.
const MOST_ANNOTATIONS: usize = 256 << 10;

/// Fields of the kubelet's own configuration that Talos sets.
const PROTECTED: [&str; 13] = [
    "apiVersion",
    "authentication",
    "authorization",
    "cgroupRoot",
    "kind",
    "kubeletCgroups",
    "port",
    "protectKernelDefaults",
    "resolvConf",
    "rotateCertificates",
    "systemCgroups",
    "staticPodPath",
    "seccompDefault",
];

impl MachineConfig {
    pub(super) fn lint_node(&self, found: &mut Findings) {
        let main = |path: &'static str| (path, self.get(path));
        let own = |path: &'static str| ("KubeNodeConfig", self.in_document("KubeNodeConfig", path));
        for (place, labels) in [main("machine.nodeLabels"), own("labels")] {
            for (key, value) in entries(labels) {
                found.errors(place, key_fault(&key).map(|fault| format!("the label `{key}` {fault}")));
                found.errors(
                    place,
                    value_fault(&value).map(|fault| format!("the value of label `{key}` {fault}")),
                );
            }
        }
        for (place, annotations) in [main("machine.nodeAnnotations"), own("annotations")] {
            let mut bytes = 0;
            for (key, value) in entries(annotations) {
                bytes += key.len() + value.len();
                found.errors(place, key_fault(&key).map(|fault| format!("the annotation `{key}` {fault}")));
                if RESERVED.contains(&key.as_str()) {
                    found.error(place, &format!("the annotation `{key}` is one of Talos' own"));
                }
            }
            if bytes > MOST_ANNOTATIONS {
                found.error(place, &format!("has {bytes} bytes in it; there may be {MOST_ANNOTATIONS}"));
            }
        }
        for (place, taints) in [main("machine.nodeTaints"), own("taints")] {
            for (key, value) in entries(taints) {
                found.errors(place, key_fault(&key).map(|fault| format!("the taint `{key}` {fault}")));
                let (value, effect) = value.split_once(':').unwrap_or(("", &value));
                if !EFFECTS.contains(&effect) {
                    let near = meant(effect, EFFECTS.iter().copied());
                    let known = EFFECTS.join(", ");
                    found.error(place, &format!("the taint `{key}` needs an effect, one of {known}{near}"));
                }
                found.errors(
                    place,
                    value_fault(value).map(|fault| format!("the value of taint `{key}` {fault}")),
                );
            }
        }
        let subnets = [
            ("machine.kubelet.nodeIP.validSubnets", self.get("machine.kubelet")),
            ("KubeNodeConfig", self.of_kind("KubeNodeConfig").next()),
        ];
        for (place, of) in subnets {
            for subnet in
                of.into_iter().flat_map(|of| items(of, "nodeIP.validSubnets")).filter_map(Value::as_str)
            {
                found.errors(place, subnet_fault(subnet));
            }
        }
        let kubelet = [
            ("machine.kubelet.extraConfig", self.get("machine.kubelet.extraConfig")),
            ("KubeletConfig", self.in_document("KubeletConfig", "config")),
        ];
        for (place, config) in kubelet {
            for (key, _) in entries(config) {
                if PROTECTED.contains(&key.as_str()) {
                    found.error(place, &format!("`{key}` is set by Talos and cannot be changed"));
                }
            }
        }
    }
}

/// The keys and values of a map, as texts.
pub(super) fn entries(map: Option<&Value>) -> impl Iterator<Item = (String, String)> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        _ => String::new(),
    };
    map.and_then(Value::as_mapping).into_iter().flatten().map(move |(key, value)| (text(key), text(value)))
}

/// Whether it is a network or an address, with or without `!` before it.
pub(super) fn subnet_fault(text: &str) -> Option<String> {
    let subnet = text.strip_prefix('!').unwrap_or(text);
    (!is_prefix(subnet) && !is_address(subnet))
        .then(|| format!("`{text}` is neither a network nor an address"))
}

/// What is wrong with the key of a label, as a sentence without its subject.
pub(super) fn key_fault(key: &str) -> Option<String> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if let Some(prefix) = prefix
        && !is_subdomain(prefix)
    {
        return Some("needs a domain in lower case before its `/`, such as example.org".into());
    }
    (!is_name(name)).then(|| {
        "needs a name of 1 to 63 letters, digits, `-`, `_` and `.` that begins and ends with a letter or digit".into()
    })
}

/// What is wrong with the value of a label.
fn value_fault(value: &str) -> Option<String> {
    (!value.is_empty() && !is_name(value)).then(|| {
        "must be at most 63 letters, digits, `-`, `_` and `.`, the first and the last a letter or digit"
            .into()
    })
}

fn is_name(name: &str) -> bool {
    let ends = name.bytes().next().zip(name.bytes().last());
    name.len() <= 63
        && ends.is_some_and(|(first, last)| first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// Whether a text is the name of a domain as Kubernetes wants it.
pub(super) fn is_subdomain(text: &str) -> bool {
    let label = |label: &str| {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        label.bytes().all(|byte| plain(byte) || byte == b'-')
            && label.bytes().next().is_some_and(plain)
            && label.bytes().last().is_some_and(plain)
    };
    text.len() <= 253 && text.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::{is_subdomain, key_fault, subnet_fault, value_fault};

    #[test]
    fn keys_and_values_are_judged_as_kubernetes_does() {
        for good in ["a", "example.org/rack", "A_b.c-d", &"a".repeat(63)] {
            assert_eq!(key_fault(good), None, "{good}");
        }
        for wrong in ["", "/a", "a/", "a/b/c", "-a", "a-", "Example.org/a", "a b", "ä", &"a".repeat(64)] {
            assert!(key_fault(wrong).is_some(), "{wrong}");
        }
        assert_eq!((value_fault(""), value_fault("A.1")), (None, None));
        assert!(
            value_fault("a b").is_some()
                && value_fault("-a").is_some()
                && value_fault(&"a".repeat(64)).is_some()
        );
        assert!(
            is_subdomain("a.b-c.1") && !is_subdomain("a..b") && !is_subdomain("") && !is_subdomain("a_b")
        );
        assert_eq!((subnet_fault("!10.0.0.0/8"), subnet_fault("fd00::1")), (None, None));
        assert!(subnet_fault("10.0.0.0/33").is_some() && subnet_fault("").is_some());
    }
}
