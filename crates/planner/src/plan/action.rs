//! What a step does, with every value that it needs.

use std::collections::BTreeSet;

use daedal_addons::{ObjectId, Stage};
use daedal_inventory::Role;
use daedal_machine::RunningVersions;
use daedal_machine::vm::Change;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::names::Content;
use crate::world::{FieldConflict, ObjectKind, ObjectOptions, VmRule};

/// The typed steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "do")]
pub enum Action {
    /// Generate the secrets bundle, store it, read it back.
    CreateSecrets,
    /// Make the schematic known to the Image Factory and compare its id with ours.
    RegisterSchematic {
        /// Id computed offline.
        id: String,
    },
    /// Stream the image once, record size and SHA-256.
    PinImage {
        /// File name on the storage.
        file: String,
        /// Where it comes from.
        url: String,
    },
    /// Have Proxmox download the image with the pinned checksum.
    DownloadImage {
        /// What Proxmox takes it for.
        #[serde(default)]
        content: Content,
        /// Storage.
        storage: String,
        /// File name on it.
        file: String,
        /// Where it comes from.
        url: String,
    },
    /// Delete an image file that is not what it should be, so that it can be downloaded anew.
    DeleteImage {
        /// Volume id.
        volid: String,
    },
    /// Make a template from the image: no config, no identity.
    MakeTemplate {
        /// The node whose address and MAC the VM has while an ISO installs it; none where an image is imported.
        #[serde(default)]
        through: Option<String>,
        /// VMID.
        vmid: u32,
        /// The role it is for.
        #[schemars(with = "String")]
        role: Role,
        /// Image volume id to import.
        image: String,
        /// Digest of what it is made of, for its mark.
        digest: String,
    },
    /// Destroy a template of ours, unless it is made of something else than it was.
    DropTemplate {
        /// VMID.
        vmid: u32,
        /// Digest in its mark, of what it is made of.
        digest: String,
    },
    /// Delete a volume that no VM uses, and whose number no VM has.
    DeleteVolume {
        /// Volume id.
        volid: String,
        /// The number in its name.
        vmid: u32,
    },
    /// Create our IP set on a VM, or change what is in it.
    FillIpSet {
        /// VMID.
        vmid: u32,
        /// What is in it then.
        members: BTreeSet<String>,
        /// What was in it; none if it did not exist.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<BTreeSet<String>>,
    },
    /// Delete our IP set on a VM, unless a rule uses it.
    DropIpSet {
        /// VMID.
        vmid: u32,
    },
    /// Put these rules in the place of ours on a VM; those of others stay.
    SetFirewallRules {
        /// VMID.
        vmid: u32,
        /// Our rules, in order; none if they only go.
        rules: Vec<VmRule>,
        /// Our rules that are there.
        before: Vec<VmRule>,
    },
    /// Set options of a VM's firewall.
    SetFirewallOptions {
        /// VMID.
        vmid: u32,
        /// The options as they are sent.
        options: ObjectOptions,
        /// Those of them that it had.
        before: ObjectOptions,
    },
    /// Let a VM's first network card be filtered, or not.
    FilterCard {
        /// VMID.
        vmid: u32,
        /// Whether it is filtered then.
        on: bool,
    },
    /// Create an object that Proxmox keeps for the datacenter, or change it, unless somebody else's has its id.
    PutClusterObject {
        /// What kind of object.
        kind: ObjectKind,
        /// Its id.
        id: String,
        /// The VMs that it names.
        vms: Vec<u32>,
        /// The options as they are sent.
        options: ObjectOptions,
        /// Those of them that it had; none if it did not exist.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<ObjectOptions>,
    },
    /// Remove an object that Proxmox keeps for the datacenter, unless it became somebody else's.
    RemoveClusterObject {
        /// What kind of object.
        kind: ObjectKind,
        /// Its id.
        id: String,
        /// The VM that it is, if it is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vm: Option<u32>,
    },
    /// Upload the node's config ISO (overwrites).
    UploadMedia {
        /// Storage.
        storage: String,
        /// File name on it.
        file: String,
    },
    /// Create the VM with its disk, marks and all, in one call.
    CreateVm {
        /// VMID.
        vmid: u32,
        /// Image volume id to import; none for an empty disk.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        image: Option<String>,
        /// Boot ISO's volume id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        iso: Option<String>,
        /// The template to clone instead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        template: Option<CloneOf>,
        /// Config media volume id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        media: Option<String>,
        /// The mark's digest.
        digest: String,
    },
    /// Wait for a create task of ours that still runs.
    AwaitCreate {
        /// VMID.
        vmid: u32,
        /// The task.
        upid: String,
    },
    /// Grow the system disk.
    GrowDisk {
        /// VMID.
        vmid: u32,
        /// Bytes it should have.
        size: u64,
    },
    /// Change options of an existing VM.
    UpdateVm {
        /// VMID.
        vmid: u32,
        /// What changes.
        changes: Vec<Change>,
    },
    /// Put the config media back into the drive of a node that never got its config.
    AttachMedia {
        /// VMID.
        vmid: u32,
        /// Volume id.
        media: String,
    },
    /// Start the VM.
    StartVm {
        /// VMID.
        vmid: u32,
    },
    /// Shut the VM down and start it again, so that it gets what waits for its next start.
    RestartVm {
        /// VMID.
        vmid: u32,
    },
    /// Find the node in maintenance mode, make sure that it is this VM, and give it its config, all under one pinned
    /// key. Only for a node that never had one.
    GiveConfig {
        /// VMID.
        vmid: u32,
        /// Whether the key must be one that the node prints on its serial console. If not, whoever says to be this VM is
        /// believed.
        #[serde(default)]
        console: bool,
    },
    /// Give a running node the declared machine config, and wait until it runs on it.
    ApplyConfig {
        /// Digest of the config it runs on; if it runs on another, nothing is done.
        running: String,
        /// Digest of the declared config.
        declared: String,
        /// Whether the node reboots for it.
        reboot: bool,
        /// What differs, secrets as marks.
        changes: Vec<DocumentChange>,
        /// The versions that the config is for, where the node does not run the declared ones.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        versions: Option<RunningVersions>,
    },
    /// Wait until the node answers over mTLS.
    AwaitApi,
    /// Bootstrap etcd here unless some control plane already has it. Every other control plane whose VM existed
    /// before this plan must say positively that it has not joined an etcd; silence is not an answer.
    Bootstrap {
        /// The snapshot that it begins with; none for an empty one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        recover: Option<Recovery>,
    },
    /// Wait until the node is a voting etcd member.
    AwaitEtcd,
    /// Wait until the API server answers on the declared endpoint.
    AwaitEndpoint,
    /// Wait until Kubernetes calls the node Ready.
    AwaitReady,
    /// Take config media and boot ISO out of their drives, and say on the VM that it has its config.
    EjectMedia {
        /// VMID.
        vmid: u32,
    },
    /// Say on the VM that it has its config: from now on it is never given one in maintenance mode.
    MarkConfigured {
        /// VMID.
        vmid: u32,
    },
    /// Write the lost mark of a node into the notes of its VM again, unless the VM is no longer as it was judged.
    RestoreMark {
        /// VMID.
        vmid: u32,
        /// SMBIOS uuid, which the VM must have.
        #[schemars(with = "String")]
        uuid: Uuid,
        /// MAC, which the VM's first network card must have.
        mac: String,
        /// The line that is added.
        mark: String,
        /// The notes as they are sent: what people wrote, and the mark.
        notes: String,
        /// Proxmox's digest of the VM's config as it was judged.
        config: String,
    },
    /// Delete the config media from storage: it holds keys.
    DeleteMedia {
        /// Volume id.
        volid: String,
    },
    /// Write talosconfig, kubeconfig, machine configs and machines.json.
    WriteOutputs,
    /// Apply the objects of one stage of an add-on, in order. Where the stage defines what later ones need, wait for that.
    ApplyAddon {
        /// The add-on.
        addon: String,
        /// The stage.
        stage: Stage,
        /// What is applied.
        objects: Vec<PlannedObject>,
        /// Whether nodes become Ready by it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        network: bool,
        /// Whether fields are taken from others.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        force: bool,
    },
    /// Wait until the objects of an add-on are ready.
    AwaitAddon {
        /// The add-on.
        addon: String,
        /// Whether nodes become Ready by it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        network: bool,
        /// Seconds until they must be.
        timeout: u64,
    },
    /// Delete objects that an add-on no longer has, unless somebody else took them over, and record what is in its set.
    PruneAddon {
        /// The add-on.
        addon: String,
        /// What is deleted, in this order.
        objects: Vec<ObjectId>,
        /// Whether nothing is left of it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        gone: bool,
        /// Whether nodes become Ready by it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        network: bool,
    },
    /// Let no new pods come to the node.
    Cordon,
    /// Evict the node's pods, and wait until they are gone. Pods of daemon sets and static pods stay.
    Drain,
    /// Let the node leave etcd by itself, once all other members are whole.
    LeaveEtcd {
        /// Its member id, as etcd writes it.
        member: String,
        /// Where it answers.
        address: String,
    },
    /// Have another member take the node's member out of etcd, once all others are whole: it cannot leave by itself.
    RemoveMember {
        /// Its member id, as etcd writes it.
        member: String,
    },
    /// Delete the node's object from Kubernetes.
    ForgetNode,
    /// Stop the VM hard.
    StopVm {
        /// VMID.
        vmid: u32,
    },
    /// Delete the VM with its disks.
    DestroyVm {
        /// VMID.
        vmid: u32,
    },
}

impl Action {
    /// What names the kind of step in plans, events and reports, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::CreateSecrets => "createSecrets",
            Self::RegisterSchematic { .. } => "registerSchematic",
            Self::PinImage { .. } => "pinImage",
            Self::DownloadImage { .. } => "downloadImage",
            Self::DeleteImage { .. } => "deleteImage",
            Self::MakeTemplate { .. } => "makeTemplate",
            Self::DropTemplate { .. } => "dropTemplate",
            Self::DeleteVolume { .. } => "deleteVolume",
            Self::FillIpSet { .. } => "fillIpSet",
            Self::DropIpSet { .. } => "dropIpSet",
            Self::SetFirewallRules { .. } => "setFirewallRules",
            Self::SetFirewallOptions { .. } => "setFirewallOptions",
            Self::FilterCard { .. } => "filterCard",
            Self::PutClusterObject { .. } => "putClusterObject",
            Self::RemoveClusterObject { .. } => "removeClusterObject",
            Self::UploadMedia { .. } => "uploadMedia",
            Self::CreateVm { .. } => "createVm",
            Self::AwaitCreate { .. } => "awaitCreate",
            Self::GrowDisk { .. } => "growDisk",
            Self::UpdateVm { .. } => "updateVm",
            Self::AttachMedia { .. } => "attachMedia",
            Self::StartVm { .. } => "startVm",
            Self::RestartVm { .. } => "restartVm",
            Self::GiveConfig { .. } => "giveConfig",
            Self::ApplyConfig { .. } => "applyConfig",
            Self::AwaitApi => "awaitApi",
            Self::Bootstrap { .. } => "bootstrap",
            Self::AwaitEtcd => "awaitEtcd",
            Self::AwaitEndpoint => "awaitEndpoint",
            Self::AwaitReady => "awaitReady",
            Self::EjectMedia { .. } => "ejectMedia",
            Self::MarkConfigured { .. } => "markConfigured",
            Self::RestoreMark { .. } => "restoreMark",
            Self::DeleteMedia { .. } => "deleteMedia",
            Self::WriteOutputs => "writeOutputs",
            Self::ApplyAddon { .. } => "applyAddon",
            Self::AwaitAddon { .. } => "awaitAddon",
            Self::PruneAddon { .. } => "pruneAddon",
            Self::Cordon => "cordon",
            Self::Drain => "drain",
            Self::LeaveEtcd { .. } => "leaveEtcd",
            Self::RemoveMember { .. } => "removeMember",
            Self::ForgetNode => "forgetNode",
            Self::StopVm { .. } => "stopVm",
            Self::DestroyVm { .. } => "destroyVm",
        }
    }

    /// Whether it only waits for something to become so.
    pub fn waits(&self) -> bool {
        matches!(
            self,
            Self::AwaitCreate { .. }
                | Self::AwaitApi
                | Self::AwaitEtcd
                | Self::AwaitEndpoint
                | Self::AwaitReady
                | Self::AwaitAddon { .. }
        )
    }

    /// The add-on that it is about, and whether nodes become Ready by that.
    pub fn addon(&self) -> Option<(&str, bool)> {
        match self {
            Self::ApplyAddon { addon, network, .. }
            | Self::AwaitAddon { addon, network, .. }
            | Self::PruneAddon { addon, network, .. } => Some((addon, *network)),
            _ => None,
        }
    }
}

/// An object that is applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedObject {
    /// What it is called.
    pub id: ObjectId,
    /// Digest of what it is to be.
    pub digest: String,
    /// What becomes of it.
    pub change: ObjectChange,
}

/// What becomes of an object of an add-on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "is")]
pub enum ObjectChange {
    /// It is made.
    Create,
    /// It is there, and changed.
    Change {
        /// What changes, in words for people: secrets are marks.
        fields: Vec<FieldChange>,
        /// Fields that are taken from others.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        taken: Vec<FieldConflict>,
    },
    /// Nobody could see whether it is there: it is made, or changed.
    Ensure,
}

/// A snapshot that a new etcd begins with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Recovery {
    /// The file's name, for people.
    pub file: String,
    /// Its bytes.
    pub size: u64,
    /// Lower-case hex SHA-256 of the whole file.
    pub sha256: String,
    /// The newest revision in it.
    pub revision: i64,
}

/// What a VM is cloned from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CloneOf {
    /// The template's VMID.
    pub vmid: u32,
    /// The host it is on.
    pub host: String,
    /// A full copy instead of a linked one.
    pub full: bool,
}

/// What changes in one document of a machine config.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DocumentChange {
    /// Which document, such as `LinkConfig eth0`; `v1alpha1` is the main one.
    pub document: String,
    /// Its fields that change.
    pub fields: Vec<FieldChange>,
}

/// What changes in one field of a document, in words for people: secrets are marks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldChange {
    /// Its path in the document.
    pub path: String,
    /// What it is; none if it is not there.
    pub from: Option<String>,
    /// What it will be; none if it goes.
    pub to: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Programs match on one name, wherever they meet it.
    #[test]
    fn the_code_is_the_one_in_saved_plans() {
        for action in [
            Action::CreateSecrets,
            Action::StartVm { vmid: 300 },
            Action::DropTemplate { vmid: 900, digest: String::new() },
            Action::Bootstrap { recover: None },
        ] {
            assert_eq!(serde_json::to_value(&action).unwrap()["do"], action.code());
        }
    }
}
