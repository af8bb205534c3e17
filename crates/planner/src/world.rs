//! What was observed of the world, and what could not be. Plain data; only the engine's `observe` makes one for real.

mod addons;
mod guards;
mod guests;
mod nodes;
mod unobserved;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use daedal_inventory::{Arch, Boot, Cluster, Node};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::generation::Generation;
use crate::mark::SecretsId;
use crate::names;

pub use addons::{
    AddonObject, AddonOwner, AddonView, AddonsView, FieldConflict, FormerAddonView, ObjectState, Readiness,
};
pub use guards::{
    AvailabilityView, BackupStorage, BackupView, FirewallView, FirewallsView, ObjectKind, ObjectOptions,
    Objects, VmRule, object_differs, object_has,
};
pub use guests::{GuestView, Likeness, LostMarkView, Ownership, VmConfig};
pub use nodes::{
    ConfigDifference, ConfigFacts, ConfigView, DryRun, EtcdView, FormerView, MemberView, NodeView, TalosView,
    readiness,
};
pub use unobserved::{Aspect, Unobserved};

/// Everything the planner may know. Always partial: [`World::unobserved`] says what was not seen, and why.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct World {
    /// Proxmox version text, such as `9.2.11`.
    pub proxmox_version: String,
    /// Whether this Proxmox is too old to import disk images.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cannot_import: bool,
    /// Hosts by name.
    pub hosts: BTreeMap<String, HostView>,
    /// Addresses that were found, by node, where none is declared.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub addresses: BTreeMap<String, IpAddr>,
    /// Every guest of the whole Proxmox cluster by VMID, foreign ones too.
    pub guests: BTreeMap<u32, GuestView>,
    /// Volumes of interest (disk images, boot ISOs and config media) on the images storage, and on the one that the declared
    /// image or ISO is on, by host and volume id.
    /// On shared storage the same volume appears under every host.
    pub volumes: Vec<VolumeView>,
    /// What the nodes say of themselves, by node name. Absent: not asked (no VM).
    pub nodes: BTreeMap<String, NodeView>,
    /// The members of etcd, as one of them lists them; empty if none told.
    pub members: Vec<MemberView>,
    /// Whether an API server told which nodes it knows.
    pub kubernetes_told: bool,
    /// Nodes that the inventory does not name although a VM of ours, etcd or Kubernetes does, by name.
    pub former: BTreeMap<String, FormerView>,
    /// Whether the secrets bundle is in the store.
    pub secrets_stored: bool,
    /// The secrets that marks were judged by; none where there are none, or they were left aside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secrets_id: Option<SecretsId>,
    /// The generations that the marks on our VMs name, each once, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub applied: Vec<Generation>,
    /// The newest generation that the store knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known: Option<Generation>,
    /// What is known of the images, once they were seen: size and SHA-256.
    pub image_pins: Vec<ImagePin>,
    /// Bytes of the disk in the image that is declared by its volume: the smallest, where hosts have different ones. None
    /// where no such image is declared, a host does not tell, or nobody asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_disk: Option<u64>,
    /// Whether the API server answers on the declared endpoint (the VIP if there is one).
    pub endpoint_answers: bool,
    /// Why the endpoint does not answer, where it was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint_unreached: Option<Unreached>,
    /// Why nodes whose VMs run do not answer, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unreached: BTreeMap<String, Unreached>,
    /// Whether the output files exist and match the inventory.
    pub outputs_current: bool,
    /// The day on which client certificates in the output files end, where that is near or past.
    pub credentials_end: Option<String>,
    /// Whether the serial consoles of VMs can be read.
    pub consoles: bool,
    /// Why nobody knows whether they can. Then no first contact passes for one that cannot be verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consoles_unclear: Option<String>,
    /// Hosts whose guests could not be listed. A VM of ours, or someone else's on one of our VMIDs, may be there, so
    /// nothing is created while this is not empty. (A host that is offline but whose guests the Proxmox cluster still
    /// lists does not belong here.)
    pub unlisted_hosts: BTreeSet<String>,
    /// The disks of guests on the storages that ours are on, where they could be listed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<DiskList>,
    /// The firewalls of VMs, where the purpose needs them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firewalls: Option<FirewallsView>,
    /// High availability, where the purpose needs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub availability: Option<AvailabilityView>,
    /// Backup jobs, where the purpose needs them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backups: Option<BackupView>,
    /// A VM whose mark is to be restored, where the purpose needs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_mark: Option<Box<LostMarkView>>,
    /// The add-ons, where somebody looked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub addons: Option<AddonsView>,
    /// What could not be observed.
    #[serde(rename = "blind")]
    pub unobserved: Vec<Unobserved>,
}

impl World {
    /// A node's address, declared or found.
    pub fn address(&self, node: &Node) -> Option<IpAddr> {
        node.ip().or_else(|| self.addresses.get(&node.name).copied())
    }

    /// The names of what is there although it is not declared: VMs of ours, members of etcd, nodes of Kubernetes.
    pub fn undeclared(&self, cluster: &Cluster) -> BTreeSet<&str> {
        let declared: BTreeSet<&str> = cluster.nodes.iter().map(|node| node.name.as_str()).collect();
        let vms = self.ours().map(|(node, _)| node).filter(|node| !declared.contains(node));
        vms.chain(self.former.keys().map(String::as_str)).collect()
    }

    /// The VMs that are ours, by the names of their nodes.
    pub fn ours(&self) -> impl Iterator<Item = (&str, &GuestView)> {
        self.guests.values().filter_map(|guest| match &guest.ownership {
            Ownership::Ours { node, .. } => Some((node.as_str(), guest)),
            _ => None,
        })
    }

    /// What is known of an image.
    pub fn image_pin(&self, file: &str) -> Option<&ImagePin> {
        self.image_pins.iter().find(|pin| pin.file == file)
    }

    /// Whether the disk in an image (a volume id) is known to be of this size, or larger. Of what is downloaded only the
    /// pin tells: a file of that name on a storage may be anything until its checksum was compared.
    pub fn holds(&self, boot: &Boot, image: &str, size: u64) -> bool {
        let inside = match boot.image.as_deref() == Some(image) {
            true => self.own_disk,
            false => self.image_pin(names::volid_file(image)).and_then(|pin| pin.disk_size),
        };
        inside.is_some_and(|inside| inside >= size)
    }
}

/// Why a peer that was asked did not answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Unreached {
    /// What stood in the way.
    pub because: Hindrance,
    /// The whole of it, in one sentence.
    pub why: String,
}

/// What stands between us and a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Hindrance {
    /// The secrets that prove who we are are not at hand.
    NoSecrets,
    /// The VMs were made with other secrets than those at hand.
    OtherSecrets,
    /// The VMs have lost their marks, so that nothing proves whose they are.
    LostMarks,
    /// There is no way to its address.
    NoRoute,
    /// Its machine or the proxy refuses the connection.
    Refused,
    /// No answer came in time.
    Silent,
    /// It answered, but not as expected.
    Other,
}

/// A Proxmox host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HostView {
    /// Whether it is online.
    pub online: bool,
    /// What its processors are; none if nobody asked, or it was not told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arch: Option<Arch>,
    /// Logical CPUs.
    pub cpus: u32,
    /// Bytes of memory in all.
    pub memory: u64,
    /// Bridges that exist (empty and `bridges_seen` false: could not be read).
    pub bridges: BTreeSet<String>,
    /// Whether the bridges could be listed.
    pub bridges_seen: bool,
    /// Storages as seen from this host, by name.
    pub storages: BTreeMap<String, StorageView>,
}

/// A storage as one host sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageView {
    /// Storage type (`dir`, `lvmthin`, `zfspool`, `nfs` …).
    pub kind: String,
    /// Content types it takes.
    pub content: BTreeSet<String>,
    /// Enabled and active.
    pub active: bool,
    /// An administrator switched it off.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
    /// The same on every host.
    pub shared: bool,
    /// Bytes in all.
    pub total: u64,
    /// Bytes free.
    pub available: u64,
}

/// The disks of guests on a storage, as one host lists them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DiskList {
    /// Host.
    pub host: String,
    /// Storage.
    pub storage: String,
    /// The disks.
    pub disks: Vec<DiskView>,
}

/// A disk of a guest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DiskView {
    /// Volume id.
    pub volid: String,
    /// The guest's number, as the volume's name has it.
    pub vmid: u32,
    /// Bytes that the guest may write.
    pub size: u64,
}

/// A volume on the images storage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeView {
    /// Host through which it was seen.
    pub host: String,
    /// Storage.
    pub storage: String,
    /// Full volume id, `local:iso/x.iso`.
    pub volid: String,
    /// Content type (`iso`, `import`).
    pub content: String,
    /// Bytes; 0 where Proxmox does not say.
    pub size: u64,
}

/// Size and digest of an image as first seen, and the size of the disk inside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImagePin {
    /// File name on the storage.
    pub file: String,
    /// Bytes.
    pub size: u64,
    /// Lower-case hex SHA-256.
    pub sha256: String,
    /// Bytes of the disk that it holds, where that was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_size: Option<u64>,
}
