//! Variables of an Ansible group that creates VMs on one Proxmox host and lists them one by one.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use super::draft::{Draft, Host, Node, Pool, Size};
use super::input::Input;
use super::{authority, export, mebibytes, server};

pub(super) fn read(input: &mut Input) -> Draft {
    let mut draft = Draft {
        name: input.text("cluster_name"),
        talos: input.text("talos_version"),
        kubernetes: input.text("kubernetes_version"),
        vip: input.text("cluster_vip"),
        disks: input.text("vm_storage"),
        images: input.text("talos_iso_storage"),
        bridge: input.text("vm_bridge"),
        gateway: input.text("vm_gateway"),
        dns: input.list("vm_nameservers"),
        extensions: input.list("talos_extensions"),
        ..Draft::default()
    };
    draft.api = input.text("cluster_endpoint").map(|url| authority(&url));
    proxmox(input, &mut draft);
    let mask = input.number("vm_subnet_mask").and_then(|mask| u8::try_from(mask).ok());
    if input.has("vm_subnet") {
        input.refuse("vm_subnet_mask", "`vm_subnet` says it");
    }
    let gateway = draft.gateway.as_ref().and_then(|gateway| gateway.parse::<Ipv4Addr>().ok());
    draft.cidr = input.text("vm_subnet").or_else(|| {
        let network = Ipv4Net::new(gateway?, mask?).ok()?;
        Some(network.trunc().to_string())
    });
    for (list, role) in [("controlplane_nodes", "controlplane"), ("worker_nodes", "worker")] {
        let pool = pool(input, list, role);
        draft.pools.extend((!pool.nodes.is_empty()).then_some(pool));
    }
    let image = "the image follows from the version and the extensions";
    input
        .lose("talos_schematic_id", "an id does not tell its extensions: list them under `talos.extensions`");
    for key in ["talos_iso_url", "talos_iso_filename", "talos_install_image"] {
        input.lose(key, image);
    }
    for key in ["talos_remote_dir", "talos_local_dir"] {
        input.lose(key, "secrets and outputs are in the store, beside the inventory");
    }
    input.lose("all_nodes", "the pools are the list of all nodes");
    input.lose("cilium_version", "add-ons are installed with kubectl or helm once the cluster is up; `kubernetes: {cni: none}` leaves the place to Cilium");
    draft
}

fn proxmox(input: &mut Input, draft: &mut Draft) {
    let host = input.text("proxmox_host").or_else(|| input.text("proxmox_api_host"));
    draft.endpoint = host.and_then(|host| match host.contains("://") {
        true => server(&host),
        false => Some(format!("https://{host}:8006")),
    });
    draft.hosts.extend(input.text("proxmox_node").map(|name| Host { name, ..Host::default() }));
    let (user, token) = (input.text("proxmox_api_user"), input.text("proxmox_api_token_id"));
    draft.token = match (user, token) {
        (user, Some(token)) if token.contains('!') => {
            if user.is_some_and(|user| token.split('!').next() != Some(&user)) {
                input.refuse("proxmox_api_user", "`proxmox_api_token_id` names another user, which counts");
            }
            Some(token)
        }
        (Some(user), Some(token)) => Some(format!("{user}!{token}")),
        _ => None,
    };
    input.secret("proxmox_api_token_secret", &export());
    input.secret("proxmox_api_password", "Daedal logs in by an API token: `daedal proxmox setup` makes one");
}

/// The nodes of a role. What all of them have is said once.
fn pool(input: &mut Input, list: &str, role: &'static str) -> Pool {
    let mut pool = Pool::of(role);
    let mut extra: Vec<(String, Option<u64>)> = Vec::new();
    for at in input.names(list) {
        let at = |key: &str| format!("{list}/{at}/{key}");
        let disk = input.number(&at("boot_disk_gb")).or_else(|| input.number(&at("disk_gb")));
        pool.nodes.push(Node {
            name: input.text(&at("name")),
            vmid: input.number(&at("vmid")),
            address: input.text(&at("ip")),
            mac: input.text(&at("mac")),
            size: Size {
                cores: input.number(&at("cores")),
                memory: input.number(&at("memory")).map(mebibytes),
                disk: disk.map(|disk| format!("{disk}GiB")),
            },
        });
        extra.push((at("longhorn_disk_gb"), input.number(&at("longhorn_disk_gb"))));
    }
    let common = pool.nodes.first().map(|node| node.size.clone()).unwrap_or_default();
    if pool.nodes.iter().all(|node| node.size == common) {
        pool.size = common;
        pool.nodes.iter_mut().for_each(|node| node.size = Size::default());
    }
    let first = extra.first().and_then(|(_, size)| *size);
    match first.filter(|_| extra.iter().all(|(_, size)| *size == first)) {
        Some(size) => {
            pool.extra_disk = Some(format!("{size}GiB"));
            pool.volume = Some("longhorn");
        }
        None => {
            for (path, _) in extra {
                input.refuse(
                    &path,
                    "all nodes of a pool have the same further disks: make a pool of those that have one",
                );
            }
        }
    }
    pool
}
