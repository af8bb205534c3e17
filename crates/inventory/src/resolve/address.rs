//! Addresses of further cards and of VLANs: a pool says its first node's, the others count on, and no two have the same.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use ipnet::IpNet;

use super::node::Draft;
use super::{Context, network};
use crate::diagnostic::Finding;
use crate::document;
use crate::options::Machine;
use crate::path::Path;
use crate::yaml::Span;

/// The address that the node of this index has where the pool's first has this one; none where the network ends before.
pub(crate) fn counted(first: &str, index: usize) -> Option<IpNet> {
    let first: IpNet = first.parse().ok()?;
    let address = network::step(first.addr(), i128::try_from(index).ok()?)?;
    let last = if first.addr().is_ipv4() && first.prefix_len() < 31 { Some(first.broadcast()) } else { None };
    // A network of one or two addresses has none of its own.
    let own = (first.prefix_len() < first.max_prefix_len().saturating_sub(1)).then(|| first.network());
    let fits = first.contains(&address) && Some(address) != own && Some(address) != last;
    fits.then(|| IpNet::new(address, first.prefix_len()).ok()).flatten()
}

/// What so many nodes from this address on cannot have, if it is one.
pub(crate) fn runs_out(first: &str, nodes: usize) -> Option<String> {
    let short = nodes > 0 && (counted(first, 0).is_none() || counted(first, nodes - 1).is_none());
    (first.parse::<IpNet>().is_ok() && short).then(|| {
        format!("Machines of this network cannot have all of {first} and the {nodes} from there on.")
    })
}

/// Refuses addresses that would be those of every pool's first node.
pub(crate) fn of_all_pools(spec: &document::Spec, at: &Path<'_>, cx: &mut Context<'_>) {
    let nics = spec.hardware.iter().flat_map(|hardware| &hardware.nics);
    for (i, _) in nics.enumerate().filter(|(_, nic)| nic.address.is_some()) {
        let (hardware, message) =
            (at.key("hardware"), "Addresses count from a pool's first node, and this card is for all pools.");
        let help = "Put the card under the pool's `hardware`.";
        cx.error("address", &hardware.key("nics").index(i).key("address"), message, help);
    }
    let vlans = spec.machine.iter().flat_map(|machine| &machine.vlans);
    for (i, _) in vlans.enumerate().filter(|(_, vlan)| !vlan.addresses.is_empty()) {
        let (machine, message) =
            (at.key("machine"), "Addresses count from a pool's first node, and this VLAN is for all pools.");
        let help = "Put the VLAN under the `machine` of each pool, with the first node's addresses.";
        cx.error("address", &machine.key("vlans").index(i).key("addresses"), message, help);
    }
}

/// Says so if a pool runs out of a VLAN's addresses, of whose nodes so many may have one.
pub(crate) fn check_vlans(machine: &Machine, nodes: usize, at: &Path<'_>, cx: &mut Context<'_>) {
    let machine_at = at.key("machine");
    let vlans_at = machine_at.key("vlans");
    for (i, vlan) in machine.vlans.iter().enumerate() {
        let vlan_at = vlans_at.index(i);
        let addresses_at = vlan_at.key("addresses");
        for (j, first) in vlan.addresses.iter().enumerate() {
            if let Some(message) = runs_out(first, nodes) {
                let help = "Begin elsewhere, or with a shorter prefix length.";
                cx.error("address", &addresses_at.index(j), message, help);
            }
        }
    }
}

/// The machine settings of the pool's node of this index: its VLANs' addresses counted on.
pub(crate) fn of_node(pool: &Machine, index: usize) -> Machine {
    let mut machine = pool.clone();
    for address in machine.vlans.iter_mut().flat_map(|vlan| &mut vlan.addresses) {
        if let Some(own) = counted(address, index) {
            *address = own.to_string();
        }
    }
    machine
}

/// What has an address.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holder {
    /// What carries the node's own address.
    Node,
    /// A further card.
    Card,
    /// A VLAN.
    Vlan,
}

impl Holder {
    /// Where the address comes from.
    fn point(self, draft: &Draft<'_>, cx: &Context<'_>) -> Span {
        let root = Path::Root;
        let spec = root.key("spec");
        let pools = spec.key("pools");
        let pool = pools.index(draft.pool_index);
        match self {
            Self::Node => draft.point("address", cx),
            Self::Card => pool.key("hardware").key("nics").point(cx.root),
            Self::Vlan => {
                let nodes = pool.key("nodes");
                let node = nodes.index(draft.node_index.unwrap_or_default());
                let own = draft.listed.and_then(|node| node.machine.as_ref());
                let holder = if own.is_some_and(|own| !own.vlans.is_empty()) { node } else { pool };
                holder.key("machine").key("vlans").point(cx.root)
            }
        }
    }
}

/// No address of a card or VLAN is another node's as well.
pub(crate) fn clashes(drafts: &[Draft<'_>], cx: &mut Context<'_>) {
    let mut owners: HashMap<IpAddr, (&Draft<'_>, Holder)> = HashMap::new();
    let mut said = HashSet::new();
    for draft in drafts {
        let cards = draft.nics.iter().filter_map(|nic| nic.address).map(|net| (net.addr(), Holder::Card));
        let vlans = draft.machine.vlans.iter().flat_map(|vlan| &vlan.addresses);
        let vlans = vlans.filter_map(|text| Some((text.parse::<IpNet>().ok()?.addr(), Holder::Vlan)));
        let own = draft.address.map(|address| (address, Holder::Node));
        for (address, holder) in cards.chain(vlans).chain(own).filter(|(address, _)| !is_local(*address)) {
            let Some((other, others)) = owners.insert(address, (draft, holder)) else { continue };
            // Two nodes' own addresses are compared where they are given.
            if other.name == draft.name || (holder == Holder::Node && others == Holder::Node) {
                continue;
            }
            let (span, related) = (holder.point(draft, cx), others.point(other, cx));
            if !said.insert((span, related)) {
                continue;
            }
            let message =
                format!("`{}` and `{}` would both have the address {address}.", other.name, draft.name);
            let finding =
                Finding::error("address", span, message).help("Let the addresses of one begin elsewhere.");
            cx.findings.push(if span == related {
                finding
            } else {
                finding.related(related, format!("`{}` gets it here", other.name))
            });
        }
    }
}

/// Whether every link has a network of its own for such addresses.
fn is_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_counted_within_their_network() {
        let counted = |first: &str, index| counted(first, index).map(|net| net.to_string());
        assert_eq!(counted("10.50.0.11/24", 2).as_deref(), Some("10.50.0.13/24"));
        assert_eq!(counted("10.50.0.254/24", 1), None, "the broadcast address");
        assert_eq!(counted("10.50.0.0/24", 0), None, "the network's own");
        assert_eq!(counted("10.50.0.10/31", 1).as_deref(), Some("10.50.0.11/31"));
        assert_eq!(counted("10.50.0.10/32", 0).as_deref(), Some("10.50.0.10/32"));
        assert_eq!(counted("10.50.0.10/32", 1), None);
        assert_eq!(counted("fd00::ffff/112", 1), None);
        assert_eq!(counted("fd00::a/64", 6).as_deref(), Some("fd00::10/64"));
    }
}
