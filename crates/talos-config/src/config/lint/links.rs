//! Faults of the documents that configure links: names, addresses, modes, what asks for addresses.

use std::{collections::HashMap, net::IpAddr};

use ipnet::IpNet;
use yaml_serde::Value;

use super::{Findings, expression::About, is_set, items, text, volumes::lint_selector};
use crate::config::{
    contract::Release,
    document::{DocumentId, MachineConfig},
};

/// Documents that configure a link of some kind; a link is of one kind only.
pub(super) const LINK_KINDS: [&str; 8] = [
    "LinkConfig",
    "VLANConfig",
    "BondConfig",
    "BridgeConfig",
    "DummyLinkConfig",
    "WireguardConfig",
    "VRFConfig",
    "VethConfig",
];

impl MachineConfig {
    pub(super) fn lint_links(&self, release: Release, found: &mut Findings) {
        let mut kinds: HashMap<String, &str> = HashMap::new();
        for (kind, document) in LINK_KINDS.iter().flat_map(|kind| self.of_kind(kind).map(|of| (*kind, of))) {
            let id = DocumentId::of(document);
            let place = id.to_string();
            if id.name.is_empty() {
                found.error(kind, "needs a name");
            } else if let Some(other) = kinds.insert(id.name, kind).filter(|other| *other != kind) {
                found.error(&place, &format!("has the name of a {other}; a link is of one kind only"));
            }
            lint_addresses(document, &place, found);
        }
        self.lint_pairs(&kinds, found);
        for bond in self.of_kind("BondConfig") {
            if text(Some(bond), "bondMode").is_empty() {
                found.error(&DocumentId::of(bond).to_string(), "needs a `bondMode`, such as active-backup");
            }
        }
        for alias in self.of_kind("LinkAliasConfig") {
            let id = DocumentId::of(alias);
            let place = id.to_string();
            if release.minor() >= 13
                && let Some((before, behind)) = id.name.split_once('%')
                && (before.is_empty() || behind != "d")
            {
                found.error(&place, "has a `%` in its name that is not the `%d` at its end");
            }
            let selector = super::at(alias, "selector.match");
            lint_selector(&place, selector, About::Links, true, release, found);
        }
        for document in ["DHCPv4Config", "DHCPv6Config"].iter().flat_map(|kind| self.of_kind(kind)) {
            let id = DocumentId::of(document);
            let by_duid = text(Some(document), "clientIdentifier").eq_ignore_ascii_case("duid");
            if by_duid == text(Some(document), "duidRaw").is_empty() {
                found.error(&id.to_string(), "needs both `clientIdentifier: duid` and `duidRaw`, or neither");
            }
        }
        for document in self.of_kind("StaticHostConfig") {
            let id = DocumentId::of(document);
            if items(document, "hostnames").next().is_none() {
                found.error(&id.to_string(), "has no names");
            }
        }
    }

    /// Both ends of a pair are links, each configured once.
    fn lint_pairs(&self, kinds: &HashMap<String, &str>, found: &mut Findings) {
        let mut ends: HashMap<&str, String> = HashMap::new();
        for pair in self.of_kind("VethConfig") {
            let id = DocumentId::of(pair);
            let place = id.to_string();
            let other = text(Some(pair), "peer.name");
            for (key, name) in [("name", id.name.as_str()), ("peer.name", other)] {
                let is_seen = |letter: char| !letter.is_whitespace() && !letter.is_control();
                let is_good = (1..=15).contains(&name.len())
                    && !matches!(name, "." | "..")
                    && name.chars().all(|letter| is_seen(letter) && !"/:".contains(letter));
                if !is_good {
                    let message = format!("needs a `{key}` of 1 to 15 letters without blanks, `/` and `:`");
                    found.error(&place, &message);
                }
            }
            if id.name == other {
                found.error(&place, "needs a `peer.name` that is not its own name");
            } else if let Some(kind) = kinds.get(other) {
                found.error(
                    &place,
                    &format!("has a peer with the name of a {kind}; a link is configured once"),
                );
            }
            if let Some(first) = ends.insert(other, place.clone()) {
                found.error(&place, &format!("has the peer `{other}`, which {first} has too"));
            }
            if let Some(peer) = pair.get("peer") {
                lint_addresses(peer, &place, found);
            }
        }
    }
}

fn lint_addresses(document: &Value, place: &str, found: &mut Findings) {
    for entry in items(document, "addresses") {
        let address = text(Some(entry), "address");
        if address.is_empty() {
            found.error(place, "has an address that is empty");
        } else if address.parse().is_ok_and(|net: IpNet| net.addr().is_unspecified()) {
            found.error(place, &format!("has the address {address}, which stands for none"));
        }
    }
    for route in items(document, "routes").filter(|route| is_set(route)) {
        let destination = text(Some(route), "destination");
        if destination.parse().is_ok_and(|net: IpNet| net.addr().is_unspecified()) {
            found.error(
                place,
                &format!("has a route to {destination}; leave `destination` out where all is meant"),
            );
        }
        for key in ["gateway", "source"] {
            let address = text(Some(route), key);
            if address.parse().is_ok_and(|address: IpAddr| address.is_unspecified()) {
                found.error(place, &format!("has a route whose {key} is {address}, which stands for none"));
            }
        }
    }
}
