//! The members of etcd, by what control planes say of themselves and list of the others.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;

use daedal_inventory::Node;
use daedal_planner::{Aspect, EtcdView, MemberView};

use super::UnobservedList;
use super::nodes::{Answer, Found};
use crate::node_identities::{KubeNodes, NodeIdentities, Owner};
use crate::nodes::{Member, Membership};

/// The members of etcd, as the control planes list them, and whose they are.
#[derive(Default)]
pub(super) struct Etcd {
    listed: BTreeMap<u64, (Owner, Member)>,
    serving: HashSet<u64>,
}

impl Etcd {
    /// One member's list tells of all. Lists that have no member in common are two clusters under one name.
    pub(super) fn of(
        nodes: &[&Node],
        answers: &[Answer],
        identities: &NodeIdentities,
        known: &KubeNodes,
        unobserved: &UnobservedList,
    ) -> Self {
        let mut etcd = Self::default();
        let mut owners: HashMap<u64, &str> = HashMap::new();
        for (node, answer) in nodes.iter().zip(answers) {
            let Some(Membership::Of { members, own }) = &answer.etcd else { continue };
            let in_common = members.iter().any(|member| etcd.listed.contains_key(&member.id));
            if !etcd.listed.is_empty() && !in_common {
                unobserved.say(
                    Aspect::Etcd,
                    format!("{} is in another etcd than the other control planes", node.name),
                );
                continue;
            }
            owners.extend(own.map(|own| (own, node.name.as_str())));
            for member in members {
                let whose = identities.of_member(member, Some(known));
                etcd.listed.insert(member.id, (whose, member.clone()));
            }
        }
        etcd.serving.extend(owners.keys());
        for (id, (whose, member)) in &mut etcd.listed {
            match owners.get(id) {
                Some(owner) => *whose = Owner::surely(owner),
                // Who says which member it is has no other: that is one it was before, or somebody else's.
                None if whose.guessed && owners.values().any(|owner| **owner == whose.name) => {
                    *whose = identities.by_name(member);
                }
                None => {}
            }
        }
        etcd
    }

    /// Those of which only their machines can say whose they are.
    pub(super) fn guessed(&self) -> impl Iterator<Item = &Member> {
        self.listed.values().filter(|(whose, _)| whose.guessed).map(|(_, member)| member)
    }

    /// The members of this node: usually one.
    pub(super) fn named(&self, name: &str) -> impl Iterator<Item = &Member> {
        self.listed.values().filter(move |(whose, _)| whose.name == name).map(|(_, member)| member)
    }

    /// Whom the members belong to.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.listed.values().map(|(whose, _)| whose.name.as_str())
    }

    /// Members that serve besides those that control planes have named.
    pub(super) fn serve(&mut self, members: impl IntoIterator<Item = u64>) {
        self.serving.extend(members);
    }

    /// Members that were known by one name are found to be other nodes'.
    pub(super) fn rename(&mut self, found: &[Found]) {
        for (id, is) in found.iter().filter_map(|found| Some((found.member?, found.is.as_ref()?))) {
            if let Some((whose, _)) = self.listed.get_mut(&id) {
                *whose = Owner::surely(is);
            }
        }
    }

    /// What a node is to etcd. Its own word counts: what the others list under its name may be what it was before it was made
    /// anew, and is dead then. Where it was not asked, only theirs is left.
    pub(super) fn view(&self, node: &Node, own: Option<&Membership>) -> EtcdView {
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

    pub(super) fn members(self) -> Vec<MemberView> {
        let view = |(whose, member): (Owner, Member)| MemberView {
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

#[cfg(test)]
mod tests {
    use daedal_inventory::Cluster;
    use daedal_planner::World;

    use super::*;
    use crate::addresses::Addresses;
    use crate::nodes::Probe;

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
        let (identities, known) =
            (NodeIdentities::new(&cluster, &World::default(), Addresses::default()), KubeNodes::default());
        let whose = |answers: &[Answer]| -> Vec<(String, bool, bool)> {
            let etcd = Etcd::of(&planes, answers, &identities, &known, &UnobservedList::default());
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
            let identities = NodeIdentities::new(&cluster, &World::default(), Addresses::default());
            let etcd = Etcd::of(
                &planes[..2],
                &answers,
                &identities,
                &KubeNodes::default(),
                &UnobservedList::default(),
            );
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
