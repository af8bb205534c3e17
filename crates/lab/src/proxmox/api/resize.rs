//! Growing a disk.

use crate::proxmox::context::Context;
use crate::proxmox::fail::{Answer, Fail};
use crate::proxmox::property::{Properties, parse_size, print_size};
use crate::proxmox::schema::{DISK, Kind, opt, req, verify};
use crate::proxmox::state::{State, Storage};
use crate::proxmox::tasks::{Job, Stop};
use crate::proxmox::vmconfig;

fn size_format(text: &str) -> Result<(), String> {
    let number = text.strip_prefix('+').unwrap_or(text);
    let starts = number.chars().next().is_some_and(|c| c.is_ascii_digit());
    if starts && parse_size(number).is_some() {
        Ok(())
    } else {
        Err("value does not match the regex pattern".into())
    }
}

/// `PUT …/resize`
pub(super) fn start(context: &Context, host: &str, vmid: u32) -> Answer {
    context.need(&format!("/vms/{vmid}"), &["VM.Config.Disk"])?;
    verify(
        &context.params,
        &[
            req("disk", DISK),
            req("size", Kind::Format(size_format)),
            opt("digest", Kind::Text),
            opt("skiplock", Kind::Bool),
        ],
    )?;
    if context.flag("skiplock") && !context.who.is_root() {
        return Err(Fail::parameter("skiplock", "Only root may use this option."));
    }
    let disk = context.param("disk").unwrap_or_default().to_owned();
    let wanted = context.param("size").unwrap_or_default().to_owned();
    let digest = context.param("digest").map(str::to_owned);
    context.fork(host, "resize", &vmid.to_string(), move |job| async move {
        let _lock = job.until(job.dc.lock_guest(vmid, job.dc.durations().long_lock)).await??;
        let Resized { volid, old, format, storage } =
            job.dc.with(|state| resized(state, &job, vmid, &disk, digest.as_deref()))?;
        let wanted = match wanted.strip_prefix('+') {
            Some(more) => old + parse_size(more).unwrap_or(0),
            None => parse_size(&wanted).unwrap_or(0),
        };
        let new = storage.rounded(wanted);
        if wanted < old {
            return Err(Stop::error("shrinking disks is not supported"));
        }
        if new == old {
            return Ok(());
        }
        let durations = job.dc.durations();
        job.pass(durations.resize).await?;
        if format == "qcow2" {
            // Its metadata is allocated at once, and QEMU's patience is limited.
            let gib = (new - old) as f64 / f64::from(1u32 << 30);
            let needed = durations.preallocate_tib.mul_f64(gib / 1024.0);
            job.pass(needed.min(durations.long_lock)).await?;
            if needed > durations.long_lock {
                let command =
                    format!("/usr/bin/qemu-img resize --preallocation=metadata -f qcow2 {volid} {new}");
                return Err(Stop::error(format!("command '{command}' failed: got timeout")));
            }
        }
        job.dc.with(|state| {
            let more = if storage.is_thick() { new - old } else { 0 };
            extend(state, &job.host, &volid, new, more)?;
            let vm = state.vm_mut(&job.host, vmid)?;
            if let Some(value) = vm.config.get_mut(&disk) {
                let mut drive = Properties::parse(value);
                drive.set("size", print_size(new));
                *value = drive.print();
            }
            Ok::<_, Fail>(())
        })?;
        job.log("Image resized.");
        Ok(())
    })
}

/// The volume that is to grow.
struct Resized {
    volid: String,
    old: u64,
    format: String,
    storage: Storage,
}

fn resized(state: &State, job: &Job, vmid: u32, disk: &str, digest: Option<&str>) -> Result<Resized, Fail> {
    let vm = state.vm(&job.host, vmid)?;
    if digest.is_some_and(|digest| digest != vm.digest()) {
        return Err(Fail::internal("checksum mismatch (file change by other user?)"));
    }
    vm.check_lock()?;
    let value = vm.config.get(disk).ok_or_else(|| Fail::internal(format!("disk '{disk}' does not exist")))?;
    if vmconfig::is_cdrom(value) {
        return Err(Fail::internal("you can't resize a cdrom"));
    }
    let volid = vmconfig::drive_volume(value)
        .ok_or_else(|| Fail::internal(format!("disk '{disk}' has no associated volume")))?;
    let storage = volid.split(':').next().unwrap_or_default();
    let path = format!("/storage/{storage}");
    if !state.privileges(&job.who, &path).has("Datastore.AllocateSpace") {
        return Err(Fail::forbidden(&path, "Datastore.AllocateSpace"));
    }
    let volume = state
        .volume(&job.host, &volid)
        .ok_or_else(|| Fail::internal(format!("volume '{volid}' does not exist")))?;
    let storage = state.storages.get(storage).ok_or_else(|| Fail::no_storage(storage))?.clone();
    Ok(Resized { volid: volid.clone(), old: volume.size, format: volume.format.clone(), storage })
}

/// Gives a volume its new size, `more` bytes of which are taken at once.
fn extend(state: &mut State, host: &str, volid: &str, new: u64, more: u64) -> Result<(), Fail> {
    let (id, name) = volid.split_once(':').unwrap_or_default();
    let store = state.store_mut(host, id)?;
    if !store.takes(more as usize) {
        return Err(Fail::internal(format!(
            "command '/sbin/lvextend -L {}k /dev/{id}/{name}' failed: exit code 5",
            new >> 10
        )));
    }
    if let Some(volume) = store.volumes.get_mut(name) {
        (volume.size, volume.used) = (new, volume.used + more);
    }
    Ok(())
}
