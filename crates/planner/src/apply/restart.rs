//! Nodes are restarted for hardware that a running VM does not take: control planes one at a time, then the workers, too.

use daedal_inventory::{Node, Restarts, Role};
use daedal_machine::vm::Change;

use super::Planner;
use super::life::Trust;
use crate::bootstrap::Interruption;
use crate::difference::{Remedy, Stays};
use crate::graph::Subject;
use crate::plan::{Action, Impact, StepId};
use crate::survey::{NodeSurvey, Survey};
use crate::why::{InterruptedBy, WhyStays};
use crate::world::EtcdView;

impl<'w> Planner<'w> {
    /// Each only after the one before is back. What may not be restarted now is counted as a difference. Says whether a
    /// voting member restarts.
    pub(super) fn restarts_one_by_one(
        &mut self,
        survey: &Survey<'w>,
        control_planes: &[usize],
        workers: &[usize],
        ([calm, endpoint], trust): ([Option<StepId>; 2], Trust),
        joined: &mut [Option<StepId>],
    ) -> bool {
        let (mut previous, mut restarted) = (calm, false);
        for at in control_planes.iter().chain(workers) {
            let waiting = std::mem::take(&mut self.tracks[*at].waiting);
            let (surveyed, host) = (&survey.nodes[*at], self.tracks[*at].host.clone());
            let (Some(first), Some(host)) = (waiting.first(), host) else { continue };
            if let Some(stays) = self.stays(surveyed, trust) {
                self.wait_for_start(surveyed.node, &host, &waiting, &stays);
                continue;
            }
            let vmid = surveyed.node.vmid;
            let reason = match waiting.len() {
                1 => format!("it gets other {} only when it starts", what(&first.option)),
                all => format!("it gets {all} changes of its hardware only when it starts"),
            };
            let subject = Subject { node: Some(&surveyed.node.name), host: Some(&host) };
            let track = &self.tracks[*at];
            let needs = [previous, track.configured, joined[*at], endpoint, trust.step()];
            let needs: Vec<_> = needs.into_iter().chain(track.running()).collect();
            let action = Action::RestartVm { vmid };
            let step = self.graph.add_with(subject, action, reason, needs, Impact::Restart);
            let subject = Subject { node: Some(&surveyed.node.name), host: None };
            let reason = "it must answer again";
            previous = Some(self.graph.add(subject, Action::AwaitApi, reason, [Some(step)]));
            let joins = surveyed.view.etcd != EtcdView::NotJoined || joined[*at].is_some();
            if surveyed.node.role == Role::ControlPlane && joins {
                restarted |= surveyed.view.etcd == EtcdView::Member;
                let reason = "etcd must be whole before the next one";
                joined[*at] = Some(self.graph.add(subject, Action::AwaitEtcd, reason, [previous]));
                previous = joined[*at];
            }
            previous = self.ready_again(survey, *at, [previous, endpoint]);
        }
        restarted
    }

    /// Why a node is not restarted in this plan; none if it is.
    fn stays(&self, surveyed: &NodeSurvey<'w>, trust: Trust) -> Option<Stays> {
        let risky = surveyed.node.role == Role::ControlPlane
            && self.voters.interruption(surveyed) == Interruption::Risky;
        match self.cluster.restarts {
            Restarts::Never => Some(Stays::UntilStart),
            Restarts::Allowed if !surveyed.up() => Some(Stays::Held { why: WhyStays::NoAnswer }),
            Restarts::Allowed if trust.strands(surveyed.node) => {
                Some(Stays::Held { why: WhyStays::NoControlPlane { config: false } })
            }
            Restarts::Allowed if risky => {
                let why = WhyStays::Quorum { by: InterruptedBy::Restart, voters: self.voters };
                Some(Stays::Held { why })
            }
            Restarts::Allowed => None,
        }
    }

    fn wait_for_start(&mut self, node: &Node, host: &str, waiting: &[Change], stays: &Stays) {
        let vmid = node.vmid;
        let remedy = match stays {
            Stays::UntilStart => Some(Remedy::Restart { host: host.to_owned(), vmid }),
            Stays::Held { why: WhyStays::NoControlPlane { .. } } => None,
            _ => Some(self.voters.remedy(false)),
        };
        for change in waiting {
            let (from, to) = change.words();
            self.differ(node, what(&change.option), [&to, &from], stays.clone(), remedy.clone());
        }
    }
}

/// An option of a VM in words.
fn what(option: &str) -> &str {
    match option {
        "cores" => "vCPUs",
        "cpu" => "CPU type",
        other => other,
    }
}
