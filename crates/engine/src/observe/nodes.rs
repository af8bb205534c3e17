//! What the nodes say of themselves: Talos, etcd, Kubernetes; asked in parallel and with little patience.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::time::Duration;

use daedal_inventory::{Cluster, Node, Role};
use daedal_planner::{
    ConfigView, EtcdView, FormerView, GuestView, MemberView, NodeView, Ownership, TalosView, World,
};
use daedal_talos::SecretsBundle;
use futures::future::{BoxFuture, join_all};
use futures::stream::{self, StreamExt};
use tokio::time::Instant;

use crate::addresses::{self, Addresses};
use crate::engine::Engine;
use crate::error::Error;
use crate::kubernetes::{API_SERVER_PORT, KubeNode, Kubernetes};
use crate::limits::Limits;
use crate::nodes::{Former, Member, Membership, Nodes, PREPARING_PASSES, Probe};
use crate::observe::{Blinds, config};
use crate::roll::{KubeNodes, Roll, Whose};

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
    let running = running(cluster, world, blinds);
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
    let planes: Vec<&Node> = running.iter().copied().filter(|node| node.role == Role::ControlPlane).collect();
    let endpoint = addresses::endpoint(cluster);
    let roll = Roll::new(cluster, world, Addresses::default());
    let (mut answers, known, endpoint) = tokio::join!(
        question.ask_all(&running),
        known(&kubernetes, &planes, &roll, limits.probe_timeout),
        kubernetes.answers(&endpoint, limits.probe_timeout),
    );
    question.ask_again(&running, &mut answers).await;
    if let Err(error @ Error::OtherAuthority { .. }) = &endpoint {
        let fix = error.fix().unwrap_or_default();
        blinds.say("Kubernetes", format!("{error}; {fix}"));
    }

    let mut seen =
        Seen { endpoint_answers: endpoint.is_ok(), kubernetes_told: known.is_some(), ..Seen::default() };
    let known = known.unwrap_or_default();
    let mut etcd = Etcd::of(&running, &answers, &roll, &known, blinds);
    let selves: HashMap<&str, &KubeNode> = known.former_selves().collect();
    let asked = undeclared(cluster, world, &etcd, &known)
        .into_iter()
        .map(|name| {
            let self_before = || selves.get_key_value(name).map(|(name, node)| (*name, *node));
            let known = known.of(name).or_else(self_before);
            former(&nodes, name, etcd.named(name).next(), known, &roll, limits)
        })
        .chain(etcd.guessed().map(|member| former(&nodes, "", Some(member), None, &roll, limits)));
    let mut found = join_all(asked).await;
    // What a machine says of itself is added to what is known of its VM.
    found.sort_by_key(|former| former.is.is_some());
    etcd.rename(&found);
    for Found { name, is, view, serves, .. } in found {
        etcd.serving.extend(serves);
        let name = is.unwrap_or(name);
        if !name.is_empty() && cluster.node(&name).is_none() {
            let known = seen.former.remove(&name);
            seen.former.insert(name, view.beside(known));
        }
    }
    for (node, answer) in running.into_iter().zip(answers) {
        if let Probe::Unreachable(why) = &answer.talos
            // One that waits for its first config may do so at any address.
            && !awaits_config(world, node)
        {
            blinds.say(format!("node {}", node.name), why.clone());
        }
        let known = known.of(&node.name).map(|(_, known)| known);
        let view = NodeView {
            etcd: etcd.view(node, answer.etcd.as_ref()),
            talos: talos_view(answer.talos),
            ready: known.map(|node| node.ready),
            kubelet: known.map(|node| node.kubelet.clone()),
            config: answer.config,
        };
        seen.nodes.insert(node.name.clone(), view);
    }
    seen.members = etcd.members();
    seen
}

/// The nodes whose VMs are ours and run, and of which it is known where they are.
fn running<'c>(cluster: &'c Cluster, world: &World, blinds: &Blinds) -> Vec<&'c Node> {
    let up: HashSet<&str> = ours(world).filter(|(_, guest)| guest.running).map(|(node, _)| node).collect();
    let running = cluster.nodes.iter().filter(|node| up.contains(node.name.as_str()));
    let (running, hidden): (Vec<&Node>, Vec<&Node>) = running.partition(|node| node.address.is_some());
    for node in hidden.into_iter().filter(|node| !awaits_config(world, node)) {
        blinds.say(format!("node {}", node.name), "its guest agent does not say where it is");
    }
    running
}

/// The VMs that are ours, by the names of their nodes.
fn ours(world: &World) -> impl Iterator<Item = (&str, &GuestView)> {
    world.guests.values().filter_map(|guest| match &guest.ownership {
        Ownership::Ours { node, .. } => Some((node.as_str(), guest)),
        _ => None,
    })
}

/// The nodes that the inventory does not name although a VM of ours, etcd or Kubernetes does.
fn undeclared<'a>(
    cluster: &Cluster,
    world: &'a World,
    etcd: &'a Etcd,
    known: &'a KubeNodes,
) -> BTreeSet<&'a str> {
    let declared: HashSet<&str> = cluster.nodes.iter().map(|node| node.name.as_str()).collect();
    ours(world)
        .map(|(node, _)| node)
        .chain(etcd.listed.values().map(|(whose, _)| whose.name.as_str()))
        .chain(known.all())
        .chain(known.former_selves().map(|(name, _)| name))
        .filter(|name| !name.is_empty() && !declared.contains(name))
        .collect()
}

fn talos_view(probe: Probe) -> TalosView {
    match probe {
        Probe::Configured { version, stage } => TalosView::Configured { version, stage },
        Probe::Maintenance => TalosView::Maintenance,
        Probe::OtherCluster => TalosView::OtherCluster,
        Probe::Unreachable(_) => TalosView::Unreachable,
    }
}

/// The members of etcd, as the control planes list them, and whose they are.
#[derive(Default)]
struct Etcd {
    listed: BTreeMap<u64, (Whose, Member)>,
    serving: HashSet<u64>,
}

impl Etcd {
    /// One member's list tells of all. Lists that have no member in common are two clusters under one name.
    fn of(nodes: &[&Node], answers: &[Answer], roll: &Roll, known: &KubeNodes, blinds: &Blinds) -> Self {
        let mut etcd = Self::default();
        let mut owners: HashMap<u64, &str> = HashMap::new();
        for (node, answer) in nodes.iter().zip(answers) {
            let Some(Membership::Of { members, own }) = &answer.etcd else { continue };
            let in_common = members.iter().any(|member| etcd.listed.contains_key(&member.id));
            if !etcd.listed.is_empty() && !in_common {
                blinds.say("etcd", format!("{} is in another etcd than the other control planes", node.name));
                continue;
            }
            owners.extend(own.map(|own| (own, node.name.as_str())));
            for member in members {
                let whose = roll.of_member(member, Some(known));
                etcd.listed.insert(member.id, (whose, member.clone()));
            }
        }
        etcd.serving.extend(owners.keys());
        for (id, (whose, member)) in &mut etcd.listed {
            match owners.get(id) {
                Some(owner) => *whose = Whose::surely(owner),
                // Who says which member it is has no other: that is one it was before, or somebody else's.
                None if whose.guessed && owners.values().any(|owner| **owner == whose.name) => {
                    *whose = roll.by_name(member);
                }
                None => {}
            }
        }
        etcd
    }

    /// Those of which only their machines can say whose they are.
    fn guessed(&self) -> impl Iterator<Item = &Member> {
        self.listed.values().filter(|(whose, _)| whose.guessed).map(|(_, member)| member)
    }

    /// The members of this node: usually one.
    fn named(&self, name: &str) -> impl Iterator<Item = &Member> {
        self.listed.values().filter(move |(whose, _)| whose.name == name).map(|(_, member)| member)
    }

    /// Members that were known by one name are found to be other nodes'.
    fn rename(&mut self, found: &[Found]) {
        for (id, is) in found.iter().filter_map(|found| Some((found.member?, found.is.as_ref()?))) {
            if let Some((whose, _)) = self.listed.get_mut(&id) {
                *whose = Whose::surely(is);
            }
        }
    }

    /// What a node is to etcd. Its own word counts: what the others list under its name may be what it was before it was made
    /// anew, and is dead then. Where it was not asked, only theirs is left.
    fn view(&self, node: &Node, own: Option<&Membership>) -> EtcdView {
        let is = |member: &Member| if member.learner { EtcdView::Learner } else { EtcdView::Member };
        if let Some(Membership::Of { own: Some(id), .. }) = own {
            // Who is in an etcd that the others do not know has told nothing of theirs.
            return self.listed.get(id).map_or(EtcdView::Unknown, |(_, member)| is(member));
        }
        let mut named = self.named(&node.name).peekable();
        let listed = named.peek().is_some();
        match own {
            _ if named.any(|member| member.learner) => EtcdView::Learner,
            None if listed => EtcdView::Member,
            Some(Membership::NotJoined(_)) if !listed => EtcdView::NotJoined,
            Some(Membership::Of { members, .. }) if !listed && members.is_empty() => EtcdView::NotJoined,
            _ => EtcdView::Unknown,
        }
    }

    fn members(self) -> Vec<MemberView> {
        let view = |(whose, member): (Whose, Member)| MemberView {
            id: format!("{:x}", member.id),
            serves: self.serving.contains(&member.id),
            address: member.addresses.first().map(IpAddr::to_string),
            name: whose.name,
            learner: member.learner,
            guessed: whose.guessed,
        };
        self.listed.into_values().map(view).collect()
    }
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
async fn known(
    kubernetes: &Kubernetes,
    planes: &[&Node],
    roll: &Roll,
    patience: Duration,
) -> Option<KubeNodes> {
    if planes.is_empty() {
        return None;
    }
    let asked = planes.iter().map(|node| {
        let target = addresses::target(node, API_SERVER_PORT);
        Box::pin(async move { kubernetes.nodes(&target, roll, patience).await })
    });
    match futures::future::select_ok(asked.collect::<Vec<_>>()).await {
        Ok((nodes, _)) => Some(nodes),
        // Before bootstrap no API server answers; the endpoint's silence says so already.
        Err(_) => None,
    }
}

/// What was found of a node that the inventory does not name.
struct Found {
    name: String,
    /// Which of our machines it says it is, if it was known by another name so far.
    is: Option<String>,
    view: FormerView,
    /// Its member.
    member: Option<u64>,
    /// That, if it serves.
    serves: Option<u64>,
}

/// A node that the inventory does not name, asked at the address that etcd or Kubernetes knows of it.
async fn former(
    nodes: &Nodes,
    name: &str,
    member: Option<&Member>,
    known: Option<(&str, &KubeNode)>,
    roll: &Roll,
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
    let is = machine.filter(|_| untold).and_then(|uuid| roll.by_machine(uuid));
    if let Some(is) = is.filter(|is| *is != name) {
        found.is = Some(is.to_owned());
        (view.called, view.known_as, view.ready) = (Some(member.name.clone()), None, None);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(id: u64, name: &str, address: &str) -> Member {
        let addresses = address.parse().into_iter().collect();
        Member { id, name: name.into(), addresses, learner: false }
    }

    fn declared() -> Cluster {
        let text = include_str!("../../../../examples/home/cluster.yaml").to_owned();
        let source = daedal_inventory::Source { name: "cluster.yaml".into(), text };
        let no_files = |_: &std::path::Path| Err(std::io::Error::from(std::io::ErrorKind::NotFound));
        daedal_inventory::load(&[source], &no_files).unwrap().cluster
    }

    /// A control plane was made anew and got another name from DHCP: what it was before is not its member any more.
    #[test]
    fn who_says_which_member_it_is_has_no_other() {
        let mut cluster = declared();
        for node in &mut cluster.nodes {
            node.machine.hostname = Some(daedal_inventory::options::HostnameFrom::Dhcp);
        }
        let planes: Vec<&Node> = cluster.control_planes().take(2).collect();
        let list = [
            member(1, "talos-a", "10.0.0.11"),
            member(2, "talos-b", "10.0.0.12"),
            member(3, "talos-b-before", "10.0.0.12"),
            member(4, "talos-c", "10.0.0.13"),
        ];
        let answer = |own| Answer {
            etcd: Some(Membership::Of { members: list.to_vec(), own }),
            ..Answer::of(Probe::Maintenance)
        };
        let (roll, known) =
            (Roll::new(&cluster, &World::default(), Addresses::default()), KubeNodes::default());
        let whose = |answers: &[Answer]| -> Vec<(String, bool, bool)> {
            let etcd = Etcd::of(&planes, answers, &roll, &known, &Blinds::default());
            etcd.members().into_iter().map(|one| (one.name, one.serves, one.guessed)).collect()
        };
        let told = |all: [(&str, bool, bool); 4]| all.map(|(a, b, c)| (a.to_owned(), b, c)).to_vec();
        let (serves, guessed) = (true, true);
        assert_eq!(
            whose(&[answer(Some(1)), answer(Some(2))]),
            told([
                ("cp-1", serves, false),
                ("cp-2", serves, false),
                ("talos-b-before", false, false),
                ("cp-3", false, guessed)
            ])
        );
        // As long as it does not say which, either may be its.
        assert_eq!(
            whose(&[answer(Some(1)), answer(None)]),
            told([
                ("cp-1", serves, false),
                ("cp-2", false, guessed),
                ("cp-2", false, guessed),
                ("cp-3", false, guessed)
            ])
        );
    }

    /// What etcd lists under a node's name may be what it was before: only the node itself can say that it votes.
    #[test]
    fn a_node_is_to_etcd_what_it_says_itself() {
        let cluster = declared();
        let planes: Vec<&Node> = cluster.control_planes().collect();
        let learner = |id, name| Member { learner: true, ..member(id, name, "10.0.0.12") };
        let list =
            [member(1, "cp-1", "10.0.0.11"), member(2, "cp-2", "10.0.0.12"), member(3, "cp-2", "10.0.0.12")];
        let view = |list: &[Member], own: Option<Membership>| {
            let first = Membership::Of { members: list.to_vec(), own: Some(1) };
            let answers =
                [Some(first), own.clone()].map(|etcd| Answer { etcd, ..Answer::of(Probe::Maintenance) });
            let roll = Roll::new(&cluster, &World::default(), Addresses::default());
            let etcd = Etcd::of(&planes[..2], &answers, &roll, &KubeNodes::default(), &Blinds::default());
            etcd.view(planes[1], own.as_ref())
        };
        let of = |members: &[Member], own| Some(Membership::Of { members: members.to_vec(), own });
        let waits = || Some(Membership::NotJoined("its etcd waits".to_owned()));
        let silent = || Some(Membership::Unreachable("its etcd does not answer".to_owned()));
        let (alone, elsewhere) = (&list[..1], [member(9, "cp-2", "10.0.0.12")]);
        for (listed, own, expected) in [
            (&list[..], of(&list, Some(3)), EtcdView::Member),
            (&list, waits(), EtcdView::Unknown),
            (&list, silent(), EtcdView::Unknown),
            (&list, of(&list, None), EtcdView::Unknown),
            (&list, of(&elsewhere, Some(9)), EtcdView::Unknown),
            // Nobody asked it.
            (&list, None, EtcdView::Member),
            (alone, waits(), EtcdView::NotJoined),
            (alone, of(&[], None), EtcdView::NotJoined),
            // It has an etcd, under whatever name.
            (alone, of(alone, None), EtcdView::Unknown),
            (alone, silent(), EtcdView::Unknown),
            (alone, None, EtcdView::Unknown),
        ] {
            assert_eq!(view(listed, own.clone()), expected, "{own:?} beside {listed:?}");
        }
        let learning = [list[0].clone(), list[1].clone(), learner(3, "cp-2")];
        assert_eq!(view(&learning, of(&learning, Some(3))), EtcdView::Learner);
        assert_eq!(view(&learning, of(&learning, Some(2))), EtcdView::Member);
        assert_eq!(view(&learning, silent()), EtcdView::Learner, "it may be the one that learns");
    }
}
