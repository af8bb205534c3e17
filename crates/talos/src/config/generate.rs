//! From options and secrets to a machine config.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value as Json, json};

use crate::{
    Error, Result,
    config::{
        contract::Contract,
        document::MachineConfig,
        lint::endpoint_host,
        network,
        options::{ClusterOptions, Cni, Discovery, NodeOptions, Role},
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
        if !contract.has_search_domains_and_skip_fallback {
            let lacking = |option| Error::Option { option, talos: cluster.talos_version.clone() };
            if !node.search_domains.is_empty() {
                return Err(lacking("search domains"));
            }
            if cluster.registry_mirrors.iter().any(|mirror| mirror.skip_fallback) {
                return Err(lacking("registry mirrors without fallback"));
            }
        }
        let main = json!({
            "version": "v1alpha1",
            "debug": false,
            "persist": true,
            "machine": machine(contract, secrets, cluster, node),
            "cluster": cluster_section(contract, secrets, cluster, node.role),
        });
        let mut documents = vec![yaml_serde::to_value(main).map_err(Error::Yaml)?];
        if contract.has_documents {
            documents.extend(network::documents(cluster, node)?);
        }
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
    if !contract.has_documents {
        machine.insert("network".into(), network::in_machine(node));
    } else if contract.empty_machine_network {
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
    let mut features = Map::new();
    if contract.asks_for_todays_rules {
        for feature in ["rbac", "stableHostname", "apidCheckExtKeyUsage"] {
            features.insert(feature.into(), true.into());
        }
    }
    features.insert("diskQuotaSupport".into(), true.into());
    features.insert("kubePrism".into(), json!({"enabled": true, "port": 7445}));
    features.insert("hostDNS".into(), json!({"enabled": true, "forwardKubeDNSToHost": true}));
    machine.insert("features".into(), features.into());
    if !contract.has_documents {
        machine.extend(network::time_and_registries(cluster, node));
    }
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

fn cluster_section(
    contract: &Contract,
    secrets: &SecretsBundle,
    cluster: &ClusterOptions,
    role: Role,
) -> Json {
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{
        config::{Link, Patch, Route, Severity, options::Install},
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
        for talos in ["v1.8.0", "v1.9.0", "v1.10.0", "v1.11.0", "v1.12.0", "v1.13.0"] {
            for role in [Role::ControlPlane, Role::Worker] {
                let mut cluster = ClusterOptions { talos_version: talos.into(), ..cluster() };
                let newest = Contract::of(talos).unwrap().kubernetes_minors.end();
                cluster.kubernetes_version = format!("v1.{newest}.0");
                let config = MachineConfig::generate(&test_bundle(), &cluster, &node(role)).unwrap();
                assert_eq!(config.lint(), [], "{talos} {role:?}");
                assert_eq!(config.role(), Some(role));
                assert_eq!(config.hostname(), Some("node-1"));
                assert_eq!(config.addresses(), ["10.0.0.11/16".parse().unwrap()]);
                let vip: Option<std::net::IpAddr> =
                    if role == Role::Worker { None } else { Some("10.0.0.20".parse().unwrap()) };
                assert_eq!(config.virtual_addresses(), Vec::from_iter(vip));
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
        let cluster = ClusterOptions::new("c", "https://10.0.0.20:6443", "v1.8.3", "v1.31.0");
        let mut searching = node(Role::Worker);
        searching.search_domains = vec!["example.org".into()];
        let error = MachineConfig::generate(&test_bundle(), &cluster, &searching).unwrap_err();
        assert_eq!(error.to_string(), "Talos v1.8.3 has no setting for search domains");
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
