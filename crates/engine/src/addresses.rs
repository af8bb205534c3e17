//! Where nodes are: at their declared addresses, or where their guest agents say.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use daedal_dial::Target;
use daedal_inventory::{Cluster, Node};
use daedal_proxmox::GuestInterface;
use daedal_store::Store;

use crate::error::Error;
use crate::outputs::Outputs;

/// Stands where an address is not known: nothing ever answers to such a name.
const NOWHERE: &str = "address-not-known.invalid";

/// What a connection to a node at its declared address is made to.
pub(crate) fn target(node: &Node, port: u16) -> Target {
    Addresses::default().target(node, port)
}

/// What a connection to an address is made to.
pub(crate) fn at(address: Option<IpAddr>, port: u16) -> Target {
    Target::new(address.map_or_else(|| NOWHERE.to_owned(), |address| address.to_string()), port)
}

/// What a connection to the cluster's endpoint is made to.
pub(crate) fn endpoint(cluster: &Cluster) -> Target {
    let kubernetes = &cluster.kubernetes;
    Target::new(kubernetes.endpoint_host.as_deref().unwrap_or(NOWHERE), kubernetes.endpoint_port)
}

/// Where nodes were found when the cluster was last applied, by name. An older version kept that among the outputs alone.
pub async fn found_addresses(store: &Store, outputs: &Outputs) -> Result<BTreeMap<String, IpAddr>, Error> {
    match store.addresses().await {
        Ok(Some(found)) => Ok(found),
        // The next apply finds them again.
        Ok(None) | Err(daedal_store::Error::Damaged { .. }) => Ok(outputs.addresses().await),
        Err(error) => Err(error.into()),
    }
}

/// The addresses known in one run. Whoever finds one puts it here for all; those that are declared need not be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Addresses(Arc<Mutex<BTreeMap<String, IpAddr>>>);

impl Addresses {
    /// What is known at the beginning.
    pub(crate) fn new(found: BTreeMap<String, IpAddr>) -> Self {
        Self(Arc::new(Mutex::new(found)))
    }

    /// A node's address.
    pub(crate) fn of(&self, node: &Node) -> Option<IpAddr> {
        node.ip().or_else(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&node.name).copied())
    }

    /// The node that was found at an address.
    pub(crate) fn whose(&self, address: IpAddr) -> Option<String> {
        let found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        found.iter().find(|(_, at)| **at == address).map(|(name, _)| name.clone())
    }

    /// What a connection to a node is made to.
    pub(crate) fn target(&self, node: &Node, port: u16) -> Target {
        at(self.of(node), port)
    }

    /// A node was found.
    pub(crate) fn found(&self, node: &Node, address: IpAddr) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(node.name.clone(), address);
    }

    /// Those that were found of nodes without a declared address.
    pub(crate) fn discovered(&self, cluster: &Cluster) -> BTreeMap<String, IpAddr> {
        let mut found = self.all();
        found.retain(|name, _| cluster.node(name).is_some_and(|node| node.address.is_none()));
        found
    }

    /// All that were found.
    pub(crate) fn all(&self) -> BTreeMap<String, IpAddr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The addresses that a guest agent tells of a node's first card and that can be dialled from elsewhere.
pub(crate) fn told<'a>(
    interfaces: &'a [GuestInterface],
    node: &'a Node,
) -> impl Iterator<Item = IpAddr> + 'a {
    let of_node = interfaces
        .iter()
        .filter(|nic| nic.mac.as_ref().is_some_and(|mac| mac.eq_ignore_ascii_case(&node.mac)));
    of_node.flat_map(|nic| &nic.addresses).map(|(address, _)| *address).filter(usable)
}

/// Which of them is the node's own in the cluster's network; the one that all control planes share is nobody's.
pub(crate) fn own(cluster: &Cluster, mut told: impl Iterator<Item = IpAddr>) -> Option<IpAddr> {
    let network = &cluster.network;
    told.find(|address| network.cidr.contains(address) && network.vip != Some(*address))
}

/// Whether an address can be dialled from elsewhere.
fn usable(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !v4.is_loopback() && !v4.is_link_local() && !v4.is_unspecified(),
        IpAddr::V6(v6) => !v6.is_loopback() && !v6.is_unicast_link_local() && !v6.is_unspecified(),
    }
}
