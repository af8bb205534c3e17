//! VMs of a host and their status.

use serde_json::{Value, json};

use super::rows;
use crate::proxmox::context::Context;
use crate::proxmox::disks::drive_size;
use crate::proxmox::fail::{Answer, Data};
use crate::proxmox::schema::{Kind, opt, verify};
use crate::proxmox::state::{State, Vm};
use crate::proxmox::vmconfig;

/// Size of the boot disk.
pub(super) fn boot_disk_size(vm: &Vm) -> u64 {
    let order = vmconfig::boot_order(&vm.config);
    let named = order.iter().filter_map(|name| vm.config.get(name)).find(|value| !vmconfig::is_cdrom(value));
    let value = named.or_else(|| vm.config.get("scsi0")).or_else(|| vm.config.get("virtio0"));
    value.map_or(0, |value| drive_size(value))
}

fn row(state: &State, vmid: u32, vm: &Vm) -> Value {
    let memory = vmconfig::memory_bytes(&vm.config);
    let running = vm.running.as_ref();
    let mut row = json!({
        "vmid": vmid,
        "name": vm.name(vmid),
        "status": vm.status(),
        "cpu": running.map_or(0.0, |_| 0.05),
        "cpus": vmconfig::cpus(&vm.config),
        "mem": running.map_or(0, |_| memory / 2),
        "memhost": running.map_or(0, |_| memory / 2),
        "maxmem": memory,
        "disk": 0,
        "maxdisk": boot_disk_size(vm),
        "netin": 0,
        "netout": 0,
        "uptime": running.map_or(0, |running| state.now - running.since),
    });
    for key in ["tags", "lock"] {
        if let Some(value) = vm.config.get(key) {
            row[key] = value.clone().into();
        }
    }
    if vm.is_template() {
        row["template"] = 1.into();
    }
    if vm.config.contains_key("serial0") {
        row["serial"] = 1.into();
    }
    if let Some(running) = running {
        row["pid"] = running.pid.into();
    }
    row
}

/// `GET /nodes/{node}/qemu`
pub(super) fn list(context: &Context, host: &str) -> Answer {
    verify(&context.params, &[opt("full", Kind::Bool)])?;
    context.dc.with(|state| {
        let view = state.vm_view(&context.who);
        let here =
            state.vms.iter().filter(|(vmid, vm)| vm.host == host && view.privileges(**vmid).has("VM.Audit"));
        rows(here.map(|(vmid, vm)| row(state, *vmid, vm)).collect())
    })
}

/// `GET /nodes/{node}/qemu/{vmid}/status/current`
pub(super) fn current(context: &Context, host: &str, vmid: u32) -> Answer {
    context.need(&format!("/vms/{vmid}"), &["VM.Audit"])?;
    context.dc.with(|state| {
        let vm = state.vm(host, vmid)?;
        let mut row = row(state, vmid, vm);
        row["qmpstatus"] = vm.status().into();
        if vm.running.is_some() {
            let nics = vm.config.keys().filter_map(|name| match vmconfig::indexed(name) {
                ("net", Some(index)) => {
                    Some((format!("tap{vmid}i{index}"), json!({ "netin": 0, "netout": 0 })))
                }
                _ => None,
            });
            row["nics"] = nics.collect::<serde_json::Map<_, _>>().into();
            for what in ["cpu", "io", "memory"] {
                for much in ["full", "some"] {
                    row[format!("pressure{what}{much}")] = 0.into();
                }
            }
        }
        row["ha"] = json!({ "managed": u8::from(state.objects.manages(vmid)) });
        if vmconfig::agent_enabled(&vm.config) {
            row["agent"] = 1.into();
        }
        Ok(Data::from(row))
    })
}
