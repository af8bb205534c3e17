//! A node that exactly one guest claims to be: whether it is that node, and what is wrong with it.

use daedal_inventory::{Cluster, Node};

use super::{Notes, Present, State, at};
use crate::advice::Advice;
use crate::world::{EtcdView, GuestView, NodeView, Ownership, TalosView, VmConfig, World};

/// Whether a node runs at another address than the declared one, where nobody answers.
fn moved(cluster: &Cluster, guest: &GuestView, config: &VmConfig, view: &NodeView) -> bool {
    let Ownership::Ours { digest, .. } = &guest.ownership else { return false };
    // What Kubernetes knows of a new VM is the memory of one before.
    let is_new = Present { guest, config, digest }.newborn(cluster);
    guest.running && !is_new && view.ready == Some(true) && matches!(view.talos, TalosView::Unreachable)
}

/// Why a node is left alone.
pub(crate) struct Obstacle {
    /// Whether what stands there may hold an etcd of this cluster.
    suspect: bool,
    pub(crate) advice: Advice,
}

/// A node that exactly one guest claims to be.
pub(super) fn claimed<'w>(
    cluster: &Cluster,
    node: &Node,
    guest: &'w GuestView,
    view: &NodeView,
    world: &World,
    notes: &mut Notes,
) -> State<'w> {
    let (ownership, config) = (&guest.ownership, guest.config.as_ref());
    let name = || node.name.clone();
    let obstacle = misplaced(node, guest, world).or_else(|| match (ownership, config) {
        (Ownership::HalfMade { task_running: true, .. }, _) => None,
        (Ownership::HalfMade { .. }, _) => {
            let advice = Advice::DiedHalfWay { node: name(), died: guest.died(), goes_on: true };
            Some(Obstacle { suspect: false, advice })
        }
        (Ownership::Ours { .. }, _) if guest.template => {
            let advice = Advice::TurnedIntoTemplate { node: name(), guest: guest.into() };
            Some(Obstacle { suspect: true, advice })
        }
        (Ownership::Ours { .. }, Some(config)) => answered(cluster, node, guest, config, view, world),
        _ => None,
    });
    let Obstacle { suspect, advice } = match (obstacle, ownership, config) {
        (None, Ownership::HalfMade { upid, .. }, _) => return State::Creating { guest, upid },
        (None, Ownership::Ours { digest, .. }, Some(config)) => {
            return State::Present(Present { guest, config, digest });
        }
        (None, ..) => {
            let advice = Advice::VmUnreadable { node: name(), guest: guest.into() };
            Obstacle { suspect: true, advice }
        }
        (Some(obstacle), ..) => obstacle,
    };
    notes.problem(advice);
    State::Blocked { suspect, keep_media: suspect, host: Some(&guest.host) }
}

/// What is wrong with where the VM is.
pub(crate) fn misplaced(node: &Node, guest: &GuestView, world: &World) -> Option<Obstacle> {
    let name = node.name.clone();
    if guest.vmid != node.vmid {
        let advice = Advice::OtherVmid { node: name, guest: guest.into(), declared: node.vmid };
        return Some(Obstacle { suspect: true, advice });
    }
    world.hosts.get(&guest.host).filter(|host| !host.online)?;
    let advice = Advice::HostOffline { node: name, guest: guest.into(), leaving: false };
    Some(Obstacle { suspect: true, advice })
}

/// What is wrong with a VM of ours, and with what answers at its address.
fn answered(
    cluster: &Cluster,
    node: &Node,
    guest: &GuestView,
    config: &VmConfig,
    view: &NodeView,
    world: &World,
) -> Option<Obstacle> {
    let (name, vm) = (node.name.clone(), guest.into());
    let maintenance = matches!(view.talos, TalosView::Maintenance);
    if config.disk == 0 {
        return Some(Obstacle { suspect: false, advice: Advice::NoSystemDisk { node: name, guest: vm } });
    }
    if matches!(view.talos, TalosView::OtherCluster) {
        let advice = Advice::OtherCluster { node: name, guest: vm, address: at(node, world) };
        return Some(Obstacle { suspect: true, advice });
    }
    if let Some(found) = view.elsewhere.as_ref().filter(|_| moved(cluster, guest, config, view)) {
        let advice = Advice::OtherAddress { node: name, found: found.clone(), declared: at(node, world) };
        return Some(Obstacle { suspect: true, advice });
    }
    if maintenance && matches!(view.etcd, EtcdView::Member | EtcdView::Learner) {
        let mut others = cluster.control_planes().filter(|other| other.name != node.name);
        let ask = others
            .find(|other| is_up(world, &other.name))
            .map(|other| at(other, world).unwrap_or_else(|| other.name.clone()));
        return Some(Obstacle { suspect: false, advice: Advice::FormerMember { node: name, ask } });
    }
    if maintenance && cluster.boot.through_maintenance() && !config.waiting {
        let advice = Advice::ConfigLost { node: name, guest: vm, address: at(node, world) };
        return Some(Obstacle { suspect: true, advice });
    }
    None
}

fn is_up(world: &World, node: &str) -> bool {
    world.nodes.get(node).is_some_and(|view| matches!(view.talos, TalosView::Configured { .. }))
}
