//! What a plan comes to, in numbers: everything that it creates, changes, restarts or destroys.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::Serialize;

use crate::names;
use crate::plan::{Action, Fate, Impact, ObjectChange, Plan, Purpose, Step};
use crate::world::ObjectKind;

/// Everything that a plan does, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// VMs of nodes.
    pub vms: VmCounts,
    /// Templates.
    pub templates: TemplateCounts,
    /// Files on storages.
    pub files: FileCounts,
    /// Volumes without a VM that are deleted.
    pub volumes: usize,
    /// Marks of VMs that are restored.
    pub marks: usize,
    /// Firewalls of VMs.
    pub firewalls: FirewallCounts,
    /// Objects that Proxmox keeps for the datacenter.
    pub objects: ObjectCounts,
    /// Objects of add-ons in Kubernetes.
    pub addons: ObjectCounts,
    /// What is not as declared and stays so.
    pub differences: usize,
}

/// VMs of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VmCounts {
    /// Made.
    pub create: usize,
    /// Changed, or brought to life.
    pub change: usize,
    /// Destroyed.
    pub destroy: usize,
    /// Restarted; these are among the changed ones.
    pub restart: usize,
    /// Left out, because of a problem.
    pub blocked: usize,
}

/// Templates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateCounts {
    /// Made where none was.
    pub create: usize,
    /// Destroyed and made again.
    pub replace: usize,
    /// Destroyed for good.
    pub destroy: usize,
}

/// Files on storages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileCounts {
    /// Deleted, and not brought there by the same plan.
    pub delete: usize,
}

/// Firewalls of VMs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FirewallCounts {
    /// VMs whose network card is filtered from now on.
    pub turn_on: usize,
    /// VMs whose network card is filtered no more.
    pub turn_off: usize,
    /// VMs whose firewall is changed otherwise.
    pub change: usize,
    /// Our rules.
    pub rules: PartCounts,
    /// Our IP sets.
    pub sets: PartCounts,
}

/// Parts of a firewall.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PartCounts {
    /// Made.
    pub create: usize,
    /// There already, and changed.
    pub change: usize,
    /// Deleted.
    pub delete: usize,
}

/// Objects: those that Proxmox keeps for the datacenter (high availability, backup jobs), or those of add-ons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectCounts {
    /// Made.
    pub create: usize,
    /// There already, and changed.
    pub change: usize,
    /// Removed.
    pub remove: usize,
}

/// Counts what a plan does.
pub fn counts(plan: &Plan) -> Counts {
    let nodes = |fate: Fate| plan.nodes.iter().filter(|node| node.fate == fate).count();
    let templates = Templates::of(plan);
    Counts {
        vms: VmCounts {
            create: nodes(Fate::Create),
            change: nodes(Fate::Change),
            destroy: nodes(Fate::Destroy),
            restart: restarted(plan).len(),
            blocked: nodes(Fate::Blocked),
        },
        templates: TemplateCounts {
            create: templates.created.len(),
            replace: templates.replaced.len(),
            destroy: templates.destroyed.len(),
        },
        files: FileCounts { delete: deleted_files(plan).count() },
        volumes: deleted_volumes(plan).len(),
        marks: plan.steps.iter().filter(|step| matches!(step.action, Action::RestoreMark { .. })).count(),
        firewalls: firewalls(plan),
        objects: objects(plan, |_| true),
        addons: addon_objects(plan),
        differences: plan.differences.len(),
    }
}

fn addon_objects(plan: &Plan) -> ObjectCounts {
    let mut counts = ObjectCounts::default();
    for step in &plan.steps {
        match &step.action {
            Action::ApplyAddon { objects, .. } => {
                let made = objects.iter().filter(|object| object.change == ObjectChange::Create).count();
                counts.create += made;
                counts.change += objects.len() - made;
            }
            Action::PruneAddon { objects, .. } => counts.remove += objects.len(),
            _ => {}
        }
    }
    counts
}

fn firewalls(plan: &Plan) -> FirewallCounts {
    let mut counts = FirewallCounts::default();
    let (mut touched, mut turned) = (HashSet::new(), HashSet::new());
    for step in &plan.steps {
        let vmid = match &step.action {
            Action::FillIpSet { vmid, before, .. } => {
                match before {
                    None => counts.sets.create += 1,
                    Some(_) => counts.sets.change += 1,
                }
                vmid
            }
            Action::DropIpSet { vmid } => {
                counts.sets.delete += 1;
                vmid
            }
            Action::SetFirewallRules { vmid, rules, before } => {
                counts.rules.create += rules.len();
                counts.rules.delete += before.len();
                vmid
            }
            Action::SetFirewallOptions { vmid, .. } => vmid,
            Action::FilterCard { vmid, on } => {
                match on {
                    true => counts.turn_on += 1,
                    false => counts.turn_off += 1,
                }
                turned.insert(*vmid);
                vmid
            }
            _ => continue,
        };
        touched.insert(*vmid);
    }
    counts.change = touched.difference(&turned).count();
    counts
}

/// Objects of such kinds that a plan makes, changes or removes.
pub fn objects(plan: &Plan, such: impl Fn(ObjectKind) -> bool) -> ObjectCounts {
    let mut counts = ObjectCounts::default();
    for step in &plan.steps {
        match &step.action {
            Action::PutClusterObject { kind, before: None, .. } if such(*kind) => counts.create += 1,
            Action::PutClusterObject { kind, .. } if such(*kind) => counts.change += 1,
            Action::RemoveClusterObject { kind, .. } if such(*kind) => counts.remove += 1,
            _ => {}
        }
    }
    counts
}

/// Nodes that restart and go on, each once, in the order of their restarts.
pub fn restarted(plan: &Plan) -> Vec<String> {
    match plan.purpose {
        Purpose::Apply => touched(plan, Impact::Restart),
        // What stops there is destroyed.
        _ => Vec::new(),
    }
}

/// Nodes that steps do this to, each once, in the order of the steps.
pub fn touched(plan: &Plan, impact: Impact) -> Vec<String> {
    let mut seen = HashSet::new();
    let steps = plan.steps.iter().filter(|step| step.impact == impact);
    steps.filter_map(|step| step.node.clone()).filter(|name| seen.insert(name.clone())).collect()
}

/// VMIDs of templates by what becomes of them.
#[derive(Clone, Debug)]
pub struct Templates {
    /// Made where none was.
    pub created: Vec<u32>,
    /// Destroyed and made again.
    pub replaced: Vec<u32>,
    /// Destroyed for good.
    pub destroyed: Vec<u32>,
}

impl Templates {
    /// Those of a plan.
    pub fn of(plan: &Plan) -> Self {
        let made: Vec<u32> = plan.steps.iter().filter_map(made).collect();
        let dropped: Vec<u32> = plan.steps.iter().filter_map(dropped).collect();
        let (replaced, destroyed) = dropped.iter().partition(|vmid| made.contains(vmid));
        let created = made.into_iter().filter(|vmid| !dropped.contains(vmid)).collect();
        Self { created, replaced, destroyed }
    }
}

fn made(step: &Step) -> Option<u32> {
    match step.action {
        Action::MakeTemplate { vmid, .. } => Some(vmid),
        _ => None,
    }
}

fn dropped(step: &Step) -> Option<u32> {
    match step.action {
        Action::DropTemplate { vmid, .. } => Some(vmid),
        _ => None,
    }
}

/// Volumes that a plan deletes; not config media that it uploaded itself.
fn deleted_files(plan: &Plan) -> impl Iterator<Item = &str> {
    let uploaded: HashSet<(Option<&str>, &str)> = (plan.steps.iter())
        .filter_map(|step| match &step.action {
            Action::UploadMedia { file, .. } => Some((step.host.as_deref(), file.as_str())),
            _ => None,
        })
        .collect();
    plan.steps.iter().filter_map(move |step| match &step.action {
        Action::DeleteImage { volid } => Some(volid.as_str()),
        Action::DeleteMedia { volid } => {
            let own = uploaded.contains(&(step.host.as_deref(), names::volid_file(volid)));
            (!own).then_some(volid.as_str())
        }
        _ => None,
    })
}

/// Volumes without a VM that a plan deletes.
pub fn deleted_volumes(plan: &Plan) -> Vec<String> {
    let volume = |step: &Step| match &step.action {
        Action::DeleteVolume { volid, .. } => Some(volid.clone()),
        _ => None,
    };
    plan.steps.iter().filter_map(volume).collect()
}

/// Image files that a plan deletes.
pub fn deleted_images(plan: &Plan) -> Vec<String> {
    let image = |step: &Step| match &step.action {
        Action::DeleteImage { volid } => {
            let host = step.host.as_deref().map(|host| format!(" on {host}")).unwrap_or_default();
            Some(format!("{volid}{host}"))
        }
        _ => None,
    };
    plan.steps.iter().filter_map(image).collect()
}
