//! What guards a cluster's VMs on request: `plan_firewall`, `plan_ha` and `plan_backup_job`. Only VMs that are proven ours are guarded, and only
//! objects that carry this cluster's name and comment are changed or removed.

mod backup_job;
mod firewall;
mod ha;

use std::collections::BTreeSet;

use daedal_inventory::{Cluster, Node};

use crate::destroy;
use crate::error::{PlanError, some_of};
use crate::fix::{Command, Fix};
use crate::graph::{Graph, Subject};
use crate::plan::{Action, Impact, Level, Plan, Purpose, StepId};
use crate::survey::claimed::{Obstacle, misplaced};
use crate::survey::{Notes, State, claims, full_name, several_claim, unclaimed};
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
                    Some((text, fix)) => {
                        notes.problem(node.name.clone(), text, fix);
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
            let hosts: Vec<String> = world.unlisted_hosts.iter().cloned().collect();
            let text = format!(
                "Not seen: the guests on {} could not be listed, and a VM may be there.",
                some_of(&hosts)
            );
            let fix = "give the token VM.Audit, or bring the host back, and run again";
            notes.problem(some_of(&hidden), text, Some(fix.into()));
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
            let text = "None of its VMs exists.";
            let fix = Fix::from("create them and run this again: ").run(Command::Apply);
            return notes.problem(format!("cluster {}", cluster.name), text, Some(fix));
        }
        let text = "No VM exists for it yet, so there is nothing to guard.";
        let fix = Fix::from("create it and run this again: ").run(Command::Apply);
        notes.add(Level::Warning, some_of(&names), text, Some(fix));
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

/// Why a VM that claims to be a node is not proven to be it, and what helps.
fn doubt(node: &Node, guest: &GuestView, world: &World) -> Option<(String, Option<Fix>)> {
    let who = full_name(guest);
    if let Some(Obstacle { text, fix, .. }) = misplaced(node, guest, world) {
        return Some((text, fix));
    }
    match (&guest.ownership, &guest.config) {
        (Ownership::HalfMade { task_running: true, .. }, _) => {
            Some((format!("{who} is still being created."), Some("run this again when it is there".into())))
        }
        (Ownership::HalfMade { .. }, _) => {
            let (text, fix) = guest.died_half_way();
            Some((format!("{text}."), Some(fix.into())))
        }
        _ if guest.template => Some((format!("{who} was turned into a template. It is not touched."), None)),
        (_, None) => Some((format!("The config of {who} could not be read. It is not touched."), None)),
        (_, Some(config)) if config.unsigned => {
            let text = format!(
                "{who} has an old mark, which names no secrets: nothing proves that it is this store's. It is not touched."
            );
            let fix = Fix::from("sign its mark while its node answers, and run this again: ");
            Some((text, Some(fix.run(Command::Apply))))
        }
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
        object_has(there, "comment", &self.comment) && named(there).iter().all(|vmid| !self.is_theirs(*vmid))
    }

    /// Whether a guest is there that is neither ours nor on a VMID of ours.
    fn is_theirs(&self, vmid: u32) -> bool {
        let declared = self.cluster.nodes.iter().any(|node| node.vmid == vmid);
        let guest = self.world.guests.get(&vmid);
        !declared && guest.is_some_and(|guest| !matches!(guest.ownership, Ownership::Ours { .. }))
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
                let fix = "remove it in Proxmox, or rename it, and run this again";
                let text = "It exists and is not this cluster's. It is not changed.";
                self.notes.problem(format!("{} {id}", kind.noun()), text, Some(fix.into()));
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
            self.notes.info(format!("{} {id}", kind.noun()), "It stays: it is not this cluster's.");
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

/// The VMs that an object names.
fn named(there: &ObjectOptions) -> BTreeSet<u32> {
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
