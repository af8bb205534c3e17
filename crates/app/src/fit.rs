//! Whether secrets are those that a cluster runs on, going by what was seen of it. In doubt they are not.

use std::collections::{BTreeMap, BTreeSet};

use daedal_engine::RunsOn;
use daedal_inventory::Cluster;
use daedal_planner::{Ownership, TalosView, World};

/// What was seen of the cluster with secrets that are to be its own.
pub struct Asked<'a> {
    /// What is declared.
    pub cluster: &'a Cluster,
    /// What was seen with these secrets.
    pub world: &'a World,
    /// What the nodes that answered run on.
    pub runs_on: &'a BTreeMap<String, RunsOn>,
    /// Whether they replace secrets that are kept: everything must be seen then.
    pub replacing: bool,
}

/// Why secrets are not, or may not be, those that a cluster runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// These hosts did not list their VMs: a node that runs on other secrets may be there.
    UnlistedHosts(Vec<String>),
    /// A VM that may be a node.
    MaybeNode {
        /// The VM.
        vmid: u32,
        /// Where it is.
        host: String,
        /// Why that is not known.
        why: String,
        /// Whether its config could be read.
        read: bool,
    },
    /// No node is there to ask what it runs on.
    NothingRuns,
    /// These nodes run on other secrets.
    OtherCluster(Vec<String>),
    /// These nodes do not answer, and may run on other secrets.
    Silent(Vec<String>),
    /// None of the nodes answers.
    NoneAnswers(Vec<String>),
    /// These nodes run on other secrets, by the fields that differ.
    OtherSecrets(Vec<(String, Vec<&'static str>)>),
    /// What a node runs on could not be read.
    Unread {
        /// The node.
        node: String,
        /// Why; none if its address is not known.
        why: Option<String>,
    },
}

impl Misfit {
    /// Whether it is only that not enough was seen: somebody who overwrites nothing may set that aside.
    pub fn is_doubt(&self) -> bool {
        matches!(self, Self::UnlistedHosts(_) | Self::MaybeNode { .. } | Self::Unread { .. })
    }
}

/// Whether what runs already, if anything, runs on these secrets. To replace kept ones, everything must be seen.
pub fn fits(asked: &Asked<'_>) -> Result<(), Misfit> {
    asked.all_is_seen()?;
    let nodes = asked.nodes();
    if nodes.is_empty() {
        return if asked.replacing { Err(Misfit::NothingRuns) } else { Ok(()) };
    }
    let others = asked.those(&nodes, |talos| matches!(talos, TalosView::OtherCluster));
    if !others.is_empty() {
        return Err(Misfit::OtherCluster(owned(others)));
    }
    let silent = asked.those(&nodes, |talos| !matches!(talos, TalosView::Configured { .. }));
    if asked.replacing && !silent.is_empty() {
        return Err(Misfit::Silent(owned(silent)));
    }
    if silent.len() == nodes.len() {
        return Err(Misfit::NoneAnswers(owned(nodes)));
    }
    let answering = nodes.into_iter().filter(|name| !silent.contains(name)).collect();
    asked.configs_agree(answering)
}

fn owned<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    names.into_iter().map(str::to_owned).collect()
}

impl<'a> Asked<'a> {
    /// Whether a node could be where nobody looked.
    fn all_is_seen(&self) -> Result<(), Misfit> {
        if !self.world.unlisted_hosts.is_empty() {
            return Err(Misfit::UnlistedHosts(self.world.unlisted_hosts.iter().cloned().collect()));
        }
        let ours: BTreeSet<u32> = self.cluster.nodes.iter().map(|node| node.vmid).collect();
        for guest in self.world.guests.values() {
            let (why, read) = match &guest.ownership {
                Ownership::Unreadable { why } => (why, false),
                // Elsewhere it is somebody's copy, which no apply touches.
                Ownership::LookAlike { why, .. } if ours.contains(&guest.vmid) => (why, true),
                _ => continue,
            };
            let (vmid, host, why) = (guest.vmid, guest.host.clone(), why.clone());
            return Err(Misfit::MaybeNode { vmid, host, why, read });
        }
        Ok(())
    }

    /// The nodes that count: those whose VMs are ours, and, where secrets are to be replaced, whoever else etcd or Kubernetes
    /// still knows.
    fn nodes(&self) -> BTreeSet<&'a str> {
        let ours = self.world.guests.values().filter_map(|guest| match &guest.ownership {
            Ownership::Ours { node, .. } | Ownership::HalfMade { node, .. } => Some(node.as_str()),
            _ => None,
        });
        let former = self.world.former.keys().map(String::as_str).filter(|_| self.replacing);
        ours.chain(former).collect()
    }

    /// Those of the nodes whose API is seen so; one that was not asked is silent.
    fn those(&self, nodes: &BTreeSet<&'a str>, wanted: fn(&TalosView) -> bool) -> Vec<&'a str> {
        let talos = |name: &str| {
            let declared = self.world.nodes.get(name).map(|view| &view.talos);
            declared.or_else(|| self.world.former.get(name).map(|view| &view.talos))
        };
        let is_so = |name: &&str| wanted(talos(name).unwrap_or(&TalosView::Unreachable));
        nodes.iter().copied().filter(is_so).collect()
    }

    /// Whether the configs of all nodes that answered hold nothing but these secrets. To answer proves one authority only.
    fn configs_agree(&self, answering: Vec<&str>) -> Result<(), Misfit> {
        let others: Vec<_> = self
            .runs_on
            .iter()
            .filter_map(|(node, runs_on)| match runs_on {
                RunsOn::Others(fields) => Some((node.clone(), fields.clone())),
                RunsOn::These | RunsOn::Unread(_) => None,
            })
            .collect();
        if !others.is_empty() {
            return Err(Misfit::OtherSecrets(others));
        }
        for node in answering {
            let why = match self.runs_on.get(node) {
                Some(RunsOn::Unread(why)) => Some(why.clone()),
                Some(RunsOn::These | RunsOn::Others(_)) => continue,
                None => None,
            };
            return Err(Misfit::Unread { node: node.to_owned(), why });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use daedal_inventory::{Source, load};
    use daedal_planner::{FormerView, GuestView, Likeness, NodeView};

    use super::*;

    fn cluster() -> Cluster {
        let text = include_str!("../../../examples/home/cluster.yaml").to_owned();
        let none = |_: &Path| Err(std::io::Error::from(std::io::ErrorKind::NotFound));
        load(&[Source { name: "cluster.yaml".into(), text }], &none).unwrap().cluster
    }

    fn configured() -> TalosView {
        TalosView::Configured { version: "v1.12.0".into(), stage: "running".into() }
    }

    /// A cluster whose first control plane is all that there is; it answers.
    fn one_node() -> World {
        let mut world = World::default();
        let ownership = Ownership::Ours { node: "cp-1".into(), digest: String::new() };
        world
            .guests
            .insert(300, GuestView { vmid: 300, host: "atlas".into(), ownership, ..GuestView::default() });
        world.nodes.insert("cp-1".into(), NodeView { talos: configured(), ..NodeView::default() });
        world
    }

    fn asked(world: &World, runs_on: &[(&str, RunsOn)], replacing: bool) -> Result<(), Misfit> {
        let runs_on = runs_on.iter().map(|(node, runs_on)| ((*node).to_owned(), runs_on.clone())).collect();
        fits(&Asked { cluster: &cluster(), world, runs_on: &runs_on, replacing })
    }

    #[test]
    fn a_node_that_runs_on_them_is_all_it_takes() {
        for replacing in [false, true] {
            assert_eq!(asked(&one_node(), &[("cp-1", RunsOn::These)], replacing), Ok(()));
        }
    }

    #[test]
    fn what_may_hide_a_node_is_a_reason_not_to() {
        let guest =
            |vmid, ownership| GuestView { vmid, host: "boreas".into(), ownership, ..GuestView::default() };
        let unreadable = || Ownership::Unreadable { why: "host boreas does not answer".into() };
        let (why, likeness) = ("its mark is damaged or doubled", Likeness::LostMark);
        let look_alike = || Ownership::LookAlike { why: why.into(), likeness };
        let mut unlisted = one_node();
        unlisted.unlisted_hosts.insert("boreas".into());
        let mut unread = one_node();
        unread.guests.insert(990, guest(990, unreadable()));
        let mut damaged = one_node();
        damaged.guests.insert(301, guest(301, look_alike()));
        let maybe = |vmid, why: &str, read| Misfit::MaybeNode {
            vmid,
            host: "boreas".into(),
            why: why.to_owned(),
            read,
        };
        for (world, misfit) in [
            (&unlisted, Misfit::UnlistedHosts(vec!["boreas".into()])),
            (&unread, maybe(990, "host boreas does not answer", false)),
            (&damaged, maybe(301, why, true)),
        ] {
            assert!(misfit.is_doubt());
            for replacing in [false, true] {
                assert_eq!(asked(world, &[("cp-1", RunsOn::These)], replacing), Err(misfit.clone()));
            }
        }
        // Somebody's copy on a VMID that is not ours.
        let mut copied = one_node();
        copied.guests.insert(990, guest(990, look_alike()));
        assert_eq!(asked(&copied, &[("cp-1", RunsOn::These)], true), Ok(()));
    }

    #[test]
    fn where_kept_ones_are_replaced_whoever_the_cluster_still_knows_counts() {
        let mut world = one_node();
        world.former.insert("cp-9".into(), FormerView::default());
        let found = asked(&world, &[("cp-1", RunsOn::These)], true);
        assert_eq!(found, Err(Misfit::Silent(vec!["cp-9".into()])));
        assert_eq!(asked(&world, &[("cp-1", RunsOn::These)], false), Ok(()));
        world.former.insert("cp-9".into(), FormerView { talos: configured(), ..FormerView::default() });
        let fields = vec!["certs.etcd.crt", "certs.etcd.key"];
        let runs_on = [("cp-1", RunsOn::These), ("cp-9", RunsOn::Others(fields.clone()))];
        let found = asked(&world, &runs_on, true);
        assert_eq!(found, Err(Misfit::OtherSecrets(vec![("cp-9".into(), fields)])));
    }

    #[test]
    fn a_config_that_cannot_be_read_proves_nothing() {
        let unread = || [("cp-1", RunsOn::Unread("no answer in time".into()))];
        let misfit = |why: Option<&str>| Misfit::Unread { node: "cp-1".into(), why: why.map(str::to_owned) };
        for replacing in [false, true] {
            assert_eq!(asked(&one_node(), &unread(), replacing), Err(misfit(Some("no answer in time"))));
        }
        // One that answered, and of which nothing is known after all.
        assert_eq!(asked(&one_node(), &[], true), Err(misfit(None)));
    }
}
