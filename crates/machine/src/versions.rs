//! The versions that a node runs.

use daedal_inventory::Cluster;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// The versions that a node runs. Its config is compared with the one that is declared for them: another version is an
/// upgrade, and everything else need not wait for that.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunningVersions {
    /// Talos, `v1.12.0`.
    pub talos: String,
    /// Kubernetes, `v1.35.0`.
    pub kubernetes: String,
}

impl RunningVersions {
    /// Those that are declared.
    pub fn declared(cluster: &Cluster) -> Self {
        Self {
            talos: format!("v{}", cluster.talos.version),
            kubernetes: format!("v{}", cluster.kubernetes.version),
        }
    }

    /// The cluster as it would be declared for nodes of these versions.
    pub(crate) fn of(&self, cluster: &Cluster) -> Result<Cluster, Error> {
        let version = |text: &str| {
            let parsed = text.trim_start_matches('v').parse();
            parsed.map_err(|_| Error::NoVersion { text: text.to_owned() })
        };
        let mut cluster = cluster.clone();
        cluster.talos.version = version(&self.talos)?;
        cluster.kubernetes.version = version(&self.kubernetes)?;
        Ok(cluster)
    }
}
