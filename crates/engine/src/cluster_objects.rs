//! What high availability and backup jobs are made of: a cluster's own VMs, and objects that Proxmox keeps for all of them.

use std::collections::BTreeMap;
use std::future::Future;

use daedal_inventory::{Cluster, Node};
use daedal_planner::{Ownership, World};
use daedal_proxmox::{ClusterObject, Options};
use futures::future::BoxFuture;

use crate::account::{Ensured, Tally};
use crate::effects::EffectKind;
use crate::engine::{Engine, Parts};
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

/// All objects of a kind, as they were when they were last read.
pub(crate) struct ClusterObjects<'a> {
    parts: &'a Parts,
    kind: ClusterObject,
    known: BTreeMap<String, Options>,
}

impl<'a> ClusterObjects<'a> {
    pub(crate) async fn read(parts: &'a Parts, kind: ClusterObject) -> Result<Self, Error> {
        Ok(Self { parts, kind, known: parts.proxmox.kept(kind).await? })
    }

    fn change<'c>(
        &'c self,
        id: &str,
        call: impl Future<Output = Result<(), daedal_proxmox::Error>> + Send + 'c,
    ) -> BoxFuture<'c, Result<(), Error>> {
        let kind = match self.kind {
            ClusterObject::HaResource | ClusterObject::HaRule | ClusterObject::HaGroup => {
                EffectKind::SetAvailability
            }
            ClusterObject::BackupJob => EffectKind::SetBackupJob,
        };
        let what = format!("{} {id}", self.kind.name());
        self.parts.effects.proxmox(kind, what, call)
    }

    pub(crate) async fn ensure(&self, id: &str, wanted: &Options) -> Result<Ensured, Error> {
        let proxmox = &self.parts.proxmox;
        let none = Tally::default();
        let (done, counts) = match self.known.get(id) {
            None => {
                self.change(id, proxmox.create_kept(self.kind, id, wanted)).await?;
                (Some("created"), Tally { created: 1, ..none })
            }
            Some(there) if wanted.iter().any(|(name, value)| there.get(name) != Some(value)) => {
                self.change(id, proxmox.update_kept(self.kind, id, wanted)).await?;
                (Some("changed"), Tally { changed: 1, ..none })
            }
            Some(_) => (None, Tally { left: 1, ..none }),
        };
        Ok(Ensured::new(format!("{} {id}", self.kind.name()), done).counted(counts, "there"))
    }

    pub(crate) async fn remove(&self, id: &str) -> Result<Ensured, Error> {
        let there = self.known.contains_key(id);
        if there {
            self.change(id, self.parts.proxmox.delete_kept(self.kind, id)).await?;
        }
        let counts = Tally { removed: usize::from(there), ..Tally::default() };
        let what = format!("{} {id}", self.kind.name());
        Ok(Ensured::new(what, there.then_some("removed")).counted(counts, "absent"))
    }
}
