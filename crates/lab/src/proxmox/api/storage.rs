//! Storages: definitions, and their status on a host.

use serde_json::{Value, json};

use super::rows;
use crate::proxmox::context::Context;
use crate::proxmox::fail::{Answer, Data, Fail};
use crate::proxmox::schema::{Kind, opt, verify};
use crate::proxmox::state::{State, Storage};

fn readable(state: &State, context: &Context, id: &str) -> bool {
    let may = state.privileges(&context.who, &format!("/storage/{id}"));
    may.has("Datastore.Audit") || may.has("Datastore.AllocateSpace")
}

/// Fails unless the caller may look into a storage.
pub(super) fn need_readable(context: &Context, id: &str) -> Result<(), Fail> {
    context.need(&format!("/storage/{id}"), &["Datastore.Audit", "Datastore.AllocateSpace"])
}

fn usage(state: &State, host: &str, id: &str, storage: &Storage) -> Value {
    let there = state.store(host, id).ok();
    let (total, used, avail) =
        there.map_or((0, 0, 0), |store| (store.total, store.used(), store.available()));
    json!({
        "type": storage.kind,
        "content": storage.content.join(","),
        "shared": u8::from(storage.shared),
        "active": u8::from(there.is_some()),
        "enabled": u8::from(!storage.disabled),
        "total": total,
        "used": used,
        "avail": avail,
    })
}

/// `GET /nodes/{node}/storage`
pub(super) fn list(context: &Context, host: &str) -> Answer {
    verify(
        &context.params,
        &[
            opt("content", Kind::Text),
            opt("enabled", Kind::Bool),
            opt("storage", Kind::Text),
            opt("target", Kind::Text),
            opt("format", Kind::Bool),
        ],
    )?;
    let content: Vec<&str> =
        context.param("content").map(|text| text.split(',').collect()).unwrap_or_default();
    context.dc.with(|state| {
        let mut found = Vec::new();
        for (id, storage) in &state.storages {
            let wanted = storage.hosts.contains(host)
                && context.param("storage").is_none_or(|wanted| wanted == id)
                && context.param("target").is_none_or(|target| storage.hosts.contains(target))
                && !(context.flag("enabled") && storage.disabled)
                && (content.is_empty() || content.iter().any(|one| storage.holds(one)));
            if wanted && readable(state, context, id) {
                let mut row = usage(state, host, id, storage);
                row["storage"] = id.clone().into();
                let total = row["total"].as_f64().unwrap_or(1.0).max(1.0);
                row["used_fraction"] = (row["used"].as_f64().unwrap_or(0.0) / total).into();
                found.push(row);
            }
        }
        rows(found)
    })
}

/// `GET /nodes/{node}/storage/{storage}/status`
pub(super) fn status(context: &Context, host: &str, id: &str) -> Answer {
    need_readable(context, id)?;
    context.dc.with(|state| {
        state.store_key(host, id)?;
        let storage = state.storages.get(id).ok_or_else(|| Fail::no_storage(id))?;
        Ok(Data::from(usage(state, host, id, storage)))
    })
}

fn definition_row(id: &str, storage: &Storage) -> Value {
    let mut row = json!({
        "storage": id,
        "type": storage.kind,
        "content": storage.content.join(","),
        "digest": "4372a90a60fe8f901876a8e6c3b5aa4f4feb5f44",
    });
    match storage.kind.as_str() {
        "dir" if id == "local" => row["path"] = "/var/lib/vz".into(),
        "dir" | "nfs" | "cifs" | "cephfs" => row["path"] = format!("/mnt/pve/{id}").into(),
        "lvmthin" => {
            row["vgname"] = "pve".into();
            row["thinpool"] = "data".into();
        }
        "lvm" => row["vgname"] = id.into(),
        "zfspool" | "rbd" => row["pool"] = id.into(),
        _ => {}
    }
    if storage.shared {
        row["shared"] = 1.into();
    }
    if storage.disabled {
        row["disable"] = 1.into();
    }
    row
}

/// `GET /storage`
pub(super) fn definitions(context: &Context) -> Answer {
    const TYPES: &[&str] = &[
        "btrfs",
        "cephfs",
        "cifs",
        "dir",
        "esxi",
        "iscsi",
        "iscsidirect",
        "lvm",
        "lvmthin",
        "nfs",
        "pbs",
        "rbd",
        "zfs",
        "zfspool",
    ];
    verify(&context.params, &[opt("type", Kind::OneOf(TYPES))])?;
    context.dc.with(|state| {
        let all = state.storages.iter().filter(|(id, storage)| {
            context.param("type").is_none_or(|kind| kind == storage.kind) && readable(state, context, id)
        });
        rows(all.map(|(id, storage)| definition_row(id, storage)).collect())
    })
}

/// `GET /storage/{storage}`
pub(super) fn definition(context: &Context, id: &str) -> Answer {
    context.need(&format!("/storage/{id}"), &["Datastore.Allocate"])?;
    context.dc.with(|state| {
        let storage = state.storages.get(id).ok_or_else(|| Fail::no_storage(id))?;
        Ok(Data::from(definition_row(id, storage)))
    })
}
