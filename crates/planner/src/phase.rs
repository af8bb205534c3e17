//! Phases: the parts of an apply, in their order, each of which can be carried out on its own.
//!
//! [`plan_phase`] gives the plan of one. It is the plan of an apply, limited to the steps of the phase. A step that needs an earlier
//! phase which is not done is left out, and a problem names what is missing. Every phase writes the outputs if they are not current,
//! because whoever carries it out may be on another machine than whoever did the one before.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use daedal_inventory::Cluster;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::advice::Advice;
use crate::apply::plan_apply;
use crate::error::PlanError;
use crate::graph::{Graph, Subject};
use crate::names::Images;
use crate::plan::{Action, Fate, Level, Note, Plan, PlannedNode, Purpose, Quorum, Step, StepId};
use crate::world::{EtcdView, World};

/// A part of an apply. An earlier one is smaller.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    /// Secrets and outputs, without asking Proxmox or a node.
    #[default]
    Generate,
    /// VMs exist, run, have their config and answer over mutual TLS.
    Provision,
    /// etcd is bootstrapped, the API server answers, the nodes are Ready.
    Bootstrap,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Generate => "generate",
            Self::Provision => "provision",
            Self::Bootstrap => "bootstrap",
        })
    }
}

/// What an earlier phase has not done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Missing {
    /// The cluster has no secrets.
    #[default]
    Secrets,
    /// A node has no VM.
    Vm,
    /// A node's VM does not run.
    Start,
    /// A node has not got its config.
    Config,
    /// A node does not answer.
    Answer,
}

/// The phase of an action; none where every phase does it.
pub(crate) fn of(action: &Action) -> Option<Phase> {
    match action {
        Action::CreateSecrets => Some(Phase::Generate),
        Action::WriteOutputs => None,
        Action::Bootstrap { .. } | Action::AwaitEtcd | Action::AwaitEndpoint | Action::AwaitReady => {
            Some(Phase::Bootstrap)
        }
        _ => Some(Phase::Provision),
    }
}

/// The phase of every step of an apply. Whatever comes after the bootstrap of etcd belongs to that phase. Before that, a wait between
/// two changes of running nodes belongs to the phase of the changes: without it they would not be one at a time.
fn phases(steps: &[Step]) -> Vec<Option<Phase>> {
    let mut born: Vec<bool> = Vec::with_capacity(steps.len());
    for step in steps {
        let after = step.needs.iter().any(|need| born.get(*need as usize) == Some(&true));
        born.push(after || matches!(step.action, Action::Bootstrap { .. }));
    }
    let mut guards = vec![false; steps.len()];
    for (at, step) in steps.iter().enumerate().rev() {
        if guards[at] || (!born[at] && of(&step.action) == Some(Phase::Provision)) {
            step.needs.iter().for_each(|need| guards[*need as usize] = true);
        }
    }
    let phase = |(at, step): (usize, &Step)| match of(&step.action) {
        None => None,
        Some(_) if born[at] => Some(Phase::Bootstrap),
        Some(Phase::Bootstrap) if guards[at] => Some(Phase::Provision),
        own => own,
    };
    steps.iter().enumerate().map(phase).collect()
}

/// Plans one phase of an apply.
pub fn plan_phase(
    cluster: &Cluster,
    images: &Images,
    world: &World,
    phase: Phase,
) -> Result<Plan, PlanError> {
    match phase {
        Phase::Generate => Ok(generate(cluster, world)),
        _ => Ok(limited(plan_apply(cluster, images, world)?, world, phase)),
    }
}

/// Secrets and outputs, of a world in which nobody looked beyond the store.
fn generate(cluster: &Cluster, world: &World) -> Plan {
    let mut graph = Graph::default();
    let mut notes = Vec::new();
    let nothing = Subject::default();
    let secrets = (!world.secrets_stored)
        .then(|| graph.add(nothing, Action::CreateSecrets, "this cluster has none yet", []));
    if cluster.nodes.iter().any(|node| world.address(node).is_none()) {
        notes.push(Note { level: Level::Info, advice: Advice::OutputsLater {} });
    } else if !world.outputs_current {
        let reason = match &world.credentials_end {
            Some(day) => format!("their client certificates end on {day}"),
            None => "they are missing or older than the inventory".to_owned(),
        };
        graph.add(nothing, Action::WriteOutputs, reason, [secrets]);
    }
    let empty = Plan::empty(Purpose::Apply, cluster, world);
    Plan { phase: Some(Phase::Generate), steps: graph.steps, notes, ..empty }
}

/// A plan to apply without the steps of other phases.
fn limited(plan: Plan, world: &World, phase: Phase) -> Plan {
    let phases = phases(&plan.steps);
    let without_secrets = plan.steps.iter().any(|step| step.action == Action::CreateSecrets);
    // Where each step that stays is now; and what those lack that do not.
    let mut moved: BTreeMap<StepId, StepId> = BTreeMap::new();
    let mut missing: BTreeMap<String, Missing> = BTreeMap::new();
    let mut held_up: BTreeSet<String> = BTreeSet::new();
    let mut left: BTreeMap<Phase, usize> = BTreeMap::new();
    let mut steps: Vec<Step> = Vec::new();
    for (step, its) in plan.steps.iter().zip(&phases) {
        match its {
            Some(its) if *its > phase => *left.entry(*its).or_default() += 1,
            Some(its) if *its < phase => {}
            _ if without_secrets => {}
            // That they name the hosts of new VMs concerns whoever creates these.
            None if phase == Phase::Bootstrap && world.outputs_current => {}
            _ => {
                let lacking = step.needs.iter().filter(|need| !moved.contains_key(need));
                let lacking: Vec<&Step> = lacking.map(|need| &plan.steps[*need as usize]).collect();
                if lacking.is_empty() {
                    let id = StepId::try_from(steps.len()).unwrap_or(StepId::MAX);
                    let needs = step.needs.iter().filter_map(|need| moved.get(need).copied()).collect();
                    moved.insert(step.id, id);
                    steps.push(Step { id, needs, ..step.clone() });
                    continue;
                }
                held_up.extend(step.node.clone());
                let unmet = lacking.iter().filter(|need| phases[need.id as usize] < Some(phase));
                for node in unmet.filter_map(|need| need.node.clone()) {
                    let what = missing_of(&plan.steps, &node);
                    missing.entry(node).or_insert(what);
                }
            }
        }
    }
    let mut notes = plan.notes.clone();
    notes.extend(told(&plan, phase, without_secrets, &missing, &left));
    notes.sort_by_key(|note| std::cmp::Reverse(note.level));
    let nodes = nodes(&plan, &steps, &held_up, without_secrets);
    let quorum = quorum(plan.quorum, &steps, world, phase);
    let of_vms = phase == Phase::Provision;
    Plan {
        phase: Some(phase),
        hosts: if of_vms { plan.hosts } else { Vec::new() },
        differences: if of_vms { plan.differences } else { Vec::new() },
        nodes,
        steps,
        quorum,
        notes: match of_vms {
            true => notes,
            false => notes.into_iter().filter(|note| !is_difference(note)).collect(),
        },
        ..plan
    }
}

fn is_difference(note: &Note) -> bool {
    matches!(note.advice, Advice::NotAsDeclared { .. })
}

/// What a phase has to say: which earlier one is not done, and which later one is left.
fn told(
    plan: &Plan,
    phase: Phase,
    without_secrets: bool,
    missing: &BTreeMap<String, Missing>,
    left: &BTreeMap<Phase, usize>,
) -> Vec<Note> {
    let lacks = |nodes: Vec<String>, what: Missing| {
        let phase = if what == Missing::Secrets { Phase::Generate } else { Phase::Provision };
        let advice = Advice::PhaseMissing { cluster: plan.cluster.clone(), nodes, what, phase };
        Note { level: Level::Problem, advice }
    };
    if without_secrets {
        return vec![lacks(Vec::new(), Missing::Secrets)];
    }
    let mut notes = Vec::new();
    for what in [Missing::Vm, Missing::Start, Missing::Config, Missing::Answer] {
        let of_it = |node: &&PlannedNode| missing.get(&node.name) == Some(&what);
        let nodes: Vec<String> = plan.nodes.iter().filter(of_it).map(|node| node.name.clone()).collect();
        if !nodes.is_empty() {
            notes.push(lacks(nodes, what));
        }
    }
    let later = left.iter().filter(|(later, _)| **later > phase);
    notes.extend(later.map(|(phase, steps)| {
        let advice = Advice::PhaseLeft { phase: *phase, steps: *steps };
        Note { level: Level::Info, advice }
    }));
    notes
}

/// What a node lacks that does not answer, by what an apply would do about it.
fn missing_of(steps: &[Step], node: &str) -> Missing {
    let does = |such: fn(&Action) -> bool| {
        steps.iter().any(|step| step.node.as_deref() == Some(node) && such(&step.action))
    };
    if does(|action| matches!(action, Action::CreateVm { .. } | Action::AwaitCreate { .. })) {
        Missing::Vm
    } else if does(|action| matches!(action, Action::StartVm { .. })) {
        Missing::Start
    } else if does(|action| matches!(action, Action::GiveConfig { .. })) {
        Missing::Config
    } else {
        Missing::Answer
    }
}

/// What becomes of each node in this phase.
fn nodes(plan: &Plan, steps: &[Step], held_up: &BTreeSet<String>, nothing: bool) -> Vec<PlannedNode> {
    let touched: BTreeSet<&str> = steps.iter().filter_map(|step| step.node.as_deref()).collect();
    let made = |name: &str| {
        steps.iter().any(|step| {
            step.node.as_deref() == Some(name)
                && matches!(step.action, Action::CreateVm { .. } | Action::AwaitCreate { .. })
        })
    };
    let fate = |node: &PlannedNode| match node.fate {
        Fate::Blocked => Fate::Blocked,
        _ if nothing || held_up.contains(&node.name) => Fate::Blocked,
        Fate::Create if made(&node.name) => Fate::Create,
        Fate::Create => Fate::Blocked,
        _ if touched.contains(node.name.as_str()) => Fate::Change,
        _ => Fate::Keep,
    };
    plan.nodes.iter().map(|node| PlannedNode { fate: fate(node), ..node.clone() }).collect()
}

fn quorum(whole: Quorum, steps: &[Step], world: &World, phase: Phase) -> Quorum {
    let is_member = |name: &str| world.nodes.get(name).is_some_and(|view| view.etcd == EtcdView::Member);
    let joining: BTreeSet<&str> = (steps.iter())
        .filter(|step| step.action == Action::AwaitEtcd)
        .filter_map(|step| step.node.as_deref())
        .filter(|node| !is_member(node))
        .collect();
    let joining = u32::try_from(joining.len()).unwrap_or(u32::MAX);
    match phase {
        Phase::Bootstrap => Quorum { lowest: whole.before, after: whole.before + joining, ..whole },
        _ => Quorum { after: whole.before + joining, ..whole },
    }
}
