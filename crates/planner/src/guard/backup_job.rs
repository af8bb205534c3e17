//! `plan_backup_job`: a job that backs up the cluster's VMs, or its end.

use daedal_inventory::Cluster;

use super::{Guarded, Objecting, Wanted, named, options, some};
use crate::advice::Advice;
use crate::error::PlanError;
use crate::guards;
use crate::plan::{Plan, Purpose};
use crate::survey::Notes;
use crate::world::{BackupView, ObjectKind, World};

/// A backup job as it is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupWish {
    /// Where the backups go: a Proxmox Backup Server, or any storage for backups.
    pub storage: String,
    /// When, as Proxmox writes calendar events (`02:30`, `sun 01:00`).
    pub schedule: String,
    /// How many of the last backups are kept.
    pub keep: u32,
}

/// Plans a job that backs up every VM of the cluster that is proven ours; without a wish, its removal.
pub fn plan_backup_job(
    cluster: &Cluster,
    world: &World,
    wish: Option<&BackupWish>,
) -> Result<Plan, PlanError> {
    let view = world.backups.as_ref().ok_or(PlanError::NotLooked { what: "the list of backup jobs" })?;
    let mut notes = Notes::default();
    let id = guards::backup_job(cluster);
    let Some(wish) = wish else {
        // The job is one, whatever became of the VMs; whose they are is proven all the same.
        Guarded::of(cluster, world, std::iter::empty(), &mut notes)?;
        let mut job = Objecting::new(cluster, world, guards::backup_comment(cluster), notes);
        job.remove(&view.jobs, (ObjectKind::BackupJob, &id), (None, None), []);
        return Ok(job.plan(Purpose::BackupJob));
    };
    takes_backups(view, &wish.storage)?;
    let guarded = Guarded::of(cluster, world, cluster.nodes.iter(), &mut notes)?;
    guarded.tell_absent(cluster, &mut notes);
    let mut job = Objecting::new(cluster, world, guards::backup_comment(cluster), notes);
    let vms: Vec<u32> = guarded.proven.iter().map(|(node, _)| node.vmid).collect();
    // A VM whose mark is lost is not taken out of the job that backs it up.
    let backed_up = view.jobs.get(&id).map(named).unwrap_or_default();
    let lost: Vec<String> = guarded
        .unproven
        .iter()
        .filter(|node| backed_up.contains(&node.vmid))
        .map(|n| n.name.clone())
        .collect();
    if !lost.is_empty() {
        job.notes.problem(Advice::ObjectKept { kind: ObjectKind::BackupJob, id, nodes: lost });
    } else if !vms.is_empty() {
        let BackupWish { storage, schedule, keep } = wish;
        let reason = format!("{} to {storage} at {schedule}, keeps the last {keep}", some(vms.len(), "VM"));
        let list: Vec<String> = vms.iter().map(ToString::to_string).collect();
        let options = options([
            ("vmid", list.join(",")),
            ("storage", storage.clone()),
            ("schedule", schedule.clone()),
            ("prune-backups", format!("keep-last={keep}")),
            ("mode", "snapshot".to_owned()),
            ("enabled", "1".to_owned()),
            ("comment", guards::backup_comment(cluster)),
        ]);
        let wanted = Wanted { kind: ObjectKind::BackupJob, id, vms, options, node: None, reason };
        job.put(&view.jobs, wanted, []);
    }
    Ok(job.plan(Purpose::BackupJob))
}

/// Proxmox keeps a job for any storage, and fails every night on one that is not there or takes no backups.
fn takes_backups(view: &BackupView, storage: &str) -> Result<(), PlanError> {
    let refused = |why: String, fix: String| PlanError::NoBackups { storage: storage.to_owned(), why, fix };
    let Some(seen) = view.storages.get(storage) else {
        let takers = view.storages.iter().filter(|(_, seen)| seen.content.contains("backup"));
        let takers: Vec<&str> = takers.map(|(name, _)| name.as_str()).collect();
        let known = match takers.is_empty() {
            true => String::new(),
            false => format!("; storages for backups: {}", takers.join(", ")),
        };
        let fix = format!(
            "name a storage that exists, or give the token Datastore.Audit on /storage/{storage}{known}"
        );
        return Err(refused("it does not exist, or the token may not see it".to_owned(), fix));
    };
    if seen.content.contains("backup") {
        return Ok(());
    }
    let content = seen.content.iter().map(String::as_str).collect::<Vec<_>>().join(",");
    let fix = format!("on {}: pvesm set {storage} --content {content},backup", seen.host);
    Err(refused(format!("its content types are {content}"), fix))
}
