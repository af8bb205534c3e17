//! Resource pools.

use serde_json::{Value, json};

use super::rows;
use crate::proxmox::context::Context;
use crate::proxmox::fail::{Answer, Data, Fail};
use crate::proxmox::schema::{Kind, opt, req, verify};
use crate::proxmox::state::Pool;

fn missing(id: &str) -> Fail {
    Fail::internal(format!("no such pool '{id}'"))
}

/// `GET /pools`: all of them, or one with what is in it.
pub(super) fn list(context: &Context) -> Answer {
    verify(
        &context.params,
        &[opt("poolid", Kind::Text), opt("type", Kind::OneOf(&["qemu", "lxc", "storage"]))],
    )?;
    if let Some(id) = context.param("poolid") {
        let mut row = whole(context, id)?;
        row["poolid"] = id.into();
        return rows(vec![row]);
    }
    context.dc.with(|state| {
        let seen = state
            .pools
            .iter()
            .filter(|(id, _)| state.privileges(&context.who, &format!("/pool/{id}")).has("Pool.Audit"));
        rows(
            seen.map(|(id, pool)| {
                let mut row = json!({ "poolid": id });
                if let Some(comment) = &pool.comment {
                    row["comment"] = comment.clone().into();
                }
                row
            })
            .collect(),
        )
    })
}

/// `GET /pools/{pool}`
pub(super) fn show(context: &Context, id: &str) -> Answer {
    whole(context, id).map(Data::from)
}

/// A pool with its members, of one type if that is asked for.
fn whole(context: &Context, id: &str) -> Result<Value, Fail> {
    context.need(&format!("/pool/{id}"), &["Pool.Audit"])?;
    context.dc.with(|state| {
        let pool = state.pools.get(id).ok_or_else(|| missing(id))?;
        let vms = state.pool_of.iter().filter(|(_, pool)| *pool == id).filter_map(|(vmid, _)| {
            let vm = state.vms.get(vmid)?;
            Some(json!({
                "id": format!("qemu/{vmid}"), "vmid": vmid, "type": "qemu", "node": vm.host,
                "name": vm.name(*vmid), "status": vm.status(),
            }))
        });
        let storages = pool
            .storages
            .iter()
            .map(|id| json!({ "id": format!("storage/{id}"), "storage": id, "type": "storage" }));
        let wanted = |member: &Value| context.param("type").is_none_or(|wanted| member["type"] == wanted);
        let members: Vec<Value> = vms.chain(storages).filter(wanted).collect();
        let mut row = json!({ "members": members });
        if let Some(comment) = &pool.comment {
            row["comment"] = comment.clone().into();
        }
        Ok(row)
    })
}

/// `POST /pools`
pub(super) fn create(context: &Context) -> Answer {
    verify(&context.params, &[req("poolid", Kind::Text), opt("comment", Kind::Text)])?;
    let id = context.param("poolid").unwrap_or_default().to_owned();
    context.need(&format!("/pool/{id}"), &["Pool.Allocate"])?;
    let comment = context.param("comment").map(str::to_owned);
    context.dc.with(|state| {
        if state.pools.contains_key(&id) {
            return Err(Fail::internal(format!("create pool failed: pool '{id}' already exists")));
        }
        state.pools.insert(id, Pool { comment, ..Pool::default() });
        Data::null()
    })
}

/// `PUT /pools/{pool}` and `PUT /pools`
pub(super) fn update(context: &Context, id: &str) -> Answer {
    verify(
        &context.params,
        &[
            opt("poolid", Kind::Text),
            opt("comment", Kind::Text),
            opt("vms", Kind::Text),
            opt("storage", Kind::Text),
            opt("delete", Kind::Bool),
            opt("allow-move", Kind::Bool),
        ],
    )?;
    context.need(&format!("/pool/{id}"), &["Pool.Allocate"])?;
    let list = |name| {
        context.param(name).unwrap_or_default().split([',', ';', ' ']).filter(|one: &&str| !one.is_empty())
    };
    let vms: Vec<u32> = list("vms").filter_map(|one| one.parse().ok()).collect();
    let storages: Vec<String> = list("storage").map(str::to_owned).collect();
    let delete = context.flag("delete");
    context.dc.with(|state| {
        if !state.pools.contains_key(id) {
            return Err(missing(id));
        }
        for vmid in vms {
            let known = state.pool_of.get(&vmid).cloned();
            match (delete, known) {
                (true, Some(pool)) if pool == id => drop(state.pool_of.remove(&vmid)),
                (true, _) => return Err(Fail::internal(format!("VM {vmid} is not a pool member"))),
                (false, Some(pool)) if pool != id && !context.flag("allow-move") => {
                    return Err(Fail::internal(format!(
                        "VM {vmid} belongs to pool '{pool}' and 'allow-move' is not set"
                    )));
                }
                (false, _) => drop(state.pool_of.insert(vmid, id.to_owned())),
            }
        }
        if let Some(pool) = state.pools.get_mut(id) {
            for storage in storages {
                if delete {
                    pool.storages.remove(&storage);
                } else {
                    pool.storages.insert(storage);
                }
            }
            if let Some(comment) = context.param("comment") {
                pool.comment = Some(comment.to_owned());
            }
        }
        Data::null()
    })
}

/// `DELETE /pools/{pool}` and `DELETE /pools?poolid=`
pub(super) fn delete(context: &Context, id: &str) -> Answer {
    context.need(&format!("/pool/{id}"), &["Pool.Allocate"])?;
    context.dc.with(|state| {
        let pool = state.pools.get(id).ok_or_else(|| missing(id))?;
        let used = !pool.storages.is_empty() || state.pool_of.values().any(|pool| pool == id);
        if used {
            return Err(Fail::internal(format!("delete pool failed: pool '{id}' is not empty")));
        }
        state.pools.remove(id);
        Data::null()
    })
}
