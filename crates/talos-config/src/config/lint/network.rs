//! Faults of a machine's network: addresses, routes, virtual addresses, VLANs, bonds.

use std::{
    collections::{HashMap, HashSet},
    net::IpAddr,
};

use ipnet::IpNet;
use yaml_serde::Value;

use super::{Findings, items, links::LINK_KINDS};
use crate::config::{
    document::{DocumentId, MachineConfig},
    options::Role,
    schema::is_address,
};

fn name(document: &Value) -> Option<&str> {
    document.get("name").and_then(Value::as_str)
}

fn address(value: Option<&Value>) -> Option<IpAddr> {
    value?.as_str()?.parse().ok()
}

impl MachineConfig {
    pub(super) fn lint_network(&self, found: &mut Findings) {
        self.lint_addresses(found);
        self.lint_virtual_addresses(found);
        self.lint_routes(found);
        self.lint_stacked_links(found);
    }

    /// The same address on two links works on neither.
    fn lint_addresses(&self, found: &mut Findings) {
        let mut seen: HashMap<IpAddr, String> = HashMap::new();
        for (place, nets) in self.links() {
            for net in nets {
                // Each link has a network of its own for these.
                let local = matches!(net.addr(), IpAddr::V6(address) if address.is_unicast_link_local());
                match seen.insert(net.addr(), place.clone()).filter(|_| !local) {
                    Some(first) if first == place => {
                        found.warning(&place, &format!("has the address {} twice", net.addr()));
                    }
                    Some(first) => {
                        let message = format!("has the address {}, which {first} has already", net.addr());
                        found.error(&place, &message);
                    }
                    None => {}
                }
                if net.prefix_len() >= net.max_prefix_len().saturating_sub(1) {
                    continue;
                }
                match net.addr() {
                    IpAddr::V4(_) if net.addr() == net.network() || net.addr() == net.broadcast() => {
                        let message =
                            format!("has the address {net}, which is the network's own or its broadcast");
                        found.error(&place, &message);
                    }
                    IpAddr::V6(_) if net.addr() == net.network() => {
                        let message =
                            format!("has the address {net}, which every router of the network answers to");
                        found.warning(&place, &message);
                    }
                    _ => {}
                }
            }
        }
    }

    fn lint_virtual_addresses(&self, found: &mut Findings) {
        let names: HashSet<&str> = LINK_KINDS
            .iter()
            .chain(&["LinkAliasConfig"])
            .flat_map(|kind| self.of_kind(kind))
            .filter_map(name)
            .collect();
        let own = self.addresses();
        let judge = |place: &str, vip: IpAddr, found: &mut Findings| {
            if own.iter().any(|net| net.addr() == vip) {
                found.error(place, "is the node's own address");
            } else if !own.is_empty() && !own.iter().any(|net| net.contains(&vip)) {
                found.warning(place, "lies in none of the node's networks");
            }
        };
        for document in self.of_kind("Layer2VIPConfig") {
            let place = DocumentId::of(document).to_string();
            if self.role() == Some(Role::Worker) {
                found.error(
                    &place,
                    "must not be on a worker: only control planes can hold the virtual address",
                );
            }
            match document.get("link").and_then(Value::as_str) {
                None | Some("") => found.error(&place, "names no link"),
                Some(link) if !names.contains(link) => {
                    found
                        .warning(&place, &format!("is on link `{link}`, which no other document configures"));
                }
                Some(_) => {}
            }
            match address(document.get("name")) {
                // One with a zone is an address too.
                None if is_address(&DocumentId::of(document).name) => {}
                None => found.error(&place, "has no IP address as its name"),
                Some(vip) => judge(&place, vip, found),
            }
        }
        for interface in self.legacy_interfaces() {
            let Some(vip) = interface.get("vip").filter(|vip| !vip.is_null()) else { continue };
            if self.role() == Some(Role::Worker) {
                found.error("machine.network.interfaces", "a virtual address must not be on a worker");
            }
            match address(vip.get("ip")) {
                None => found.error("machine.network.interfaces", "a virtual address is not an IP address"),
                Some(vip) => judge("the virtual address of machine.network.interfaces", vip, found),
            }
        }
    }

    fn lint_routes(&self, found: &mut Findings) {
        let judge = |place: &str, nets: &[IpNet], gateway: IpAddr, found: &mut Findings| {
            if nets.iter().any(|net| net.addr() == gateway) {
                found.error(place, &format!("routes through {gateway}, which is its own address"));
            } else if !nets.is_empty() && !nets.iter().any(|net| net.contains(&gateway)) {
                found.warning(
                    place,
                    &format!("routes through {gateway}, which none of its addresses reaches"),
                );
            }
        };
        for document in LINK_KINDS.iter().flat_map(|kind| self.of_kind(kind)) {
            let nets = link_addresses(document);
            let place = DocumentId::of(document).to_string();
            for gateway in items(document, "routes").filter_map(|route| address(route.get("gateway"))) {
                judge(&place, &nets, gateway, found);
            }
        }
        for interface in self.legacy_interfaces() {
            let nets = legacy_addresses(interface);
            for gateway in items(interface, "routes").filter_map(|route| address(route.get("gateway"))) {
                judge("machine.network.interfaces", &nets, gateway, found);
            }
        }
    }

    /// Bonds and VLANs need the links below them.
    fn lint_stacked_links(&self, found: &mut Findings) {
        let mut members: HashMap<&str, String> = HashMap::new();
        for bond in self.of_kind("BondConfig") {
            let place = DocumentId::of(bond).to_string();
            if items(bond, "links").next().is_none() {
                found.error(&place, "has no links");
            }
            for link in items(bond, "links").filter_map(Value::as_str) {
                match members.insert(link, place.clone()) {
                    Some(other) if other == place => {
                        found.warning(&place, &format!("has the link `{link}` twice"));
                    }
                    Some(other) => {
                        found.error(&place, &format!("has the link `{link}`, which {other} has already"));
                    }
                    None => {}
                }
            }
        }
        let mut seen = HashSet::new();
        for vlan in self.of_kind("VLANConfig") {
            let place = DocumentId::of(vlan).to_string();
            let id = vlan.get("vlanID").and_then(Value::as_u64).unwrap_or_default();
            if !(1..=4094).contains(&id) {
                found.error(&place, "needs a `vlanID` from 1 to 4094");
            }
            match vlan.get("parent").and_then(Value::as_str) {
                None | Some("") => found.error(&place, "names no parent"),
                Some(parent) if !seen.insert((parent, id)) => {
                    found.error(&place, &format!("is VLAN {id} of `{parent}` a second time"));
                }
                Some(_) => {}
            }
        }
    }

    /// Every configured link: where it stands, its static addresses.
    fn links(&self) -> Vec<(String, Vec<IpNet>)> {
        let documents = LINK_KINDS.iter().flat_map(|kind| self.of_kind(kind));
        let mut links: Vec<(String, Vec<IpNet>)> = documents
            .map(|document| (DocumentId::of(document).to_string(), link_addresses(document)))
            .collect();
        for (index, interface) in self.legacy_interfaces().enumerate() {
            let place = format!("machine.network.interfaces[{index}]");
            links.push((place.clone(), legacy_addresses(interface)));
            for (vlan, fields) in items(interface, "vlans").enumerate() {
                links.push((format!("{place}.vlans[{vlan}]"), legacy_addresses(fields)));
            }
        }
        links
    }

    /// The static addresses that the config gives the machine.
    pub fn addresses(&self) -> Vec<IpNet> {
        self.links().into_iter().flat_map(|(_, nets)| nets).collect()
    }

    /// The virtual addresses that the machine takes part in.
    pub fn virtual_addresses(&self) -> Vec<IpAddr> {
        let legacy = self.legacy_interfaces().filter_map(|interface| interface.get("vip")?.get("ip"));
        self.of_kind("Layer2VIPConfig")
            .filter_map(|document| document.get("name"))
            .chain(legacy)
            .filter_map(|address| address.as_str()?.parse().ok())
            .collect()
    }

    pub(in crate::config) fn legacy_interfaces(&self) -> impl Iterator<Item = &Value> + Clone {
        let network = self.get("machine.network");
        network.map(|network| items(network, "interfaces")).into_iter().flatten()
    }
}

fn link_addresses(document: &Value) -> Vec<IpNet> {
    items(document, "addresses")
        .filter_map(|entry| entry.get("address").and_then(Value::as_str)?.parse().ok())
        .collect()
}

fn legacy_addresses(interface: &Value) -> Vec<IpNet> {
    items(interface, "addresses").filter_map(|address| address.as_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Release, Severity};

    #[test]
    fn a_name_left_to_dhcp_is_refused_where_talos_refuses_it() {
        let refused = |fields: &str, version: &str| {
            let text = format!("machine: {{}}\n---\napiVersion: v1alpha1\nkind: HostnameConfig\n{fields}\n");
            let lints = MachineConfig::from_yaml(&text).unwrap().lint(Release::of(version).unwrap());
            lints.iter().any(|lint| lint.place.starts_with("HostnameConfig"))
        };
        for (version, expected) in
            [("v1.12.8", true), ("v1.12.9", false), ("v1.13.2", true), ("v1.13.3", false), ("v1.14.0", false)]
        {
            assert_eq!(refused("auto: 'off'", version), expected, "{version}");
            assert!(refused("hostname: ''", version) && !refused("auto: 'off'\nhostname: a", version));
        }
    }

    /// What is said of the network of a config with these documents.
    fn said(documents: &str) -> Vec<(Severity, String)> {
        let text = format!("version: v1alpha1\nmachine: {{type: worker}}\ncluster: {{}}\n{documents}");
        let config = MachineConfig::from_yaml(&text).unwrap();
        let lints = config.lint(Release::of("v1.12.9").unwrap()).into_iter();
        let ours = lints.filter(|lint| ["Link", "Hostname"].iter().any(|kind| lint.place.starts_with(kind)));
        ours.map(|lint| (lint.severity, lint.message)).collect()
    }

    fn link(name: &str, addresses: &[&str]) -> String {
        let addresses: Vec<String> = addresses.iter().map(|a| format!("{{address: '{a}'}}")).collect();
        let addresses = addresses.join(", ");
        format!("---\napiVersion: v1alpha1\nkind: LinkConfig\nname: {name}\naddresses: [{addresses}]\n")
    }

    #[test]
    fn what_talos_takes_is_doubted_at_most() {
        let local = link("a", &["fe80::1/64"]) + &link("b", &["fe80::1/64"]);
        assert_eq!(said(&local), []);
        for doubtful in [link("a", &["10.0.0.5/24", "10.0.0.5/24"]), link("a", &["fd00::/64"])] {
            let said = said(&doubtful);
            assert!(matches!(said[..], [(Severity::Warning, _)]), "{said:?}");
        }
        for wrong in [link("a", &["10.0.0.5/24"]) + &link("b", &["10.0.0.5/24"]), link("a", &["10.0.0.0/24"])]
        {
            let said = said(&wrong);
            assert!(matches!(said[..], [(Severity::Error, _)]), "{said:?}");
        }
    }

    #[test]
    fn endpoints_are_read_as_talos_reads_them() {
        use crate::config::lint::endpoint_host;
        assert_eq!(endpoint_host("https://[fd00::1]"), Some("[fd00::1]"));
        assert_eq!(endpoint_host("https://[fd00::1]:6443"), Some("[fd00::1]"));
        assert_eq!(endpoint_host("https://a.lan"), Some("a.lan"));
        assert_eq!(endpoint_host("https://a.lan:0"), None);
    }
}
