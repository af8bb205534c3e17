//! No name, VMID, address or MAC belongs to two nodes, and no node stands where it cannot.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use super::Context;
use super::network::Network;
use super::node::Draft;
use crate::diagnostic::Finding;
use crate::document::Pool;
use crate::path::Path;

pub(crate) fn pool_names(pools: &[Pool], at: &Path<'_>, cx: &mut Context<'_>) {
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
pub(crate) fn clashes(drafts: &[Draft<'_>], network: &Network, cx: &mut Context<'_>) {
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

pub(crate) fn clash<T: Hash + Eq + std::fmt::Display>(
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
        // Two nodes of one name have one MAC, and two pools of one name have the same nodes: said already.
        let same_pool = first.pool == draft.pool && first.pool_index != draft.pool_index;
        if (code == "mac" && first.name == draft.name) || (code == "name" && same_pool) {
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
