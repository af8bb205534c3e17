//! Guests of Proxmox, ours or not: what was read of them, and whose they are.

use std::collections::BTreeSet;

use daedal_inventory::Role;
use daedal_machine::vm::{self, FIRST_NIC, Options, Value};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::advice::Died;
use crate::slots::Seats;
use crate::world::TalosView;

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
    /// SMBIOS uuid, where its config was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smbios: Option<Uuid>,
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

    /// Whether it is a template whose create died, so that only root on the host can free it.
    pub fn is_dead_template(&self) -> bool {
        matches!(self.ownership, Ownership::Template { dead: true, .. })
    }

    /// It as what a task left that died.
    pub fn died(&self) -> Died {
        let lock = self.lock.clone().unwrap_or_else(|| "create".to_owned());
        Died { vmid: self.vmid, host: self.host.clone(), lock, unseen: self.unseen }
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
        /// Digest of what it is made of; empty while its create shows nothing.
        digest: String,
        /// Whether the task that creates it died, so that only root on the host can free it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        dead: bool,
    },
    /// Its config could not be read.
    Unreadable {
        /// Why.
        why: String,
    },
}

impl Ownership {
    /// A template whose create runs or died, and which shows nothing of itself yet.
    pub fn unmade_template(role: Role, dead: bool) -> Self {
        Self::Template { role, digest: String::new(), dead }
    }
}

/// How a guest looks like ours without being proven so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Likeness {
    /// Its mark names this cluster, but was made for another VM: a copy or a restore.
    #[default]
    Copy,
    /// It has the SMBIOS uuid of one of our nodes, and the mark of another cluster.
    OtherMark,
    /// Its mark is missing or damaged: it may be ours, and nothing on it tells.
    LostMark,
    /// A node of a cluster that another store has the secrets of.
    OtherSecrets,
}

/// What was read of a VM whose mark is lost, to judge whose it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LostMarkView {
    /// VMID.
    pub vmid: u32,
    /// SMBIOS uuid, if it has a well-formed one.
    pub smbios: Option<Uuid>,
    /// MAC of its first network card.
    pub mac: Option<String>,
    /// Its notes.
    pub notes: String,
    /// Proxmox's digest of the config that all this was read from.
    pub config: String,
    /// What its Talos API says; none if it was not asked, because the VM does not run.
    pub talos: Option<TalosView>,
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
