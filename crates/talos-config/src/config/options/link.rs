//! Network interfaces: cards, bonds of cards, VLANs on either.

use std::{fmt, net::IpAddr, str::FromStr};

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Error;

/// A MAC address. Interfaces are found by it, because names depend on the platform.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mac([u8; 6]);

impl Mac {
    /// From its six bytes.
    pub fn new(bytes: [u8; 6]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for Mac {
    /// Lower case with colons: the form that Talos' link expressions compare with.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mac({self})")
    }
}

impl FromStr for Mac {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || Error::Mac { text: text.into() };
        let mut bytes = [0; 6];
        let mut parts = text.split([':', '-']);
        for byte in &mut bytes {
            let part = parts.next().filter(|part| part.len() == 2).ok_or_else(wrong)?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| wrong())?;
        }
        if parts.next().is_some() { Err(wrong()) } else { Ok(Self(bytes)) }
    }
}

/// A network card, found by its MAC address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The interface's permanent address.
    pub mac: Mac,
    /// Maximum transmission unit, if not the default.
    pub mtu: Option<u32>,
    /// Static addresses with their prefix length; none means that the platform decides (DHCP), unless `dhcp` says otherwise.
    pub addresses: Vec<IpNet>,
    /// Routes through this interface.
    pub routes: Vec<Route>,
    /// Whether addresses are asked for; by default where there is no static one.
    pub dhcp: Option<Dhcp>,
    /// VLANs on it.
    pub vlans: Vec<Vlan>,
}

impl Link {
    /// A card that asks for its address.
    pub fn new(mac: Mac) -> Self {
        Self { mac, mtu: None, addresses: Vec::new(), routes: Vec::new(), dhcp: None, vlans: Vec::new() }
    }
}

/// What addresses are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dhcp {
    /// IPv4 addresses.
    pub ipv4: bool,
    /// IPv6 addresses.
    pub ipv6: bool,
    /// Preference of the routes that come with them, if not the default; lower wins.
    pub route_metric: Option<u32>,
}

impl Dhcp {
    /// IPv4, with Talos' own settings.
    pub const IPV4: Self = Self { ipv4: true, ipv6: false, route_metric: None };
    /// Nothing.
    pub const OFF: Self = Self { ipv4: false, ipv6: false, route_metric: None };

    /// What is to be done for an interface with these static addresses.
    pub(crate) fn decided(asked: Option<Self>, addresses: &[IpNet]) -> Self {
        asked.unwrap_or(if addresses.is_empty() { Self::IPV4 } else { Self::OFF })
    }
}

/// A VLAN on a card or bond.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vlan {
    /// Its number, 1 to 4094.
    pub id: u16,
    /// Maximum transmission unit, if not the default.
    pub mtu: Option<u32>,
    /// Static addresses with their prefix length.
    pub addresses: Vec<IpNet>,
    /// Routes through it.
    pub routes: Vec<Route>,
    /// Whether addresses are asked for; by default where there is no static one.
    pub dhcp: Option<Dhcp>,
}

/// Several cards as one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bond {
    /// Its name, such as `bond0`.
    pub name: String,
    /// Its cards.
    pub members: Vec<Mac>,
    /// How the cards are used.
    pub mode: BondMode,
    /// By what a card is chosen, in the modes that choose: `layer2`, `layer3+4`, `layer2+3`, `encap2+3`, `encap3+4`.
    pub hash_policy: Option<String>,
    /// How often partners greet each other in 802.3ad: `slow` or `fast`.
    pub lacp_rate: Option<String>,
    /// Milliseconds between checks of the cards' state.
    pub miimon: Option<u32>,
    /// Maximum transmission unit, if not the default.
    pub mtu: Option<u32>,
    /// Static addresses with their prefix length.
    pub addresses: Vec<IpNet>,
    /// Routes through it.
    pub routes: Vec<Route>,
    /// Whether addresses are asked for; by default where there is no static one.
    pub dhcp: Option<Dhcp>,
    /// VLANs on it.
    pub vlans: Vec<Vlan>,
}

impl Bond {
    /// A bond that asks for its address.
    pub fn new(name: impl Into<String>, members: Vec<Mac>, mode: BondMode) -> Self {
        Self {
            name: name.into(),
            members,
            mode,
            hash_policy: None,
            lacp_rate: None,
            miimon: None,
            mtu: None,
            addresses: Vec::new(),
            routes: Vec::new(),
            dhcp: None,
            vlans: Vec::new(),
        }
    }
}

/// How the cards of a bond are used, in the kernel's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BondMode {
    /// One, and another when it fails.
    #[default]
    ActiveBackup,
    /// One after the other.
    BalanceRr,
    /// Chosen by a hash.
    BalanceXor,
    /// All at once.
    Broadcast,
    /// Link aggregation with the switch (LACP).
    #[serde(rename = "802.3ad")]
    Lacp,
    /// By load when sending.
    BalanceTlb,
    /// By load both ways.
    BalanceAlb,
}

impl BondMode {
    /// As Talos writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BalanceRr => "balance-rr",
            Self::ActiveBackup => "active-backup",
            Self::BalanceXor => "balance-xor",
            Self::Broadcast => "broadcast",
            Self::Lacp => "802.3ad",
            Self::BalanceTlb => "balance-tlb",
            Self::BalanceAlb => "balance-alb",
        }
    }
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Where to; `None` is the default route.
    pub destination: Option<IpNet>,
    /// Through whom.
    pub gateway: IpAddr,
    /// Preference; lower wins.
    pub metric: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macs_are_lower_case_with_colons() {
        assert_eq!("BC-24-11-0A-0b-FF".parse::<Mac>().unwrap().to_string(), "bc:24:11:0a:0b:ff");
        for wrong in ["", "bc:24:11:0a:0b", "bc:24:11:0a:0b:ff:00", "bc:24:11:0a:0b:fg", "bc24110a0bff"] {
            assert!(wrong.parse::<Mac>().is_err(), "{wrong}");
        }
    }
}
