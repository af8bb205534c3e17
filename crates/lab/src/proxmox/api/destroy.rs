//! Destroying a VM with its disks.

use crate::proxmox::context::Context;
use crate::proxmox::fail::{Answer, Fail};
use crate::proxmox::schema::{Kind, opt, verify};
use crate::proxmox::state::{State, Vm};
use crate::proxmox::vmconfig;

/// `DELETE /nodes/{node}/qemu/{vmid}`
pub(super) async fn start(context: &Context, host: &str, vmid: u32) -> Answer {
    context.need(&format!("/vms/{vmid}"), &["VM.Allocate"])?;
    verify(
        &context.params,
        &[
            opt("purge", Kind::Bool),
            opt("destroy-unreferenced-disks", Kind::Bool),
            opt("skiplock", Kind::Bool),
        ],
    )?;
    if context.flag("skiplock") && !context.who.is_root() {
        return Err(Fail::parameter("skiplock", "Only root may use this option."));
    }
    let purge = context.flag("purge");
    context.dc.with(|state| early_checks(state, host, vmid, purge))?;
    let unreferenced = context.flag("destroy-unreferenced-disks");
    context.fork(host, "qmdestroy", &vmid.to_string(), move |job| async move {
        let _lock = job.until(job.dc.lock_guest(vmid, job.dc.durations().long_lock)).await??;
        job.dc.with(|state| {
            let vm = state.vm(&job.host, vmid)?;
            vm.check_lock()?;
            early_checks(state, &job.host, vmid, purge)?;
            check_linked_clones(state, &job.host, vm)
        })?;
        job.pass(job.dc.durations().destroy).await?;
        job.checkpoint()?;
        if purge {
            job.log(format!("purging VM {vmid} from related configurations.."));
        }
        let forgotten = job.dc.with(|state| remove(state, &job.host, vmid, unreferenced, purge))?;
        for identity in forgotten {
            job.dc.guests().forget(&identity);
        }
        Ok(())
    })
}

fn early_checks(state: &State, host: &str, vmid: u32, purge: bool) -> Result<(), Fail> {
    let vm = state.vm(host, vmid)?;
    if vm.config.get("protection").is_some_and(|value| value == "1") {
        return Err(Fail::internal(format!("can't remove VM {vmid} - protection mode enabled")));
    }
    if !purge && state.objects.wanted(vmid).is_some() {
        let used = format!("unable to remove VM {vmid} - used in HA resources and purge parameter not set.");
        return Err(Fail::internal(used));
    }
    if vm.running.is_some() {
        return Err(Fail::internal(format!("VM {vmid} is running - destroy failed")));
    }
    Ok(())
}

fn volumes(vm: &Vm) -> Vec<String> {
    let unused =
        vm.config.iter().filter(|(name, _)| name.starts_with("unused")).map(|(_, value)| value.clone());
    let drives = vmconfig::drives(&vm.config)
        .into_iter()
        .filter(|(_, value)| !vmconfig::is_cdrom(value) || value.contains("cloudinit"));
    drives.map(|(_, value)| value).chain(unused).filter_map(|value| vmconfig::drive_volume(&value)).collect()
}

fn check_linked_clones(state: &State, host: &str, vm: &Vm) -> Result<(), Fail> {
    if !vm.is_template() {
        return Ok(());
    }
    // The variable store is looked at last.
    let mut all = volumes(vm);
    all.rotate_left(usize::from(vm.config.contains_key("efidisk0")));
    for volid in all {
        let Some((storage, name)) = volid.split_once(':') else { continue };
        let Ok(store) = state.store(host, storage) else { continue };
        if store.volumes.values().any(|volume| volume.parent.as_deref() == Some(name)) {
            return Err(Fail::internal(format!("base volume '{volid}' is still in use by linked cloned")));
        }
    }
    Ok(())
}

/// Takes the VM, its disks, its pool entry and its ACLs away; returns the identities of its disks.
fn remove(
    state: &mut State,
    host: &str,
    vmid: u32,
    unreferenced: bool,
    purge: bool,
) -> Result<Vec<String>, Fail> {
    let vm = state.vm(host, vmid)?.clone();
    let mut gone: Vec<String> = volumes(&vm)
        .into_iter()
        .filter(|volid| state.volume(host, volid).is_some_and(|volume| volume.vmid == Some(vmid)))
        .collect();
    if unreferenced {
        let ids: Vec<String> = state.storages.keys().cloned().collect();
        for id in ids {
            let Ok(store) = state.store(host, &id) else { continue };
            let mine = store.volumes.iter().filter(|(_, volume)| volume.vmid == Some(vmid));
            gone.extend(mine.map(|(name, _)| format!("{id}:{name}")));
        }
    }
    let disks = gone.iter().filter_map(|volid| state.remove_volume(host, volid));
    let mut forgotten: Vec<String> = disks.map(|volume| volume.identity).collect();
    forgotten.extend(vm.snapshots.iter().flat_map(|(name, snapshot)| snapshot.identities(name)));
    state.vms.remove(&vmid);
    state.pool_of.remove(&vmid);
    state.objects.forget(vmid);
    if purge {
        state.objects.purge(vmid);
    }
    state.access.acl.remove(&format!("/vms/{vmid}"));
    Ok(forgotten)
}
