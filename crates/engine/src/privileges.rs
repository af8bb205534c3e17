//! The least that a Proxmox token must be allowed: which privileges, as which roles, on which paths.
//!
//! A privilege belongs to a role by the thing it is about, so that no path gets more than it needs: a token that may
//! delete files where images are kept may not delete disks where VMs live.

use std::collections::{BTreeMap, BTreeSet};

use daedal_inventory::{BootConfig, Cluster, Node};
use daedal_planner::Grant;
use daedal_proxmox::Client;

use crate::machine;

/// What a token is used for besides making, running and destroying VMs from disk images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Use {
    /// Clone templates.
    Clone,
    /// Ask the guest agent for addresses.
    Agent,
    /// Set addresses on Proxmox's own cloud-init drive.
    CloudInit,
    /// Read the serial console.
    Console,
    /// Move VMs to other hosts.
    Migrate,
    /// Put VMs under high availability.
    Ha,
    /// Keep backup jobs.
    Backup,
    /// Say in which order VMs start with their host.
    StartOrder,
}

impl Use {
    /// Every one.
    pub const ALL: [Self; 8] = [
        Self::Clone,
        Self::Agent,
        Self::CloudInit,
        Self::Console,
        Self::Migrate,
        Self::Ha,
        Self::Backup,
        Self::StartOrder,
    ];

    /// Its name, and what it is for.
    pub fn told(self) -> (&'static str, &'static str) {
        match self {
            Self::Clone => ("clone", "Clone templates"),
            Self::Agent => ("agent", "Ask the guest agent for addresses"),
            Self::CloudInit => ("cloud-init", "Set addresses on Proxmox's cloud-init drive"),
            Self::Console => ("console", "Read the serial console"),
            Self::Migrate => ("migrate", "Move VMs to other hosts"),
            Self::Ha => ("ha", "Put VMs under high availability"),
            Self::Backup => ("backup", "Keep backup jobs"),
            Self::StartOrder => ("start-order", "Say in which order VMs start with their host"),
        }
    }
}

/// What an account is for: where, and how it is used. Where nothing is named, it is everywhere of that kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// The resource pool that the VMs are in.
    pub pool: Option<String>,
    /// Hosts.
    pub hosts: BTreeSet<String>,
    /// Storages of VM disks.
    pub disks: BTreeSet<String>,
    /// Storages of images and config media.
    pub images: BTreeSet<String>,
    /// Whether no file of ours goes to any storage that is not named: nothing is downloaded, and configs travel without
    /// media.
    pub no_files: bool,
    /// Whether hosts download nothing, because what nodes are made from lies on a storage already.
    pub no_downloads: bool,
    /// Further storages where something lies that nodes boot from or are made from.
    pub read: BTreeSet<String>,
    /// Bridges; a VNet may be written with its zone, `zone/vnet`.
    pub bridges: BTreeSet<String>,
    /// The SDN zones of those that are VNets, where they are known; all others are of the local network.
    pub zones: BTreeMap<String, String>,
    /// Resource mappings of PCI devices; none where none are named.
    pub mappings: BTreeSet<String>,
    /// What else it does.
    pub uses: BTreeSet<Use>,
}

impl Scope {
    /// What the inventory needs, and nothing else.
    pub fn of(cluster: &Cluster) -> Self {
        let (proxmox, nodes) = (&cluster.proxmox, &cluster.nodes);
        let storages = nodes.iter().flat_map(|node| &node.disks).filter_map(|disk| disk.storage.clone());
        let disks: BTreeSet<String> = storages.chain(proxmox.storages_of_disks().cloned()).collect();
        let boot = &cluster.boot;
        let no_downloads = boot.volume().is_some();
        let no_files = no_downloads && !boot.by_medium();
        let images = Some(proxmox.images_storage.clone()).filter(|_| !no_files);
        let known = |storage: &&str| disks.contains(*storage) || images.as_deref() == Some(*storage);
        let read = boot.volume_storage().filter(|storage| !known(storage));
        let bridges = nodes.iter().flat_map(|node| &node.nics).map(|nic| nic.bridge.clone());
        Self {
            pool: proxmox.pool.clone(),
            hosts: proxmox.hosts.iter().map(|host| host.name.clone()).collect(),
            read: read.map(str::to_owned).into_iter().collect(),
            disks,
            images: images.into_iter().collect(),
            no_files,
            no_downloads,
            bridges: bridges.chain([proxmox.bridge.clone()]).collect(),
            zones: BTreeMap::new(),
            mappings: nodes.iter().flat_map(|node| node.hardware.pci.clone()).collect(),
            uses: uses(cluster),
        }
    }

    /// What a cloud-controller-manager needs: to see VMs, and nothing else.
    pub fn seeing(&self) -> Vec<Grant> {
        vec![grant(&vms(self.pool.as_deref()), "DaedalCCM", &["VM.Audit"])]
    }

    /// The grants that it takes on a release of Proxmox VE (8 or 9, which name some privileges differently).
    pub fn grants(&self, release: u32) -> Vec<Grant> {
        let vms = vms(self.pool.as_deref());
        let mut grants = vec![grant(&vms, "DaedalVM", VM)];
        if self.pool.is_some() {
            grants.push(grant(&vms, "DaedalPool", POOL));
        }
        for usage in &self.uses {
            grants.extend(for_use(*usage, &vms, release));
        }
        for path in each("/storage", &self.disks) {
            grants.push(grant(&path, "DaedalDisks", DISKS));
        }
        let unneeded = self.no_files && self.images.is_empty();
        let images = if unneeded { Vec::new() } else { each("/storage", &self.images) };
        for path in images {
            grants.push(grant(&path, "DaedalImages", IMAGES));
        }
        for storage in &self.read {
            grants.push(grant(&format!("/storage/{storage}"), "DaedalRead", &["Datastore.Audit"]));
        }
        for path in each("/nodes", &self.hosts) {
            grants.push(grant(&path, "DaedalHost", HOST));
            if !self.no_downloads {
                grants.push(grant(&path, "DaedalDownload", DOWNLOAD));
            }
        }
        let bridges =
            self.bridges.iter().map(|bridge| match (bridge.contains('/'), self.zones.get(bridge)) {
                (true, _) => bridge.clone(),
                (false, zone) => format!("{}/{bridge}", zone.map_or(LOCAL, String::as_str)),
            });
        let bridges = match self.bridges.is_empty() {
            true => BTreeSet::from([LOCAL.to_owned()]),
            false => bridges.collect(),
        };
        for path in each("/sdn/zones", &bridges) {
            grants.push(grant(&path, "DaedalBridge", BRIDGE));
        }
        for mapping in &self.mappings {
            grants.push(grant(&format!("/mapping/pci/{mapping}"), "DaedalMapping", &["Mapping.Use"]));
        }
        if self.hosts.len() != 1 {
            // Only here: propagated, it would show every host and every task of everybody to whoever has the token.
            let tasks = grant("/", "DaedalTasks", TASKS);
            let loss =
                Some("the tasks of each host are asked for one by one, and the quorum cannot be checked");
            grants.push(Grant { propagate: false, loss, ..tasks });
        }
        grants
    }
}

/// What a use takes on a release of Proxmox VE, for VMs on this path.
fn for_use(usage: Use, vms: &str, release: u32) -> Vec<Grant> {
    // These are about the whole datacenter, and Proxmox asks for them at its root.
    let root = |role, privileges: &[&'static str]| Grant { propagate: false, ..grant("/", role, privileges) };
    match usage {
        Use::Ha => vec![root("DaedalHA", &["Sys.Audit", "Sys.Console"])],
        Use::Backup => vec![
            root("DaedalBackup", &["Sys.Audit", "Sys.Modify"]),
            // Which storage it will be is not known, and a job for one that is not there fails every night.
            grant("/storage", "DaedalRead", &["Datastore.Audit"]),
        ],
        Use::StartOrder => vec![root("DaedalStartOrder", &["Sys.Modify"])],
        Use::Console => {
            // The plan says so, too.
            let loss = Some("first contacts in maintenance mode are unverified");
            vec![Grant { loss, ..grant(vms, "DaedalConsole", &["VM.Console"]) }]
        }
        Use::Clone => vec![grant(vms, "DaedalClone", &["VM.Clone"])],
        Use::Agent if release >= 9 => vec![grant(vms, "DaedalAgent", &["VM.GuestAgent.Audit"])],
        // What asking the agent took before it had privileges of its own.
        Use::Agent => vec![grant(vms, "DaedalAgent", &["VM.Monitor"])],
        Use::CloudInit => vec![grant(vms, "DaedalCloudInit", &["VM.Config.Cloudinit"])],
        Use::Migrate => vec![grant(vms, "DaedalMigrate", &["VM.Migrate"])],
    }
}

/// The SDN zones of VNets, as far as this account may tell: by the list of them, or by what it may use.
pub async fn vnet_zones(proxmox: &Client) -> BTreeMap<String, String> {
    let (listed, permitted) = tokio::join!(proxmox.vnets(), proxmox.permissions());
    let used = permitted.unwrap_or_default().into_iter().filter_map(|(path, privileges)| {
        let (zone, vnet) = path.strip_prefix("/sdn/zones/")?.split_once('/')?;
        let usable = privileges.contains_key("SDN.Use") && zone != LOCAL && !vnet.contains('/');
        usable.then(|| (vnet.to_owned(), zone.to_owned()))
    });
    used.chain(listed.unwrap_or_default()).collect()
}

/// The ACL path of our VMs: their pool, or all there are.
pub(crate) fn vms(pool: Option<&str>) -> String {
    pool.map_or_else(|| "/vms".to_owned(), |pool| format!("/pool/{pool}"))
}

/// Makes, changes, starts, stops and destroys VMs.
const VM: &[&str] = &[
    "VM.Allocate",
    "VM.Audit",
    "VM.Config.CDROM",
    "VM.Config.CPU",
    "VM.Config.Disk",
    "VM.Config.HWType",
    "VM.Config.Memory",
    "VM.Config.Network",
    "VM.Config.Options",
    "VM.PowerMgmt",
];

/// Sees whether the pool exists.
const POOL: &[&str] = &["Pool.Audit"];

/// Makes disks, and sees how much room there is.
const DISKS: &[&str] = &["Datastore.AllocateSpace", "Datastore.Audit"];

/// Downloads images, uploads config media, reads both, and deletes the media, which hold keys.
const IMAGES: &[&str] = &["Datastore.Allocate", "Datastore.AllocateTemplate", "Datastore.Audit"];

/// Sees what a host has.
const HOST: &[&str] = &["Sys.Audit"];

/// Lets a host download.
const DOWNLOAD: &[&str] = &["Sys.AccessNetwork"];

/// The zone of bridges that are no VNets.
const LOCAL: &str = "localnetwork";

/// Plugs VMs in.
const BRIDGE: &[&str] = &["SDN.Use"];

/// Sees the tasks of all hosts in one list.
const TASKS: &[&str] = &["Sys.Audit"];

/// What a cluster's boot path does besides making VMs.
fn uses(cluster: &Cluster) -> BTreeSet<Use> {
    let (boot, mut uses) = (&cluster.boot, BTreeSet::new());
    if boot.clones() {
        uses.insert(Use::Clone);
    }
    match boot.config {
        // A VM that is created may have the drive at once; one that is cloned gets it by a change, which takes more.
        BootConfig::CloudInitDrive if boot.clones() => drop(uses.insert(Use::CloudInit)),
        BootConfig::Snippet => drop(uses.insert(Use::CloudInit)),
        BootConfig::Maintenance if machine::has_agent(cluster) => drop(uses.insert(Use::Agent)),
        _ => {}
    }
    if boot.through_maintenance() {
        uses.insert(Use::Console);
    }
    let ordered = |node: &Node| node.hardware.start_order.is_some() || node.hardware.start_delay.is_some();
    if cluster.nodes.iter().any(ordered) {
        uses.insert(Use::StartOrder);
    }
    uses
}

fn grant(path: &str, role: &'static str, privileges: &[&'static str]) -> Grant {
    let privileges = privileges.iter().copied().collect();
    Grant { path: path.to_owned(), role, privileges, propagate: true, loss: None }
}

fn each(parent: &str, names: &BTreeSet<String>) -> Vec<String> {
    if names.is_empty() {
        return vec![parent.to_owned()];
    }
    names.iter().map(|name| format!("{parent}/{name}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> BTreeSet<String> {
        list.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn nothing_is_granted_beside_the_named_paths() {
        let scope = Scope {
            pool: Some("talos".into()),
            hosts: names(&["atlas"]),
            disks: names(&["local-lvm"]),
            images: names(&["local"]),
            no_files: false,
            no_downloads: false,
            read: BTreeSet::new(),
            bridges: names(&["vmbr0"]),
            zones: BTreeMap::new(),
            mappings: BTreeSet::new(),
            uses: BTreeSet::new(),
        };
        let paths: Vec<String> = scope.grants(9).into_iter().map(|grant| grant.path).collect();
        let bridge = "/sdn/zones/localnetwork/vmbr0";
        assert_eq!(
            paths,
            [
                "/pool/talos",
                "/pool/talos",
                "/storage/local-lvm",
                "/storage/local",
                "/nodes/atlas",
                "/nodes/atlas",
                bridge
            ]
        );
        assert!(Scope::default().grants(9).iter().any(|grant| grant.path == "/" && !grant.propagate));
    }

    /// The right to use a VNet is under its own zone.
    #[test]
    fn vnets_are_granted_in_their_zones() {
        let scope = Scope {
            bridges: names(&["vmbr0", "vnet1", "z2/vnet2"]),
            zones: BTreeMap::from([("vnet1".to_owned(), "z1".to_owned())]),
            ..Scope::default()
        };
        let all = scope.grants(9);
        let paths: Vec<&str> = all
            .iter()
            .filter(|grant| grant.role == "DaedalBridge")
            .map(|grant| grant.path.as_str())
            .collect();
        assert_eq!(paths, ["/sdn/zones/localnetwork/vmbr0", "/sdn/zones/z1/vnet1", "/sdn/zones/z2/vnet2"]);
    }

    #[test]
    fn the_agents_privilege_is_called_as_the_release_calls_it() {
        let scope = Scope { uses: BTreeSet::from([Use::Agent]), ..Scope::default() };
        let of = |release| {
            let agent = scope.grants(release).into_iter().find(|grant| grant.role == "DaedalAgent");
            agent.unwrap().privileges
        };
        assert_eq!(of(8), BTreeSet::from(["VM.Monitor"]));
        assert_eq!(of(9), BTreeSet::from(["VM.GuestAgent.Audit"]));
    }
}
