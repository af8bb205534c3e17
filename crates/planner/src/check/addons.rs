//! Add-ons: only as they are rendered, after what they need, and nothing of anybody else's.

use std::collections::HashMap;

use daedal_addons::{ObjectId, Stage};
use daedal_inventory::Addon;

use super::{Checker, Rule};
use crate::apply::addons::early;
use crate::plan::{Action, Impact, ObjectChange, PlannedObject, Step};
use crate::world::{AddonView, ObjectState};

impl<'a> Checker<'a> {
    fn declared_addon(&mut self, step: &Step, name: &str) -> Option<(&'a Addon, &'a AddonView)> {
        let addon = self.cluster.addons.iter().find(|addon| addon.name == name);
        let view = self.world.addons.as_ref().and_then(|addons| addons.declared.get(name));
        let both = addon.zip(view);
        self.demand(both.is_some(), Rule::Addons, step, "The add-on is not declared, or was not looked at");
        both
    }

    pub(super) fn apply_addon(&mut self, step: &Step, name: &str, stage: Stage, objects: &[PlannedObject]) {
        let Some((addon, view)) = self.declared_addon(step, name) else { return };
        let marked = matches!(&step.action, Action::ApplyAddon { network, force, .. }
            if (*network, *force) == (early(self.cluster).contains(name), addon.force));
        self.demand(
            marked,
            Rule::Addons,
            step,
            "The step says other things of the add-on than the inventory",
        );
        self.demand(!objects.is_empty(), Rule::Addons, step, "Nothing is applied");
        self.demand(view.unrendered.is_none(), Rule::Addons, step, "The add-on could not be rendered");
        self.demand(view.owner.is_none(), Rule::Ownership, step, "The add-on is somebody else's");
        let told = self.world.addons.as_ref().is_some_and(|addons| addons.told);
        let rendered: HashMap<&ObjectId, _> = view.objects.iter().map(|one| (&one.id, one)).collect();
        for object in objects {
            let one =
                rendered.get(&object.id).filter(|one| one.digest == object.digest && one.stage == stage);
            let text = format!("{} is not what the add-on is rendered to", object.id);
            self.demand(one.is_some(), Rule::Addons, step, &text);
            let Some(one) = one.filter(|_| told) else { continue };
            let fits = match (&one.state, &object.change) {
                (ObjectState::Absent, ObjectChange::Create) => true,
                (ObjectState::Differs { conflicts, .. }, ObjectChange::Change { taken, .. }) => {
                    taken == conflicts && (conflicts.is_empty() || addon.force)
                }
                (ObjectState::NotSeen, ObjectChange::Ensure) => true,
                _ => false,
            };
            let text = format!("{} is in another state, or has fields of others", object.id);
            self.demand(fits, Rule::Ownership, step, &text);
        }
        self.addon_order(step, addon, stage);
        self.after_api_server(step, name);
    }

    /// After its own earlier stages, and after the add-ons that it names.
    fn addon_order(&mut self, step: &Step, addon: &Addon, stage: Stage) {
        let plan = self.plan;
        for other in &plan.steps {
            let Action::ApplyAddon { addon: name, stage: its, .. } = &other.action else { continue };
            let before = (*name == addon.name && *its < stage) || addon.after.contains(name);
            if before && other.id != step.id {
                let after = self.after_all(step, &[other.id]);
                self.demand(after, Rule::Order, step, &format!("It does not wait for step {}", other.id));
            }
        }
    }

    /// What speaks to Kubernetes waits for it; and what brings no network waits for the nodes.
    fn after_api_server(&mut self, step: &Step, name: &str) {
        let endpoint = self.endpoint.is_none_or(|id| self.after_all(step, &[id]));
        self.demand(endpoint, Rule::Order, step, "The add-on's turn comes before the API server answers");
        if early(self.cluster).contains(name) {
            return;
        }
        let plan = self.plan;
        let waits = plan.steps.iter().filter(|other| other.action == Action::AwaitReady);
        let waits: Vec<_> = waits.map(|other| other.id).collect();
        let ready = self.after_all(step, &waits);
        self.demand(ready, Rule::Order, step, "The add-on's turn comes before the nodes are Ready");
    }

    /// Whether a node is awaited before whatever brings its network.
    pub(super) fn network_before(&mut self, step: &Step) {
        let plan = self.plan;
        let network = plan
            .steps
            .iter()
            .filter(|other| matches!(other.action, Action::ApplyAddon { network: true, .. }));
        let network: Vec<_> = network.map(|other| other.id).collect();
        let after = self.after_all(step, &network);
        self.demand(after, Rule::Order, step, "Readiness is awaited before the pod network is applied");
    }

    pub(super) fn await_addon(&mut self, step: &Step, name: &str) {
        if self.declared_addon(step, name).is_none() {
            return;
        }
        self.after_its_objects(step, name);
        self.after_api_server(step, name);
    }

    fn after_its_objects(&mut self, step: &Step, name: &str) {
        let plan = self.plan;
        let of_it =
            |other: &&Step| matches!(&other.action, Action::ApplyAddon { addon, .. } if addon == name);
        let applied: Vec<_> = plan.steps.iter().filter(of_it).map(|other| other.id).collect();
        let after = self.after_all(step, &applied);
        self.demand(after, Rule::Order, step, "The step does not wait for the add-on's objects");
    }

    pub(super) fn prune_addon(&mut self, step: &Step, name: &str, objects: &[ObjectId], gone: bool) {
        let Some(view) = self.world.addons.as_ref().filter(|addons| addons.told) else {
            return self.demand(false, Rule::Addons, step, "Nobody saw what is in the add-on");
        };
        let members = match gone {
            true => view.former.get(name).map(|former| &former.objects),
            false => view.declared.get(name).filter(|one| one.owner.is_none()).map(|one| &one.extra),
        };
        let declared = self.cluster.addons.iter().any(|addon| addon.name == name);
        self.demand(
            members.is_some() && declared != gone,
            Rule::Addons,
            step,
            "No such add-on is to be pruned",
        );
        for id in objects {
            let is_its = members.is_some_and(|members| members.contains(id));
            self.demand(is_its, Rule::Ownership, step, &format!("{id} is not in the add-on's set"));
            let kept = matches!(id.kind.as_str(), "Namespace" | "CustomResourceDefinition");
            self.demand(!kept, Rule::Destruction, step, &format!("{id} would take everything in it along"));
            let mut rendered = view.declared.values().flat_map(|one| &one.objects);
            let wanted = rendered.any(|object| object.id.is(id));
            self.demand(!wanted, Rule::Destruction, step, &format!("{id} is declared"));
        }
        let said = objects.is_empty() || step.impact >= Impact::Destroy;
        self.demand(said, Rule::Destruction, step, "The step does more harm than it says");
        match gone {
            // Another add-on may take some of it over.
            true => {
                let plan = self.plan;
                let applied = plan.steps.iter().filter(|s| matches!(s.action, Action::ApplyAddon { .. }));
                let applied: Vec<_> = applied.map(|step| step.id).collect();
                let after = self.after_all(step, &applied);
                self.demand(after, Rule::Order, step, "Something is pruned before all else is applied");
            }
            false => self.after_its_objects(step, name),
        }
    }
}
