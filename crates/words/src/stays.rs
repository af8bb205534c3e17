//! What outlives a cluster, in words.

use daedal_planner::{Command, Fix, ObjectKind, Staying, StayingGuard, some_of};

use crate::advice::some_templates;

/// One line for each kind of thing, with the command that removes it where there is one.
pub fn staying_lines(staying: &Staying) -> Vec<Fix> {
    let mut lines = Vec::new();
    if !staying.templates.is_empty() {
        let which = some_templates(&staying.templates);
        let prune = Command::TemplatesPrune { all: true, protected: false };
        lines.push(Fix::from(format!("{which}; to destroy: ")).run(prune));
    }
    for (volid, hosts) in &staying.images {
        let hosts: Vec<String> = hosts.iter().cloned().collect();
        lines.push(format!("image {volid} on {}", some_of(&hosts)).into());
    }
    for StayingGuard { kind, id, theirs } in &staying.guards {
        if *theirs {
            lines.push(format!("{} {id}, which names a VM of somebody else", kind.noun()).into());
            continue;
        }
        let off = match kind {
            ObjectKind::HaResource | ObjectKind::HaRule | ObjectKind::HaGroup => Command::ProxmoxHaOff,
            ObjectKind::BackupJob => Command::ProxmoxBackupJobOff,
        };
        lines.push(Fix::from(format!("{} {id}; to remove: ", kind.noun())).run(off));
    }
    if staying.secrets {
        lines.push("its secrets in the store".into());
    }
    if !staying.unseen.is_empty() {
        lines.push(format!("not seen: {}", staying.unseen.join(", ")).into());
    }
    lines
}
