//! From options and secrets to a machine config.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value as Json, json};
use yaml_serde::Value;

use crate::{
    Error, Result,
    config::{
        cluster_section,
        contract::{Contract, Release},
        disk,
        document::{self, MachineConfig},
        kubernetes, machine_section, network,
        options::{ClusterOptions, KubeSpan, NodeOptions, Role},
        registry,
    },
    secrets::{CertificateAndKey, SecretsBundle},
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
        if let Some(option) = lacking(contract, cluster, node) {
            return Err(Error::Option { option, talos: cluster.talos_version.clone() });
        }
        secrets.check_readable_by(Release::of(&cluster.talos_version)?)?;
        let main = json!({
            "version": "v1alpha1",
            "debug": false,
            "persist": true,
            "machine": machine_section::section(contract, secrets, cluster, node),
            "cluster": cluster_section::section(contract, secrets, cluster, node.role),
        });
        let mut documents = Documents::default();
        documents.0.push(main);
        if contract.is_split {
            kubernetes::discovery(secrets, cluster, &mut documents);
            if let Some(install) = disk::install_document(&node.install) {
                documents.add("UnattendedInstallConfig", None, install);
            }
            documents.add("FilesystemTrimConfig", None, one("interval", "168h0m0s".into()));
            documents.add("SecurityProfileConfig", None, one("workloadIsolation", true.into()));
        }
        if contract.has_documents {
            network::documents(contract, node, &mut documents);
            for (kind, name, fields) in registry::documents(cluster) {
                documents.add(kind, Some(&name), fields);
            }
        }
        if let Some(kubespan) = cluster.kubespan.filter(|_| contract.has_kubespan_document) {
            documents.add("KubeSpanConfig", None, kubespan_fields(kubespan));
        }
        if contract.is_split {
            kubernetes::everywhere(secrets, cluster, node, &mut documents);
            if node.role == Role::ControlPlane {
                kubernetes::on_control_planes(secrets, cluster, &mut documents);
            }
        }
        machine_section::documents(contract, node, &mut documents);
        let documents =
            documents.0.into_iter().map(|document| yaml_serde::to_value(document).map_err(Error::Yaml));
        Ok(Self { documents: documents.collect::<Result<Vec<Value>>>()? })
    }
}

/// The documents of a config in the making.
#[derive(Default)]
pub(super) struct Documents(Vec<Json>);

impl Documents {
    /// Adds one: `kind` and `name` first, then what it says.
    pub(super) fn add(&mut self, kind: &str, name: Option<&str>, fields: Map<String, Json>) {
        self.0.push(document::document(kind, name, fields));
    }
}

pub(super) fn one(key: &str, value: Json) -> Map<String, Json> {
    [(key.to_owned(), value)].into_iter().collect()
}

/// What was asked for that this version of Talos has no setting for.
fn lacking(contract: &Contract, cluster: &ClusterOptions, node: &NodeOptions) -> Option<&'static str> {
    let fallback = cluster.registry_mirrors.iter().any(|mirror| mirror.skip_fallback);
    let encrypted_volume = node.user_volumes.iter().any(|volume| volume.encryption.is_some());
    if !contract.has_search_domains_and_skip_fallback {
        if !node.search_domains.is_empty() {
            return Some("search domains");
        }
        if fallback {
            return Some("registry mirrors without fallback");
        }
    }
    if !contract.has_user_volumes && !node.user_volumes.is_empty() {
        return Some("user volumes");
    }
    if !contract.has_volume_encryption && encrypted_volume {
        return Some("encrypted user volumes");
    }
    None
}

pub(super) fn pair(source: &CertificateAndKey, role: Role) -> Json {
    let key = match role {
        Role::ControlPlane => STANDARD.encode(source.key.expose()),
        Role::Worker => String::new(),
    };
    json!({"crt": STANDARD.encode(&source.crt), "key": key})
}

/// `v1.35.0` whatever way it was written.
pub(super) fn tag(version: &str) -> String {
    format!("v{}", version.strip_prefix('v').unwrap_or(version))
}

pub(super) fn kubelet_image(cluster: &ClusterOptions) -> String {
    format!("ghcr.io/siderolabs/kubelet:{}", tag(&cluster.kubernetes_version))
}

pub(super) fn component_image(name: &str, cluster: &ClusterOptions) -> String {
    format!("registry.k8s.io/{name}:{}", tag(&cluster.kubernetes_version))
}

pub(super) fn accepted(certificates: &[String]) -> Json {
    certificates.iter().map(|certificate| json!({"crt": STANDARD.encode(certificate)})).collect()
}

pub(super) fn kubespan_fields(kubespan: KubeSpan) -> Map<String, Json> {
    let mut fields = one("enabled", true.into());
    let flags = [
        ("advertiseKubernetesNetworks", kubespan.advertise_kubernetes_networks),
        ("allowDownPeerBypass", kubespan.allow_down_peer_bypass),
    ];
    for (key, flag) in flags {
        if let Some(flag) = flag {
            fields.insert(key.into(), flag.into());
        }
    }
    if let Some(mtu) = kubespan.mtu {
        fields.insert("mtu".into(), mtu.into());
    }
    fields
}

pub(super) fn to_map(entries: &indexmap::IndexMap<String, String>) -> Map<String, Json> {
    entries.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{
        config::{Cni, Discovery, Link, Patch, Release, Route, Severity, options::Install},
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
            dhcp: None,
            vlans: Vec::new(),
        }];
        node.nameservers = vec!["1.1.1.1".parse().unwrap()];
        node.time_servers = vec!["time.example.org".into()];
        node.install = Install {
            disk: Some("/dev/sda".into()),
            disk_selector: None,
            image: Some("factory/x:v1.12.0".into()),
        };
        if role == Role::ControlPlane {
            node.vip = Some("10.0.0.20".parse().unwrap());
        }
        node
    }

    #[test]
    fn both_roles_and_contracts_are_without_faults() {
        for talos in ["v1.8.0", "v1.9.0", "v1.10.0", "v1.11.0", "v1.12.0", "v1.13.0", "v1.14.0"] {
            for role in [Role::ControlPlane, Role::Worker] {
                let mut cluster = ClusterOptions { talos_version: talos.into(), ..cluster() };
                let newest = Contract::of(talos).unwrap().kubernetes_minors.end();
                cluster.kubernetes_version = format!("v1.{newest}.0");
                let config = MachineConfig::generate(&test_bundle(), &cluster, &node(role)).unwrap();
                assert_eq!(config.lint(Release::of(talos).unwrap()), [], "{talos} {role:?}");
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
            override_path: false,
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
            let release = Release::of(&cluster().talos_version).unwrap();
            config.lint(release).iter().map(|lint| format!("{:?} {lint}", lint.severity)).collect()
        };
        let document = |kind: &str, rest: &str| format!("apiVersion: v1alpha1\nkind: {kind}\n{rest}");
        let accepted = "machine: {ca: {$patch: delete}, acceptedCAs: [{crt: QQ==}]}";
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
            (Role::Worker, "machine: {ca: {key: YWJj}}".into(), "must not be on a worker"),
            (Role::ControlPlane, "machine: {ca: {crt: QQ==}}".into(), "a control plane needs it"),
            (Role::Worker, "machine: {install: {extraKernelArgs: [a=b]}}".into(), "grubUseUKICmdline"),
            (Role::Worker, "machine: {ca: {$patch: delete}}".into(), "machine.ca.crt: is missing"),
            (Role::Worker, accepted.into(), ""),
            (Role::ControlPlane, accepted.into(), "machine.ca.crt: is missing"),
            (Role::Worker, "persist: false".into(), "must be true"),
            (Role::Worker, document("SysctlConfig", "params: {a: b}"), "it came with v1.14"),
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
