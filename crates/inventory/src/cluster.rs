//! The fully resolved cluster: every name, number and address decided; what the rest of the program works from.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use schemars::JsonSchema;
use semver::Version;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::addon::Addon;
pub use crate::boot::{Boot, BootConfig, BootFrom, DiskFormat, FirstContact, Templates};
pub use crate::image::{Bootloader, Overlay, OverlayOption};
pub use crate::node::{Disk, Nic, Node, Role};
use crate::options::{Hidden, Machine, Registry, RegistryMirror};
pub use crate::secret::{SecretRef, SecretsPlace, SopsValue, VaultBundle};
use crate::store::StorePlace;
pub use daedal_talos_config::Arch;

/// A declared cluster with nothing left to decide. Holds references to secrets, never secrets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
    /// DNS-label name, from `metadata.name`.
    pub name: String,
    /// `metadata.uid` if given, else derived (UUIDv5) from the name: the identity every mark carries.
    pub uuid: Uuid,
    /// Free text such as `lab` or `production`; becomes a tag.
    pub environment: Option<String>,
    /// Highly available: at least three control planes, an odd number.
    pub ha: bool,
    /// Refuse every destruction.
    pub protect: bool,
    /// Whether apply may restart nodes for hardware that a running VM does not take.
    #[serde(default, skip_serializing_if = "Restarts::are_allowed")]
    pub restarts: Restarts,
    /// How the files that its users get are written.
    #[serde(default, skip_serializing_if = "Outputs::are_usual")]
    pub outputs: Outputs,
    /// Tags put on every VM (besides `daedal` and `daedal-<cluster>`), lower-case, sorted, unique.
    pub tags: Vec<String>,
    /// What Talos to run.
    pub talos: Talos,
    /// What Kubernetes to run.
    pub kubernetes: Kubernetes,
    /// Where and how to reach Proxmox, and what of it may be used.
    pub proxmox: Proxmox,
    /// How this machine reaches the nodes.
    pub reach: Reach,
    /// Where its secrets, its lock and what else outlives a run are kept.
    #[serde(default, skip_serializing_if = "StorePlace::is_folder")]
    pub store: StorePlace,
    /// Where the age key is found that encrypts the store, unless the operator names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<SecretRef>,
    /// Where its secrets bundle is kept.
    #[serde(default, skip_serializing_if = "SecretsPlace::is_store")]
    pub secrets: SecretsPlace,
    /// The nodes' network.
    pub network: Network,
    /// How a node boots and gets its config.
    pub boot: Boot,
    /// Where nodes go.
    pub placement: Placement,
    /// Where container images come from instead, by registry.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub registry_mirrors: BTreeMap<String, RegistryMirror>,
    /// Who the nodes are to registries, and how these are trusted, by host.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub registries: BTreeMap<String, Registry>,
    /// Machine-config patches for all nodes, in order.
    pub patches: Vec<Patch>,
    /// Machine settings of all nodes; each node's own hold them already.
    #[serde(default, skip_serializing_if = "Machine::is_empty")]
    pub machine: Machine,
    /// What is installed in the cluster, in the order of the inventory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addons: Vec<Addon>,
    /// All nodes: control planes first, then workers, each in pool and index order. The first is the one bootstrapped.
    pub nodes: Vec<Node>,
    /// Secrets that are not where the inventory says, each as a sentence: machine configs cannot be made without them. Only a
    /// cluster of [`load_lacking`](crate::load_lacking) may lack any.
    #[serde(skip)]
    pub lacks: Vec<String>,
}

/// Talos version and image contents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Talos {
    /// Exact version, such as 1.12.0.
    pub version: Version,
    /// System extensions by full name (`siderolabs/qemu-guest-agent`), in declared order, no duplicates.
    pub extensions: Vec<String>,
    /// Extra kernel arguments, through the schematic.
    pub kernel_args: Vec<String>,
    /// Image Factory base URL, without a trailing slash.
    pub factory: String,
    /// How its certificate is verified.
    #[serde(default, skip_serializing_if = "TlsTrust::is_system")]
    pub factory_tls: TlsTrust,
    /// CPU architecture of the nodes.
    pub arch: Arch,
    /// Install disk path for paths that run the installer.
    pub install_disk: String,
    /// Signed for secure boot.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub secure_boot: bool,
    /// SHA-256 of the disk image if the user pins it; lower-case hex.
    pub image_sha256: Option<String>,
    /// META values of the image, by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub meta: BTreeMap<u8, String>,
    /// Board overlay of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlay: Option<Overlay>,
    /// Boot loader of the image, if not the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bootloader: Option<Bootloader>,
}

/// Kubernetes version and network settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Kubernetes {
    /// Exact version, such as 1.35.0.
    pub version: Version,
    /// Pod subnets.
    pub pod_subnets: Vec<IpNet>,
    /// Service subnets.
    pub service_subnets: Vec<IpNet>,
    /// Cluster DNS domain.
    pub dns_domain: String,
    /// API server endpoint host written into configs: declared endpoint, else the VIP, else the first control plane; none
    /// where that one's address was not found yet.
    pub endpoint_host: Option<String>,
    /// API server endpoint port (6443).
    pub endpoint_port: u16,
    /// Extra certificate names for the API server.
    pub cert_sans: Vec<String>,
    /// `flannel` (Talos installs it) or `none`.
    pub cni: Cni,
    /// Addresses of manifests that bring the network plugin instead.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cni_manifests: Vec<String>,
    /// Nodes do not look for each other through a discovery service.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_discovery: bool,
    /// A discovery service of one's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discovery_service: Option<String>,
    /// Nodes talk through a WireGuard mesh.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kubespan: bool,
    /// Whether kube-proxy runs.
    pub kube_proxy: bool,
    /// Whether workloads may run on control planes.
    pub schedule_on_control_planes: bool,
}

/// Whether nodes may be restarted for hardware that a running VM does not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(rename_all = "lowercase")]
pub enum Restarts {
    /// One node at a time, and control planes only while etcd keeps its quorum.
    #[default]
    Allowed,
    /// Never: what needs a restart waits for the next one, and is told until then.
    Never,
}

impl Restarts {
    /// Whether they are.
    pub fn are_allowed(&self) -> bool {
        *self == Self::Allowed
    }
}

/// Which CNI Talos itself installs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Cni {
    /// Flannel, Talos's default.
    #[default]
    Flannel,
    /// None: an add-on brings it.
    None,
}

/// The Proxmox side of the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Proxmox {
    /// Base URL such as `https://atlas.lan:8006`.
    pub endpoint: String,
    /// API token id, `user@realm!name`.
    pub token_id: String,
    /// Where the token's secret is.
    pub token_secret: SecretRef,
    /// How the server's certificate is trusted.
    pub tls: TlsTrust,
    /// Hosts that may be used, in declared order, which is also the interleaving order.
    pub hosts: Vec<Host>,
    /// Storage for VM disks.
    pub disks_storage: String,
    /// Storage for images (`import`) and config media (`iso`).
    pub images_storage: String,
    /// Storage for templates, where it is another than that for disks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_disks: Option<String>,
    /// Storage for cloud-init drives, where it is another than that for disks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloud_init_drives: Option<String>,
    /// Bridge of the first NIC.
    pub bridge: String,
    /// VLAN tag of the first NIC.
    pub vlan: Option<u16>,
    /// Proxmox resource pool for the VMs.
    pub pool: Option<String>,
    /// vCPUs promised per physical thread, at most (1.0 = none over).
    pub cpu_overcommit: f64,
    /// How much of a thin storage may be promised, as a multiple of its size (1.0 = none over).
    pub disk_overcommit: f64,
    /// Memory kept free on every host for Proxmox itself, in bytes.
    pub memory_reserve: u64,
}

impl Proxmox {
    /// Storage for templates.
    pub fn templates_storage(&self) -> &String {
        self.template_disks.as_ref().unwrap_or(&self.disks_storage)
    }

    /// Storage for cloud-init drives.
    pub fn cloud_init_storage(&self) -> &String {
        self.cloud_init_drives.as_ref().unwrap_or(&self.disks_storage)
    }

    /// Every storage that takes disks, the nodes' own first.
    pub fn storages_of_disks(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.disks_storage).chain(&self.template_disks).chain(&self.cloud_init_drives)
    }
}

/// One Proxmox host that may be used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Host {
    /// Proxmox node name.
    pub name: String,
    /// Declared upper bound for this cluster on this host; what the host really has bounds it as well.
    pub capacity: Option<Capacity>,
}

/// A declared capacity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Capacity {
    /// vCPUs.
    pub cores: Option<u32>,
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Bytes of disk.
    pub disk: Option<u64>,
}

/// How the files are written that a cluster's users get: kubeconfig, talosconfig, machine configs, secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outputs {
    /// Encrypted with the key that the secrets are encrypted with, as `NAME.age`; otherwise readable by their owner alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub encrypted: bool,
    /// The port of `daedal proxy` that the kubeconfig goes through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig_proxy: Option<u16>,
    /// What the files are called.
    #[serde(default, skip_serializing_if = "OutputNames::are_usual")]
    pub names: OutputNames,
}

impl Outputs {
    /// Whether nothing is declared about them.
    pub fn are_usual(&self) -> bool {
        *self == Self::default()
    }

    /// Whether other programs can read them as they are.
    pub fn are_plain(&self) -> bool {
        !self.encrypted
    }
}

/// What the files are called whose names can be chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutputNames {
    /// The config that control planes have in common.
    pub control_plane: String,
    /// The config that workers have in common.
    pub worker: String,
    /// The config of a node, with [`OutputNames::NODE`] for its name.
    pub node: String,
    /// Terraform variables about the machines; none if they are not written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tfvars: Option<String>,
}

impl Default for OutputNames {
    /// As `talosctl gen config` calls them.
    fn default() -> Self {
        Self {
            control_plane: "controlplane.yaml".to_owned(),
            worker: "worker.yaml".to_owned(),
            node: "nodes/<node>.yaml".to_owned(),
            tfvars: None,
        }
    }
}

impl OutputNames {
    /// What stands for the name of a node.
    pub const NODE: &'static str = "<node>";

    /// Whether nothing is declared about them.
    pub fn are_usual(&self) -> bool {
        *self == Self::default()
    }

    /// The file of the config that the nodes of a role have in common.
    pub fn of_role(&self, role: Role) -> &str {
        match role {
            Role::ControlPlane => &self.control_plane,
            Role::Worker => &self.worker,
        }
    }

    /// The file of a node's config.
    pub fn of_node(&self, node: &str) -> String {
        self.node.replace(Self::NODE, node)
    }
}

/// How a server's certificate is verified.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TlsTrust {
    /// The machine's own roots.
    #[default]
    System,
    /// A CA file, relative to the inventory.
    Ca(PathBuf),
    /// SHA-256 fingerprint of the leaf certificate, 32 bytes as colon-separated upper-case hex.
    Fingerprint(String),
    /// Not verified; said aloud in every plan.
    Insecure,
}

impl TlsTrust {
    /// Whether nothing but the machine's own roots is trusted.
    pub fn is_system(&self) -> bool {
        *self == Self::System
    }
}

/// How this machine reaches the nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Reach {
    /// By ordinary routing.
    Direct,
    /// Through an HTTP CONNECT or SOCKS5 proxy URL.
    Proxy(String),
    /// Through an SSH server.
    Ssh(Box<Ssh>),
}

/// An SSH server that reaches the nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ssh {
    /// The server.
    #[serde(flatten)]
    pub server: SshServer,
    /// Servers on the way, the nearest first; none for what ssh_config says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jump: Option<Vec<SshServer>>,
    /// File with host keys, relative to the inventory, instead of the operator's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_hosts: Option<PathBuf>,
    /// Whether the Proxmox API is reached through it, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub proxmox: bool,
}

/// A private key for SSH.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SshKey {
    /// Its file, relative to the inventory or below `~/`.
    File(PathBuf),
    /// Where it is found.
    Found(SecretRef),
}

impl SshKey {
    /// Its file, if it is in one of its own.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Found(_) => None,
        }
    }
}

/// A server that is logged in to by SSH. What is left open, ssh_config says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SshServer {
    /// Name, address or alias.
    pub host: String,
    /// Who logs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The private key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<SshKey>,
    /// Only the agent's keys are used.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub agent: bool,
    /// The passphrase of the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passphrase: Option<SecretRef>,
}

/// The nodes' network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Network {
    /// The network all node addresses lie in.
    pub cidr: IpNet,
    /// Default gateway.
    pub gateway: IpAddr,
    /// Resolvers.
    pub dns: Vec<IpAddr>,
    /// Time servers; empty means Talos's default.
    pub ntp: Vec<String>,
    /// Virtual address of the API server.
    pub vip: Option<IpAddr>,
    /// MTU of the first NIC, if not the default.
    pub mtu: Option<u16>,
    /// Whether nodes ask for their addresses instead of being told.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dhcp: bool,
    /// Whether the addresses they are given are not declared, and nobody reserves them: their guest agents say what they are.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub discovered: bool,
}

/// Where nodes go.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// Node name → host name for pinned nodes (from `placement.pin` and a node's own `host`).
    pub pin: BTreeMap<String, String>,
}

/// One machine-config patch, already read. It may hold secrets, therefore `Debug` does not show its text.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Patch {
    /// Where it came from, for messages.
    pub origin: String,
    /// The YAML text, with variables in it.
    pub text: String,
    /// The role it is for, if not both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// What environment variables put into the text.
    #[serde(skip)]
    pub(crate) from_environment: Vec<Hidden>,
}

impl fmt::Debug for Patch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Patch")
            .field("origin", &self.origin)
            .field("role", &self.role)
            .finish_non_exhaustive()
    }
}

impl Cluster {
    /// The VMIDs of all templates this cluster may have: role and host for each.
    pub fn templates(&self) -> impl Iterator<Item = (u32, Role, &Host)> {
        let hosts = self.boot.template.into_iter().flat_map(|templates| {
            self.proxmox.hosts.iter().enumerate().map(move |(at, host)| (templates, at, host))
        });
        hosts.flat_map(|(templates, at, host)| {
            [Role::ControlPlane, Role::Worker].map(|role| (templates.vmid(role, at), role, host))
        })
    }

    /// The control planes, the first of which is bootstrapped.
    pub fn control_planes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|n| n.role == Role::ControlPlane)
    }

    /// The workers.
    pub fn workers(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|n| n.role == Role::Worker)
    }

    /// A node by name.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|n| n.name == name)
    }
}
