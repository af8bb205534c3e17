//! What an option of a VM is set to.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::size;

/// The value of an option.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Value {
    /// So many, such as vCPUs.
    Count(u32),
    /// Bytes of memory.
    Memory(u64),
    /// On or off.
    Flag(bool),
    /// A word that is sent as it is.
    Text(String),
    /// Words in an order of their own, such as tags.
    Words(Vec<String>),
    /// Keys and values whose order says nothing.
    Properties(BTreeMap<String, String>),
    /// A disk besides the system disk.
    Disk(Disk),
    /// A network card.
    Card(Card),
    /// The mark in the VM's description.
    Mark {
        /// What was asked for.
        digest: String,
        /// Whether it names the secrets.
        signed: bool,
    },
}

/// A disk besides the system disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Disk {
    /// Storage it is on.
    pub storage: String,
    /// Bytes, without what its storage rounded up.
    pub size: u64,
    /// Serial that the guest sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
}

/// A network card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Card {
    /// Such as `virtio`.
    pub model: String,
    /// MAC, upper-case.
    pub mac: String,
    /// Bridge.
    pub bridge: String,
    /// VLAN tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
    /// MTU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Whether the firewall of Proxmox filters it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub firewall: bool,
    /// Whatever else was set on it by hand, which stays.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub others: BTreeMap<String, String>,
}

impl Card {
    /// A virtio card on a bridge.
    pub fn virtio(mac: &str, bridge: &str) -> Self {
        Self {
            model: "virtio".to_owned(),
            mac: mac.to_owned(),
            bridge: bridge.to_owned(),
            vlan: None,
            mtu: None,
            firewall: false,
            others: BTreeMap::new(),
        }
    }

    /// Whether both are the same as far as the inventory decides.
    pub fn alike(&self, other: &Self) -> bool {
        (&self.mac, &self.bridge, self.vlan) == (&other.mac, &other.bridge, other.vlan)
    }

    /// What a card becomes: as declared, and whatever else was set on it by hand stays.
    pub fn over(&self, seen: &Self) -> Self {
        Self { mac: self.mac.clone(), bridge: self.bridge.clone(), vlan: self.vlan, ..seen.clone() }
    }
}

impl Value {
    /// A word.
    pub fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    /// Keys and values as Proxmox writes them, `order=1,up=30`. What has no key is its own.
    pub fn properties(text: &str) -> Self {
        let part = |part: &str| match part.split_once('=') {
            Some((key, value)) => (key.to_owned(), value.to_owned()),
            None => (part.to_owned(), String::new()),
        };
        Self::Properties(text.split(',').map(part).collect())
    }

    /// Whether both are the same as far as the inventory decides.
    pub fn alike(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Disk(one), Self::Disk(other)) => (&one.storage, one.size) == (&other.storage, other.size),
            (Self::Card(one), Self::Card(other)) => one.alike(other),
            (one, other) => one == other,
        }
    }

    /// What an option that has a value becomes.
    pub fn over(&self, seen: Option<&Self>) -> Self {
        match (self, seen) {
            (Self::Card(wanted), Some(Self::Card(seen))) => Self::Card(wanted.over(seen)),
            _ => self.clone(),
        }
    }
}

/// Two values in words; sizes in units that tell them apart.
pub(super) fn words(from: Option<&Value>, to: Option<&Value>) -> (String, String) {
    if let (Some(Value::Disk(from)), Some(Value::Disk(to))) = (from, to) {
        let (old, new) = size::show_apart(from.size, to.size);
        return (format!("{old} on {}", from.storage), format!("{new} on {}", to.storage));
    }
    if let (Some(Value::Memory(from)), Some(Value::Memory(to))) = (from, to) {
        return size::show_apart(*from, *to);
    }
    if let (Some(Value::Mark { digest, signed }), Some(Value::Mark { digest: new, signed: now })) = (from, to)
        && digest == new
        && signed != now
    {
        return ("a mark without the id of the secrets".to_owned(), "a mark with it".to_owned());
    }
    let word = |value: Option<&Value>| value.map_or_else(|| "none".to_owned(), ToString::to_string);
    (word(from), word(to))
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Memory(bytes) => f.write_str(&size::show(*bytes)),
            Self::Flag(on) => f.write_str(if *on { "yes" } else { "no" }),
            Self::Text(text) => f.write_str(text),
            Self::Words(words) => f.write_str(&words.join(";")),
            Self::Properties(properties) => {
                for (i, (key, value)) in properties.iter().enumerate() {
                    let comma = if i == 0 { "" } else { "," };
                    let equals = if value.is_empty() { "" } else { "=" };
                    write!(f, "{comma}{key}{equals}{value}")?;
                }
                Ok(())
            }
            Self::Disk(disk) => write!(f, "{} on {}", size::show(disk.size), disk.storage),
            Self::Card(card) => {
                write!(f, "{} on {}", card.mac, card.bridge)?;
                card.vlan.map_or(Ok(()), |vlan| write!(f, ", VLAN {vlan}"))
            }
            Self::Mark { digest, .. } => f.write_str(digest),
        }
    }
}
