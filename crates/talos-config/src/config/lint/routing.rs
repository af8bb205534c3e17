//! Faults of routing: rules, tables of VRFs, neighbours of BGP.

use std::{collections::HashSet, net::IpAddr};

use ipnet::IpNet;
use yaml_serde::Value;

use super::{Findings, is_set, items, text};
use crate::config::document::{DocumentId, MachineConfig};

/// Priorities of rules that Linux and KubeSpan have for themselves.
const TAKEN: [u32; 4] = [0, 32_500, 32_766, 32_767];
/// Tables by the names that a VRF cannot have.
const NOT_OF_VRFS: [&str; 5] = ["", "unspec", "default", "main", "local"];

impl MachineConfig {
    pub(super) fn lint_routing(&self, found: &mut Findings) {
        for rule in self.of_kind("RoutingRuleConfig") {
            lint_rule(rule, found);
        }
        for vrf in self.of_kind("VRFConfig") {
            if NOT_OF_VRFS.contains(&text(Some(vrf), "table").to_ascii_lowercase().as_str()) {
                found.error(
                    &DocumentId::of(vrf).to_string(),
                    "needs a `table` of its own: a number from 1 to 252",
                );
            }
        }
        for instance in self.of_kind("BGPInstanceConfig") {
            lint_neighbors(instance, found);
            lint_imports(instance, found);
        }
    }
}

fn lint_rule(rule: &Value, found: &mut Findings) {
    let id = DocumentId::of(rule);
    let place = id.to_string();
    let is_plain = !id.name.is_empty() && id.name.bytes().all(|byte| byte.is_ascii_digit());
    let priority = id.name.parse::<u32>().ok().filter(|_| is_plain);
    if priority.is_none_or(|priority| TAKEN.contains(&priority)) {
        let message = "needs a priority as its name: a number other than 0, 32500, 32766 and 32767";
        found.error(&place, message);
    }
    let word = |key: &str| text(Some(rule), key).to_ascii_lowercase();
    if matches!(word("table").as_str(), "" | "unspec")
        && matches!(word("action").as_str(), "" | "unspec" | "unicast")
    {
        found.error(&place, "needs a `table`, or an `action` such as blackhole");
    }
    let number = |key: &str| rule.get(key).and_then(Value::as_u64).unwrap_or_default();
    if number("fwMask") != 0 && number("fwMark") == 0 {
        found.error(&place, "has an `fwMask` without an `fwMark`");
    }
}

fn lint_neighbors(instance: &Value, found: &mut Findings) {
    let place = DocumentId::of(instance).to_string();
    if text(Some(instance), "routerID").parse().is_ok_and(|address: IpAddr| address.is_ipv6()) {
        found.error(&place, "needs a `routerID` that is an IPv4 address");
    }
    let mut seen = HashSet::new();
    for neighbor in items(instance, "neighbors") {
        let (address, link) = (text(Some(neighbor), "address"), text(Some(neighbor), "link"));
        // The same address may be written in several ways.
        let written =
            address.parse().map_or_else(|_| address.to_owned(), |address: IpAddr| address.to_string());
        if address.is_empty() == link.is_empty() {
            found.error(&place, "has a neighbor that needs either an `address` or a `link`");
        } else if !seen.insert(if link.is_empty() { written.clone() } else { link.to_owned() }) {
            found.error(&place, &format!("has the neighbor `{written}{link}` twice"));
        }
        if neighbor.get("bfd").is_some_and(is_set) && !text(Some(instance), "vrf").is_empty() {
            found.error(&place, "is bound to a VRF, where neighbors cannot have `bfd`");
        }
    }
}

fn lint_imports(instance: &Value, found: &mut Findings) {
    let id = DocumentId::of(instance);
    let place = id.to_string();
    let (mut sources, mut all) = (HashSet::new(), Vec::<IpNet>::new());
    for route in items(instance, "importRoutes") {
        let source = text(Some(route), "bgpInstance");
        if source.is_empty() {
            found.error(&place, "imports routes of a `bgpInstance` that is not named");
        } else if source == id.name {
            found.error(&place, "imports routes of itself");
        } else if !sources.insert(source) {
            found.error(&place, &format!("imports routes of `{source}` twice; put the prefixes together"));
        }
        let prefixes: Vec<&str> = items(route, "prefixes").filter_map(Value::as_str).collect();
        if prefixes.is_empty() {
            found.error(&place, "imports routes without saying which: set `prefixes`");
        }
        for prefix in prefixes {
            match prefix.parse::<IpNet>() {
                Err(_) => found.error(&place, "imports a prefix that is none"),
                Ok(net) if net.addr() != net.network() => {
                    found.error(&place, &format!("imports {net}, which has bits set behind its prefix"));
                    all.push(net);
                }
                Ok(net) => {
                    if let Some(other) = all.iter().find(|other| other.contains(&net) || net.contains(*other))
                    {
                        found.error(&place, &format!("imports {net}, which overlaps {other}"));
                    }
                    all.push(net);
                }
            }
        }
    }
}
