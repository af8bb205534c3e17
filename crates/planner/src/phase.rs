//! Phases: the parts of an apply, in their order, each of which can be carried out on its own.
//!
//! [`plan_phase`] gives the plan of one. It is the plan of an apply, limited to the steps of the phase. A step that needs an earlier
//! phase which is not done is left out, and a problem names what is missing. Changes of nodes that are up hold up no bootstrap: they are
//! left to `provision`, and a note says so. Every phase writes the outputs if they are not current,
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
use crate::world::{EtcdView, TalosView, World};

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
    /// The add-ons are in the cluster, and ready.
    Addons,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Generate => "generate",
            Self::Provision => "provision",
            Self::Bootstrap => "bootstrap",
            Self::Addons => "addons",
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
    /// The API server does not answer.
    Endpoint,
    /// A node is not Ready.
    Ready,
}

impl Missing {
    /// The phase that does it.
    fn phase(self) -> Phase {
        match self {
            Self::Secrets => Phase::Generate,
            Self::Vm | Self::Start | Self::Config | Self::Answer => Phase::Provision,
            Self::Endpoint | Self::Ready => Phase::Bootstrap,
        }
    }
}

/// The phase of an action; none where every phase does it.
pub(crate) fn of(action: &Action) -> Option<Phase> {
    match action {
        Action::CreateSecrets => Some(Phase::Generate),
        Action::WriteOutputs => None,
        Action::Bootstrap { .. } | Action::AwaitEtcd | Action::AwaitEndpoint | Action::AwaitReady => {
            Some(Phase::Bootstrap)
        }
        // Without a network no node becomes Ready.
        action if let Some((_, network)) = action.addon() => {
            Some(if network { Phase::Bootstrap } else { Phase::Addons })
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
        Some(Phase::Addons) => Some(Phase::Addons),
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
    let without_secrets = plan.steps.iter().any(|step| step.action == Action::CreateSecrets);
    let mut limit = Limit::new(&plan, world, phase);
    if !without_secrets {
        plan.steps.iter().for_each(|step| limit.step(step));
        limit.told_apart();
    }
    let Limit { steps, missing, held_up, left, .. } = limit;
    let mut notes = plan.notes.clone();
    notes.extend(told(&plan, without_secrets, &missing, &left));
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

/// How many steps are left to a phase, and which other one has to be carried out before, if one has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Left {
    phase: Phase,
    after: Option<Phase>,
    steps: usize,
}

/// The steps of one phase in the making.
struct Limit<'a> {
    plan: &'a Plan,
    world: &'a World,
    phase: Phase,
    phases: Vec<Option<Phase>>,
    steps: Vec<Step>,
    /// What stands for each step of the whole plan: itself, or what it would have waited for.
    stands: BTreeMap<StepId, BTreeSet<StepId>>,
    /// Steps that others need not wait for in this phase.
    passed: BTreeSet<StepId>,
    /// What nodes lack that an earlier phase has to do.
    missing: BTreeMap<String, Missing>,
    held_up: BTreeSet<String>,
    left: Vec<Left>,
}

impl<'a> Limit<'a> {
    fn new(plan: &'a Plan, world: &'a World, phase: Phase) -> Self {
        Self {
            plan,
            world,
            phase,
            phases: phases(&plan.steps),
            steps: Vec::new(),
            stands: BTreeMap::new(),
            passed: BTreeSet::new(),
            missing: BTreeMap::new(),
            held_up: BTreeSet::new(),
            left: Vec::new(),
        }
    }

    fn step(&mut self, step: &Step) {
        let (own, its) = (of(&step.action), self.phases[step.id as usize]);
        match self.phase {
            // That they name the hosts of new VMs concerns whoever creates these.
            Phase::Bootstrap if own.is_none() && self.world.outputs_current => {}
            Phase::Bootstrap => match own {
                Some(Phase::Generate) => {}
                Some(Phase::Addons) => self.leave(own),
                // A node that is up is bootstrapped as it is, whatever is to be changed about its VM.
                Some(Phase::Provision) if self.is_up_or_none(step) => self.pass(step),
                Some(Phase::Provision) => {}
                _ if self.is_idle(step) => self.pass(step),
                _ => self.take(step),
            },
            // Those that bring the network, too: they are kept as declared.
            Phase::Addons if step.action.addon().is_some() => self.take(step),
            phase => match its {
                Some(its) if its > phase => self.leave(own),
                Some(its) if its < phase => {}
                _ => self.take(step),
            },
        }
    }

    fn is_up(&self, node: &str) -> bool {
        self.world.nodes.get(node).is_some_and(|view| matches!(view.talos, TalosView::Configured { .. }))
    }

    fn is_up_or_none(&self, step: &Step) -> bool {
        step.node.as_deref().is_none_or(|node| self.is_up(node))
    }

    /// Whether a step waits only for what a change would undo for a moment, and the change is not of this phase.
    fn is_idle(&self, step: &Step) -> bool {
        let view = step.node.as_deref().and_then(|node| self.world.nodes.get(node));
        let is_so = match step.action {
            Action::AwaitEtcd => view.is_some_and(|view| view.etcd == EtcdView::Member),
            Action::AwaitReady => view.is_some_and(|view| view.ready == Some(true)),
            _ => return false,
        };
        let twice = self.steps.iter().any(|one| one.action == step.action && one.node == step.node);
        (is_so || twice) && step.needs.iter().any(|need| self.passed.contains(need))
    }

    /// Lets others wait for what the step would have waited for.
    fn pass(&mut self, step: &Step) {
        if let Ok(needs) = self.needs(step) {
            self.stands.insert(step.id, needs);
            self.passed.insert(step.id);
        }
    }

    fn take(&mut self, step: &Step) {
        match self.needs(step) {
            Ok(needs) => {
                let id = StepId::try_from(self.steps.len()).unwrap_or(StepId::MAX);
                self.stands.insert(step.id, BTreeSet::from([id]));
                self.steps.push(Step { id, needs: needs.into_iter().collect(), ..step.clone() });
            }
            Err(lacking) => {
                self.held_up.extend(step.node.clone());
                let unmet = lacking.iter().filter(|need| self.phases[need.id as usize] < Some(self.phase));
                let unmet: Vec<&Step> = unmet.copied().collect();
                for need in unmet {
                    match &need.node {
                        Some(node) => self.lacks(node),
                        None if need.action == Action::AwaitEndpoint => {
                            self.missing.entry(String::new()).or_insert(Missing::Endpoint);
                        }
                        None => {}
                    }
                }
            }
        }
    }

    /// What a step waits for in this phase, or those steps without which it cannot be carried out.
    fn needs(&self, step: &Step) -> Result<BTreeSet<StepId>, Vec<&'a Step>> {
        let plan = self.plan;
        let lacking = step.needs.iter().filter(|need| !self.stands.contains_key(need));
        let lacking: Vec<&Step> = lacking.map(|need| &plan.steps[*need as usize]).collect();
        match lacking.is_empty() {
            true => {
                Ok(step.needs.iter().filter_map(|need| self.stands.get(need)).flatten().copied().collect())
            }
            false => Err(lacking),
        }
    }

    /// A node lacks something that an earlier phase does.
    fn lacks(&mut self, node: &str) {
        if !self.is_up(node) {
            let what = missing_of(&self.plan.steps, node);
            self.missing.entry(node.to_owned()).or_insert(what);
        } else if self.phase == Phase::Addons {
            self.missing.entry(node.to_owned()).or_insert(Missing::Ready);
        }
    }

    fn leave(&mut self, own: Option<Phase>) {
        let (phase, after) = match own {
            Some(Phase::Addons) => (Phase::Addons, None),
            // The same phase, once more.
            Some(own) if own <= self.phase => (own, Some(Phase::Bootstrap)),
            _ => (Phase::Bootstrap, None),
        };
        match self.left.iter_mut().find(|left| left.phase == phase) {
            Some(left) => left.steps += 1,
            None => self.left.push(Left { phase, after, steps: 1 }),
        }
    }

    /// What nothing of this phase waits for, and is not done either: nodes that do not answer, and changes of those that do.
    fn told_apart(&mut self) {
        if self.phase != Phase::Bootstrap {
            return;
        }
        let plan = self.plan;
        for step in plan.steps.iter().filter(|step| step.action == Action::AwaitApi) {
            if let Some(node) = step.node.as_deref().filter(|node| !self.is_up(node)) {
                self.lacks(node);
                self.held_up.insert(node.to_owned());
            }
        }
        let of_vms = |step: &&Step| {
            let its = [of(&step.action), self.phases[step.id as usize]].contains(&Some(Phase::Provision));
            its && step.node.as_deref().is_some_and(|node| self.is_up(node))
        };
        let steps = plan.steps.iter().filter(of_vms).count();
        if steps > 0 {
            self.left.push(Left { phase: Phase::Provision, after: None, steps });
        }
    }
}

fn is_difference(note: &Note) -> bool {
    matches!(note.advice, Advice::NotAsDeclared { .. })
}

/// What a phase has to say: which earlier one is not done, and to which one something is left.
fn told(plan: &Plan, without_secrets: bool, missing: &BTreeMap<String, Missing>, left: &[Left]) -> Vec<Note> {
    let lacks = |nodes: Vec<String>, what: Missing| {
        let advice = Advice::PhaseMissing { cluster: plan.cluster.clone(), nodes, what, phase: what.phase() };
        Note { level: Level::Problem, advice }
    };
    if without_secrets {
        return vec![lacks(Vec::new(), Missing::Secrets)];
    }
    let mut notes = Vec::new();
    if missing.values().any(|what| *what == Missing::Endpoint) {
        notes.push(lacks(Vec::new(), Missing::Endpoint));
    }
    for what in [Missing::Vm, Missing::Start, Missing::Config, Missing::Answer, Missing::Ready] {
        let of_it = |node: &&PlannedNode| missing.get(&node.name) == Some(&what);
        let nodes: Vec<String> = plan.nodes.iter().filter(of_it).map(|node| node.name.clone()).collect();
        if !nodes.is_empty() {
            notes.push(lacks(nodes, what));
        }
    }
    notes.extend(left.iter().map(|Left { phase, after, steps }| {
        let advice = Advice::PhaseLeft { phase: *phase, steps: *steps, after: *after };
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
    } else if does(|action| matches!(action, Action::AwaitApi)) {
        Missing::Answer
    } else {
        Missing::Ready
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
