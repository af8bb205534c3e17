//! What Proxmox keeps to guard VMs: firewalls, high availability and backup jobs. Only read for the purposes that need it.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Options of an object by name, as Proxmox takes and tells them.
pub type ObjectOptions = BTreeMap<String, String>;

/// Objects of one kind, by id.
pub type Objects = BTreeMap<String, ObjectOptions>;

/// A kind of object that Proxmox keeps for the whole datacenter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ObjectKind {
    /// A VM under high availability, by `vm:300`.
    #[default]
    HaResource,
    /// A rule of high availability (Proxmox VE 9 and newer).
    HaRule,
    /// A group of high availability (before).
    HaGroup,
    /// A backup job.
    BackupJob,
}

impl ObjectKind {
    /// What it is called.
    pub fn noun(self) -> &'static str {
        match self {
            Self::HaResource => "HA resource",
            Self::HaRule => "HA rule",
            Self::HaGroup => "HA group",
            Self::BackupJob => "backup job",
        }
    }
}

/// High availability, all of the datacenter's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AvailabilityView {
    /// Whether VMs are kept apart by rules (Proxmox VE 9 and newer), not by groups.
    pub rules: bool,
    /// These rules, or groups.
    pub apart: Objects,
    /// VMs and containers that are managed, by `vm:300`.
    pub resources: Objects,
    /// How many hosts Proxmox has in all.
    pub hosts: usize,
}

/// Backup jobs, all of the datacenter's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BackupView {
    /// The jobs.
    pub jobs: Objects,
    /// Storages that the token may see, by name.
    pub storages: BTreeMap<String, BackupStorage>,
}

/// A storage that backups may go to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BackupStorage {
    /// A host that has it.
    pub host: String,
    /// Content types it takes.
    pub content: BTreeSet<String>,
}

/// The firewalls of VMs that are ours.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FirewallsView {
    /// Those that were read, by VMID.
    pub seen: BTreeMap<u32, FirewallView>,
    /// Why others could not be.
    pub unread: BTreeMap<u32, String>,
}

/// The firewall of a VM. Whether it filters at all is an option of the network card.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FirewallView {
    /// Its options.
    pub options: ObjectOptions,
    /// Its rules in order, ours and others.
    pub rules: Vec<VmRule>,
    /// What is in our IP set; none if there is no such set.
    pub members: Option<BTreeSet<String>>,
}

/// A rule of a VM's firewall.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VmRule {
    /// `in` or `out`.
    pub direction: String,
    /// `ACCEPT`, `DROP`, `REJECT`.
    pub action: String,
    /// `tcp`, `udp`, `icmp`; none for every one.
    pub proto: Option<String>,
    /// Destination ports.
    pub dport: Option<String>,
    /// Addresses, or `+name` for an IP set.
    pub source: Option<String>,
    /// Comment.
    pub comment: Option<String>,
    /// In force.
    pub enable: bool,
}

/// Options whose value is a list that Proxmox keeps in an order of its own.
const LISTS: [&str; 3] = ["nodes", "resources", "vmid"];

/// Whether an option of an object has this value.
pub fn object_has(there: &ObjectOptions, option: &str, wanted: &str) -> bool {
    let list = |value: &str| value.split(',').map(|part| part.trim().to_owned()).collect::<BTreeSet<_>>();
    let Some(value) = there.get(option) else { return false };
    match LISTS.contains(&option) {
        true => list(value) == list(wanted),
        false => value.trim_end() == wanted,
    }
}

/// Whether an object lacks some of the wanted options, or has others in their place. Options that are not wanted do not matter.
pub fn object_differs(there: &ObjectOptions, wanted: &ObjectOptions) -> bool {
    wanted.iter().any(|(option, value)| !object_has(there, option, value))
}
