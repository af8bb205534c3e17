//! Volumes that Proxmox left behind: only where no VM can be using them.

use super::{Checker, Rule};
use crate::plan::{Action, Step};

impl Checker<'_> {
    pub(super) fn delete_volume(&mut self, step: &Step, volid: &str, vmid: u32) {
        let templates = self.cluster.templates().map(|(vmid, ..)| vmid);
        let numbered =
            self.cluster.nodes.iter().map(|node| node.vmid).chain(templates).any(|own| own == vmid);
        self.demand(numbered, Rule::Ownership, step, "The volume has no number of this cluster");
        let named =
            volid.rsplit(['/', ':']).next().is_some_and(|name| name.starts_with(&format!("vm-{vmid}-")));
        self.demand(named, Rule::Ownership, step, "The volume's name has another number");
        let listed = self.world.disks.iter().any(|list| {
            Some(list.host.as_str()) == step.host.as_deref()
                && list.disks.iter().any(|disk| disk.volid == volid && disk.vmid == vmid)
        });
        self.demand(listed, Rule::Ownership, step, "The volume was not seen there");
        let unused = self.world.unlisted_hosts.is_empty() && !self.world.guests.contains_key(&vmid);
        self.demand(unused, Rule::Destruction, step, "A VM has the volume's number, or may have it");
        let proven = self.world.secrets_stored || self.plan.without_secrets;
        self.demand(proven, Rule::Secrets, step, "No secrets prove that the VMID is this cluster's");
        self.once(
            step,
            |action| matches!(action, Action::DeleteVolume { volid: other, .. } if other == volid),
        );
    }

    /// Whether no other step does the same.
    pub(super) fn once(&mut self, step: &Step, same: impl Fn(&Action) -> bool) {
        let other = self.plan.steps.iter().any(|s| s.id != step.id && s.host == step.host && same(&s.action));
        self.demand(!other, Rule::Destruction, step, "The same is done twice");
    }
}
