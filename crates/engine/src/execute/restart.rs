//! A VM is shut down and started again, so that it gets what waits for its next start.

use daedal_planner::Step;

use crate::effects::EffectKind;
use crate::error::Error;
use crate::execute::{Executor, Outcome};

/// How long a guest may take to shut down by itself, in seconds. Talos moves its pods away meanwhile.
const SHUTDOWN: u32 = 300;

impl Executor<'_> {
    pub(super) async fn restart_vm(&self, step: &Step, vmid: u32) -> Result<Outcome, Error> {
        let node = self.node(step)?;
        self.persist(step, |_| async move {
            let parts = &self.engine.parts;
            let host = self.mine_or_gone(step, vmid).await?.host;
            let status = parts.proxmox.vm_status(&host, vmid).await?;
            if status.running() {
                // Where a running VM took it all, there is nothing to restart for.
                if parts.proxmox.vm_config_pending(&host, vmid).await?.runs.is_none() {
                    return Ok(Outcome::AlreadyDone);
                }
                let boot = self.readiness.boot_of(&node.name, parts.limits.probe_timeout).await;
                let call = async { Ok(parts.proxmox.shutdown_vm(&host, vmid, SHUTDOWN, true).await?) };
                let upid = self.perform(EffectKind::StopVm, vmid, &host, call).await?;
                self.finish(step, &upid, &format!("shut down VM {vmid}")).await?;
                if status.ha.managed {
                    let what = format!("the HA manager to stop VM {vmid}");
                    self.until_stopped(step, &host, vmid, what).await?;
                }
                boot.into_iter().for_each(|boot| self.reboots(node, boot));
            }
            let call = async { Ok(parts.proxmox.start_vm(&host, vmid).await?) };
            let upid = self.perform(EffectKind::StartVm, vmid, &host, call).await?;
            self.finish(step, &upid, &format!("start VM {vmid}")).await?;
            Ok(Outcome::Done)
        })
        .await
    }
}
