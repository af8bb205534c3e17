//! What guards a cluster's VMs on request: `plan_firewall`, `plan_ha` and `plan_backup_job`. Only VMs that are proven ours are guarded, and only
//! objects that carry this cluster's name and comment are changed or removed.

mod backup_job;
mod firewall;
mod ha;

use std::collections::BTreeSet;

use daedal_inventory::{Cluster, Node};

use crate::advice::Advice;
use crate::destroy;
use crate::error::PlanError;
use crate::graph::{Graph, Subject};
use crate::plan::{Action, Impact, Plan, Purpose, StepId};
use crate::survey::claimed::{Obstacle, misplaced};
use crate::survey::{Notes, State, claims, several_claim, unclaimed};
use crate::world::{
    GuestView, ObjectKind, ObjectOptions, Objects, Ownership, World, object_differs, object_has,
};

pub use backup_job::{BackupWish, plan_backup_job};
pub use firewall::{FirewallWish, plan_firewall};
pub use ha::plan_ha;

/// The declared nodes by what is known of their VMs.
struct Guarded<'w> {
    /// Their VMs are proven ours.
    proven: Vec<(&'w Node, &'w GuestView)>,
    /// Their VMs may exist and are not proven ours; each is told as a problem.
    unproven: Vec<&'w Node>,
    /// They have no VM.
    absent: Vec<&'w Node>,
}

impl<'w> Guarded<'w> {
    /// Sorts these nodes. Nothing is planned where VMs have this cluster's mark and no secrets prove them to be this store's.
    fn of(
        cluster: &'w Cluster,
        world: &'w World,
        nodes: impl Iterator<Item = &'w Node>,
        notes: &mut Notes,
    ) -> Result<Self, PlanError> {
        destroy::proven(cluster, world)?;
        let claims = claims(world);
        let mut sorted = Self { proven: Vec::new(), unproven: Vec::new(), absent: Vec::new() };
        let mut hidden = Vec::new();
        for node in nodes {
            let claimants = claims.get(node.name.as_str()).map_or(&[][..], Vec::as_slice);
            let state = match claimants {
                [] => unclaimed(node, world, notes, &mut hidden),
                [guest] => match doubt(node, guest, world) {
                    None => {
                        sorted.proven.push((node, guest));
                        continue;
                    }
                    Some(advice) => {
                        notes.problem(advice);
                        sorted.unproven.push(node);
                        continue;
                    }
                },
                several => several_claim(node, several, notes),
            };
            match state {
                State::Absent => sorted.absent.push(node),
                _ => sorted.unproven.push(node),
            }
        }
        if !hidden.is_empty() {
            let hosts = world.unlisted_hosts.iter().cloned().collect();
            notes.problem(Advice::VmsUnclear { nodes: hidden, hosts });
        }
        Ok(sorted)
    }

    /// Says which nodes cannot be guarded because they have no VM yet.
    fn tell_absent(&self, cluster: &Cluster, notes: &mut Notes) {
        let names: Vec<String> = self.absent.iter().map(|node| node.name.clone()).collect();
        if names.is_empty() {
            return;
        }
        if self.proven.is_empty() && self.unproven.is_empty() {
            return notes.problem(Advice::NoVms { cluster: cluster.name.clone() });
        }
        notes.warning(Advice::NoVmYet { nodes: names });
    }
}

/// VMs of ours whose nodes are no longer declared: their marks prove them.
fn former<'w>(cluster: &'w Cluster, world: &'w World) -> impl Iterator<Item = (&'w str, &'w GuestView)> {
    let claims = claims(world);
    world.ours().filter(move |(node, guest)| {
        let sole = claims.get(node).is_some_and(|claimants| claimants.len() == 1);
        let signed = guest.config.as_ref().is_some_and(|config| !config.unsigned);
        cluster.node(node).is_none() && sole && signed && !guest.template
    })
}

/// Why a VM that claims to be a node is not proven to be it.
fn doubt(node: &Node, guest: &GuestView, world: &World) -> Option<Advice> {
    let (name, vm) = (node.name.clone(), guest.into());
    if let Some(Obstacle { advice, .. }) = misplaced(node, guest, world) {
        return Some(advice);
    }
    match (&guest.ownership, &guest.config) {
        (Ownership::HalfMade { task_running: true, .. }, _) => {
            Some(Advice::StillCreated { node: name, guest: vm })
        }
        (Ownership::HalfMade { .. }, _) => {
            Some(Advice::DiedHalfWay { node: name, died: guest.died(), goes_on: false })
        }
        _ if guest.template => Some(Advice::TurnedIntoTemplate { node: name, guest: vm }),
        (_, None) => Some(Advice::VmUnreadable { node: name, guest: vm }),
        (_, Some(config)) if config.unsigned => Some(Advice::MarkUnsigned { node: name, guest: vm }),
        _ => None,
    }
}

/// What became of an object that is wanted.
enum Put {
    /// It is as wanted already.
    Right,
    /// This step makes it so.
    Step(StepId),
    /// It cannot be; a note says why.
    Never,
}

impl Put {
    /// The step that it takes, if any.
    fn step(&self) -> Option<StepId> {
        match self {
            Self::Step(id) => Some(*id),
            Self::Right | Self::Never => None,
        }
    }
}

/// An object as it is wanted.
struct Wanted<'a> {
    kind: ObjectKind,
    id: String,
    vms: Vec<u32>,
    options: ObjectOptions,
    node: Option<&'a str>,
    reason: String,
}

/// Objects in the making.
struct Objecting<'a> {
    cluster: &'a Cluster,
    world: &'a World,
    /// The comment that makes an object this cluster's.
    comment: String,
    graph: Graph,
    notes: Notes,
}

impl<'a> Objecting<'a> {
    fn new(cluster: &'a Cluster, world: &'a World, comment: String, notes: Notes) -> Self {
        Self { cluster, world, comment, graph: Graph::default(), notes }
    }

    /// Whether an object has our comment and names no VM of anybody else.
    fn is_ours(&self, there: &ObjectOptions) -> bool {
        let theirs = |vmid: &u32| is_theirs(self.cluster, self.world, *vmid);
        object_has(there, "comment", &self.comment) && !named(there).iter().any(theirs)
    }

    /// Plans that an object becomes as wanted.
    fn put(
        &mut self,
        known: &Objects,
        wanted: Wanted<'_>,
        needs: impl IntoIterator<Item = Option<StepId>>,
    ) -> Put {
        let Wanted { kind, id, vms, options, node, reason } = wanted;
        let before = match known.get(&id) {
            None => None,
            Some(there) if !self.is_ours(there) => {
                self.notes.problem(Advice::ObjectTaken { kind, id });
                return Put::Never;
            }
            Some(there) if !object_differs(there, &options) => return Put::Right,
            Some(there) => {
                let had = there.iter().filter(|(option, _)| options.contains_key(*option));
                Some(had.map(|(option, value)| (option.clone(), value.clone())).collect())
            }
        };
        let subject = Subject { node, host: None };
        let action = Action::PutClusterObject { kind, id, vms, options, before };
        Put::Step(self.graph.add(subject, action, reason, needs))
    }

    /// Plans that an object goes. One that is somebody else's stays, and a note names it.
    fn remove(
        &mut self,
        known: &Objects,
        (kind, id): (ObjectKind, &str),
        (vm, node): (Option<u32>, Option<&str>),
        needs: impl IntoIterator<Item = Option<StepId>>,
    ) -> Option<StepId> {
        let there = known.get(id)?;
        if !self.is_ours(there) {
            self.notes.info(Advice::ObjectStays { kind, id: id.to_owned() });
            return None;
        }
        let subject = Subject { node, host: None };
        let action = Action::RemoveClusterObject { kind, id: id.to_owned(), vm };
        // A guard is no data: the same command without --off puts it back.
        Some(self.graph.add_with(subject, action, "turned off", needs, Impact::None))
    }

    fn plan(self, purpose: Purpose) -> Plan {
        let plan = Plan::empty(purpose, self.cluster, self.world);
        Plan { steps: self.graph.steps, notes: self.notes.sorted(), ..plan }
    }
}

/// Whether a guest is there that is neither ours nor on a VMID of ours.
pub(crate) fn is_theirs(cluster: &Cluster, world: &World, vmid: u32) -> bool {
    let declared = cluster.nodes.iter().any(|node| node.vmid == vmid);
    let guest = world.guests.get(&vmid);
    !declared && guest.is_some_and(|guest| !matches!(guest.ownership, Ownership::Ours { .. }))
}

/// The VMs that an object names.
pub(crate) fn named(there: &ObjectOptions) -> BTreeSet<u32> {
    let lists = ["resources", "vmid"].into_iter().filter_map(|option| there.get(option));
    let ids = lists.flat_map(|list| list.split(','));
    ids.filter_map(|id| id.trim().trim_start_matches("vm:").parse().ok()).collect()
}

/// Options from pairs.
fn options<const N: usize>(pairs: [(&str, String); N]) -> ObjectOptions {
    pairs.into_iter().map(|(option, value)| (option.to_owned(), value)).collect()
}

/// So many of a thing.
fn some(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
