//! The templates that a cluster has made.

use daedal_inventory::Cluster;
use daedal_planner::{Aspect, TemplateRow, Unobserved, templates};
use serde::Serialize;

use crate::engine::Engine;
use crate::error::Error;

/// The templates that were found, and what may hide others.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateList {
    /// The templates with this cluster's mark, by VMID, wherever they are.
    pub templates: Vec<TemplateRow>,
    /// What could not be seen.
    #[serde(rename = "blind")]
    pub unobserved: Vec<Unobserved>,
}

impl Engine {
    /// The templates with this cluster's mark, by VMID, wherever they are.
    pub async fn templates(&self, cluster: &Cluster) -> Result<TemplateList, Error> {
        let world = self.list_proxmox(cluster).await?;
        let templates = templates(cluster, &self.images(cluster), &world);
        let hides = |one: &Unobserved| one.what.hides_guests() || one.what == Aspect::Secrets;
        Ok(TemplateList { templates, unobserved: world.unobserved.into_iter().filter(hides).collect() })
    }
}
