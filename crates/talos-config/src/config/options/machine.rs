//! What else a machine may be told: kernel, kubelet mounts, logs, extensions, KubeSpan.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::secret::Secret;

/// A kernel module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KernelModule {
    /// Its name.
    #[schemars(example = &"nbd")]
    pub name: String,
    /// Its parameters, `key=value` each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<String>,
}

/// A folder of the host that the kubelet sees, and pods through it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtraMount {
    /// Where the kubelet sees it.
    pub destination: String,
    /// Where it is on the host.
    pub source: String,
    /// Kind of mount, usually `bind`.
    pub kind: String,
    /// Options, such as `bind`, `rshared`, `rw`.
    pub options: Vec<String>,
}

impl ExtraMount {
    /// A folder at the same place for both, shared and writable.
    pub fn bind(path: impl Into<String>) -> Self {
        let path = path.into();
        let options = ["bind", "rshared", "rw"].map(String::from).to_vec();
        Self { destination: path.clone(), source: path, kind: "bind".into(), options }
    }
}

/// Where the logs of services go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogDestination {
    /// `tcp://host:port` or `udp://host:port`.
    pub endpoint: String,
    /// Put beside every message.
    pub extra_tags: IndexMap<String, String>,
}

/// Where the messages of the kernel go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelLog {
    /// A name for it.
    pub name: String,
    /// `tcp://host:port` or `udp://host:port`.
    pub url: String,
}

/// What the service of a system extension is told, such as Tailscale's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtensionService {
    /// The service's name.
    pub name: String,
    /// Files: where the service sees each, and what stands in it.
    pub config_files: Vec<(String, Secret)>,
    /// Environment, by name.
    pub environment: IndexMap<String, Secret>,
}

/// A WireGuard mesh between the nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KubeSpan {
    /// Whether pod networks are routed through it.
    pub advertise_kubernetes_networks: Option<bool>,
    /// Whether traffic goes outside of it while a peer is down.
    pub allow_down_peer_bypass: Option<bool>,
    /// Maximum transmission unit, if not the default.
    pub mtu: Option<u32>,
}
