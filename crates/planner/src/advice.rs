//! What a note of a plan says, as data. Words are made of it where people read them; programs match on its code.

mod parts;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::difference::{Remedy, Stays};
use crate::fix::{self, Fix};
use crate::phase::{Missing, Phase};
use crate::world::{AddonOwner, Aspect, FieldConflict, Likeness, ObjectKind};

pub use parts::{
    Died, GuestName, MediaHidden, NotEvicted, StorageFault, StorageUse, TemplateObstacle, UnlistedRisk,
    VmidTaken, VolumeName,
};

/// Defines [`Advice`] with the code of every kind, so that none can be without one.
macro_rules! advice {
    ($($(#[$doc:meta])+ $kind:ident = $code:literal { $($(#[$attribute:meta])* $field:ident: $type:ty),* $(,)? })+) => {
        /// What the user should know, and all that can be said about it. In JSON: `code` and `data`.
        ///
        /// Fields mean the same everywhere: `node` and `nodes` are names of nodes, `host` and `hosts` of hosts, `guest` is a VM
        /// or container of whoever, `why` is what a peer or a look said, `lock` what Proxmox calls the lock.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "code", content = "data")]
        #[allow(missing_docs, reason = "the fields are explained once, above")]
        pub enum Advice {
            $($(#[$doc])+ #[serde(rename = $code, rename_all = "camelCase")] $kind { $($(#[$attribute])* $field: $type),* },)+
        }

        impl Advice {
            /// What names its kind for programs; it never changes.
            pub fn code(&self) -> &'static str {
                match self {
                    $(Self::$kind { .. } => $code,)+
                }
            }

            /// One of every kind, with nothing in it.
            pub fn every_kind() -> Vec<Self> {
                vec![$(Self::$kind { $($field: Default::default()),* }),+]
            }
        }
    };
}

advice! {
    // The whole cluster.
    /// The certificate of Proxmox is not verified.
    TlsNotVerified = "tls-not-verified" { endpoint: String }
    /// Something could not be seen.
    NotSeen = "not-seen" {
        what: Aspect,
        why: String,
        #[serde(with = "fix::parts")]
        #[schemars(with = "Option<Vec<fix::FixPart>>")]
        fix: Option<Fix>,
    }
    /// Something is not as declared and stays so.
    NotAsDeclared = "not-as-declared" {
        nodes: Vec<String>,
        what: String,
        declared: String,
        found: String,
        stays: Stays,
        remedy: Option<Remedy>,
    }
    /// Workers are not brought up, because no control plane can come up.
    NoControlPlane = "no-control-plane" { nodes: Vec<String> }
    /// Signed images boot, and nobody checks their signatures.
    SignaturesNotChecked = "signatures-not-checked" {}
    /// Configs with keys are given to nodes that did not prove who they are.
    FirstContactUnverified = "first-contact-unverified" { nodes: Vec<String> }
    /// Nodes stay NotReady, because no network is installed.
    NoCni = "no-cni" {}
    /// Whether an etcd exists is not known, so none is bootstrapped.
    EtcdInDoubt = "etcd-in-doubt" { suspects: Vec<String> }
    /// An earlier phase of the apply is not done. Without nodes it is about the whole cluster.
    PhaseMissing = "phase-missing" { cluster: String, nodes: Vec<String>, what: Missing, phase: Phase }
    /// A phase of the apply has something to do that another one does not: after `after`, if that has to be carried out before.
    PhaseLeft = "phase-left" { phase: Phase, steps: usize, after: Option<Phase> }
    /// The outputs are written once the addresses of the nodes are known.
    OutputsLater = "outputs-later" {}
    /// An even number of members bears no more losses than one less.
    EvenMembers = "even-members" { members: u32 }
    /// The secrets of this store fit no VM of the cluster.
    SecretsUnused = "secrets-unused" { vms: usize }
    /// The secrets of this store fit some VMs of the cluster only.
    SecretsMixed = "secrets-mixed" { vms: usize }

    // Hosts and storages.
    /// A declared host takes no new nodes.
    HostUnusable = "host-unusable" { host: String, why: String, fix: Option<String> }
    /// Stopped guests of others are not counted.
    StoppedGuests = "stopped-guests" { host: String, guests: usize, cores: u64, memory: u64, fits: bool }
    /// Most control planes are on one host.
    ControlPlanesOnOneHost = "control-planes-on-one-host" { host: String, there: usize, all: usize }
    /// The guests of a host could not be listed.
    HostUnlisted = "host-unlisted" { host: String, risk: UnlistedRisk }
    /// Nodes are not created, because a guest that nobody saw may have their VMIDs.
    VmidsUnclear = "vmids-unclear" { nodes: Vec<String>, hosts: Vec<String> }
    /// Whether nodes have VMs is not known.
    VmsUnclear = "vms-unclear" { nodes: Vec<String>, hosts: Vec<String> }
    /// A storage under VMs of this cluster cannot be seen.
    StorageUnseen = "storage-unseen" { #[serde(flatten)] storage: StorageUse }
    /// A storage under VMs of this cluster does not work.
    StorageFaulty = "storage-faulty" { #[serde(flatten)] storage: StorageUse, fault: StorageFault, kind: String }
    /// A storage under VMs of this cluster is nearly full.
    StorageNearlyFull = "storage-nearly-full" { #[serde(flatten)] storage: StorageUse, available: u64, total: u64 }
    /// Volumes that no VM uses are left over.
    LeftOverVolumes = "left-over-volumes" { host: String, volumes: Vec<VolumeName>, beside_vm: bool }
    /// A volume stays, because a VM has its number.
    VolumeBesideVm = "volume-beside-vm" { host: String, volid: String, vmid: u32 }
    /// Config media may be left where nobody could look.
    MediaMayBeLeft = "media-may-be-left" { what: Aspect, hidden: MediaHidden }
    /// VMs of the cluster that is destroyed may be left where nobody could look.
    VmsMayBeLeft = "vms-may-be-left" {
        what: Aspect,
        why: String,
        #[serde(with = "fix::parts")]
        #[schemars(with = "Option<Vec<fix::FixPart>>")]
        fix: Option<Fix>,
    }
    /// A config medium is not deleted while it is used.
    MediumInUse = "medium-in-use" { node: String, volid: String, guest: GuestName }

    // A node and what claims to be it.
    /// Several guests claim to be one node.
    SeveralClaim = "several-claim" { node: String, guests: Vec<GuestName>, for_apply: bool }
    /// A node's VMID is taken.
    VmidTaken = "vmid-taken" { node: String, vmid: u32, guest: GuestName, by: VmidTaken }
    /// A node's VM was created by another store.
    OtherStore = "other-store" { node: String, guest: GuestName, why: String }
    /// A node's VM has another VMID than declared.
    OtherVmid = "other-vmid" { node: String, guest: GuestName, declared: u32 }
    /// A node's VM is on a host that is offline.
    HostOffline = "host-offline" { node: String, guest: GuestName, leaving: bool }
    /// The task that creates a node's VM died.
    DiedHalfWay = "died-half-way" { node: String, died: Died, goes_on: bool }
    /// A node's VM is still being created.
    StillCreated = "still-created" { node: String, guest: GuestName }
    /// A node's VM was turned into a template.
    TurnedIntoTemplate = "turned-into-template" { node: String, guest: GuestName }
    /// The config of a node's VM could not be read.
    VmUnreadable = "vm-unreadable" { node: String, guest: GuestName }
    /// A node's VM has no system disk.
    NoSystemDisk = "no-system-disk" { node: String, guest: GuestName }
    /// A node of another cluster answers at a node's address.
    OtherCluster = "other-cluster" { node: String, guest: GuestName, address: Option<String> }
    /// A node runs at another address than declared.
    OtherAddress = "other-address" { node: String, found: String, declared: Option<String> }
    /// A node lost its disk's content, and etcd still counts it.
    FormerMember = "former-member" { node: String, ask: Option<String> }
    /// What answers at a node's address waits for a config that the node had already.
    ConfigLost = "config-lost" { node: String, guest: GuestName, address: Option<String> }
    /// What a node runs on could not be seen, and the declared config has changed.
    ConfigNotSeen = "config-not-seen" { node: String, running: bool }
    /// A node's VM is locked and is left as it is.
    VmLocked = "vm-locked" { node: String, vmid: u32, lock: String, running: bool }

    // Nodes that leave.
    /// No such node exists.
    NoSuchNode = "no-such-node" { node: String, undeclared: Vec<String> }
    /// Kubernetes has another name for a node.
    KnownAs = "known-as" { node: String, known_as: String }
    /// A node's VM may run where nobody could look.
    VmMayBeHidden = "vm-may-be-hidden" { node: String, hosts: Vec<String> }
    /// A guest may be the VM of a node. Without a likeness its config could not be read.
    VmInDoubt = "vm-in-doubt" { node: String, guest: GuestName, why: String, likeness: Option<Likeness>, cluster: String }
    /// No API server answers.
    NoApiServer = "no-api-server" { node: String }
    /// A node's address is the API server's endpoint.
    IsEndpoint = "is-endpoint" { node: String }
    /// Which members etcd has is not known.
    MembersUnknown = "members-unknown" { node: String }
    /// Whose a member of etcd is, is not known.
    MemberUnclear = "member-unclear" { node: String, member: String, id: String, guessed: bool }
    /// No declared control plane would be left in etcd.
    LastControlPlane = "last-control-plane" { node: String }
    /// Other members of etcd do not vote yet.
    StillLearning = "still-learning" { node: String, members: Vec<String> }
    /// Other members of etcd do not serve.
    MembersSilent = "members-silent" { node: String, members: Vec<String> }
    /// Pods of a node are not evicted.
    PodsNotEvicted = "pods-not-evicted" { node: String, why: NotEvicted }
    /// A VM is protected in Proxmox.
    VmProtected = "vm-protected" { node: String, guest: GuestName }
    /// A VM is locked and cannot be destroyed.
    CannotDestroyLocked = "cannot-destroy-locked" { node: String, guest: GuestName, lock: String }
    /// A VM has a mark without secrets, and what answers there does not know those of this store.
    MarkNotProven = "mark-not-proven" { node: String, guest: GuestName }

    // Guests that are not destroyed.
    /// A guest of others has one of our VMIDs.
    ForeignGuest = "foreign-guest" { guest: GuestName }
    /// A guest looks like ours, and is not proven to be.
    LookAlike = "look-alike" { guest: GuestName, why: String, likeness: Likeness }
    /// A guest may be of the cluster that is destroyed, and stays. `node` has its VMID, if one has.
    LookAlikeStays = "look-alike-stays" { guest: GuestName, why: String, likeness: Likeness, cluster: String, node: Option<String> }
    /// A template was not completed.
    IncompleteTemplate = "incomplete-template" { guest: GuestName, running: bool }
    /// The config of a guest that may be of the cluster could not be read.
    GuestUnreadable = "guest-unreadable" { guest: GuestName, why: String }
    /// Templates stay.
    TemplatesStay = "templates-stay" { vmids: Vec<u32> }
    /// Disk images and boot ISOs stay.
    ImagesStay = "images-stay" {}

    // Templates.
    /// The task that creates a template died.
    TemplateDied = "template-died" { died: Died, cloning: bool }
    /// A template cannot be made or used.
    TemplateBlocked = "template-blocked" { vmid: u32, guest: GuestName, because: TemplateObstacle }
    /// A template is outdated, and the cluster is protected.
    TemplateProtected = "template-protected" { vmid: u32, guest: GuestName }
    /// Disks are linked to a template.
    TemplateLinked = "template-linked" { vmid: u32, host: String, linked: Vec<String> }
    /// A template is locked and cannot be destroyed.
    TemplateLocked = "template-locked" { vmid: u32, host: String, lock: String }

    // What guards VMs.
    /// None of the cluster's VMs exists.
    NoVms = "no-vms" { cluster: String }
    /// Nodes have no VM yet.
    NoVmYet = "no-vm-yet" { nodes: Vec<String> }
    /// A VM has a mark without secrets.
    MarkUnsigned = "mark-unsigned" { node: String, guest: GuestName }
    /// An object of others has the id of ours.
    ObjectTaken = "object-taken" { kind: ObjectKind, id: String }
    /// An object of others stays.
    ObjectStays = "object-stays" { kind: ObjectKind, id: String }
    /// An object is not changed, because VMs would be left out that may be ours.
    ObjectKept = "object-kept" { kind: ObjectKind, id: String, nodes: Vec<String> }
    /// There are fewer hosts than control planes to keep apart.
    TooFewHosts = "too-few-hosts" { id: String, control_planes: usize, hosts: usize }
    /// A group of high availability is in use.
    GroupInUse = "group-in-use" { id: String, user: String }
    /// The VMs' firewalls depend on the datacenter's.
    DatacenterFirewall = "datacenter-firewall" {}
    /// The firewall of a VM could not be read.
    FirewallUnreadable = "firewall-unreadable" { node: String, why: Option<String> }
    /// The firewall of a VM is not ours.
    FirewallStays = "firewall-stays" { node: String }
    /// Our IP set is used by a rule of others.
    IpSetStays = "ip-set-stays" { node: String }

    // Add-ons.
    /// An add-on could not be rendered.
    AddonNotRendered = "addon-not-rendered" { addon: String, why: String }
    /// Somebody else looks after an add-on.
    AddonOwned = "addon-owned" { addon: String, owner: AddonOwner, object: String }
    /// Others own fields of an object, and want them otherwise.
    AddonConflict = "addon-conflict" { addon: String, object: String, conflicts: Vec<FieldConflict> }
    /// Kubernetes refuses an object.
    AddonRefused = "addon-refused" { addon: String, object: String, why: String, immutable: bool }
    /// The chart of an add-on has hooks, which are not run.
    AddonHooksNotRun = "addon-hooks-not-run" { addon: String, hooks: Vec<String> }
    /// Objects of an add-on stay although nothing asks for them any more.
    AddonObjectsStay = "addon-objects-stay" { addon: String, objects: Vec<String> }
    /// Add-ons are rendered for a cluster that does not exist yet.
    AddonsAssumed = "addons-assumed" { version: String }
}

impl Advice {
    /// The storage under VMs of this cluster that it is about.
    pub fn storage(&self) -> Option<&StorageUse> {
        match self {
            Self::StorageUnseen { storage }
            | Self::StorageFaulty { storage, .. }
            | Self::StorageNearlyFull { storage, .. } => Some(storage),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_kind_has_a_code_of_its_own_and_is_read_back() {
        let mut codes = HashSet::new();
        for advice in Advice::every_kind() {
            let code = advice.code();
            let plain = |letter: char| letter.is_ascii_lowercase() || letter == '-';
            assert!(code.chars().all(plain) && !code.starts_with('-') && !code.ends_with('-'), "{code}");
            assert!(codes.insert(code), "{code} twice");
            let json = serde_json::to_value(&advice).unwrap();
            assert_eq!(json["code"], code);
            assert!(json["data"].is_object(), "{json}");
            assert_eq!(serde_json::from_value::<Advice>(json).unwrap(), advice);
        }
    }
}
