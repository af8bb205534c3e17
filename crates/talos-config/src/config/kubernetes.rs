//! Kubernetes and discovery as documents of their own, from Talos 1.14 on.

use serde_json::{Map, Value as Json, json};

use crate::{
    config::{
        cluster_section::{api_server_defaults, audit_policy},
        generate::{Documents, component_image, kubelet_image},
        options::{ClusterOptions, Cni, Discovery, NodeOptions, Role},
    },
    secrets::{EncryptionSecret, SecretsBundle},
};

const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";

fn fields<const N: usize>(entries: [(&str, Json); N]) -> Map<String, Json> {
    entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// How nodes find each other.
pub(super) fn discovery(secrets: &SecretsBundle, cluster: &ClusterOptions, documents: &mut Documents) {
    let endpoint = match &cluster.discovery {
        Discovery::Public => Some("https://discovery.talos.dev/"),
        Discovery::Service(endpoint) => Some(endpoint.as_str()),
        Discovery::Disabled => None,
    };
    if let Some(endpoint) = endpoint {
        documents.add("DiscoveryServiceConfig", Some("default"), fields([("endpoint", endpoint.into())]));
    }
    documents.add(
        "DiscoveryIdentityConfig",
        None,
        fields([
            ("clusterID", secrets.cluster_id.as_str().into()),
            ("clusterSecret", secrets.cluster_secret.expose().into()),
        ]),
    );
}

/// What every node is told of Kubernetes.
pub(super) fn everywhere(
    secrets: &SecretsBundle,
    cluster: &ClusterOptions,
    node: &NodeOptions,
    documents: &mut Documents,
) {
    documents.add(
        "KubeClusterConfig",
        None,
        fields([
            ("clusterName", cluster.name.as_str().into()),
            ("endpoint", cluster.endpoint.as_str().into()),
        ]),
    );
    documents.add("KubeNodeConfig", None, node_config(cluster, node));
    // The document knows no mounts; with them, the kubelet stands in the main document.
    if node.extra_mounts.is_empty() {
        documents.add(
            "KubeletConfig",
            None,
            fields([
                ("image", kubelet_image(cluster).into()),
                ("config", json!({})),
                ("defaultRuntimeSeccompProfileEnabled", true.into()),
            ]),
        );
    }
    documents.add(
        "KubeNetworkConfig",
        None,
        fields([
            ("dnsDomain", cluster.dns_domain.as_str().into()),
            ("podSubnets", json!(cluster.pod_subnets)),
            ("serviceSubnets", json!(cluster.service_subnets)),
        ]),
    );
    let mut authority = Map::new();
    let mut accepted = cluster.accepted_k8s_cas.clone();
    match node.role {
        Role::ControlPlane => {
            authority.insert(
                "issuingCA".into(),
                json!({"cert": secrets.k8s.crt, "key": secrets.k8s.key.expose()}),
            );
        }
        Role::Worker => accepted.insert(0, secrets.k8s.crt.clone()),
    }
    if !accepted.is_empty() {
        authority.insert("acceptedCAs".into(), json!(accepted));
    }
    documents.add("KubeAPIServerCAConfig", None, authority);
    documents.add("KubePrismConfig", None, fields([("port", 7445.into())]));
}

fn node_config(cluster: &ClusterOptions, node: &NodeOptions) -> Map<String, Json> {
    let (mut labels, mut taints) = (Map::new(), Map::new());
    if node.role == Role::ControlPlane {
        labels.insert(CONTROL_PLANE.into(), "".into());
        labels.insert("node.kubernetes.io/exclude-from-external-load-balancers".into(), "".into());
        if !cluster.schedule_on_control_planes {
            taints.insert(CONTROL_PLANE.into(), "NoSchedule".into());
        }
    }
    let to_json = |entries: &indexmap::IndexMap<String, String>| -> Vec<(String, Json)> {
        entries.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect()
    };
    labels.extend(to_json(&node.labels));
    taints.extend(to_json(&node.taints));
    let mut config = fields([("nodeIP", json!({}))]);
    for (name, entries) in [
        ("labels", labels),
        ("annotations", to_json(&node.annotations).into_iter().collect()),
        ("taints", taints),
    ] {
        if !entries.is_empty() {
            config.insert(name.into(), entries.into());
        }
    }
    config
}

/// What control planes are told besides.
pub(super) fn on_control_planes(
    secrets: &SecretsBundle,
    cluster: &ClusterOptions,
    documents: &mut Documents,
) {
    let aggregator = &secrets.k8s_aggregator;
    documents.add(
        "KubeAggregatorCAConfig",
        None,
        fields([("issuingCA", json!({"cert": aggregator.crt, "key": aggregator.key.expose()}))]),
    );
    documents.add(
        "KubeAdmissionControlConfig",
        Some("PodSecurity"),
        fields([("configuration", api_server_defaults())]),
    );
    documents.add("KubeAuditPolicyConfig", None, fields([("configuration", audit_policy())]));
    documents.add(
        "KubeAuthenticationConfig",
        None,
        fields([(
            "configuration",
            json!({
                "anonymous": {
                    "conditions": [{"path": "/livez"}, {"path": "/readyz"}, {"path": "/healthz"}],
                    "enabled": true,
                },
                "jwt": [],
            }),
        )]),
    );
    for (name, kind) in [("node", "Node"), ("rbac", "RBAC")] {
        documents.add("KubeAuthorizerConfig", Some(name), fields([("type", kind.into())]));
    }
    // Names and order of keys are those of earlier versions, so that what they encrypted can be read. Talos writes the
    // older kind of key under `secretbox` as well.
    let (name, secret) = match &secrets.encryption {
        EncryptionSecret::Secretbox(secret) => ("key2", secret),
        EncryptionSecret::AesCbc(secret) => ("key1", secret),
    };
    let providers = json!([{"secretbox": {"keys": [{"name": name, "secret": secret.expose()}]}}]);
    documents.add(
        "KubeEtcdEncryptionConfig",
        None,
        fields([("config", json!({"resources": [{"providers": providers, "resources": ["secrets"]}]}))]),
    );
    documents.add(
        "KubeServiceAccountConfig",
        None,
        fields([(
            "issuer",
            json!({
                "privateKey": secrets.k8s_service_account.expose(),
                "issuerURL": cluster.endpoint,
            }),
        )]),
    );
    components(cluster, documents);
}

/// The parts of the control plane, and what it brings to every cluster.
fn components(cluster: &ClusterOptions, documents: &mut Documents) {
    let mut server = fields([("image", component_image("kube-apiserver", cluster).into())]);
    if !cluster.cert_sans.is_empty() {
        server.insert("certExtraSANs".into(), json!(cluster.cert_sans));
    }
    documents.add("KubeAPIServerConfig", None, server);
    documents.add(
        "KubeControllerManagerConfig",
        None,
        fields([("image", component_image("kube-controller-manager", cluster).into())]),
    );
    documents.add(
        "KubeSchedulerConfig",
        None,
        fields([("image", component_image("kube-scheduler", cluster).into()), ("config", json!({}))]),
    );
    let mut proxy = fields([("image", component_image("kube-proxy", cluster).into()), ("config", json!({}))]);
    if !cluster.kube_proxy {
        proxy.insert("enabled".into(), false.into());
    }
    documents.add("KubeProxyConfig", None, proxy);
    if cluster.cni == Cni::Flannel {
        documents.add(
            "KubeFlannelCNIConfig",
            None,
            fields([("backendType", "vxlan".into()), ("backendPort", 4789.into())]),
        );
    }
    documents.add("KubeCoreDNSConfig", None, fields([("enabled", true.into())]));
    if let Cni::Custom(urls) = &cluster.cni {
        for (index, url) in urls.iter().enumerate() {
            let name = if index == 0 { "custom-cni".into() } else { format!("custom-cni-{}", index + 1) };
            documents.add("KubeExternalManifestConfig", Some(&name), fields([("url", url.as_str().into())]));
        }
    }
}
