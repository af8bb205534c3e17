//! What is on a VM's cloud-init drive, as Proxmox writes it at every start: names and addresses, and what a snippet
//! says.

use std::fmt::Write as _;
use std::net::IpAddr;

use daedal_talos_config::Secret;
use daedal_talos_config::nocloud::Cidata;
use ipnet::IpNet;
use sha1::{Digest as _, Sha1};

use super::property::{Nic, Properties};
use super::state::Config;

/// The drive's bytes, with a snippet in the place of its user-data if there is one.
pub(super) fn iso(config: &Config, snippet: Option<String>) -> Option<Vec<u8>> {
    let user_data = snippet.unwrap_or_else(|| user_data(config));
    let network = network(config);
    let instance = hex::encode(Sha1::digest(format!("{user_data}{network}")));
    let medium = Cidata {
        user_data: Secret::new(user_data),
        meta_data: format!("instance-id: {instance}\n"),
        network_config: Some(network),
    };
    medium.to_iso().ok().map(|bytes| bytes.to_vec())
}

fn user_data(config: &Config) -> String {
    let name = config.get("name").map_or("", String::as_str);
    format!(
        "#cloud-config\nhostname: {name}\nmanage_etc_hosts: true\nchpasswd:\n  expire: False\nusers:\n  - default\n"
    )
}

/// Version 1, cards in order, resolvers at the end.
fn network(config: &Config) -> String {
    let mut text = "version: 1\nconfig:\n".to_owned();
    for index in 0..32 {
        let Some(nic) = config.get(&format!("net{index}")).and_then(|value| Nic::parse(value)) else {
            continue;
        };
        let mac = nic.mac.unwrap_or_default().to_ascii_lowercase();
        let _ = write!(
            text,
            "    - type: physical\n      name: eth{index}\n      mac_address: '{mac}'\n      subnets:\n"
        );
        let mut ip =
            config.get(&format!("ipconfig{index}")).map(|v| Properties::parse(v)).unwrap_or_default();
        match ip.take("ip").as_deref().map(|ip| (ip.to_owned(), ip.parse::<IpNet>())) {
            Some((_, Ok(net))) => {
                let (address, mask) = (net.addr(), net.netmask());
                let _ = write!(
                    text,
                    "      - type: static\n        address: '{address}'\n        netmask: '{mask}'\n"
                );
                if let Some(gateway) = ip.take("gw") {
                    let _ = writeln!(text, "        gateway: '{gateway}'");
                }
            }
            Some((word, _)) if word == "dhcp" => text.push_str("      - type: dhcp4\n"),
            _ => {}
        }
    }
    let servers: Vec<IpAddr> = config
        .get("nameserver")
        .map(|list| list.split([' ', ',', ';']).filter_map(|one| one.parse().ok()).collect())
        .unwrap_or_default();
    if !servers.is_empty() {
        text.push_str("    - type: nameserver\n      address:\n");
        for server in servers {
            let _ = writeln!(text, "      - '{server}'");
        }
    }
    text
}
