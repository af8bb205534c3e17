//! What the nodes do together: answering, etcd, the endpoint, readiness.

use daedal_inventory::{Cni, Node, Role};

use super::addons::Ground;
use super::{Planner, Track};
use crate::advice::Advice;
use crate::bootstrap::{self, Verdict};
use crate::graph::Subject;
use crate::plan::{Action, Impact, Quorum, Recovery, StepId};
use crate::survey::{NodeSurvey, State, Survey};
use crate::world::EtcdView;

/// Who gives a worker the certificate of its API: some control plane's trustd. One is enough, and it is the one the
/// others join: were all of them awaited, one that fails would hold up every worker.
#[derive(Clone, Copy, Debug)]
pub(super) enum Trust {
    /// A control plane is up.
    Here,
    /// One is up after this step.
    After(StepId),
    /// None is, and none will be.
    Nobody,
}

impl Trust {
    pub(super) fn step(self) -> Option<StepId> {
        match self {
            Self::After(step) => Some(step),
            Self::Here | Self::Nobody => None,
        }
    }

    /// Whether a node that boots would never answer again.
    pub(super) fn strands(self, node: &Node) -> bool {
        node.role == Role::Worker && matches!(self, Self::Nobody)
    }
}

impl<'w> Planner<'w> {
    /// etcd, the endpoint, readiness; and the media go as soon as they are not needed.
    pub(super) fn cluster_life(&mut self, survey: &Survey<'w>) -> Quorum {
        let count = survey.nodes.len();
        let is_control_plane = |at: usize| survey.nodes[at].node.role == Role::ControlPlane;
        let control_planes: Vec<usize> = (0..count).filter(|at| is_control_plane(*at)).collect();
        let workers: Vec<usize> = (0..count).filter(|at| !is_control_plane(*at)).collect();

        for at in &control_planes {
            self.await_api(&survey.nodes[*at], *at, None);
        }
        let verdict = bootstrap::judge(self.cluster, self.world, survey, |at| self.tracks[at].reachable);
        let bootstrap = self.bootstrap(&verdict, survey, &control_planes);
        let some_up = control_planes.iter().any(|at| survey.nodes[*at].up());
        let first = match verdict {
            _ if some_up => None,
            Verdict::Here(target) => self.tracks[target].api,
            _ => control_planes.iter().find_map(|at| self.tracks[*at].api),
        };
        let trust = match first {
            _ if some_up => Trust::Here,
            Some(step) => Trust::After(step),
            None => Trust::Nobody,
        };

        let mut joined: Vec<Option<StepId>> = vec![None; count];
        // Who is no longer declared votes until it is removed.
        let former = (self.world.members.iter())
            .filter(|member| member.serves && !member.learner && !member.name.is_empty())
            .filter(|member| self.cluster.node(&member.name).is_none());
        let former = u32::try_from(former.count()).unwrap_or(u32::MAX);
        let mut quorum = Quorum { before: former, after: former, ..Quorum::default() };
        for at in &control_planes {
            let (surveyed, track) = (&survey.nodes[*at], &self.tracks[*at]);
            let member = surveyed.view.etcd == EtcdView::Member;
            quorum.before += u32::from(member);
            if member || !(track.reachable || surveyed.up()) {
                quorum.after += u32::from(member);
                continue;
            }
            let reason = match (track.created, &verdict) {
                (_, Verdict::Here(target)) if target == at => "the others join it",
                (true, _) => "it joins etcd by itself",
                (false, _) if surveyed.up() && surveyed.view.etcd == EtcdView::Unknown => {
                    "it does not say that it votes"
                }
                (false, _) => "it is not a voting member",
            };
            let subject = Subject { node: Some(&surveyed.node.name), host: None };
            joined[*at] = Some(self.graph.add(subject, Action::AwaitEtcd, reason, [track.api, bootstrap]));
            quorum.after += 1;
        }
        quorum.lowest = quorum.before.min(quorum.after);
        let rewired = self.networks_one_by_one(survey, &control_planes, &mut joined);
        let back = self.back_after_interruption(survey, &control_planes, &mut joined);

        let expected = control_planes.iter().any(|at| self.tracks[*at].reachable || survey.nodes[*at].up());
        let endpoint =
            (!self.world.endpoint_answers && expected).then(|| self.await_endpoint(bootstrap.or(first)));
        let after = [rewired.or(back), endpoint];
        let (mut restarted, calm) =
            self.configs_one_by_one(survey, &control_planes, &workers, (after, trust), &mut joined);
        let after = ([calm, endpoint], trust);
        restarted |= self.restarts_one_by_one(survey, &control_planes, &workers, after, &mut joined);
        // A single member keeps its quorum of one whatever happens to its network.
        quorum.lowest -= u32::from((rewired.is_some() || restarted) && quorum.before > 1);
        if expected {
            for at in workers {
                self.await_api(&survey.nodes[at], at, first);
            }
        }
        let ground = self.ground(&verdict, endpoint, expected);
        let (network, brought) = self.network_addons(ground, endpoint);
        let mut ready = network.clone();
        if expected {
            ready.extend(self.await_ready(survey, &joined, endpoint, (&network, brought)));
        }
        let after: Vec<_> = ready.into_iter().map(Some).chain([endpoint]).collect();
        self.other_addons(ground, &after);
        quorum
    }

    /// What is known of the cluster that add-ons are for.
    fn ground(&self, verdict: &Verdict, endpoint: Option<StepId>, expected: bool) -> Ground {
        match &self.world.addons {
            Some(addons) if addons.told => Ground::Told,
            _ if !expected || endpoint.is_none() => Ground::Silent,
            _ if matches!(verdict, Verdict::Here(_)) && self.recover.is_none() => Ground::New,
            _ => Ground::Later,
        }
    }

    fn await_endpoint(&mut self, after: Option<StepId>) -> StepId {
        let cluster = self.cluster.located(&self.world.addresses);
        let reason = match cluster.kubernetes.endpoint_url() {
            Some(url) => format!("{url} does not answer yet"),
            None => "the first control plane's address is not known yet".to_owned(),
        };
        self.graph.add(Subject::default(), Action::AwaitEndpoint, reason, [after])
    }

    pub(super) fn await_api(&mut self, surveyed: &NodeSurvey<'w>, at: usize, trust: Option<StepId>) {
        let (node, vmid) = (surveyed.node, surveyed.node.vmid);
        let track = &self.tracks[at];
        let (mut running, reachable, host) = (track.running.clone(), track.reachable, track.host.clone());
        let subject = Subject { node: Some(&node.name), host: None };
        if !surveyed.up() && reachable {
            if track.waits {
                // One that is up already and was not seen waiting is listened to from now on: it may still be booting.
                let console = self.reads_console(node);
                let reason = match console {
                    true => "its key is what its console prints, and pinned",
                    false => "its key is pinned from the first contact on",
                };
                let of = Subject { node: Some(&node.name), host: host.as_deref() };
                let is_given = console || !self.demands_proof(node);
                // Where its address is the endpoint, no config can be written before the first control plane has one.
                let unknown = self.cluster.kubernetes.endpoint_host.is_none();
                let first = if unknown { self.first_running() } else { Vec::new() };
                let needs = running.iter().chain(&first).copied().chain(self.secrets).map(Some);
                if is_given {
                    let needs: Vec<_> = needs.collect();
                    running = vec![self.graph.add(of, Action::GiveConfig { vmid, console }, reason, needs)];
                }
                if !console {
                    let whose = if is_given { &mut self.first_contacts } else { &mut self.unprovable };
                    whose.push(node.name.clone());
                }
            }
            let reason = match running[..] {
                [_, ..] => "its config must be in force",
                [] => "it does not answer",
            };
            let needs = running.into_iter().chain(trust).map(Some);
            self.tracks[at].api = Some(self.graph.add(subject, Action::AwaitApi, reason, needs));
        }
        // As soon as the node answers over mTLS it has its config and keeps it on its own disk: the medium with its
        // keys need not wait for etcd or Kubernetes, and the shorter it lies on the storage the better. Should the node
        // lose the config all the same, it comes up in maintenance mode, and the next run gives it a new medium.
        let answers = surveyed.up() || self.tracks[at].api.is_some();
        let (Some(host), true) = (host, answers) else { return };
        let subject = Subject { node: Some(&node.name), host: Some(&host) };
        let track = &mut self.tracks[at];
        let (medium, api) = (track.medium.take(), track.api);
        let (action, reason) = match (medium.is_some(), track.iso, track.unsettled) {
            (_, true, _) => (Action::EjectMedia { vmid }, "it runs from its disk"),
            (true, false, _) => (Action::EjectMedia { vmid }, "the node has its config"),
            (false, false, true) => {
                (Action::MarkConfigured { vmid }, "it is never given one in maintenance mode again")
            }
            (false, false, false) => return,
        };
        let ejected = self.graph.add(subject, action, reason, [api]);
        if let Some(volid) = medium {
            self.graph.add(subject, Action::DeleteMedia { volid }, "it holds keys", [Some(ejected)]);
        }
    }

    /// Whether this plan starts the node's VM.
    fn starts(&self, track: &Track) -> bool {
        let mut steps = track.running.iter().filter_map(|id| self.graph.steps.get(*id as usize));
        steps.any(|step| matches!(step.action, Action::StartVm { .. }))
    }

    /// What the first control plane's VM waits for before it has an address.
    fn first_running(&self) -> Vec<StepId> {
        let first = self.cluster.nodes.iter().position(|node| node.role == Role::ControlPlane);
        first.map(|at| self.tracks[at].running.clone()).unwrap_or_default()
    }

    pub(super) fn await_ready(
        &mut self,
        survey: &Survey<'w>,
        joined: &[Option<StepId>],
        endpoint: Option<StepId>,
        (network, brought): (&[StepId], bool),
    ) -> Vec<StepId> {
        let mut unready = false;
        let mut awaited = Vec::new();
        for (at, surveyed) in survey.nodes.iter().enumerate() {
            let track = &self.tracks[at];
            // Of a node that nothing is done about, nothing is expected either.
            let blocked = matches!(surveyed.state, State::Blocked { .. });
            if blocked || surveyed.view.ready == Some(true) || !(track.reachable || surveyed.up()) {
                continue;
            }
            unready = true;
            if self.cluster.kubernetes.cni == Cni::None && !brought {
                continue;
            }
            let reason = match surveyed.view.ready {
                Some(_) => "Kubernetes calls it NotReady",
                None if track.created => "the last thing a new node needs",
                None if self.starts(track) => "it starts in this plan",
                None if !self.world.kubernetes_told => "no API server answers yet",
                None => "Kubernetes does not know it yet",
            };
            let subject = Subject { node: Some(&surveyed.node.name), host: None };
            let needs =
                [track.api, joined[at], endpoint].into_iter().chain(network.iter().copied().map(Some));
            let needs: Vec<_> = needs.collect();
            awaited.push(self.graph.add(subject, Action::AwaitReady, reason, needs));
        }
        let declared = self.cluster.addons.iter().any(|addon| addon.network);
        if unready && self.cluster.kubernetes.cni == Cni::None && !declared {
            self.notes.info(Advice::NoCni {});
        }
        awaited
    }

    pub(super) fn bootstrap(
        &mut self,
        verdict: &Verdict,
        survey: &Survey<'w>,
        control_planes: &[usize],
    ) -> Option<StepId> {
        match verdict {
            Verdict::Here(target) => {
                // New ones cannot have an etcd; every other one is asked before.
                let asked = control_planes
                    .iter()
                    .filter(|at| *at == target || !matches!(survey.nodes[**at].state, State::Absent))
                    .map(|at| self.tracks[*at].api);
                let asked: Vec<_> = asked.collect();
                let name = &survey.nodes[*target].node.name;
                let subject = Subject { node: Some(name), host: None };
                let first = control_planes.first() == Some(target);
                let reason = match (self.recover, first) {
                    (None, true) => "no control plane has an etcd yet; once, on the first".to_owned(),
                    (None, false) => {
                        "no control plane has an etcd yet; the first is in trouble, so here".to_owned()
                    }
                    (Some(Recovery { size, revision, .. }), _) => format!(
                        "no control plane has an etcd yet; it begins at revision {revision} ({})",
                        crate::size::show(*size)
                    ),
                };
                let action = Action::Bootstrap { recover: self.recover.cloned() };
                Some(self.graph.add(subject, action, reason, asked))
            }
            Verdict::Exists | Verdict::Nowhere => None,
            Verdict::Unsure(suspects) => {
                self.notes.warning(Advice::EtcdInDoubt { suspects: suspects.clone() });
                None
            }
        }
    }

    /// Changes network cards of voting members one at a time, each only after the one before votes again. The last step,
    /// if there is any.
    fn networks_one_by_one(
        &mut self,
        survey: &Survey<'w>,
        control_planes: &[usize],
        joined: &mut [Option<StepId>],
    ) -> Option<StepId> {
        let mut previous = None;
        for at in control_planes {
            let (Some(change), Some(host)) = (self.tracks[*at].network.take(), self.tracks[*at].host.clone())
            else {
                continue;
            };
            let node = survey.nodes[*at].node;
            let subject = Subject { node: Some(&node.name), host: Some(&host) };
            let action = Action::UpdateVm { vmid: node.vmid, changes: vec![change] };
            let reason = "it differs from the inventory; one control plane at a time";
            let needs: Vec<_> = [previous].into_iter().chain(self.tracks[*at].running()).collect();
            let changed = self.graph.add_with(subject, action, reason, needs, Impact::Interrupt);
            let subject = Subject { node: Some(&node.name), host: None };
            let reason = "it must answer on the changed network";
            let api = self.graph.add(subject, Action::AwaitApi, reason, [Some(changed)]);
            let reason = "etcd must be whole before the next one";
            let back = self.graph.add(subject, Action::AwaitEtcd, reason, [Some(api)]);
            joined[*at] = Some(back);
            previous = Some(back);
        }
        previous
    }

    /// The step after which the one control plane that may have lost its vote for a new network card votes again; none
    /// if nobody else's config waits for that.
    fn back_after_interruption(
        &mut self,
        survey: &Survey<'w>,
        control_planes: &[usize],
        joined: &mut [Option<StepId>],
    ) -> Option<StepId> {
        let at = *control_planes.iter().find(|at| self.tracks[**at].interrupted)?;
        if control_planes.iter().all(|other| self.tracks[*other].config.is_none()) {
            return None;
        }
        let subject = Subject { node: Some(&survey.nodes[at].node.name), host: None };
        let track = &self.tracks[at];
        let needs: Vec<_> = [track.api].into_iter().chain(track.running()).collect();
        joined[at] = joined[at].or_else(|| {
            let reason = "etcd must be whole before the next one";
            Some(self.graph.add(subject, Action::AwaitEtcd, reason, needs))
        });
        joined[at]
    }
}
