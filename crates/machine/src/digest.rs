//! Digests of what was asked for: of the whole cluster, and of one node's machine config.
//!
//! A node's digest stands on its VM for years, so its input is spelled out in [`asked`], field by field, and pinned by golden
//! values. A field that the inventory gets later does not compile until it is decided there whether it belongs to the digest; if
//! so it is left out where nothing is said, so that VMs from before keep the digests they have.

use std::collections::HashMap;

use daedal_inventory::{Cluster, Node};
use serde::Serialize;
use sha2::{Digest, Sha256};

mod asked;

use asked::{Asked, AskedNode};

/// SHA-256 of a value's JSON, in lower-case hex.
pub fn of(value: &impl Serialize) -> String {
    let mut hasher = Sha256::new();
    // Our plain data always serialises; if it ever did not, the error text keeps two failures from looking alike.
    match serde_json::to_vec(value) {
        Ok(bytes) => hasher.update(bytes),
        Err(error) => hasher.update(error.to_string()),
    }
    hex::encode(hasher.finalize())
}

/// The first twelve digits, for names.
pub fn hex12(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}

/// Digest of the resolved cluster.
pub fn intent(cluster: &Cluster) -> String {
    of(cluster)
}

/// Digest of what was asked for one node's machine config; stands in the VM's mark and in its medium's name.
pub fn node_digest(cluster: &Cluster, node: &Node) -> String {
    Digester::new(cluster).of(node)
}

/// Digest of what a role's template is made of.
pub fn template_digest(cluster: &Cluster, role: daedal_inventory::Role, image_file: &str) -> String {
    let mut digest = of(&(image_file, role, cluster.proxmox.templates_storage()));
    digest.truncate(32);
    digest
}

/// The digests of all nodes of a cluster, each made once.
#[derive(Debug)]
pub struct NodeDigests<'a>(HashMap<&'a str, String>);

impl<'a> NodeDigests<'a> {
    /// Makes them.
    pub fn new(cluster: &'a Cluster) -> Self {
        let digester = Digester::new(cluster);
        Self(cluster.nodes.iter().map(|node| (node.name.as_str(), digester.of(node))).collect())
    }

    /// The digest of a node.
    pub fn of(&self, node: &Node) -> &str {
        self.0.get(node.name.as_str()).map_or("", String::as_str)
    }
}

/// What all nodes have in common is digested once.
struct Digester {
    common: Sha256,
}

impl Digester {
    fn new(cluster: &Cluster) -> Self {
        let mut common = Sha256::new();
        common.update(of(&Asked::of(cluster)));
        Self { common }
    }

    fn of(&self, node: &Node) -> String {
        let mut hasher = self.common.clone();
        hasher.update(of(&AskedNode::of(node)));
        let mut digest = hex::encode(hasher.finalize());
        // Long enough that no two declarations meet, short enough to read in a description.
        digest.truncate(32);
        digest
    }
}

#[cfg(test)]
mod tests;
