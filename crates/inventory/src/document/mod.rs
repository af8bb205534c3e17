//! The inventory document, as people write it. The JSON Schema, the check for unknown keys and the reader all come from
//! these types, so they cannot disagree.
//!
//! A value that needs more than its YAML type to be right (a size, an address, a version) stays text here and is read by
//! `resolve`, which can say what is wrong with it. `example` is for editors, and is also what stands in for a required value
//! that is missing or of the wrong type, so that the rest of the document can still be checked.

mod addon;
mod lint;
mod outputs;
pub(crate) mod pattern;
mod pool;
mod proxmox;
mod reach;
mod scalar;
mod secret;
mod store;
mod vault;

use std::collections::BTreeMap;

use daedal_talos_config::Arch;
use schemars::JsonSchema;
use serde::Deserialize;

pub(crate) use addon::{Addon, AddonSettings, Manifests, ManifestsFrom, ManifestsPath, ValuesFile};
pub(crate) use lint::Lint;
pub(crate) use outputs::{OutputNames, Outputs, OutputsName};
pub(crate) use pool::{Patch, Pool, PoolNode, Role};
pub(crate) use proxmox::{Host, HostSpec, Proxmox, TlsTrust};
pub(crate) use reach::{Jump, Reach, ReachName, ReachSsh, SshKey};
pub(crate) use scalar::{Address, Size, Vmid};
pub(crate) use secret::{SecretRef, Secrets, VaultBundle, VaultRef};
pub(crate) use store::{S3, Store, VaultPlace};
pub(crate) use vault::{Vault, VaultAuth};

use crate::cluster;
use crate::hardware::Hardware;
use crate::image::{Bootloader, Overlay};
use crate::options::{Machine, Registry, RegistryMirror};

/// A Talos Linux cluster on Proxmox VE.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "Daedal inventory")]
pub(crate) struct Document {
    /// The version of this document's shape.
    #[expect(dead_code, reason = "checked against the schema")]
    pub(crate) api_version: ApiVersion,
    /// What the document declares.
    #[expect(dead_code, reason = "checked against the schema")]
    pub(crate) kind: DocumentKind,
    /// Another inventory that this one changes, or several, the last of which wins: paths relative to this file.
    #[expect(dead_code, reason = "merged before the document is read")]
    pub(crate) base: Option<Bases>,
    /// What the cluster is called.
    pub(crate) metadata: Metadata,
    /// What the cluster is.
    pub(crate) spec: Spec,
}

/// Inventories that another one changes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "merged before the document is read")]
pub(crate) enum Bases {
    /// The path of one.
    One(String),
    /// The paths of several; the last one wins.
    Several(Vec<String>),
}

/// Known versions of the document's shape.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) enum ApiVersion {
    /// The present shape.
    #[serde(rename = "daedal.dev/v1alpha1")]
    V1alpha1,
}

/// Known kinds of document.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) enum DocumentKind {
    /// One cluster.
    Cluster,
}

/// The cluster's name and identity.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Metadata {
    /// Name of the cluster: lower-case letters, digits and hyphens, at most 63.
    #[schemars(example = &"home")]
    #[schemars(regex(pattern = pattern::NAME))]
    pub(crate) name: String,
    /// Identity of the cluster, a UUID; every VM carries it. Derived from the name unless given; give one when two clusters
    /// of the same name share a Proxmox cluster, or to rename a cluster.
    #[schemars(regex(pattern = pattern::UUID))]
    pub(crate) uid: Option<String>,
}

/// What the cluster is.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Spec {
    /// What the cluster is for, such as `lab` or `production`; becomes a tag on every VM.
    #[schemars(regex(pattern = pattern::TAG))]
    pub(crate) environment: Option<String>,
    /// Insist on high availability: at least three control planes. By default true with three or more.
    pub(crate) ha: Option<bool>,
    /// Refuse every destruction of this cluster or its nodes.
    pub(crate) protect: Option<bool>,
    /// Whether apply may restart nodes so that they get hardware which a running VM does not take; `allowed` by default.
    pub(crate) restarts: Option<cluster::Restarts>,
    /// How the files that the cluster's users get are written; `plain` by default.
    pub(crate) outputs: Option<Outputs>,
    /// Tags put on every VM.
    #[schemars(inner(regex(pattern = pattern::TAG)))]
    pub(crate) tags: Option<Vec<String>>,
    /// Which Talos to run.
    pub(crate) talos: Talos,
    /// Which Kubernetes to run, and how.
    pub(crate) kubernetes: Option<Kubernetes>,
    /// Where the VMs live.
    pub(crate) proxmox: Proxmox,
    /// How this machine reaches the nodes; `direct` by default.
    pub(crate) reach: Option<Reach>,
    /// Where the secrets, the lock and what else outlives a run are kept; by default in a folder beside the inventory.
    pub(crate) store: Option<Store>,
    /// Where the age key is found that encrypts what the store keeps secret; by default your own. `--key`, `DAEDAL_KEY` and
    /// `DAEDAL_KEY_FILE` name another.
    pub(crate) key: Option<SecretRef>,
    /// Where the secrets bundle of the cluster is kept; by default encrypted in the store.
    pub(crate) secrets: Option<Secrets>,
    /// A Vault that keeps secrets.
    pub(crate) vault: Option<Vault>,
    /// The network of the nodes.
    pub(crate) network: Network,
    /// How a node boots and gets its config.
    pub(crate) boot: Option<Boot>,
    /// The nodes, in groups of equals.
    pub(crate) pools: Vec<Pool>,
    /// Which node goes to which host.
    pub(crate) placement: Option<Placement>,
    /// Hardware of all VMs.
    pub(crate) hardware: Option<Hardware>,
    /// Machine settings of all nodes.
    pub(crate) machine: Option<Machine>,
    /// Where container images come from instead, by registry, such as `docker.io` or `*`.
    pub(crate) registry_mirrors: Option<BTreeMap<String, RegistryMirror>>,
    /// Who the nodes are to registries, and how these are trusted, by host, such as `ghcr.io` or `registry.lan:5000`.
    pub(crate) registries: Option<BTreeMap<String, Registry>>,
    /// Machine-config patches for all nodes, applied in order.
    pub(crate) patches: Option<Vec<Patch>>,
    /// What is installed in the cluster: names of entries of the catalogue (docs/addons.md), charts and manifests.
    pub(crate) addons: Option<Vec<Addon>>,
    /// Whether controller manager, scheduler, etcd and kube-proxy can be asked for metrics from other machines; by default only with an
    /// add-on that does so.
    pub(crate) monitoring: Option<bool>,
    /// Which findings of `daedal check` are accepted.
    pub(crate) lint: Option<Lint>,
}

/// Talos version and image contents.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Talos {
    /// Exact version, such as `v1.12.0`.
    #[schemars(example = "v1.12.0")]
    #[schemars(regex(pattern = pattern::VERSION))]
    pub(crate) version: String,
    /// System extensions, by short name (`qemu-guest-agent`) or full name (`siderolabs/qemu-guest-agent`).
    pub(crate) extensions: Option<Vec<String>>,
    /// Extra kernel arguments, one per entry.
    pub(crate) kernel_args: Option<Vec<String>>,
    /// Base URL of the Image Factory; `https://factory.talos.dev` by default.
    #[schemars(regex(pattern = pattern::URL))]
    pub(crate) factory: Option<String>,
    /// How the Image Factory's certificate is trusted; by this machine's own roots by default. Where it is given, Proxmox hosts
    /// download images without verifying the certificate, and compare their SHA-256.
    pub(crate) factory_tls: Option<TlsTrust>,
    /// CPU architecture of the nodes; `amd64` by default.
    pub(crate) arch: Option<Arch>,
    /// Disk the installer writes to when a node is upgraded; `/dev/sda` by default.
    pub(crate) install_disk: Option<String>,
    /// Images that are signed for secure boot; false by default. The VM's firmware takes their keys at the first boot.
    pub(crate) secure_boot: Option<bool>,
    /// SHA-256 of the disk image, in hex, to accept no other.
    #[schemars(regex(pattern = pattern::SHA256))]
    pub(crate) image_sha256: Option<String>,
    /// META values of the image, by key, such as `0x0c: value`.
    pub(crate) meta: Option<BTreeMap<String, String>>,
    /// What a board needs besides Talos.
    pub(crate) overlay: Option<Overlay>,
    /// Boot loader of the image; the Image Factory's choice by default.
    pub(crate) bootloader: Option<Bootloader>,
}

/// Kubernetes version and settings.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Kubernetes {
    /// Exact version, such as `v1.35.0`; by default the newest minor that the Talos version supports.
    #[schemars(regex(pattern = pattern::VERSION))]
    pub(crate) version: Option<String>,
    /// Subnets for pods; `10.244.0.0/16` by default.
    #[schemars(inner(regex(pattern = pattern::CIDR)))]
    pub(crate) pod_subnets: Option<Vec<String>>,
    /// Subnets for services; `10.96.0.0/12` by default.
    #[schemars(inner(regex(pattern = pattern::CIDR)))]
    pub(crate) service_subnets: Option<Vec<String>>,
    /// DNS domain inside the cluster; `cluster.local` by default.
    pub(crate) dns_domain: Option<String>,
    /// Where clients find the API server: a name or address, with or without `:port`. By default the VIP, else the first
    /// control plane.
    pub(crate) endpoint: Option<String>,
    /// More names and addresses for the API server's certificate.
    #[serde(rename = "certSANs")]
    pub(crate) cert_sans: Option<Vec<String>>,
    /// The network plugin Talos installs; `flannel` by default, `none` when an add-on brings it.
    pub(crate) cni: Option<Cni>,
    /// Addresses of manifests that bring the network plugin, applied by Talos in its place.
    pub(crate) cni_manifests: Option<Vec<String>>,
    /// Whether nodes find each other through a discovery service; true by default.
    pub(crate) discovery: Option<bool>,
    /// A discovery service of one's own; `https://discovery.talos.dev/` by default.
    pub(crate) discovery_service: Option<String>,
    /// Whether nodes talk through a WireGuard mesh (KubeSpan); false by default.
    pub(crate) kubespan: Option<bool>,
    /// Whether kube-proxy runs; true by default.
    pub(crate) kube_proxy: Option<bool>,
    /// Whether workloads may run on control planes; by default only if there are no workers.
    pub(crate) schedule_on_control_planes: Option<bool>,
}

/// Which network plugin Talos installs.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Cni {
    /// Flannel.
    Flannel,
    /// None: an add-on brings it.
    None,
}

/// The network of the nodes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Network {
    /// The network that all nodes are in, such as `10.0.0.0/16`.
    #[schemars(example = "10.0.0.0/16")]
    #[schemars(regex(pattern = pattern::CIDR))]
    pub(crate) cidr: String,
    /// The network's default gateway.
    pub(crate) gateway: Address,
    /// Resolvers; `1.1.1.1` and `8.8.8.8` by default.
    pub(crate) dns: Option<Vec<String>>,
    /// Time servers; by default Talos's own choice.
    pub(crate) ntp: Option<Vec<String>>,
    /// A free address of the network that the control planes share, for the API server.
    pub(crate) vip: Option<Address>,
    /// MTU of the nodes' first network card.
    #[schemars(range(min = 576, max = 65520))]
    pub(crate) mtu: Option<u16>,
    /// Whether nodes ask for their addresses instead of being told; false by default. With `true` each still has the address
    /// that is declared: reserve them (`daedal outputs dnsmasq`); nodes can be told later, without a reboot. With `discovered`
    /// none is declared: each node has what DHCP gives it, and its guest agent says what that is.
    pub(crate) dhcp: Option<Dhcp>,
    /// First bytes of every MAC address, such as `BC:24:11`; by default `02`, which is for private use.
    pub(crate) mac_prefix: Option<String>,
}

/// Where the addresses of nodes come from that ask for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Dhcp {
    /// They are declared, and reserved; or nodes do not ask at all.
    Reserved(bool),
    /// They are not declared.
    Discovered(Discovered),
}

/// The word for addresses that nobody declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Discovered {
    /// The guest agent says what they are.
    Discovered,
}

impl Network {
    /// Whether nodes ask for their addresses.
    pub(crate) fn asks(&self) -> bool {
        self.dhcp.is_some_and(|dhcp| dhcp != Dhcp::Reserved(false))
    }

    /// Whether the addresses they are given are not declared.
    pub(crate) fn discovers(&self) -> bool {
        matches!(self.dhcp, Some(Dhcp::Discovered(_)))
    }
}

/// How a node boots and gets its config.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Boot {
    /// What the VM boots from; `disk-image` by default.
    pub(crate) from: Option<BootFrom>,
    /// How the config reaches it; `cidata` by default.
    pub(crate) config: Option<BootConfig>,
    /// With `from: iso`, the volume of an ISO that is on a storage of every host already, such as
    /// `local:iso/talos-1.12.0.iso`. By default Proxmox downloads it from the Image Factory.
    pub(crate) iso: Option<String>,
    /// With `from: disk-image`, the volume of a disk image that is on a storage of every host already, qcow2 or raw, such as
    /// `local:import/talos-1.12.0.raw`. By default Proxmox downloads it from the Image Factory.
    pub(crate) image: Option<String>,
    /// The format of the disk image that is downloaded; `qcow2` by default, which is a fraction of the size.
    pub(crate) format: Option<DiskFormat>,
    /// With `from: template`, where the templates are and how they are cloned.
    pub(crate) template: Option<Template>,
    /// What is demanded of the first contact with a node in maintenance mode. By default it is verified where the token can read
    /// serial consoles.
    pub(crate) first_contact: Option<FirstContact>,
}

/// What is demanded of the first contact with a node that waits for its config.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FirstContact {
    /// The node's key must be the one that its VM prints on its serial console; nothing is created where that cannot be read.
    Verified,
    /// Trust on first use: whoever answers with the VM's SMBIOS uuid gets the config.
    Tofu,
}

/// The templates of a cluster: one for each role, on each host where disks are local.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Template {
    /// VMID of the control planes' template on the first host; on every further host it is two less. 998 by default.
    #[schemars(range(min = 100, max = 999_999_999))]
    pub(crate) controlplane: Option<u32>,
    /// VMID of the workers' template on the first host; on every further host it is two less. 999 by default.
    #[schemars(range(min = 100, max = 999_999_999))]
    pub(crate) worker: Option<u32>,
    /// `linked` (the default) shares the template's disk, `full` copies it.
    pub(crate) clone: Option<CloneKind>,
    /// `disk-image` (the default) imports one; `iso` boots one, which installs to an empty disk.
    pub(crate) made: Option<TemplateMade>,
}

/// How a template is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TemplateMade {
    /// The Image Factory's disk image is imported.
    DiskImage,
    /// The Image Factory's ISO is booted and installs itself; what it had for that is wiped.
    Iso,
}

/// A format of disk images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DiskFormat {
    /// QEMU's own, which holds only what is written.
    Qcow2,
    /// The disk byte by byte.
    Raw,
}

/// How a template is cloned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CloneKind {
    /// The clone's disk holds only what differs; the template must stay as long as it lives.
    Linked,
    /// The clone's disk is a copy.
    Full,
}

/// What a VM boots from.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum BootFrom {
    /// The Image Factory's disk image, imported by Proxmox.
    DiskImage,
    /// A clone of a template.
    Template,
    /// An ISO that installs to disk.
    Iso,
}

/// How a config reaches its node.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum BootConfig {
    /// A small ISO uploaded through the Proxmox API, deleted once the node is up.
    Cidata,
    /// Proxmox's cloud-init drive for the network, then maintenance mode.
    CloudInitDrive,
    /// Maintenance mode at a discovered or reserved address.
    Maintenance,
    /// META key 0xa in a schematic of the node's own.
    Meta,
    /// Cloud-init user-data put on the host over SSH.
    Snippet,
}

/// Which node goes to which host.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Placement {
    /// `spread` (the default) puts nodes as wide as the hosts allow and keeps to what is pinned; `pin` wants every node
    /// pinned.
    pub(crate) strategy: Option<Strategy>,
    /// Node name → host name.
    pub(crate) pin: Option<BTreeMap<String, String>>,
}

/// How hosts are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Strategy {
    /// As wide as the hosts allow.
    Spread,
    /// Every node where it is pinned.
    Pin,
}

impl From<Cni> for cluster::Cni {
    fn from(cni: Cni) -> Self {
        match cni {
            Cni::Flannel => Self::Flannel,
            Cni::None => Self::None,
        }
    }
}

impl From<BootFrom> for cluster::BootFrom {
    fn from(from: BootFrom) -> Self {
        match from {
            BootFrom::DiskImage => Self::DiskImage,
            BootFrom::Template => Self::Template,
            BootFrom::Iso => Self::Iso,
        }
    }
}

impl From<DiskFormat> for cluster::DiskFormat {
    fn from(format: DiskFormat) -> Self {
        match format {
            DiskFormat::Qcow2 => Self::Qcow2,
            DiskFormat::Raw => Self::Raw,
        }
    }
}

impl From<FirstContact> for cluster::FirstContact {
    fn from(contact: FirstContact) -> Self {
        match contact {
            FirstContact::Verified => Self::Verified,
            FirstContact::Tofu => Self::Tofu,
        }
    }
}

impl From<BootConfig> for cluster::BootConfig {
    fn from(config: BootConfig) -> Self {
        match config {
            BootConfig::Cidata => Self::Cidata,
            BootConfig::CloudInitDrive => Self::CloudInitDrive,
            BootConfig::Maintenance => Self::Maintenance,
            BootConfig::Meta => Self::Meta,
            BootConfig::Snippet => Self::Snippet,
        }
    }
}
