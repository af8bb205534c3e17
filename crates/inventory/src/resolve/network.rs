//! The nodes' network: its range, what is already taken in it, and addresses as distances from its start.

use std::net::IpAddr;

use ipnet::IpNet;

use super::{Context, Refusal, mac};
use crate::cluster;
use crate::document;
use crate::path::Path;

const DEFAULT_DNS: [&str; 2] = ["1.1.1.1", "8.8.8.8"];

/// The network as far as it could be read.
pub(crate) struct Network {
    pub(crate) cidr: Option<IpNet>,
    pub(crate) gateway: Option<IpAddr>,
    pub(crate) vip: Option<IpAddr>,
    pub(crate) mac_prefix: Option<Vec<u8>>,
    dns: Vec<IpAddr>,
    ntp: Vec<String>,
    mtu: Option<u16>,
    dhcp: bool,
    pub(crate) discovered: bool,
}

impl Network {
    pub(crate) fn finish(self) -> Option<cluster::Network> {
        Some(cluster::Network {
            cidr: self.cidr?,
            gateway: self.gateway?,
            dns: self.dns,
            ntp: self.ntp,
            vip: self.vip,
            mtu: self.mtu,
            dhcp: self.dhcp,
            discovered: self.discovered,
        })
    }

    /// Whether an address can be a machine's in this network; if not, why.
    pub(crate) fn usable(&self, address: IpAddr) -> Result<(), Refusal> {
        let Some(cidr) = self.cidr else { return Ok(()) };
        let (first, last) = hosts(cidr);
        let help = format!("Machines in it have addresses from {first} to {last}.");
        if !cidr.contains(&address) {
            return Err((format!("{address} is outside the network {cidr}."), help));
        }
        if address < first {
            return Err((format!("{address} is the network {cidr} itself, not a machine in it."), help));
        }
        if address > last {
            return Err((format!("{address} is the broadcast address of {cidr}."), help));
        }
        Ok(())
    }
}

/// First and last address that a machine can have.
fn hosts(cidr: IpNet) -> (IpAddr, IpAddr) {
    let (first, last) = (cidr.network(), cidr.broadcast());
    if cidr.max_prefix_len() - cidr.prefix_len() < 2 {
        return (first, last);
    }
    // IPv6 has no broadcast address; its first one is the routers'.
    let last = if cidr.addr().is_ipv4() { step(last, -1).unwrap_or(last) } else { last };
    (step(first, 1).unwrap_or(first), last)
}

/// The address some way from another, if there is one.
pub(crate) fn step(address: IpAddr, by: i128) -> Option<IpAddr> {
    match address {
        IpAddr::V4(v4) => {
            let moved = i128::from(u32::from(v4)).checked_add(by)?;
            Some(IpAddr::V4(u32::try_from(moved).ok()?.into()))
        }
        IpAddr::V6(v6) => {
            let number = u128::from(v6);
            let moved = if by < 0 {
                number.checked_sub(by.unsigned_abs())
            } else {
                number.checked_add(by.unsigned_abs())
            };
            Some(IpAddr::V6(moved?.into()))
        }
    }
}

/// An address as written: in full, or as its distance from the start of the network.
pub(crate) fn address(text: &str, cidr: Option<IpNet>) -> Result<Option<IpAddr>, Refusal> {
    let text = text.trim();
    if let Some(distance) = text.strip_prefix('+') {
        let distance: u64 = distance.parse().map_err(|_| not_an_address(text))?;
        let Some(cidr) = cidr else { return Ok(None) };
        let address = step(cidr.network(), i128::from(distance)).filter(|a| cidr.contains(a));
        return address.map(Some).ok_or_else(|| {
            let (first, last) = hosts(cidr);
            let help = format!("Machines in it have addresses from {first} to {last}.");
            (format!("{text} is beyond the end of the network {cidr}."), help)
        });
    }
    if text.bytes().all(|b| b.is_ascii_digit()) && !text.is_empty() {
        return Err((
            format!("`{text}` is not an address."),
            format!("For the address {text} places from the start of the network write `+{text}`."),
        ));
    }
    if let Some((alone, _)) = text.split_once('/')
        && alone.parse::<IpAddr>().is_ok()
    {
        return Err((
            format!("`{text}` has a prefix length, which nodes take from `network.cidr`."),
            format!("Write `{alone}`."),
        ));
    }
    text.parse().map(Some).map_err(|_| not_an_address(text))
}

fn not_an_address(text: &str) -> Refusal {
    let help = "Write it in full (`10.0.0.11`), or as the distance from the start of the network (`+10`).";
    (format!("`{text}` is not an address."), help.to_owned())
}

fn plain_address(text: &str) -> Result<IpAddr, Refusal> {
    text.parse().map_err(|_| {
        (format!("`{text}` is not an address."), "Write it in full, for example `10.0.0.1`.".to_owned())
    })
}

/// A network as written, which must name its first address.
pub(crate) fn subnet(text: &str) -> Result<IpNet, Refusal> {
    let Ok(net) = text.parse::<IpNet>() else {
        let help = match text.parse::<IpAddr>() {
            Ok(_) => format!("Add the prefix length, for example `{text}/24`."),
            Err(_) => "Write it as address and prefix length, for example `10.0.0.0/24`.".to_owned(),
        };
        return Err((format!("`{text}` is not a network."), help));
    };
    if net.addr() != net.network() {
        return Err((
            format!("`{text}` is one address of a network, not the network."),
            format!("Did you mean `{}`?", net.trunc()),
        ));
    }
    Ok(net)
}

pub(crate) fn network(network: &document::Network, at: &Path<'_>, cx: &mut Context<'_>) -> Network {
    let at = at.key("network");
    let cidr = cx.take("network", &at.key("cidr"), subnet(&network.cidr)).filter(|_| cx.given(&at));
    let mut place =
        |key, text: &document::Address| cx.take("address", &at.key(key), address(&text.0, cidr)).flatten();
    let gateway = place("gateway", &network.gateway);
    let vip = network.vip.as_ref().and_then(|vip| place("vip", vip));
    let dns_at = at.key("dns");
    let dns = match &network.dns {
        Some(list) => list
            .iter()
            .enumerate()
            .filter_map(|(i, text)| cx.take("address", &dns_at.index(i), plain_address(text)))
            .collect(),
        None => DEFAULT_DNS.iter().filter_map(|a| a.parse().ok()).collect(),
    };
    let ntp_at = at.key("ntp");
    let ntp = network.ntp.iter().flatten().enumerate().filter_map(|(i, text)| {
        let checked = if host_name(text) { Ok(text.clone()) } else { Err(not_a_host(text)) };
        cx.take("name", &ntp_at.index(i), checked)
    });
    let ntp = ntp.collect();
    let mac_prefix = network.mac_prefix.as_deref().and_then(|text| {
        let read = mac::parse_prefix(text).map_err(|why| (why, "Write for example `BC:24:11`.".to_owned()));
        cx.take("mac", &at.key("macPrefix"), read)
    });
    let (dhcp, discovered) = (network.asks(), network.discovers());
    let resolved = Network { cidr, gateway, vip, mac_prefix, dns, ntp, mtu: network.mtu, dhcp, discovered };
    taken_addresses(&resolved, &at, cx);
    resolved
}

/// Says that an address is declared although they are discovered.
pub(crate) fn not_declared(at: &Path<'_>, cx: &mut Context<'_>) {
    let message = "An address is declared, but `network.dhcp: discovered` says that DHCP gives any.";
    let help = "Remove it; or write `dhcp: true` and reserve it.";
    cx.error("address", at, message, help);
}

/// The gateway and the VIP must be usable, and different.
fn taken_addresses(network: &Network, at: &Path<'_>, cx: &mut Context<'_>) {
    // An IPv6 router is commonly known by its link-local address.
    let link_local = |a: &IpAddr| matches!(a, IpAddr::V6(v6) if v6.is_unicast_link_local());
    for (key, address) in [("gateway", network.gateway.filter(|a| !link_local(a))), ("vip", network.vip)] {
        if let Some(Err((message, help))) = address.map(|a| network.usable(a)) {
            cx.error("address", &at.key(key), message, help);
        }
    }
    if let (Some(gateway), Some(vip)) = (network.gateway, network.vip)
        && gateway == vip
    {
        let message = format!("{vip} cannot be the VIP: it is the gateway.");
        cx.error(
            "address",
            &at.key("vip"),
            message,
            "Choose an address of the network that nothing else uses.",
        );
    }
}

/// A host name or an address.
pub(crate) fn host_name(text: &str) -> bool {
    let label = |l: &str| {
        !l.is_empty()
            && l.len() <= 63
            && l.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
    };
    text.parse::<IpAddr>().is_ok() || (text.len() <= 253 && text.split('.').all(label))
}

pub(crate) fn not_a_host(text: &str) -> Refusal {
    (
        format!("`{text}` is neither a host name nor an address."),
        "Write it without a scheme or path.".to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_from_the_start_of_the_network() {
        let cidr = subnet("10.10.0.0/24").ok();
        assert_eq!(address("+10", cidr), Ok("10.10.0.10".parse().ok()));
        assert_eq!(
            address("+256", cidr).expect_err("beyond").0,
            "+256 is beyond the end of the network 10.10.0.0/24."
        );
        assert_eq!(
            address("10", cidr).expect_err("bare").1,
            "For the address 10 places from the start of the network write `+10`."
        );
        assert_eq!(address("10.10.0.5/24", cidr).expect_err("prefix").1, "Write `10.10.0.5`.");
        assert_eq!(
            address("+18446744073709551616", cidr).expect_err("huge").0,
            "`+18446744073709551616` is not an address."
        );
        assert_eq!(address("+16", subnet("fd00::/64").ok()), Ok("fd00::10".parse().ok()));
    }

    #[test]
    fn subnets_must_be_exact() {
        assert_eq!(subnet("10.0.0.5/16").expect_err("host bits").1, "Did you mean `10.0.0.0/16`?");
        assert_eq!(
            subnet("10.0.0.0").expect_err("no prefix").1,
            "Add the prefix length, for example `10.0.0.0/24`."
        );
    }

    #[test]
    fn small_networks_have_no_network_address() {
        let hosts_of = |text: &str| {
            let (first, last) = hosts(text.parse().expect("net"));
            (first.to_string(), last.to_string())
        };
        assert_eq!(hosts_of("10.0.0.0/31"), ("10.0.0.0".into(), "10.0.0.1".into()));
        assert_eq!(hosts_of("10.0.0.0/30"), ("10.0.0.1".into(), "10.0.0.2".into()));
        assert_eq!(hosts_of("0.0.0.0/0"), ("0.0.0.1".into(), "255.255.255.254".into()));
    }
}
