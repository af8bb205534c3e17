//! From options and secrets to a machine config.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value as Json, json};
use yaml_serde::Value;

use crate::{
    Error, Result,
    config::{
        contract::Contract,
        document::{MachineConfig, document},
        options::{ClusterOptions, Cni, Discovery, Link, NodeOptions, Role},
    },
    secrets::{CertificateAndKey, EncryptionSecret, SecretsBundle},
};

impl MachineConfig {
    /// Generates the config of one machine.
    pub fn generate(secrets: &SecretsBundle, cluster: &ClusterOptions, node: &NodeOptions) -> Result<Self> {
        let contract = Contract::of(&cluster.talos_version)?;
        if !contract.supports_kubernetes(&cluster.kubernetes_version)? {
            return Err(Error::Kubernetes {
                talos: cluster.talos_version.clone(),
                kubernetes: cluster.kubernetes_version.clone(),
                oldest: *contract.kubernetes_minors.start(),
                newest: *contract.kubernetes_minors.end(),
            });
        }
        let main = json!({
            "version": "v1alpha1",
            "debug": false,
            "persist": true,
            "machine": machine(contract, secrets, cluster, node),
            "cluster": cluster_section(secrets, cluster, node.role),
        });
        let mut documents = vec![yaml_serde::to_value(main).map_err(Error::Yaml)?];
        documents.extend(node_documents(cluster, node)?);
        Ok(Self { documents })
    }
}

fn pair(source: &CertificateAndKey, role: Role) -> Json {
    let key = match role {
        Role::ControlPlane => STANDARD.encode(source.key.expose()),
        Role::Worker => String::new(),
    };
    json!({"crt": STANDARD.encode(&source.crt), "key": key})
}

/// `v1.35.0` whatever way it was written.
fn tag(version: &str) -> String {
    format!("v{}", version.strip_prefix('v').unwrap_or(version))
}

fn machine(
    contract: &Contract,
    secrets: &SecretsBundle,
    cluster: &ClusterOptions,
    node: &NodeOptions,
) -> Json {
    let mut machine = Map::new();
    machine.insert("type".into(), node.role.as_str().into());
    machine.insert("token".into(), secrets.trustd_token.expose().into());
    machine.insert("ca".into(), pair(&secrets.os, node.role));
    machine.insert("certSANs".into(), json!(cluster.cert_sans));
    machine.insert(
        "kubelet".into(),
        json!({
            "image": format!("ghcr.io/siderolabs/kubelet:{}", tag(&cluster.kubernetes_version)),
            "defaultRuntimeSeccompProfileEnabled": true,
            "disableManifestsDirectory": true,
        }),
    );
    if contract.empty_machine_network {
        machine.insert("network".into(), json!({}));
    }
    let mut install = Map::new();
    if let Some(disk) = &node.install.disk {
        install.insert("disk".into(), disk.as_str().into());
    }
    if let Some(image) = &node.install.image {
        install.insert("image".into(), image.as_str().into());
    }
    install.insert("wipe".into(), false.into());
    if contract.grub_uses_uki_cmdline {
        install.insert("grubUseUKICmdline".into(), true.into());
    }
    machine.insert("install".into(), install.into());
    machine.insert(
        "features".into(),
        json!({
            "diskQuotaSupport": true,
            "kubePrism": {"enabled": true, "port": 7445},
            "hostDNS": {"enabled": true, "forwardKubeDNSToHost": true},
        }),
    );
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
    machine.into()
}

fn to_map(entries: &indexmap::IndexMap<String, String>) -> Map<String, Json> {
    entries.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect()
}

fn cluster_section(secrets: &SecretsBundle, cluster: &ClusterOptions, role: Role) -> Json {
    let version = tag(&cluster.kubernetes_version);
    let image = |name: &str| format!("registry.k8s.io/{name}:{version}");
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
    if role == Role::ControlPlane {
        section.insert("aggregatorCA".into(), pair(&secrets.k8s_aggregator, role));
        let key = STANDARD.encode(secrets.k8s_service_account.expose());
        section.insert("serviceAccount".into(), json!({"key": key}));
        section.insert("apiServer".into(), api_server(image("kube-apiserver"), &cluster.cert_sans));
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

fn api_server(image: String, cert_sans: &[String]) -> Json {
    let mut server = Map::new();
    server.insert("image".into(), image.into());
    if !cert_sans.is_empty() {
        server.insert("certSANs".into(), json!(cert_sans));
    }
    server.insert(
        "admissionControl".into(),
        json!([{
            "name": "PodSecurity",
            "configuration": {
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
            },
        }]),
    );
    server.insert(
        "auditPolicy".into(),
        json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}),
    );
    server.into()
}

fn discovery(discovery: &Discovery) -> Json {
    match discovery {
        Discovery::Public => {
            json!({"enabled": true, "registries": {"kubernetes": {"disabled": true}, "service": {}}})
        }
        Discovery::Service(endpoint) => json!({
            "enabled": true,
            "registries": {"kubernetes": {"disabled": true}, "service": {"endpoint": endpoint}},
        }),
        Discovery::Disabled => json!({
            "enabled": false,
            "registries": {"kubernetes": {"disabled": true}, "service": {"disabled": true}},
        }),
    }
}

/// The documents beside the main one: name, network, time, registries.
fn node_documents(cluster: &ClusterOptions, node: &NodeOptions) -> Result<Vec<Value>> {
    let yaml = |json: Json| yaml_serde::to_value(json).map_err(Error::Yaml);
    // `auto` must be off, or the name conflicts with the generated default.
    let mut documents = vec![document(
        "HostnameConfig",
        None,
        [("auto", "off".into()), ("hostname", node.hostname.as_str().into())],
    )];
    for (index, link) in node.links.iter().enumerate() {
        let alias = alias(index);
        let expression = format!("mac(link.permanent_addr) == \"{}\"", link.mac);
        documents.push(document(
            "LinkAliasConfig",
            Some(&alias),
            [("selector", yaml(json!({"match": expression}))?)],
        ));
        let mut config = link_config(link);
        config.insert("up".into(), true.into());
        let mut fields = document("LinkConfig", Some(&alias), []);
        if let (Value::Mapping(fields), Value::Mapping(config)) = (&mut fields, yaml(config.into())?) {
            fields.extend(config);
        }
        documents.push(fields);
        if link.addresses.is_empty() {
            // A configured link gets no DHCP by itself.
            documents.push(document("DHCPv4Config", Some(&alias), []));
        }
    }
    if let Some(vip) = node.vip {
        documents.push(document("Layer2VIPConfig", Some(&vip.to_string()), [("link", alias(0).into())]));
    }
    if !node.nameservers.is_empty() || !node.search_domains.is_empty() {
        let servers: Vec<Json> = node.nameservers.iter().map(|server| json!({"address": server})).collect();
        let mut fields = vec![("nameservers", yaml(servers.into())?)];
        if !node.search_domains.is_empty() {
            fields.push(("searchDomains", yaml(json!({"domains": node.search_domains}))?));
        }
        documents.push(document("ResolverConfig", None, fields));
    }
    if !node.time_servers.is_empty() {
        documents.push(document(
            "TimeSyncConfig",
            None,
            [("ntp", yaml(json!({"servers": node.time_servers}))?)],
        ));
    }
    for mirror in &cluster.registry_mirrors {
        let endpoints: Vec<Json> = mirror.endpoints.iter().map(|url| json!({"url": url})).collect();
        let mut fields = vec![("endpoints", yaml(endpoints.into())?)];
        if mirror.skip_fallback {
            fields.push(("skipFallback", true.into()));
        }
        documents.push(document("RegistryMirrorConfig", Some(&mirror.registry), fields));
    }
    Ok(documents)
}

fn alias(index: usize) -> String {
    format!("net{index}")
}

fn link_config(link: &Link) -> Map<String, Json> {
    let mut config = Map::new();
    if let Some(mtu) = link.mtu {
        config.insert("mtu".into(), mtu.into());
    }
    if !link.addresses.is_empty() {
        let addresses: Vec<Json> = link.addresses.iter().map(|address| json!({"address": address})).collect();
        config.insert("addresses".into(), addresses.into());
    }
    if !link.routes.is_empty() {
        let routes = link.routes.iter().map(|route| {
            let mut fields = Map::new();
            // Talos refuses an all-zero destination: the default route is one without.
            if let Some(destination) = route.destination.filter(|net| net.prefix_len() > 0) {
                fields.insert("destination".into(), json!(destination));
            }
            fields.insert("gateway".into(), json!(route.gateway));
            if let Some(metric) = route.metric {
                fields.insert("metric".into(), metric.into());
            }
            Json::Object(fields)
        });
        config.insert("routes".into(), routes.collect());
    }
    config
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{
        config::{Patch, Route, Severity, options::Install},
        secrets::tests::test_bundle,
    };

    pub(crate) fn cluster() -> ClusterOptions {
        ClusterOptions::new("home", "https://10.0.0.20:6443", "v1.12.0", "v1.35.0")
    }

    pub(crate) fn node(role: Role) -> NodeOptions {
        let mut node = NodeOptions::new(role, "node-1");
        node.links = vec![Link {
            mac: "BC:24:11:00:00:01".parse().unwrap(),
            mtu: None,
            addresses: vec!["10.0.0.11/16".parse().unwrap()],
            routes: vec![Route {
                destination: Some("0.0.0.0/0".parse().unwrap()),
                gateway: "10.0.0.1".parse().unwrap(),
                metric: None,
            }],
        }];
        node.nameservers = vec!["1.1.1.1".parse().unwrap()];
        node.time_servers = vec!["time.example.org".into()];
        node.install = Install { disk: Some("/dev/sda".into()), image: Some("factory/x:v1.12.0".into()) };
        if role == Role::ControlPlane {
            node.vip = Some("10.0.0.20".parse().unwrap());
        }
        node
    }

    #[test]
    fn both_roles_and_contracts_are_without_faults() {
        for talos in ["v1.12.0", "v1.13.0"] {
            for role in [Role::ControlPlane, Role::Worker] {
                let cluster = ClusterOptions { talos_version: talos.into(), ..cluster() };
                let config = MachineConfig::generate(&test_bundle(), &cluster, &node(role)).unwrap();
                assert_eq!(config.lint(), [], "{talos} {role:?}");
                assert_eq!(config.role(), Some(role));
                assert_eq!(config.hostname(), Some("node-1"));
                assert_eq!(config.get("machine.network").is_some(), talos == "v1.12.0");
                let text = config.to_yaml();
                assert_eq!(MachineConfig::from_yaml(text.expose()).unwrap(), config);
            }
        }
    }

    #[test]
    fn documents_are_as_talos_wants_them() {
        let mut control_plane = node(Role::ControlPlane);
        control_plane.search_domains = vec!["example.org".into()];
        let mut cluster = cluster();
        cluster.registry_mirrors = vec![crate::config::RegistryMirror {
            registry: "docker.io".into(),
            endpoints: vec!["https://mirror.example.org".into()],
            skip_fallback: true,
        }];
        let config = MachineConfig::generate(&test_bundle(), &cluster, &control_plane).unwrap();
        let text = config.to_yaml();
        let documents = text.expose().split_once("---\n").unwrap().1;
        insta::assert_snapshot!(documents);
    }

    #[test]
    fn workers_get_no_private_keys() {
        let bundle = test_bundle();
        let config = MachineConfig::generate(&bundle, &cluster(), &node(Role::Worker)).unwrap();
        let text = config.to_yaml();
        for key in [&bundle.os.key, &bundle.k8s.key, &bundle.etcd.key, &bundle.k8s_aggregator.key] {
            assert!(!text.expose().contains(&STANDARD.encode(key.expose())));
        }
        assert!(!text.expose().contains(&STANDARD.encode(bundle.k8s_service_account.expose())));
        assert_eq!(config.text("machine.ca.key"), Some(""));
    }

    #[test]
    fn versions_outside_of_the_contract_are_refused() {
        let generate = |talos: &str, kubernetes: &str| {
            let cluster = ClusterOptions::new("c", "https://10.0.0.20:6443", talos, kubernetes);
            MachineConfig::generate(&test_bundle(), &cluster, &node(Role::Worker)).unwrap_err().to_string()
        };
        assert_eq!(
            generate("v1.12.0", "v1.36.0"),
            "Talos v1.12.0 runs Kubernetes v1.30 to v1.35, not v1.36.0"
        );
        assert!(generate("v2.0.0", "v1.36.0").contains("v2.0.0"));
    }

    #[test]
    fn switches_show_in_the_config() {
        let mut cluster = cluster();
        cluster.cni = Cni::None;
        cluster.kube_proxy = false;
        cluster.schedule_on_control_planes = true;
        cluster.cert_sans = vec!["api.example.org".into()];
        cluster.discovery = Discovery::Disabled;
        let mut control_plane = node(Role::ControlPlane);
        control_plane.links[0].addresses.clear();
        control_plane.links[0].routes.clear();
        control_plane.taints.insert("dedicated".into(), "db:NoSchedule".into());
        let config = MachineConfig::generate(&test_bundle(), &cluster, &control_plane).unwrap();
        assert_eq!(config.text("cluster.network.cni.name"), Some("none"));
        assert_eq!(config.get("cluster.proxy.disabled"), Some(&true.into()));
        assert_eq!(config.get("cluster.allowSchedulingOnControlPlanes"), Some(&true.into()));
        assert_eq!(config.get("cluster.discovery.enabled"), Some(&false.into()));
        assert_eq!(config.get("cluster.apiServer.certSANs"), config.get("machine.certSANs"));
        assert_eq!(config.text("machine.nodeTaints.dedicated"), Some("db:NoSchedule"));
        assert_eq!(config.of_kind("DHCPv4Config").count(), 1);
    }

    #[test]
    fn faults_are_found() {
        let faults = |role: Role, patch: &str| -> Vec<String> {
            let mut config = MachineConfig::generate(&test_bundle(), &cluster(), &node(role)).unwrap();
            config.apply_patch(&Patch::from_yaml(patch).unwrap()).unwrap();
            config.lint().iter().map(|lint| format!("{:?} {lint}", lint.severity)).collect()
        };
        let document = |kind: &str, rest: &str| format!("apiVersion: v1alpha1\nkind: {kind}\n{rest}");
        let cases = [
            (
                Role::Worker,
                document("Layer2VIPConfig", "name: 10.0.0.9\nlink: net0"),
                "must not be on a worker",
            ),
            (Role::ControlPlane, document("Layer2VIPConfig", "name: 10.0.0.11\nlink: net0"), "own address"),
            (
                Role::ControlPlane,
                document("Layer2VIPConfig", "name: 10.0.0.9\nlink: eth0"),
                "no other document",
            ),
            (Role::Worker, document("HostnameConfig", "auto: stable"), "both `auto` and `hostname`"),
            (Role::Worker, "cluster: {controlPlane: {endpoint: 'http://x'}}".into(), "form https"),
            (
                Role::Worker,
                "cluster: {controlPlane: {endpoint: {$patch: delete}}}".into(),
                "endpoint: is missing",
            ),
            (Role::Worker, "machine: {ca: {key: abc}}".into(), "must not be on a worker"),
            (Role::ControlPlane, "machine: {ca: {key: {$patch: delete}}}".into(), "a control plane needs it"),
            (Role::Worker, "machine: {instal: {}}".into(), "not a known key"),
            (Role::Worker, "machine: {install: {extraKernelArgs: [a=b]}}".into(), "grubUseUKICmdline"),
            (Role::Worker, "persist: false".into(), "must be true"),
            (Role::Worker, document("LinkConfig", "name: net0\nroutes: [{gateway: 10.9.9.9}]"), ""),
            (Role::Worker, document("LinkConfig", "name: net0\nroutes: [{gateway: 192.168.0.1}]"), "reaches"),
        ];
        for (role, patch, words) in cases {
            let found = faults(role, &patch);
            if words.is_empty() {
                assert!(found.iter().all(|fault| fault.starts_with("Warning")), "{patch}: {found:?}");
            } else {
                assert!(found.iter().any(|fault| fault.contains(words)), "{patch}: {found:?}");
            }
        }
        assert!(Severity::Error > Severity::Warning);
    }
}
