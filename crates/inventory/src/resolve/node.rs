//! Pools → nodes: names, VMIDs, addresses and MACs of each, none of them twice.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;
use std::net::IpAddr;

use ipnet::IpNet;
use uuid::Uuid;

use super::network::{self, Network};
use super::size::{self, GIB, Of};
use super::{Context, Refusal, mac, name, patch};
use crate::cluster::{Node, Patch, Role};
use crate::diagnostic::Finding;
use crate::document::{self, Pool, PoolNode};
use crate::path::Path;
use crate::yaml::Span;

const VMID_MIN: u32 = 100;
const VMID_MAX: u32 = 999_999_999;
const DISK_MIN: u64 = 10 * GIB;

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
    named: bool,
    pool: String,
    uuid: Uuid,
    vmid: Option<u32>,
    mac: Option<String>,
    cores: u32,
    memory: Option<u64>,
    disk: Option<u64>,
    tags: Vec<String>,
    labels: BTreeMap<String, String>,
    taints: BTreeMap<String, String>,
    patches: Vec<Patch>,
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
            address: IpNet::new(self.address?, network.cidr?.prefix_len()).ok()?,
            cores: self.cores,
            memory: self.memory?,
            disk: self.disk?,
            tags: self.tags,
            labels: self.labels,
            taints: self.taints,
            patches: self.patches,
        })
    }

    /// Where a value of this node is said: on the node, else on its pool, else by the pool's being there.
    fn point(&self, key: &str, cx: &Context<'_>) -> Span {
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

/// What all nodes of a pool have in common.
struct PoolValues {
    memory: Option<u64>,
    disk: Option<u64>,
    vmids: Option<Vmids>,
    start: Option<IpAddr>,
    tags: Vec<String>,
    labels: BTreeMap<String, String>,
    taints: BTreeMap<String, String>,
    patches: Vec<Patch>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Vmids {
    first: u32,
    last: u32,
    /// Whether the end was declared.
    range: bool,
}

/// All nodes of all pools, in the order of the document.
pub(crate) fn nodes<'d>(
    spec: &'d document::Spec,
    cluster: Uuid,
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
    let mut drafts = Vec::new();
    for (i, pool) in spec.pools.iter().enumerate() {
        let only = spec.pools.iter().filter(|p| p.role == pool.role).count() == 1;
        drafts.extend(pool_nodes(i, pool, only, cluster, network, &pools_at.index(i), cx));
    }
    pool_names(&spec.pools, &pools_at, cx);
    clashes(&drafts, network, cx);
    drafts
}

fn pool_nodes<'d>(
    index: usize,
    pool: &'d Pool,
    only_of_role: bool,
    cluster: Uuid,
    network: &Network,
    at: &Path<'_>,
    cx: &mut Context<'_>,
) -> Vec<Draft<'d>> {
    let role_known = cx.given(&at.key("role"));
    let values = pool_values(pool, only_of_role || !role_known, network, at, cx);
    let name_ok = cx.take("name", &at.key("name"), name::dns_label(&pool.name)).is_some();
    let count = match (&pool.nodes, pool.count) {
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
    };
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
            Some(text) => {
                cx.take("address", &node_at.key("address"), network::address(&text.0, network.cidr)).flatten()
            }
            None => values.start.and_then(|start| short_of.address(start, i)),
        };
        let mac = match listed.and_then(|n| n.mac.as_ref()) {
            Some(text) => {
                let help = "Write six bytes with colons, for example `BC:24:11:00:00:01`, or leave it out.";
                cx.take("mac", &node_at.key("mac"), mac::parse(text).map_err(|why| (why, help.to_owned())))
            }
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
            cores: pool.cores.unwrap_or_else(|| default_cores(pool.role)),
            memory: values.memory,
            disk: values.disk,
            tags: values.tags.clone(),
            labels: values.labels.clone(),
            taints: values.taints.clone(),
            patches: values.patches.clone(),
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

/// What a listed node says for itself.
fn own_values(draft: &mut Draft<'_>, node: &PoolNode, at: &Path<'_>, cx: &mut Context<'_>) {
    draft.cores = node.cores.unwrap_or(draft.cores);
    if let Some(size) = &node.memory {
        draft.memory = memory(size, draft.role, &at.key("memory"), cx);
    }
    if let Some(size) = &node.disk {
        draft.disk = disk(size, &at.key("disk"), cx);
    }
    draft.tags.extend(super::tag_list(node.tags.as_deref(), at, cx));
    draft.tags.sort();
    draft.tags.dedup();
    draft.labels.extend(labels(node.labels.as_ref(), at, cx));
    draft.taints.extend(taints(node.taints.as_ref(), at, cx));
    draft.patches.extend(patch::patches(node.patches.as_deref(), at, cx));
}

fn pool_values(
    pool: &Pool,
    may_default: bool,
    network: &Network,
    at: &Path<'_>,
    cx: &mut Context<'_>,
) -> PoolValues {
    let control_plane = pool.role == document::Role::ControlPlane;
    let memory = match &pool.memory {
        Some(size) => memory(size, pool.role.into(), &at.key("memory"), cx),
        None => Some(if control_plane { 4 * GIB } else { 8 * GIB }),
    };
    let disk = match &pool.disk {
        Some(size) => disk(size, &at.key("disk"), cx),
        None => Some(if control_plane { 20 * GIB } else { 50 * GIB }),
    };
    // A listed node may bring its own; then the pool need not have any.
    let each = |has: fn(&PoolNode) -> bool| pool.nodes.as_ref().is_some_and(|n| n.iter().all(has));
    let vmids = match &pool.vmid {
        Some(text) => cx.take("vmid", &at.key("vmid"), vmids(&text.0)),
        None if each(|n| n.vmid.is_some()) => None,
        None if !may_default => {
            undecided(pool, "vmid", "vmid: 4000-4999", at, cx);
            None
        }
        None => vmids(if control_plane { "2000-2999" } else { "3000-3999" })
            .ok()
            .filter(|_| cx.given(&at.key("vmid"))),
    };
    let start = match &pool.address {
        Some(text) => {
            cx.take("address", &at.key("address"), network::address(&text.0, network.cidr)).flatten()
        }
        None if each(|n| n.address.is_some()) => None,
        None if !may_default => {
            undecided(pool, "address", "address: +30", at, cx);
            None
        }
        None => network::address(if control_plane { "+10" } else { "+20" }, network.cidr)
            .ok()
            .flatten()
            .filter(|_| cx.given(&at.key("address"))),
    };
    PoolValues {
        memory,
        disk,
        vmids,
        start,
        tags: super::tag_list(pool.tags.as_deref(), at, cx),
        labels: labels(pool.labels.as_ref(), at, cx),
        taints: taints(pool.taints.as_ref(), at, cx),
        patches: patch::patches(pool.patches.as_deref(), at, cx),
    }
}

fn undecided(pool: &Pool, key: &str, example: &str, at: &Path<'_>, cx: &mut Context<'_>) {
    if cx.given(&at.key(key)) {
        let message = format!(
            "The pool `{}` needs a `{key}` of its own, as there are several pools of its role.",
            pool.name
        );
        let help =
            format!("Say where it starts, for example `{example}`: then no pool moves when another grows.");
        cx.error(if key == "vmid" { "vmid" } else { "address" }, &at.key("name"), message, help);
    }
}

fn default_cores(role: document::Role) -> u32 {
    match role {
        document::Role::ControlPlane => 4,
        document::Role::Worker => 8,
    }
}

fn memory(size: &document::Size, role: Role, at: &Path<'_>, cx: &mut Context<'_>) -> Option<u64> {
    let (least, who) = match role {
        Role::ControlPlane => (2 * GIB, "a control plane"),
        Role::Worker => (GIB, "a worker"),
    };
    let checked = size::parse(&size.0, Of::Memory).and_then(|bytes| {
        let help = format!("Give it at least `{}`.", size::shown(least));
        if bytes < least {
            Err((format!("Talos does not run as {who} with {}.", size::shown(bytes)), help))
        } else {
            Ok(bytes)
        }
    });
    cx.take("size", at, checked)
}

fn disk(size: &document::Size, at: &Path<'_>, cx: &mut Context<'_>) -> Option<u64> {
    let checked = size::parse(&size.0, Of::Disk).and_then(|bytes| {
        let help = format!("Give it at least `{}`.", size::shown(DISK_MIN));
        if bytes < DISK_MIN {
            Err((format!("Talos needs a larger disk than {}.", size::shown(bytes)), help))
        } else {
            Ok(bytes)
        }
    });
    cx.take("size", at, checked)
}

fn labels(
    map: Option<&BTreeMap<String, String>>,
    at: &Path<'_>,
    cx: &mut Context<'_>,
) -> BTreeMap<String, String> {
    let at = at.key("labels");
    let pairs = map.into_iter().flatten();
    let checked = pairs.filter_map(|(k, v)| {
        cx.take("label", &at.key(k), name::kubernetes_label(k, v)).map(|()| (k.clone(), v.clone()))
    });
    checked.collect()
}

fn taints(
    map: Option<&BTreeMap<String, String>>,
    at: &Path<'_>,
    cx: &mut Context<'_>,
) -> BTreeMap<String, String> {
    let at = at.key("taints");
    let pairs = map.into_iter().flatten();
    let checked = pairs
        .filter_map(|(k, v)| Some((k.clone(), cx.take("taint", &at.key(k), name::kubernetes_taint(k, v))?)));
    checked.collect()
}

/// `300` or `2000-2999`.
fn vmids(text: &str) -> Result<Vmids, Refusal> {
    let number = |s: &str| {
        let s = s.trim();
        if s.bytes().all(|b| b.is_ascii_digit()) { s.parse::<u32>().ok() } else { None }
    };
    let bad = || {
        let help = format!(
            "Write the first one (`300`), or a range (`2000-2999`); VMIDs go from {VMID_MIN} to {VMID_MAX}."
        );
        (format!("`{text}` is not a VMID."), help)
    };
    let (first, last, range) = match text.split_once('-') {
        Some((first, last)) => (number(first), number(last), true),
        None => (number(text), Some(VMID_MAX), false),
    };
    let (first, last) = first.zip(last).ok_or_else(bad)?;
    if !(VMID_MIN..=VMID_MAX).contains(&first) || last > VMID_MAX {
        return Err(bad());
    }
    if last < first {
        return Err((
            format!("The range {first}-{last} is empty."),
            format!("Did you mean `{last}-{first}`?"),
        ));
    }
    Ok(Vmids { first, last, range })
}

/// Nodes of a pool that got nothing, because numbers or addresses ran out.
#[derive(Default)]
struct Shortage {
    vmids: usize,
    addresses: usize,
}

impl Shortage {
    fn vmid(&mut self, vmids: Vmids, index: usize) -> Option<u32> {
        let vmid =
            u32::try_from(index).ok().and_then(|i| vmids.first.checked_add(i)).filter(|v| *v <= vmids.last);
        self.vmids += usize::from(vmid.is_none());
        vmid
    }

    fn address(&mut self, start: IpAddr, index: usize) -> Option<IpAddr> {
        let address = i128::try_from(index).ok().and_then(|i| network::step(start, i));
        self.addresses += usize::from(address.is_none());
        address
    }

    fn report(&self, pool: &Pool, count: usize, vmids: Option<Vmids>, at: &Path<'_>, cx: &mut Context<'_>) {
        if let Some(vmids) = vmids.filter(|_| self.vmids > 0) {
            let room = vmids.last - vmids.first + 1;
            let what = if vmids.range {
                format!("the range {}-{}", vmids.first, vmids.last)
            } else {
                "the VMIDs".to_owned()
            };
            let message =
                format!("The pool `{}` has {count} nodes, but {what} has room for {room}.", pool.name);
            let key = if pool.vmid.is_some() { "vmid" } else { "name" };
            let help = format!("Widen the range to at least {count}, or have fewer nodes.");
            cx.error("vmid", &at.key(key), message, help);
        }
        if self.addresses > 0 {
            let message = format!("The pool `{}` runs out of addresses.", pool.name);
            cx.error("address", &at.key("address"), message, "Start at a lower one.");
        }
    }
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

fn pool_names(pools: &[Pool], at: &Path<'_>, cx: &mut Context<'_>) {
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for (i, pool) in pools.iter().enumerate() {
        let item = at.index(i);
        if !cx.given(&item.key("name")) {
            continue;
        }
        if let Some(first) = seen.insert(&pool.name, i) {
            let finding = Finding::error(
                "name",
                item.key("name").point(cx.root),
                format!("Two pools are called `{}`.", pool.name),
            )
            .help("Give one of them another name.")
            .related(at.index(first).key("name").point(cx.root), "the other pool");
            cx.findings.push(finding);
        }
    }
}

/// Names, VMIDs, addresses and MACs must each belong to one node only, and addresses must be usable.
fn clashes(drafts: &[Draft<'_>], network: &Network, cx: &mut Context<'_>) {
    let mut said = HashSet::new();
    for draft in drafts {
        let Some(address) = draft.address else { continue };
        let refusal = match network.usable(address) {
            Err(refusal) => Some(refusal),
            Ok(()) if Some(address) == network.gateway => Some((
                format!("`{}` cannot have {address}: it is the gateway.", draft.name),
                "Choose another address.".to_owned(),
            )),
            Ok(()) if Some(address) == network.vip => Some((
                format!(
                    "`{}` cannot have {address}: it is the VIP, which moves between the control planes.",
                    draft.name
                ),
                "Choose another address for the node, or another VIP.".to_owned(),
            )),
            Ok(()) => None,
        };
        if let Some((message, help)) = refusal {
            let span = draft.point("address", cx);
            // One word per pool is enough when its addresses run out of the network one by one.
            if said.insert(span) {
                let message = if message.starts_with('`') {
                    message
                } else {
                    format!("`{}` cannot be there: {message}", draft.name)
                };
                cx.findings.push(Finding::error("address", span, message).help(help));
            }
        }
    }
    let named = |d: &Draft<'_>| d.named.then(|| d.name.clone());
    clash(drafts, named, "name", "name", "be called", "Give one of them another name.", cx);
    clash(drafts, |d| d.vmid, "vmid", "vmid", "have the VMID", "Move one of them to free VMIDs.", cx);
    let host = |d: &Draft<'_>| d.address.filter(|a| network.usable(*a).is_ok());
    clash(drafts, host, "address", "address", "have the address", "Move one of them to free addresses.", cx);
    let help = if network.mac_prefix.is_some() {
        "Give one of them a `mac` of its own, or leave out `network.macPrefix`, which leaves few bits to tell nodes apart."
    } else {
        "Give one of them a `mac` of its own."
    };
    clash(drafts, |d| d.mac.clone().filter(|_| d.named), "mac", "mac", "have the MAC", help, cx);
}

fn clash<T: Hash + Eq + std::fmt::Display>(
    drafts: &[Draft<'_>],
    value: impl Fn(&Draft<'_>) -> Option<T>,
    code: &'static str,
    key: &str,
    verb: &str,
    help: &str,
    cx: &mut Context<'_>,
) {
    let mut owner: HashMap<T, &Draft<'_>> = HashMap::with_capacity(drafts.len());
    let mut said = HashSet::new();
    for draft in drafts {
        let Some(value) = value(draft) else { continue };
        let Some(first) = owner.get(&value) else {
            owner.insert(value, draft);
            continue;
        };
        if code == "mac" && first.name == draft.name {
            continue;
        }
        let (span, other) = (draft.point(key, cx), first.point(key, cx));
        if said.insert((span, other)) {
            let message = match code {
                "name" => format!("Two nodes would be called `{value}`."),
                _ => format!("`{}` and `{}` would both {verb} {value}.", first.name, draft.name),
            };
            let finding = Finding::error(code, span, message).help(help);
            cx.findings.push(if span == other {
                finding
            } else {
                finding.related(other, format!("`{}` gets it here", first.name))
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vmids_as_written() {
        assert_eq!(vmids("300"), Ok(Vmids { first: 300, last: VMID_MAX, range: false }));
        assert_eq!(vmids("2000 - 2999"), Ok(Vmids { first: 2000, last: 2999, range: true }));
        assert_eq!(vmids("2999-2000").expect_err("backwards").1, "Did you mean `2000-2999`?");
        for wrong in ["99", "1000000000", "", "-5", "a", "100-", "0x100", "+300"] {
            assert!(vmids(wrong).is_err(), "{wrong}");
        }
    }
}
