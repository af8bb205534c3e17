//! Digests of what was asked for: of the whole cluster, and of one node's machine config.

use std::collections::{BTreeMap, HashMap};

use daedal_inventory::options::{Machine, Registry, RegistryMirror};
use daedal_inventory::{BootConfig, BootFrom, Cluster, Kubernetes, Network, Node, Patch, Talos};
use serde::Serialize;
use sha2::{Digest, Sha256};
use uuid::Uuid;

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

/// What decides a node's machine config, the secrets apart. Sizes, tags, bridge and VLAN are not here: they are visible
/// on the VM and compared there.
#[derive(Serialize)]
struct Asked<'a> {
    cluster: &'a str,
    uuid: Uuid,
    talos: &'a Talos,
    kubernetes: &'a Kubernetes,
    network: &'a Network,
    boot: Path,
    cluster_patches: &'a [Patch],
    // Left out where nothing is said, so that clusters from before have the digests they had.
    #[serde(skip_serializing_if = "no_mirrors")]
    registry_mirrors: &'a BTreeMap<String, RegistryMirror>,
    #[serde(skip_serializing_if = "no_registries")]
    registries: &'a BTreeMap<String, Registry>,
}

/// What of the boot path decides a config; which ISO it was does not.
#[derive(Serialize)]
struct Path {
    from: BootFrom,
    config: BootConfig,
}

#[derive(Serialize)]
struct AskedNode<'a> {
    name: &'a str,
    role: daedal_inventory::Role,
    uuid: Uuid,
    mac: &'a str,
    address: Option<ipnet::IpNet>,
    labels: &'a BTreeMap<String, String>,
    taints: &'a BTreeMap<String, String>,
    patches: &'a [Patch],
    #[serde(skip_serializing_if = "nothing_said")]
    machine: &'a Machine,
    // The config names every card; the rest of the hardware is not in it.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    nics: &'a [daedal_inventory::Nic],
    #[serde(skip_serializing_if = "Option::is_none")]
    bond: Option<&'a daedal_inventory::hardware::Bond>,
}

fn no_mirrors(mirrors: &&BTreeMap<String, RegistryMirror>) -> bool {
    mirrors.is_empty()
}

fn no_registries(registries: &&BTreeMap<String, Registry>) -> bool {
    registries.is_empty()
}

fn nothing_said(machine: &&Machine) -> bool {
    machine.is_empty()
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
        common.update(of(&Asked {
            cluster: &cluster.name,
            uuid: cluster.uuid,
            talos: &cluster.talos,
            kubernetes: &cluster.kubernetes,
            network: &cluster.network,
            boot: Path { from: cluster.boot.from, config: cluster.boot.config },
            cluster_patches: &cluster.patches,
            registry_mirrors: &cluster.registry_mirrors,
            registries: &cluster.registries,
        }));
        Self { common }
    }

    fn of(&self, node: &Node) -> String {
        let mut hasher = self.common.clone();
        hasher.update(of(&AskedNode {
            name: &node.name,
            role: node.role,
            uuid: node.uuid,
            mac: &node.mac,
            address: node.address,
            labels: &node.labels,
            taints: &node.taints,
            patches: &node.patches,
            machine: &node.machine,
            nics: &node.nics,
            bond: node.hardware.bond.as_ref(),
        }));
        let mut digest = hex::encode(hasher.finalize());
        // Long enough that no two declarations meet, short enough to read in a description.
        digest.truncate(32);
        digest
    }
}
