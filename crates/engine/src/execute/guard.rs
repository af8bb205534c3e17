//! Steps that guard VMs: objects that Proxmox keeps for the whole datacenter. Each looks first at what is there, and touches
//! nothing that became somebody else's meanwhile.

use std::future::Future;

use daedal_planner::{ObjectKind, ObjectOptions, Ownership, Step, guards, object_differs};
use daedal_proxmox::ClusterObject;
use futures::stream::{self, StreamExt, TryStreamExt};

use super::vm::{Mine, not_ours};
use crate::effects::EffectKind;
use crate::error::Error;
use crate::execute::{Executor, Outcome};
use crate::observe::guests::judged;

impl Executor<'_> {
    pub(super) async fn put_object(
        &self,
        step: &Step,
        kind: ObjectKind,
        id: &str,
        vms: &[u32],
        options: &ObjectOptions,
    ) -> Result<Outcome, Error> {
        let proxmox = &self.engine.parts.proxmox;
        self.persist(step, |again| async move {
            self.prove_all(vms).await?;
            let (known, as_proxmox) = (proxmox.kept(called(kind)).await?, called(kind));
            match known.get(id) {
                None => self.change_object(kind, id, proxmox.create_kept(as_proxmox, id, options)).await?,
                Some(there) if !self.is_ours(kind, there) => return Err(changed(kind, id)),
                Some(there) if !object_differs(there, options) => {
                    return Ok(if again { Outcome::Done } else { Outcome::AlreadyDone });
                }
                Some(_) => self.change_object(kind, id, proxmox.update_kept(as_proxmox, id, options)).await?,
            }
            Ok(Outcome::Done)
        })
        .await
    }

    pub(super) async fn remove_object(
        &self,
        step: &Step,
        kind: ObjectKind,
        id: &str,
        vm: Option<u32>,
    ) -> Result<Outcome, Error> {
        let proxmox = &self.engine.parts.proxmox;
        self.persist(step, |again| async move {
            let known = proxmox.kept(called(kind)).await?;
            let Some(there) = known.get(id) else {
                return Ok(if again { Outcome::Done } else { Outcome::AlreadyDone });
            };
            if !self.is_ours(kind, there) {
                return Err(changed(kind, id));
            }
            self.prove_all(vm.as_slice()).await?;
            if let (None, Some(vmid)) = (vm, guards::ha_managed(id)) {
                self.prove_gone(vmid).await?;
            }
            match self.change_object(kind, id, proxmox.delete_kept(called(kind), id)).await {
                // An answer that was lost makes the client ask again, for what is gone by then.
                Err(error @ Error::Proxmox(_)) if proxmox.kept(called(kind)).await?.contains_key(id) => {
                    Err(error)
                }
                Ok(()) | Err(Error::Proxmox(_)) => Ok(Outcome::Done),
                Err(error) => Err(error),
            }
        })
        .await
    }

    /// Whether an object has the comment of this cluster.
    fn is_ours(&self, kind: ObjectKind, there: &ObjectOptions) -> bool {
        let comment = match kind {
            ObjectKind::BackupJob => guards::backup_comment(self.cluster),
            ObjectKind::HaResource | ObjectKind::HaRule | ObjectKind::HaGroup => {
                guards::ha_comment(self.cluster)
            }
        };
        there.get("comment").is_some_and(|said| said.trim_end() == comment)
    }

    async fn change_object(
        &self,
        kind: ObjectKind,
        id: &str,
        call: impl Future<Output = Result<(), daedal_proxmox::Error>> + Send,
    ) -> Result<(), Error> {
        let effect = match kind {
            ObjectKind::HaResource | ObjectKind::HaRule | ObjectKind::HaGroup => EffectKind::SetAvailability,
            ObjectKind::BackupJob => EffectKind::SetBackupJob,
        };
        self.engine.parts.effects.proxmox(effect, format!("{} {id}", kind.noun()), call).await
    }

    /// Proves of each of these VMs that it still is the node's that it was when the plan was made.
    async fn prove_all(&self, vms: &[u32]) -> Result<(), Error> {
        let proofs: Vec<_> = vms.iter().map(|vmid| self.prove(*vmid)).collect();
        let proofs = stream::iter(proofs).buffer_unordered(self.engine.parts.limits.probes);
        proofs.try_collect::<Vec<Mine>>().await.map(drop)
    }

    /// Proves that a VM which was seen nowhere still is nowhere.
    async fn prove_gone(&self, vmid: u32) -> Result<(), Error> {
        let resources = self.engine.parts.proxmox.resources().await?;
        match resources.iter().any(|row| row.vmid == Some(vmid)) {
            true => Err(Error::Changed { what: format!("VM {vmid}") }),
            false => Ok(()),
        }
    }

    async fn prove(&self, vmid: u32) -> Result<Mine, Error> {
        let guest = self.world.guests.get(&vmid).ok_or(Error::Gone { vmid })?;
        let Some((host, config)) = self.find(&guest.host, vmid).await? else {
            return Err(Error::Gone { vmid });
        };
        match (judged(&self.judge, vmid, &config), &guest.ownership) {
            (Ownership::Ours { node, .. }, Ownership::Ours { node: seen, .. }) if node == *seen => {
                Ok(Mine { host, config })
            }
            (other, _) => Err(not_ours(vmid, host, other)),
        }
    }
}

/// A kind as the client calls it.
fn called(kind: ObjectKind) -> ClusterObject {
    match kind {
        ObjectKind::HaResource => ClusterObject::HaResource,
        ObjectKind::HaRule => ClusterObject::HaRule,
        ObjectKind::HaGroup => ClusterObject::HaGroup,
        ObjectKind::BackupJob => ClusterObject::BackupJob,
    }
}

fn changed(kind: ObjectKind, id: &str) -> Error {
    Error::Changed { what: format!("{} {id}", kind.noun()) }
}
