//! What the nodes say of themselves: Talos, etcd, Kubernetes; asked in parallel and with little patience.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use daedal_inventory::{Cluster, Node, Role};
use daedal_machine::Configs;
use daedal_planner::{
    Aspect, ConfigView, FormerView, MemberView, NodeView, RunningVersions, TalosView, Unobserved, Unreached,
    World,
};
use daedal_talos_config::SecretsBundle;
use futures::future::{BoxFuture, join_all};
use futures::stream::{self, StreamExt};
use tokio::time::Instant;

use crate::addresses::{self, Addresses};
use crate::engine::Engine;
use crate::error::Error;
use crate::kubernetes::{API_SERVER_PORT, KubeNode, Kubernetes};
use crate::limits::Limits;
use crate::node_identities::{KubeNodes, NodeIdentities};
use crate::nodes::{Former, Member, Membership, Nodes, PREPARING_PASSES, Probe};
use crate::observe::etcd::Etcd;
use crate::observe::{UnobservedList, config};
use crate::unreached::unreached;

/// What was seen.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) nodes: BTreeMap<String, NodeView>,
    pub(crate) endpoint_answers: bool,
    pub(crate) endpoint_unreached: Option<Unreached>,
    pub(crate) unreached: BTreeMap<String, Unreached>,
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
    unobserved: &UnobservedList,
) -> Seen {
    let running = running(cluster, world, unobserved);
    if running.is_empty() {
        return Seen::default();
    }
    let parts = &engine.parts;
    let limits = &parts.limits;
    let (nodes, kubernetes) = match (Nodes::new(parts, secrets), Kubernetes::new(parts, secrets)) {
        (Ok(nodes), Ok(kubernetes)) => (nodes, kubernetes),
        (Err(error), _) | (_, Err(error)) => {
            unobserved.add(Aspect::Nodes, &error);
            return Seen::default();
        }
    };

    if !cluster.lacks.is_empty() {
        unobserved.say(
            Aspect::MachineConfigs,
            format!("not compared with the declared ones: {}", cluster.lacks.join("; ")),
        );
    }
    let configs = &engine.configs(cluster, secrets);
    let question = Question { nodes: &nodes, cluster, configs, limits, unobserved };
    let planes: Vec<&Node> = running.iter().copied().filter(|node| node.role == Role::ControlPlane).collect();
    let endpoint = addresses::endpoint(cluster);
    let identities = NodeIdentities::new(cluster, world, Addresses::default());
    let (mut answers, known, endpoint) = tokio::join!(
        question.ask_all(&running),
        known(&kubernetes, &planes, &identities, limits.probe_timeout),
        kubernetes.answers(&endpoint, limits.probe_timeout),
    );
    question.ask_again(&running, &mut answers).await;
    if let Err(error @ Error::OtherAuthority { .. }) = &endpoint {
        let (what, why) = (Aspect::Kubernetes, error.to_string());
        unobserved.push(Unobserved { what, why, fix: error.fix() });
    }

    let mut seen = Seen {
        endpoint_answers: endpoint.is_ok(),
        endpoint_unreached: endpoint.as_ref().err().map(|error| unreached(error)),
        kubernetes_told: known.is_some(),
        ..Seen::default()
    };
    let known = known.unwrap_or_default();
    let mut etcd = Etcd::of(&running, &answers, &identities, &known, unobserved);
    let selves: HashMap<&str, &KubeNode> = known.former_selves().collect();
    let asked = undeclared(cluster, world, &etcd, &known)
        .into_iter()
        .map(|name| {
            let self_before = || selves.get_key_value(name).map(|(name, node)| (*name, *node));
            let known = known.of(name).or_else(self_before);
            former(&nodes, name, etcd.named(name).next(), known, &identities, limits)
        })
        .chain(etcd.guessed().map(|member| former(&nodes, "", Some(member), None, &identities, limits)));
    let found = join_all(asked).await;
    seen.former = told_apart(cluster, found, &mut etcd);
    for (node, answer) in running.into_iter().zip(answers) {
        if let Probe::Unreachable(unreached) = &answer.talos
            // One that waits for its first config may do so at any address.
            && !awaits_config(world, node)
        {
            unobserved.say(Aspect::Node(node.name.clone()), unreached.why.clone());
            seen.unreached.insert(node.name.clone(), unreached.clone());
        }
        let known = known.of(&node.name).map(|(_, known)| known);
        seen.nodes.insert(node.name.clone(), view(node, answer, known, &etcd));
    }
    seen.members = etcd.members();
    seen
}

/// A node as its own answers, Kubernetes and etcd show it.
fn view(node: &Node, answer: Answer, known: Option<&KubeNode>, etcd: &Etcd) -> NodeView {
    NodeView {
        etcd: etcd.view(node, answer.etcd.as_ref()),
        talos: talos_view(answer.talos),
        ready: known.map(|node| node.ready),
        elsewhere: known.and_then(|known| elsewhere(node, known)),
        kubelet: known.map(|node| node.kubelet.clone()),
        config: answer.config,
        versions: answer.versions,
        schematic: answer.schematic,
    }
}

/// What is known of nodes that the inventory does not name, by their names. etcd learns what they say of themselves.
fn told_apart(cluster: &Cluster, mut found: Vec<Found>, etcd: &mut Etcd) -> BTreeMap<String, FormerView> {
    // What a machine says of itself is added to what is known of its VM.
    found.sort_by_key(|former| former.is.is_some());
    etcd.rename(&found);
    let mut all = BTreeMap::new();
    for Found { name, is, view, serves, .. } in found {
        etcd.serve(serves);
        let name = is.unwrap_or(name);
        if !name.is_empty() && cluster.node(&name).is_none() {
            let known = all.remove(&name);
            all.insert(name, view.beside(known));
        }
    }
    all
}

/// Where Kubernetes knows a node, if not at its address.
fn elsewhere(node: &Node, known: &KubeNode) -> Option<String> {
    let is_there = node.address.is_none_or(|address| known.addresses.contains(&address.addr()));
    known.addresses.first().filter(|_| !is_there).map(ToString::to_string)
}

/// The nodes whose VMs are ours and run, and of which it is known where they are.
fn running<'c>(cluster: &'c Cluster, world: &World, unobserved: &UnobservedList) -> Vec<&'c Node> {
    let up: HashSet<&str> = world.ours().filter(|(_, guest)| guest.running).map(|(node, _)| node).collect();
    let running = cluster.nodes.iter().filter(|node| up.contains(node.name.as_str()));
    let (running, hidden): (Vec<&Node>, Vec<&Node>) = running.partition(|node| node.address.is_some());
    for node in hidden.into_iter().filter(|node| !awaits_config(world, node)) {
        unobserved.say(Aspect::Node(node.name.clone()), "its guest agent reports no address");
    }
    running
}

/// The nodes that the inventory does not name although a VM of ours, etcd or Kubernetes does.
fn undeclared<'a>(
    cluster: &Cluster,
    world: &'a World,
    etcd: &'a Etcd,
    known: &'a KubeNodes,
) -> BTreeSet<&'a str> {
    let declared: HashSet<&str> = cluster.nodes.iter().map(|node| node.name.as_str()).collect();
    world
        .ours()
        .map(|(node, _)| node)
        .chain(etcd.names())
        .chain(known.all())
        .chain(known.former_selves().map(|(name, _)| name))
        .filter(|name| !name.is_empty() && !declared.contains(name))
        .collect()
}

pub(super) fn talos_view(probe: Probe) -> TalosView {
    match probe {
        Probe::Configured { version, stage } => TalosView::Configured { version, stage },
        Probe::Maintenance => TalosView::Maintenance,
        Probe::OtherCluster => TalosView::OtherCluster,
        Probe::Unreachable(_) => TalosView::Unreachable,
    }
}

fn awaits_config(world: &World, node: &Node) -> bool {
    let guest = world.guests.get(&node.vmid).and_then(|guest| guest.config.as_ref());
    guest.is_some_and(|config| config.waiting)
}

/// One node's own words.
pub(super) struct Answer {
    pub(super) talos: Probe,
    pub(super) etcd: Option<Membership>,
    pub(super) config: ConfigView,
    pub(super) versions: Option<RunningVersions>,
    pub(super) schematic: Option<String>,
}

impl Answer {
    pub(super) fn of(talos: Probe) -> Self {
        Self { talos, etcd: None, config: ConfigView::Unknown, versions: None, schematic: None }
    }
}

/// What every node is asked, and what is needed for it.
struct Question<'a> {
    nodes: &'a Nodes,
    cluster: &'a Cluster,
    configs: &'a Configs,
    limits: &'a Limits,
    unobserved: &'a UnobservedList,
}

impl<'a> Question<'a> {
    async fn ask_all(&'a self, nodes: &[&'a Node]) -> Vec<Answer> {
        let asked: Vec<_> = nodes.iter().map(|node| self.ask(node)).collect();
        stream::iter(asked).buffered(self.limits.probes).collect().await
    }

    /// Where nobody has an etcd, those that wait for one are asked again: a member that boots says the same for a moment.
    async fn ask_again(&'a self, nodes: &[&'a Node], answers: &mut [Answer]) {
        let waits = |answer: &Answer| matches!(answer.etcd, Some(Membership::NotJoined(_)));
        let has = |answer: &Answer| matches!(&answer.etcd, Some(Membership::Of { members, .. }) if !members.is_empty());
        if answers.iter().any(has) || !answers.iter().any(waits) {
            return;
        }
        tokio::time::sleep(PREPARING_PASSES).await;
        let waiting = nodes.iter().zip(answers.iter()).filter(|(_, answer)| waits(answer));
        let waiting: Vec<&Node> = waiting.map(|(node, _)| *node).collect();
        let again = self.ask_all(&waiting).await;
        for (answer, new) in answers.iter_mut().filter(|answer| waits(answer)).zip(again) {
            *answer = new;
        }
    }

    /// Asks a node. Boxed, because the compiler cannot see through closures over borrowed nodes that the whole look may
    /// move between threads.
    fn ask(&'a self, node: &'a Node) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let began = Instant::now();
            let talos = self.nodes.probe(node, self.limits.probe_timeout).await;
            let Probe::Configured { stage, version } = &talos else { return Answer::of(talos) };
            let (etcd, (config, versions), schematic) = tokio::join!(
                self.etcd(node, stage, began),
                self.config(node, version),
                self.nodes.schematic(node, self.limits.probe_timeout),
            );
            Answer { talos, etcd, config, versions, schematic }
        })
    }

    async fn config(&self, node: &Node, version: &str) -> (ConfigView, Option<RunningVersions>) {
        // The declared one cannot be made; that is said once, for all nodes.
        if !self.cluster.lacks.is_empty() {
            return (ConfigView::Unknown, None);
        }
        let look = config::look(self.nodes, self.configs, node, version, self.limits);
        look.await.unwrap_or_else(|why| {
            self.unobserved.say(Aspect::MachineConfig(node.name.clone()), why);
            (ConfigView::Unknown, None)
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
async fn known(
    kubernetes: &Kubernetes,
    planes: &[&Node],
    identities: &NodeIdentities,
    patience: Duration,
) -> Option<KubeNodes> {
    if planes.is_empty() {
        return None;
    }
    let asked = planes.iter().map(|node| {
        let target = addresses::target(node, API_SERVER_PORT);
        Box::pin(async move { kubernetes.nodes(&target, identities, patience).await })
    });
    match futures::future::select_ok(asked.collect::<Vec<_>>()).await {
        Ok((nodes, _)) => Some(nodes),
        // Before bootstrap no API server answers; the endpoint's silence says so already.
        Err(_) => None,
    }
}

/// What was found of a node that the inventory does not name.
pub(super) struct Found {
    name: String,
    /// Which of our machines it says it is, if it was known by another name so far.
    pub(super) is: Option<String>,
    view: FormerView,
    /// Its member.
    pub(super) member: Option<u64>,
    /// That, if it serves.
    serves: Option<u64>,
}

/// A node that the inventory does not name, asked at the address that etcd or Kubernetes knows of it.
async fn former(
    nodes: &Nodes,
    name: &str,
    member: Option<&Member>,
    known: Option<(&str, &KubeNode)>,
    identities: &NodeIdentities,
    limits: &Limits,
) -> Found {
    let known_as = known.map(|(known_as, _)| known_as.to_owned()).filter(|known_as| known_as != name);
    let called = member.map(|member| member.name.clone()).filter(|called| called != name);
    let known = known.map(|(_, known)| known);
    let addresses =
        member.map(|member| &member.addresses).into_iter().chain(known.map(|node| &node.addresses));
    let address = addresses.flatten().next().copied();
    let role = match (member, known) {
        (Some(_), _) => Some(Role::ControlPlane),
        (None, Some(known)) if known.control_plane => Some(Role::ControlPlane),
        (None, Some(_)) => Some(Role::Worker),
        (None, None) => None,
    };
    let ready = known.map(|node| node.ready);
    let view = FormerView {
        address: address.map(|a| a.to_string()),
        known_as,
        called: called.clone(),
        role,
        ready,
        ..FormerView::default()
    };
    let member_id = member.map(|member| member.id);
    let mut found = Found { name: name.to_owned(), is: None, view, member: member_id, serves: None };
    let Some(address) = address else { return found };
    let view = &mut found.view;
    let peer = Former { name: name.to_owned(), address, called: called.unwrap_or_else(|| name.to_owned()) };
    view.talos = talos_view(nodes.probe(&peer, limits.probe_timeout).await);
    let (Some(member), TalosView::Configured { .. }) = (member, &view.talos) else { return found };
    // Its address may be another's by now, who is neither it nor its member.
    let Some(machine) = nodes.machine(&peer, limits.probe_timeout).await else { return found };
    if !member.learner {
        let answer = nodes.members(&peer, limits.probe_timeout).await;
        let serves = matches!(&answer, Membership::Of { own, .. } if *own == Some(member.id));
        found.serves = serves.then_some(member.id);
    }
    // Where neither its name nor Kubernetes told whose a member is, its machine does. What Kubernetes has under that name is then
    // another's.
    let untold = name.is_empty() || member.name == name;
    let is = machine.filter(|_| untold).and_then(|uuid| identities.by_machine(uuid));
    if let Some(is) = is.filter(|is| *is != name) {
        found.is = Some(is.to_owned());
        (view.called, view.known_as, view.ready) = (Some(member.name.clone()), None, None);
    }
    found
}
