//! What etcd allows: whether and where it may be bootstrapped, and which control planes may be interrupted.
//!
//! Twice would mean two clusters under one name, so every doubt means no.
//!
//! The first control plane that nothing stands in the way of is chosen. If the first declared one is stuck (say, its
//! create task died), the next may take its place, but only if nothing that exists could hold an etcd already: a VM that
//! never ran cannot; one that once got its config and does not answer now may. Bootstrapping the very node that may hold
//! an etcd is harmless, because Talos refuses when its data directory is not empty; the doubt is always about *others*.

use daedal_inventory::{Cluster, Role};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::difference::Remedy;
use crate::survey::{NodeSurvey, State, Survey, full_name};
use crate::world::{EtcdView, Ownership, TalosView, World};

/// The decision.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// An etcd exists: everyone joins it.
    Exists,
    /// Bootstrap on this node (index in [`Survey::nodes`]).
    Here(usize),
    /// These may hold an etcd and cannot be asked.
    Unsure(Vec<String>),
    /// No control plane can come up.
    Nowhere,
}

/// Decides. `reachable` says whether a node can be expected to answer after this plan's steps.
pub(crate) fn judge(
    cluster: &Cluster,
    world: &World,
    survey: &Survey<'_>,
    reachable: impl Fn(usize) -> bool,
) -> Verdict {
    if exists(cluster, world) {
        return Verdict::Exists;
    }
    let control_planes =
        || survey.nodes.iter().enumerate().filter(|(_, surveyed)| surveyed.node.role == Role::ControlPlane);
    let Some((target, _)) = control_planes().find(|(at, _)| reachable(*at)) else { return Verdict::Nowhere };
    let mut suspects: Vec<String> = control_planes()
        .filter(|(at, _)| *at != target)
        .filter(|(at, surveyed)| match surveyed.state {
            State::Absent | State::Creating { .. } => false,
            State::Blocked { suspect, .. } => suspect,
            State::Present(present) => match surveyed.view.talos {
                TalosView::Configured { .. } => surveyed.view.etcd != EtcdView::NotJoined,
                TalosView::Maintenance => false,
                // As long as nothing says that it answered once, we wait for its answer and ask it; afterwards, it had a
                // life we know nothing of.
                _ => !present.newborn(cluster) || !reachable(*at),
            },
        })
        .map(|(_, surveyed)| surveyed.node.name.clone())
        .collect();
    let once_ours = |guest: &&&crate::world::GuestView| matches!(guest.ownership, Ownership::Ours { .. });
    suspects.extend(survey.undeclared.iter().filter(once_ours).map(|guest| full_name(guest)));
    if suspects.is_empty() { Verdict::Here(target) } else { Verdict::Unsure(suspects) }
}

/// Whether something can only be so because this cluster has an etcd.
pub(crate) fn exists(cluster: &Cluster, world: &World) -> bool {
    world.endpoint_answers
        || !world.members.is_empty()
        || cluster
            .nodes
            .iter()
            .filter_map(|node| world.nodes.get(&node.name))
            .any(|view| view.ready.is_some() || matches!(view.etcd, EtcdView::Member | EtcdView::Learner))
}

/// How many control planes vote, and how many members etcd counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Voters {
    /// Control planes that are declared.
    pub all: usize,
    /// Those of them that are known to vote.
    pub members: usize,
    /// Members that do not vote yet.
    pub learners: usize,
    /// The voting members that etcd lists, whoever they are; none where nobody told.
    pub listed: usize,
    /// Those of them that serve for sure.
    pub serving: usize,
}

/// What happens to etcd if one control plane loses its network for a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interruption {
    /// It does not vote, or all others do.
    Harmless,
    /// A vote is missing for a moment, so one at a time.
    OneByOne,
    /// The quorum could be lost.
    Risky,
}

impl Voters {
    pub(crate) fn count(world: &World, survey: &Survey<'_>) -> Self {
        let of_role = || survey.nodes.iter().filter(|surveyed| surveyed.node.role == Role::ControlPlane);
        // The others may list one as a member that is long gone: only those that answer vote for sure.
        let members =
            of_role().filter(|surveyed| surveyed.view.etcd == EtcdView::Member && surveyed.up()).count();
        let learning = of_role().filter(|surveyed| surveyed.view.etcd == EtcdView::Learner).count();
        let (learners, voters): (Vec<_>, Vec<_>) = world.members.iter().partition(|member| member.learner);
        Self {
            all: of_role().count(),
            members,
            learners: learning.max(learners.len()),
            listed: voters.len(),
            serving: voters.iter().filter(|member| member.serves).count(),
        }
    }

    /// Judges an interruption of a running control plane by what its etcd says. One that does not answer may vote all
    /// the same; it may be interrupted only if all others surely do.
    pub(crate) fn interruption(&self, surveyed: &NodeSurvey<'_>) -> Interruption {
        let spare = self.learners == 0 && (self.all == 1 || self.all >= 3);
        match surveyed.view.etcd {
            EtcdView::NotJoined if self.learners == 0 => Interruption::Harmless,
            EtcdView::Member if surveyed.up() && spare && self.members == self.all && self.bears(1) => {
                Interruption::OneByOne
            }
            EtcdView::Member if surveyed.up() => Interruption::Risky,
            EtcdView::Member | EtcdView::Unknown
                if spare && self.members + 1 == self.all && self.bears(0) =>
            {
                Interruption::Harmless
            }
            _ => Interruption::Risky,
        }
    }

    /// Whether members are in the way that are no control planes.
    pub fn has_dead(&self) -> bool {
        self.members == self.all && self.serving < self.listed
    }

    /// What the user can do so that one may be interrupted.
    pub(crate) fn remedy(&self, by_hand: bool) -> Remedy {
        Remedy::RestoreQuorum { dead: self.has_dead(), by_hand }
    }

    /// Whether etcd keeps its quorum without so many of those that serve. Members that are dead or nobody's count as well as
    /// any; a single one has nobody to lose.
    fn bears(&self, lost: usize) -> bool {
        self.listed <= 1 || self.serving.saturating_sub(lost) > self.listed / 2
    }
}
