//! The machine's part of the main document, and the documents that say more about it.

use serde_json::{Map, Value as Json, json};

use crate::{
    config::{
        contract::Contract,
        disk,
        generate::{Documents, accepted, kubelet_image, kubespan_fields, one, pair, to_map},
        network,
        options::{ClusterOptions, Hostname, NodeOptions, Role},
        registry,
    },
    secrets::SecretsBundle,
};

pub(super) fn section(
    contract: &Contract,
    secrets: &SecretsBundle,
    cluster: &ClusterOptions,
    node: &NodeOptions,
) -> Json {
    let mut machine = Map::new();
    machine.insert("type".into(), node.role.as_str().into());
    machine.insert("token".into(), secrets.trustd_token.expose().into());
    machine.insert("ca".into(), pair(&secrets.os, node.role));
    if !cluster.accepted_os_cas.is_empty() {
        machine.insert("acceptedCAs".into(), accepted(&cluster.accepted_os_cas));
    }
    machine.insert("certSANs".into(), json!(cluster.cert_sans));
    if !contract.is_split || !node.extra_mounts.is_empty() {
        machine.insert("kubelet".into(), kubelet(cluster, node));
    }
    let mut network = if contract.has_documents { Map::new() } else { network::in_machine(contract, node) };
    if let Some(kubespan) = cluster.kubespan.filter(|_| !contract.has_kubespan_document) {
        network.insert("kubespan".into(), kubespan_fields(kubespan).into());
    }
    if contract.empty_machine_network || !network.is_empty() {
        machine.insert("network".into(), network.into());
    }
    if !contract.is_split {
        machine.insert("install".into(), disk::install_in_machine(contract, &node.install));
    }
    machine.insert("features".into(), features(contract, node));
    if !contract.has_documents {
        if !node.time_servers.is_empty() {
            machine.insert("time".into(), json!({"servers": node.time_servers}));
        }
        if let Some(registries) = registry::in_machine(cluster) {
            machine.insert("registries".into(), registries);
        }
    }
    if let Some(encryption) = disk::encryption_in_machine(node).filter(|_| !contract.has_volume_encryption) {
        machine.insert("systemDiskEncryption".into(), encryption);
    }
    if !node.log_destinations.is_empty() {
        machine.insert("logging".into(), logging(node));
    }
    if !contract.is_split {
        if !node.sysctls.is_empty() {
            machine.insert("sysctls".into(), to_map(&node.sysctls).into());
        }
        let modules = node.kernel_modules.iter().map(|module| {
            let mut fields = one("name", module.name.as_str().into());
            if !module.parameters.is_empty() {
                fields.insert("parameters".into(), json!(module.parameters));
            }
            Json::Object(fields)
        });
        let modules: Vec<Json> = modules.collect();
        if !modules.is_empty() {
            machine.insert("kernel".into(), json!({"modules": modules}));
        }
        node_metadata(node, &mut machine);
    }
    machine.into()
}

fn kubelet(cluster: &ClusterOptions, node: &NodeOptions) -> Json {
    let mut kubelet = json!({
        "image": kubelet_image(cluster),
        "defaultRuntimeSeccompProfileEnabled": true,
        "disableManifestsDirectory": true,
    });
    if !node.extra_mounts.is_empty() {
        let mounts = node.extra_mounts.iter().map(|mount| {
            let mut fields = json!({
                "destination": mount.destination, "type": mount.kind, "source": mount.source,
            });
            if !mount.options.is_empty() {
                fields["options"] = json!(mount.options);
            }
            fields
        });
        kubelet["extraMounts"] = mounts.collect();
    }
    kubelet
}

fn features(contract: &Contract, node: &NodeOptions) -> Json {
    let mut features = Map::new();
    if contract.asks_for_todays_rules {
        features.insert("rbac".into(), true.into());
        if node.hostname != Hostname::Off {
            features.insert("stableHostname".into(), true.into());
        }
        features.insert("apidCheckExtKeyUsage".into(), true.into());
    }
    features.insert("diskQuotaSupport".into(), true.into());
    if !contract.is_split {
        features.insert("kubePrism".into(), json!({"enabled": true, "port": 7445}));
        features.insert("hostDNS".into(), network::host_dns());
    }
    features.into()
}

fn logging(node: &NodeOptions) -> Json {
    let destinations = node.log_destinations.iter().map(|destination| {
        let mut fields = json!({"endpoint": destination.endpoint, "format": "json_lines"});
        if !destination.extra_tags.is_empty() {
            fields["extraTags"] = to_map(&destination.extra_tags).into();
        }
        fields
    });
    json!({"destinations": destinations.collect::<Vec<Json>>()})
}

fn node_metadata(node: &NodeOptions, machine: &mut Map<String, Json>) {
    let mut labels = Map::new();
    if node.role == Role::ControlPlane {
        labels.insert("node.kubernetes.io/exclude-from-external-load-balancers".into(), "".into());
    }
    for (key, value) in &node.labels {
        labels.insert(key.clone(), value.as_str().into());
    }
    for (name, entries) in [
        ("nodeLabels", labels),
        ("nodeAnnotations", to_map(&node.annotations)),
        ("nodeTaints", to_map(&node.taints)),
    ] {
        if !entries.is_empty() {
            machine.insert(name.into(), entries.into());
        }
    }
}

/// What is a document in every version that has it, and what has become one.
pub(super) fn documents(contract: &Contract, node: &NodeOptions, documents: &mut Documents) {
    for (kind, name, fields) in disk::documents(contract, node) {
        documents.add(kind, Some(&name), fields);
    }
    if contract.is_split {
        if !node.sysctls.is_empty() {
            documents.add("SysctlConfig", None, one("params", to_map(&node.sysctls).into()));
        }
        for module in &node.kernel_modules {
            let mut fields = Map::new();
            if !module.parameters.is_empty() {
                fields.insert("parameters".into(), json!(module.parameters));
            }
            documents.add("KernelModuleConfig", Some(&module.name), fields);
        }
    }
    for log in &node.kernel_logs {
        documents.add("KmsgLogConfig", Some(&log.name), one("url", log.url.as_str().into()));
    }
    for service in &node.extension_services {
        let mut fields = Map::new();
        let files: Vec<Json> = service
            .config_files
            .iter()
            .map(|(path, content)| json!({"content": content.expose(), "mountPath": path}))
            .collect();
        if !files.is_empty() {
            fields.insert("configFiles".into(), files.into());
        }
        let environment: Vec<Json> = service
            .environment
            .iter()
            .map(|(key, value)| format!("{key}={}", value.expose()).into())
            .collect();
        if !environment.is_empty() {
            fields.insert("environment".into(), environment.into());
        }
        documents.add("ExtensionServiceConfig", Some(&service.name), fields);
    }
}
