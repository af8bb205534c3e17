//! Whether secrets are those that a cluster runs on, going by what was seen of it. In doubt they are not.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use daedal_engine::RunsOn;
use daedal_inventory::Cluster;
use daedal_planner::{Ownership, TalosView, World};

use super::import::{How, UNCHECKED};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};

/// Secrets from a file, and what was seen of the cluster with them.
pub(super) struct Asked<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) world: &'a World,
    /// What the nodes that answered run on.
    pub(super) runs_on: &'a BTreeMap<String, RunsOn>,
    pub(super) source: &'a Path,
    pub(super) how: How,
    /// Whether others are kept.
    pub(super) replaces: bool,
}

/// Whether what runs already, if anything, runs on these secrets. To replace kept ones, everything must be seen.
pub(super) fn fits(asked: &Asked<'_>) -> Outcome<()> {
    asked.all_is_seen()?;
    let nodes = asked.nodes();
    if nodes.is_empty() {
        return asked.nothing_runs();
    }
    let others = asked.those(&nodes, |talos| matches!(talos, TalosView::OtherCluster));
    if !others.is_empty() {
        let why = format!("{} runs on other secrets than {}", others.join(", "), asked.source.display());
        return Err(refused(&why).hint(RIGHT_ONES));
    }
    let silent = asked.those(&nodes, |talos| !matches!(talos, TalosView::Configured { .. }));
    if asked.how == How::Replacing && !silent.is_empty() {
        let may = match asked.replaces {
            true => "may still need the kept secrets",
            false => "may run on other secrets",
        };
        let (silent, source) = (silent.join(", "), asked.source.display());
        let why = format!("{silent} {may}: nothing answers to those of {source} there");
        return Err(refused(&why)
            .hint("Start them, or take them out of the cluster, and change their authority first."));
    }
    if silent.len() == nodes.len() {
        let nodes: Vec<&str> = nodes.into_iter().collect();
        let why =
            format!("the cluster has VMs ({}), and none of them answers to these secrets", nodes.join(", "));
        return Err(refused(&why).hint(format!("Start them first; {UNCHECKED}")));
    }
    let answering = nodes.into_iter().filter(|name| !silent.contains(name)).collect();
    asked.configs_agree(answering)
}

const RIGHT_ONES: &str = "The right ones are in a control plane's machine config: `talosctl get machineconfig v1alpha1 -o \
                          jsonpath={.spec}`.";

fn refused(why: &str) -> Failure {
    Failure::new(Exit::Failed, format!("nothing was imported: {why}"))
}

impl<'a> Asked<'a> {
    /// A refusal that somebody who overwrites nothing may set aside.
    fn doubtful(&self, why: &str) -> Failure {
        match self.how {
            How::New => refused(why).hint(UNCHECKED),
            How::Replacing | How::Unchecked => refused(why),
        }
    }

    /// Whether a node could be where nobody looked.
    fn all_is_seen(&self) -> Outcome<()> {
        if !self.world.unlisted_hosts.is_empty() {
            let hosts: Vec<&str> = self.world.unlisted_hosts.iter().map(String::as_str).collect();
            let hosts = hosts.join(", ");
            let why =
                format!("{hosts} did not list its VMs, so a node that runs on other secrets may be there");
            return Err(self.doubtful(&why).hint(format!(
                "Bring {hosts} back, or let the token see its VMs (VM.Audit on /vms), and run it again."
            )));
        }
        let ours: BTreeSet<u32> = self.cluster.nodes.iter().map(|node| node.vmid).collect();
        for guest in self.world.guests.values() {
            let (why, hint) = match &guest.ownership {
                Ownership::Unreadable { why } => (
                    why,
                    "Bring its host back, or let the token read it (VM.Audit on its path), and run it again.",
                ),
                // Elsewhere it is somebody's copy, which no apply touches.
                Ownership::LookAlike { why, .. } if ours.contains(&guest.vmid) => {
                    (why, "Look at its config in Proxmox, and run it again when it is known whose it is.")
                }
                _ => continue,
            };
            let (vmid, host) = (guest.vmid, &guest.host);
            let why = format!("VM {vmid} on {host} may be a node that runs on other secrets: {why}");
            return Err(self.doubtful(&why).hint(hint));
        }
        Ok(())
    }

    /// Nobody can be asked: good where nothing is to be replaced.
    fn nothing_runs(&self) -> Outcome<()> {
        if self.how != How::Replacing {
            return Ok(());
        }
        let why = format!("no node of cluster {} is there to ask what it runs on", self.cluster.name);
        Err(match self.replaces {
            true => refused(&why).hint(
                "If the cluster is gone for good, move secrets.yaml.age away and import without --replace.",
            ),
            false => {
                refused(&why).hint("No secrets are kept that could be replaced: import without --replace.")
            }
        })
    }

    /// The nodes that count: those whose VMs are ours, and, where secrets are to be replaced, whoever else etcd or Kubernetes
    /// still knows.
    fn nodes(&self) -> BTreeSet<&'a str> {
        let ours = self.world.guests.values().filter_map(|guest| match &guest.ownership {
            Ownership::Ours { node, .. } | Ownership::HalfMade { node, .. } => Some(node.as_str()),
            _ => None,
        });
        let former = self.world.former.keys().map(String::as_str).filter(|_| self.how == How::Replacing);
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
    fn configs_agree(&self, answering: Vec<&str>) -> Outcome<()> {
        let others: Vec<String> = self
            .runs_on
            .iter()
            .filter_map(|(node, runs_on)| match runs_on {
                RunsOn::Others(fields) => Some(format!("{node} ({})", fields.join(", "))),
                RunsOn::These | RunsOn::Unread(_) => None,
            })
            .collect();
        if !others.is_empty() {
            let (source, others) = (self.source.display(), others.join("; "));
            let why = format!("these nodes run on other secrets than {source}: {others}");
            return Err(refused(&why).hint(RIGHT_ONES));
        }
        for node in answering {
            let why = match self.runs_on.get(node) {
                Some(RunsOn::Unread(why)) => why.as_str(),
                Some(RunsOn::These | RunsOn::Others(_)) => continue,
                None => "its address is not known",
            };
            let why = format!("what {node} runs on could not be read: {why}");
            return Err(self.doubtful(&why).hint("When the node answers, run it again."));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use daedal_inventory::{Source, load};
    use daedal_planner::{FormerView, GuestView, Likeness, NodeView};

    use super::*;

    fn cluster() -> Cluster {
        let text = include_str!("../../../../../examples/home/cluster.yaml").to_owned();
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

    fn asked(world: &World, runs_on: &[(&str, RunsOn)], how: How) -> Result<(), String> {
        let runs_on = runs_on.iter().map(|(node, runs_on)| ((*node).to_owned(), runs_on.clone())).collect();
        let (cluster, source) = (cluster(), Path::new("new.yaml"));
        let asked = Asked { cluster: &cluster, world, runs_on: &runs_on, source, how, replaces: true };
        fits(&asked).map_err(|failure| {
            assert_eq!(failure.exit, Exit::Failed);
            failure.render(false)
        })
    }

    #[test]
    fn a_node_that_runs_on_them_is_all_it_takes() {
        for how in [How::New, How::Replacing] {
            assert_eq!(asked(&one_node(), &[("cp-1", RunsOn::These)], how), Ok(()));
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
        for (world, word) in [
            (&unlisted, "boreas did not list its VMs"),
            (&unread, "VM 990 on boreas may be a node"),
            (&damaged, "VM 301 on boreas may be a node"),
        ] {
            let said = asked(world, &[("cp-1", RunsOn::These)], How::Replacing).unwrap_err();
            assert!(said.contains(word) && said.contains("run it again"), "{said}");
            assert!(!said.contains("--unchecked"), "{said}");
            let said = asked(world, &[("cp-1", RunsOn::These)], How::New).unwrap_err();
            assert!(said.contains(word) && said.contains("--unchecked"), "{said}");
        }
        // Somebody's copy on a VMID that is not ours.
        let mut copied = one_node();
        copied.guests.insert(990, guest(990, look_alike()));
        assert_eq!(asked(&copied, &[("cp-1", RunsOn::These)], How::Replacing), Ok(()));
    }

    #[test]
    fn where_kept_ones_are_replaced_whoever_the_cluster_still_knows_counts() {
        let mut world = one_node();
        world.former.insert("cp-9".into(), FormerView::default());
        let said = asked(&world, &[("cp-1", RunsOn::These)], How::Replacing).unwrap_err();
        assert!(said.contains("cp-9 may still need the kept secrets"), "{said}");
        assert_eq!(asked(&world, &[("cp-1", RunsOn::These)], How::New), Ok(()));
        world.former.insert("cp-9".into(), FormerView { talos: configured(), ..FormerView::default() });
        let others = RunsOn::Others(vec!["certs.etcd.crt", "certs.etcd.key"]);
        let said = asked(&world, &[("cp-1", RunsOn::These), ("cp-9", others)], How::Replacing).unwrap_err();
        assert!(said.contains("new.yaml: cp-9 (certs.etcd.crt, certs.etcd.key)"), "{said}");
    }

    #[test]
    fn a_config_that_cannot_be_read_proves_nothing() {
        let unread = || [("cp-1", RunsOn::Unread("no answer in time".into()))];
        let said = asked(&one_node(), &unread(), How::Replacing).unwrap_err();
        assert!(said.contains("what cp-1 runs on could not be read: no answer in time"), "{said}");
        assert!(!said.contains("--unchecked"), "{said}");
        assert!(asked(&one_node(), &unread(), How::New).unwrap_err().contains("--unchecked"));
        // One that answered, and of which nothing is known after all.
        assert!(asked(&one_node(), &[], How::Replacing).unwrap_err().contains("cp-1"));
    }
}
