//! The services of a configured machine: node API, etcd, API server, kubelet.

use std::sync::Arc;

use daedal_talos_client::proto::machine::{PhaseEvent, SequenceEvent, TaskEvent};

use super::apid;
use super::config::{MachineConfig, Trust};
use super::etcd::{Cluster, Member, advertised, member_id};
use super::kubelet;
use super::node::{Node, Stage};
use super::world::{EtcdData, Shared};
use crate::kubernetes::{self, Store};
use crate::moments::Occasion;

/// Runs all services of this boot. Never returns by itself.
pub(super) async fn run(shared: &Arc<Shared>, node: &Arc<Node>, config: &Arc<MachineConfig>) {
    let now = || shared.pace.now();
    sequence(node, "boot", "", now());
    if config.is_control_plane() {
        node.service("apid", "Preparing", false, now());
        shared.pass(node, shared.durations.apid).await;
        apid::serve(shared, node);
        node.service("trustd", "Running", true, now());
        node.update(|s| s.trustd = true);
        shared.settle();
    } else {
        node.service("apid", "Waiting", false, now());
        node.console("[talos] waiting for a control plane to sign the API certificate");
        await_trust(shared, config.trust()).await;
        shared.pass(node, shared.durations.apid.max(shared.durations.trustd)).await;
        apid::serve(shared, node);
    }
    node.service("apid", "Running", true, now());
    node.service("containerd", "Running", true, now());
    shared.pass(node, shared.durations.cri).await;
    node.service("cri", "Running", true, now());
    let name = node.update(|s| {
        s.cri = true;
        s.hostname.clone()
    });
    if config.is_control_plane() {
        shared.faults.happened(Occasion::Bootstrappable, name);
        node.service("etcd", "Preparing", false, now());
    }
    node.service("kubelet", "Preparing", false, now());
    // A control plane has booted once its etcd runs; before the bootstrap that is never.
    if config.is_control_plane() {
        tokio::join!(etcd(shared, node), kubelet::run(shared, node));
    } else {
        node.set_stage(Stage::Running, now());
        kubelet::run(shared, node).await;
    }
}

/// Tells the event stream that a sequence has begun.
pub(super) fn sequence(node: &Arc<Node>, name: &str, actor: &str, now: i64) {
    let event = SequenceEvent { sequence: name.to_owned(), action: 1, error: None };
    node.event("machine.SequenceEvent", &event, actor, now);
}

/// Tells the event stream that the services are being stopped: from here on nothing can be followed.
pub(super) fn stopping(node: &Arc<Node>, actor: &str, now: i64) {
    let phase = PhaseEvent { phase: "stopServices".into(), action: 0 };
    node.event("machine.PhaseEvent", &phase, actor, now);
    let task = TaskEvent { task: "stopAllServices".into(), action: 0 };
    node.event("machine.TaskEvent", &task, actor, now);
}

async fn await_trust(shared: &Arc<Shared>, trust: &Trust) {
    let mut changes = shared.watch();
    loop {
        changes.mark_unchanged();
        let signed = shared.world().nodes.values().any(|other| {
            let state = other.state();
            state.trustd && state.config.as_ref().is_some_and(|c| c.trust().is_mutual(trust))
        });
        if signed {
            return;
        }
        if changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Runs this control plane's etcd member and, on top of it, its API server.
async fn etcd(shared: &Arc<Shared>, node: &Arc<Node>) {
    let mut changes = shared.watch();
    loop {
        changes.mark_unchanged();
        match find_membership(shared, node) {
            Membership::Member => {
                serve_member(shared, node).await;
                node.service("etcd", "Finished", false, shared.pace.now());
                node.update(|s| {
                    s.etcd = false;
                    s.api_server = false;
                });
                shared.settle();
            }
            Membership::Removed => {
                node.service("etcd", "Failed", false, shared.pace.now());
                node.console("[talos] etcd: the member has been permanently removed from the cluster");
                changed(&mut changes).await;
            }
            Membership::None => changed(&mut changes).await,
        }
    }
}

pub(super) async fn changed(changes: &mut tokio::sync::watch::Receiver<u64>) {
    if changes.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

enum Membership {
    /// This machine's disk holds a member of a cluster (perhaps since this very moment).
    Member,
    /// Its data is of a cluster that has removed it.
    Removed,
    /// No data, and no cluster to join.
    None,
}

fn find_membership(shared: &Arc<Shared>, node: &Arc<Node>) -> Membership {
    let Some(disk) = node.disk.as_deref() else { return Membership::None };
    let (config, hostname, address) = {
        let state = node.state();
        // Who has left stays out until the next boot.
        if state.etcd_left {
            return Membership::None;
        }
        let Some(config) = state.config.clone() else { return Membership::None };
        let address = advertised(&config, &state.links, state.address);
        (config, state.hostname.clone(), address)
    };
    let Some(address) = address else { return Membership::None };
    let mut world = shared.world();
    if let Some(data) = world.disks.get(disk).and_then(|d| d.etcd.clone()) {
        let known =
            world.clusters.get(&data.cluster).is_some_and(|c| c.members.iter().any(|m| m.id == data.member));
        return if known { Membership::Member } else { Membership::Removed };
    }
    let Some(id) = world.joinable(config.etcd_key()) else { return Membership::None };
    let member = member_id(shared.seed, disk, id, address);
    let joined = Member { id: member, name: hostname, address, learner: true, disk: disk.to_owned() };
    if let Some(cluster) = world.clusters.get_mut(&id) {
        // A machine that joins with empty data takes the place of the member that had its name, as in Talos.
        cluster.members.retain(|m| m.name != joined.name);
        cluster.members.push(joined);
    }
    world.disks.entry(disk.to_owned()).or_default().etcd = Some(EtcdData { cluster: id, member });
    Membership::Member
}

/// Runs a member until it is no member any more.
async fn serve_member(shared: &Arc<Shared>, node: &Arc<Node>) {
    let now = || shared.pace.now();
    let Some(disk) = node.disk.clone() else { return };
    shared.pass(node, shared.durations.etcd_prepare).await;
    node.service("etcd", "Running", false, now());
    shared.pass(node, shared.durations.etcd).await;
    node.update(|s| s.etcd = true);
    shared.settle();
    if is_learner(shared, &disk) {
        node.console("[talos] etcd: joined as learner");
        shared.pass(node, shared.durations.etcd_promotion).await;
        let mut world = shared.world();
        let id = world.disks.get(&disk).and_then(|d| Some(d.etcd.as_ref()?.cluster));
        if let Some(cluster) = id.and_then(|id| world.clusters.get_mut(&id)) {
            for member in cluster.members.iter_mut().filter(|m| m.disk == disk) {
                member.learner = false;
            }
        }
        drop(world);
        shared.settle();
    }
    node.service("etcd", "Running", true, now());
    let (name, stage) = {
        let state = node.state();
        (state.hostname.clone(), state.stage)
    };
    if stage == Some(Stage::Booting) {
        node.set_stage(Stage::Running, now());
    }
    shared.faults.happened(Occasion::EtcdVotes, name);
    let mut changes = shared.watch();
    let mut started: Option<Arc<MachineConfig>> = None;
    loop {
        changes.mark_unchanged();
        let config = { node.state().config.clone() };
        let presents = |config: &MachineConfig| {
            (config.kubernetes_trust().clone(), config.list_at("/cluster/apiServer/certSANs"))
        };
        let stale = |was: &Arc<MachineConfig>, is: &Arc<MachineConfig>| {
            !Arc::ptr_eq(was, is) && presents(was) != presents(is)
        };
        if started.as_ref().zip(config.as_ref()).is_some_and(|(was, is)| stale(was, is)) {
            // It is made anew with other certificates.
            node.update(|s| s.api_server = false);
            shared.settle();
            started = None;
            continue;
        }
        let (member, quorum, seen) = {
            let world = shared.world();
            match world.cluster_of_disk(&disk) {
                Some(c) => (c.member_on(&disk).is_some(), world.has_quorum(c), c.seen),
                None => (false, false, false),
            }
        };
        if !member {
            return;
        }
        if quorum && started.is_none() {
            started = config;
            let wait = if seen { shared.durations.api_server } else { shared.durations.api_server_first };
            shared.pass(node, wait).await;
            {
                let mut world = shared.world();
                let id = world.disks.get(&disk).and_then(|d| Some(d.etcd.as_ref()?.cluster));
                if let Some(cluster) = id.and_then(|id| world.clusters.get_mut(&id)) {
                    cluster.seen = true;
                }
            }
            node.update(|s| s.api_server = true);
            shared.settle();
            publish(shared, &disk, started.as_deref());
            continue;
        }
        changed(&mut changes).await;
    }
}

/// Tells the pods of a cluster which authorities its API servers have.
fn publish(shared: &Arc<Shared>, disk: &str, config: Option<&MachineConfig>) {
    let store = { shared.world().cluster_of_disk(disk).map(|cluster| cluster.store.clone()) };
    if let Some((store, config)) = store.zip(config) {
        kubernetes::publish_authorities(&store, config, shared.pace.now());
    }
}

fn is_learner(shared: &Arc<Shared>, disk: &str) -> bool {
    let world = shared.world();
    world.cluster_of_disk(disk).and_then(|c| c.member_on(disk)).is_some_and(|m| m.learner)
}

/// Why bootstrap is refused.
pub(super) enum BootstrapRefusal {
    NotControlPlane,
    NotYet,
    Already,
}

/// Makes this machine's etcd the first member of a new cluster.
pub(super) fn bootstrap(
    shared: &Arc<Shared>,
    node: &Arc<Node>,
    store: Option<Store>,
) -> Result<(), BootstrapRefusal> {
    let (config, hostname, address, cri) = {
        let state = node.state();
        let config = state.config.clone().ok_or(BootstrapRefusal::NotYet)?;
        let address = advertised(&config, &state.links, state.address);
        (config, state.hostname.clone(), address, state.cri)
    };
    if !config.is_control_plane() {
        return Err(BootstrapRefusal::NotControlPlane);
    }
    let (Some(disk), Some(address), true) = (node.disk.clone(), address, cri) else {
        return Err(BootstrapRefusal::NotYet);
    };
    {
        let mut world = shared.world();
        if world.disks.get(&disk).is_some_and(|d| d.etcd.is_some()) {
            return Err(BootstrapRefusal::Already);
        }
        world.last_cluster += 1;
        let id = world.last_cluster;
        let member = member_id(shared.seed, &disk, id, address);
        let first = Member { id: member, name: hostname, address, learner: false, disk: disk.clone() };
        let store = store.unwrap_or_else(|| kubernetes::new_cluster(&config, shared.pace.now()));
        let cluster = Cluster::bootstrap(id, &config, first, Arc::new(store));
        world.clusters.insert(id, cluster);
        world.disks.entry(disk).or_default().etcd = Some(EtcdData { cluster: id, member });
    }
    node.console("[talos] bootstrap request received");
    shared.settle();
    Ok(())
}

/// Takes this machine's member out of its cluster and forgets its data.
pub(super) fn leave_etcd(shared: &Arc<Shared>, node: &Arc<Node>) {
    let Some(disk) = node.disk.as_deref() else { return };
    {
        let mut world = shared.world();
        node.state().etcd_left = true;
        let Some(data) = world.disks.get_mut(disk).and_then(|d| d.etcd.take()) else { return };
        if let Some(cluster) = world.clusters.get_mut(&data.cluster) {
            cluster.members.retain(|m| m.id != data.member);
        }
        world.forget_empty_clusters();
    }
    shared.settle();
}
