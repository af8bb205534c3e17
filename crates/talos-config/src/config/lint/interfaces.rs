//! Faults of network interfaces as configs before Talos 1.12 have them, under `machine.network`.

use std::{collections::HashMap, net::IpAddr};

use yaml_serde::Value;

use super::{Findings, at, has_port, is_set, items, rules::is_key, text};
use crate::config::{document::MachineConfig, options::Role, schema::is_network};

const PLACE: &str = "machine.network.interfaces";

/// Options of bonds that take one of a few words.
const BOND_WORDS: [(&str, &[&str]); 8] = [
    (
        "mode",
        &[
            "",
            "balance-rr",
            "active-backup",
            "balance-xor",
            "broadcast",
            "802.3ad",
            "balance-tlb",
            "balance-alb",
        ],
    ),
    ("xmitHashPolicy", &["", "layer2", "layer3+4", "layer2+3", "encap2+3", "encap3+4"]),
    ("lacpRate", &["", "slow", "fast"]),
    ("arpValidate", &["", "none", "active", "backup", "all", "filter", "filter-active", "filter-backup"]),
    ("arpAllTargets", &["", "any", "all"]),
    ("primaryReselect", &["", "always", "better", "failure"]),
    ("failOverMac", &["", "none", "active", "follow"]),
    ("adSelect", &["", "stable", "bandwidth", "count"]),
];

/// An address, with or without the length of its network's prefix.
fn is_address(text: &str) -> bool {
    if text.contains('/') { is_network(text) } else { text.parse::<IpAddr>().is_ok() }
}

impl MachineConfig {
    pub(super) fn lint_interfaces(&self, found: &mut Findings) {
        let mut parts: HashMap<&str, &str> = HashMap::new();
        for interface in self.legacy_interfaces() {
            let name = text(Some(interface), "interface");
            let bond = interface.get("bond").filter(|value| is_set(value));
            let bridge = interface.get("bridge").filter(|value| is_set(value));
            if bond.is_some() && bridge.is_some() {
                found.error(PLACE, &format!("`{name}` cannot be both a bond and a bridge"));
            }
            if bond.is_some_and(|of| {
                items(of, "interfaces").next().and(items(of, "deviceSelectors").next()).is_some()
            }) {
                found.error(PLACE, &format!("the bond `{name}` has both `interfaces` and `deviceSelectors`"));
            }
            for part in
                bridge.or(bond).into_iter().flat_map(|of| items(of, "interfaces")).filter_map(Value::as_str)
            {
                if parts.insert(part, name).is_some_and(|other| other != name) {
                    found.error(PLACE, &format!("`{part}` is part of two others"));
                }
            }
        }
        for interface in self.legacy_interfaces() {
            if interface.get("ignore").and_then(Value::as_bool) == Some(true) {
                continue;
            }
            lint_device(interface, &parts, found);
        }
        if self.role() == Some(Role::Worker) {
            let vlans = self.legacy_interfaces().flat_map(|interface| items(interface, "vlans"));
            if vlans.clone().any(|vlan| vlan.get("vip").is_some_and(is_set)) {
                found.error(PLACE, "a virtual address must not be on a worker, on no VLAN either");
            }
        }
    }
}

fn lint_device(interface: &Value, parts: &HashMap<&str, &str>, found: &mut Findings) {
    let name = text(Some(interface), "interface");
    let selector = interface.get("deviceSelector").filter(|value| is_set(value));
    match (name, selector) {
        ("", None) => found.error(PLACE, "has an interface with neither `interface` nor `deviceSelector`"),
        ("", Some(_)) | (_, None) => {}
        (name, Some(_)) => {
            found.error(PLACE, &format!("`{name}` has a `deviceSelector` too; set one of them"));
        }
    }
    let says_nothing = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        _ => false,
    };
    if selector.and_then(Value::as_mapping).is_some_and(|fields| fields.values().all(says_nothing)) {
        found.error(PLACE, "has a `deviceSelector` that selects nothing");
    }
    lint_addresses(interface, found);
    if parts.contains_key(name) {
        let asks = interface.get("dhcp").and_then(Value::as_bool) == Some(true);
        let static_too =
            items(interface, "addresses").next().is_some() || !text(Some(interface), "cidr").is_empty();
        if asks || static_too || interface.get("vip").is_some_and(is_set) {
            found.error(PLACE, &format!("`{name}` is part of a bond or bridge, and cannot have addresses"));
        }
    }
    for route in items(interface, "routes") {
        let (network, gateway) = (text(Some(route), "network"), text(Some(route), "gateway"));
        if network.is_empty() && gateway.is_empty() {
            found.error(PLACE, "has a route with neither `network` nor `gateway`");
        }
        if !network.is_empty() && !is_network(network) {
            found.error(PLACE, &format!("has a route to `{network}`, which is no network"));
        }
        for address in [gateway, text(Some(route), "source")] {
            if !address.is_empty() && address.parse::<IpAddr>().is_err() {
                found.error(PLACE, &format!("has a route by `{address}`, which is no address"));
            }
        }
    }
    for vlan in items(interface, "vlans") {
        lint_addresses(vlan, found);
    }
    if let Some(bond) = interface.get("bond").filter(|value| is_set(value)) {
        lint_bond(name, bond, found);
    }
    if let Some(wireguard) = interface.get("wireguard").filter(|value| is_set(value)) {
        lint_wireguard(name, wireguard, found);
    }
}

fn lint_wireguard(name: &str, wireguard: &Value, found: &mut Findings) {
    let mut wrong = |message: &str| found.error(PLACE, &format!("the WireGuard link `{name}` {message}"));
    if !is_key(text(Some(wireguard), "privateKey")) {
        wrong("needs a `privateKey` of 32 bytes in base64");
    }
    for peer in items(wireguard, "peers") {
        if !is_key(text(Some(peer), "publicKey")) {
            wrong("has a peer that needs a `publicKey` of 32 bytes in base64");
        }
        let endpoint = text(Some(peer), "endpoint");
        if !endpoint.is_empty() && !has_port(endpoint) {
            wrong("has a peer that needs an `endpoint` of the form host:port");
        }
        if items(peer, "allowedIPs").filter_map(Value::as_str).any(|network| !is_network(network)) {
            wrong("has a peer with `allowedIPs` that are no networks");
        }
    }
}

fn lint_addresses(of: &Value, found: &mut Findings) {
    let cidr = text(Some(of), "cidr");
    let addresses: Vec<&str> = items(of, "addresses").filter_map(Value::as_str).collect();
    if !cidr.is_empty() && !addresses.is_empty() {
        found.error(PLACE, "has both `cidr` and `addresses`; set one of them");
    }
    for address in addresses.into_iter().chain(Some(cidr).filter(|cidr| !cidr.is_empty())) {
        if !is_address(address) {
            found.error(PLACE, &format!("has the address `{address}`, which is none"));
        }
    }
}

fn lint_bond(name: &str, bond: &Value, found: &mut Findings) {
    let mut wrong = |message: String| found.error(PLACE, &format!("the bond `{name}` {message}"));
    for (key, words) in BOND_WORDS {
        if !words.contains(&text(Some(bond), key)) {
            wrong(format!("needs a `{key}` that is one of {}", words.join(", ").trim_start_matches(", ")));
        }
    }
    let mode = Some(text(Some(bond), "mode")).filter(|mode| !mode.is_empty()).unwrap_or("balance-rr");
    let number = |key: &str| at(bond, key).and_then(Value::as_u64).unwrap_or_default();
    let (lacp, balancing) = (mode == "802.3ad", matches!(mode, "balance-tlb" | "balance-alb"));
    for key in ["updelay", "downdelay"] {
        match number("miimon") {
            0 if number(key) != 0 => wrong(format!("cannot have `{key}` without `miimon`")),
            0 => {}
            every if number(key) % every != 0 => {
                wrong(format!("needs a `{key}` that is a multiple of `miimon`"));
            }
            _ => {}
        }
    }
    if items(bond, "arpIPTarget").next().is_some() {
        wrong("cannot have `arpIPTarget`".into());
    }
    for (key, allowed) in [
        ("lacpRate", lacp),
        ("adActorSystem", false),
        ("arpValidate", !lacp && !balancing),
        ("primary", mode == "active-backup" || balancing),
    ] {
        if !allowed && !text(Some(bond), key).is_empty() {
            wrong(format!("cannot have `{key}` in mode `{mode}`"));
        }
    }
    for (key, allowed, most) in [
        ("arpInterval", !lacp && !balancing, 0),
        ("packetsPerSlave", mode == "balance-rr", 1),
        ("tlbDynamicLb", balancing, 0),
        ("adActorSysPrio", lacp, 0),
        ("adUserPortKey", lacp, 0),
    ] {
        if !allowed && number(key) > most {
            wrong(format!("cannot have `{key}` in mode `{mode}`"));
        }
    }
}
