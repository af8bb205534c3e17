//! The cluster as a whole: resources, status, the next free VMID.

use serde_json::{Value, json};

use super::{guests, nodes, rows};
use crate::proxmox::context::Context;
use crate::proxmox::fail::{Answer, Data, Fail};
use crate::proxmox::schema::{Kind, VMID, opt, verify};
use crate::proxmox::state::State;
use crate::proxmox::vmconfig;

/// Seconds for which a storage that vanished keeps its last figures.
const LAST_FIGURES: i64 = 12;

/// `GET /cluster/resources`
pub(super) fn resources(context: &Context) -> Answer {
    verify(&context.params, &[opt("type", Kind::OneOf(&["vm", "storage", "node", "sdn"]))])?;
    let wanted = |kind: &str| context.param("type").is_none_or(|given| given == kind);
    context.dc.with(|state| {
        let mut all = Vec::new();
        if context.param("type").is_none() {
            for pool in state.pools.keys() {
                if state.privileges(&context.who, &format!("/pool/{pool}")).has("Pool.Audit") {
                    all.push(json!({ "id": format!("/pool/{pool}"), "pool": pool, "type": "pool" }));
                }
            }
        }
        if wanted("vm") {
            all.extend(vms(state, context));
        }
        if wanted("node") {
            for name in state.hosts.keys() {
                let detail = state.privileges(&context.who, &format!("/nodes/{name}")).has("Sys.Audit");
                let mut row = nodes::row(state, name, detail);
                if detail {
                    row["cgroup-mode"] = 2.into();
                }
                all.push(row);
            }
        }
        if wanted("storage") {
            all.extend(storages(state, context));
        }
        if wanted("sdn") {
            for name in state.hosts.keys() {
                if state.privileges(&context.who, "/sdn/zones/localnetwork").has("SDN.Audit") {
                    all.push(json!({
                        "id": format!("network/{name}/zone/localnetwork"), "network": "localnetwork",
                        "network-type": "zone", "node": name, "status": "ok", "type": "network",
                    }));
                }
            }
        }
        rows(all)
    })
}

/// Existence, tags, lock and pool are immediate; name and status are what the hosts last told.
fn vms(state: &mut State, context: &Context) -> Vec<Value> {
    let told = state.broadcast().clone();
    let mut all = Vec::with_capacity(state.vms.len());
    let view = state.vm_view(&context.who);
    for (vmid, vm) in &state.vms {
        if !view.privileges(*vmid).has("VM.Audit") {
            continue;
        }
        let mut row = json!({
            "id": format!("qemu/{vmid}"), "vmid": vmid, "type": "qemu", "node": vm.host,
            "template": u8::from(vm.is_template()),
        });
        match told.get(vmid) {
            Some((name, status)) => {
                let running = status == "running";
                let memory = vmconfig::memory_bytes(&vm.config);
                row["name"] = name.clone().into();
                row["status"] = status.clone().into();
                row["cpu"] = if running { 0.05 } else { 0.0 }.into();
                row["maxcpu"] = vmconfig::cpus(&vm.config).into();
                row["mem"] = if running { memory / 2 } else { 0 }.into();
                row["maxmem"] = memory.into();
                row["maxdisk"] = guests::boot_disk_size(vm).into();
                row["uptime"] = vm.running.as_ref().map_or(0, |running| state.now - running.since).into();
                for key in ["disk", "diskread", "diskwrite", "memhost", "netin", "netout"] {
                    row[key] = 0.into();
                }
            }
            None => row["status"] = "unknown".into(),
        }
        for key in ["tags", "lock"] {
            if let Some(value) = vm.config.get(key) {
                row[key] = value.clone().into();
            }
        }
        if let Some(pool) = state.pool_of.get(vmid)
            && state.privileges(&context.who, &format!("/pool/{pool}")).has("Pool.Audit")
        {
            row["pool"] = pool.clone().into();
        }
        all.push(row);
    }
    all
}

fn storages(state: &State, context: &Context) -> Vec<Value> {
    let mut all = Vec::new();
    for (id, storage) in &state.storages {
        if !state.privileges(&context.who, &format!("/storage/{id}")).has("Datastore.Audit") {
            continue;
        }
        for host in &storage.hosts {
            // One that is disabled is not in this list at all.
            let Ok(key) = state.store_key(host, id) else { continue };
            let Some(store) = state.stores.get(&key) else { continue };
            let mut row = json!({
                "id": format!("storage/{host}/{id}"), "storage": id, "node": host, "type": "storage",
                "plugintype": storage.kind, "content": storage.content.join(","),
                "shared": u8::from(storage.shared), "status": "unknown",
            });
            // What vanished keeps its last figures for a while.
            let told =
                !state.realities.stale_lists || store.lost.is_some_and(|at| state.now >= at + LAST_FIGURES);
            if store.lost.is_none() || !told {
                row["status"] = "available".into();
                row["disk"] = store.used().into();
                row["maxdisk"] = store.total.into();
            }
            all.push(row);
        }
    }
    all
}

/// `GET /cluster/status`
pub(super) fn status(context: &Context) -> Answer {
    context.need("/", &["Sys.Audit"])?;
    context.dc.with(|state| {
        let mut all = Vec::new();
        if state.hosts.len() > 1 {
            all.push(json!({
                "id": "cluster", "type": "cluster", "name": "lab", "version": state.hosts.len(),
                "nodes": state.hosts.len(), "quorate": u8::from(state.quorate()),
            }));
        }
        for (index, (name, host)) in state.hosts.iter().enumerate() {
            let nodeid = if state.hosts.len() > 1 { index + 1 } else { 0 };
            all.push(json!({
                "id": format!("node/{name}"), "type": "node", "name": name, "nodeid": nodeid, "level": "",
                "ip": nodes::address(state, name),
                "local": u8::from(*name == context.local), "online": u8::from(host.online),
            }));
        }
        rows(all)
    })
}

/// `GET /cluster/sdn/vnets`
pub(super) fn vnets(context: &Context) -> Answer {
    verify(&context.params, &[opt("pending", Kind::Bool), opt("running", Kind::Bool)])?;
    context.dc.with(|state| {
        let all: std::collections::BTreeSet<(&str, &str)> =
            state.hosts.values().flat_map(crate::proxmox::state::Host::bridges).collect();
        let seen = all.into_iter().filter(|(zone, vnet)| {
            let may = state.privileges(&context.who, &state.bridge_path(vnet));
            *zone != "localnetwork" && (may.has("SDN.Audit") || may.has("SDN.Allocate"))
        });
        rows(seen.map(|(zone, vnet)| json!({ "vnet": vnet, "zone": zone, "type": "vnet" })).collect())
    })
}

/// `GET /cluster/nextid`
pub(super) fn next_id(context: &Context) -> Answer {
    verify(&context.params, &[opt("vmid", VMID)])?;
    context.dc.with(|state| {
        if let Some(vmid) = context.number("vmid").map(|vmid| vmid as u32) {
            return if state.vms.contains_key(&vmid) {
                Err(Fail::parameter("vmid", format!("VM {vmid} already exists")))
            } else {
                Ok(Data::from(json!(vmid.to_string())))
            };
        }
        let free = (100..1_000_000).find(|vmid| !state.vms.contains_key(vmid));
        free.map(|vmid| Data::from(json!(vmid.to_string())))
            .ok_or_else(|| Fail::internal("unable to get any free VMID in range [100, 999999]"))
    })
}
