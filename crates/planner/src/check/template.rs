//! Steps about templates: ours only, of the right making, and never under a clone that needs them.

use daedal_inventory::Role;

use super::{Checker, Rule};
use crate::digest::template_digest;
use crate::names::{self, Content};
use crate::plan::{Action, CloneOf, Purpose, Step};
use crate::world::Ownership;

impl Checker<'_> {
    /// Whether a template can be cloned by this step: it is there and current, or made before.
    pub(super) fn template_ready_before(&self, step: &Step, role: Role, template: &CloneOf) -> bool {
        let declared = self.declared_template(template.vmid, role, &template.host);
        let full = self.cluster.boot.template.is_some_and(|templates| templates.full == template.full);
        let made = self.after(step, |s| {
            matches!(s.action, Action::MakeTemplate { vmid, role: of, .. } if vmid == template.vmid && of == role)
        });
        let there = self.world.guests.get(&template.vmid).is_some_and(|guest| {
            guest.template
                && guest.lock.is_none()
                && guest.host == template.host
                && matches!(&guest.ownership, Ownership::Template { role: of, .. } if *of == role)
        });
        declared && full && (made || there)
    }

    fn declared_template(&self, vmid: u32, role: Role, host: &str) -> bool {
        self.cluster.templates().any(|(id, of, at)| (id, of, at.name.as_str()) == (vmid, role, host))
    }

    pub(super) fn make_template(&mut self, step: &Step, vmid: u32, role: Role, image: &str, digest: &str) {
        let host = step.host.as_deref().unwrap_or_default();
        let declared = self.declared_template(vmid, role, host);
        self.demand(declared, Rule::Creation, step, "No such template is declared");
        self.secrets_before(step);
        let right = digest == template_digest(self.cluster, role, names::volid_file(image));
        self.demand(right, Rule::Creation, step, "The template's mark would not say what it is made of");
        let content = if self.cluster.boot.installs_templates() { Content::Iso } else { Content::Import };
        let ready = self.image_ready_before(step, host, content, image);
        self.demand(ready, Rule::Order, step, "The image is not there, or not the right one");
        let dropped = self.after(
            step,
            |s| matches!(s.action, Action::DropTemplate { vmid: dropped, .. } if dropped == vmid),
        );
        let free = match self.world.guests.get(&vmid) {
            None => self.world.unlisted_hosts.is_empty(),
            Some(guest) => {
                guest.host == host
                    && matches!(&guest.ownership, Ownership::Template { digest: made, .. }
                        if dropped || made == digest || guest.lock.as_deref() == Some("create"))
            }
        };
        self.demand(free, Rule::Ownership, step, "The VMID is taken, or may be");
        let made = |s: &&Step| matches!(s.action, Action::MakeTemplate { vmid: made, .. } if made == vmid);
        let once = self.plan.steps.iter().filter(made).count() == 1;
        self.demand(once, Rule::Creation, step, "The template is made twice");
    }

    /// While it is installed a template has the address of a node that is not there yet, and nobody else's.
    pub(super) fn template_through(&mut self, step: &Step, through: Option<&str>) {
        let said = through.is_some() == self.cluster.boot.installs_templates();
        self.demand(said, Rule::Creation, step, "The template is not made as its boot path says");
        let Some(through) = through else { return };
        let node = self.cluster.node(through);
        let absent = node.is_some_and(|node| !self.world.guests.contains_key(&node.vmid));
        self.demand(
            absent,
            Rule::Creation,
            step,
            "The template would take the address of a node that is there",
        );
        let taken = |s: &&Step| matches!(&s.action, Action::MakeTemplate { through: Some(other), .. } if other == through);
        let once = self.plan.steps.iter().filter(taken).count() == 1;
        self.demand(once, Rule::Creation, step, "Two templates would have the same address");
        let before = |s: &Step| matches!(&s.action, Action::CreateVm { vmid, .. } if node.is_some_and(|n| n.vmid == *vmid));
        let later =
            self.plan.steps.iter().filter(|s| before(s)).all(|s| self.after(s, |made| made.id == step.id));
        self.demand(later, Rule::Order, step, "The node may be there while the template has its address");
    }

    pub(super) fn drop_template(&mut self, step: &Step, vmid: u32, digest: &str) {
        let guest = self.world.guests.get(&vmid);
        let ours = guest.is_some_and(|guest| {
            Some(guest.host.as_str()) == step.host.as_deref()
                && guest.lock.is_none()
                && matches!(&guest.ownership, Ownership::Template { digest: made, .. } if made == digest)
        });
        self.demand(ours, Rule::Ownership, step, "The template is not ours, or not the one that was seen");
        let linked = self
            .world
            .guests
            .values()
            .any(|guest| guest.config.as_ref().is_some_and(|config| config.base == Some(vmid)));
        self.demand(!linked, Rule::Destruction, step, "A VM's disk is linked to the template");
        if self.plan.purpose == Purpose::PruneTemplates {
            return self.once(
                step,
                |action| matches!(action, Action::DropTemplate { vmid: dropped, .. } if *dropped == vmid),
            );
        }
        let protected = self.cluster.protect;
        self.demand(
            !protected,
            Rule::Destruction,
            step,
            "The cluster is protected, and so are its templates",
        );
        let again = self.plan.steps[step.id as usize + 1..].iter().any(|s| {
            matches!(s.action, Action::MakeTemplate { vmid: made, .. } if made == vmid)
                && s.needs.contains(&step.id)
        });
        self.demand(again, Rule::Destruction, step, "The template is destroyed and not re-created");
    }
}
