//! Why no plan can be made.

use std::fmt;

use daedal_inventory::{Arch, Cluster, Templates};

use crate::advice::{Advice, StorageFault};
use crate::fix::{Command, Fix};
use crate::size;

/// Why no plan can be made at all. What concerns single nodes only is a note in the plan instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The nodes do not fit on the hosts, or no host can take any.
    #[error("{headline}{0}", headline = .0.headline())]
    NoRoom(NoRoom),
    /// Snippets would have to be put on several hosts.
    #[error(
        "snippets are put on one host, over `reach.ssh`, and storage {storage} is not shared by all declared hosts: use a shared \
         storage, one host, or `boot: {{config: cidata}}`"
    )]
    SnippetsApart {
        /// The storage.
        storage: String,
    },
    /// Destruction of a protected cluster.
    #[error(
        "cluster {cluster} is protected: nothing of it is destroyed while the inventory says `protect: true`"
    )]
    Protected {
        /// Cluster name.
        cluster: String,
    },
    /// A snapshot cannot be restored into this cluster.
    #[error("the snapshot is not restored into cluster {cluster}: {why}")]
    NoRestore {
        /// Cluster name.
        cluster: String,
        /// Why.
        why: WhyNoRestore,
    },
    /// Removal of a node that is declared.
    #[error(
        "node {node} is declared in the inventory of cluster {cluster}, so it stays: take it out of there first \
         (lower its pool's count, or delete its entry), and run again"
    )]
    StillDeclared {
        /// Cluster name.
        cluster: String,
        /// Node name.
        node: String,
    },
    /// VMs exist whose secrets are not in the store; new secrets would make strangers of them.
    #[error(
        "the secrets of cluster {cluster} are not in the store although {vms} of its VMs exist ({example} …)"
    )]
    SecretsLost {
        /// Cluster name.
        cluster: String,
        /// How many VMs.
        vms: usize,
        /// One of them.
        example: String,
    },
    /// VMs carry this cluster's name, and nothing proves that they are this store's.
    #[error(
        "the secrets of cluster {cluster} are not in the store, so nothing proves that {} {} this store's ({})",
        count(vms.len()), if vms.len() == 1 { "is" } else { "are" }, some_of(vms)
    )]
    Unproven {
        /// Cluster name.
        cluster: String,
        /// The VMs, for people.
        vms: Vec<String>,
    },
    /// The mark of a node's VM is not restored.
    #[error("the mark of {node} is not restored")]
    NoMark {
        /// Node name.
        node: String,
        /// Why not.
        #[source]
        why: NotMarked,
    },
    /// Volumes carry a VMID of this cluster, and nothing proves that they are this store's.
    #[error(
        "the secrets of cluster {cluster} are not in the store, so nothing proves that {} volume{} this store's ({})",
        volumes.len(), if volumes.len() == 1 { " is" } else { "s are" }, some_of(volumes)
    )]
    UnprovenVolumes {
        /// Cluster name.
        cluster: String,
        /// The volumes, for people.
        volumes: Vec<String>,
    },
    /// A token is there whose secret is not known.
    #[error("the token {id} exists, but its secret was not found")]
    TokenExists {
        /// `user@realm!name`.
        id: String,
    },
    /// A role that came with Proxmox has the name of one of ours.
    #[error("the role {role} is built in and does not allow what it should; it cannot be changed")]
    BuiltInRole {
        /// Its name.
        role: String,
    },
    /// A storage that backups were to go to cannot take them.
    #[error("storage {storage} cannot take backups: {why}")]
    NoBackups {
        /// The storage.
        storage: String,
        /// Why, in a short sentence.
        why: String,
        /// What would help.
        fix: String,
    },
    /// The world was looked at for another purpose.
    #[error("{what} was not looked at")]
    NotLooked {
        /// What the plan relies on.
        what: &'static str,
    },
    /// No secrets are stored, and a guest on one of our VMIDs may be a VM of this cluster.
    #[error(
        "the secrets of cluster {cluster} are not in the store, and {guest} may be one of its VMs ({why}), which would \
         not know new ones: bring the store's folder back, make it readable, move it away, or give its node another VMID"
    )]
    SecretsInDoubt {
        /// Cluster name.
        cluster: String,
        /// The guest.
        guest: String,
        /// Why it cannot be told.
        why: String,
    },
    /// A host cannot run VMs of the declared architecture.
    #[error("`talos.arch: {wanted}`, but host {host} is {is}: it would not run such VMs; change either")]
    Arch {
        /// The host.
        host: String,
        /// What it is.
        is: Arch,
        /// What the inventory says.
        wanted: Arch,
    },
    /// A Proxmox that cannot do what the declared boot path needs.
    #[error(
        "Proxmox VE {version} cannot import disk images; 8.4 or newer is needed: upgrade it, or {instead}"
    )]
    NoImport {
        /// Its version.
        version: String,
        /// What works there, from [`without_import`].
        instead: String,
    },
    /// A first contact that must be verified cannot be.
    #[error(
        "the first contact with {nodes} cannot be verified: {why}; give the token VM.Console (Proxmox VE 9.1 or later), use \
         `boot: {{config: cidata}}`, or accept unverified nodes with `boot: {{firstContact: tofu}}`"
    )]
    Unverified {
        /// The nodes.
        nodes: String,
        /// Why it cannot be.
        why: String,
    },
    /// A way to boot that is declared but not built yet.
    #[error(
        "`boot: {{from: {from}, config: {config}}}` cannot be planned yet; use `{{from: disk-image, config: cidata}}`"
    )]
    Boot {
        /// `boot.from`.
        from: String,
        /// `boot.config`.
        config: String,
    },
}

impl PlanError {
    /// What helps, where the error does not say it itself.
    pub fn fix(&self) -> Option<Fix> {
        match self {
            Self::SecretsLost { .. } | Self::Unproven { .. } | Self::UnprovenVolumes { .. } => {
                Some(bring_secrets_back())
            }
            Self::NoRestore { why: WhyNoRestore::NoSecrets, .. } => Some(bring_secrets_back()),
            Self::NoRestore { why: WhyNoRestore::EtcdLives, .. } => Some(no_second_etcd()),
            Self::NoMark { why, .. } => why.fix(),
            _ => None,
        }
    }
}

/// Why the mark of a node's VM is not restored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotMarked {
    /// A mark names the cluster's secrets.
    #[error("the secrets of cluster {cluster} are not in the store")]
    NoSecrets {
        /// Cluster name.
        cluster: String,
    },
    /// There is nothing to mark.
    #[error("no VM {vmid} was found")]
    Absent {
        /// VMID.
        vmid: u32,
    },
    /// More than its mark is missing.
    #[error("{vm} is not ours to touch: {why}")]
    NotOurs {
        /// The VM, for people.
        vm: String,
        /// What does not agree.
        why: String,
        /// Whether it was made with other secrets than those of this store.
        other_secrets: bool,
    },
    /// Another VM is the node.
    #[error("{vm} is marked as {node} already")]
    Claimed {
        /// Node name.
        node: String,
        /// The other VM, for people.
        vm: String,
    },
    /// It has another SMBIOS uuid.
    #[error("the SMBIOS uuid of {vm} is {has}, that of the node is {wanted}")]
    OtherUuid {
        /// The VM, for people.
        vm: String,
        /// What it has.
        has: String,
        /// What the node has.
        wanted: String,
    },
    /// It has another MAC.
    #[error("the MAC of the first network card of {vm} is {has}, that of the node is {wanted}")]
    OtherMac {
        /// The VM, for people.
        vm: String,
        /// What it has.
        has: String,
        /// What the node has.
        wanted: String,
    },
    /// What runs in it is of another cluster.
    #[error("what answers at {address} does not accept the keys of this cluster")]
    OtherCluster {
        /// Node name.
        node: String,
        /// Where it answers.
        address: String,
    },
}

impl NotMarked {
    fn fix(&self) -> Option<Fix> {
        match self {
            Self::NoSecrets { .. } => Some(bring_secrets_back()),
            Self::NotOurs { other_secrets: true, .. } => Some(other_secrets()),
            Self::OtherCluster { node, .. } => Some(strangers_address(node)),
            _ => None,
        }
    }
}

/// Why a snapshot is not restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhyNoRestore {
    /// Its secrets are not in the store.
    NoSecrets,
    /// The cluster has an etcd.
    EtcdLives,
    /// No control plane can come up.
    NoControlPlane,
    /// etcd cannot be bootstrapped.
    Blocked(Box<Advice>),
}

impl fmt::Display for WhyNoRestore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSecrets => "its secrets are not in the store, and without them the snapshot is of no use",
            Self::EtcdLives => "its etcd lives, and what it holds would be lost",
            Self::NoControlPlane => "no control plane can come up",
            Self::Blocked(_) => "its etcd cannot be bootstrapped",
        })
    }
}

impl fmt::Display for StorageFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Disabled => "is disabled",
            Self::Inactive => "is not active there",
        })
    }
}

impl StorageFault {
    /// What helps, for a storage of this type.
    pub fn fix(self, kind: &str, storage: &str, host: &str) -> String {
        let look = match kind {
            "lvm" | "lvmthin" => "; vgs; lvs",
            "zfspool" => "; zpool status; zpool import",
            "dir" | "btrfs" => "; findmnt",
            "nfs" | "cifs" | "cephfs" | "rbd" | "pbs" | "iscsi" => "; and see whether its server answers",
            _ => "",
        };
        match self {
            Self::Disabled => format!("enable it, on any host: pvesm set {storage} --disable 0"),
            Self::Inactive => format!("on {host}: pvesm status --storage {storage}{look}"),
        }
    }
}

/// What to do where the secrets of a cluster that exists are not in the store.
pub(crate) fn bring_secrets_back() -> Fix {
    Fix::from("bring the store's folder back, or import them: ").run(Command::SecretsImport)
}

/// What to do where a snapshot is to be restored into a cluster that has an etcd.
pub fn no_second_etcd() -> Fix {
    Fix::from("if a restore that was interrupted began it, the rest is brought up by: ")
        .run(Command::Apply)
        .words("; else destroy the cluster first")
}

/// So many VMs.
pub(crate) fn count(vms: usize) -> String {
    format!("{vms} VM{}", if vms == 1 { "" } else { "s" })
}

/// What to do where another store created a cluster, and its secrets are not those of this store.
pub fn other_secrets() -> Fix {
    // What has to be called there is nobody's business here.
    Fix::from("to work on that cluster from here, run where it was created: daedal secrets export --to FILE, and here: ")
        .run(Command::SecretsImportReplace)
        .words(
            ", which keeps the unused ones under another name; for a cluster of your own, give this one another name, VMIDs \
             and addresses",
        )
}

/// The command that frees a VM whose create or clone died half-way, which no API token can.
pub fn freeing(host: &str, vmid: u32) -> String {
    format!("as root on {host}: {}", unlock_and_destroy(vmid))
}

/// The same where the token may not see the VM: whoever may has to look first.
pub fn freeing_unseen(host: &str, vmid: u32, lock: &str) -> String {
    // A create shows nothing else until it ends, a clone shows what it is going to be.
    let only = if lock == "create" { "nothing but " } else { "" };
    format!(
        "as root on {host}, if `qm config {vmid}` shows {only}`lock: {lock}`: {}",
        unlock_and_destroy(vmid)
    )
}

fn unlock_and_destroy(vmid: u32) -> String {
    format!("qm unlock {vmid} && {}; then run again", destroying(vmid))
}

/// The command that destroys a VM by hand, and with it disks of its number that its config does not name: they would stay for
/// good otherwise.
pub fn destroying(vmid: u32) -> String {
    format!("qm destroy {vmid} --purge --destroy-unreferenced-disks 1")
}

/// The way to boot, like the declared one, that imports no disk image: all that `boot` then is.
pub fn without_import(cluster: &Cluster) -> String {
    let boot = &cluster.boot;
    let config = serde_json::to_value(boot.config).ok();
    let config = config.as_ref().and_then(serde_json::Value::as_str).unwrap_or("cidata");
    // An ISO that makes a template is reached at a declared address.
    let Some(templates) = boot.template.filter(|_| !cluster.network.discovered) else {
        let also = match &cluster.proxmox.template_disks {
            Some(_) => ", and no `templates` in `proxmox.storage`",
            None => "",
        };
        return format!("boot from an ISO; all of it is `boot: {{from: iso, config: {config}}}`{also}");
    };
    let Templates { control_plane, worker, full, .. } = templates;
    let clone = if full { "full" } else { "linked" };
    format!(
        "let an ISO make the templates; all of it is `boot: {{from: template, config: {config}, template: {{controlplane: \
         {control_plane}, worker: {worker}, clone: {clone}, made: iso}}}}`"
    )
}

/// What to do where a node of another cluster answers at the address of one of ours.
pub fn strangers_address(node: &str) -> Fix {
    Fix::from(format!(
        "if another machine has the address, take it off that one or give {node} another; if it is {node} itself, and its \
         authority was changed, let the kept secrets follow: `"
    ))
    .run(Command::SecretsImportReplace)
    .words("`; if it was made with others, move secrets.yaml.age away and bring those back: `")
    .run(Command::SecretsImport)
    .words("`")
}

/// Everything that does not fit, at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NoRoom {
    /// What is missing where.
    pub shortfalls: Vec<Shortfall>,
    /// Declared hosts that cannot take new nodes at all.
    pub unusable: Vec<UnusableHost>,
    /// Nodes for which no host is left.
    pub homeless: Vec<String>,
}

impl NoRoom {
    /// Whether nothing is short: what is missing on the hosts is something else, such as a file or a storage.
    pub fn is_unusable(&self) -> bool {
        self.shortfalls.is_empty() && !self.unusable.is_empty()
    }

    /// What is wrong, in short.
    pub fn headline(&self) -> &'static str {
        match self.is_unusable() {
            true => "no host can take the new nodes",
            false => "the cluster does not fit on its hosts",
        }
    }
}

/// One resource that is short on one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// Host name.
    pub host: String,
    /// What is short.
    pub resource: Resource,
    /// What these nodes want there.
    pub wanted: u64,
    /// What is free there for them.
    pub free: u64,
    /// The nodes that want it.
    pub nodes: Vec<String>,
}

/// A resource of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// vCPUs.
    Cores,
    /// vCPUs of a single VM, of which Proxmox starts none with more than its host has CPUs.
    CoresOfOne,
    /// Bytes of memory.
    Memory,
    /// Bytes on the disks storage.
    Disk,
}

/// A declared host that cannot take new nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusableHost {
    /// Host name.
    pub host: String,
    /// Why, in a short sentence without a full stop.
    pub why: String,
    /// What would help, if something can be said.
    pub fix: Option<String>,
}

impl Resource {
    /// An amount of it, for people.
    pub fn show(self, amount: u64) -> String {
        match self {
            Self::Cores | Self::CoresOfOne => amount.to_string(),
            Self::Memory | Self::Disk => size::show(amount),
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cores => "vCPU",
            Self::CoresOfOne => "vCPU of one VM",
            Self::Memory => "memory",
            Self::Disk => "disk",
        })
    }
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Shortfall { host, resource, wanted, free, nodes } in &self.shortfalls {
            let (wanted, free) = (resource.show(*wanted), resource.show(*free));
            let free = match resource {
                Resource::CoresOfOne => format!("at most the host's {free}"),
                _ => format!("free {free}"),
            };
            write!(f, "\n  {host}: {resource}: wanted {wanted}, {free} (for {})", some_of(nodes))?;
        }
        if !self.homeless.is_empty() {
            write!(f, "\n  no host left for {}", some_of(&self.homeless))?;
        }
        for UnusableHost { host, why, fix } in &self.unusable {
            write!(f, "\n  {host} cannot be used: {why}")?;
            if let Some(fix) = fix {
                write!(f, "\n    fix: {fix}")?;
            }
        }
        Ok(())
    }
}

/// The first few names, and how many more there are.
pub fn some_of(names: &[String]) -> String {
    const SHOWN: usize = 6;
    match names.len() {
        0..=SHOWN => names.join(", "),
        all => format!("{} and {} more", names[..SHOWN].join(", "), all - SHOWN),
    }
}
