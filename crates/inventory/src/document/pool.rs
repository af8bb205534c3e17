//! The pools of the document: groups of equal nodes, counted or listed one by one.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Address, Size, Vmid, pattern};
use crate::cluster;
use crate::hardware::Hardware;
use crate::options::Machine;

/// A group of nodes of one role and size.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Pool {
    /// Name of the pool; its nodes are called `<name>-1`, `<name>-2` and so on.
    #[schemars(example = &"cp")]
    #[schemars(regex(pattern = pattern::NAME))]
    pub(crate) name: String,
    /// What its nodes do.
    pub(crate) role: Role,
    /// How many nodes; or list them under `nodes`.
    #[schemars(range(max = 10000))]
    pub(crate) count: Option<u32>,
    /// The nodes one by one; what one leaves out it takes from the pool.
    pub(crate) nodes: Option<Vec<PoolNode>>,
    /// vCPUs of each node; 4 for control planes and 8 for workers by default.
    #[schemars(range(min = 1, max = 512))]
    pub(crate) cores: Option<u32>,
    /// Memory of each node, such as `8GiB`; `4GiB` for control planes and `8GiB` for workers by default.
    pub(crate) memory: Option<Size>,
    /// System disk of each node, such as `40GiB`; `20GiB` for control planes and `50GiB` for workers by default.
    pub(crate) disk: Option<Size>,
    /// VMID of the first node (`300`), or the range to stay in (`2000-2999`). By default 2000-2999 for the control planes
    /// and 3000-3999 for the workers, if that role has one pool.
    pub(crate) vmid: Option<Vmid>,
    /// Address of the first node (`10.0.0.11`), or its distance from the start of the network (`+10`). By default +10 for
    /// the control planes and +20 for the workers, if that role has one pool.
    pub(crate) address: Option<Address>,
    /// Tags of the nodes' VMs, besides the cluster's.
    #[schemars(inner(regex(pattern = pattern::TAG)))]
    pub(crate) tags: Option<Vec<String>>,
    /// Kubernetes labels of the nodes.
    pub(crate) labels: Option<BTreeMap<String, String>>,
    /// Kubernetes taints of the nodes, as `key: value:Effect` or `key: Effect`.
    pub(crate) taints: Option<BTreeMap<String, String>>,
    /// Machine-config patches for these nodes, after the cluster's.
    pub(crate) patches: Option<Vec<Patch>>,
    /// Machine settings of these nodes, over the cluster's.
    pub(crate) machine: Option<Machine>,
    /// Hardware of these VMs, over the cluster's.
    pub(crate) hardware: Option<Hardware>,
    /// Host to put all these nodes on.
    pub(crate) host: Option<String>,
}

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    /// Runs etcd and the API server.
    ControlPlane,
    /// Runs workloads.
    Worker,
}

/// One node of a pool.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PoolNode {
    /// Name of the node, its VM and its host name; `<pool>-<n>` by default.
    #[schemars(regex(pattern = pattern::NAME))]
    pub(crate) name: Option<String>,
    /// Its address.
    pub(crate) address: Option<Address>,
    /// Its VMID.
    #[schemars(range(min = 100, max = 999_999_999))]
    pub(crate) vmid: Option<u32>,
    /// MAC address of its network card; derived from cluster and node name by default.
    pub(crate) mac: Option<String>,
    /// Host to put it on.
    pub(crate) host: Option<String>,
    /// vCPUs.
    #[schemars(range(min = 1, max = 512))]
    pub(crate) cores: Option<u32>,
    /// Memory.
    pub(crate) memory: Option<Size>,
    /// System disk.
    pub(crate) disk: Option<Size>,
    /// Tags of its VM, besides the cluster's and the pool's.
    #[schemars(inner(regex(pattern = pattern::TAG)))]
    pub(crate) tags: Option<Vec<String>>,
    /// Kubernetes labels; the same key here wins over the pool's.
    pub(crate) labels: Option<BTreeMap<String, String>>,
    /// Kubernetes taints; the same key here wins over the pool's.
    pub(crate) taints: Option<BTreeMap<String, String>>,
    /// Machine-config patches, after the pool's.
    pub(crate) patches: Option<Vec<Patch>>,
    /// Machine settings, over the pool's.
    pub(crate) machine: Option<Machine>,
}

/// A machine-config patch: exactly one of `file`, `folder` and `inline`. `${node.name}` and the like stand for facts.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("minProperties" = 1, "examples" = [{"inline": "{}"}]))]
pub(crate) struct Patch {
    /// Only for nodes of this role.
    pub(crate) role: Option<Role>,
    /// Path of a folder whose files (`.yaml`, `.yml`, `.json`) are patches, in the order of their names.
    #[schemars(extend("format" = "path"))]
    pub(crate) folder: Option<String>,
    /// Path of a file with the patch, relative to the inventory.
    #[schemars(extend("format" = "path"))]
    pub(crate) file: Option<String>,
    /// The patch itself, as text (a YAML block: `inline: |`).
    // Patches hold keys and passwords often enough: not shown when something beside it is wrong.
    #[schemars(extend("writeOnly" = true))]
    pub(crate) inline: Option<String>,
}

impl From<Role> for cluster::Role {
    fn from(role: Role) -> Self {
        match role {
            Role::ControlPlane => Self::ControlPlane,
            Role::Worker => Self::Worker,
        }
    }
}
