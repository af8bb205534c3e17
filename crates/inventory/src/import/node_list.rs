//! A list of nodes with the addresses that DHCP gave them, as `nodes.json` has it.

use std::net::IpAddr;

use super::draft::{Draft, Node, Pool};
use super::input::Input;

/// What such a project numbers its VMs from.
const FIRST: u64 = 300;
/// The variable in which the key of the tailnet is expected there, too.
const AUTH_KEY: &str = "HEADSCALE_AUTH_KEY";

pub(super) fn read(input: &mut Input) -> Draft {
    let mut draft = Draft { extensions: vec!["qemu-guest-agent".to_owned()], ..Draft::default() };
    let mut vmid = FIRST;
    let mut is_static = true;
    for (list, role) in [("controlplanes", "controlplane"), ("workers", "worker")] {
        let mut pool = Pool::of(role);
        for at in input.names(list) {
            let at = format!("{list}/{at}");
            let told = input.text(&format!("{at}/address"));
            is_static &= told.is_some();
            let given = input.text(&format!("{at}/dhcp"));
            if told.is_some() && given != told {
                input.refuse(&format!("{at}/dhcp"), "the node has its `address` from the beginning");
            }
            pool.nodes.push(Node {
                name: input.text(&format!("{at}/name")),
                vmid: Some(vmid),
                address: told.or(given),
                mac: input.text(&format!("{at}/mac")),
                ..Node::default()
            });
            vmid += 1;
        }
        draft.pools.extend((!pool.nodes.is_empty()).then_some(pool));
    }
    draft.dhcp = (!is_static).then_some("true");
    if let Some(vip) = input.text("control_plane_vip") {
        match vip.parse::<IpAddr>() {
            Ok(_) => draft.api = Some(vip),
            Err(_) => {
                input.refuse(
                    "control_plane_vip",
                    "it is not an address; the first control plane's is the endpoint",
                );
            }
        }
    }
    if let Some(server) = input.text("headscale_login_server") {
        draft.extensions.push("tailscale".to_owned());
        draft.tailscale = Some((server, AUTH_KEY));
    }
    input.secret(
        "headscale_auth_key",
        &format!("the inventory reads it from the environment: export {AUTH_KEY}=…"),
    );
    draft
}
