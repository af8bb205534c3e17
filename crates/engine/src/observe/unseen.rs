//! Half-made VMs that the token may not see: a VM joins its pool only when its create or clone ends, so that a token whose rights
//! come through the pool neither lists nor reads one whose task runs or died. Its task and its number are seen all the same.

use std::collections::{BTreeMap, BTreeSet};

use daedal_inventory::{Cluster, Node, Role};
use daedal_planner::{Aspect, GuestView, Ownership};
use daedal_proxmox::{Client, TaskFilter, TaskRow};
use futures::future::join_all;

use crate::observe::guests::by_us_and_unfinished;
use crate::observe::{UnobservedList, clones};

/// Those of the nodes, none of whose VMs is in any list, that a create or clone of ours left half-made.
pub(crate) async fn look<'n>(
    proxmox: &Client,
    cluster: &Cluster,
    hosts: &[&str],
    unlisted: impl Iterator<Item = &'n Node>,
    unobserved: &UnobservedList,
) -> Vec<GuestView> {
    let nodes: BTreeMap<u32, &Node> = unlisted.map(|node| (node.vmid, node)).collect();
    if cluster.proxmox.pool.is_none() || nodes.is_empty() {
        return Vec::new();
    }
    let mut makers = creates(proxmox, hosts, &nodes, unobserved).await;
    for (role, task) in unfinished_clones(proxmox, cluster, hosts, unobserved).await {
        for node in nodes.values().filter(|node| node.role == role) {
            makers.entry(node.vmid).or_insert_with(|| task.clone());
        }
    }
    // A task is remembered long after somebody took its VM away.
    let asked = makers.keys().map(|vmid| async move { (*vmid, proxmox.vmid_taken(*vmid).await) });
    let mut taken = BTreeSet::new();
    for (vmid, answer) in join_all(asked).await {
        match answer {
            Ok(true) => drop(taken.insert(vmid)),
            Ok(false) => {}
            Err(error) => unobserved.add(Aspect::Vm { vmid, host: None }, &error),
        }
    }
    let half_made =
        makers.into_iter().filter(|(vmid, _)| taken.contains(vmid)).map(|(vmid, task)| GuestView {
            vmid,
            host: task.upid.node().to_owned(),
            lock: Some(lock_of(&task).to_owned()),
            unseen: true,
            ownership: Ownership::HalfMade {
                node: nodes.get(&vmid).map(|node| node.name.clone()).unwrap_or_default(),
                task_running: task.running(),
                upid: task.upid.to_string(),
            },
            ..GuestView::default()
        });
    half_made.collect()
}

/// The lock that a VM has while this task makes it.
fn lock_of(task: &TaskRow) -> &'static str {
    if task.upid.kind() == "qmclone" { "clone" } else { "create" }
}

/// The newest create of each of these VMs, if it is ours and did not end well.
async fn creates(
    proxmox: &Client,
    hosts: &[&str],
    nodes: &BTreeMap<u32, &Node>,
    unobserved: &UnobservedList,
) -> BTreeMap<u32, TaskRow> {
    let filter = TaskFilter { kind: Some("qmcreate".to_owned()), limit: Some(500), ..TaskFilter::default() };
    let lists = join_all(hosts.iter().map(|host| proxmox.tasks(host, &filter))).await;
    let mut newest: BTreeMap<u32, TaskRow> = BTreeMap::new();
    for task in heard(hosts, lists, unobserved) {
        let Some(vmid) = task.upid.vmid().filter(|vmid| nodes.contains_key(vmid)) else { continue };
        let later = |known: &TaskRow| known.upid.start_time() < task.upid.start_time();
        if newest.get(&vmid).is_none_or(later) {
            newest.insert(vmid, task);
        }
    }
    newest.retain(|_, task| by_us_and_unfinished(proxmox, task));
    newest
}

/// A clone of ours that runs or died, for each role that has one.
async fn unfinished_clones(
    proxmox: &Client,
    cluster: &Cluster,
    hosts: &[&str],
    unobserved: &UnobservedList,
) -> Vec<(Role, TaskRow)> {
    if cluster.templates().next().is_none() {
        return Vec::new();
    }
    let lists = join_all(hosts.iter().map(|host| clones::remembered(proxmox, host))).await;
    let tasks = heard(hosts, lists, unobserved);
    let of = |role| Some((role, clones::unfinished(proxmox, cluster, role, &tasks)?.clone()));
    [Role::ControlPlane, Role::Worker].into_iter().filter_map(of).collect()
}

fn heard(
    hosts: &[&str],
    lists: Vec<Result<Vec<TaskRow>, daedal_proxmox::Error>>,
    unobserved: &UnobservedList,
) -> Vec<TaskRow> {
    let tasks = hosts.iter().zip(lists).map(|(host, list)| {
        list.unwrap_or_else(|error| {
            unobserved.add(Aspect::Tasks(host.to_string()), &error);
            Vec::new()
        })
    });
    tasks.flatten().collect()
}
