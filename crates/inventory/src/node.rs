//! One node, and what it is made of.

use std::collections::BTreeMap;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub use daedal_talos_config::Role;

use crate::cluster::Patch;
use crate::hardware::Hardware;
use crate::options::{Machine, Route};

/// One node with everything decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// `<pool>-<n>` (from 1) or as listed; a DNS label, unique in the cluster; also VM name and hostname.
    pub name: String,
    /// Pool it belongs to.
    pub pool: String,
    /// Role.
    pub role: Role,
    /// VMID.
    pub vmid: u32,
    /// SMBIOS uuid: UUIDv5 of cluster uuid and node name.
    pub uuid: Uuid,
    /// MAC of the first NIC, upper-case with colons.
    pub mac: String,
    /// Address with the network's prefix length; none where it is discovered and was not found yet.
    pub address: Option<IpNet>,
    /// vCPUs.
    pub cores: u32,
    /// Memory in bytes (whole MiB).
    pub memory: u64,
    /// System disk in bytes (whole GiB).
    pub disk: u64,
    /// Tags besides the cluster's.
    pub tags: Vec<String>,
    /// Kubernetes labels.
    pub labels: BTreeMap<String, String>,
    /// Kubernetes taints, `key=value:Effect` by key → `value:Effect`.
    pub taints: BTreeMap<String, String>,
    /// Machine-config patches of its pool and of itself, in order (after the cluster's).
    pub patches: Vec<Patch>,
    /// Machine settings of the cluster, its pool and itself.
    #[serde(default, skip_serializing_if = "Machine::is_empty")]
    pub machine: Machine,
    /// Hardware of the cluster and its pool.
    #[serde(default, skip_serializing_if = "Hardware::is_empty")]
    pub hardware: Hardware,
    /// Disks besides the system disk.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<Disk>,
    /// Network cards besides the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nics: Vec<Nic>,
}

/// An empty disk besides the system disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Disk {
    /// Storage, if another than the system disk's.
    pub storage: Option<String>,
    /// Bytes (whole GiB).
    pub size: u64,
}

/// A network card besides the first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Nic {
    /// MAC, upper-case with colons.
    pub mac: String,
    /// Bridge.
    pub bridge: String,
    /// VLAN tag.
    pub vlan: Option<u16>,
    /// MTU, if not the default.
    pub mtu: Option<u16>,
    /// Whether it gets its address by DHCP.
    pub dhcp: bool,
    /// Its address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpNet>,
    /// Routes through it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
    /// Whether it is part of the bond.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bonded: bool,
}

impl Node {
    /// Bytes of all its disks on the storage of the system disks.
    pub fn disk_in_all(&self, storage: &str) -> u64 {
        let there = self.disks.iter().filter(|disk| disk.storage.as_deref().is_none_or(|own| own == storage));
        self.disk + there.map(|disk| disk.size).sum::<u64>()
    }
}
