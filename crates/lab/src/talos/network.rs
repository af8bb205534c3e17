//! Which addresses a node puts on which of its network cards, from its configuration and its cidata drive.

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::Value;

use super::config::MachineConfig;
use crate::image::SystemImage;

/// A network card as the node configured it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Kernel name, such as `eth0`.
    pub name: String,
    /// Alias from a LinkAliasConfig.
    pub alias: Option<String>,
    /// MAC, lower-case.
    pub mac: String,
    /// Static addresses.
    pub addresses: Vec<IpNet>,
    /// Default gateway.
    pub gateway: Option<IpAddr>,
    /// Shared address to compete for.
    pub vip: Option<IpAddr>,
}

/// Applies the platform's network configuration and then the machine configuration to the cards.
pub fn configure(
    macs: &[String],
    config: Option<&MachineConfig>,
    network_config: Option<&str>,
    predictable_names: bool,
) -> Vec<Link> {
    let mut links: Vec<Link> = macs
        .iter()
        .enumerate()
        .map(|(index, mac)| Link {
            name: if predictable_names { format!("ens{}", 18 + index) } else { format!("eth{index}") },
            alias: None,
            mac: mac.to_ascii_lowercase(),
            addresses: Vec::new(),
            gateway: None,
            vip: None,
        })
        .collect();
    if let Some(text) = network_config {
        platform(&mut links, text);
    }
    if let Some(config) = config {
        legacy(&mut links, config);
        documents(&mut links, config);
    }
    links
}

/// Whether cards are named after where they are (`ens18`) instead of counted (`eth0`).
pub fn predictable(image: &SystemImage) -> bool {
    image.platform == "metal" && !image.kernel_args.iter().any(|arg| arg == "net.ifnames=0")
}

/// Applies a platform network configuration as META holds one.
pub fn platform_resource(links: &mut [Link], text_: &str) {
    let Ok(parsed) = yaml_serde::from_str::<Value>(text_) else { return };
    for address in list(&parsed, "addresses") {
        if let Some(link) = named(links, text(address, "linkName")) {
            link.addresses.extend(parse_net(text(address, "address")));
        }
    }
    for route in list(&parsed, "routes") {
        if let Some(link) = named(links, text(route, "outLinkName")) {
            default_route(link, text(route, "dst"), text(route, "gateway"));
        }
    }
}

/// Where nobody configured any card, all of them ask for an address; with it may come a name for the machine.
pub fn ask_dhcp(links: &mut [Link], network: &crate::Fabric) -> Option<String> {
    if !asks(links) {
        return None;
    }
    let mut name = None;
    for link in links {
        if let Some((address, gateway)) = network.lease(&link.mac) {
            link.addresses.push(address);
            link.gateway = gateway;
            name = name.or_else(|| network.leased_name(&link.mac));
        }
    }
    name
}

/// Whether a machine has been told no address, so that it asks.
pub(crate) fn asks(links: &[Link]) -> bool {
    links.iter().all(|link| link.addresses.is_empty())
}

fn documents(links: &mut [Link], config: &MachineConfig) {
    for alias in config.kind("LinkAliasConfig") {
        let name = text(alias, "name");
        let Some(mac) = alias.pointer("/selector/match").and_then(Value::as_str).and_then(mac_in) else {
            continue;
        };
        if let Some(link) = links.iter_mut().find(|l| l.mac == mac) {
            link.alias = Some(name.to_owned());
        }
    }
    for document in config.kind("LinkConfig") {
        let Some(link) = named(links, text(document, "name")) else { continue };
        for address in list(document, "addresses") {
            link.addresses.extend(text(address, "address").parse::<IpNet>().ok());
        }
        for route in list(document, "routes") {
            default_route(link, text(route, "destination"), text(route, "gateway"));
        }
    }
    for document in config.kind("Layer2VIPConfig") {
        if let Some(link) = named(links, text(document, "link")) {
            link.vip = text(document, "name").parse().ok();
        }
    }
}

fn legacy(links: &mut [Link], config: &MachineConfig) {
    let interfaces = config.whole().pointer("/machine/network/interfaces").and_then(Value::as_array);
    for interface in interfaces.into_iter().flatten() {
        let selector = interface.get("deviceSelector");
        let wanted = selector.map(|s| {
            let key = if s.get("hardwareAddr").is_some() { "hardwareAddr" } else { "permanentAddr" };
            text(s, key).to_ascii_lowercase()
        });
        let found = match &wanted {
            Some(glob) if !glob.is_empty() => links.iter_mut().find(|l| glob_matches(glob, &l.mac)),
            Some(_) => links.first_mut(),
            None => named(links, text(interface, "interface")),
        };
        let Some(link) = found else { continue };
        for address in list(interface, "addresses").iter().filter_map(Value::as_str) {
            link.addresses.extend(parse_net(address));
        }
        for route in list(interface, "routes") {
            default_route(link, text(route, "network"), text(route, "gateway"));
        }
        if let Some(ip) = interface.pointer("/vip/ip").and_then(Value::as_str) {
            link.vip = ip.parse().ok();
        }
    }
}

/// A cloud-init network configuration, version 1 or 2, matched by MAC.
fn platform(links: &mut [Link], text_: &str) {
    let Ok(parsed) = yaml_serde::from_str::<Value>(text_) else { return };
    let root = parsed.get("network").unwrap_or(&parsed);
    if let Some(ethernets) = root.get("ethernets").and_then(Value::as_object) {
        for (name, entry) in ethernets {
            let mac = entry.pointer("/match/macaddress").and_then(Value::as_str).map(str::to_ascii_lowercase);
            let found = match mac {
                Some(mac) => links.iter_mut().find(|l| l.mac == mac),
                None => named(links, name),
            };
            let Some(link) = found else { continue };
            for address in list(entry, "addresses").iter().filter_map(Value::as_str) {
                link.addresses.extend(parse_net(address));
            }
            default_route(link, "default", text(entry, "gateway4"));
            for route in list(entry, "routes") {
                default_route(link, text(route, "to"), text(route, "via"));
            }
        }
    }
    for entry in list(root, "config").iter().filter(|e| text(e, "type") == "physical") {
        let mac = text(entry, "mac_address").to_ascii_lowercase();
        let found = if mac.is_empty() {
            named(links, text(entry, "name"))
        } else {
            links.iter_mut().find(|l| l.mac == mac)
        };
        let Some(link) = found else { continue };
        for subnet in list(entry, "subnets").iter().filter(|s| text(s, "type").starts_with("static")) {
            let address = text(subnet, "address");
            let net = match text(subnet, "netmask") {
                "" => parse_net(address),
                mask => mask
                    .parse::<IpAddr>()
                    .ok()
                    .and_then(|mask| ipnet::ip_mask_to_prefix(mask).ok())
                    .and_then(|prefix| IpNet::new(address.parse().ok()?, prefix).ok()),
            };
            link.addresses.extend(net);
            default_route(link, "default", text(subnet, "gateway"));
        }
    }
}

fn named<'a>(links: &'a mut [Link], name: &str) -> Option<&'a mut Link> {
    links.iter_mut().find(|l| l.name == name || l.alias.as_deref() == Some(name))
}

fn default_route(link: &mut Link, destination: &str, gateway: &str) {
    if matches!(destination, "" | "default" | "0.0.0.0/0" | "::/0")
        && let Ok(gateway) = gateway.parse()
    {
        link.gateway = Some(gateway);
    }
}

fn parse_net(text: &str) -> Option<IpNet> {
    text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The first MAC address written in a selector expression.
fn mac_in(expression: &str) -> Option<String> {
    expression.split(['"', '\'', ' ', '(', ')']).map(str::to_ascii_lowercase).find(|part| {
        part.len() == 17
            && part.split(':').count() == 6
            && part.split(':').all(|b| b.len() == 2 && b.bytes().all(|c| c.is_ascii_hexdigit()))
    })
}

/// Shell-style `*` matching, as device selectors allow.
fn glob_matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut last = None;
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
        last = Some(part);
    }
    match last {
        None => rest.is_empty(),
        Some(part) => part.is_empty() || text.ends_with(part),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: &str = "BC:24:11:00:00:01";

    #[test]
    fn the_platforms_network_is_matched_by_mac_in_both_versions() {
        let v2 = "version: 2\nethernets:\n  any:\n    match: {macaddress: \"bc:24:11:00:00:01\"}\n    addresses: [10.0.0.11/16]\n    gateway4: 10.0.0.1\n";
        let v1 = "version: 1\nconfig:\n- type: physical\n  name: eth0\n  mac_address: bc:24:11:00:00:01\n  subnets:\n  - {type: static, address: 10.0.0.11, netmask: 255.255.0.0, gateway: 10.0.0.1}\n";
        for text in [v2, v1] {
            let links = configure(&[MAC.into()], None, Some(text), false);
            assert_eq!(links[0].name, "eth0");
            assert_eq!(links[0].addresses, ["10.0.0.11/16".parse::<IpNet>().unwrap()], "{text}");
            assert_eq!(links[0].gateway, Some("10.0.0.1".parse().unwrap()));
        }
        let other = configure(&["BC:24:11:00:00:02".into()], None, Some(v2), false);
        assert!(other[0].addresses.is_empty());
    }

    #[test]
    fn selectors_find_their_card() {
        assert_eq!(
            mac_in("mac(link.permanent_addr) == \"BC:24:11:00:00:01\""),
            Some("bc:24:11:00:00:01".into())
        );
        assert!(glob_matches("bc:24:*", "bc:24:11:00:00:01"));
        assert!(glob_matches("*:01", "bc:24:11:00:00:01"));
        assert!(!glob_matches("*:02", "bc:24:11:00:00:01"));
        assert!(glob_matches("bc:24:11:00:00:01", "bc:24:11:00:00:01"));
    }
}
