//! Terraform variables of their own: capacity, sizing and placement of a cluster whose addresses come by DHCP.

use super::draft::{Draft, Host, Pool, Size};
use super::input::Input;
use super::writer::word;
use super::{export, mebibytes, server};

/// What such a project numbers its VMs from.
const FIRST: [(&str, &str, &str); 2] =
    [("controlplane", "control_plane", "401"), ("worker", "worker", "501")];

pub(super) fn read(input: &mut Input) -> Draft {
    let mut draft = Draft {
        name: input.text("cluster_name"),
        environment: input.text("environment"),
        ha: input.truth("ha_enabled"),
        ..Draft::default()
    };
    proxmox(input, &mut draft);
    talos(input, &mut draft);
    for (role, key, first) in FIRST {
        let size = format!("sizing/{key}");
        let count = input.number(&format!("{key}_count"));
        let pool = Pool {
            count,
            size: Size {
                cores: input.number(&format!("{size}/vcpu")),
                memory: input.number(&format!("{size}/memory")).map(mebibytes),
                disk: input.number(&format!("{size}/disk")).map(|disk| format!("{disk}GiB")),
            },
            vmid: Some(first.to_owned()),
            ..Pool::of(role)
        };
        match count != Some(0) && (count.is_some() || role != "worker") {
            true => draft.pools.push(pool),
            false => input.lose(&size, "the cluster has no such nodes"),
        }
    }
    placement(input, &mut draft);
    balancer(input, &mut draft);
    draft
}

fn proxmox(input: &mut Input, draft: &mut Draft) {
    let [url, endpoint] = ["proxmox_api_url", "proxmox/endpoint"]
        .map(|path| input.text(path).map(|text| (path, server(&text))));
    for (path, _) in [&url, &endpoint].into_iter().flatten().filter(|(_, server)| server.is_none()) {
        input.refuse(path, "it is not the URL of a server");
    }
    let [url, endpoint] = [url, endpoint].map(|found| found.and_then(|(_, server)| server));
    if url.is_some() && endpoint.is_some() && url != endpoint {
        input.refuse("proxmox/endpoint", "`proxmox_api_url` is another server, which counts");
    }
    draft.endpoint = url.or(endpoint);
    draft.token = input.text("proxmox_api_token_id").map(|id| match id.split_once('=') {
        Some((id, _)) => id.to_owned(),
        None => id,
    });
    input.secret("proxmox_api_token_secret", &export());
    draft.insecure =
        input.truth("proxmox/insecure").or_else(|| input.truth("proxmox_tls_insecure")).unwrap_or(false);
    for name in input.list("proxmox/target_nodes") {
        let capacity = format!("pve_capacity/{name}");
        draft.hosts.push(Host {
            cores: input.number(&format!("{capacity}/vcpu")),
            memory: input.number(&format!("{capacity}/memory")).map(mebibytes),
            name,
        });
    }
    for host in input.names("pve_capacity") {
        if !draft.hosts.iter().any(|known| known.name == host) {
            input.lose(&format!("pve_capacity/{host}"), "the host is not among the `target_nodes`");
        }
    }
    draft.disks = input.text("proxmox/datastore_id");
    draft.bridge = input.text("proxmox/bridge");
    draft.vlan = input.number("proxmox/vlan_id");
}

/// Nodes boot an ISO and wait at whatever address DHCP gives them, which the guest agent tells.
fn talos(input: &mut Input, draft: &mut Draft) {
    draft.talos = input.text("talos/version");
    draft.arch = input.text("talos/arch");
    draft.extensions = input.list("talos/extensions");
    if !draft.extensions.iter().any(|name| name.ends_with("qemu-guest-agent")) {
        draft.extensions.push("qemu-guest-agent".to_owned());
    }
    draft.dhcp = Some("discovered");
    draft.boot.put("from", Some(word("iso"))).put("config", Some(word("maintenance")));
    if let Some(iso) = input.text("talos/iso") {
        draft.images = iso.split_once(':').map(|(storage, _)| storage.to_owned());
        if draft.talos.is_none() {
            draft.talos = version_in(&iso);
        }
        draft.boot.put("iso", Some(word(iso)));
    }
    input.lose("talos/platform", "the platform follows from `boot`");
    let manifests = "add-ons are installed with kubectl or helm once the cluster is up";
    input.lose("talos/extra_manifests", manifests);
    input.lose("talos/inline_manifests", manifests);
    input.lose("talos/machine", "write it as a patch: `patches: [{file: …}]`");
}

/// The version in the name of an image, such as `talos-1.9.0.iso`.
fn version_in(iso: &str) -> Option<String> {
    let parts = iso.split(|c: char| !(c.is_ascii_digit() || c == '.')).map(|part| part.trim_matches('.'));
    let found = parts.into_iter().find(|part| part.split('.').count() == 3 && !part.contains(".."))?;
    Some(format!("v{found}"))
}

fn placement(input: &mut Input, draft: &mut Draft) {
    match input.text("placement/strategy").as_deref() {
        Some("pin") => draft.strategy = Some("pin"),
        Some("spread" | "round_robin") => draft.strategy = Some("spread"),
        Some(_) => input.refuse("placement/strategy", "the strategies are `spread` and `pin`"),
        None => {}
    }
    for key in input.names("placement/pinned") {
        let path = format!("placement/pinned/{key}");
        // Either a VM with its host, or a host with its VMs.
        let is_host = draft.hosts.iter().any(|host| host.name == key);
        let pairs: Vec<(String, String)> = match is_host {
            true => input.list(&path).into_iter().map(|vm| (vm, key.clone())).collect(),
            false => input.text(&path).into_iter().map(|host| (key.clone(), host)).collect(),
        };
        for (vm, host) in pairs {
            match node(&vm, draft) {
                Some(node) => draft.pins.push((node, host)),
                None => {
                    input.refuse(&path, "which node it is cannot be told from the VM's name");
                }
            }
        }
    }
}

/// The node that a VM of such a project is: its role by its name, its place by the number at the end.
fn node(vm: &str, draft: &Draft) -> Option<String> {
    let number = vm.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok().filter(|n| *n > 0)?;
    let role = if vm.contains("work") || vm.contains("wk") { "worker" } else { "controlplane" };
    let pool = draft.pools.iter().find(|pool| pool.role == role)?;
    (number <= pool.count.unwrap_or(0)).then(|| format!("{}-{number}", pool.name))
}

fn balancer(input: &mut Input, draft: &mut Draft) {
    if !input.has("load_balancer") {
        return;
    }
    if input.truth("load_balancer/enabled") == Some(false) {
        return input.lose("load_balancer", "it is switched off");
    }
    let strategy = input.text("load_balancer/strategy");
    draft.vip = input.text("load_balancer/vip");
    if strategy.as_deref() != Some("talos_native") {
        let why = "Daedal makes no load balancers; the address became the virtual IP, or set `kubernetes.endpoint` to yours";
        input.refuse("load_balancer/strategy", why);
        input.lose("load_balancer/nodes", why);
    }
    input.lose("load_balancer/interface", "cards are found by their MAC");
}
