//! Moving a VM to another host.

use crate::proxmox::context::Context;
use crate::proxmox::disks::{copy_time, drive_size};
use crate::proxmox::fail::{Answer, Fail};
use crate::proxmox::schema::{Kind, opt, req, verify};
use crate::proxmox::state::{State, Vm};
use crate::proxmox::tasks::Stop;
use crate::proxmox::vmconfig;

/// `POST …/migrate`
pub(super) fn start(context: &Context, host: &str, vmid: u32) -> Answer {
    context.need(&format!("/vms/{vmid}"), &["VM.Migrate"])?;
    verify(
        &context.params,
        &[
            req("target", Kind::Text),
            opt("online", Kind::Bool),
            opt("with-local-disks", Kind::Bool),
            opt("with-conntrack-state", Kind::Bool),
            opt("targetstorage", Kind::Text),
            opt("force", Kind::Bool),
            opt("bwlimit", Kind::Int(0, i64::MAX)),
            opt("migration_network", Kind::Text),
            opt("migration_type", Kind::OneOf(&["secure", "insecure"])),
        ],
    )?;
    for name in ["force", "migration_network", "migration_type"] {
        if context.param(name).is_some() && !context.who.is_root() {
            return Err(Fail::parameter(name, "Only root may use this option."));
        }
    }
    let target = context.param("target").unwrap_or_default().to_owned();
    if target == host {
        return Err(Fail::parameter("target", "target is local node."));
    }
    let online = context.flag("online");
    let local_disks = context.flag("with-local-disks");
    context.dc.with(|state| {
        if !state.hosts.contains_key(&target) {
            return Err(Fail::internal(format!("no such cluster node '{target}'")));
        }
        let vm = state.vm(host, vmid)?;
        vm.check_lock()?;
        if vm.running.is_some() && !online {
            return Err(Fail::internal("can't migrate running VM without --online"));
        }
        check_local(state, vm, local_disks)
    })?;
    context.fork(host, "qmigrate", &vmid.to_string(), move |job| async move {
        let _lock = job.until(job.dc.lock_guest(vmid, job.dc.durations().long_lock)).await??;
        let size = job.dc.with(|state| {
            let vm = state.vm_mut(&job.host, vmid)?;
            vm.check_lock()?;
            let size = vmconfig::drives(&vm.config).iter().map(|(_, value)| drive_size(value)).sum();
            vm.config.insert("lock".into(), "migrate".into());
            Ok::<u64, Fail>(size)
        })?;
        job.log(format!("starting migration of VM {vmid} to node '{target}'"));
        let waited =
            job.pass(job.dc.durations().create + copy_time(&job, if local_disks { size } else { 0 })).await;
        if waited.is_ok() {
            job.checkpoint()?;
        }
        job.dc.with(|state| {
            if let Some(vm) = state.vms.get_mut(&vmid) {
                vm.config.remove("lock");
            }
            match &waited {
                Ok(()) if state.migrate(vmid, &target) => Ok(()),
                Ok(()) => Err(Stop::error("migration aborted")),
                Err(stop) => Err(stop.clone()),
            }
        })
    })
}

/// Disks that only this host has must be named as such.
fn check_local(state: &State, vm: &Vm, allowed: bool) -> Result<(), Fail> {
    for (_, value) in vmconfig::drives(&vm.config) {
        let Some(volid) = vmconfig::drive_volume(&value) else { continue };
        let storage = volid.split(':').next().unwrap_or_default();
        let local = state.storages.get(storage).is_some_and(|storage| !storage.shared);
        if local && vmconfig::is_cdrom(&value) {
            return Err(Fail::internal(format!("can't migrate local cdrom '{volid}'")));
        }
        if local && vm.running.is_some() && !allowed {
            return Err(Fail::internal(
                "can't live migrate attached local disks without with-local-disks option",
            ));
        }
    }
    Ok(())
}
