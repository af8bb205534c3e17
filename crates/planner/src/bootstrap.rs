//! Whether and where etcd may be bootstrapped. Twice would mean two clusters under one name, so every doubt means no.
//!
//! The first control plane that nothing stands in the way of is chosen. If the first declared one is stuck (say, its
//! create task died), the next may take its place, but only if nothing that exists could hold an etcd already: a VM that
//! never ran cannot; one that once got its config and does not answer now may. Bootstrapping the very node that may hold
//! an etcd is harmless, because Talos refuses when its data directory is not empty; the doubt is always about *others*.

use daedal_inventory::{Cluster, Role};

use crate::survey::{State, Survey, full_name};
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
        || survey.nodes.iter().enumerate().filter(|(_, sight)| sight.node.role == Role::ControlPlane);
    let Some((target, _)) = control_planes().find(|(at, _)| reachable(*at)) else { return Verdict::Nowhere };
    let mut suspects: Vec<String> = control_planes()
        .filter(|(at, _)| *at != target)
        .filter(|(at, sight)| match sight.state {
            State::Absent | State::Creating { .. } => false,
            State::Blocked { suspect, .. } => suspect,
            State::Present(present) => match sight.view.talos {
                TalosView::Configured { .. } => sight.view.etcd != EtcdView::NotJoined,
                TalosView::Maintenance => false,
                // Its medium is only taken out after it answered once. As long as it is in, we wait for its answer and
                // ask it; once out, it had a life we know nothing of.
                _ => present.config.media.is_none() || !reachable(*at),
            },
        })
        .map(|(_, sight)| sight.node.name.clone())
        .collect();
    let once_ours = |guest: &&&crate::world::GuestView| matches!(guest.ownership, Ownership::Ours { .. });
    suspects.extend(survey.undeclared.iter().filter(once_ours).map(|guest| full_name(guest)));
    if suspects.is_empty() { Verdict::Here(target) } else { Verdict::Unsure(suspects) }
}

/// Whether something can only be so because this cluster has an etcd.
pub(crate) fn exists(cluster: &Cluster, world: &World) -> bool {
    world.endpoint_answers
        || cluster
            .nodes
            .iter()
            .filter_map(|node| world.nodes.get(&node.name))
            .any(|view| view.ready.is_some() || matches!(view.etcd, EtcdView::Member | EtcdView::Learner))
}
