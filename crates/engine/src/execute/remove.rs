//! A node that is no longer declared goes: out of the schedule, out of etcd, out of Kubernetes.

use std::time::Duration;

use daedal_inventory::Role;
use daedal_planner::Step;
use futures::future::{BoxFuture, join_all};
use k8s_openapi::api::core::v1::{Node as KubeNode, Pod};
use kube::api::{Api, DeleteParams, EvictParams, ListParams, Patch, PatchParams};

use crate::effects::EffectKind;
use crate::error::{Error, chain};
use crate::execute::waiting::Waiter;
use crate::execute::{Executor, Outcome};
use crate::kubernetes::API_SERVER_PORT;
use crate::nodes::{Changed, Former, Member, Membership, Nodes, Peer};

/// Between two looks at what is on its way out.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

impl Executor<'_> {
    /// Lets no new pods come to the node.
    pub(super) async fn cordon(&self, step: &Step) -> Result<Outcome, Error> {
        let (name, known_as) = (name(step)?, self.known_as(name(step)?));
        let what = format!("Kubernetes to keep new pods away from {name}");
        let mut wait = Waiter::new(self, step, what, self.engine.parts.limits.endpoint);
        loop {
            let nodes: Api<KubeNode> = Api::all(self.api_server().await?);
            match nodes.get_opt(known_as).await {
                Ok(None) => return Ok(Outcome::AlreadyDone),
                Ok(Some(node)) if node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true)) => {
                    return Ok(Outcome::AlreadyDone);
                }
                Ok(Some(_)) => {}
                Err(error) => {
                    wait.pause(refusal("read the node", error)?).await?;
                    continue;
                }
            }
            let patch = Patch::Merge(serde_json::json!({"spec": {"unschedulable": true}}));
            let params = PatchParams::default();
            let call = async { Ok::<_, Error>(nodes.patch(known_as, &params, &patch).await) };
            match self.engine.parts.effects.perform(EffectKind::Cordon, name, call).await? {
                Ok(_) => return Ok(Outcome::Done),
                Err(error) => wait.pause(refusal("cordon the node", error)?).await?,
            }
        }
    }

    /// Evicts the node's pods and waits until they are gone. What a budget forbids is asked for again.
    pub(super) async fn drain(&self, step: &Step) -> Result<Outcome, Error> {
        let (name, known_as) = (name(step)?, self.known_as(name(step)?));
        let what = format!("the pods of {name} to be gone");
        let mut wait = Waiter::new(self, step, what, self.engine.parts.limits.drain).every(BETWEEN_LOOKS);
        let mut first = true;
        loop {
            let client = self.api_server().await?;
            let on_node = ListParams::default().fields(&format!("spec.nodeName={known_as}"));
            let pods = match Api::<Pod>::all(client.clone()).list(&on_node).await {
                Ok(pods) => pods.items,
                Err(error) => {
                    wait.pause(refusal("list the pods", error)?).await?;
                    continue;
                }
            };
            let leaving: Vec<&Pod> = pods.iter().filter(|pod| leaves(pod)).collect();
            let Some(one) = leaving.first() else {
                return Ok(if first { Outcome::AlreadyDone } else { Outcome::Done });
            };
            first = false;
            let mut why = format!("{} of them, such as {}", leaving.len(), full_name(one));
            for pod in leaving.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
                let (Some(namespace), Some(pod_name)) = (&pod.metadata.namespace, &pod.metadata.name) else {
                    continue;
                };
                let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
                let params = EvictParams::default();
                let call = async { Ok::<_, Error>(api.evict(pod_name, &params).await) };
                let effects = &self.engine.parts.effects;
                match effects.perform(EffectKind::EvictPod, full_name(pod), call).await? {
                    Ok(_) => {}
                    Err(kube::Error::Api(status)) if status.code == 404 => {}
                    // Its disruption budget does not allow it now.
                    Err(kube::Error::Api(status)) if status.code == 429 => {
                        why = format!("{} may not go yet: {}", full_name(pod), status.message);
                    }
                    Err(error) => why = refusal("evict a pod", error)?,
                }
            }
            wait.pause(why).await?;
        }
    }

    /// Deletes the node's object.
    pub(super) async fn forget_node(&self, step: &Step) -> Result<Outcome, Error> {
        let (name, known_as) = (name(step)?, self.known_as(name(step)?));
        let what = format!("Kubernetes to forget {name}");
        let mut wait = Waiter::new(self, step, what, self.engine.parts.limits.endpoint);
        let mut asked = false;
        loop {
            let nodes: Api<KubeNode> = Api::all(self.api_server().await?);
            match nodes.get_opt(known_as).await {
                Ok(None) if asked => return Ok(Outcome::Done),
                Ok(None) => return Ok(Outcome::AlreadyDone),
                Ok(Some(_)) => {}
                Err(error) => {
                    wait.pause(refusal("read the node", error)?).await?;
                    continue;
                }
            }
            let params = DeleteParams::default();
            let call = async { Ok::<_, Error>(nodes.delete(known_as, &params).await.map(drop)) };
            asked = true;
            match self.engine.parts.effects.perform(EffectKind::ForgetNode, name, call).await? {
                Ok(()) => {}
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => wait.pause(refusal("delete the node", error)?).await?,
            }
        }
    }

    /// Takes the node's member out of etcd: by itself where an address is given, else through another. Asks only where
    /// every other member votes and serves at this very moment, and ends when the others no longer list it.
    pub(super) async fn leave_etcd(
        &self,
        step: &Step,
        member: &str,
        address: Option<&String>,
    ) -> Result<Outcome, Error> {
        let (name, limits) = (name(step)?, &self.engine.parts.limits);
        let id = u64::from_str_radix(member, 16)
            .map_err(|_| Error::Plan { why: format!("`{member}` is no member of etcd") })?;
        let address = match address {
            Some(address) => {
                Some(address.parse().map_err(|_| Error::Plan { why: format!("`{address}` is no address") })?)
            }
            None => None,
        };
        let nodes = self.nodes().await?;
        let what = format!("etcd to let {name} go");
        let mut wait = Waiter::new(self, step, what, limits.leave).every(BETWEEN_LOOKS);
        let mut asked = false;
        loop {
            let Some(members) = self.members_of_others(nodes, name).await else {
                wait.pause("no other control plane says which members etcd has".to_owned()).await?;
                continue;
            };
            let (own, rest): (Vec<&Member>, Vec<&Member>) = members.iter().partition(|one| one.id == id);
            if own.is_empty() {
                return Ok(if asked { Outcome::Done } else { Outcome::AlreadyDone });
            }
            let through = match self.all_serve(nodes, &rest).await {
                Ok(through) => through,
                Err(why) => {
                    wait.pause(why).await?;
                    continue;
                }
            };
            let (kind, call): (_, BoxFuture<'_, Changed>) = match address {
                Some(address) => {
                    let view = self.world.former.get(name);
                    let called = view.and_then(|view| view.called.as_deref()).unwrap_or(name).to_owned();
                    let leaver = Former { name: name.to_owned(), address, called };
                    let call = async move { nodes.leave_etcd(&leaver, limits.call_timeout).await };
                    (EffectKind::LeaveEtcd, Box::pin(call))
                }
                None => {
                    let call = async move { nodes.remove_member(&through, id, limits.call_timeout).await };
                    (EffectKind::RemoveMember, Box::pin(call))
                }
            };
            asked = true;
            let call = async { Ok::<_, Error>(call.await) };
            match self.engine.parts.effects.perform(kind, name, call).await? {
                // The others say when it is gone.
                Changed::Done => {}
                Changed::NotYet(why) => {
                    wait.pause(why).await?;
                }
                Changed::Refused(source) => {
                    return Err(Error::Talos {
                        what: "leave etcd",
                        node: name.to_owned(),
                        source: Box::new(source),
                    });
                }
            }
        }
    }

    /// A last look before a node is stopped for good: it must not have become a member since the plan was made.
    pub(super) async fn has_left(&self, step: &Step) -> Result<(), Error> {
        let name = name(step)?;
        let nodes = self.nodes().await?;
        let what = format!("etcd to say that {name} is no member");
        let mut wait = Waiter::new(self, step, what, self.engine.parts.limits.leave).every(BETWEEN_LOOKS);
        loop {
            match self.members_of_others(nodes, name).await {
                Some(members)
                    if members.iter().any(|one| self.is_of(one, name) || self.may_be(one, name)) =>
                {
                    return Err(Error::StillMember { node: name.to_owned() });
                }
                Some(_) => return Ok(()),
                None => {
                    wait.pause("no control plane says which members etcd has".to_owned()).await?;
                }
            }
        }
    }

    /// Whether a member may be this node's for all that is known: it was not there when the plan was made, or had no name yet, and
    /// is no declared node's.
    fn may_be(&self, member: &Member, name: &str) -> bool {
        let worker = self.world.former.get(name).is_some_and(|view| view.role == Some(Role::Worker));
        let has_its_own = || self.world.members.iter().any(|one| one.name == name && !one.guessed);
        let id = format!("{:x}", member.id);
        let open = match self.world.members.iter().find(|one| one.id == id) {
            None => true,
            Some(seen) => seen.name.is_empty() && !has_its_own(),
        };
        !worker && open && self.cluster.node(&self.identities.of_member(member, None).name).is_none()
    }

    /// The name that Kubernetes knows a node by that goes.
    fn known_as<'s>(&'s self, name: &'s str) -> &'s str {
        self.world.former.get(name).and_then(|view| view.known_as.as_deref()).unwrap_or(name)
    }

    /// The members of etcd as a declared control plane lists them.
    async fn members_of_others(&self, nodes: &Nodes, name: &str) -> Option<Vec<Member>> {
        let patience = self.engine.parts.limits.probe_timeout;
        for node in self.cluster.control_planes().filter(|node| node.name != name) {
            if let Membership::Of { members, .. } = nodes.members(node, patience).await {
                return Some(members);
            }
        }
        None
    }

    /// Whether all these members vote and serve, some declared control plane among them, which is returned.
    async fn all_serve(&self, nodes: &Nodes, rest: &[&Member]) -> Result<Former, String> {
        let patience = self.engine.parts.limits.probe_timeout;
        let mut peers = Vec::new();
        for member in rest {
            if member.name.is_empty() {
                return Err(format!("member {:x} does not vote yet", member.id));
            }
            let who = self.identities.of_member(member, None).name;
            let declared = self.cluster.node(&who).and_then(|node| self.addresses.of(node));
            let who = if who.is_empty() { member.name.clone() } else { who };
            if member.learner {
                return Err(format!("member {who} does not vote yet"));
            }
            let Some(address) = declared.or(member.addresses.first().copied()) else {
                return Err(format!("the address of member {who} is not known"));
            };
            let called = member.name.clone();
            peers.push((Former { name: who, address, called }, member.id, declared.is_some()));
        }
        let asked =
            peers.iter().map(|(peer, id, _)| async move { (peer, nodes.serves(peer, *id, patience).await) });
        for (peer, answer) in join_all(asked).await {
            answer.map_err(|why| format!("member {} does not serve: {why}", peer.name()))?;
        }
        let through = peers.into_iter().find(|(_, _, declared)| *declared).map(|(peer, ..)| peer);
        through.ok_or_else(|| "no declared control plane would be left in etcd".to_owned())
    }

    /// A client of the first API server that is ready.
    pub(super) async fn api_server(&self) -> Result<kube::Client, Error> {
        let (kubernetes, limits) = (self.kubernetes().await?, &self.engine.parts.limits);
        let began = tokio::time::Instant::now();
        loop {
            let mut last = None;
            let mut strangers_only = true;
            for node in self.cluster.control_planes() {
                let target = self.addresses.target(node, API_SERVER_PORT);
                match kubernetes.answers(&target, limits.probe_timeout).await {
                    Ok(()) => return kubernetes.client(&target),
                    Err(error) => {
                        strangers_only &= matches!(error, Error::OtherAuthority { .. });
                        last = Some(error);
                    }
                }
            }
            let last = match last {
                Some(stranger) if strangers_only => return Err(stranger),
                last => last.map(|error| chain(&error)),
            };
            if began.elapsed() >= limits.endpoint {
                let what = "an API server to answer".to_owned();
                return Err(Error::Deadline { what, after: limits.endpoint, last });
            }
            self.sleep(BETWEEN_LOOKS).await?;
        }
    }
}

fn name(step: &Step) -> Result<&str, Error> {
    step.node.as_deref().ok_or_else(|| Error::Plan { why: format!("step {} names no node", step.id) })
}

fn full_name(pod: &Pod) -> String {
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    format!("{}/{}", part(&pod.metadata.namespace), part(&pod.metadata.name))
}

/// Whether a pod can be made to go elsewhere. Static pods and those of daemon sets end with their node; those that have
/// ended have nothing to lose.
fn leaves(pod: &Pod) -> bool {
    let annotations = pod.metadata.annotations.as_ref();
    let is_static = annotations.is_some_and(|all| all.contains_key("kubernetes.io/config.mirror"));
    let owners = pod.metadata.owner_references.as_ref().into_iter().flatten();
    let daemon = owners.clone().any(|owner| owner.kind == "DaemonSet" && owner.controller == Some(true));
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    !is_static && !daemon && !matches!(phase, Some("Succeeded" | "Failed"))
}

/// What is worth another try, in words; what the API server will not do is an error.
pub(super) fn refusal(what: &'static str, error: kube::Error) -> Result<String, Error> {
    match &error {
        kube::Error::Api(status) if matches!(status.code, 400..=408 | 410..=428) => {
            Err(Error::Kubernetes { what: what.to_owned(), source: Box::new(error) })
        }
        _ => Ok(chain(&error)),
    }
}
