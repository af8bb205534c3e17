//! What could not be observed, and why.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use crate::fix::Fix;

/// One thing that could not be observed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Unobserved {
    /// What.
    #[serde(serialize_with = "in_words")]
    #[schemars(with = "String")]
    pub what: Aspect,
    /// Why, in one sentence.
    pub why: String,
    /// What helps, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<Fix>,
}

impl Unobserved {
    /// Nothing is known that helps.
    pub fn new(what: Aspect, why: impl Into<String>) -> Self {
        Self { what, why: why.into(), fix: None }
    }
}

fn in_words<S: Serializer>(what: &Aspect, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(what)
}

/// A part of the world that can be looked at by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "is", content = "of")]
pub enum Aspect {
    /// All that is declared, for want of a plan.
    #[default]
    Declared,
    /// What the token may do.
    Permissions,
    /// High availability.
    HighAvailability,
    /// Backup jobs.
    BackupJobs,
    /// The stored secrets, which marks are compared with.
    Secrets,
    /// What the store keeps besides the secrets: what was applied last, and what images are.
    Store,
    /// A host and all that is on it.
    Host(String),
    /// The guests of a host.
    Guests(String),
    /// The bridges of a host.
    Bridges(String),
    /// What the processors of a host are.
    Processors(String),
    /// The tasks of a host.
    Tasks(String),
    /// The content of a storage: on one host, or on all that have it.
    Storage {
        /// Storage.
        storage: String,
        /// Host; none where no host could be asked.
        host: Option<String>,
    },
    /// The disks of guests on a storage.
    Disks {
        /// Storage.
        storage: String,
        /// Host.
        host: String,
    },
    /// How much of a storage is free.
    FreeSpace {
        /// Storage.
        storage: String,
        /// Host.
        host: String,
    },
    /// A VM.
    Vm {
        /// VMID.
        vmid: u32,
        /// Host, where it is known.
        host: Option<String>,
    },
    /// What the nodes say of themselves.
    Nodes,
    /// What a node says of itself.
    Node(String),
    /// What the nodes run on.
    MachineConfigs,
    /// What a node runs on.
    MachineConfig(String),
    /// etcd.
    Etcd,
    /// The API server.
    Kubernetes,
    /// What of the add-ons is in the cluster.
    Addons,
    /// An add-on.
    Addon(String),
}

impl Aspect {
    /// The content of a storage on a host.
    pub fn storage_on(storage: &str, host: &str) -> Self {
        Self::Storage { storage: storage.to_owned(), host: Some(host.to_owned()) }
    }

    /// Whether guests may be there that nobody saw.
    pub fn hides_guests(&self) -> bool {
        matches!(self, Self::Host(_) | Self::Guests(_) | Self::Tasks(_) | Self::Vm { .. })
    }

    /// Whether disks of guests may be there that nobody saw.
    pub fn hides_disks(&self) -> bool {
        matches!(self, Self::Host(_) | Self::Disks { .. })
    }
}

impl fmt::Display for Aspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Declared => f.write_str("what is declared"),
            Self::Permissions => f.write_str("the token's permissions"),
            Self::HighAvailability => f.write_str("high availability"),
            Self::BackupJobs => f.write_str("backup jobs"),
            Self::Secrets => f.write_str("secrets"),
            Self::Store => f.write_str("the store"),
            Self::Host(host) => write!(f, "host {host}"),
            Self::Guests(host) => write!(f, "virtual machines of host {host}"),
            Self::Bridges(host) => write!(f, "bridges of host {host}"),
            Self::Processors(host) => write!(f, "processors of host {host}"),
            Self::Tasks(host) => write!(f, "tasks of host {host}"),
            Self::Storage { storage, host: None } => write!(f, "storage {storage}"),
            Self::Storage { storage, host: Some(host) } => write!(f, "storage {storage} on host {host}"),
            Self::Disks { storage, host } => write!(f, "disks on storage {storage} on host {host}"),
            Self::FreeSpace { storage, host } => write!(f, "free space of storage {storage} on host {host}"),
            Self::Vm { vmid, host: None } => write!(f, "VM {vmid}"),
            Self::Vm { vmid, host: Some(host) } => write!(f, "VM {vmid} on host {host}"),
            Self::Nodes => f.write_str("nodes"),
            Self::Node(node) => write!(f, "node {node}"),
            Self::MachineConfigs => f.write_str("machine configs"),
            Self::MachineConfig(node) => write!(f, "machine config of {node}"),
            Self::Etcd => f.write_str("etcd"),
            Self::Kubernetes => f.write_str("Kubernetes"),
            Self::Addons => f.write_str("add-ons"),
            Self::Addon(addon) => write!(f, "add-on {addon}"),
        }
    }
}
