//! A node that exactly one guest claims to be: whether it is that node, and what is wrong with it.

use daedal_inventory::{Cluster, Node};

use super::{Notes, Present, State, at, full_name};
use crate::error::{destroying, strangers_address};
use crate::fix::Fix;
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
    pub(crate) text: String,
    pub(crate) fix: Option<Fix>,
}

impl Obstacle {
    fn new(suspect: bool, text: String, fix: impl Into<Fix>) -> Option<Self> {
        Some(Self { suspect, text, fix: Some(fix.into()) })
    }
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
    let obstacle = misplaced(node, guest, world).or_else(|| match (ownership, config) {
        (Ownership::HalfMade { task_running: true, .. }, _) => None,
        (Ownership::HalfMade { .. }, _) => {
            let (text, fix) = guest.died_half_way();
            let text = format!("{text}; the rest of the cluster goes on without it.");
            Obstacle::new(false, text, fix)
        }
        (Ownership::Ours { .. }, _) if guest.template => {
            let text = format!("{} was turned into a template. It is not touched.", full_name(guest));
            Some(Obstacle { suspect: true, text, fix: None })
        }
        (Ownership::Ours { .. }, Some(config)) => answered(cluster, node, guest, config, view, world),
        _ => None,
    });
    let obstacle = match (obstacle, ownership, config) {
        (None, Ownership::HalfMade { upid, .. }, _) => return State::Creating { guest, upid },
        (None, Ownership::Ours { digest, .. }, Some(config)) => {
            return State::Present(Present { guest, config, digest });
        }
        (None, ..) => Obstacle {
            suspect: true,
            text: format!("The config of {} could not be read. It is not touched.", full_name(guest)),
            fix: None,
        },
        (Some(obstacle), ..) => obstacle,
    };
    let Obstacle { suspect, text, fix } = obstacle;
    notes.problem(node.name.clone(), text, fix);
    State::Blocked { suspect, keep_media: suspect, host: Some(&guest.host) }
}

/// What is wrong with where the VM is.
pub(crate) fn misplaced(node: &Node, guest: &GuestView, world: &World) -> Option<Obstacle> {
    if guest.vmid != node.vmid {
        let who = full_name(guest);
        let text =
            format!("{who} is this node, but the inventory gives it VMID {}. It is not touched.", node.vmid);
        let fix = format!("set `vmid: {}` for {} in the inventory", guest.vmid, node.name);
        return Obstacle::new(true, text, fix);
    }
    if world.hosts.get(&guest.host).is_some_and(|host| !host.online) {
        let text = format!("Its VM {} is on {}, which is offline.", guest.vmid, guest.host);
        return Obstacle::new(true, text, format!("bring {} back and run again", guest.host));
    }
    None
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
    let (who, vmid) = (full_name(guest), guest.vmid);
    let maintenance = matches!(view.talos, TalosView::Maintenance);
    if config.disk == 0 {
        let text = format!("{who} has no system disk. It is not touched.");
        let fix = format!("on {}: {}, then apply again", guest.host, destroying(vmid));
        return Obstacle::new(false, text, fix);
    }
    if matches!(view.talos, TalosView::OtherCluster) {
        let text = format!(
            "What answers on {} belongs to another cluster: another machine has the address, or the stored secrets are \
             not the ones {who} was made with. Nothing is sent there, and the VM is not touched.",
            at(node, world)
        );
        return Obstacle::new(true, text, strangers_address(&node.name));
    }
    if let Some(address) = view.elsewhere.as_ref().filter(|_| moved(cluster, guest, config, view)) {
        let text = format!(
            "It is Ready at {address}, and the inventory says {}. The address of a node that runs is not changed, and \
             nothing answers where it should be.",
            at(node, world)
        );
        let fix = format!(
            "give {} its address back; for another one, remove the node and let apply re-create it",
            node.name
        );
        return Obstacle::new(true, text, fix);
    }
    if maintenance && matches!(view.etcd, EtcdView::Member | EtcdView::Learner) {
        return Obstacle::new(false, FORMER_MEMBER.to_owned(), former_member_fix(cluster, node, world));
    }
    if maintenance && cluster.boot.through_maintenance() && !config.waiting {
        let text = format!(
            "It had its config once, but what answers on {} waits for one and cannot prove who it is. The config holds \
             keys and is not sent there a second time.",
            at(node, world)
        );
        let fix = format!(
            "if its disk is really lost: on {}: qm stop {vmid} && {}, then apply again",
            guest.host,
            destroying(vmid)
        );
        return Obstacle::new(true, text, fix);
    }
    None
}

/// A control plane whose disk is empty while etcd still counts it.
const FORMER_MEMBER: &str = "It lost its disk's content and waits for a config, but the other control planes still list it \
                             as a member of etcd, and it could not join beside its former self. It is not touched.";

fn former_member_fix(cluster: &Cluster, node: &Node, world: &World) -> String {
    let asked = cluster.control_planes().find(|other| other.name != node.name && is_up(world, &other.name));
    let asked = asked.map_or("<a control plane>".to_owned(), |other| at(other, world));
    format!(
        "remove the stale etcd member first, then apply again: its id is in `talosctl -n {asked} etcd members`, and \
         `talosctl -n {asked} etcd remove-member ID` removes it"
    )
}

fn is_up(world: &World, node: &str) -> bool {
    world.nodes.get(node).is_some_and(|view| matches!(view.talos, TalosView::Configured { .. }))
}
