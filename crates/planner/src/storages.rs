//! The storages that a living cluster is on: what ails them, and what Proxmox left on them.

use std::collections::BTreeSet;

use daedal_inventory::Cluster;
use serde::Serialize;

use crate::advice::{Advice, StorageFault, StorageUse, VolumeName};
use crate::world::{Aspect, DiskView, GuestView, Ownership, StorageView, Unobserved, World};

/// A storage is nearly full when less than a tenth of it is free, and less than this.
const SCARCE: u64 = 100 << 30;

impl StorageView {
    /// Why nothing can be done on it.
    pub fn fault(&self) -> Option<StorageFault> {
        match (self.disabled, self.active) {
            (true, _) => Some(StorageFault::Disabled),
            (false, false) => Some(StorageFault::Inactive),
            (false, true) => None,
        }
    }

    /// Bytes that may be promised of it in all. What is thick can be promised only once.
    pub fn to_promise(&self, overcommit: f64) -> u64 {
        match self.kind.as_str() {
            "lvm" | "iscsi" | "iscsidirect" => self.total,
            _ => (self.total as f64 * overcommit.max(0.0)) as u64,
        }
    }

    /// Whether it is about to run full.
    pub fn nearly_full(&self) -> bool {
        self.active && self.total > 0 && self.available < (self.total / 10).min(SCARCE)
    }
}

/// What is wrong with the storages that VMs of this cluster are on.
pub fn storage_warnings(cluster: &Cluster, world: &World) -> Vec<Advice> {
    let mut found = Vec::new();
    let mut told = BTreeSet::new();
    let hosts: BTreeSet<&str> = world.ours().map(|(_, guest)| guest.host.as_str()).collect();
    let storages: BTreeSet<&String> = cluster.proxmox.storages_of_disks().collect();
    for host in hosts {
        let Some(view) = world.hosts.get(host).filter(|view| view.online) else { continue };
        let nodes: Vec<String> =
            world.ours().filter(|(_, guest)| guest.host == host).map(|(node, _)| node.to_owned()).collect();
        for storage in &storages {
            let seen = view.storages.get(*storage);
            let shared = seen.is_some_and(|seen| seen.shared);
            if shared && !told.insert(*storage) {
                continue;
            }
            let (storage, host) = ((*storage).clone(), host.to_owned());
            found.extend(ailment(StorageUse { storage, host, shared, nodes: nodes.clone() }, seen));
        }
    }
    found
}

fn ailment(storage: StorageUse, seen: Option<&StorageView>) -> Option<Advice> {
    let Some(seen) = seen else { return Some(Advice::StorageUnseen { storage }) };
    if let Some(fault) = seen.fault() {
        return Some(Advice::StorageFaulty { storage, fault, kind: seen.kind.clone() });
    }
    let (available, total) = (seen.available, seen.total);
    seen.nearly_full().then_some(Advice::StorageNearlyFull { storage, available, total })
}

/// A volume with the number of a node or a template of ours that no VM uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Leftover {
    /// Host that has it.
    pub host: String,
    /// Its volume id.
    pub volid: String,
    /// The number in its name.
    pub vmid: u32,
    /// Bytes.
    pub size: u64,
    /// Whether a VM of ours has that number. Then Proxmox lets nobody delete it.
    pub beside_vm: bool,
}

impl Leftover {
    /// The volume and its size.
    pub fn shown(&self) -> VolumeName {
        VolumeName { volid: self.volid.clone(), size: self.size }
    }
}

/// Volumes with numbers of ours that no VM uses: Proxmox leaves them when a create fails or dies halfway.
pub fn leftovers(cluster: &Cluster, world: &World) -> Vec<Leftover> {
    // A VM that cannot be seen may use what it likes.
    if !world.unlisted_hosts.is_empty() {
        return Vec::new();
    }
    let templates = cluster.templates().map(|(vmid, ..)| vmid);
    let ours: BTreeSet<u32> = cluster.nodes.iter().map(|node| node.vmid).chain(templates).collect();
    let mut known = BTreeSet::new();
    let mut found = Vec::new();
    for list in &world.disks {
        let shared = world
            .hosts
            .get(&list.host)
            .and_then(|host| host.storages.get(&list.storage))
            .is_some_and(|storage| storage.shared);
        for disk in list.disks.iter().filter(|disk| ours.contains(&disk.vmid) && is_plain(disk)) {
            let beside_vm = match world.guests.get(&disk.vmid) {
                None => false,
                Some(guest) if lacks(guest, disk, &list.host, shared) => true,
                Some(_) => continue,
            };
            if shared && !known.insert(&disk.volid) {
                continue;
            }
            let (host, volid) = (list.host.clone(), disk.volid.clone());
            found.push(Leftover { host, volid, vmid: disk.vmid, size: disk.size, beside_vm });
        }
    }
    found
}

/// What may hide volumes that are left over: guests that could not be seen, hosts and storages that could not be listed.
pub fn unlisted_disks(cluster: &Cluster, world: &World) -> Vec<Unobserved> {
    let seen = |one: &&Unobserved| one.what.hides_guests() || one.what.hides_disks();
    let mut found: Vec<Unobserved> = world.unobserved.iter().filter(seen).cloned().collect();
    for storage in cluster.proxmox.storages_of_disks() {
        let online = world.hosts.iter().filter(|(_, host)| host.online);
        let views: Vec<(&String, &StorageView)> =
            online.filter_map(|(name, host)| Some((name, host.storages.get(storage)?))).collect();
        if views.is_empty() {
            let what = Aspect::Storage { storage: storage.clone(), host: None };
            found.push(Unobserved::new(what, "no host that is online has it, or the token may not see it"));
        }
        // Of shared storage, one host that answers tells all.
        if views.iter().any(|(_, view)| view.shared && view.active) {
            continue;
        }
        for (host, view) in views {
            let Some(fault) = view.fault() else { continue };
            found.push(Unobserved::new(Aspect::storage_on(storage, host), format!("it {fault}")));
        }
    }
    found
}

/// Whether a volume has a name that Proxmox gives by itself.
fn is_plain(disk: &DiskView) -> bool {
    let name = disk.volid.rsplit(['/', ':']).next().unwrap_or_default();
    let Some(rest) = name.strip_prefix(&format!("vm-{}-", disk.vmid)) else { return false };
    let rest = rest.split('.').next().unwrap_or_default();
    rest == "cloudinit" || rest.strip_prefix("disk-").is_some_and(|number| number.parse::<u32>().is_ok())
}

/// Whether a VM of ours, at rest and without snapshots, does not use a volume of its host.
fn lacks(guest: &GuestView, disk: &DiskView, host: &str, shared: bool) -> bool {
    let ours = matches!(guest.ownership, Ownership::Ours { .. } | Ownership::Template { .. });
    let Some(config) = guest.config.as_ref().filter(|_| ours && guest.lock.is_none()) else { return false };
    (shared || guest.host == host) && !config.snapshots && !config.volumes.contains(&disk.volid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{home, home_world};
    use crate::world::{DiskList, VmConfig};

    fn disk(volid: &str, vmid: u32) -> DiskView {
        DiskView { volid: volid.into(), vmid, size: 4 << 20 }
    }

    fn with_disks(disks: Vec<DiskView>) -> World {
        let list = DiskList { host: "atlas".into(), storage: "local-lvm".into(), disks };
        World { disks: vec![list], ..home_world() }
    }

    #[test]
    fn only_what_nobody_uses_and_has_a_number_of_ours_is_left_over() {
        let cluster = home();
        let vmid = cluster.nodes[0].vmid;
        let own = |rest: &str| disk(&format!("local-lvm:vm-{vmid}-{rest}"), vmid);
        let mut world = with_disks(vec![
            own("disk-0"),
            own("disk-1"),
            own("cloudinit"),
            own("pvc-1234"),
            own("state-before"),
            disk("local-lvm:vm-9999-disk-0", 9999),
            disk(&format!("local-lvm:base-{vmid}-disk-0"), vmid),
        ]);
        let found: Vec<String> = leftovers(&cluster, &world).into_iter().map(|one| one.volid).collect();
        let names = ["disk-0", "disk-1", "cloudinit"].map(|rest| format!("local-lvm:vm-{vmid}-{rest}"));
        assert_eq!(found, names);

        // Its VM is there and uses one of them; what else has its number is left over beside it.
        let config = VmConfig { volumes: [names[1].clone()].into(), ..VmConfig::default() };
        let guest = GuestView {
            vmid,
            host: "atlas".into(),
            ownership: Ownership::Ours { node: cluster.nodes[0].name.clone(), digest: String::new() },
            config: Some(config),
            ..GuestView::default()
        };
        world.guests.insert(vmid, guest.clone());
        let found: Vec<(String, bool)> =
            leftovers(&cluster, &world).into_iter().map(|one| (one.volid, one.beside_vm)).collect();
        assert_eq!(found, [(names[0].clone(), true), (names[2].clone(), true)]);

        // Somebody else's VM has that number.
        world.guests.insert(vmid, GuestView { ownership: Ownership::Foreign, ..guest });
        assert_eq!(leftovers(&cluster, &world), []);
        world.guests.clear();
        world.unlisted_hosts.insert("boreas".into());
        assert_eq!(leftovers(&cluster, &world), []);
    }

    #[test]
    fn a_storage_under_living_nodes_is_watched() {
        let cluster = home();
        let mut world = home_world();
        let full = |world: &mut World| {
            let storage = world.hosts.get_mut("atlas").unwrap().storages.get_mut("local-lvm").unwrap();
            storage.available = storage.total / 50;
        };
        full(&mut world);
        assert_eq!(storage_warnings(&cluster, &world), [], "nobody lives there");
        let node = &cluster.nodes[0];
        world.guests.insert(
            node.vmid,
            GuestView {
                host: "atlas".into(),
                ownership: Ownership::Ours { node: node.name.clone(), digest: String::new() },
                ..GuestView::default()
            },
        );
        let found = |world: &World| {
            let mut found = storage_warnings(&cluster, world);
            assert_eq!(found.len(), 1, "{found:?}");
            found.remove(0)
        };
        let storage = StorageUse {
            storage: "local-lvm".into(),
            host: "atlas".into(),
            shared: false,
            nodes: vec!["cp-1".into()],
        };
        let full =
            Advice::StorageNearlyFull { storage: storage.clone(), available: 20 << 30, total: 1000 << 30 };
        assert_eq!(found(&world), full);
        let faulty = |fault| {
            let kind = world.hosts["atlas"].storages["local-lvm"].kind.clone();
            Advice::StorageFaulty { storage: storage.clone(), fault, kind }
        };
        let (inactive, disabled) = (faulty(StorageFault::Inactive), faulty(StorageFault::Disabled));
        let storages = &mut world.hosts.get_mut("atlas").unwrap().storages;
        storages.get_mut("local-lvm").unwrap().active = false;
        assert_eq!(found(&world), inactive);
        world.hosts.get_mut("atlas").unwrap().storages.get_mut("local-lvm").unwrap().disabled = true;
        assert_eq!(found(&world), disabled);
        world.hosts.get_mut("atlas").unwrap().storages.remove("local-lvm");
        assert_eq!(found(&world), Advice::StorageUnseen { storage });
        assert!(StorageFault::Inactive.fix("lvmthin", "local-lvm", "atlas").contains("vgs"));
    }
}
