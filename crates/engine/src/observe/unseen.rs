//! Half-made VMs that the token may not see: a VM joins its pool only when its create ends, so that a token whose rights come
//! through the pool neither lists nor reads one whose create runs or died. Its task and its number are seen all the same.

use std::collections::{BTreeMap, BTreeSet};

use daedal_inventory::Cluster;
use daedal_planner::{GuestView, Ownership};
use daedal_proxmox::{Client, TaskFilter, TaskRow};
use futures::future::join_all;

use crate::observe::Blinds;
use crate::observe::guests::by_us_and_unfinished;

/// The declared VMIDs that no list shows, and that a create of ours left half-made.
pub(crate) async fn look(
    proxmox: &Client,
    cluster: &Cluster,
    hosts: &[&str],
    guests: &BTreeMap<u32, GuestView>,
    blinds: &Blinds,
) -> Vec<GuestView> {
    let unlisted = cluster.nodes.iter().filter(|node| !guests.contains_key(&node.vmid));
    let nodes: BTreeMap<u32, &str> = unlisted.map(|node| (node.vmid, node.name.as_str())).collect();
    if cluster.proxmox.pool.is_none() || nodes.is_empty() {
        return Vec::new();
    }
    let filter = TaskFilter { kind: Some("qmcreate".to_owned()), limit: Some(500), ..TaskFilter::default() };
    let lists = join_all(hosts.iter().map(|host| proxmox.tasks(host, &filter))).await;
    let mut newest: BTreeMap<u32, TaskRow> = BTreeMap::new();
    for (host, list) in hosts.iter().zip(lists) {
        let tasks = list.unwrap_or_else(|error| {
            blinds.add(format!("tasks of host {host}"), &error);
            Vec::new()
        });
        for task in tasks {
            let Some(vmid) = task.upid.vmid().filter(|vmid| nodes.contains_key(vmid)) else { continue };
            let later = |known: &TaskRow| known.upid.start_time() < task.upid.start_time();
            if newest.get(&vmid).is_none_or(later) {
                newest.insert(vmid, task);
            }
        }
    }
    newest.retain(|_, task| by_us_and_unfinished(proxmox, task));
    // Its task is remembered long after somebody took the VM away.
    let asked = newest.keys().map(|vmid| async move { (*vmid, proxmox.vmid_taken(*vmid).await) });
    let mut taken = BTreeSet::new();
    for (vmid, answer) in join_all(asked).await {
        match answer {
            Ok(true) => drop(taken.insert(vmid)),
            Ok(false) => {}
            Err(error) => blinds.add(format!("VM {vmid}"), &error),
        }
    }
    let half_made =
        newest.into_iter().filter(|(vmid, _)| taken.contains(vmid)).map(|(vmid, task)| GuestView {
            vmid,
            host: task.upid.node().to_owned(),
            lock: Some("create".to_owned()),
            unseen: true,
            ownership: Ownership::HalfMade {
                node: nodes.get(&vmid).copied().unwrap_or_default().to_owned(),
                task_running: task.running(),
                upid: task.upid.to_string(),
            },
            ..GuestView::default()
        });
    half_made.collect()
}
