//! Everything the simulated machines share: the network they are on, their disks, their clusters.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use daedal_dial::Target;
use rcgen::KeyPair;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::durations::Durations;
use super::etcd::Cluster;
use super::node::Node;
use crate::faults::Faults;
use crate::http::Handler;
use crate::image::SystemImage;
use crate::moments::Occasion;
use crate::{Fabric, Pace};

/// Port of the Kubernetes API.
pub(crate) const KUBERNETES_PORT: u16 = 6443;
/// Port of the node API.
pub(crate) const APID_PORT: u16 = 50000;

/// What a disk remembers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SavedDisk {
    /// The configuration on the STATE partition.
    pub(crate) config: Option<String>,
    /// The platform's network configuration, kept on STATE.
    pub(crate) network_config: Option<String>,
    /// The platform's hostname, kept on STATE.
    pub(crate) hostname: Option<String>,
    /// The etcd data directory.
    pub(crate) etcd: Option<EtcdData>,
    /// The installed system, when it is another than the image the disk was made from.
    pub(crate) system: Option<SystemImage>,
    /// The system before the last upgrade.
    pub(crate) previous: Option<SystemImage>,
    /// No system is left.
    pub(crate) wiped: bool,
    /// How often a machine has booted from it.
    pub(crate) boots: u64,
    /// META values.
    pub(crate) meta: BTreeMap<u8, String>,
    /// An uploaded etcd snapshot, for recovery.
    pub(crate) recovery: Option<Vec<u8>>,
}

/// An etcd data directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EtcdData {
    pub(crate) cluster: u64,
    pub(crate) member: u64,
}

#[derive(Default)]
pub(crate) struct World {
    pub(crate) disks: BTreeMap<String, SavedDisk>,
    pub(crate) clusters: BTreeMap<u64, Cluster>,
    pub(crate) nodes: BTreeMap<u32, Arc<Node>>,
    /// Which machine runs from which disk.
    pub(crate) running_disks: BTreeMap<String, u32>,
    /// Who holds which address.
    pub(crate) addresses: BTreeMap<IpAddr, u32>,
    pub(crate) last_cluster: u64,
    /// EFI disks that hold the keys of Talos.
    pub(crate) enrolled: BTreeSet<String>,
}

pub(crate) struct Shared {
    pub(crate) fabric: Fabric,
    pub(crate) pace: Pace,
    pub(crate) durations: Durations,
    pub(crate) seed: u64,
    /// One key for all servers: making one per machine would be the dearest part of the lab.
    pub(crate) key: KeyPair,
    world: Mutex<World>,
    changed: watch::Sender<u64>,
    pub(crate) resuming: std::sync::atomic::AtomicBool,
    /// Whether machines know nothing of their firmware, as containers do.
    pub(crate) without_firmware: std::sync::atomic::AtomicBool,
    /// How often authorities of API servers have changed.
    pub(crate) authorities: std::sync::atomic::AtomicU64,
    pub(crate) runtime: tokio::runtime::Handle,
    pub(crate) faults: Faults,
    /// Which extensions a schematic holds, once the factory knows it.
    pub(crate) schematics: Schematics,
    /// Hears of machines that switch themselves off.
    pub(crate) halting: std::sync::OnceLock<Box<dyn Fn(u32) + Send + Sync>>,
}

/// What a machine that runs an installer knows of the Image Factory's schematics.
pub(crate) type Schematics = Arc<dyn Fn(&str) -> Option<Vec<String>> + Send + Sync>;

/// What the machines stand in.
pub struct Ground {
    /// The network.
    pub fabric: Fabric,
    /// The clock.
    pub pace: Pace,
    /// How long things take.
    pub durations: Durations,
    /// What goes wrong.
    pub faults: Faults,
    /// Decides every id that is made up.
    pub seed: u64,
    /// Who knows which extensions a schematic holds.
    pub factory: Option<crate::factory::Factory>,
}

impl Shared {
    pub(crate) fn new(ground: Ground, key: KeyPair, world: World) -> Self {
        let factory = ground.factory;
        Self {
            fabric: ground.fabric,
            pace: ground.pace,
            durations: ground.durations,
            seed: ground.seed,
            faults: ground.faults,
            schematics: Arc::new(move |id| factory.as_ref()?.extensions(id)),
            halting: std::sync::OnceLock::new(),
            key,
            world: Mutex::new(world),
            changed: watch::Sender::new(0),
            resuming: std::sync::atomic::AtomicBool::new(false),
            without_firmware: std::sync::atomic::AtomicBool::new(false),
            authorities: std::sync::atomic::AtomicU64::new(0),
            runtime: tokio::runtime::Handle::current(),
        }
    }

    /// The world, locked. Take it before any machine's state.
    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes at every change that more than one machine may care about.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Brings listeners, leaders and shared addresses in line with the machines, and wakes who waits.
    pub(crate) fn settle(self: &Arc<Self>) {
        let mut world = self.world();
        let ids: Vec<u64> = world.clusters.keys().copied().collect();
        for id in ids {
            self.settle_cluster(&mut world, id);
        }
        drop(world);
        self.changed.send_modify(|n| *n += 1);
    }

    fn settle_cluster(self: &Arc<Self>, world: &mut World, id: u64) {
        let Some(cluster) = world.clusters.get(&id) else { return };
        let quorum = world.has_quorum(cluster);
        let leader = if !quorum {
            None
        } else if let Some(leader) =
            cluster.leader.filter(|l| cluster.voters().any(|m| m.id == *l && world.healthy(m)))
        {
            Some(leader)
        } else {
            cluster.voters().find(|m| world.healthy(m)).map(|m| m.id)
        };
        let members: Vec<Arc<Node>> =
            cluster.members.iter().filter_map(|m| world.node_on(&m.disk)).cloned().collect();
        for node in &members {
            let serves = quorum && { node.state().api_server };
            if serves {
                self.open_api(cluster, node);
            } else {
                self.close_api(node);
            }
        }
        let answers = members.iter().any(|n| n.state().api_open.is_some());
        let begin = answers && !cluster.controlled;
        if begin {
            crate::kubernetes::start_controllers(&cluster.store, self.pace, &self.runtime);
        }
        let holder = cluster
            .vip
            .filter(|(_, vmid)| members.iter().any(|n| n.vmid == *vmid && n.state().api_open.is_some()));
        let lost = if holder.is_none() { cluster.vip } else { None };
        let wanted = members.iter().find_map(|n| {
            let state = n.state();
            state.api_open.as_ref()?;
            state.links.iter().find_map(|l| l.vip)
        });
        let elect = holder.is_none() && wanted.is_some() && !cluster.electing;
        if let Some((address, _)) = lost {
            self.fabric.close(&Target::new(address.to_string(), KUBERNETES_PORT));
            world.addresses.remove(&address);
        }
        if let Some(cluster) = world.clusters.get_mut(&id) {
            if leader.is_some() && leader != cluster.leader {
                cluster.term += 1;
            }
            cluster.leader = leader;
            cluster.vip = holder;
            cluster.controlled |= begin;
            if elect {
                cluster.electing = true;
                let shared = self.clone();
                self.runtime.spawn(async move { shared.elect_vip(id).await });
            }
        }
    }

    async fn elect_vip(self: Arc<Self>, id: u64) {
        let resumed = self.world().nodes.values().all(|n| n.is_resumed());
        if !resumed {
            self.pace.pass(self.durations.vip).await;
        }
        {
            let mut world = self.world();
            let Some(cluster) = world.clusters.get(&id) else { return };
            // The leader's node answers quickest, so it usually wins.
            let running = cluster.members.iter().filter_map(|m| world.node_on(&m.disk));
            let mut candidates: Vec<&Arc<Node>> = running.filter(|n| n.state().api_open.is_some()).collect();
            candidates.sort_by_key(|n| {
                let member = n.disk.as_deref().and_then(|d| cluster.member_on(d)).map(|m| m.id);
                (member != cluster.leader, n.vmid)
            });
            let winner = candidates.iter().find_map(|n| {
                let vip = n.state().links.iter().find_map(|l| l.vip)?;
                Some((vip, (*n).clone()))
            });
            let store = cluster.store.clone();
            if let Some((vip, node)) = winner {
                if let Some(holder) = world.addresses.get(&vip).filter(|v| **v != node.vmid) {
                    node.console(format!("[talos] shared IP {vip} is in use by VM {holder}"));
                } else if let Some(stop) = { node.state().api_open.clone() } {
                    node.console(format!("[talos] enabled shared IP {{\"component\": \"controller-runtime\", \"operator\": \"vip\", \"ip\": \"{vip}\"}}"));
                    self.listen_api(&store, &node, vip, stop);
                    self.faults.happened(Occasion::EndpointUp, vip.to_string());
                    world.addresses.insert(vip, node.vmid);
                    if let Some(cluster) = world.clusters.get_mut(&id) {
                        cluster.vip = Some((vip, node.vmid));
                    }
                    node.touch();
                }
            }
            if let Some(cluster) = world.clusters.get_mut(&id) {
                cluster.electing = false;
            }
        }
        self.changed.send_modify(|n| *n += 1);
    }

    fn open_api(&self, cluster: &Cluster, node: &Arc<Node>) {
        let (address, stop) = {
            let mut state = node.state();
            if state.api_open.is_some() {
                return;
            }
            let Some(address) = state.address else { return };
            let stop = state.session.child_token();
            state.api_open = Some(stop.clone());
            (address, stop)
        };
        self.listen_api(&cluster.store, node, address, stop);
    }

    fn listen_api(
        &self,
        store: &Arc<crate::kubernetes::Store>,
        node: &Arc<Node>,
        address: IpAddr,
        stop: CancellationToken,
    ) {
        let Some(config) = ({ node.state().config.clone() }) else { return };
        let handler: Handler = crate::kubernetes::handler(store.clone(), self.pace);
        let handler = crate::faulty::http(handler, "kubernetes", self.faults.clone(), self.pace);
        match crate::kubernetes::tls(&config, node, &self.key, self.pace) {
            Ok(tls) => {
                let acceptor = crate::http::tls_service(tls, stop, handler);
                self.fabric.listen(Target::new(address.to_string(), KUBERNETES_PORT), acceptor);
            }
            Err(error) => node.console(format!("[talos] kube-apiserver failed: {}", chain(&error))),
        }
    }

    fn close_api(&self, node: &Arc<Node>) {
        let (stop, address) = {
            let mut state = node.state();
            (state.api_open.take(), state.address)
        };
        if let Some(stop) = stop {
            stop.cancel();
            if let Some(address) = address {
                self.fabric.close(&Target::new(address.to_string(), KUBERNETES_PORT));
            }
        }
    }

    /// Lets every kubelet look whether it and some API server still trust each other.
    pub(crate) fn authorities_changed(&self) {
        self.authorities.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        for node in self.world().nodes.values() {
            node.touch();
        }
    }

    /// Takes a machine off the network at once: nothing of it answers any more.
    pub(crate) fn silence(self: &Arc<Self>, node: &Arc<Node>) {
        let mut world = self.world();
        self.close_api(node);
        let address = node.update(|s| {
            s.session.cancel();
            s.apid = false;
            s.trustd = false;
            s.cri = false;
            s.etcd = false;
            s.api_server = false;
            s.ready = false;
            s.kubelet = false;
            s.registered = false;
            s.services.clear();
            s.address.take()
        });
        if let Some(address) = address.filter(|a| world.addresses.get(a) == Some(&node.vmid)) {
            self.fabric.close(&Target::new(address.to_string(), APID_PORT));
            world.addresses.remove(&address);
        }
        drop(world);
        self.settle();
    }

    /// Waits for a simulated duration, unless the machine is being brought back.
    pub(crate) async fn pass(&self, node: &Node, duration: Duration) {
        if node.is_resumed() {
            tokio::task::yield_now().await;
        } else {
            self.pace.pass(duration).await;
        }
    }
}

/// An error with its causes, on one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
