//! Marks that are written again: only on a VM that everything else proves to be the node's, and nothing else in its notes.

use super::{Checker, Rule};
use crate::mark::{FoundMark, Mark};
use crate::plan::{Action, Step};
use crate::restore_mark;
use crate::world::{Likeness, Ownership, TalosView};

impl Checker<'_> {
    pub(super) fn restore_mark(&mut self, step: &Step) {
        let Action::RestoreMark { vmid, uuid, mac, mark, notes, config } = &step.action else { return };
        let node = step.node.as_deref().and_then(|name| self.nodes.get(name)).copied();
        let Some(node) = node.filter(|node| node.vmid == *vmid) else {
            return self.find(Rule::Ownership, Some(step), "The VMID is not that of a declared node.");
        };
        let same = *uuid == node.uuid && *mac == node.mac;
        self.demand(same, Rule::Ownership, step, "The proof is not that of the node");
        let secrets = self.world.secrets_id.as_ref().filter(|_| self.world.secrets_stored);
        self.demand(secrets.is_some(), Rule::Secrets, step, "No secrets are stored that the mark could name");
        let wanted = secrets.map(|secrets| restore_mark::restored(self.cluster, node, secrets));
        let written = wanted
            .is_some_and(|wanted| *mark == wanted.line() && Mark::find(notes) == FoundMark::One(wanted));
        self.demand(written, Rule::Ownership, step, "The mark is not the node's, or not the only one");
        let claimed = self.claims.contains_key(node.name.as_str());
        self.demand(!claimed, Rule::Ownership, step, "Another VM is this node");
        let guest = self.world.guests.get(vmid);
        let lost = guest.is_some_and(|guest| {
            let lost = matches!(guest.ownership, Ownership::LookAlike { likeness: Likeness::LostMark, .. });
            lost && !guest.template && step.host.as_deref() == Some(&guest.host)
        });
        self.demand(lost, Rule::Ownership, step, "The VM is no VM of ours that lost its mark there");
        let view = self.world.lost_mark.as_ref().filter(|view| view.vmid == *vmid);
        let proven = view.is_some_and(|view| {
            view.smbios == Some(node.uuid)
                && view.mac.as_ref().is_some_and(|mac| mac.eq_ignore_ascii_case(&node.mac))
                && view.talos != Some(TalosView::OtherCluster)
        });
        self.demand(
            proven,
            Rule::Ownership,
            step,
            "SMBIOS uuid, MAC and Talos do not prove that the VM is the node's",
        );
        let guarded = view.is_some_and(|view| !config.is_empty() && *config == view.config);
        self.demand(guarded, Rule::Ownership, step, "The VM could change unnoticed before it is written to");
        let kept = view.is_some_and(|view| people_wrote(&view.notes).eq(people_wrote(notes)));
        self.demand(kept, Rule::Destruction, step, "What people wrote into the notes would not stay");
        self.once(step, |action| matches!(action, Action::RestoreMark { .. }));
    }
}

/// The lines of notes that are no mark, nor what is left of one.
fn people_wrote(notes: &str) -> impl Iterator<Item = &str> {
    let lines = notes.lines().map(str::trim_end).filter(|line| !line.is_empty());
    lines.filter(|line| Mark::find(line) == FoundMark::None)
}
