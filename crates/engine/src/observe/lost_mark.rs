//! What proves whose a VM is whose mark is lost.

use daedal_inventory::{Cluster, Node};
use daedal_planner::{Likeness, LostMarkView, Ownership, Purpose, World};

use super::nodes::talos_view;
use crate::engine::Engine;
use crate::error::Error;
use crate::machine::FIRST_NIC;
use crate::nodes::{Nodes, Probe};

impl Engine {
    /// Looks at what a plan to restore the mark of this node's VM relies on: all guests, and where the VM has lost its mark, its
    /// config and what answers at the node's address.
    pub async fn observe_mark(&self, cluster: &Cluster, node: &Node) -> Result<World, Error> {
        let mut world = self.observe_for(cluster, Purpose::Mark).await?;
        let lost = |ownership: &Ownership| {
            matches!(ownership, Ownership::LookAlike { likeness: Likeness::LostMark, .. })
        };
        let guest = world.guests.get(&node.vmid).filter(|guest| lost(&guest.ownership));
        let (Some(guest), Some(secrets)) = (guest, self.stored_secrets().await?) else { return Ok(world) };
        let config = self.parts.proxmox.vm_config(&guest.host, guest.vmid).await?;
        let talos = match guest.running {
            false => None,
            true => {
                let nodes = Nodes::new(&self.parts, &secrets)?;
                Some(nodes.probe(node, self.parts.limits.probe_timeout).await)
            }
        };
        if let Some(Probe::Unreachable(unreached)) = &talos {
            world.unreached.insert(node.name.clone(), unreached.clone());
        }
        world.lost_mark = Some(Box::new(LostMarkView {
            vmid: node.vmid,
            smbios: config.smbios_uuid.as_deref().and_then(|uuid| uuid.parse().ok()),
            mac: config.nics.get(FIRST_NIC).and_then(|nic| nic.mac.clone()),
            notes: config.description.clone().unwrap_or_default(),
            config: config.digest.clone(),
            talos: talos.map(talos_view),
        }));
        Ok(world)
    }
}
