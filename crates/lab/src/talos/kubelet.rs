//! The kubelet of a machine: it registers the node with an API server that it trusts, reports, and follows its configuration.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::config::MachineConfig;
use super::node::Node;
use super::services::changed;
use super::world::Shared;
use crate::kubernetes::{Store, kubelet};
use crate::moments::Occasion;

/// Why a kubelet no longer reports.
enum End {
    /// Its own authorities are others: it is started anew with them.
    Restart,
    /// No API server is of an authority that it trusts, or none trusts it any more.
    Distrust,
}

/// Runs the kubelet of this boot. Returns only where there is no configuration.
pub(super) async fn run(shared: &Arc<Shared>, node: &Arc<Node>) {
    let mut known = false;
    loop {
        node.service("kubelet", "Running", true, shared.pace.now());
        node.update(|s| s.kubelet = true);
        loop {
            let Some(config) = ({ node.state().config.clone() }) else { return };
            // Before it looks for an API server: what changes while it registers is news, too.
            let seen = shared.authorities.load(Ordering::Relaxed);
            let end = match connect(shared, node, &config, &mut known).await {
                Some(store) => report(shared, node, &config, &store, seen).await,
                None => End::Restart,
            };
            node.update(|s| s.ready = false);
            mark_lost(shared, node);
            if matches!(end, End::Restart) {
                break;
            }
        }
        node.withdraw("kubelet");
        shared.pass(node, shared.durations.kubelet_restart).await;
    }
}

/// Waits for an API server, registers the node, and reports Ready. None if it is to begin anew before it came so far.
async fn connect(
    shared: &Arc<Shared>,
    node: &Arc<Node>,
    config: &Arc<MachineConfig>,
    known: &mut bool,
) -> Option<Arc<Store>> {
    let now = || shared.pace.now();
    let mut changes = shared.watch();
    let mut waited = false;
    let store = loop {
        changes.mark_unchanged();
        let found = { shared.world().kubernetes(config.kubernetes_trust()).map(|c| c.store.clone()) };
        if let Some(store) = found {
            break store;
        }
        if differs(node, config) {
            return None;
        }
        waited = true;
        changed(&mut changes).await;
    };
    let wait = if waited { shared.durations.kubelet_first } else { shared.durations.kubelet };
    // Whom Kubernetes knows already is not called NotReady for a kubelet that begins anew.
    let first = !*known;
    if first {
        shared.pass(node, wait.mul_f64(0.6)).await;
    }
    let facts = kubelet::Facts::of(node, config);
    if first {
        kubelet::register(&store, &facts, now());
        node.update(|s| s.registered = true);
        shared.pass(node, wait.mul_f64(0.4)).await;
    }
    await_network_plugin(&store, config, &facts.name).await;
    kubelet::ready(&store, &facts, now());
    node.update(|s| {
        s.ready = true;
        s.registered_in = Some(store.clone());
    });
    *known = true;
    if first {
        shared.faults.happened(Occasion::Ready, &facts.name);
        node.resumed.store(false, Ordering::Relaxed);
    }
    node.tell_status(now());
    node.console(format!("[talos] node {} is ready", facts.name));
    Some(store)
}

/// Whether the machine's authorities are others than those of this configuration.
fn differs(node: &Node, config: &MachineConfig) -> bool {
    node.state().config.as_ref().is_some_and(|now| now.kubernetes_trust() != config.kubernetes_trust())
}

/// Reports for as long as it can. A machine's labels follow its configuration without a reboot.
async fn report(
    shared: &Arc<Shared>,
    node: &Arc<Node>,
    config: &MachineConfig,
    store: &Store,
    mut seen: u64,
) -> End {
    let mut watch = node.watch();
    loop {
        watch.mark_unchanged();
        if differs(node, config) {
            return End::Restart;
        }
        let changed = shared.authorities.load(Ordering::Relaxed);
        if std::mem::replace(&mut seen, changed) != changed {
            let believed = { shared.world().believes(config.kubernetes_trust()) };
            if !believed {
                return End::Distrust;
            }
        }
        let config = { node.state().config.clone() };
        if let Some(config) = config {
            kubelet::follow(store, &kubelet::Facts::of(node, &config), shared.pace.now());
        }
        if watch.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Waits until some pod has brought a network to the node, unless Talos does so itself.
async fn await_network_plugin(store: &Store, config: &MachineConfig, node: &str) {
    if config.cni() == "flannel" {
        return;
    }
    let mut networks = store.networks();
    if networks.wait_for(|nodes| nodes.contains(node)).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Lets Kubernetes find out, after its patience, that a machine has gone silent.
pub(super) fn mark_lost(shared: &Arc<Shared>, node: &Arc<Node>) {
    let (config, name, registered_in) = {
        let state = node.state();
        (state.config.clone(), state.hostname.clone(), state.registered_in.clone())
    };
    let Some(config) = config else { return };
    let shared = shared.clone();
    let runtime = shared.runtime.clone();
    runtime.spawn(async move {
        shared.pace.pass(shared.durations.node_grace).await;
        let store = {
            let world = shared.world();
            let trust = config.kubernetes_trust();
            let same = |store: &Option<Arc<Store>>| {
                store.as_ref().zip(registered_in.as_ref()).is_some_and(|(one, other)| Arc::ptr_eq(one, other))
            };
            let back = world.nodes.values().any(|n| {
                let state = n.state();
                let ours = || state.config.as_ref().is_some_and(|c| c.kubernetes_trust().is_mutual(trust));
                state.hostname == name && state.ready && (same(&state.registered_in) || ours())
            });
            let known = || {
                let answering = world.clusters.values().filter(|c| world.api_answers(c));
                answering.map(|c| &c.store).find(|store| same(&Some((*store).clone())))
            };
            let store = world.kubernetes(trust).map(|c| &c.store).or_else(known);
            store.filter(|_| !back).cloned()
        };
        if let Some(store) = store {
            kubelet::lost(&store, &name, shared.pace.now());
        }
    });
}
