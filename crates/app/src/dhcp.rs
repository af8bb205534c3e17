//! Reservations for DHCP servers: which MAC gets which address and name.

use std::fmt::Write as _;
use std::net::IpAddr;

use daedal_inventory::{Cluster, Node};

/// The DHCP servers whose language is known, by the name under which their reservations are asked for.
pub const SERVERS: [&str; 3] = ["dnsmasq", "kea", "isc"];

/// All nodes' reservations in a server's own language; none if it is not known.
pub fn reservations(cluster: &Cluster, server: &str) -> Option<String> {
    match server {
        "dnsmasq" => Some(dnsmasq(cluster)),
        "kea" => Some(kea(cluster)),
        "isc" => Some(isc(cluster)),
        _ => None,
    }
}

/// The nodes whose addresses are declared.
fn reserved(cluster: &Cluster) -> impl Iterator<Item = (&Node, IpAddr)> {
    cluster.nodes.iter().filter_map(|node| Some((node, node.ip()?)))
}

fn dnsmasq(cluster: &Cluster) -> String {
    let mut text = String::new();
    for (node, address) in reserved(cluster) {
        // Brackets tell an IPv6 address from the other fields.
        let address = if address.is_ipv6() { format!("[{address}]") } else { address.to_string() };
        let _ = writeln!(text, "dhcp-host={},{address},{}", node.mac.to_ascii_lowercase(), node.name);
    }
    text
}

/// For the `reservations` of a subnet.
fn kea(cluster: &Cluster) -> String {
    let rows: Vec<_> = reserved(cluster)
        .map(|(node, address)| {
            let mut row =
                serde_json::json!({"hw-address": node.mac.to_ascii_lowercase(), "hostname": node.name});
            if address.is_ipv6() {
                row["ip-addresses"] = serde_json::json!([address]);
            } else {
                row["ip-address"] = serde_json::json!(address);
            }
            row
        })
        .collect();
    format!("{:#}\n", serde_json::json!({"reservations": rows}))
}

fn isc(cluster: &Cluster) -> String {
    let mut text = String::new();
    for (node, address) in reserved(cluster) {
        let fixed = if address.is_ipv6() { "fixed-address6" } else { "fixed-address" };
        let _ = writeln!(
            text,
            "host {name} {{ hardware ethernet {mac}; {fixed} {address}; option host-name \"{name}\"; }}",
            name = node.name,
            mac = node.mac.to_ascii_lowercase(),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use daedal_inventory::{Source, load};

    use super::*;

    fn cluster() -> Cluster {
        let text = include_str!("../../../examples/home/cluster.yaml").to_owned();
        let none = |_: &std::path::Path| Err(std::io::Error::from(std::io::ErrorKind::NotFound));
        load(&[Source { name: "cluster.yaml".into(), text }], &none).unwrap().cluster
    }

    /// Mission: F3
    #[test]
    fn every_node_gets_its_line_in_every_language() {
        let cluster = cluster();
        let first = &cluster.nodes[0];
        let (mac, address) = (first.mac.to_ascii_lowercase(), first.ip().unwrap());
        let dnsmasq = reservations(&cluster, "dnsmasq").unwrap();
        assert_eq!(dnsmasq.lines().next(), Some(format!("dhcp-host={mac},{address},cp-1").as_str()));
        assert_eq!(dnsmasq.lines().count(), cluster.nodes.len());
        let isc = reservations(&cluster, "isc").unwrap();
        let wanted = format!(
            "host cp-1 {{ hardware ethernet {mac}; fixed-address {address}; option host-name \"cp-1\"; }}"
        );
        assert_eq!(isc.lines().next(), Some(wanted.as_str()));
        let kea: serde_json::Value = serde_json::from_str(&reservations(&cluster, "kea").unwrap()).unwrap();
        let wanted = serde_json::json!({"hw-address": mac, "ip-address": address, "hostname": "cp-1"});
        assert_eq!(kea["reservations"][0], wanted);
        assert_eq!(reservations(&cluster, "windows"), None);
    }
}
