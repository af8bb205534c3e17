//! The plain options that a machine config is generated from.

use std::{fmt, net::IpAddr, str::FromStr};

use indexmap::IndexMap;
use ipnet::IpNet;

use crate::Error;

/// What a machine does in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

/// A MAC address. Interfaces are found by it, because names depend on the platform.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mac([u8; 6]);

impl Mac {
    /// From its six bytes.
    pub fn new(bytes: [u8; 6]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for Mac {
    /// Lower case with colons: the form that Talos' link expressions compare with.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mac({self})")
    }
}

impl FromStr for Mac {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || Error::Mac { text: text.into() };
        let mut bytes = [0; 6];
        let mut parts = text.split([':', '-']);
        for byte in &mut bytes {
            let part = parts.next().filter(|part| part.len() == 2).ok_or_else(wrong)?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| wrong())?;
        }
        if parts.next().is_some() { Err(wrong()) } else { Ok(Self(bytes)) }
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

/// Where images of a registry come from instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryMirror {
    /// The registry, such as `docker.io`, or `*`.
    pub registry: String,
    /// Addresses to try, in order.
    pub endpoints: Vec<String>,
    /// Whether to fail rather than ask the registry itself.
    pub skip_fallback: bool,
}

/// What one machine has for itself.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// What it does.
    pub role: Role,
    /// Its name.
    pub hostname: String,
    /// Its network interfaces; the first carries the virtual address.
    pub links: Vec<Link>,
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
}

impl NodeOptions {
    /// A node with nothing but its role and name.
    pub fn new(role: Role, hostname: impl Into<String>) -> Self {
        Self {
            role,
            hostname: hostname.into(),
            links: Vec::new(),
            nameservers: Vec::new(),
            search_domains: Vec::new(),
            time_servers: Vec::new(),
            vip: None,
            install: Install::default(),
            labels: IndexMap::new(),
            annotations: IndexMap::new(),
            taints: IndexMap::new(),
        }
    }
}

/// A network interface, found by its MAC address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The interface's permanent address.
    pub mac: Mac,
    /// Maximum transmission unit, if not the default.
    pub mtu: Option<u32>,
    /// Static addresses with their prefix length; none means that the platform decides (DHCP).
    pub addresses: Vec<IpNet>,
    /// Routes through this interface.
    pub routes: Vec<Route>,
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Where to; `None` is the default route.
    pub destination: Option<IpNet>,
    /// Through whom.
    pub gateway: IpAddr,
    /// Preference; lower wins.
    pub metric: Option<u32>,
}

/// Where Talos is installed and what from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Install {
    /// Device, such as `/dev/sda`. Needed where an installer runs, not with disk images.
    pub disk: Option<String>,
    /// Installer image; upgrades use it too.
    pub image: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macs_are_lower_case_with_colons() {
        assert_eq!("BC-24-11-0A-0b-FF".parse::<Mac>().unwrap().to_string(), "bc:24:11:0a:0b:ff");
        for wrong in ["", "bc:24:11:0a:0b", "bc:24:11:0a:0b:ff:00", "bc:24:11:0a:0b:fg", "bc24110a0bff"] {
            assert!(wrong.parse::<Mac>().is_err(), "{wrong}");
        }
    }
}
