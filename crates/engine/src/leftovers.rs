//! Volumes that Proxmox left behind.

use daedal_inventory::Cluster;
use daedal_planner::{Leftover, leftovers};

use crate::engine::Engine;
use crate::error::Error;

impl Engine {
    /// Volumes with numbers of this cluster's VMs that no VM uses.
    pub async fn leftovers(&self, cluster: &Cluster) -> Result<Vec<Leftover>, Error> {
        Ok(leftovers(cluster, &self.observe(cluster).await?))
    }
}
