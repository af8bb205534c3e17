//! Templates, and the VMs that are cloned from them.

use daedal_inventory::Role;
use daedal_planner::{CloneMark, CloneOf, Ownership, Step};
use daedal_proxmox::{CloneVm, UpdateVm, VmConfig};

use crate::effects::EffectKind;
use crate::error::Error;
use crate::execute::create::{Reserved, stuck};
use crate::execute::vm::not_ours;
use crate::execute::{Executor, Outcome};
use crate::machine;
use crate::observe::guests::{by_us_and_unfinished, is_bare, judged, maker};

impl Executor<'_> {
    /// Makes a template: imports the image, then converts. Goes on wherever an earlier try ended.
    pub(super) async fn make_template(
        &self,
        step: &Step,
        vmid: u32,
        role: Role,
        image: &str,
        digest: &str,
    ) -> Result<Outcome, Error> {
        let (host, proxmox) = (self.host(step)?, &self.engine.parts.proxmox);
        let spec = &machine::template(self.cluster, role, vmid, image, digest, &self.stamp());
        self.persist(step, |_| async move {
            let mut outcome = Outcome::AlreadyDone;
            loop {
                let Some((at, config)) = self.find(host, vmid).await? else {
                    let call = async { Ok(proxmox.create_vm(host, spec).await?) };
                    match self.perform(EffectKind::CreateVm, vmid, host, call).await {
                        Ok(upid) => self.finish(step, &upid, &format!("create VM {vmid}")).await?,
                        Err(Error::Proxmox(error)) if error.is_already_exists() => {
                            // What is there cannot be seen, and would be met again and again.
                            if self.find(host, vmid).await?.is_none() {
                                match self.unseen(host, vmid, Reserved::NotByUs).await? {
                                    Some(upid) => {
                                        self.finish(step, &upid, &format!("create VM {vmid}")).await?;
                                    }
                                    None => return Err(Error::Proxmox(error)),
                                }
                            }
                        }
                        Err(error) => return Err(error),
                    }
                    outcome = Outcome::Done;
                    continue;
                };
                if is_bare(&config) {
                    self.finish_making(step, &at, vmid).await?;
                    continue;
                }
                match judged(&self.judge, vmid, &config) {
                    Ownership::Template { digest: made, .. } if at == host && made == digest => {}
                    other => return Err(not_ours(vmid, at, other)),
                }
                if config.template {
                    return Ok(outcome);
                }
                self.convert(step, host, vmid).await?;
                outcome = Outcome::Done;
            }
        })
        .await
    }

    /// Turns a VM into a template, for good.
    pub(super) async fn convert(&self, step: &Step, host: &str, vmid: u32) -> Result<(), Error> {
        let call = async { Ok(self.engine.parts.proxmox.make_template(host, vmid).await?) };
        match self.perform(EffectKind::MakeTemplate, vmid, host, call).await? {
            Some(upid) => self.finish(step, &upid, &format!("make a template of VM {vmid}")).await,
            None => Ok(()),
        }
    }

    /// Waits for the task that makes a VM which shows nothing but `lock: create`.
    pub(super) async fn finish_making(&self, step: &Step, host: &str, vmid: u32) -> Result<(), Error> {
        let proxmox = &self.engine.parts.proxmox;
        match maker(proxmox, host, vmid).await? {
            Some(task) if by_us_and_unfinished(proxmox, &task) && task.running() => {
                self.finish(step, &task.upid, &format!("create VM {vmid}")).await?;
                self.sleep(super::vm::BETWEEN_LOOKS).await
            }
            _ => {
                // It may have ended between the two looks.
                let config = proxmox.vm_config(host, vmid).await?;
                if is_bare(&config) {
                    return Err(stuck(vmid, host.to_owned(), &config));
                }
                Ok(())
            }
        }
    }

    /// Destroys a template of ours, if it is still what the plan was made from. Proxmox itself refuses while disks are linked to
    /// it.
    pub(super) async fn drop_template(&self, step: &Step, vmid: u32, digest: &str) -> Result<Outcome, Error> {
        let (host, proxmox) = (self.host(step)?, &self.engine.parts.proxmox);
        self.persist(step, |again| async move {
            let Some((at, config)) = self.find(host, vmid).await? else {
                return Ok(if again { Outcome::Done } else { Outcome::AlreadyDone });
            };
            match judged(&self.judge, vmid, &config) {
                Ownership::Template { digest: made, .. } if at == host => {
                    let complete = self.world.guests.get(&vmid).is_some_and(|guest| guest.template);
                    if made != digest || config.template != complete {
                        return Err(Error::Changed { what: format!("template {vmid} on {host}") });
                    }
                }
                other => return Err(not_ours(vmid, at, other)),
            }
            self.stop_template(step, host, vmid).await?;
            let call = async { Ok(proxmox.destroy_vm(host, vmid, true).await?) };
            let upid = self.perform(EffectKind::DestroyVm, vmid, host, call).await?;
            match self.finish(step, &upid, &format!("destroy template {vmid}")).await {
                Err(Error::Proxmox(error)) if error.is_vm_missing() => Ok(Outcome::Done),
                ended => ended.map(|()| Outcome::Done),
            }
        })
        .await
    }

    /// Clones a node's VM and makes it the node's: what Proxmox invents or inherits is set right in one further call.
    pub(super) async fn clone_vm(&self, step: &Step, vmid: u32, of: &CloneOf) -> Result<Outcome, Error> {
        let (node, host) = (self.node(step)?, self.host(step)?);
        let proxmox = &self.engine.parts.proxmox;
        let clone = &CloneVm {
            newid: vmid,
            name: node.name.clone(),
            description: Some(CloneMark::of(self.cluster, node, &self.stamp()).line()),
            full: of.full,
            // A full clone may be elsewhere than its template.
            storage: self
                .cluster
                .proxmox
                .template_disks
                .as_ref()
                .map(|_| self.cluster.proxmox.disks_storage.clone()),
            target: (of.host != host).then(|| host.to_owned()),
            pool: self.cluster.proxmox.pool.clone(),
        };
        self.persist(step, |again| async move {
            if again && let Some(outcome) = self.inspect_created(step, vmid, Reserved::NotByUs).await? {
                return Ok(outcome);
            }
            let call = async { Ok(proxmox.clone_vm(&of.host, of.vmid, clone).await?) };
            match self.perform(EffectKind::CloneVm, vmid, host, call).await {
                Ok(upid) => {
                    self.claim.taken(step);
                    self.finish(step, &upid, &format!("clone VM {vmid}")).await?;
                }
                Err(Error::Proxmox(error)) if error.is_already_exists() => {
                    let found = self.inspect_created(step, vmid, Reserved::NotByUs).await?;
                    return found.ok_or(Error::Proxmox(error));
                }
                Err(error) => return Err(error),
            }
            self.dress(step, vmid, host, None).await?;
            self.made(vmid);
            Ok(Outcome::Done)
        })
        .await
    }

    /// Gives a finished clone its identity: uuid, network card, size, tags, media, mark.
    pub(super) async fn dress(
        &self,
        step: &Step,
        vmid: u32,
        host: &str,
        seen: Option<&VmConfig>,
    ) -> Result<(), Error> {
        let node = self.node(step)?;
        let mut update: UpdateVm = machine::clone_update(self.cluster, node, &self.stamp());
        if let Some(config) = seen {
            update = update.digest(&config.digest);
        }
        let call = async { Ok(self.engine.parts.proxmox.update_vm(host, vmid, &update).await?) };
        self.perform(EffectKind::UpdateVm, vmid, host, call).await
    }
}
