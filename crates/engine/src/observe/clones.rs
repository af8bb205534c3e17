//! Clones of this cluster's templates that our token began and that did not end well. A clone's task carries the number of its
//! template, not of the VM that it makes.

use std::collections::BTreeSet;

use daedal_inventory::{Cluster, Role};
use daedal_proxmox::{Client, Kind, TaskFilter, TaskOutcome, TaskRow, TaskState};

/// All clones that a host remembers.
pub(crate) async fn remembered(proxmox: &Client, host: &str) -> Result<Vec<TaskRow>, daedal_proxmox::Error> {
    let filter = TaskFilter { kind: Some("qmclone".to_owned()), limit: Some(500), ..TaskFilter::default() };
    proxmox.tasks(host, &filter).await
}

/// What may have made, or still makes, a half-made VM of this role: a clone that runs, else one whose worker died.
pub(crate) fn unfinished<'t>(
    proxmox: &Client,
    cluster: &Cluster,
    role: Role,
    tasks: &'t [TaskRow],
) -> Option<&'t TaskRow> {
    let templates: BTreeSet<u32> =
        cluster.templates().filter(|(_, of, _)| *of == role).map(|(vmid, ..)| vmid).collect();
    let ours = tasks.iter().filter(|task| {
        task.upid.kind() == "qmclone"
            && task.upid.user() == proxmox.token_id()
            && task.upid.vmid().is_some_and(|template| templates.contains(&template))
            && (task.running() || died(task))
    });
    ours.max_by_key(|task| task.running())
}

/// Whether the worker died: such a task took nothing away, and left a lock.
pub(crate) fn died(task: &TaskRow) -> bool {
    matches!(task.state(), TaskState::Ended(TaskOutcome::Failed(Kind::WorkerDied { .. })))
}
