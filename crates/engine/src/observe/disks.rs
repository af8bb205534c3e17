//! The disks on the storages that ours are on, and storages that are switched off.

use std::collections::{BTreeMap, BTreeSet};

use daedal_inventory::Cluster;
use daedal_planner::{DiskList, DiskView, HostView, StorageView};
use daedal_proxmox::{Client, Volume};
use futures::future::join_all;

use super::Blinds;

/// Lists the disks of all guests: asked of each host that has a storage, or of one of them if it is shared.
pub(super) async fn look(
    proxmox: &Client,
    cluster: &Cluster,
    hosts: &BTreeMap<String, HostView>,
    blinds: &Blinds,
) -> Vec<DiskList> {
    let storages: BTreeSet<&String> = cluster.proxmox.storages_of_disks().collect();
    let mut asked = Vec::new();
    for storage in storages {
        let having = hosts.iter().filter_map(|(name, host)| {
            let seen = host.storages.get(storage).filter(|seen| host.online && seen.active)?;
            Some((name, seen.shared))
        });
        let mut once = false;
        for (host, shared) in having {
            // Whoever shares it lists the same.
            if shared && std::mem::replace(&mut once, true) {
                continue;
            }
            asked.push((host, storage));
        }
    }
    let lists = asked.into_iter().map(|(host, storage)| async move {
        match proxmox.volumes(host, storage, Some("images")).await {
            Ok(volumes) => {
                let disks = volumes.into_iter().filter_map(disk).collect();
                Some(DiskList { host: host.clone(), storage: storage.clone(), disks })
            }
            Err(error) => {
                blinds.add(format!("disks on storage {storage} on host {host}"), &error);
                None
            }
        }
    });
    join_all(lists).await.into_iter().flatten().collect()
}

fn disk(volume: Volume) -> Option<DiskView> {
    let size = volume.size.or(volume.approximate_size).unwrap_or(0);
    Some(DiskView { volid: volume.volid, vmid: volume.vmid?, size })
}

/// A storage that is switched off is not in the list of everything; its host tells.
pub(super) async fn find_disabled(
    proxmox: &Client,
    cluster: &Cluster,
    hosts: &mut BTreeMap<String, HostView>,
) {
    let needed: BTreeSet<&String> =
        cluster.proxmox.storages_of_disks().chain([&cluster.proxmox.images_storage]).collect();
    let needed = &needed;
    let lacking = hosts.iter_mut().filter(|(_, host)| {
        host.online && needed.iter().any(|storage| !host.storages.contains_key(*storage))
    });
    join_all(lacking.map(|(name, host)| async move {
        // Where it cannot be asked, the storage stays unseen, which the planner says.
        for row in proxmox.storages(name).await.unwrap_or_default() {
            if !row.enabled && needed.contains(&row.storage) {
                let view = StorageView {
                    kind: row.kind,
                    content: row.content.into_iter().collect(),
                    disabled: true,
                    shared: row.shared,
                    ..StorageView::default()
                };
                host.storages.entry(row.storage).or_insert(view);
            }
        }
    }))
    .await;
}
