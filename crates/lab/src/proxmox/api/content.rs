//! Volumes on a storage: listing and deleting.

use serde_json::json;

use super::{rows, storage};
use crate::proxmox::context::Context;
use crate::proxmox::fail::{Answer, Data, Fail};
use crate::proxmox::schema::{Kind, VMID, opt, verify};

/// `GET /nodes/{node}/storage/{storage}/content`
pub(super) fn list(context: &Context, host: &str, id: &str) -> Answer {
    verify(&context.params, &[opt("content", Kind::Text), opt("vmid", VMID)])?;
    storage::need_readable(context, id)?;
    let content: Option<Vec<&str>> = context.param("content").map(|text| text.split(',').collect());
    let vmid = context.number("vmid");
    context.dc.with(|state| {
        let storage_may = state.privileges(&context.who, &format!("/storage/{id}"));
        let store = state.store(host, id)?;
        let definition = state.storages.get(id).ok_or_else(|| Fail::no_storage(id))?;
        let view = state.vm_view(&context.who);
        let mut found = Vec::new();
        for (name, volume) in &store.volumes {
            let wanted = content.as_ref().is_none_or(|wanted| wanted.contains(&volume.content.as_str()))
                && vmid.is_none_or(|vmid| volume.vmid.map(u64::from) == Some(vmid));
            if !wanted {
                continue;
            }
            let seen = match volume.vmid {
                Some(vmid) => {
                    storage_may.has("Datastore.Allocate") || {
                        let may = view.privileges(vmid);
                        may.has("VM.Config.Disk") || may.has("VM.Backup")
                    }
                }
                None => true,
            };
            if seen {
                found.push(definition.content_row(id, name, volume));
            }
        }
        rows(found)
    })
}

fn bare_name<'a>(id: &str, volume: &'a str) -> Result<&'a str, Fail> {
    match volume.split_once(':') {
        Some((storage, name)) if storage == id => Ok(name),
        Some((storage, _)) => {
            Err(Fail::parameter("storage", format!("storage ID missmatch ({storage} != {id})")))
        }
        None => Ok(volume),
    }
}

/// `GET /nodes/{node}/storage/{storage}/content/{volume}`
pub(super) fn show(context: &Context, host: &str, id: &str, volume: &str) -> Answer {
    storage::need_readable(context, id)?;
    let name = bare_name(id, volume)?;
    context.dc.with(|state| {
        let path = state.volume_path(id, name);
        let store = state.store(host, id)?;
        let volume = store.volumes.get(name).ok_or_else(|| {
            Fail::internal(format!("volume_size_info on '{id}:{name}' failed - no such file '{path}'"))
        })?;
        Ok(Data::from(
            json!({ "path": path, "size": volume.disk_size(), "used": volume.used, "format": volume.format }),
        ))
    })
}

/// `DELETE /nodes/{node}/storage/{storage}/content/{volume}`
pub(super) async fn delete(context: &Context, host: &str, id: &str, volume: &str) -> Answer {
    verify(&context.params, &[opt("delay", Kind::Int(1, 30))])?;
    let name = bare_name(id, volume)?.to_owned();
    let owner = context.dc.with(|state| {
        state.store_key(host, id)?;
        Ok::<_, Fail>(state.store(host, id)?.volumes.get(&name).and_then(|volume| volume.vmid))
    })?;
    let may_here = context.may(&format!("/storage/{id}"), "Datastore.Allocate");
    if !may_here {
        match owner {
            Some(vmid) if context.may(&format!("/vms/{vmid}"), "VM.Config.Disk") => {
                context.need(&format!("/storage/{id}"), &["Datastore.AllocateSpace"])?;
            }
            _ => return Err(Fail::forbidden(&format!("/storage/{id}"), "Datastore.Allocate")),
        }
    }
    if let Some(vmid) = owner.filter(|vmid| context.dc.with(|state| state.vms.contains_key(vmid))) {
        return Err(Fail::internal(format!(
            "Cannot remove image, a guest with VMID '{vmid}' exists!\nYou can delete the image from the guest's hardware pane"
        )));
    }
    let volid = format!("{id}:{name}");
    let storage = id.to_owned();
    context.fork(host, "imgdel", id, |job| async move {
        let _lock = job.until(job.dc.lock_storage(&job.host, &storage)).await??;
        job.pass(job.dc.durations().delete).await?;
        let gone = job.dc.with(|state| state.remove_volume(&job.host, &volid));
        if let Some(volume) = gone
            && volume.vmid.is_some()
        {
            job.dc.guests().forget(&volume.identity);
        }
        job.log(format!("Removed volume '{volid}'"));
        Ok(())
    })
}
