//! What advice is made of.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::size;
use crate::world::GuestView;

/// A guest with everything needed to find it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GuestName {
    /// VMID.
    pub vmid: u32,
    /// Name; empty where it has none.
    pub name: String,
    /// Host it is on.
    pub host: String,
}

impl From<&GuestView> for GuestName {
    fn from(guest: &GuestView) -> Self {
        Self { vmid: guest.vmid, name: guest.name.clone(), host: guest.host.clone() }
    }
}

impl fmt::Display for GuestName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.as_str() {
            "" => write!(f, "VM {} on {}", self.vmid, self.host),
            name => write!(f, "VM {} \"{name}\" on {}", self.vmid, self.host),
        }
    }
}

/// A VM whose create or clone task died half-way, which no API token can free.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Died {
    /// VMID.
    pub vmid: u32,
    /// Host it is on.
    pub host: String,
    /// The lock that it was left with.
    pub lock: String,
    /// Whether the token may not see it.
    pub unseen: bool,
}

/// A volume and its size.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeName {
    /// Volume id.
    pub volid: String,
    /// Bytes.
    pub size: u64,
}

impl fmt::Display for VolumeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.volid, size::show(self.size))
    }
}

/// A storage that nodes of this cluster are on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StorageUse {
    /// The storage.
    pub storage: String,
    /// The host that was asked.
    pub host: String,
    /// Whether all hosts share it.
    pub shared: bool,
    /// The nodes whose disks are on it.
    pub nodes: Vec<String>,
}

/// Why nothing can be done on a storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum StorageFault {
    /// It is disabled in its config.
    Disabled,
    /// Proxmox could not activate it.
    #[default]
    Inactive,
}

/// What may be where guests could not be listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum UnlistedRisk {
    /// VMs of the cluster that is destroyed.
    #[default]
    Vms,
    /// Templates of the cluster.
    Templates,
    /// VMs that use volumes which look left over.
    Volumes,
}

/// Why config media could not be looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "is")]
pub enum MediaHidden {
    /// The host is offline.
    #[default]
    Offline,
    /// The storage could not be listed.
    Unlisted {
        /// Why.
        why: String,
    },
}

/// What has a node's VMID.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "is")]
pub enum VmidTaken {
    /// Nothing of ours.
    #[default]
    Foreign,
    /// It may be the node: its mark is missing or damaged.
    LostMark {
        /// What does not agree.
        why: String,
    },
    /// It looks like ours and is not.
    LookAlike {
        /// What does not agree.
        why: String,
    },
    /// Its config could not be read.
    Unreadable {
        /// Why.
        why: String,
    },
    /// A template of this cluster.
    Template,
    /// Another node of this cluster.
    Node {
        /// Its name.
        name: String,
    },
}

/// Why pods are not evicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum NotEvicted {
    /// It was asked for.
    #[default]
    AsAsked,
    /// The node is not Ready.
    NotReady,
    /// The VM does not run.
    NotRunning,
}

/// What stands in the way of a template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "is")]
pub enum TemplateObstacle {
    /// Its VMID is taken by what is no template of this cluster.
    #[default]
    Taken,
    /// It is on another host.
    OtherHost {
        /// Where it belongs.
        host: String,
    },
    /// It is locked.
    Locked {
        /// The lock.
        lock: String,
    },
    /// It is outdated, and disks are linked to it.
    Linked {
        /// The VMs that they are of.
        linked: Vec<String>,
    },
}
