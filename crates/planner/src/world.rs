//! What was observed of the world, and what could not be. Plain data; only the engine's `observe` makes one for real.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use daedal_inventory::{Arch, Boot, Cluster, Node, Role};
use daedal_machine::vm::{self, FIRST_NIC, Options, Value};
use serde::{Deserialize, Serialize};

use crate::error::{freeing, freeing_unseen};
use crate::generation::Generation;
use crate::mark::SecretsId;
use crate::names;
use crate::plan::{DocumentChange, RunningVersions};
use crate::slots::Seats;

/// Everything the planner may know. Always partial: [`World::unobserved`] says what was not seen, and why.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
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
    #[serde(default)]
    pub consoles: bool,
    /// Why nobody knows whether they can. Then no first contact passes for one that cannot be verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consoles_unclear: Option<String>,
    /// Hosts whose guests could not be listed. A VM of ours, or someone else's on one of our VMIDs, may be there, so
    /// nothing is created while this is not empty. (A host that is offline but whose guests the Proxmox cluster still
    /// lists does not belong here.)
    pub unlisted_hosts: BTreeSet<String>,
    /// The disks of guests on the storages that ours are on, where they could be listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<DiskList>,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hindrance {
    /// The secrets that prove who we are are not at hand.
    NoSecrets,
    /// There is no way to its address.
    NoRoute,
    /// Its machine or the proxy refuses the connection.
    Refused,
    /// No answer came in time.
    Silent,
    /// It answered, but not as expected.
    Other,
}

/// One thing that could not be observed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Unobserved {
    /// What, such as `storage local on host atlas`.
    pub what: String,
    /// Why, in one sentence.
    pub why: String,
}

impl Unobserved {
    /// What is unseen when a storage's content could not be listed on a host.
    pub fn storage(storage: &str, host: &str) -> String {
        format!("storage {storage} on host {host}")
    }
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

/// A guest (VM or container), ours or not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GuestView {
    /// VMID.
    pub vmid: u32,
    /// Host it is on now.
    pub host: String,
    /// Name.
    pub name: String,
    /// A template never runs.
    pub template: bool,
    /// Running now.
    pub running: bool,
    /// vCPUs (cores × sockets).
    pub cores: u32,
    /// Bytes of memory configured.
    pub memory: u64,
    /// Bytes of disk configured.
    pub disk: u64,
    /// Guest lock (`create`, `backup` …).
    pub lock: Option<String>,
    /// The token may not see it; that it is there is told by its task and its number.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unseen: bool,
    /// Tags, sorted.
    pub tags: Vec<String>,
    /// Whose it is, judged from the config read from its node.
    pub ownership: Ownership,
    /// The parts of the config we compare, where it was read.
    pub config: Option<VmConfig>,
}

impl GuestView {
    /// Bytes of its system disk: as its config says it, or else as it is listed.
    pub fn system_disk(&self) -> u64 {
        self.config.as_ref().map_or(self.disk, |config| config.disk)
    }

    /// What is known of it once the task that made it died, and the command that frees it.
    pub fn died_half_way(&self) -> (String, String) {
        let (vmid, host) = (self.vmid, &self.host);
        let lock = self.lock.as_deref().unwrap_or("create");
        let task = if lock == "clone" { "A clone task for" } else { "The task that creates" };
        match self.unseen {
            true => (
                format!(
                    "{task} VM {vmid} on {host} died half-way. The VMID is taken, and the token may not see \
                     the VM: most likely it is what the task left, which is not in its pool yet and locked ({lock}). No API \
                     token can free it"
                ),
                freeing_unseen(host, vmid, lock),
            ),
            false => (
                format!(
                    "The task that makes VM {vmid} on {host} died half-way and left it locked ({lock}). No API token can \
                     free it"
                ),
                freeing(host, vmid),
            ),
        }
    }

    /// Bytes of all its disks on the storage of the system disks.
    pub fn disk_in_all(&self, storage: &str) -> u64 {
        let further = self.config.as_ref().map(|config| vm::further_bytes(&config.options, storage));
        self.system_disk() + further.unwrap_or(0)
    }
}

/// Whose a guest is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "is")]
pub enum Ownership {
    /// Nothing of ours on it.
    #[default]
    Foreign,
    /// Mark, cluster uuid and SMBIOS uuid all agree.
    Ours {
        /// Node name in the mark.
        node: String,
        /// Digest of what was asked when it was made.
        digest: String,
    },
    /// It carries something of ours (tag, name, mark) but not all of it agrees: never touched, reported.
    LookAlike {
        /// What does not agree, in one sentence.
        why: String,
        /// What kind of look-alike it is.
        #[serde(default)]
        likeness: Likeness,
    },
    /// Shows only `lock: create`; its create task (ours) tells that it was to become this node.
    HalfMade {
        /// Node name.
        node: String,
        /// Whether the task still runs (then waiting helps) or died (then only root on the host can free it).
        task_running: bool,
        /// The task, for messages.
        upid: String,
    },
    /// A template of this cluster, or one in the making.
    Template {
        /// The role it is for.
        role: Role,
        /// Digest of what it is made of.
        digest: String,
    },
    /// Its config could not be read.
    Unreadable {
        /// Why.
        why: String,
    },
}

/// How a guest looks like ours without being proven so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Likeness {
    /// A copy, a restore, or somebody else's with our tag.
    #[default]
    Copy,
    /// Its mark is missing or damaged: it may be ours, and nothing on it tells.
    LostMark,
    /// A node of a cluster that another store has the secrets of.
    OtherSecrets,
}

/// The compared parts of a VM's config, parsed and normalised.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VmConfig {
    /// Its options as they are set, in the values that the inventory's are compared in; empty where they were not read.
    /// Volumes of other owners are not among them.
    pub options: Options,
    /// System disk's size in bytes, without what its storage rounded up; 0 if there is none.
    pub disk: u64,
    /// The volume in the config drive, if any (`local:iso/x.iso`).
    pub media: Option<String>,
    /// The volume in the boot drive, if any.
    pub iso: Option<String>,
    /// The template its disk is linked to.
    pub base: Option<u32>,
    /// Its mark says that it still waits for its first config, which it gets in maintenance mode.
    pub waiting: bool,
    /// Its mark is of an older version and names no secrets.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unsigned: bool,
    /// Its mark says that we set Proxmox's own protection flag, so that we may take it off.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub protected_by_us: bool,
    /// What its SCSI slots hold, the system disk's aside.
    #[serde(skip_serializing_if = "Seats::is_empty")]
    pub seats: Seats,
    /// What the running VM has, where something of it waits for the next start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<Box<VmConfig>>,
    /// Every volume that it uses or keeps.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub volumes: BTreeSet<String>,
    /// Whether it has snapshots, which may use more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub snapshots: bool,
}

impl VmConfig {
    /// The MAC of its first network card; empty if it has none.
    pub fn mac(&self) -> &str {
        match self.options.get(FIRST_NIC) {
            Some(Value::Card(card)) => &card.mac,
            _ => "",
        }
    }

    /// Whether Proxmox's own protection flag is set: neither the VM nor its disks can be removed.
    pub fn is_protected(&self) -> bool {
        self.options.get("protection") == Some(&Value::Flag(true))
    }
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

/// What one node says of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeView {
    /// The Talos API.
    pub talos: TalosView,
    /// Its etcd member (control planes).
    pub etcd: EtcdView,
    /// Its Kubernetes node object's Ready condition; none if there is no object or no API server.
    pub ready: Option<bool>,
    /// Where Kubernetes knows it, if that is another address than the declared one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elsewhere: Option<String>,
    /// Kubelet version as Kubernetes reports it.
    pub kubelet: Option<String>,
    /// The machine config it runs on, beside the declared one.
    pub config: ConfigView,
    /// The versions it runs, where they are not the declared ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub versions: Option<RunningVersions>,
    /// Schematic of the system it runs, where an Image Factory built that and the node says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schematic: Option<String>,
}

impl NodeView {
    /// Whether its next upgrade would be to another image once it has the declared config.
    pub fn gets_another_installer(&self) -> bool {
        let ConfigView::Differs { changes, .. } = &self.config else { return false };
        changes.iter().any(|change| {
            let path = match change.document.as_str() {
                "UnattendedInstallConfig" => "installer.image",
                _ => "machine.install.image",
            };
            change.fields.iter().any(|field| field.path == path)
        })
    }
}

/// A member of etcd.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MemberView {
    /// Its id, as etcd writes it: hexadecimal.
    pub id: String,
    /// Its node's name, as the inventory or the VM's mark has it; its own where it is nobody's of ours; empty until it has
    /// started.
    pub name: String,
    /// Where it says it is.
    pub address: Option<String>,
    /// It follows, but does not vote yet.
    pub learner: bool,
    /// Whether it answered itself: it runs, and sees a quorum.
    pub serves: bool,
    /// Whose it is was told by nothing but an address or a name that others may have had.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub guessed: bool,
}

/// What is known of a node that the inventory does not name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FormerView {
    /// Where it is, as etcd or Kubernetes tell.
    pub address: Option<String>,
    /// The name that Kubernetes knows it by, where that is another than ours: it may be DHCP's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known_as: Option<String>,
    /// What it calls itself, and etcd knows it by, where that is another than ours. Kubernetes may write it otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub called: Option<String>,
    /// Its role, as etcd or Kubernetes tell.
    pub role: Option<Role>,
    /// The Talos API at that address.
    pub talos: TalosView,
    /// Its Kubernetes node object's Ready condition; none if there is no object or no API server.
    pub ready: Option<bool>,
}

impl FormerView {
    /// This, and where it says nothing, what was known besides.
    pub fn beside(self, known: Option<Self>) -> Self {
        let Some(known) = known else { return self };
        Self {
            address: self.address.or(known.address),
            known_as: self.known_as.or(known.known_as),
            called: self.called.or(known.called),
            role: self.role.or(known.role),
            talos: self.talos,
            ready: self.ready.or(known.ready),
        }
    }
}

/// A node's machine config beside the one that is declared for the versions it runs. Digests are of what the configs say, not of their texts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "is")]
pub enum ConfigView {
    /// Not seen.
    #[default]
    Unknown,
    /// They say the same.
    AsDeclared,
    /// They differ, and the node takes the declared one.
    Differs {
        /// Digest of what it runs on.
        running: String,
        /// Digest of what is declared.
        declared: String,
        /// Whether the node says that it has to reboot for it.
        reboot: bool,
        /// What differs, secrets as marks.
        changes: Vec<DocumentChange>,
    },
    /// They differ in what must not change on a running node, or the node refuses the declared one.
    Held {
        /// Why, as one or two sentences.
        why: String,
    },
}

/// A node's Talos API.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "is")]
pub enum TalosView {
    /// Did not answer.
    #[default]
    Unreachable,
    /// Answers without a client certificate: waits for a config.
    Maintenance,
    /// Answers over mTLS with our keys.
    Configured {
        /// Talos version, `v1.12.0`.
        version: String,
        /// Machine stage (`booting`, `running` …).
        stage: String,
    },
    /// Refuses our certificate, or shows one that our CA did not sign.
    OtherCluster,
}

impl fmt::Display for TalosView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable => f.write_str("unreachable"),
            Self::Maintenance => f.write_str("maintenance"),
            Self::Configured { version, stage } => write!(f, "{version} {stage}"),
            Self::OtherCluster => f.write_str("other cluster"),
        }
    }
}

/// A node's Ready condition, as Kubernetes' own tools write it.
pub fn readiness(ready: bool) -> &'static str {
    if ready { "Ready" } else { "NotReady" }
}

/// A node's etcd.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "is")]
pub enum EtcdView {
    /// Not asked, or did not answer.
    #[default]
    Unknown,
    /// etcd waits for bootstrap or has not joined.
    NotJoined,
    /// A learner.
    Learner,
    /// A voting member.
    Member,
}
