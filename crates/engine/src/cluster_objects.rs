//! A cluster's own VMs, each where it is now.

use daedal_inventory::{Cluster, Node};
use daedal_planner::{Ownership, World};

use crate::engine::Engine;
use crate::error::Error;

/// One of our VMs: its node and its host.
pub(crate) type Ours<'a> = Vec<(&'a Node, String)>;

impl Engine {
    /// The cluster's VMs that are there, each where it is now. Nothing else is ever touched.
    pub(crate) async fn ours<'a>(&self, cluster: &'a Cluster) -> Result<Ours<'a>, Error> {
        let world: World = self.observe(cluster).await?;
        let owned = |node: &&Node| {
            let guest = world.guests.get(&node.vmid);
            guest.filter(|guest| matches!(&guest.ownership, Ownership::Ours { node: name, .. } if *name == node.name))
                .map(|guest| guest.host.clone())
        };
        Ok(cluster.nodes.iter().filter_map(|node| Some((node, owned(&node)?))).collect())
    }
}
