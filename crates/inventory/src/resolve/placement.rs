//! Which nodes are bound to which host.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::Context;
use super::node::Draft;
use crate::document::{self, Strategy};
use crate::path::Path;
use crate::suggest::{listed, nearest};

/// Node → host, from the nodes themselves, then `placement.pin`, then their pools.
pub(crate) fn pins(
    spec: &document::Spec,
    nodes: &[Draft<'_>],
    cx: &mut Context<'_>,
) -> BTreeMap<String, String> {
    let root = Path::Root;
    let spec_at = root.key("spec");
    let hosts = Hosts::new(spec, &spec_at, cx);
    let mut pins = pool_pins(spec, nodes, &hosts, cx);
    let placement_at = spec_at.key("placement");
    let pin_at = placement_at.key("pin");
    let by_name: HashMap<&str, &Draft<'_>> = nodes.iter().map(|n| (n.name.as_str(), n)).collect();
    let all_named = !cx.guessed.iter().any(|path| path.starts_with("spec.pools"));
    let declared = spec.placement.as_ref().and_then(|p| p.pin.as_ref());
    for (name, host) in declared.into_iter().flatten() {
        let at = pin_at.key(name);
        if !by_name.contains_key(name.as_str()) && all_named {
            let known: Vec<&str> = by_name.keys().copied().collect();
            let help = match nearest(name, &known) {
                Some(near) => format!("Did you mean `{near}`?"),
                None => {
                    "Its name is the pool's and its number, such as `cp-1`, unless it is listed with one."
                        .to_owned()
                }
            };
            cx.take_key("pin", &at, Err((format!("There is no node `{name}` to pin."), help)));
        }
        if hosts.known(host, &at, cx) {
            pins.insert(name.clone(), host.clone());
        }
    }
    node_pins(spec, nodes, &hosts, &mut pins, cx);
    let strategy = spec.placement.as_ref().and_then(|p| p.strategy).unwrap_or(Strategy::Spread);
    if strategy == Strategy::Pin {
        let loose: Vec<&str> =
            nodes.iter().map(|n| n.name.as_str()).filter(|n| !pins.contains_key(*n)).collect();
        if !loose.is_empty() && cx.given(&pin_at) && !cx.failed() {
            let shown = listed(loose.iter().take(5).map(|n| format!("`{n}`")), "and");
            let more = if loose.len() > 5 { format!(" and {} more", loose.len() - 5) } else { String::new() };
            let message =
                format!("With the strategy `pin` every node needs a host, but {shown}{more} have none.");
            let help =
                "Pin them, or use the strategy `spread`, which keeps to what is pinned and places the rest.";
            cx.error("pin", &placement_at.key("strategy"), message, help);
        }
    }
    pins
}

fn pool_pins(
    spec: &document::Spec,
    nodes: &[Draft<'_>],
    hosts: &Hosts<'_>,
    cx: &mut Context<'_>,
) -> BTreeMap<String, String> {
    let root = Path::Root;
    let spec_at = root.key("spec");
    let pools_at = spec_at.key("pools");
    let pool_hosts: Vec<Option<&String>> = spec
        .pools
        .iter()
        .enumerate()
        .map(|(i, pool)| {
            let host = pool.host.as_ref()?;
            hosts.known(host, &pools_at.index(i).key("host"), cx).then_some(host)
        })
        .collect();
    let pinned =
        nodes.iter().filter_map(|n| Some((n.name.clone(), (*pool_hosts.get(n.pool_index)?)?.clone())));
    pinned.collect()
}

fn node_pins(
    spec: &document::Spec,
    nodes: &[Draft<'_>],
    hosts: &Hosts<'_>,
    pins: &mut BTreeMap<String, String>,
    cx: &mut Context<'_>,
) {
    let root = Path::Root;
    let spec_at = root.key("spec");
    let pools_at = spec_at.key("pools");
    let declared = spec.placement.as_ref().and_then(|p| p.pin.as_ref());
    for node in nodes {
        let Some((host, index)) = node.listed.and_then(|l| l.host.as_ref()).zip(node.node_index) else {
            continue;
        };
        let pool_at = pools_at.index(node.pool_index);
        let nodes_at = pool_at.key("nodes");
        let node_at = nodes_at.index(index);
        let at = node_at.key("host");
        if let Some(other) = declared.and_then(|d| d.get(&node.name)).filter(|other| *other != host) {
            let message =
                format!("`{}` is bound to `{host}` here and to `{other}` under `placement.pin`.", node.name);
            cx.error("pin", &at, message, "Keep one of the two.");
        } else if hosts.known(host, &at, cx) {
            pins.insert(node.name.clone(), host.clone());
        }
    }
}

/// The hosts that may be used.
struct Hosts<'d> {
    names: HashSet<&'d str>,
    complete: bool,
}

impl<'d> Hosts<'d> {
    fn new(spec: &'d document::Spec, at: &Path<'_>, cx: &Context<'_>) -> Self {
        let proxmox_at = at.key("proxmox");
        let hosts_at = proxmox_at.key("hosts");
        let hosts = &spec.proxmox.hosts;
        let names = hosts.iter().map(|h| match h {
            document::Host::Name(name) => name.as_str(),
            document::Host::Spec(spec) => spec.name.as_str(),
        });
        let complete =
            cx.given(&hosts_at) && (0..hosts.len()).all(|i| cx.given(&hosts_at.index(i).key("name")));
        Self { names: names.collect(), complete }
    }

    /// Whether a host may be used; if not, says so.
    fn known(&self, host: &str, at: &Path<'_>, cx: &mut Context<'_>) -> bool {
        if self.names.contains(host) {
            return true;
        }
        if self.complete {
            let mut names: Vec<&str> = self.names.iter().copied().collect();
            names.sort_unstable();
            let help = match nearest(host, &names) {
                Some(near) => format!("Did you mean `{near}`?"),
                None => {
                    let names = listed(names.iter().map(|n| format!("`{n}`")), "and");
                    format!("`proxmox.hosts` has {names}; add `{host}` there if it may be used.")
                }
            };
            cx.error("pin", at, format!("`{host}` is not among the hosts that may be used."), help);
        }
        false
    }
}
