//! Steps on one VM. Each looks before it repeats, and touches nothing whose mark, VMID and uuid do not all agree.

use std::future::Future;
use std::time::Duration;

use daedal_planner::names::{media_node, volid_file};
use daedal_planner::{FoundMark, Likeness, Mark, Ownership, Step};
use daedal_proxmox::{Kind, Missing, UpdateVm, VmConfig};

use crate::effects::EffectKind;
use crate::error::Error;
use crate::execute::waiting::Waiter;
use crate::execute::{Executor, Outcome};
use crate::machine::SYSTEM_DISK;
use crate::observe::guests::judged;

/// Between two looks at a create that is under way.
pub(super) const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

/// How long a VM takes to start when its create does it.
const STARTING: Duration = Duration::from_secs(3);

/// A VM of ours, as read from its node a moment ago.
pub(super) struct Mine {
    pub(super) host: String,
    pub(super) config: VmConfig,
}

impl Executor<'_> {
    pub(super) async fn grow_disk(&self, step: &Step, vmid: u32, size: u64) -> Result<Outcome, Error> {
        // Where the disk was too small, the VM would not have been started with its creation.
        if self.starts_by_itself(vmid) {
            return Ok(Outcome::AlreadyDone);
        }
        self.persist(step, |again| async move {
            let mut host = self.host(step)?.to_owned();
            if again || !self.is_fresh(vmid) {
                let mine = self.mine_or_gone(step, vmid).await?;
                if disk_size(&mine.config) >= size {
                    return Ok(Outcome::AlreadyDone);
                }
                host = mine.host;
            }
            let call =
                async { Ok(self.engine.parts.proxmox.resize_disk(&host, vmid, SYSTEM_DISK, size).await?) };
            let grown = match self.perform(EffectKind::GrowDisk, vmid, &host, call).await {
                Ok(Some(upid)) => self.finish(step, &upid, &format!("grow the disk of VM {vmid}")).await,
                Ok(None) => Ok(()),
                Err(error) => Err(error),
            };
            match grown {
                Ok(()) => Ok(Outcome::Done),
                // An image may already be larger than asked for, and disks never shrink.
                Err(Error::Proxmox(error)) if !error.may_have_happened() && !error.is_passing() => {
                    let mine = self.mine_or_gone(step, vmid).await?;
                    if disk_size(&mine.config) >= size { Ok(Outcome::AlreadyDone) } else { Err(error.into()) }
                }
                Err(error) => Err(error),
            }
        })
        .await
    }

    pub(super) async fn start_vm(&self, step: &Step, vmid: u32) -> Result<Outcome, Error> {
        self.persist(step, |again| async move {
            let mut host = self.host(step)?.to_owned();
            let proxmox = &self.engine.parts.proxmox;
            if !again && self.starts_by_itself(vmid) {
                // That it does is told by no task of ours; a start that failed is tried once more, by us.
                self.sleep(STARTING).await?;
                if proxmox.vm_status(&host, vmid).await?.running() {
                    return Ok(Outcome::Done);
                }
            } else if again || !self.is_fresh(vmid) {
                host = self.mine_or_gone(step, vmid).await?.host;
                if self.engine.parts.proxmox.vm_status(&host, vmid).await?.running() {
                    return Ok(Outcome::AlreadyDone);
                }
            }
            let call = async { Ok(self.engine.parts.proxmox.start_vm(&host, vmid).await?) };
            let started = match self.perform(EffectKind::StartVm, vmid, &host, call).await {
                // The machine boots meanwhile, which takes longer than noticing late costs.
                Ok(upid) => self.finish_some_time(step, &upid, &format!("start VM {vmid}")).await,
                Err(error) => Err(error),
            };
            match started {
                Ok(()) => Ok(Outcome::Done),
                Err(Error::Proxmox(error)) if matches!(error.kind(), Kind::Running { .. }) => {
                    Ok(Outcome::AlreadyDone)
                }
                Err(error) => Err(error),
            }
        })
        .await
    }

    pub(super) async fn stop_vm(&self, step: &Step, vmid: u32) -> Result<Outcome, Error> {
        self.persist(step, |_| async move {
            let Some(mine) = self.mine(step, vmid).await? else { return Ok(Outcome::AlreadyDone) };
            let host = &mine.host;
            let status = self.engine.parts.proxmox.vm_status(host, vmid).await?;
            if !status.running() {
                return Ok(Outcome::AlreadyDone);
            }
            let call = async { Ok(self.engine.parts.proxmox.stop_vm(host, vmid).await?) };
            let upid = self.perform(EffectKind::StopVm, vmid, host, call).await?;
            self.finish(step, &upid, &format!("stop VM {vmid}")).await?;
            if status.ha.managed {
                let what = format!("the HA manager to stop VM {vmid}");
                self.until_stopped(step, host, vmid, what).await?;
            }
            Ok(Outcome::Done)
        })
        .await
    }

    /// Waits for a VM that stops in its own time: one under high availability, whose task only asks for it, or one that
    /// switches itself off.
    pub(super) async fn until_stopped(
        &self,
        step: &Step,
        host: &str,
        vmid: u32,
        what: String,
    ) -> Result<(), Error> {
        let parts = &self.engine.parts;
        let mut wait = Waiter::new(self, step, what, parts.limits.task).every(BETWEEN_LOOKS);
        while parts.proxmox.vm_status(host, vmid).await?.running() {
            wait.pause("it still runs".to_owned()).await?;
        }
        Ok(())
    }

    pub(super) async fn destroy_vm(&self, step: &Step, vmid: u32) -> Result<Outcome, Error> {
        self.persist(step, |again| async move {
            let Some(mine) = self.mine(step, vmid).await? else {
                return Ok(if again { Outcome::Done } else { Outcome::AlreadyDone });
            };
            let host = &mine.host;
            self.unprotect(vmid, &mine).await?;
            let call = async { Ok(self.engine.parts.proxmox.destroy_vm(host, vmid, true).await?) };
            let destroyed = match self.perform(EffectKind::DestroyVm, vmid, host, call).await {
                Ok(upid) => self.finish(step, &upid, &format!("destroy VM {vmid}")).await,
                Err(error) => Err(error),
            };
            match destroyed {
                Ok(()) => Ok(Outcome::Done),
                Err(Error::Proxmox(error)) if error.is_vm_missing() => Ok(Outcome::Done),
                Err(error) => Err(error),
            }
        })
        .await
    }

    /// Takes Proxmox's own protection off a VM that is about to go, if we set it.
    async fn unprotect(&self, vmid: u32, mine: &Mine) -> Result<(), Error> {
        let notes = mine.config.description.as_deref().unwrap_or_default();
        let by_us = matches!(Mark::find(notes), FoundMark::One(mark) if mark.protected);
        if !mine.config.protection || !by_us {
            return Ok(());
        }
        let update = UpdateVm::new().set("protection", 0).digest(&mine.config.digest);
        let call = async { Ok(self.engine.parts.proxmox.update_vm(&mine.host, vmid, &update).await?) };
        self.perform(EffectKind::UpdateVm, vmid, &mine.host, call).await
    }

    pub(super) async fn delete_media(&self, step: &Step, volid: &str) -> Result<Outcome, Error> {
        if media_node(self.cluster, volid_file(volid)).is_none() {
            return Err(Error::Plan { why: format!("`{volid}` is no config media of this cluster") });
        }
        self.delete_volume(step, volid, EffectKind::DeleteMedia).await
    }

    /// Deletes a file whose name was already judged. An absent one is as good as deleted.
    pub(super) async fn delete_volume(
        &self,
        step: &Step,
        volid: &str,
        kind: EffectKind,
    ) -> Result<Outcome, Error> {
        let host = self.host(step)?;
        self.persist(step, |_| async move {
            let call = async { Ok(self.engine.parts.proxmox.delete_volume(host, volid).await?) };
            let deleted = match self.engine.parts.effects.perform(kind, volid, call).await {
                Ok(Some(upid)) => self.finish_some_time(step, &upid, &format!("delete {volid}")).await,
                Ok(None) => Ok(()),
                Err(error) => Err(error),
            };
            match deleted {
                Ok(()) => Ok(Outcome::Done),
                Err(Error::Proxmox(error)) if is_volume_missing(&error) => Ok(Outcome::AlreadyDone),
                Err(error) => Err(error),
            }
        })
        .await
    }

    /// Deletes a volume that Proxmox left behind, unless a VM has got its number by now.
    pub(super) async fn delete_leftover(
        &self,
        step: &Step,
        volid: &str,
        vmid: u32,
    ) -> Result<Outcome, Error> {
        let rows = self.engine.parts.proxmox.resources_of("vm").await?;
        if rows.iter().any(|row| row.vmid == Some(vmid)) {
            return Err(Error::Changed { what: format!("VM {vmid}, whose number {volid} has,") });
        }
        self.delete_volume(step, volid, EffectKind::DeleteVolume).await
    }

    /// Finds a VM wherever it is now: where it was, or else where the cluster-wide list has it.
    pub(super) async fn find(&self, hint: &str, vmid: u32) -> Result<Option<(String, VmConfig)>, Error> {
        let proxmox = &self.engine.parts.proxmox;
        let error = match proxmox.vm_config(hint, vmid).await {
            Ok(config) => return Ok(Some((hint.to_owned(), config))),
            // To a token whose rights come through a pool, a VM that is gone is one it may not see.
            Err(error) if error.is_vm_missing() || error.is_permission() => error,
            Err(error) => return Err(error.into()),
        };
        let rows = proxmox.resources_of("vm").await?;
        match rows.iter().find(|row| row.vmid == Some(vmid)) {
            None => Ok(None),
            Some(row) if row.node == hint && error.is_permission() => Err(error.into()),
            // The list lags behind a VM that was just destroyed.
            Some(row) if row.node == hint => Ok(None),
            Some(row) => match proxmox.vm_config(&row.node, vmid).await {
                Ok(config) => Ok(Some((row.node.clone(), config))),
                Err(error) if error.is_vm_missing() => Ok(None),
                Err(error) => Err(error.into()),
            },
        }
    }

    /// The VM of the step's node, proven to be ours just now; none if it is not there.
    async fn mine(&self, step: &Step, vmid: u32) -> Result<Option<Mine>, Error> {
        let Some((host, config)) = self.find(self.host(step)?, vmid).await? else { return Ok(None) };
        match judged(&self.judge, vmid, &config) {
            Ownership::Ours { node, .. } if Some(&node) == step.node.as_ref() => {
                Ok(Some(Mine { host, config }))
            }
            other => Err(not_ours(vmid, host, other)),
        }
    }

    pub(super) async fn mine_or_gone(&self, step: &Step, vmid: u32) -> Result<Mine, Error> {
        self.mine(step, vmid).await?.ok_or(Error::Gone { vmid })
    }

    pub(super) async fn perform<T>(
        &self,
        kind: EffectKind,
        vmid: u32,
        host: &str,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        self.engine.parts.effects.perform(kind, format!("VM {vmid} on {host}"), call).await
    }
}

/// Whether the file itself is gone. A host or storage that is gone may come back with the file, keys and all.
fn is_volume_missing(error: &daedal_proxmox::Error) -> bool {
    matches!(error.kind(), Kind::NotFound { what: Missing::Volume(_), .. })
}

fn disk_size(config: &VmConfig) -> u64 {
    config.disks.get(SYSTEM_DISK).and_then(|disk| disk.size).unwrap_or(0)
}

pub(crate) fn not_ours(vmid: u32, host: String, found: Ownership) -> Error {
    let other_secrets = matches!(found, Ownership::LookAlike { likeness: Likeness::OtherSecrets, .. });
    let why = match found {
        Ownership::Foreign => "it carries no mark of this cluster".to_owned(),
        Ownership::Ours { node, .. } => format!("it is our node {node}"),
        Ownership::LookAlike { why, .. } | Ownership::Unreadable { why } => why,
        Ownership::HalfMade { .. } => "it is still being created".to_owned(),
        Ownership::Template { .. } => "it is a template of this cluster".to_owned(),
    };
    Error::NotOurs { vmid, host, why, other_secrets }
}
