//! `plan_prune_templates` and `plan_prune_volumes`: what no node uses any more is destroyed.

use daedal_inventory::Cluster;

use crate::advice::{Advice, UnlistedRisk};
use crate::error::PlanError;
use crate::graph::{Graph, Subject};
use crate::names::Images;
use crate::plan::{Action, Impact, Plan, Purpose};
use crate::storages::{leftovers, unlisted_disks};
use crate::survey::{Notes, full_name};
use crate::templates::{TemplateRow, templates};
use crate::world::{GuestView, Unobserved, World};

/// What is pruned, and what somebody agreed to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruning {
    /// Also templates that are current.
    pub all: bool,
    /// Also in a cluster that says `protect: true`.
    pub protected: bool,
    /// Also those of which no secrets prove that they are this store's.
    pub without_secrets: bool,
}

/// Plans the end of templates that are incomplete, or made of something else than is declared now. One that disks are linked to
/// stays, and a note names it.
pub fn plan_prune_templates(
    cluster: &Cluster,
    images: &Images,
    world: &World,
    pruning: Pruning,
) -> Result<Plan, PlanError> {
    let rows = templates(cluster, images, world).into_iter().filter(|row| pruning.all || !row.current);
    let (going, linked): (Vec<TemplateRow>, Vec<TemplateRow>) = rows.partition(|row| row.linked.is_empty());
    let any = !going.is_empty() || !linked.is_empty();
    allowed(cluster, any, pruning.protected)?;
    if any && !world.secrets_stored && !pruning.without_secrets {
        let guests = going.iter().chain(&linked).filter_map(|row| world.guests.get(&row.vmid));
        let vms = guests.map(full_name).collect();
        return Err(PlanError::Unproven { cluster: cluster.name.clone(), vms });
    }
    let (mut graph, mut notes) = (Graph::default(), Notes::default());
    for row in &linked {
        let (host, linked) = (row.host.clone(), row.linked.clone());
        notes.info(Advice::TemplateLinked { vmid: row.vmid, host, linked });
    }
    unlisted(world, UnlistedRisk::Templates, &mut notes);
    let hidden = world.unobserved.iter().filter(|one| one.what.hides_guests()).cloned().collect();
    let not_seen = not_seen(hidden, &mut notes);
    for row in going {
        let guest = world.guests.get(&row.vmid);
        if let Some(died) = guest.filter(|guest| guest.is_dead_template()).map(GuestView::died) {
            notes.problem(Advice::TemplateDied { died, cloning: false });
            continue;
        }
        if let Some(lock) = guest.and_then(|guest| guest.lock.clone()) {
            notes.problem(Advice::TemplateLocked { vmid: row.vmid, host: row.host, lock });
            continue;
        }
        let reason = match (row.current, row.complete, row.running) {
            (true, ..) => "it is current; the next apply that needs it re-creates it",
            (_, true, _) => "it is made of something else than is declared now",
            (_, false, true) => "it is incomplete, and runs: it is stopped first",
            (_, false, false) => "it is incomplete",
        };
        let subject = Subject { node: None, host: Some(&row.host) };
        let action = Action::DropTemplate { vmid: row.vmid, digest: row.digest };
        graph.add_with(subject, action, reason, [], Impact::Destroy);
    }
    let plan = Plan::empty(Purpose::PruneTemplates, cluster, world);
    Ok(Plan {
        steps: graph.steps,
        notes: notes.sorted(),
        unseen: !not_seen.is_empty(),
        not_seen,
        without_secrets: pruning.without_secrets,
        despite_protection: pruning.protected,
        ..plan
    })
}

/// Plans the end of volumes that have a number of this cluster, and that no VM uses. Where a VM has the number the volume stays,
/// and a note names it.
pub fn plan_prune_volumes(cluster: &Cluster, world: &World, pruning: Pruning) -> Result<Plan, PlanError> {
    let (staying, going): (Vec<_>, Vec<_>) =
        leftovers(cluster, world).into_iter().partition(|volume| volume.beside_vm);
    allowed(cluster, !going.is_empty(), pruning.protected)?;
    // A volume carries no mark: that its VMID is this store's is proven by the secrets alone.
    if !going.is_empty() && !world.secrets_stored && !pruning.without_secrets {
        let volumes = going.iter().map(|volume| format!("{} on {}", volume.volid, volume.host)).collect();
        return Err(PlanError::UnprovenVolumes { cluster: cluster.name.clone(), volumes });
    }
    let (mut graph, mut notes) = (Graph::default(), Notes::default());
    unlisted(world, UnlistedRisk::Volumes, &mut notes);
    let not_seen = not_seen(unlisted_disks(cluster, world), &mut notes);
    for volume in &staying {
        let (host, volid) = (volume.host.clone(), volume.volid.clone());
        notes.info(Advice::VolumeBesideVm { host, volid, vmid: volume.vmid });
    }
    for volume in going {
        let subject = Subject { node: None, host: Some(&volume.host) };
        let reason = format!("{}; no VM has the number {}", crate::size::show(volume.size), volume.vmid);
        let action = Action::DeleteVolume { volid: volume.volid, vmid: volume.vmid };
        graph.add_with(subject, action, reason, [], Impact::Destroy);
    }
    let plan = Plan::empty(Purpose::PruneVolumes, cluster, world);
    let (steps, notes, unseen) = (graph.steps, notes.sorted(), !not_seen.is_empty());
    let Pruning { protected: despite_protection, without_secrets, .. } = pruning;
    Ok(Plan { steps, notes, unseen, not_seen, despite_protection, without_secrets, ..plan })
}

/// Warns of what could not be seen, and gives its names.
fn not_seen(all: Vec<Unobserved>, notes: &mut Notes) -> Vec<String> {
    let told = |one: Unobserved| {
        notes.unobserved(&one);
        one.what.to_string()
    };
    all.into_iter().map(told).collect()
}

/// Names the hosts whose guests could not be listed, and what follows.
fn unlisted(world: &World, risk: UnlistedRisk, notes: &mut Notes) {
    for host in world.unlisted_hosts.iter().cloned() {
        notes.problem(Advice::HostUnlisted { host, risk });
    }
}

/// A protected cluster loses nothing, unless somebody says so.
fn allowed(cluster: &Cluster, any: bool, protected: bool) -> Result<(), PlanError> {
    match any && cluster.protect && !protected {
        true => Err(PlanError::Protected { cluster: cluster.name.clone() }),
        false => Ok(()),
    }
}
