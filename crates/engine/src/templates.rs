//! The templates that a cluster has made.

use daedal_inventory::Cluster;
use daedal_planner::TemplateRow;

use crate::engine::Engine;
use crate::error::Error;

impl Engine {
    /// The templates with this cluster's mark, by VMID, wherever they are.
    pub async fn templates(&self, cluster: &Cluster) -> Result<Vec<TemplateRow>, Error> {
        let world = self.observe(cluster).await?;
        Ok(daedal_planner::templates(cluster, &self.images(cluster), &world))
    }
}
