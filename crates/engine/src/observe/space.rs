//! How much is really free: the list of everything tells what is used, and a storage may keep some of the rest for itself.

use std::collections::BTreeMap;

use daedal_inventory::Cluster;
use daedal_planner::{Aspect, World, storages_needed};
use daedal_proxmox::Client;
use futures::future::join_all;

use crate::observe::UnobservedList;

/// Whether a VM that is there is to get more disk than it has.
pub(crate) fn needed(cluster: &Cluster, world: &World) -> bool {
    let storage = &cluster.proxmox.disks_storage;
    cluster.nodes.iter().any(|node| {
        let guest = world.guests.get(&node.vmid);
        guest.is_some_and(|guest| guest.disk_in_all(storage) < node.disk_in_all(storage))
    })
}

/// Asks the storages that nodes are made on. Where one does not tell, what the list says stays.
pub(crate) async fn look(
    proxmox: &Client,
    cluster: &Cluster,
    world: &mut World,
    unobserved: &UnobservedList,
) {
    let mut asked: Vec<(String, String)> = Vec::new();
    for (storage, _) in storages_needed(cluster, world) {
        for host in &cluster.proxmox.hosts {
            let view = world.hosts.get(&host.name).filter(|view| view.online);
            let Some(view) = view.and_then(|view| view.storages.get(storage)).filter(|view| view.active)
            else {
                continue;
            };
            // All hosts see the same of one that is shared.
            if !(view.shared && asked.iter().any(|(_, known)| known == storage)) {
                asked.push((host.name.clone(), storage.to_owned()));
            }
        }
    }
    let answers = asked.iter().map(|(host, storage)| proxmox.storage_status(host, storage));
    let mut free: BTreeMap<(String, String), u64> = BTreeMap::new();
    for (of, answer) in asked.iter().zip(join_all(answers).await) {
        match answer {
            Ok(status) if status.total > 0 => drop(free.insert(of.clone(), status.avail)),
            Ok(_) => {}
            Err(error) => {
                let (host, storage) = (of.0.to_string(), of.1.to_string());
                unobserved.add(Aspect::FreeSpace { storage, host }, &error);
            }
        }
    }
    for ((host, storage), avail) in free {
        for (name, view) in &mut world.hosts {
            let Some(view) = view.storages.get_mut(&storage) else { continue };
            if *name == host || view.shared {
                view.available = avail;
            }
        }
    }
}
