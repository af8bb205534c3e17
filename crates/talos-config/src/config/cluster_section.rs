//! The cluster's part of the main document.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value as Json, json};

use crate::{
    config::{
        contract::Contract,
        generate::{accepted, component_image, one, pair},
        lint::endpoint_host,
        options::{ClusterOptions, Cni, Discovery, Role},
    },
    secrets::{EncryptionSecret, SecretsBundle},
};

pub(super) fn section(
    contract: &Contract,
    secrets: &SecretsBundle,
    cluster: &ClusterOptions,
    role: Role,
) -> Json {
    if contract.is_split {
        let mut section = one("token", secrets.bootstrap_token.expose().into());
        if role == Role::ControlPlane {
            section.insert("etcd".into(), json!({"ca": pair(&secrets.etcd, role)}));
        }
        return section.into();
    }
    let mut network = Map::new();
    match &cluster.cni {
        Cni::Flannel => {}
        Cni::None => {
            network.insert("cni".into(), json!({"name": "none"}));
        }
        Cni::Custom(urls) => {
            network.insert("cni".into(), json!({"name": "custom", "urls": urls}));
        }
    }
    network.insert("dnsDomain".into(), cluster.dns_domain.as_str().into());
    network.insert("podSubnets".into(), json!(cluster.pod_subnets));
    network.insert("serviceSubnets".into(), json!(cluster.service_subnets));

    let mut section = Map::new();
    section.insert("id".into(), secrets.cluster_id.as_str().into());
    section.insert("secret".into(), secrets.cluster_secret.expose().into());
    section.insert("controlPlane".into(), json!({"endpoint": cluster.endpoint}));
    section.insert("clusterName".into(), cluster.name.as_str().into());
    section.insert("network".into(), network.into());
    section.insert("token".into(), secrets.bootstrap_token.expose().into());
    if role == Role::ControlPlane {
        match &secrets.encryption {
            EncryptionSecret::Secretbox(secret) => {
                section.insert("secretboxEncryptionSecret".into(), secret.expose().into())
            }
            EncryptionSecret::AesCbc(secret) => {
                section.insert("aescbcEncryptionSecret".into(), secret.expose().into())
            }
        };
    }
    section.insert("ca".into(), pair(&secrets.k8s, role));
    if !cluster.accepted_k8s_cas.is_empty() {
        section.insert("acceptedCAs".into(), accepted(&cluster.accepted_k8s_cas));
    }
    if role == Role::ControlPlane {
        let image = |name: &str| component_image(name, cluster);
        section.insert("aggregatorCA".into(), pair(&secrets.k8s_aggregator, role));
        let key = STANDARD.encode(secrets.k8s_service_account.expose());
        section.insert("serviceAccount".into(), json!({"key": key}));
        section.insert("apiServer".into(), api_server(contract, image("kube-apiserver"), cluster));
        section.insert("controllerManager".into(), json!({"image": image("kube-controller-manager")}));
        let mut proxy = json!({"image": image("kube-proxy")});
        if !cluster.kube_proxy {
            proxy["disabled"] = true.into();
        }
        section.insert("proxy".into(), proxy);
        section.insert("scheduler".into(), json!({"image": image("kube-scheduler")}));
    }
    section.insert("discovery".into(), discovery(&cluster.discovery));
    if role == Role::ControlPlane {
        section.insert("etcd".into(), json!({"ca": pair(&secrets.etcd, role)}));
        if cluster.schedule_on_control_planes {
            section.insert("allowSchedulingOnControlPlanes".into(), true.into());
        }
    }
    section.into()
}

fn api_server(contract: &Contract, image: String, cluster: &ClusterOptions) -> Json {
    let mut server = Map::new();
    server.insert("image".into(), image.into());
    let mut names = cluster.cert_sans.clone();
    if contract.asks_for_todays_rules {
        let endpoint = endpoint_host(&cluster.endpoint).map(|host| host.trim_matches(['[', ']']).to_owned());
        names.splice(0..0, endpoint.filter(|host| !cluster.cert_sans.contains(host)));
        server.insert("disablePodSecurityPolicy".into(), true.into());
    }
    if !names.is_empty() {
        server.insert("certSANs".into(), json!(names));
    }
    let plugin = json!({"name": "PodSecurity", "configuration": api_server_defaults()});
    server.insert("admissionControl".into(), json!([plugin]));
    server.insert("auditPolicy".into(), audit_policy());
    server.into()
}

/// What pods may do where nothing else is said.
pub(super) fn api_server_defaults() -> Json {
    json!({
        "apiVersion": "pod-security.admission.config.k8s.io/v1alpha1",
        "defaults": {
            "audit": "restricted",
            "audit-version": "latest",
            "enforce": "baseline",
            "enforce-version": "latest",
            "warn": "restricted",
            "warn-version": "latest",
        },
        "exemptions": {"namespaces": ["kube-system"], "runtimeClasses": [], "usernames": []},
        "kind": "PodSecurityConfiguration",
    })
}

pub(super) fn audit_policy() -> Json {
    json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]})
}

fn discovery(discovery: &Discovery) -> Json {
    let service = match discovery {
        Discovery::Service(endpoint) => json!({"endpoint": endpoint}),
        Discovery::Public | Discovery::Disabled => json!({}),
    };
    json!({
        "enabled": *discovery != Discovery::Disabled,
        "registries": {"kubernetes": {"disabled": true}, "service": service},
    })
}
