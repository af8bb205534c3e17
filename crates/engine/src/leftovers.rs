//! Volumes that Proxmox left behind.

use daedal_inventory::Cluster;
use daedal_planner::{Leftover, Unobserved, leftovers, unlisted_disks};
use serde::Serialize;

use crate::engine::Engine;
use crate::error::Error;

/// The volumes that were found, and what may hide others.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeftoverList {
    /// Volumes with numbers of this cluster's VMs that no VM uses.
    pub volumes: Vec<Leftover>,
    /// What could not be seen.
    #[serde(rename = "blind")]
    pub unobserved: Vec<Unobserved>,
}

impl Engine {
    /// Volumes with numbers of this cluster's VMs that no VM uses.
    pub async fn leftovers(&self, cluster: &Cluster) -> Result<LeftoverList, Error> {
        let world = self.list_proxmox(cluster).await?;
        let (volumes, unobserved) = (leftovers(cluster, &world), unlisted_disks(cluster, &world));
        Ok(LeftoverList { volumes, unobserved })
    }
}
