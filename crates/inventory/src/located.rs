//! Addresses that nobody declared, put where declared ones are once they are found.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::cluster::{Cluster, Kubernetes, Node};

impl Node {
    /// Its address without the prefix length; none where it is discovered and was not found yet.
    pub fn ip(&self) -> Option<IpAddr> {
        self.address.map(|address| address.addr())
    }

    /// Its address for people; nothing where it is not known.
    pub fn shown_address(&self) -> String {
        self.ip().map(|address| address.to_string()).unwrap_or_default()
    }
}

impl Kubernetes {
    /// The endpoint as a URL, an IPv6 address in brackets; none where it was not found yet.
    pub fn endpoint_url(&self) -> Option<String> {
        let (host, port) = (self.endpoint_host.as_ref()?, self.endpoint_port);
        Some(if host.contains(':') {
            format!("https://[{host}]:{port}")
        } else {
            format!("https://{host}:{port}")
        })
    }
}

impl Cluster {
    /// The cluster with the addresses that were found, by node, where none is declared. Without a declared endpoint, the first
    /// control plane's is it. What is declared stays as it is, and so does a cluster whose addresses are all declared.
    pub fn located(&self, found: &BTreeMap<String, IpAddr>) -> Cow<'_, Self> {
        if !self.network.discovered || found.is_empty() {
            return Cow::Borrowed(self);
        }
        let mut located = self.clone();
        let prefix = self.network.cidr.prefix_len();
        for node in located.nodes.iter_mut().filter(|node| node.address.is_none()) {
            let address = found.get(&node.name);
            node.address = address.and_then(|address| IpNet::new(*address, prefix).ok());
        }
        if located.kubernetes.endpoint_host.is_none() {
            let first = located.control_planes().next().and_then(Node::ip);
            located.kubernetes.endpoint_host = first.map(|address| address.to_string());
        }
        Cow::Owned(located)
    }
}
