//! Running nodes get the declared machine config: control planes one at a time, then the workers.

use daedal_inventory::Cni;
use daedal_machine::vm::Change;

use super::Planner;
use super::life::Trust;
use crate::bootstrap::Interruption;
use crate::difference::Stays;
use crate::graph::Subject;
use crate::plan::{Action, Impact, StepId};
use crate::survey::Survey;
use crate::why::{InterruptedBy, WhyStays};
use crate::world::EtcdView;

/// A config for a running node.
#[derive(Debug)]
pub(super) struct NewConfig {
    /// [`Action::ApplyConfig`].
    pub(super) action: Action,
    /// Whether the node reboots for it.
    pub(super) reboot: bool,
    /// The VM's mark, where it speaks of another config.
    pub(super) mark: Option<Change>,
}

impl<'w> Planner<'w> {
    /// Control planes one at a time, each only after the one before votes again; then the workers, at once where none of
    /// them reboots and one at a time otherwise. Says whether a voting member restarts, and the last step to wait for before
    /// anything else does.
    pub(super) fn configs_one_by_one(
        &mut self,
        survey: &Survey<'w>,
        control_planes: &[usize],
        workers: &[usize],
        ([rewired, endpoint], trust): ([Option<StepId>; 2], Trust),
        joined: &mut [Option<StepId>],
    ) -> (bool, Option<StepId>) {
        let mut previous = rewired;
        // What workers wait for: one that does not vote, and may never, holds up control planes only.
        let mut calm = rewired;
        let mut restarted = false;
        for at in control_planes {
            let surveyed = &survey.nodes[*at];
            let Some(config) = self.tracks[*at].config.take() else { continue };
            let member = surveyed.view.etcd == EtcdView::Member;
            if config.reboot && self.voters.interruption(surveyed) == Interruption::Risky {
                let why = WhyStays::Quorum { by: InterruptedBy::Config, voters: self.voters };
                let remedy = self.voters.remedy(false);
                self.differ(surveyed.node, "machine config", ["", ""], Stays::Held { why }, Some(remedy));
                continue;
            }
            restarted |= config.reboot && member;
            let applied =
                self.apply_config(survey, *at, config.action, config.mark, config.reboot, [previous]);
            (previous, calm) = (Some(applied), Some(applied));
            self.tracks[*at].configured = Some(applied);
            // What does not say that it votes may all the same.
            if surveyed.view.etcd != EtcdView::NotJoined {
                let subject = Subject { node: Some(&surveyed.node.name), host: None };
                let reason = "etcd must be whole before the next one";
                joined[*at] = Some(self.graph.add(subject, Action::AwaitEtcd, reason, [previous]));
                previous = joined[*at];
            }
            if config.reboot {
                previous = self.ready_again(survey, *at, [previous, endpoint]);
            }
            if member || config.reboot {
                calm = previous;
            }
        }
        let mut rebooted = calm;
        for at in workers {
            let Some(config) = self.tracks[*at].config.take() else { continue };
            let node = survey.nodes[*at].node;
            if config.reboot && trust.strands(node) {
                let stays = Stays::Held { why: WhyStays::NoControlPlane { config: true } };
                self.differ(node, "machine config", ["", ""], stays, None);
                continue;
            }
            let needs = if config.reboot { rebooted.or(trust.step()) } else { calm };
            let applied = self.apply_config(survey, *at, config.action, config.mark, config.reboot, [needs]);
            if config.reboot {
                rebooted = self.ready_again(survey, *at, [Some(applied), endpoint]);
            }
            self.tracks[*at].configured = Some(applied);
        }
        (restarted, rebooted.or(previous))
    }

    fn apply_config(
        &mut self,
        survey: &Survey<'w>,
        at: usize,
        action: Action,
        mark: Option<Change>,
        reboot: bool,
        needs: [Option<StepId>; 1],
    ) -> StepId {
        let node = survey.nodes[at].node;
        let (reason, impact) = match reboot {
            true => ("it differs from the inventory; the node says that it has to reboot", Impact::Restart),
            false => ("it differs from the inventory; without a reboot", Impact::None),
        };
        let subject = Subject { node: Some(&node.name), host: None };
        let needs = needs.into_iter().chain(self.tracks[at].running());
        let needs: Vec<_> = needs.collect();
        let applied = self.graph.add_with(subject, action, reason, needs, impact);
        if let (Some(mark), Some(host)) = (mark, self.tracks[at].host.clone()) {
            let subject = Subject { node: Some(&node.name), host: Some(&host) };
            let action = Action::UpdateVm { vmid: node.vmid, changes: vec![mark] };
            self.graph.add(subject, action, "its mark says which config it has", [Some(applied)]);
        }
        applied
    }

    /// Waits until a node that was Ready before its reboot is Ready again.
    pub(super) fn ready_again(
        &mut self,
        survey: &Survey<'w>,
        at: usize,
        after: [Option<StepId>; 2],
    ) -> Option<StepId> {
        let surveyed = &survey.nodes[at];
        if surveyed.view.ready != Some(true) || self.cluster.kubernetes.cni == Cni::None {
            return after[0];
        }
        let subject = Subject { node: Some(&surveyed.node.name), host: None };
        Some(self.graph.add(subject, Action::AwaitReady, "it must be back before the next one", after))
    }
}
