//! Half-made VMs and templates that the token may not see: a VM joins its pool only when its create or clone ends, so that a token
//! whose rights come through the pool neither lists nor reads one whose task runs or died. Its task and its number are seen all the
//! same.

use std::collections::{BTreeMap, BTreeSet};

use daedal_inventory::{Cluster, Node, Role};
use daedal_planner::{Aspect, GuestView, Ownership};
use daedal_proxmox::{Client, TaskFilter, TaskRow};
use futures::future::join_all;

use crate::observe::guests::by_us_and_unfinished;
use crate::observe::{UnobservedList, clones};

/// Whose VMID it is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Owner<'a> {
    /// A declared node's.
    Node(&'a Node),
    /// That of a role's template.
    Template(Role),
}

/// Every VMID that the inventory gives out.
pub(crate) fn vmids(cluster: &Cluster) -> impl Iterator<Item = (u32, Owner<'_>)> {
    let templates = cluster.templates().map(|(vmid, role, _)| (vmid, Owner::Template(role)));
    cluster.nodes.iter().map(|node| (node.vmid, Owner::Node(node))).chain(templates)
}

/// Those of the VMIDs, none of which is in any list, that a create or clone of ours left half-made.
pub(crate) async fn look<'a>(
    proxmox: &Client,
    cluster: &Cluster,
    hosts: &[&str],
    unlisted: impl Iterator<Item = (u32, Owner<'a>)>,
    unobserved: &UnobservedList,
) -> Vec<GuestView> {
    let owners: BTreeMap<u32, Owner<'_>> = unlisted.collect();
    if cluster.proxmox.pool.is_none() || owners.is_empty() {
        return Vec::new();
    }
    let mut makers = creates(proxmox, hosts, &owners, unobserved).await;
    for (role, task) in unfinished_clones(proxmox, cluster, hosts, unobserved).await {
        // Templates are created and never cloned.
        let of_role = |owner: &Owner<'_>| matches!(owner, Owner::Node(node) if node.role == role);
        for (vmid, _) in owners.iter().filter(|(_, owner)| of_role(owner)) {
            makers.entry(*vmid).or_insert_with(|| task.clone());
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
    let half_made = makers.into_iter().filter(|(vmid, _)| taken.contains(vmid)).filter_map(|(vmid, task)| {
        Some(GuestView {
            vmid,
            host: task.upid.node().to_owned(),
            lock: Some(lock_of(&task).to_owned()),
            unseen: true,
            ownership: match owners.get(&vmid)? {
                Owner::Node(node) => Ownership::HalfMade {
                    node: node.name.clone(),
                    task_running: task.running(),
                    upid: task.upid.to_string(),
                },
                Owner::Template(role) => Ownership::unmade_template(*role, !task.running()),
            },
            ..GuestView::default()
        })
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
    owners: &BTreeMap<u32, Owner<'_>>,
    unobserved: &UnobservedList,
) -> BTreeMap<u32, TaskRow> {
    let filter = TaskFilter { kind: Some("qmcreate".to_owned()), limit: Some(500), ..TaskFilter::default() };
    let lists = join_all(hosts.iter().map(|host| proxmox.tasks(host, &filter))).await;
    let mut newest: BTreeMap<u32, TaskRow> = BTreeMap::new();
    for task in heard(hosts, lists, unobserved) {
        let Some(vmid) = task.upid.vmid().filter(|vmid| owners.contains_key(vmid)) else { continue };
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
