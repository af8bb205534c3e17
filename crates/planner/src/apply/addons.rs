//! Add-ons: one that brings the pod network as soon as the API server answers, all others once the nodes are Ready.

use std::collections::{BTreeMap, BTreeSet};

use daedal_addons::{ObjectId, Stage};
use daedal_inventory::{Addon, Cluster};

use super::Planner;
use crate::advice::Advice;
use crate::graph::Subject;
use crate::plan::{Action, Impact, ObjectChange, PlannedObject, StepId};
use crate::world::{AddonView, AddonsView, Aspect, ObjectState};

/// What is known of the cluster that add-ons are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ground {
    /// Its API server told what is there.
    Told,
    /// It begins with this plan: nothing is there.
    New,
    /// It exists, and will answer in this plan.
    Later,
    /// It exists, and nobody could ask it.
    Silent,
}

/// Steps of add-ons, as far as they are planned.
#[derive(Debug, Default)]
pub(super) struct AddonSteps {
    /// After which step each add-on is in the cluster, and ready where that is awaited.
    done: BTreeMap<String, Vec<StepId>>,
    /// Every step that applies objects.
    applied: Vec<StepId>,
}

impl<'w> Planner<'w> {
    /// Add-ons that bring the pod network. Gives the steps that nodes need to become Ready, and whether nodes will have a
    /// network by then.
    pub(super) fn network_addons(&mut self, ground: Ground, after: Option<StepId>) -> (Vec<StepId>, bool) {
        let early = early(self.cluster);
        let of_network = |addon: &&Addon| early.contains(addon.name.as_str());
        let mut brought = false;
        for addon in in_order(self.cluster.addons.iter().filter(of_network).collect()) {
            let blocked = self.addon(addon, ground, &[after]);
            brought |= addon.network && !blocked;
        }
        // Its pods run on nodes that become Ready meanwhile: that it is ready itself is not waited for.
        (self.addons.applied.clone(), brought)
    }

    /// All others, and what is left of those that are no longer declared.
    pub(super) fn other_addons(&mut self, ground: Ground, after: &[Option<StepId>]) {
        let cluster = self.cluster;
        let early = early(cluster);
        let late = cluster.addons.iter().filter(|addon| !early.contains(addon.name.as_str()));
        for addon in in_order(late.collect()) {
            self.addon(addon, ground, after);
        }
        self.former_addons();
        let charts = self.world.addons.iter().flat_map(|seen| seen.declared.values());
        if ground == Ground::New && charts.filter(|view| view.chart.is_some()).count() > 0 {
            let version = format!("v{}", cluster.kubernetes.version);
            self.notes.info(Advice::AddonsAssumed { version });
        }
        if matches!(ground, Ground::Silent | Ground::Later) && !cluster.addons.is_empty() {
            self.not_seen.push("add-ons".to_owned());
            if self.world.unobserved.iter().all(|one| one.what != Aspect::Addons) {
                let why = "no API server answers".to_owned();
                self.notes.warning(Advice::NotSeen { what: Aspect::Addons, why, fix: None });
            }
        }
    }

    fn view(&self, addon: &Addon) -> Option<&'w AddonView> {
        self.world.addons.as_ref()?.declared.get(&addon.name)
    }

    /// Plans one add-on, and tells whether something is in its way.
    fn addon(&mut self, addon: &'w Addon, ground: Ground, after: &[Option<StepId>]) -> bool {
        let name = || addon.name.clone();
        let network = early(self.cluster).contains(addon.name.as_str());
        let Some(view) = self.view(addon) else {
            self.not_seen.push(format!("add-on {}", addon.name));
            return true;
        };
        if let Some(why) = &view.unrendered {
            self.notes.problem(Advice::AddonNotRendered { addon: name(), why: why.clone() });
            return true;
        }
        if let Some((owner, object)) = &view.owner {
            let (owner, object) = (owner.clone(), object.to_string());
            self.notes.info(Advice::AddonOwned { addon: name(), owner, object });
            return false;
        }
        if ground == Ground::Silent {
            return true;
        }
        let blocked = self.obstacles(addon, view);
        let mut needs: Vec<Option<StepId>> = after.to_vec();
        for earlier in &addon.after {
            needs.extend(self.addons.done.get(earlier).into_iter().flatten().copied().map(Some));
        }
        let mut last: Vec<StepId> = Vec::new();
        for stage in [Stage::Definitions, Stage::Classes, Stage::Objects, Stage::Customs] {
            let objects = planned(addon, view, ground, stage);
            if objects.is_empty() {
                continue;
            }
            let reason = match (ground, view.recorded) {
                (Ground::Told, true) => "it is not as declared",
                (Ground::Told, false) => "it is not in the cluster yet",
                (Ground::New, _) => "the cluster is new",
                (Ground::Later | Ground::Silent, _) => "nobody could see what is there",
            };
            let action = Action::ApplyAddon { addon: name(), stage, objects, network, force: addon.force };
            let before = needs.iter().copied().chain(last.iter().copied().map(Some));
            let step = self.graph.add(Subject::default(), action, reason, before);
            self.addons.applied.push(step);
            last = vec![step];
        }
        if !last.is_empty() && !view.hooks.is_empty() {
            let hooks = view.hooks.iter().map(ToString::to_string).collect();
            self.notes.warning(Advice::AddonHooksNotRun { addon: name(), hooks });
        }
        let unready = !last.is_empty() || (ground == Ground::Told && view.unready().is_some());
        let mut done = last.clone();
        if addon.wait && unready && !blocked {
            let reason = match view.unready().filter(|_| last.is_empty()) {
                Some((object, why)) => format!("{object}: {why}"),
                None => "its objects must be ready".to_owned(),
            };
            let action = Action::AwaitAddon { addon: name(), network, timeout: addon.timeout };
            let before: Vec<_> = match last.is_empty() {
                true => needs.clone(),
                false => last.iter().copied().map(Some).collect(),
            };
            done = vec![self.graph.add(Subject::default(), action, reason, before)];
        }
        self.addons.done.insert(name(), done);
        self.prune(addon, view, &last, &needs);
        blocked
    }

    /// What stands in the way of objects of an add-on. They are left as they are.
    fn obstacles(&mut self, addon: &Addon, view: &AddonView) -> bool {
        let mut blocked = false;
        for object in &view.objects {
            let (name, id) = (addon.name.clone(), object.id.to_string());
            match &object.state {
                ObjectState::Differs { conflicts, .. } if !conflicts.is_empty() && !addon.force => {
                    let conflicts = conflicts.clone();
                    self.notes.problem(Advice::AddonConflict { addon: name, object: id, conflicts });
                }
                ObjectState::Refused { why, immutable } => {
                    let (why, immutable) = (why.clone(), *immutable);
                    self.notes.problem(Advice::AddonRefused { addon: name, object: id, why, immutable });
                }
                _ => continue,
            }
            blocked = true;
        }
        blocked
    }

    /// What an add-on no longer has goes after all that it has is there.
    fn prune(&mut self, addon: &Addon, view: &AddonView, last: &[StepId], needs: &[Option<StepId>]) {
        let (goes, stays) = self.apart(&view.extra);
        let network = early(self.cluster).contains(addon.name.as_str());
        self.kept(&addon.name, &stays);
        // What was applied records its set before: nothing is left to say unless something went.
        let recorded = view.recorded || !last.is_empty() || view.objects.is_empty();
        if goes.is_empty() && !view.surplus && recorded {
            return;
        }
        let (reason, impact) = match goes.is_empty() {
            true => ("the record of its objects is not exact", Impact::None),
            false => ("no longer part of it", Impact::Destroy),
        };
        let action = Action::PruneAddon { addon: addon.name.clone(), objects: goes, gone: false, network };
        let needs: Vec<_> = match last.is_empty() {
            true => needs.to_vec(),
            false => last.iter().copied().map(Some).collect(),
        };
        self.graph.add_with(Subject::default(), action, reason, needs, impact);
    }

    /// What is left of add-ons that are no longer declared goes once everything else is there: some of it may be another's now.
    fn former_addons(&mut self) {
        let Some(AddonsView { told: true, former, .. }) = &self.world.addons else { return };
        for (name, view) in former {
            let (objects, stays) = self.apart(&view.objects);
            self.kept(name, &stays);
            let needs: Vec<_> = self.addons.applied.iter().copied().map(Some).collect();
            let impact = if objects.is_empty() { Impact::None } else { Impact::Destroy };
            let action = Action::PruneAddon { addon: name.clone(), objects, gone: true, network: false };
            self.graph.add_with(Subject::default(), action, "it is no longer declared", needs, impact);
        }
    }

    /// Objects that may go, and those that stay although nothing asks for them: with them goes whatever is in them. What another
    /// add-on has by now is neither.
    fn apart(&self, objects: &[ObjectId]) -> (Vec<ObjectId>, Vec<ObjectId>) {
        let declared = self.world.addons.iter().flat_map(|addons| addons.declared.values());
        let has: BTreeSet<(&str, &str, Option<&str>, &str)> =
            declared.flat_map(|view| &view.objects).map(|object| key(&object.id)).collect();
        objects.iter().filter(|id| !has.contains(&key(id))).cloned().partition(|id| !stays(id))
    }

    fn kept(&mut self, addon: &str, stays: &[ObjectId]) {
        if !stays.is_empty() {
            let objects = stays.iter().map(ToString::to_string).collect();
            self.notes.info(Advice::AddonObjectsStay { addon: addon.to_owned(), objects });
        }
    }
}

/// In declared order, but each after those that it names; those that wait for each other are as they are.
fn in_order(mut left: Vec<&Addon>) -> Vec<&Addon> {
    let mut ordered = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let waits = |addon: &Addon| left.iter().any(|other| addon.after.contains(&other.name));
        let at = left.iter().position(|addon| !waits(addon)).unwrap_or(0);
        ordered.push(left.remove(at));
    }
    ordered
}

/// The add-ons without which no node becomes Ready: those that bring the pod network, and those that these wait for.
pub(crate) fn early(cluster: &Cluster) -> BTreeSet<&str> {
    let mut early: BTreeSet<&str> = BTreeSet::new();
    let mut next: Vec<&Addon> = cluster.addons.iter().filter(|addon| addon.network).collect();
    while let Some(addon) = next.pop() {
        if early.insert(&addon.name) {
            next.extend(cluster.addons.iter().filter(|other| addon.after.contains(&other.name)));
        }
    }
    early
}

fn key(id: &ObjectId) -> (&str, &str, Option<&str>, &str) {
    (id.group(), &id.kind, id.namespace.as_deref(), &id.name)
}

/// Whether an object is never pruned: whatever lives in it would go with it.
fn stays(id: &ObjectId) -> bool {
    matches!(
        (id.group(), id.kind.as_str()),
        ("", "Namespace") | ("apiextensions.k8s.io", "CustomResourceDefinition")
    )
}

/// What is to be done about the objects of a stage.
fn planned(addon: &Addon, view: &AddonView, ground: Ground, stage: Stage) -> Vec<PlannedObject> {
    let of_stage = view.objects.iter().filter(|object| object.stage == stage);
    let planned = of_stage.filter_map(|object| {
        let change = match (&object.state, ground) {
            (_, Ground::Silent) | (ObjectState::AsDeclared | ObjectState::Refused { .. }, Ground::Told) => {
                return None;
            }
            (_, Ground::New) => ObjectChange::Create,
            (_, Ground::Later) | (ObjectState::NotSeen, Ground::Told) => ObjectChange::Ensure,
            (ObjectState::Absent, Ground::Told) => ObjectChange::Create,
            (ObjectState::Differs { conflicts, .. }, Ground::Told)
                if !conflicts.is_empty() && !addon.force =>
            {
                return None;
            }
            (ObjectState::Differs { changes, conflicts }, Ground::Told) => {
                ObjectChange::Change { fields: changes.clone(), taken: conflicts.clone() }
            }
        };
        Some(PlannedObject { id: object.id.clone(), digest: object.digest.clone(), change })
    });
    planned.collect()
}
