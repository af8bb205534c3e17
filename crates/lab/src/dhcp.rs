//! The DHCP server of the lab's network: reservations by MAC, and a range for everybody else.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// What the DHCP server gives out, and what it has given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dhcp {
    /// First address of the range, with the network's prefix length. None: only reservations are answered.
    pub first: Option<IpNet>,
    /// Reserved addresses by MAC, in any case.
    #[serde(default)]
    pub reservations: BTreeMap<String, IpNet>,
    /// Host names that are given together with the address, by MAC, in any case.
    #[serde(default)]
    pub names: BTreeMap<String, String>,
    /// Default gateway.
    pub gateway: Option<IpAddr>,
    /// Addresses of the range that somebody has, by MAC.
    #[serde(default)]
    leases: BTreeMap<String, IpNet>,
}

impl Dhcp {
    /// A server with a range that begins here.
    pub fn from(first: IpNet) -> Self {
        Self { first: Some(first), ..Self::reserved([]) }
    }

    /// A server that knows these machines only.
    pub fn reserved(reservations: impl IntoIterator<Item = (String, IpNet)>) -> Self {
        let reservations = reservations.into_iter().map(|(mac, net)| (mac.to_ascii_lowercase(), net));
        Self {
            first: None,
            reservations: reservations.collect(),
            names: BTreeMap::new(),
            gateway: None,
            leases: BTreeMap::new(),
        }
    }

    /// Reserves any address of a network that nobody has: the same for a network card whenever it is asked for.
    pub fn reserve_any(&mut self, mac: &str, network: IpNet) {
        if self.reservations.keys().any(|known| known.eq_ignore_ascii_case(mac)) {
            return;
        }
        let taken = |address: &IpAddr| {
            let given = self.reservations.values().chain(self.leases.values());
            given.map(IpNet::addr).any(|known| known == *address)
        };
        // The first hundred are for those who are told their addresses.
        let free = network.hosts().skip(100).find(|address| !taken(address));
        if let Some(free) = free.and_then(|free| IpNet::new(free, network.prefix_len()).ok()) {
            self.reservations.insert(mac.to_ascii_lowercase(), free);
        }
    }

    /// The host name of who has this network card, if it is given one.
    pub(crate) fn name(&self, mac: &str) -> Option<&str> {
        let mut names = self.names.iter();
        names.find(|(of, _)| of.eq_ignore_ascii_case(mac)).map(|(_, name)| name.as_str())
    }

    /// The address of a network card: the same whenever it asks.
    pub(crate) fn lease(&mut self, mac: &str) -> Option<IpNet> {
        let mac = mac.to_ascii_lowercase();
        let reserved = self.reservations.iter().find(|(of, _)| of.eq_ignore_ascii_case(&mac));
        if let Some(known) = reserved.map(|(_, net)| *net).or_else(|| self.leases.get(&mac).copied()) {
            return Some(known);
        }
        let first = self.first?;
        let IpAddr::V4(start) = first.addr() else { return None };
        let next = u32::from(start).checked_add(u32::try_from(self.leases.len()).ok()?)?;
        let net = IpNet::new(IpAddr::V4(next.into()), first.prefix_len()).ok()?;
        self.leases.insert(mac, net);
        Some(net)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reservation_is_kept_and_others_get_one_after_the_other() {
        let mut dhcp = Dhcp::from("10.0.9.1/16".parse().unwrap());
        dhcp.reservations.insert("BC:24:11:00:00:01".into(), "10.0.0.11/16".parse().unwrap());
        assert_eq!(dhcp.lease("bc:24:11:00:00:01"), "10.0.0.11/16".parse().ok());
        assert_eq!(dhcp.lease("bc:24:11:00:00:02"), "10.0.9.1/16".parse().ok());
        assert_eq!(dhcp.lease("bc:24:11:00:00:03"), "10.0.9.2/16".parse().ok());
        assert_eq!(dhcp.lease("BC:24:11:00:00:02"), "10.0.9.1/16".parse().ok());
        dhcp.reserve_any("BC:24:11:00:00:01", "10.0.9.0/24".parse().unwrap());
        dhcp.reserve_any("bc:24:11:00:00:04", "10.0.9.0/24".parse().unwrap());
        dhcp.reserve_any("bc:24:11:00:00:05", "10.0.9.0/24".parse().unwrap());
        assert_eq!(dhcp.lease("bc:24:11:00:00:01"), "10.0.0.11/16".parse().ok(), "it has one");
        assert_eq!(dhcp.lease("bc:24:11:00:00:04"), "10.0.9.101/24".parse().ok());
        assert_eq!(dhcp.lease("bc:24:11:00:00:05"), "10.0.9.102/24".parse().ok());
        dhcp.names.insert("BC:24:11:00:00:02".into(), "printer".into());
        assert_eq!((dhcp.name("bc:24:11:00:00:01"), dhcp.name("bc:24:11:00:00:02")), (None, Some("printer")));
        assert_eq!(Dhcp::reserved([]).lease("bc:24:11:00:00:02"), None);
    }
}
