//! What the nodes say of themselves: Talos, etcd, Kubernetes; asked in parallel and with little patience.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use daedal_inventory::{Cluster, Node, Role};
use daedal_planner::{ConfigView, EtcdView, FormerView, MemberView, NodeView, Ownership, TalosView, World};
use daedal_talos::SecretsBundle;
use futures::future::{BoxFuture, join_all};
use futures::stream::{self, StreamExt};
use tokio::time::Instant;

use crate::addresses;
use crate::engine::Engine;
use crate::kubernetes::{API_SERVER_PORT, KubeNode, KubeNodes, Kubernetes};
use crate::limits::Limits;
use crate::nodes::{Former, Member, Membership, Nodes, PREPARING_PASSES, Probe};
use crate::observe::{Blinds, config};

/// What was seen.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) nodes: BTreeMap<String, NodeView>,
    pub(crate) endpoint_answers: bool,
    pub(crate) members: Vec<MemberView>,
    pub(crate) kubernetes_told: bool,
    pub(crate) former: BTreeMap<String, FormerView>,
}

/// Asks every node whose VM is ours and runs.
pub(crate) async fn look(
    engine: &Engine,
    cluster: &Cluster,
    world: &World,
    secrets: &SecretsBundle,
    blinds: &Blinds,
) -> Seen {
    let up: HashSet<&str> = world
        .guests
        .values()
        .filter(|guest| guest.running)
        .filter_map(|guest| match &guest.ownership {
            Ownership::Ours { node, .. } => Some(node.as_str()),
            _ => None,
        })
        .collect();
    let running = cluster.nodes.iter().filter(|node| up.contains(node.name.as_str()));
    let (running, hidden): (Vec<&Node>, Vec<&Node>) = running.partition(|node| node.address.is_some());
    for node in hidden.into_iter().filter(|node| !awaits_config(world, node)) {
        blinds.say(format!("node {}", node.name), "its guest agent does not say where it is");
    }
    if running.is_empty() {
        return Seen::default();
    }
    let parts = &engine.parts;
    let limits = &parts.limits;
    let (nodes, kubernetes) = match (Nodes::new(parts, secrets), Kubernetes::new(parts, secrets)) {
        (Ok(nodes), Ok(kubernetes)) => (nodes, kubernetes),
        (Err(error), _) | (_, Err(error)) => {
            blinds.add("nodes", &error);
            return Seen::default();
        }
    };

    let question = Question { nodes: &nodes, cluster, secrets, limits, blinds };
    let asked: Vec<_> = running.iter().map(|node| question.ask(node)).collect();
    let probes = stream::iter(asked).buffered(limits.probes).collect::<Vec<_>>();
    let planes: Vec<&Node> = running.iter().copied().filter(|node| node.role == Role::ControlPlane).collect();
    let endpoint = addresses::endpoint(cluster);
    let (mut probes, known, answers) = tokio::join!(
        probes,
        known(&kubernetes, &planes, limits.probe_timeout),
        kubernetes.answers(&endpoint, limits.probe_timeout),
    );

    // Where nobody has an etcd, those that wait for one are asked again: a member that boots says the same for a moment.
    let waits = |answer: &Answer| matches!(answer.etcd, Some(Membership::NotJoined(_)));
    let somebody =
        probes.iter().any(|answer| matches!(&answer.etcd, Some(Membership::Of(list)) if !list.is_empty()));
    if !somebody && probes.iter().any(waits) {
        tokio::time::sleep(PREPARING_PASSES).await;
        let again: Vec<_> = (running.iter().zip(&probes))
            .filter(|(_, answer)| waits(answer))
            .map(|(node, _)| question.ask(node))
            .collect();
        let mut again = stream::iter(again).buffered(limits.probes).collect::<Vec<_>>().await.into_iter();
        for probe in probes.iter_mut().filter(|answer| waits(answer)) {
            *probe = again.next().unwrap_or_else(|| Answer::of(Probe::Unreachable(String::new())));
        }
    }

    let mut seen = Seen { endpoint_answers: answers.is_ok(), ..Seen::default() };
    // One member's list tells of all. Lists that have no member in common are two clusters under one name.
    let mut members: BTreeMap<String, bool> = BTreeMap::new();
    let mut listed: BTreeMap<u64, Member> = BTreeMap::new();
    let mut serving: HashSet<u64> = HashSet::new();
    for (node, answer) in running.iter().zip(&probes) {
        let Some(Membership::Of(list)) = &answer.etcd else { continue };
        if !members.is_empty() && !list.iter().any(|member| members.contains_key(&member.name)) {
            blinds.say("etcd", format!("{} is in another etcd than the other control planes", node.name));
            continue;
        }
        members.extend(list.iter().map(|member| (member.name.clone(), member.learner)));
        serving.extend(list.iter().filter(|member| member.name == node.name).map(|member| member.id));
        listed.extend(list.iter().map(|member| (member.id, member.clone())));
    }
    seen.kubernetes_told = known.is_some();
    let known = known.unwrap_or_default();
    let declared: HashSet<&str> = cluster.nodes.iter().map(|node| node.name.as_str()).collect();
    let names: BTreeSet<&str> = world
        .guests
        .values()
        .filter_map(|guest| match &guest.ownership {
            Ownership::Ours { node, .. } => Some(node.as_str()),
            _ => None,
        })
        .chain(listed.values().map(|member| member.name.as_str()))
        .chain(known.keys().map(String::as_str))
        .filter(|name| !name.is_empty() && !declared.contains(name))
        .collect();
    let asked = names.into_iter().map(|name| {
        let member = listed.values().find(|member| member.name == name);
        former(&nodes, name, member, known.get(name), limits)
    });
    for (name, view, serves) in join_all(asked).await {
        serving.extend(serves);
        seen.former.insert(name, view);
    }
    seen.members = listed
        .into_values()
        .map(|member| MemberView {
            id: format!("{:x}", member.id),
            serves: serving.contains(&member.id),
            address: member.address.map(|address| address.to_string()),
            name: member.name,
            learner: member.learner,
        })
        .collect();
    for (node, Answer { talos, etcd, config }) in running.iter().zip(probes) {
        let talos = match talos {
            Probe::Configured { version, stage } => TalosView::Configured { version, stage },
            Probe::Maintenance => TalosView::Maintenance,
            Probe::OtherCluster => TalosView::OtherCluster,
            Probe::Unreachable(why) => {
                // One that waits for its first config may do so at any address.
                if !awaits_config(world, node) {
                    blinds.say(format!("node {}", node.name), why);
                }
                TalosView::Unreachable
            }
        };
        let etcd = match (members.get(&node.name), etcd) {
            (Some(true), _) => EtcdView::Learner,
            (Some(false), _) => EtcdView::Member,
            (None, Some(Membership::NotJoined(_) | Membership::Of(_))) => EtcdView::NotJoined,
            (None, Some(Membership::Unreachable(_)) | None) => EtcdView::Unknown,
        };
        let known = known.get(&node.name);
        let view = NodeView {
            talos,
            etcd,
            ready: known.map(|node| node.ready),
            kubelet: known.map(|node| node.kubelet.clone()),
            config,
        };
        seen.nodes.insert(node.name.clone(), view);
    }
    seen
}

fn awaits_config(world: &World, node: &Node) -> bool {
    let guest = world.guests.get(&node.vmid).and_then(|guest| guest.config.as_ref());
    guest.is_some_and(|config| config.waiting)
}

/// One node's own words.
struct Answer {
    talos: Probe,
    etcd: Option<Membership>,
    config: ConfigView,
}

impl Answer {
    fn of(talos: Probe) -> Self {
        Self { talos, etcd: None, config: ConfigView::Unknown }
    }
}

/// What every node is asked, and what is needed for it.
struct Question<'a> {
    nodes: &'a Nodes,
    cluster: &'a Cluster,
    secrets: &'a SecretsBundle,
    limits: &'a Limits,
    blinds: &'a Blinds,
}

impl<'a> Question<'a> {
    /// Asks a node. Boxed, because the compiler cannot see through closures over borrowed nodes that the whole look may
    /// move between threads.
    fn ask(&'a self, node: &'a Node) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let began = Instant::now();
            let talos = self.nodes.probe(node, self.limits.probe_timeout).await;
            let Probe::Configured { stage, version } = &talos else { return Answer::of(talos) };
            let (etcd, config) = tokio::join!(self.etcd(node, stage, began), self.config(node, version));
            Answer { talos, etcd, config }
        })
    }

    async fn config(&self, node: &Node, version: &str) -> ConfigView {
        let look = config::look(self.nodes, self.cluster, node, self.secrets, version, self.limits);
        look.await.unwrap_or_else(|why| {
            self.blinds.say(format!("machine config of {}", node.name), why);
            ConfigView::Unknown
        })
    }

    async fn etcd(&self, node: &Node, stage: &str, began: Instant) -> Option<Membership> {
        if node.role != Role::ControlPlane {
            return None;
        }
        loop {
            let etcd = self.nodes.members(node, self.limits.probe_timeout).await;
            // Whether it waits for etcd or has it is known a moment after the boot; a plan made before would have to
            // leave etcd alone.
            let soon = stage == "booting" && began.elapsed() < self.limits.settle;
            if !(soon && matches!(etcd, Membership::Unreachable(_))) {
                return Some(etcd);
            }
            tokio::time::sleep(self.limits.attempt_every).await;
        }
    }
}

/// The nodes as Kubernetes knows them, from the first control plane that answers.
async fn known(kubernetes: &Kubernetes, planes: &[&Node], patience: Duration) -> Option<KubeNodes> {
    if planes.is_empty() {
        return None;
    }
    let asked = planes.iter().map(|node| {
        let target = addresses::target(node, API_SERVER_PORT);
        Box::pin(async move { kubernetes.nodes(&target, patience).await })
    });
    match futures::future::select_ok(asked.collect::<Vec<_>>()).await {
        Ok((nodes, _)) => Some(nodes),
        // Before bootstrap no API server answers; the endpoint's silence says so already.
        Err(_) => None,
    }
}

/// A node that the inventory does not name, asked at the address that etcd or Kubernetes knows of it; and its member, if
/// that serves.
async fn former(
    nodes: &Nodes,
    name: &str,
    member: Option<&Member>,
    known: Option<&KubeNode>,
    limits: &Limits,
) -> (String, FormerView, Option<u64>) {
    let address = member.and_then(|member| member.address).or(known.and_then(|node| node.address));
    let role = match (member, known) {
        (Some(_), _) => Some(Role::ControlPlane),
        (None, Some(known)) if known.control_plane => Some(Role::ControlPlane),
        (None, Some(_)) => Some(Role::Worker),
        (None, None) => None,
    };
    let ready = known.map(|node| node.ready);
    let mut view =
        FormerView { address: address.map(|a| a.to_string()), role, ready, ..FormerView::default() };
    let Some(address) = address else { return (name.to_owned(), view, None) };
    let peer = Former { name: name.to_owned(), address };
    view.talos = match nodes.probe(&peer, limits.probe_timeout).await {
        Probe::Configured { version, stage } => TalosView::Configured { version, stage },
        Probe::Maintenance => TalosView::Maintenance,
        Probe::OtherCluster => TalosView::OtherCluster,
        Probe::Unreachable(_) => TalosView::Unreachable,
    };
    let serves = match (member, &view.talos) {
        (Some(member), TalosView::Configured { .. }) if !member.learner => {
            let answer = nodes.members(&peer, limits.probe_timeout).await;
            matches!(&answer, Membership::Of(list) if list.iter().any(|one| one.id == member.id))
                .then_some(member.id)
        }
        _ => None,
    };
    (name.to_owned(), view, serves)
}
