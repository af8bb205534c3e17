//! The etcd clusters: who is a member, who is healthy, who leads. The data of a cluster is its Kubernetes store.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::config::{MachineConfig, Trust};
use super::network::Link;
use super::node::Node;
use super::world::World;
use crate::kubernetes::Store;

/// One member of an etcd cluster. It lives on a disk, not in a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Member {
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) address: IpAddr,
    pub(crate) learner: bool,
    pub(crate) disk: String,
}

/// One etcd cluster with the Kubernetes cluster inside it.
pub(crate) struct Cluster {
    pub(crate) id: u64,
    pub(crate) etcd_key: String,
    pub(crate) name: String,
    pub(crate) members: Vec<Member>,
    pub(crate) leader: Option<u64>,
    pub(crate) term: u64,
    pub(crate) store: Arc<Store>,
    /// Whether its API server has ever answered.
    pub(crate) seen: bool,
    /// The shared address and the VM that holds it.
    pub(crate) vip: Option<(IpAddr, u32)>,
    /// An election for the shared address is under way.
    pub(crate) electing: bool,
    /// Its controllers run.
    pub(crate) controlled: bool,
}

impl Cluster {
    /// What bootstrap makes: a cluster of one.
    pub(crate) fn bootstrap(id: u64, config: &MachineConfig, member: Member, store: Arc<Store>) -> Self {
        Self {
            id,
            etcd_key: config.etcd_key().to_owned(),
            name: config.cluster_name().to_owned(),
            leader: None,
            members: vec![member],
            term: 1,
            store,
            seen: false,
            vip: None,
            electing: false,
            controlled: false,
        }
    }

    /// The members that vote.
    pub(crate) fn voters(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|m| !m.learner)
    }

    /// A member by its disk.
    pub(crate) fn member_on(&self, disk: &str) -> Option<&Member> {
        self.members.iter().find(|m| m.disk == disk)
    }
}

/// Where a member tells others to reach it: in the networks that are declared for that, else where its machine is.
pub(crate) fn advertised(config: &MachineConfig, links: &[Link], machine: Option<IpAddr>) -> Option<IpAddr> {
    let subnets = config.list_at("/cluster/etcd/advertisedSubnets");
    let subnets: Vec<IpNet> = subnets.iter().filter_map(|subnet| subnet.parse().ok()).collect();
    if subnets.is_empty() {
        return machine;
    }
    let mut addresses = links.iter().flat_map(|link| &link.addresses).map(IpNet::addr);
    addresses.find(|address| subnets.iter().any(|subnet| subnet.contains(address)))
}

/// A member id that depends on the disk and the cluster only.
pub(crate) fn member_id(seed: u64, disk: &str, cluster: u64, address: IpAddr) -> u64 {
    let digest = Sha256::digest(format!("{seed}/{disk}/{cluster}/{address}"));
    digest.first_chunk::<8>().map_or(1, |bytes| u64::from_be_bytes(*bytes))
}

fn believes(plane: &Node, kubelet: &Trust) -> bool {
    plane.state().config.as_ref().is_some_and(|config| config.kubernetes_trust().is_mutual(kubelet))
}

impl World {
    /// Whether the member's etcd runs.
    pub(crate) fn healthy(&self, member: &Member) -> bool {
        self.node_on(&member.disk).is_some_and(|n| n.state().etcd)
    }

    /// The running machine with this disk.
    pub(crate) fn node_on(&self, disk: &str) -> Option<&Arc<Node>> {
        self.nodes.get(self.running_disks.get(disk)?)
    }

    /// Whether a majority of the voters runs.
    pub(crate) fn has_quorum(&self, cluster: &Cluster) -> bool {
        let voters = cluster.voters().count();
        let healthy = cluster.voters().filter(|m| self.healthy(m)).count();
        voters > 0 && healthy * 2 > voters
    }

    /// The cluster a disk's etcd data belongs to.
    pub(crate) fn cluster_of_disk(&self, disk: &str) -> Option<&Cluster> {
        let id = self.disks.get(disk)?.etcd.as_ref()?.cluster;
        self.clusters.get(&id)
    }

    /// A cluster that a control plane with these secrets can join now: healthy and without another learner.
    pub(crate) fn joinable(&self, etcd_key: &str) -> Option<u64> {
        self.clusters
            .values()
            .find(|c| c.etcd_key == etcd_key && c.members.iter().all(|m| !m.learner) && self.has_quorum(c))
            .map(|c| c.id)
    }

    /// A cluster with an answering API server that a kubelet with this trust can register with.
    pub(crate) fn kubernetes(&self, kubelet: &Trust) -> Option<&Cluster> {
        let serves = |node: &Arc<Node>| node.state().api_server && believes(node, kubelet);
        self.clusters.values().find(|c| self.has_quorum(c) && self.planes(c).any(serves))
    }

    /// Whether some API server, be it up or not, is of an authority that such a kubelet trusts, and the other way round.
    pub(crate) fn believes(&self, kubelet: &Trust) -> bool {
        self.clusters.values().any(|c| self.planes(c).any(|node| believes(node, kubelet)))
    }

    /// The running machines with the members of a cluster.
    fn planes<'w>(&'w self, cluster: &'w Cluster) -> impl Iterator<Item = &'w Arc<Node>> {
        cluster.members.iter().filter_map(|member| self.node_on(&member.disk))
    }

    /// Whether an API server of the cluster answers.
    pub(crate) fn api_answers(&self, cluster: &Cluster) -> bool {
        self.has_quorum(cluster) && self.planes(cluster).any(|node| node.state().api_server)
    }

    /// Drops clusters of which no disk holds data any more.
    pub(crate) fn forget_empty_clusters(&mut self) {
        let kept: Vec<u64> = self.disks.values().filter_map(|d| Some(d.etcd.as_ref()?.cluster)).collect();
        self.clusters.retain(|id, _| kept.contains(id));
    }
}
