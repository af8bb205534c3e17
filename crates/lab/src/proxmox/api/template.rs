//! Turning a VM into a template.

use crate::proxmox::context::Context;
use crate::proxmox::fail::{Answer, Fail};
use crate::proxmox::property::Properties;
use crate::proxmox::schema::{DISK, opt, verify};
use crate::proxmox::state::State;
use crate::proxmox::vmconfig;

/// `POST …/template`
pub(super) fn start(context: &Context, host: &str, vmid: u32) -> Answer {
    context.need(&format!("/vms/{vmid}"), &["VM.Allocate"])?;
    verify(&context.params, &[opt("disk", DISK)])?;
    context.dc.with(|state| check(state, host, vmid))?;
    context.fork(host, "qmtemplate", &vmid.to_string(), move |job| async move {
        let _lock = job.until(job.dc.lock_guest(vmid, job.dc.durations().long_lock)).await??;
        job.dc.with(|state| check(state, &job.host, vmid))?;
        job.pass(job.dc.durations().template).await?;
        job.dc.with(|state| convert(state, &job.host, vmid))?;
        Ok(())
    })
}

fn check(state: &State, host: &str, vmid: u32) -> Result<(), Fail> {
    let vm = state.vm(host, vmid)?;
    vm.check_lock()?;
    if !vm.snapshots.is_empty() {
        return Err(Fail::internal("unable to create template, because VM contains snapshots"));
    }
    if vm.is_template() {
        return Err(Fail::internal("you can't convert a template to a template"));
    }
    if vm.running.is_some() {
        return Err(Fail::internal("you can't convert a VM to template if VM is running"));
    }
    Ok(())
}

/// Volumes become `base-…` where their storage knows bases; the VM gets its mark.
fn convert(state: &mut State, host: &str, vmid: u32) -> Result<(), Fail> {
    let drives = vmconfig::drives(&state.vm(host, vmid)?.config);
    for (option, value) in drives {
        if vmconfig::is_cdrom(&value) {
            continue;
        }
        let Some(volid) = vmconfig::drive_volume(&value) else { continue };
        let Some(volume) = state.remove_volume(host, &volid) else { continue };
        let (storage, name) = volid.split_once(':').unwrap_or_default();
        let definition = state.storages.get(storage).ok_or_else(|| Fail::no_storage(storage))?;
        let name = definition.base_name(vmid, name);
        state.store_mut(host, storage)?.volumes.insert(name.clone(), volume);
        let mut drive = Properties::parse(&value);
        drive.bare = Some(format!("{storage}:{name}"));
        state.vm_mut(host, vmid)?.config.insert(option, drive.print());
    }
    state.vm_mut(host, vmid)?.config.insert("template".into(), "1".into());
    Ok(())
}
