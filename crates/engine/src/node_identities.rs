//! Who is who: which node it is that etcd and Kubernetes have under a name that DHCP or somebody else may have given it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;

use daedal_inventory::options::HostnameFrom;
use daedal_inventory::{Cluster, Node};
use daedal_planner::{Judge, Ownership, World};
use uuid::Uuid;

use crate::addresses::Addresses;
use crate::kubernetes::KubeNode;
use crate::nodes::Member;

/// Whose a member of etcd is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owner {
    /// The node; empty where nobody can say.
    pub(crate) name: String,
    /// Nothing but where it is or what it is called speaks for that, or against everybody; others may have been there and have
    /// been called so. Its machine is to be asked.
    pub(crate) guessed: bool,
}

impl Owner {
    pub(crate) fn surely(name: &str) -> Self {
        Self { name: name.to_owned(), guessed: false }
    }
}

/// The nodes that are declared and the VMs that once were, by what each can be told by: its machine's uuid, which is made
/// from its name; then its name, unless that is left to DHCP, which may give it to anybody. Addresses are given to others when a node
/// is gone, so they tell only of nodes that have no names of their own, and not for certain.
#[derive(Debug, Default)]
pub(crate) struct NodeIdentities {
    machines: HashMap<Uuid, String>,
    /// The declared nodes whose names are left to DHCP, and where they are.
    unnamed: HashSet<String>,
    places: HashMap<IpAddr, String>,
    found: Addresses,
    /// Members of etcd by their ids, where it was seen before whose they are.
    members: HashMap<u64, String>,
    /// Nodes that are no longer declared, by what they call themselves.
    called: HashMap<String, String>,
}

impl NodeIdentities {
    /// The identities of a cluster, with an eye on addresses that are found on the way.
    pub(crate) fn new(cluster: &Cluster, world: &World, found: Addresses) -> Self {
        let judge = Judge::new(cluster);
        let undeclared = world.guests.values().filter_map(|guest| match &guest.ownership {
            Ownership::Ours { node, .. } => Some((judge.smbios_uuid(node), node.clone())),
            _ => None,
        });
        let declared = cluster.nodes.iter().map(|node| (node.uuid, node.name.clone()));
        let former = world.former.iter();
        let called = former.filter_map(|(name, view)| Some((view.called.clone()?, name.clone())));
        let dhcp = |node: &&Node| node.machine.hostname == Some(HostnameFrom::Dhcp);
        let unnamed = || cluster.nodes.iter().filter(dhcp);
        let member = |id: &str| u64::from_str_radix(id, 16).ok();
        Self {
            machines: undeclared.chain(declared).collect(),
            unnamed: unnamed().map(|node| node.name.clone()).collect(),
            places: unnamed().filter_map(|node| Some((node.ip()?, node.name.clone()))).collect(),
            found,
            members: world
                .members
                .iter()
                .filter(|one| !one.name.is_empty() && !one.guessed)
                .filter_map(|one| Some((member(&one.id)?, one.name.clone())))
                .collect(),
            called: called.collect(),
        }
    }

    /// Whose machine has this uuid.
    pub(crate) fn by_machine(&self, uuid: Uuid) -> Option<&str> {
        written(uuid).iter().find_map(|uuid| self.machines.get(uuid)).map(String::as_str)
    }

    fn by_address(&self, addresses: &[IpAddr]) -> Option<String> {
        let found = |at: &IpAddr| self.found.whose(*at).filter(|name| self.unnamed.contains(name));
        addresses.iter().find_map(|at| self.places.get(at).cloned().or_else(|| found(at)))
    }

    /// Which node Kubernetes has under this name, if it can be told. A machine that says it is none of ours is not one for where
    /// it was.
    pub(crate) fn of_kubernetes(&self, name: &str, node: &KubeNode) -> Option<String> {
        let told = match node.machine {
            Some(uuid) => self.by_machine(uuid).map(str::to_owned),
            None => self.by_address(&node.addresses),
        };
        told.or_else(|| (!self.unnamed.contains(name)).then(|| name.to_owned()))
    }

    /// Whose member of etcd this is. Kubernetes and etcd know a node by the same name, and Kubernetes knows more of it. One
    /// that has not started has no name yet, and is nobody's.
    pub(crate) fn of_member(&self, member: &Member, known: Option<&KubeNodes>) -> Owner {
        if member.name.is_empty() {
            return Owner::default();
        }
        if let Some(name) = self.members.get(&member.id) {
            return Owner::surely(name);
        }
        let same = known.and_then(|known| known.by_name.get(&member.name)).filter(|(_, node)| {
            member.addresses.is_empty() || member.addresses.iter().any(|at| node.addresses.contains(at))
        });
        if let Some((Some(name), node)) = same {
            let sure = !self.unnamed.contains(name) || node.machine.is_some();
            return Owner { name: name.clone(), guessed: !sure };
        }
        if let Some(name) = self.by_address(&member.addresses) {
            return Owner { name, guessed: true };
        }
        self.by_name(member)
    }

    /// Whose it is by nothing but what it is called.
    pub(crate) fn by_name(&self, member: &Member) -> Owner {
        match self.called.get(&member.name).unwrap_or(&member.name) {
            name if self.unnamed.contains(name) => Owner { name: String::new(), guessed: true },
            name => Owner::surely(name),
        }
    }
}

/// A uuid as machines may tell it: some firmware writes the first fields the other way round.
pub(crate) fn written(uuid: Uuid) -> [Uuid; 2] {
    [uuid, Uuid::from_bytes_le(*uuid.as_bytes())]
}

/// All nodes that Kubernetes knows, and which nodes of ours they are.
#[derive(Clone, Debug, Default)]
pub(crate) struct KubeNodes {
    /// By the names that Kubernetes has them under, with the nodes of ours that they are, if that can be told.
    by_name: BTreeMap<String, (Option<String>, KubeNode)>,
    whose: BTreeMap<String, BTreeSet<String>>,
}

impl KubeNodes {
    /// Those of a list.
    pub(crate) fn new(
        listed: impl IntoIterator<Item = (String, KubeNode)>,
        identities: &NodeIdentities,
    ) -> Self {
        let mut all = Self::default();
        listed.into_iter().for_each(|(name, node)| all.put(name, node, identities));
        all
    }

    /// A node as it is now.
    pub(crate) fn put(&mut self, name: String, node: KubeNode, identities: &NodeIdentities) {
        self.remove(&name);
        let whose = identities.of_kubernetes(&name, &node);
        if let Some(whose) = &whose {
            self.whose.entry(whose.clone()).or_default().insert(name.clone());
        }
        self.by_name.insert(name, (whose, node));
    }

    /// A node is gone.
    pub(crate) fn remove(&mut self, name: &str) {
        let Some((Some(whose), _)) = self.by_name.remove(name) else { return };
        if let Some(names) = self.whose.get_mut(&whose) {
            names.remove(name);
            if names.is_empty() {
                self.whose.remove(&whose);
            }
        }
    }

    /// One of our nodes, with the name that Kubernetes has it under. Where a former self of it is still known beside it,
    /// the one that reported last.
    pub(crate) fn of(&self, node: &str) -> Option<(&str, &KubeNode)> {
        let names = self.whose.get(node)?.iter();
        let all = names.filter_map(|name| Some((name.as_str(), &self.by_name.get(name)?.1)));
        all.max_by_key(|(_, node)| (node.heartbeat, node.ready))
    }

    /// What nodes were before they had another name, by that.
    pub(crate) fn former_selves(&self) -> impl Iterator<Item = (&str, &KubeNode)> {
        let several = self.whose.iter().filter(|(_, names)| names.len() > 1);
        several.flat_map(|(node, names)| {
            let current = self.of(node).map(|(name, _)| name);
            let former = names.iter().filter(move |name| Some(name.as_str()) != current);
            former.filter_map(|name| Some((name.as_str(), &self.by_name.get(name)?.1)))
        })
    }

    /// The nodes that it is about, by our names for them; what is nobody's of ours by its own.
    pub(crate) fn all(&self) -> impl Iterator<Item = &str> {
        self.whose.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use daedal_planner::{FormerView, GuestView, MemberView};

    use super::*;

    fn cluster() -> Cluster {
        let text = include_str!("../../../examples/home/cluster.yaml").to_owned();
        let source = daedal_inventory::Source { name: "cluster.yaml".into(), text };
        let no_files = |_: &std::path::Path| Err(std::io::Error::from(std::io::ErrorKind::NotFound));
        let mut cluster = daedal_inventory::load(&[source], &no_files).unwrap().cluster;
        for node in &mut cluster.nodes {
            node.machine.hostname = Some(HostnameFrom::Dhcp);
        }
        cluster
    }

    fn identities(cluster: &Cluster, world: &World) -> NodeIdentities {
        NodeIdentities::new(cluster, world, Addresses::default())
    }

    fn kube(address: &str) -> KubeNode {
        KubeNode { addresses: address.parse().into_iter().collect(), ready: true, ..KubeNode::default() }
    }

    fn guess(name: &str) -> Owner {
        Owner { name: name.to_owned(), guessed: true }
    }

    fn member(id: u64, name: &str, address: &str) -> Member {
        let addresses = address.parse().into_iter().collect();
        Member { id, name: name.into(), addresses, learner: false }
    }

    #[test]
    fn a_node_is_told_by_its_address_whatever_others_call_it() {
        let identities = identities(&cluster(), &World::default());
        assert_eq!(identities.of_member(&member(1, "talos-abc-def", "10.0.0.11"), None), guess("cp-1"));
        assert_eq!(identities.of_kubernetes("talos-abc-def", &kube("10.0.0.21")).unwrap(), "worker-1");
        // Two that have each other's names.
        assert_eq!(identities.of_member(&member(1, "cp-2", "10.0.0.11"), None), guess("cp-1"));
        assert_eq!(identities.of_member(&member(2, "cp-1", "10.0.0.12"), None), guess("cp-2"));
        let crossed = [("cp-2", "10.0.0.11"), ("cp-1", "10.0.0.12"), ("worker-2", "10.0.0.21")];
        let known =
            KubeNodes::new(crossed.map(|(name, address)| (name.to_owned(), kube(address))), &identities);
        assert_eq!(known.of("cp-1").unwrap().0, "cp-2");
        assert_eq!(known.of("cp-2").unwrap().0, "cp-1");
        assert_eq!(known.of("worker-1").unwrap().0, "worker-2");
        assert!(known.of("worker-2").is_none(), "its name is another's, and it is not there");
        assert_eq!(known.all().collect::<Vec<_>>(), ["cp-1", "cp-2", "worker-1"]);
        // One of several addresses is enough, wherever it stands.
        let mut two = kube("fd00::21");
        two.addresses.push("10.0.0.21".parse().unwrap());
        assert_eq!(identities.of_kubernetes("x", &two).unwrap(), "worker-1");
    }

    /// DHCP may give anybody the name that the inventory has for a node.
    #[test]
    fn a_name_that_is_left_to_dhcp_tells_nothing() {
        let identities = identities(&cluster(), &World::default());
        assert_eq!(identities.of_member(&member(1, "cp-1", ""), None), guess(""));
        assert_eq!(identities.of_member(&member(1, "cp-1", "10.9.9.9"), None), guess(""));
        assert_eq!(identities.of_member(&member(1, "old", "10.9.9.9"), None), Owner::surely("old"));
        assert_eq!(
            identities.of_member(&member(1, "", "10.0.0.11"), None),
            Owner::default(),
            "it has not started"
        );
        assert_eq!(identities.of_kubernetes("worker-1", &KubeNode::default()), None);
        let stranger = KubeNode { machine: Some(Uuid::from_u128(7)), ..kube("10.0.0.11") };
        assert_eq!(identities.of_kubernetes("cp-1", &stranger), None);
        let known = KubeNodes::new([("cp-1".to_owned(), stranger)], &identities);
        assert!(known.of("cp-1").is_none() && known.all().next().is_none());
    }

    #[test]
    fn a_machine_is_told_by_its_uuid_before_its_address() {
        let cluster = cluster();
        let ours = Ownership::Ours { node: "worker-9".into(), digest: String::new() };
        let mut world = World::default();
        world.guests.insert(900, GuestView { vmid: 900, ownership: ours, ..GuestView::default() });
        let identities = identities(&cluster, &world);
        // No longer declared, and another is declared at its address.
        let uuid = Judge::new(&cluster).smbios_uuid("worker-9");
        let node = KubeNode { machine: Some(uuid), ..kube("10.0.0.13") };
        assert_eq!(identities.of_kubernetes("talos-x", &node).unwrap(), "worker-9");
        let backwards = Uuid::from_bytes(uuid.to_bytes_le());
        let node = KubeNode { machine: Some(backwards), ..node };
        assert_eq!(identities.of_kubernetes("talos-x", &node).unwrap(), "worker-9");
        // What Kubernetes knows by its uuid is the same one in etcd.
        let known = KubeNodes::new([("talos-x".to_owned(), node)], &identities);
        let of = |address| identities.of_member(&member(1, "talos-x", address), Some(&known));
        assert_eq!(of("10.0.0.13"), Owner::surely("worker-9"));
        assert_eq!(of("10.0.0.12"), guess("cp-2"));
        // What is left of a machine that is no more is not the node that has its address now.
        let node = KubeNode { machine: Some(Uuid::from_u128(7)), ..kube("10.0.0.11") };
        assert_eq!(identities.of_kubernetes("talos-old", &node).unwrap(), "talos-old");
    }

    /// A VM is lost, and a new node is declared at its address: the old member and the old object are not the new node's.
    #[test]
    fn a_node_with_a_name_is_not_told_by_its_address() {
        let mut cluster = cluster();
        for node in &mut cluster.nodes {
            node.machine.hostname = None;
        }
        let identities = identities(&cluster, &World::default());
        assert_eq!(identities.of_member(&member(3, "cp-old", "10.0.0.13"), None), Owner::surely("cp-old"));
        assert_eq!(identities.of_kubernetes("cp-old", &kube("10.0.0.13")).unwrap(), "cp-old");
        let gone = KubeNode { machine: Some(Uuid::from_u128(7)), ..kube("10.0.0.13") };
        assert_eq!(identities.of_kubernetes("cp-old", &gone).unwrap(), "cp-old");
        assert_eq!(identities.of_member(&member(3, "cp-3", "10.9.9.9"), None), Owner::surely("cp-3"));
    }

    #[test]
    fn what_was_seen_before_is_remembered() {
        let mut world = World::default();
        let seen = MemberView { id: "b0".into(), name: "cp-9".into(), ..MemberView::default() };
        world.members.push(seen);
        let former = FormerView { called: Some("talos-x".into()), ..FormerView::default() };
        world.former.insert("cp-9".into(), former);
        let identities = identities(&cluster(), &world);
        assert_eq!(identities.of_member(&member(0xb0, "talos-y", "10.0.0.11"), None), Owner::surely("cp-9"));
        assert_eq!(identities.of_member(&member(0xb1, "talos-x", ""), None), Owner::surely("cp-9"));
    }

    #[test]
    fn of_two_selves_the_one_that_reported_last_counts() {
        let identities = identities(&cluster(), &World::default());
        let at = |second| KubeNode {
            heartbeat: jiff::Timestamp::from_second(second).ok(),
            ready: second == 10,
            ..kube("10.0.0.21")
        };
        let mut known =
            KubeNodes::new([("talos-old".into(), at(10)), ("talos-new".into(), at(20))], &identities);
        assert_eq!(known.of("worker-1").map(|(name, node)| (name, node.ready)), Some(("talos-new", false)));
        // What it was before is there under its own name, so that it can be removed.
        assert_eq!(known.all().collect::<Vec<_>>(), ["worker-1"]);
        let former: Vec<_> = known.former_selves().map(|(name, node)| (name, node.ready)).collect();
        assert_eq!(former, [("talos-old", true)]);
        known.remove("talos-new");
        assert_eq!(known.of("worker-1").unwrap().0, "talos-old");
        assert!(known.former_selves().next().is_none());
        known.remove("talos-old");
        assert!(known.of("worker-1").is_none() && known.all().next().is_none());
    }
}
