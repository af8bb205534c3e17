//! A plan: an immutable graph of typed steps that leaves the executor no choice.

mod action;

use daedal_inventory::{Cluster, Role};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::advice::Advice;
use crate::difference::Difference;
use crate::generation::Unseen;
use crate::phase::Phase;
use crate::world::World;
use crate::{basis, digest};

pub use action::{Action, CloneOf, DocumentChange, FieldChange, ObjectChange, PlannedObject, Recovery};
pub use daedal_machine::RunningVersions;

/// Version of the plan format.
pub const FORMAT: u32 = 2;

/// What a plan is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Purpose {
    /// Make the world what the inventory says.
    Apply,
    /// Remove everything that is ours, but images.
    Destroy,
    /// Take nodes that are no longer declared out of the cluster, and remove their VMs.
    Remove,
    /// Destroy templates that are of no use any more.
    PruneTemplates,
    /// Delete volumes that Proxmox left behind.
    PruneVolumes,
    /// Set the firewall of the VMs, or turn it off.
    Firewall,
    /// Put the control planes under high availability, or take them out.
    Ha,
    /// Keep a job that backs up the VMs, or remove it.
    BackupJob,
    /// Write the lost mark of a node's VM again.
    Mark,
}

impl Purpose {
    /// Whether VMs of nodes are destroyed for it.
    pub fn takes_vms(self) -> bool {
        matches!(self, Self::Destroy | Self::Remove)
    }

    /// Whether something of the cluster is destroyed for it, which `protect: true` forbids. What guards VMs is not meant: to take
    /// a guard off loses no data, and the same command puts it back.
    pub fn destroys(self) -> bool {
        self.takes_vms() || self.prunes()
    }

    /// Whether it only clears away what no node uses.
    pub fn prunes(self) -> bool {
        matches!(self, Self::PruneTemplates | Self::PruneVolumes)
    }

    /// Whether nodes become something else than what was applied last.
    pub fn concerns_nodes(self) -> bool {
        self == Self::Apply || self.takes_vms()
    }
}

/// An immutable plan. Same cluster and world, same bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Version of this format.
    pub format: u32,
    /// What for.
    pub purpose: Purpose,
    /// The part of an apply that it is limited to; none: all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// Cluster name.
    pub cluster: String,
    /// Cluster uuid.
    #[schemars(with = "String")]
    pub uuid: Uuid,
    /// SHA-256 of the resolved cluster.
    pub intent: String,
    /// SHA-256 of what the plan relies on in the world; a saved plan is refused when it no longer fits.
    pub basis: String,
    /// A generation that is newer than what the store knows: this plan may undo it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<Unseen>,
    /// Whether VMs are destroyed of which no secrets prove that they are this store's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_secrets: bool,
    /// Whether somebody asked to prune although the inventory says `protect: true`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub despite_protection: bool,
    /// What runs there: versions, for people.
    #[serde(default)]
    pub versions: Versions,
    /// Every node the plan is about, declared ones first in declared order, and what becomes of each.
    #[serde(default)]
    pub nodes: Vec<PlannedNode>,
    /// Steps in a valid order; a step needs only earlier ones.
    pub steps: Vec<Step>,
    /// Per host: what is there, what will be.
    pub hosts: Vec<HostBudget>,
    /// Control planes before, lowest during, and after.
    pub quorum: Quorum,
    /// What the user should know: why a thing was not done, what is trusted, what was not seen.
    pub notes: Vec<Note>,
    /// What is not as declared and stays so; each is told in a note, too.
    #[serde(default)]
    pub differences: Vec<Difference>,
    /// Whether something could not be seen or compared.
    #[serde(default)]
    pub unseen: bool,
    /// What that is; notes say why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_seen: Vec<String>,
}

impl Plan {
    /// A plan of nothing, for this cluster in this world.
    pub(crate) fn empty(purpose: Purpose, cluster: &Cluster, world: &World) -> Self {
        Self {
            format: FORMAT,
            purpose,
            phase: None,
            cluster: cluster.name.clone(),
            uuid: cluster.uuid,
            intent: digest::intent(cluster),
            basis: basis::basis(cluster, world),
            behind: world.unseen(),
            without_secrets: false,
            despite_protection: false,
            versions: Versions {
                talos: format!("v{}", cluster.talos.version),
                kubernetes: format!("v{}", cluster.kubernetes.version),
                proxmox: world.proxmox_version.clone(),
            },
            nodes: Vec::new(),
            steps: Vec::new(),
            hosts: Vec::new(),
            quorum: Quorum::default(),
            notes: Vec::new(),
            differences: Vec::new(),
            unseen: false,
            not_seen: Vec::new(),
        }
    }
}

/// Versions, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Versions {
    /// Talos, `v1.12.0`.
    pub talos: String,
    /// Kubernetes, `v1.35.0`.
    pub kubernetes: String,
    /// Proxmox VE as observed, `9.2.11`.
    pub proxmox: String,
}

/// A node and what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedNode {
    /// Node name.
    pub name: String,
    /// Role; none for a VM of ours whose node is no longer declared.
    #[schemars(with = "Option<String>")]
    pub role: Option<Role>,
    /// VMID.
    pub vmid: u32,
    /// Host it is or will be on; none where that could not be decided.
    pub host: Option<String>,
    /// Address without prefix length; empty where the node is no longer declared.
    pub address: String,
    /// vCPUs.
    pub cores: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes of system disk.
    pub disk: u64,
    /// What becomes of it.
    pub fate: Fate,
}

/// What becomes of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Fate {
    /// Its VM is made.
    Create,
    /// Its VM is there and is changed, or brought to life.
    Change,
    /// Nothing to do.
    Keep,
    /// Something is in the way; a note says what.
    Blocked,
    /// Its VM is destroyed.
    Destroy,
}

/// Position of a step in [`Plan::steps`].
pub type StepId = u32;

/// One step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// Its position.
    pub id: StepId,
    /// Steps that must be done before; all smaller.
    pub needs: Vec<StepId>,
    /// The node it is about.
    pub node: Option<String>,
    /// The host it loads.
    pub host: Option<String>,
    /// What is done.
    pub action: Action,
    /// Why, in a short phrase.
    pub reason: String,
    /// What it interrupts or destroys.
    pub impact: Impact,
}

/// What a step interrupts or destroys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Impact {
    /// Nothing.
    None,
    /// Cuts a running node's network for a moment.
    Interrupt,
    /// Restarts a node.
    Restart,
    /// Destroys a VM, or a file that is not made anew by every run (config media are, so deleting them is no loss).
    Destroy,
}

/// A host before and after.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostBudget {
    /// Host name.
    pub host: String,
    /// vCPUs that may be promised, promised before, promised after.
    pub cores: Budget,
    /// Bytes of memory likewise.
    pub memory: Budget,
    /// Bytes on the disks storage likewise.
    pub disk: Budget,
    /// Our nodes on it after the plan, in order.
    pub nodes: Vec<String>,
}

/// Room, before and after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// What there is in all.
    pub total: u64,
    /// Taken before.
    pub before: u64,
    /// Taken after.
    pub after: u64,
}

/// Voting etcd members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Quorum {
    /// Members before.
    pub before: u32,
    /// Fewest members at any point.
    pub lowest: u32,
    /// Members after.
    pub after: u32,
}

/// Something the user should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Note {
    /// How much it matters.
    pub level: Level,
    /// What it is.
    #[serde(flatten)]
    pub advice: Advice,
}

/// How much a note matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Level {
    /// Worth knowing.
    Info,
    /// Needs attention; the plan goes on around it.
    Warning,
    /// Part of the intent cannot be reached (the rest of the plan still stands).
    Problem,
}

impl Plan {
    /// Whether it changes the cluster itself, not only files on this machine.
    pub fn touches_cluster(&self) -> bool {
        // Objects that guard VMs are on no host.
        let anything = self.purpose != Purpose::Apply && !self.is_empty();
        anything || self.touches_machines() || self.steps.iter().any(|step| step.action.addon().is_some())
    }

    /// Whether it changes nodes or hosts.
    pub fn touches_machines(&self) -> bool {
        self.steps.iter().any(|step| step.node.is_some() || step.host.is_some())
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Whether all was seen, and all of it is as declared.
    pub fn finds_all_as_declared(&self) -> bool {
        self.finds_no_difference() && !self.unseen
    }

    /// Whether all is as declared, as far as it could be seen: nothing to do, and no difference stays.
    pub fn finds_no_difference(&self) -> bool {
        self.steps.is_empty() && self.differences.is_empty()
    }
}
