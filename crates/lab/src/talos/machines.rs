//! The hypervisor's view of the machines: power, media, agent, console; and their state on disk.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rcgen::KeyPair;
use serde::{Deserialize, Serialize};

use super::etcd::{Cluster, Member};
use super::kubelet;
use super::life;
use super::node::{Node, Order};
use super::world::{Ground, SavedDisk, Shared, World};
use crate::kubernetes::{SavedStore, Store};
use crate::{GuestInterface, Guests, Hardware, Lines};

/// Runs a simulated Talos machine in every powered-on VM. Cheap to clone; all clones are one datacenter's machines.
#[derive(Clone)]
pub struct Machines {
    shared: Arc<Shared>,
}

/// What outlives the lab's process: the disks and the clusters on them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SavedMachines {
    disks: BTreeMap<String, SavedDisk>,
    clusters: Vec<SavedCluster>,
    last_cluster: u64,
    #[serde(default)]
    enrolled: BTreeSet<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct SavedCluster {
    id: u64,
    etcd_key: String,
    name: String,
    members: Vec<Member>,
    term: u64,
    seen: bool,
    store: SavedStore,
}

impl Machines {
    /// Machines on a network, from what was saved. Must be called inside a tokio runtime.
    pub fn new(ground: Ground, saved: SavedMachines) -> Result<Self, rcgen::Error> {
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
        let clusters = saved.clusters.into_iter().map(|c| {
            let cluster = Cluster {
                id: c.id,
                etcd_key: c.etcd_key,
                name: c.name,
                members: c.members,
                leader: None,
                term: c.term,
                store: Arc::new(Store::load(c.store)),
                seen: c.seen,
                vip: None,
                electing: false,
                controlled: false,
            };
            (c.id, cluster)
        });
        let world = World {
            disks: saved.disks,
            clusters: clusters.collect(),
            last_cluster: saved.last_cluster,
            enrolled: saved.enrolled,
            ..World::default()
        };
        Ok(Self { shared: Arc::new(Shared::new(ground, key, world)) })
    }

    /// What must outlive the process.
    pub fn save(&self) -> SavedMachines {
        let world = self.shared.world();
        SavedMachines {
            disks: world.disks.clone(),
            clusters: world
                .clusters
                .values()
                .map(|c| SavedCluster {
                    id: c.id,
                    etcd_key: c.etcd_key.clone(),
                    name: c.name.clone(),
                    members: c.members.clone(),
                    term: c.term,
                    seen: c.seen,
                    store: c.store.save(),
                })
                .collect(),
            last_cluster: world.last_cluster,
            enrolled: world.enrolled.clone(),
        }
    }

    /// From now on the machines know nothing of their firmware, as those in containers do: they tell no uuid.
    pub fn without_firmware(&self) {
        self.shared.without_firmware.store(true, std::sync::atomic::Ordering::Relaxed);
    }

    /// While set, machines that are powered on come back to where they were without waiting: the lab's process was
    /// restarted, not its datacenter.
    pub fn set_resuming(&self, resuming: bool) {
        self.shared.resuming.store(resuming, Ordering::Relaxed);
    }

    /// Wakes whenever something happens that should be saved.
    pub fn watch(&self) -> tokio::sync::watch::Receiver<u64> {
        self.shared.watch()
    }

    /// Whether a powered-on machine has switched itself off.
    pub fn halted(&self, vmid: u32) -> bool {
        let node = { self.shared.world().nodes.get(&vmid).cloned() };
        node.is_some_and(|n| n.state().halted)
    }

    /// Tells the hypervisor, once and for all, whom to call when a machine switches itself off.
    pub fn on_halt(&self, tell: impl Fn(u32) + Send + Sync + 'static) {
        let _ = self.shared.halting.set(Box::new(tell));
    }

    fn node(&self, vmid: u32) -> Option<Arc<Node>> {
        self.shared.world().nodes.get(&vmid).cloned()
    }
}

impl Guests for Machines {
    fn power_on(&self, hardware: Hardware) {
        self.power_off(hardware.vmid);
        let resumed = self.shared.resuming.load(Ordering::Relaxed);
        let (node, orders) = Node::new(hardware, self.shared.pace, resumed);
        {
            let mut world = self.shared.world();
            world.nodes.insert(node.vmid, node.clone());
            if let Some(disk) = node.disk.clone() {
                world.running_disks.insert(disk, node.vmid);
            }
        }
        let shared = self.shared.clone();
        self.shared.runtime.spawn(life::live(shared, node, orders));
    }

    fn power_off(&self, vmid: u32) {
        let removed = {
            let mut world = self.shared.world();
            world.running_disks.retain(|_, holder| *holder != vmid);
            world.nodes.remove(&vmid)
        };
        let Some(node) = removed else { return };
        node.power.cancel();
        self.shared.silence(&node);
        kubelet::mark_lost(&self.shared, &node);
    }

    fn shut_down(&self, vmid: u32) -> Pin<Box<dyn Future<Output = bool> + Send + '_>> {
        Box::pin(async move {
            let Some(node) = self.node(vmid) else { return true };
            let booted = {
                let state = node.state();
                state.stage.is_some() && state.image.is_some()
            };
            // Nothing listens to the power button before the system has booted.
            if !booted || node.orders.send(Order::Shutdown { actor: "acpi".into() }).is_err() {
                return node.state().halted;
            }
            let mut watch = node.watch();
            loop {
                watch.mark_unchanged();
                if node.state().halted {
                    return true;
                }
                tokio::select! {
                    () = node.power.cancelled() => return true,
                    changed = watch.changed() => if changed.is_err() { return false },
                }
            }
        })
    }

    fn copied(&self, from: &str, to: &str) {
        let mut world = self.shared.world();
        if world.enrolled.contains(from) {
            world.enrolled.insert(to.to_owned());
        }
        if let Some(disk) = world.disks.get(from).cloned() {
            // Two members of one etcd with one identity are not modelled.
            world.disks.insert(to.to_owned(), SavedDisk { etcd: None, recovery: None, ..disk });
        }
    }

    fn set_aside(&self, from: &str, to: &str) {
        let mut world = self.shared.world();
        let enrolled = world.enrolled.contains(from);
        match enrolled {
            true => world.enrolled.insert(to.to_owned()),
            false => world.enrolled.remove(to),
        };
        match world.disks.get(from).cloned() {
            Some(disk) => drop(world.disks.insert(to.to_owned(), disk)),
            None => drop(world.disks.remove(to)),
        }
    }

    fn forget(&self, disk_identity: &str) {
        {
            let mut world = self.shared.world();
            world.disks.remove(disk_identity);
            world.enrolled.remove(disk_identity);
            world.forget_empty_clusters();
        }
        self.shared.settle();
    }

    fn media_changed(&self, vmid: u32, cdroms: Vec<Vec<u8>>) {
        if let Some(node) = self.node(vmid) {
            node.set_media(cdroms);
        }
    }

    fn agent_interfaces(&self, vmid: u32) -> Option<Vec<GuestInterface>> {
        let node = self.node(vmid)?;
        let hardware = node.hardware();
        let state = node.state();
        let agent = state.image.as_ref().is_some_and(|i| i.has_extension("qemu-guest-agent"));
        // The agent is an extension service: it runs in maintenance mode too.
        if !hardware.agent || !agent || state.address.is_none() {
            return None;
        }
        let links = state.links.iter().map(|link| GuestInterface {
            name: link.name.clone(),
            mac: link.mac.clone(),
            addresses: link.addresses.iter().map(|n| (n.addr(), n.prefix_len())).collect(),
        });
        let loopback = GuestInterface {
            name: "lo".into(),
            mac: "00:00:00:00:00:00".into(),
            addresses: vec![(std::net::Ipv4Addr::LOCALHOST.into(), 8)],
        };
        Some(std::iter::once(loopback).chain(links).collect())
    }

    fn console(&self, vmid: u32) -> Vec<String> {
        self.node(vmid)
            .map(|n| n.state().console.iter().map(|line| line.text.clone()).collect())
            .unwrap_or_default()
    }

    fn console_from_now(&self, vmid: u32) -> Option<Lines> {
        let node = self.node(vmid)?;
        let last = node.state().lines;
        let lines =
            futures::stream::unfold((node.watch(), node, last), |(mut watch, node, last)| async move {
                loop {
                    watch.mark_unchanged();
                    let next = { node.state().console.iter().find(|line| line.serial > last).cloned() };
                    if let Some(next) = next {
                        return Some((kernel_line(&next), (watch, node, next.serial)));
                    }
                    tokio::select! {
                        () = node.power.cancelled() => return None,
                        changed = watch.changed() => changed.ok()?,
                    }
                }
            });
        Some(Box::pin(lines))
    }
}

/// A line as the kernel's log prints it.
fn kernel_line(line: &super::node::Line) -> String {
    format!("[{:>5}.{:06}] {}", line.serial / 10, (line.serial % 10) * 100_000, line.text)
}
