//! The guest agent.

use serde_json::json;

use crate::proxmox::context::Context;
use crate::proxmox::fail::{Answer, Data, Fail};
use crate::proxmox::vmconfig;

/// `…/agent/{command}`
pub(super) async fn run(context: &Context, host: &str, vmid: u32, command: &str) -> Answer {
    let read =
        context.method == "GET" && matches!(command, "network-get-interfaces" | "get-host-name" | "info");
    let ping = context.method == "POST" && command == "ping";
    if !read && !ping {
        return Err(super::unknown(context));
    }
    let major = context.dc.with(|state| state.major());
    let any_of: &[&str] =
        if major >= 9 { &["VM.GuestAgent.Audit", "VM.GuestAgent.Unrestricted"] } else { &["VM.Monitor"] };
    context.need(&format!("/vms/{vmid}"), any_of)?;
    let name = context.dc.with(|state| {
        let vm = state.vm(host, vmid)?;
        if !vmconfig::agent_enabled(&vm.config) {
            return Err(Fail::internal("No QEMU guest agent configured"));
        }
        if vm.running.is_none() {
            return Err(Fail::internal(format!("VM {vmid} is not running")));
        }
        Ok(vm.name(vmid))
    })?;
    let Some(interfaces) = context.dc.guests().agent_interfaces(vmid) else {
        context.dc.pace().pass(context.dc.durations().agent).await;
        return Err(Fail::internal("QEMU guest agent is not running"));
    };
    let result = match command {
        "network-get-interfaces" => interfaces
            .iter()
            .map(|interface| {
                let addresses: Vec<_> = interface
                    .addresses
                    .iter()
                    .map(|(address, prefix)| {
                        json!({
                            "ip-address": address.to_string(),
                            "ip-address-type": if address.is_ipv4() { "ipv4" } else { "ipv6" },
                            "prefix": prefix,
                        })
                    })
                    .collect();
                json!({
                    "name": interface.name,
                    "hardware-address": interface.mac.to_lowercase(),
                    "ip-addresses": addresses,
                })
            })
            .collect(),
        "get-host-name" => json!({ "host-name": name }),
        "info" => json!({ "version": "10.1.0", "supported_commands": [] }),
        _ => json!({}),
    };
    Ok(Data::from(json!({ "result": result })))
}
