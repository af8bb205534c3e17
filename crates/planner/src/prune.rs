//! `plan_prune_templates` and `plan_prune_volumes`: what no node uses any more is destroyed.

use daedal_inventory::Cluster;

use crate::error::PlanError;
use crate::graph::{Graph, Subject};
use crate::names::Images;
use crate::plan::{Action, Impact, Level, Plan, Purpose};
use crate::storages::{leftovers, unlisted_disks};
use crate::survey::{Notes, full_name};
use crate::templates::{TemplateRow, templates};
use crate::world::{Unobserved, World};

/// Which templates go, and what somebody agreed to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruning {
    /// Also those that are current.
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
        let text = format!("It stays: the disks of {} are linked to it.", row.linked.join(", "));
        notes.info(format!("template {} on {}", row.vmid, row.host), text);
    }
    unlisted(world, "templates of this cluster may be there", &mut notes);
    let hidden = world.unobserved.iter().filter(|one| one.what.hides_guests()).cloned().collect();
    let not_seen = not_seen(hidden, &mut notes);
    for row in going {
        if let Some(problem) = row.problem {
            let about = format!("template {} on {}", row.vmid, row.host);
            notes.problem(about, format!("{problem}."), row.fix.map(Into::into));
            continue;
        }
        if let Some(lock) = world.guests.get(&row.vmid).and_then(|guest| guest.lock.as_ref()) {
            let text = format!("It is locked ({lock}) and cannot be destroyed now.");
            let fix = Some("run again when the lock is gone".into());
            notes.problem(format!("template {} on {}", row.vmid, row.host), text, fix);
            continue;
        }
        let reason = match (row.current, row.complete, row.running) {
            (true, ..) => "it is current; the next apply that needs it makes it again",
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
pub fn plan_prune_volumes(cluster: &Cluster, world: &World, protected: bool) -> Result<Plan, PlanError> {
    let (staying, going): (Vec<_>, Vec<_>) =
        leftovers(cluster, world).into_iter().partition(|volume| volume.beside_vm);
    allowed(cluster, !going.is_empty(), protected)?;
    let (mut graph, mut notes) = (Graph::default(), Notes::default());
    unlisted(world, "a VM there may use a volume, so that none is deleted", &mut notes);
    let not_seen = not_seen(unlisted_disks(cluster, world), &mut notes);
    for volume in &staying {
        let text = format!(
            "It stays: VM {} has its number, and Proxmox deletes it only once that VM is gone.",
            volume.vmid
        );
        notes.info(format!("{} on {}", volume.volid, volume.host), text);
    }
    for volume in going {
        let subject = Subject { node: None, host: Some(&volume.host) };
        let reason = format!("{}; no VM has the number {}", crate::size::show(volume.size), volume.vmid);
        let action = Action::DeleteVolume { volid: volume.volid, vmid: volume.vmid };
        graph.add_with(subject, action, reason, [], Impact::Destroy);
    }
    let plan = Plan::empty(Purpose::PruneVolumes, cluster, world);
    let (steps, notes, unseen) = (graph.steps, notes.sorted(), !not_seen.is_empty());
    Ok(Plan { steps, notes, unseen, not_seen, despite_protection: protected, ..plan })
}

/// Warns of what could not be seen, and gives its names.
fn not_seen(all: Vec<Unobserved>, notes: &mut Notes) -> Vec<String> {
    let told = |one: Unobserved| {
        let what = one.what.to_string();
        notes.add(Level::Warning, what.clone(), format!("Could not be seen: {}", one.why), one.fix);
        what
    };
    all.into_iter().map(told).collect()
}

/// Names the hosts whose guests could not be listed, and what follows.
fn unlisted(world: &World, so: &str, notes: &mut Notes) {
    for host in &world.unlisted_hosts {
        let text = format!("Its guests could not be listed: {so}.");
        notes.problem(format!("host {host}"), text, Some("run again when it can be seen".into()));
    }
}

/// A protected cluster loses nothing, unless somebody says so.
fn allowed(cluster: &Cluster, any: bool, protected: bool) -> Result<(), PlanError> {
    match any && cluster.protect && !protected {
        true => Err(PlanError::Protected { cluster: cluster.name.clone() }),
        false => Ok(()),
    }
}
