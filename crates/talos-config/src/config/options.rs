//! The plain options that a machine config is generated from.

mod disk;
mod link;
mod machine;
mod registry;

use std::net::IpAddr;

use indexmap::IndexMap;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

pub use disk::{DiskKind, DiskSelector, Encryption, EncryptionKey, Install, UserVolume};
pub use link::{Bond, BondMode, Dhcp, Link, Mac, Route, Vlan};
pub use machine::{ExtensionService, ExtraMount, KernelLog, KernelModule, KubeSpan, LogDestination};
pub use registry::{RegistryAuth, RegistryMirror, RegistryTls};

/// What a machine does in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Runs etcd and the Kubernetes control plane.
    ControlPlane,
    /// Runs workloads.
    Worker,
}

impl Role {
    /// As written in `machine.type`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ControlPlane => "controlplane",
            Self::Worker => "worker",
        }
    }
}

/// What all machines of a cluster share.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// The cluster's name.
    pub name: String,
    /// Where the Kubernetes API is: `https://<VIP, load balancer or control plane>:6443`.
    pub endpoint: String,
    /// Such as `v1.12.0`; decides the contract.
    pub talos_version: String,
    /// Such as `v1.35.0`.
    pub kubernetes_version: String,
    /// Addresses of pods.
    pub pod_subnets: Vec<IpNet>,
    /// Addresses of services.
    pub service_subnets: Vec<IpNet>,
    /// Domain of services.
    pub dns_domain: String,
    /// Pod network.
    pub cni: Cni,
    /// Whether kube-proxy runs.
    pub kube_proxy: bool,
    /// Whether workloads may run on control planes.
    pub schedule_on_control_planes: bool,
    /// Further names and addresses for the certificates of the Talos and the Kubernetes API.
    pub cert_sans: Vec<String>,
    /// How nodes find each other.
    pub discovery: Discovery,
    /// Where container images come from instead of their registry.
    pub registry_mirrors: Vec<RegistryMirror>,
    /// Who the nodes are to registries.
    pub registry_auth: Vec<RegistryAuth>,
    /// How registries are trusted.
    pub registry_tls: Vec<RegistryTls>,
    /// A WireGuard mesh between the nodes.
    pub kubespan: Option<KubeSpan>,
    /// Certificates (PEM) of further authorities for the Talos API, while the authority is being changed.
    pub accepted_os_cas: Vec<String>,
    /// Certificates (PEM) of further authorities for the Kubernetes API, while the authority is being changed.
    pub accepted_k8s_cas: Vec<String>,
}

impl ClusterOptions {
    /// Options with Talos' own defaults.
    pub fn new(
        name: impl Into<String>,
        endpoint: impl Into<String>,
        talos_version: impl Into<String>,
        kubernetes_version: impl Into<String>,
    ) -> Self {
        Self {
            name: name.into(),
            endpoint: endpoint.into(),
            talos_version: talos_version.into(),
            kubernetes_version: kubernetes_version.into(),
            pod_subnets: vec![IpNet::new_assert([10, 244, 0, 0].into(), 16)],
            service_subnets: vec![IpNet::new_assert([10, 96, 0, 0].into(), 12)],
            dns_domain: "cluster.local".into(),
            cni: Cni::Flannel,
            kube_proxy: true,
            schedule_on_control_planes: false,
            cert_sans: Vec::new(),
            discovery: Discovery::Public,
            registry_mirrors: Vec::new(),
            registry_auth: Vec::new(),
            registry_tls: Vec::new(),
            kubespan: None,
            accepted_os_cas: Vec::new(),
            accepted_k8s_cas: Vec::new(),
        }
    }
}

/// Who installs the pod network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Cni {
    /// Talos installs Flannel.
    #[default]
    Flannel,
    /// Nobody: it is installed later.
    None,
    /// Talos applies manifests from these addresses.
    Custom(Vec<String>),
}

/// How nodes find each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Discovery {
    /// Through the public service (contents are encrypted).
    #[default]
    Public,
    /// Through a service of one's own.
    Service(String),
    /// Not at all.
    Disabled,
}

/// What one machine has for itself.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// What it does.
    pub role: Role,
    /// Its name.
    pub hostname: Hostname,
    /// Its network cards; the first carries the virtual address unless there is a bond.
    pub links: Vec<Link>,
    /// Cards used as one; the first bond carries the virtual address.
    pub bonds: Vec<Bond>,
    /// DNS servers.
    pub nameservers: Vec<IpAddr>,
    /// Domains appended to short names.
    pub search_domains: Vec<String>,
    /// NTP servers; Talos' own default if empty.
    pub time_servers: Vec<String>,
    /// Address shared by the control planes; control planes only.
    pub vip: Option<IpAddr>,
    /// Where Talos is installed and what from.
    pub install: Install,
    /// Kubernetes labels of the node.
    pub labels: IndexMap<String, String>,
    /// Kubernetes annotations of the node.
    pub annotations: IndexMap<String, String>,
    /// Kubernetes taints of the node: key to `value:Effect`.
    pub taints: IndexMap<String, String>,
    /// Kernel settings.
    pub sysctls: IndexMap<String, String>,
    /// Kernel modules.
    pub kernel_modules: Vec<KernelModule>,
    /// Folders of the host that the kubelet sees.
    pub extra_mounts: Vec<ExtraMount>,
    /// Volumes of one's own.
    pub user_volumes: Vec<UserVolume>,
    /// How the partition with the config is encrypted.
    pub encrypt_state: Option<Encryption>,
    /// How the partition with everything else is encrypted.
    pub encrypt_ephemeral: Option<Encryption>,
    /// Where the logs of services go.
    pub log_destinations: Vec<LogDestination>,
    /// Where the messages of the kernel go.
    pub kernel_logs: Vec<KernelLog>,
    /// What the services of system extensions are told.
    pub extension_services: Vec<ExtensionService>,
}

/// How a machine gets its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hostname {
    /// It is this one.
    Static(String),
    /// Made up by Talos from the machine's identity unless DHCP or the platform gives one: what Talos' own generator writes.
    Stable,
    /// From DHCP or the platform alone.
    Off,
}

impl From<String> for Hostname {
    fn from(name: String) -> Self {
        Self::Static(name)
    }
}

impl From<&String> for Hostname {
    fn from(name: &String) -> Self {
        Self::Static(name.clone())
    }
}

impl From<&str> for Hostname {
    fn from(name: &str) -> Self {
        Self::Static(name.to_owned())
    }
}

impl NodeOptions {
    /// A node with nothing but its role and name.
    pub fn new(role: Role, hostname: impl Into<Hostname>) -> Self {
        Self {
            role,
            hostname: hostname.into(),
            links: Vec::new(),
            bonds: Vec::new(),
            nameservers: Vec::new(),
            search_domains: Vec::new(),
            time_servers: Vec::new(),
            vip: None,
            install: Install::default(),
            labels: IndexMap::new(),
            annotations: IndexMap::new(),
            taints: IndexMap::new(),
            sysctls: IndexMap::new(),
            kernel_modules: Vec::new(),
            extra_mounts: Vec::new(),
            user_volumes: Vec::new(),
            encrypt_state: None,
            encrypt_ephemeral: None,
            log_destinations: Vec::new(),
            kernel_logs: Vec::new(),
            extension_services: Vec::new(),
        }
    }
}
