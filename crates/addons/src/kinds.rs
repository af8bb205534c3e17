//! Which kinds are Kubernetes' own, and whose objects are in a namespace.

use serde_json::Value;

use crate::inputs::{Capabilities, ServedKind};

/// API groups of Kubernetes itself. Other groups below `k8s.io`, such as `gateway.networking.k8s.io`, are custom.
const GROUPS: &[&str] = &[
    "",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "extensions",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];

/// Kubernetes' own kinds without a namespace.
const CLUSTER_WIDE: &[&str] = &[
    "APIService",
    "CSIDriver",
    "CSINode",
    "CertificateSigningRequest",
    "ClusterRole",
    "ClusterRoleBinding",
    "ClusterTrustBundle",
    "ComponentStatus",
    "CustomResourceDefinition",
    "DeviceClass",
    "DeviceTaintRule",
    "FlowSchema",
    "IPAddress",
    "IngressClass",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PriorityClass",
    "PriorityLevelConfiguration",
    "ResourceSlice",
    "RuntimeClass",
    "SelfSubjectAccessReview",
    "SelfSubjectReview",
    "SelfSubjectRulesReview",
    "ServiceCIDR",
    "StorageClass",
    "StorageVersion",
    "StorageVersionMigration",
    "SubjectAccessReview",
    "TokenReview",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
    "VolumeAttachment",
    "VolumeAttributesClass",
];

/// Custom kinds of widely used charts without a namespace, for the time before their definitions are known.
const CUSTOM_CLUSTER_WIDE: &[&str] = &[
    "AddressPool",
    "CiliumBGPAdvertisement",
    "CiliumBGPClusterConfig",
    "CiliumBGPPeerConfig",
    "CiliumCIDRGroup",
    "CiliumClusterwideNetworkPolicy",
    "CiliumEgressGatewayPolicy",
    "CiliumExternalWorkload",
    "CiliumIdentity",
    "CiliumL2AnnouncementPolicy",
    "CiliumLoadBalancerIPPool",
    "CiliumNode",
    "CiliumPodIPPool",
    "Connector",
    "ProxyGroup",
    "VolumeSnapshotContent",
];

/// Whether Kubernetes itself has this group.
pub(crate) fn is_own_group(group: &str) -> bool {
    GROUPS.contains(&group)
}

/// Whether objects of a kind are in a namespace: by what defines it, else by what the cluster serves, else by what is widely known.
pub(crate) fn is_namespaced(
    group: &str,
    kind: &str,
    defined: &[ServedKind],
    capabilities: &Capabilities,
) -> bool {
    let known = defined.iter().chain(&capabilities.kinds).find(|k| k.kind == kind && k.group() == group);
    match known {
        Some(known) => known.namespaced,
        None if is_own_group(group) => !CLUSTER_WIDE.contains(&kind),
        None => {
            !(kind.starts_with("Cluster") && kind != "Cluster"
                || kind.ends_with("Class")
                || CUSTOM_CLUSTER_WIDE.contains(&kind))
        }
    }
}

/// The kinds that a CustomResourceDefinition adds, one for each version that is served.
pub fn defined_by(definition: &Value) -> Vec<ServedKind> {
    let spec = &definition["spec"];
    let (Some(group), Some(kind)) = (spec["group"].as_str(), spec["names"]["kind"].as_str()) else {
        return Vec::new();
    };
    if definition["kind"] != "CustomResourceDefinition" {
        return Vec::new();
    }
    let namespaced = spec["scope"] != "Cluster";
    let versions = spec["versions"].as_array().into_iter().flatten();
    versions
        .filter(|version| version["served"] != false)
        .filter_map(|version| version["name"].as_str())
        .map(|version| ServedKind {
            api_version: format!("{group}/{version}"),
            kind: kind.to_owned(),
            namespaced,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn namespaced(group: &str, kind: &str) -> bool {
        is_namespaced(group, kind, &[], &Capabilities::default())
    }

    #[test]
    fn kinds_of_kubernetes_are_known() {
        for (group, kind) in [("", "ConfigMap"), ("apps", "DaemonSet"), ("rbac.authorization.k8s.io", "Role")]
        {
            assert!(namespaced(group, kind), "{kind}");
        }
        for (group, kind) in [
            ("", "Namespace"),
            ("rbac.authorization.k8s.io", "ClusterRole"),
            ("storage.k8s.io", "StorageClass"),
        ] {
            assert!(!namespaced(group, kind), "{kind}");
        }
    }

    #[test]
    fn custom_kinds_are_as_their_definition_then_the_cluster_says() {
        assert!(!namespaced("cert-manager.io", "ClusterIssuer"));
        assert!(namespaced("cert-manager.io", "Issuer"));
        assert!(namespaced("postgresql.cnpg.io", "Cluster"));
        assert!(!namespaced("gateway.networking.k8s.io", "GatewayClass"));
        let kind = |namespaced| ServedKind {
            api_version: "example.org/v1".into(),
            kind: "ClusterThing".into(),
            namespaced,
        };
        let served = Capabilities { kinds: vec![kind(true)], ..Capabilities::default() };
        assert!(is_namespaced("example.org", "ClusterThing", &[], &served));
        assert!(!is_namespaced("example.org", "ClusterThing", &[kind(false)], &served));
    }

    #[test]
    fn a_definition_adds_the_versions_that_it_serves() {
        let definition = json!({
            "kind": "CustomResourceDefinition",
            "spec": {"group": "example.org", "scope": "Cluster", "names": {"kind": "Thing"},
                "versions": [{"name": "v1", "served": true}, {"name": "v1alpha1", "served": false}]},
        });
        let kinds = defined_by(&definition);
        assert_eq!(kinds.len(), 1);
        assert_eq!((kinds[0].api_version.as_str(), kinds[0].namespaced), ("example.org/v1", false));
        assert_eq!(defined_by(&json!({"kind": "ConfigMap", "spec": definition["spec"]})), []);
    }
}
