//! `plan_mark`: the mark of a node's VM, which somebody removed or damaged, is written again, once VMID, SMBIOS uuid and MAC
//! prove together that the VM is the node's.

use daedal_inventory::{Cluster, Node};

use crate::error::{NotMarked, PlanError};
use crate::graph::{Graph, Subject};
use crate::mark::{FoundMark, Mark, SecretsId, Stamp, remark};
use crate::plan::{Action, Fate, Plan, PlannedNode, Purpose};
use crate::survey::{claims, full_name};
use crate::world::{GuestView, Likeness, LostMarkView, Ownership, TalosView, World};

/// What a mark says where nobody knows what its VM was made from: the next apply finds out and writes it.
const UNKNOWN: &str = "unknown";

/// The mark that is written again.
pub(crate) fn restored(cluster: &Cluster, node: &Node, secrets: &SecretsId) -> Mark {
    let stamp = Stamp { secrets: Some(secrets.clone()), generation: None };
    Mark { digest: UNKNOWN.to_owned(), ..Mark::of(cluster, node, &stamp) }
}

/// Plans that a node's VM gets its lost mark back; nothing if it has it. Whatever does not prove that the VM is the node's is an
/// error.
pub fn plan_mark(cluster: &Cluster, world: &World, node: &Node) -> Result<Plan, PlanError> {
    let refused = |why: NotMarked| PlanError::NoMark { node: node.name.clone(), why };
    let Some(secrets) = world.secrets_id.as_ref().filter(|_| world.secrets_stored) else {
        return Err(refused(NotMarked::NoSecrets { cluster: cluster.name.clone() }));
    };
    let guest = world.guests.get(&node.vmid);
    let guest = guest.ok_or_else(|| refused(NotMarked::Absent { vmid: node.vmid }))?;
    let mut graph = Graph::default();
    if !is_marked(guest, node) {
        lost(guest).map_err(refused)?;
        let view = world.lost_mark.as_ref().filter(|view| view.vmid == guest.vmid);
        let view = view.ok_or(PlanError::NotLooked { what: "the VM's config" })?;
        proven(node, guest, view, world).map_err(refused)?;
        let mark = restored(cluster, node, secrets);
        let action = Action::RestoreMark {
            vmid: node.vmid,
            uuid: node.uuid,
            mac: node.mac.clone(),
            notes: with_mark(&view.notes, &mark),
            mark: mark.line(),
            config: view.config.clone(),
        };
        let subject = Subject { node: Some(&node.name), host: Some(&guest.host) };
        graph.add(
            subject,
            action,
            format!("its VMID, SMBIOS uuid and MAC match; {}", told(node, view, world)),
            [],
        );
    }
    let fate = if graph.steps.is_empty() { Fate::Keep } else { Fate::Change };
    let planned = PlannedNode {
        name: node.name.clone(),
        role: Some(node.role),
        vmid: node.vmid,
        host: Some(guest.host.clone()),
        address: world.address(node).map(|address| address.to_string()).unwrap_or_default(),
        cores: guest.cores,
        memory: guest.memory,
        disk: guest.system_disk(),
        fate,
    };
    let plan = Plan::empty(Purpose::Mark, cluster, world);
    Ok(Plan { nodes: vec![planned], steps: graph.steps, ..plan })
}

fn is_marked(guest: &GuestView, node: &Node) -> bool {
    matches!(&guest.ownership, Ownership::Ours { node: name, .. } if *name == node.name)
}

/// Whether all that a guest lacks may be its mark.
fn lost(guest: &GuestView) -> Result<(), NotMarked> {
    let other = |why: &str, other_secrets| {
        Err(NotMarked::NotOurs { vm: full_name(guest), why: why.to_owned(), other_secrets })
    };
    match &guest.ownership {
        Ownership::LookAlike { likeness: Likeness::LostMark, .. } if guest.template => {
            other("it was turned into a template", false)
        }
        Ownership::LookAlike { likeness: Likeness::LostMark, .. } => Ok(()),
        Ownership::LookAlike { why, likeness } => other(why, *likeness == Likeness::OtherSecrets),
        Ownership::Unreadable { why } => other(&format!("its config could not be read: {why}"), false),
        Ownership::Foreign => other("nothing on it is of this cluster", false),
        Ownership::Ours { node, .. } => other(&format!("it is our node {node}"), false),
        Ownership::HalfMade { .. } => other("it is still being created", false),
        Ownership::Template { .. } => other("it is a template of this cluster", false),
    }
}

/// Whether VMID, SMBIOS uuid and MAC are all the node's, nothing else is the node, and nothing speaks against it.
fn proven(node: &Node, guest: &GuestView, view: &LostMarkView, world: &World) -> Result<(), NotMarked> {
    if let Some(other) = claims(world).get(node.name.as_str()).and_then(|claimants| claimants.first()) {
        return Err(NotMarked::Claimed { node: node.name.clone(), vm: full_name(other) });
    }
    if view.smbios != Some(node.uuid) {
        return Err(NotMarked::OtherUuid {
            vm: full_name(guest),
            has: view.smbios.map_or_else(|| "none".to_owned(), |uuid| uuid.to_string()),
            wanted: node.uuid.to_string(),
        });
    }
    let mac = view.mac.as_deref().unwrap_or("none");
    if !mac.eq_ignore_ascii_case(&node.mac) {
        let (vm, has, wanted) = (full_name(guest), mac.to_owned(), node.mac.clone());
        return Err(NotMarked::OtherMac { vm, has, wanted });
    }
    match view.talos {
        Some(TalosView::OtherCluster) => {
            let address = world.address(node).map_or_else(|| "its address".to_owned(), |ip| ip.to_string());
            Err(NotMarked::OtherCluster { node: node.name.clone(), address })
        }
        _ => Ok(()),
    }
}

/// What the VM's Talos says to it.
fn told(node: &Node, view: &LostMarkView, world: &World) -> String {
    match &view.talos {
        None => "Talos was not asked: the VM is stopped".to_owned(),
        Some(TalosView::Configured { .. }) => "Talos accepts the keys of this cluster".to_owned(),
        Some(TalosView::Maintenance) => "Talos waits for a config".to_owned(),
        Some(TalosView::Unreachable | TalosView::OtherCluster) => {
            let why = world.unreached.get(&node.name).map(|unreached| format!(": {}", unreached.why));
            format!("Talos does not answer{}", why.unwrap_or_default())
        }
    }
}

/// Notes with the mark in them. What people wrote stays; what is left of a mark goes.
fn with_mark(notes: &str, mark: &Mark) -> String {
    match Mark::find(notes) {
        FoundMark::None if notes.trim().is_empty() => mark.line(),
        FoundMark::None => format!("{}\n\n{}", notes.trim_end(), mark.line()),
        FoundMark::One(_) | FoundMark::Damaged => {
            let once = remark(notes, mark);
            let mut seen = false;
            let lines =
                once.lines().filter(|line| *line != mark.line() || !std::mem::replace(&mut seen, true));
            lines.collect::<Vec<_>>().join("\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_of_people_stay_and_there_is_one_mark() {
        let cluster = crate::fixture::home();
        let mark = restored(&cluster, &cluster.nodes[0], &SecretsId::derive(b"mine"));
        let line = mark.line();
        assert_eq!(with_mark("", &mark), line);
        assert_eq!(with_mark("my notes\n", &mark), format!("my notes\n\n{line}"));
        let doubled = format!("a\n{line}\nb\n  daedal-mark cluster=\n{line}");
        assert_eq!(with_mark(&doubled, &mark), format!("a\n{line}\nb"));
    }
}
