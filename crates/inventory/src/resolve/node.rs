//! Pools → nodes: name, VMID, address and MAC of each.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use uuid::Uuid;

use super::network::{self, Network};
use super::pool::{self, Shortage};
use super::{Context, address, clash, hardware, mac, name, options, patch};
use crate::cluster::{Disk, Nic, Node, Patch, Role};
use crate::document::{self, Pool, PoolNode};
use crate::hardware::Hardware;
use crate::options::Machine;
use crate::path::Path;
use crate::yaml::Span;

/// A node as far as it could be resolved. What could not be is absent, and why is already said.
pub(crate) struct Draft<'d> {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) address: Option<IpAddr>,
    pub(crate) pool_index: usize,
    /// Position in the pool's list, if it is listed.
    pub(crate) node_index: Option<usize>,
    pub(crate) listed: Option<&'d PoolNode>,
    /// Whether the name is what the user meant.
    pub(crate) named: bool,
    pub(crate) pool: String,
    pub(crate) uuid: Uuid,
    pub(crate) vmid: Option<u32>,
    pub(crate) mac: Option<String>,
    pub(crate) cores: u32,
    pub(crate) memory: Option<u64>,
    pub(crate) disk: Option<u64>,
    pub(crate) tags: Vec<String>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) taints: BTreeMap<String, String>,
    pub(crate) patches: Vec<Patch>,
    pub(crate) machine: Machine,
    pub(crate) hardware: Hardware,
    pub(crate) disks: Vec<Disk>,
    pub(crate) nics: Vec<Nic>,
}

impl Draft<'_> {
    pub(crate) fn finish(self, network: &Network) -> Option<Node> {
        Some(Node {
            name: self.name,
            pool: self.pool,
            role: self.role,
            vmid: self.vmid?,
            uuid: self.uuid,
            mac: self.mac?,
            address: match self.address {
                None if network.discovered => None,
                address => Some(IpNet::new(address?, network.cidr?.prefix_len()).ok()?),
            },
            cores: self.cores,
            memory: self.memory?,
            disk: self.disk?,
            tags: self.tags,
            labels: self.labels,
            taints: self.taints,
            patches: self.patches,
            machine: self.machine,
            hardware: self.hardware,
            disks: self.disks,
            nics: self.nics,
        })
    }

    /// Where a value of this node is said: on the node, else on its pool, else by the pool's being there.
    pub(crate) fn point(&self, key: &str, cx: &Context<'_>) -> Span {
        let root = Path::Root;
        let spec = root.key("spec");
        let pools = spec.key("pools");
        let pool = pools.index(self.pool_index);
        if let Some(i) = self.node_index {
            let nodes = pool.key("nodes");
            let node = nodes.index(i);
            if node.key(key).find(cx.root).is_some() {
                return node.key(key).point(cx.root);
            }
            if pool.key(key).find(cx.root).is_none() {
                return node.point(cx.root);
            }
        }
        let keys = [key, "name"];
        let key = keys.iter().find(|k| pool.key(k).find(cx.root).is_some()).unwrap_or(&"name");
        pool.key(key).point(cx.root)
    }
}

/// All nodes of all pools, in the order of the document.
pub(crate) fn nodes<'d>(
    spec: &'d document::Spec,
    (cluster, everywhere): (Uuid, &Machine),
    network: &Network,
    cx: &mut Context<'_>,
) -> Vec<Draft<'d>> {
    let root = Path::Root;
    let spec_at = root.key("spec");
    let pools_at = spec_at.key("pools");
    if spec.pools.is_empty() {
        let help = "Add a pool with `role: controlplane`.";
        cx.error("pools", &pools_at, "The cluster has no pools, so it has no nodes.", help);
    }
    if let Some(hardware) = &spec.hardware {
        let at = spec_at.key("hardware");
        hardware::check(hardware, &spec.talos, &at, cx);
    }
    address::of_all_pools(spec, &spec_at, cx);
    let mut drafts = Vec::new();
    for (i, pool) in spec.pools.iter().enumerate() {
        let only = spec.pools.iter().filter(|p| p.role == pool.role).count() == 1;
        let mut of_pool = pool_nodes(i, pool, only, (cluster, everywhere), network, &pools_at.index(i), cx);
        let mut hardware = spec.hardware.clone().unwrap_or_default();
        if let Some(nearer) = &pool.hardware {
            hardware::check(nearer, &spec.talos, &pools_at.index(i).key("hardware"), cx);
            hardware.extend(nearer);
        }
        hardware::check_pool(&hardware, of_pool.len(), spec, &pools_at.index(i).key("hardware"), cx);
        let prefix = network.mac_prefix.as_deref();
        for (index, draft) in of_pool.iter_mut().enumerate() {
            draft.disks = hardware::disks(&hardware);
            draft.nics = hardware::nics(&hardware, &spec.proxmox, &cluster, (&draft.name, index), prefix);
            draft.hardware = Hardware { disks: Vec::new(), nics: Vec::new(), ..hardware.clone() };
        }
        drafts.extend(of_pool);
    }
    clash::pool_names(&spec.pools, &pools_at, cx);
    clash::clashes(&drafts, network, cx);
    address::clashes(&drafts, cx);
    drafts
}

fn pool_nodes<'d>(
    index: usize,
    pool: &'d Pool,
    only_of_role: bool,
    (cluster, everywhere): (Uuid, &Machine),
    network: &Network,
    at: &Path<'_>,
    cx: &mut Context<'_>,
) -> Vec<Draft<'d>> {
    let role_known = cx.given(&at.key("role"));
    let values = pool::values(pool, only_of_role || !role_known, network, at, cx);
    let name_ok = cx.take("name", &at.key("name"), name::dns_label(&pool.name)).is_some();
    let count = count(pool, at, cx);
    let machine = pool_machine(pool, count, everywhere, at, cx);
    let nodes_at = at.key("nodes");
    let mut short_of = Shortage::default();
    let mut drafts = Vec::with_capacity(count);
    for i in 0..count {
        let listed = pool.nodes.as_ref().and_then(|n| n.get(i));
        let node_at = nodes_at.index(i);
        let own_name = listed.and_then(|n| n.name.as_ref());
        let name = own_name.cloned().unwrap_or_else(|| format!("{}-{}", pool.name, i + 1));
        let named = match own_name {
            Some(own) => cx.take("name", &node_at.key("name"), name::dns_label(own)).is_some(),
            None => name_ok,
        };
        let vmid = match listed.and_then(|n| n.vmid) {
            Some(vmid) => Some(vmid).filter(|_| cx.given(&node_at.key("vmid"))),
            None => values.vmids.and_then(|v| short_of.vmid(v, i)),
        };
        let address = match listed.and_then(|n| n.address.as_ref()) {
            Some(text) => own_address(&text.0, network, &node_at, cx),
            None => values.start.and_then(|start| short_of.address(start, i)),
        };
        let mac = match listed.and_then(|n| n.mac.as_ref()) {
            Some(text) => own_mac(text, &node_at, cx),
            None => Some(mac::derive(&cluster, &name, network.mac_prefix.as_deref())),
        };
        let mut draft = Draft {
            uuid: Uuid::new_v5(&cluster, name.as_bytes()),
            name,
            role: pool.role.into(),
            address,
            pool_index: index,
            node_index: listed.map(|_| i),
            listed,
            named,
            pool: pool.name.clone(),
            vmid,
            mac,
            cores: pool.cores.unwrap_or_else(|| pool::default_cores(pool.role)),
            memory: values.memory,
            disk: values.disk,
            tags: values.tags.clone(),
            labels: values.labels.clone(),
            taints: values.taints.clone(),
            patches: values.patches.clone(),
            machine: address::of_node(&machine, i),
            hardware: Hardware::default(),
            disks: Vec::new(),
            nics: Vec::new(),
        };
        if let Some(listed) = listed {
            own_values(&mut draft, listed, &node_at, cx);
        }
        drafts.push(draft);
    }
    short_of.report(pool, count, values.vmids, at, cx);
    long_names(pool, drafts.last(), name_ok, at, cx);
    drafts
}

/// What the nodes of a pool have in common, on top of what all nodes have.
fn pool_machine(
    pool: &Pool,
    count: usize,
    everywhere: &Machine,
    at: &Path<'_>,
    cx: &mut Context<'_>,
) -> Machine {
    let mut machine = everywhere.clone();
    options::machine(pool.machine.as_ref(), &mut machine, at, cx);
    if let Some(own) = &pool.machine {
        // Nodes with VLANs of their own count nothing on.
        let has_own = |i: usize| {
            let listed = pool.nodes.as_ref().and_then(|nodes| nodes.get(i));
            listed.and_then(|node| node.machine.as_ref()).is_some_and(|machine| !machine.vlans.is_empty())
        };
        let counting = (0..count).rfind(|i| !has_own(*i)).map_or(0, |last| last + 1);
        address::check_vlans(own, counting, at, cx);
    }
    machine
}

/// How many nodes a pool has.
fn count(pool: &Pool, at: &Path<'_>, cx: &mut Context<'_>) -> usize {
    match (&pool.nodes, pool.count) {
        (Some(nodes), Some(count)) if nodes.len() != count as usize => {
            let message = format!("`count` is {count}, but {} nodes are listed.", nodes.len());
            cx.error("count", &at.key("count"), message, "Remove `count`; the list says how many there are.");
            nodes.len()
        }
        (Some(nodes), _) => nodes.len(),
        (None, Some(count)) => count as usize,
        (None, None) => {
            if cx.given(&at.key("count")) && cx.given(&at.key("nodes")) {
                let message = format!("The pool `{}` does not say how many nodes it has.", pool.name);
                cx.error("count", &at.key("name"), message, "Add `count: 1`, or list them under `nodes`.");
            }
            0
        }
    }
}

fn own_address(text: &str, network: &Network, at: &Path<'_>, cx: &mut Context<'_>) -> Option<IpAddr> {
    let at = at.key("address");
    if network.discovered {
        network::not_declared(&at, cx);
        return None;
    }
    cx.take("address", &at, network::address(text, network.cidr)).flatten()
}

fn own_mac(text: &str, at: &Path<'_>, cx: &mut Context<'_>) -> Option<String> {
    let help = "Write six bytes with colons, for example `BC:24:11:00:00:01`, or leave it out.";
    cx.take("mac", &at.key("mac"), mac::parse(text).map_err(|why| (why, help.to_owned())))
}

/// What a listed node says for itself.
fn own_values(draft: &mut Draft<'_>, node: &PoolNode, at: &Path<'_>, cx: &mut Context<'_>) {
    draft.cores = node.cores.unwrap_or(draft.cores);
    if let Some(size) = &node.memory {
        draft.memory = pool::memory(size, draft.role, &at.key("memory"), cx);
    }
    if let Some(size) = &node.disk {
        draft.disk = pool::disk(size, &at.key("disk"), cx);
    }
    draft.tags.extend(super::tag_list(node.tags.as_deref(), at, cx));
    draft.tags.sort();
    draft.tags.dedup();
    draft.labels.extend(pool::labels(node.labels.as_ref(), at, cx));
    draft.taints.extend(pool::taints(node.taints.as_ref(), at, cx));
    draft.patches.extend(patch::patches(node.patches.as_deref(), at, cx));
    options::machine(node.machine.as_ref(), &mut draft.machine, at, cx);
}

/// Numbered names must still be host names.
fn long_names(pool: &Pool, last: Option<&Draft<'_>>, name_ok: bool, at: &Path<'_>, cx: &mut Context<'_>) {
    if let Some(last) = last.filter(|d| name_ok && d.node_index.is_none())
        && name::dns_label(&last.name).is_err()
    {
        let most = 63 - (last.name.len() - pool.name.len());
        let message =
            format!("`{}` would be {} characters long; 63 is the most.", last.name, last.name.len());
        cx.error("name", &at.key("name"), message, format!("Shorten the pool's name to {most} characters."));
    }
}
