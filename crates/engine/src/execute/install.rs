//! Templates that an ISO installs: a VM boots it with a config of its own making, which is wiped off before the VM becomes
//! a template. An earlier try that did not come to its end is not trusted: it goes, and the work begins anew.

use daedal_inventory::{Node, Role};
use daedal_machine::passing_media;
use daedal_planner::names::{media_file_of, media_volid};
use daedal_planner::{Ownership, Step};
use daedal_proxmox::{UpdateVm, Upload, cdrom};

use crate::effects::EffectKind;
use crate::error::Error;
use crate::execute::vm::not_ours;
use crate::execute::waiting::{Look, News, Waiter};
use crate::execute::{Executor, Outcome};
use crate::machine::{self, FIRST_NIC, SYSTEM_DISK};
use crate::nodes::{Nodes, Probe};
use crate::observe::guests::{is_bare, judged};

/// What is made.
pub(super) struct Install<'a> {
    pub(super) vmid: u32,
    pub(super) role: Role,
    pub(super) iso: &'a str,
    pub(super) digest: &'a str,
    pub(super) through: &'a str,
}

impl Executor<'_> {
    /// Makes a template by ISO, installation and conversion.
    pub(super) async fn install_template(&self, step: &Step, make: Install<'_>) -> Result<Outcome, Error> {
        let (host, vmid) = (self.host(step)?, make.vmid);
        let Some(node) = self.cluster.node(make.through) else {
            return Err(Error::Plan { why: format!("there is no node {}", make.through) });
        };
        // Only control planes answer without another one, and this one is alone in the world.
        let (builder, make) = (&Node { role: Role::ControlPlane, ..node.clone() }, &make);
        self.persist(step, |_| async move {
            if let Some((at, config)) = self.find(host, vmid).await? {
                if is_bare(&config) {
                    self.finish_making(step, &at, vmid).await?;
                }
                match judged(&self.judge, vmid, &config) {
                    Ownership::Template { digest, .. } if at == host && digest == make.digest => {}
                    _ if is_bare(&config) => {}
                    other => return Err(not_ours(vmid, at, other)),
                }
                if config.template {
                    return Ok(Outcome::AlreadyDone);
                }
                self.start_over(step, host, vmid).await?;
            }
            Box::pin(self.install_once(step, host, make, builder)).await?;
            Ok(Outcome::Done)
        })
        .await
    }

    /// Takes away what an earlier try has left.
    async fn start_over(&self, step: &Step, host: &str, vmid: u32) -> Result<(), Error> {
        let proxmox = &self.engine.parts.proxmox;
        self.stop_template(step, host, vmid).await?;
        let call = async { Ok(proxmox.destroy_vm(host, vmid, true).await?) };
        let upid = self.perform(EffectKind::DestroyVm, vmid, host, call).await?;
        self.finish(step, &upid, &format!("destroy VM {vmid}")).await
    }

    /// Stops what was to become a template, if it runs.
    pub(super) async fn stop_template(&self, step: &Step, host: &str, vmid: u32) -> Result<(), Error> {
        let proxmox = &self.engine.parts.proxmox;
        if proxmox.vm_status(host, vmid).await?.running() {
            let call = async { Ok(proxmox.stop_vm(host, vmid).await?) };
            let upid = self.perform(EffectKind::StopVm, vmid, host, call).await?;
            self.finish(step, &upid, &format!("stop VM {vmid}")).await?;
        }
        Ok(())
    }

    async fn install_once(
        &self,
        step: &Step,
        host: &str,
        make: &Install<'_>,
        builder: &Node,
    ) -> Result<(), Error> {
        let (parts, vmid) = (&self.engine.parts, make.vmid);
        let (proxmox, storage) = (&parts.proxmox, &self.cluster.proxmox.images_storage);
        // Nobody needs these keys afterwards.
        let secrets = self.new_secrets().await?;
        let nodes = Nodes::new(parts, &secrets)?;
        let file = media_file_of(self.cluster, &builder.name, make.digest, self.judge.secrets());
        let (volid, bytes) = (media_volid(storage, &file), passing_media(self.cluster, builder, &secrets)?);
        self.put_media(step, storage, &Upload::iso(&file, bytes.to_vec())).await?;
        let role = Node { role: make.role, ..builder.clone() };
        let spec = machine::installing_template(
            self.cluster,
            &role,
            vmid,
            make.iso,
            &volid,
            make.digest,
            &self.stamp(),
        );
        let call = async { Ok(proxmox.create_vm(host, &spec).await?) };
        let upid = self.perform(EffectKind::CreateVm, vmid, host, call).await?;
        self.finish(step, &upid, &format!("create VM {vmid}")).await?;

        let what = format!("the system of template {vmid} to answer on {}", builder.shown_address());
        let mut wait = Waiter::new(self, step, what, parts.limits.boot);
        let (nodes, news) = (&nodes, News::default());
        let look = |patience| async move {
            match nodes.reach(builder, patience).await {
                Ok(()) | Err(Probe::Configured { .. }) => Look::Ended(Ok(())),
                Err(Probe::Unreachable(unreached)) => Look::NotYet(unreached.why),
                Err(Probe::Maintenance) => Look::NotYet("it waits for a config".to_owned()),
                // Its keys were made a moment ago, so whoever knows them is ours and nobody else is.
                Err(Probe::OtherCluster) => {
                    let (node, address) = (builder.name.clone(), builder.ip());
                    Look::Ended(Err(Error::OtherCluster { node, address }))
                }
            }
        };
        wait.until(&news, look).await?;
        let drives = machine::drives(self.cluster);
        // With the medium in its drive it would take the config again.
        let eject = UpdateVm::new().set(drives.media, cdrom(None)).set(drives.boot, cdrom(None));
        let call = async { Ok(proxmox.update_vm(host, vmid, &eject).await?) };
        self.perform(EffectKind::EjectMedia, vmid, host, call).await?;
        self.delete_volume(step, &volid, EffectKind::DeleteMedia).await?;
        let call = async {
            nodes.strip(builder, parts.limits.call_timeout).await.map_err(|source| Error::Talos {
                what: "wipe the config",
                node: format!("template {vmid}"),
                source: Box::new(source),
            })
        };
        self.perform(EffectKind::ResetNode, vmid, host, call).await?;
        self.until_stopped(step, host, vmid, format!("template {vmid} to switch itself off")).await?;
        let bare = UpdateVm::new()
            .set("boot", format!("order={SYSTEM_DISK}"))
            .delete(FIRST_NIC)
            .delete(drives.boot)
            .delete(drives.media);
        let call = async { Ok(proxmox.update_vm(host, vmid, &bare).await?) };
        self.perform(EffectKind::UpdateVm, vmid, host, call).await?;
        self.convert(step, host, vmid).await?;
        tracing::debug!(vmid, "a template was installed");
        Ok(())
    }
}
