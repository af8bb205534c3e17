//! Terraform variables in nine groups: where, network, cluster, nodes, templates, resources, VMIDs, distribution, tags.

use super::draft::{Draft, Host, Pool, Size};
use super::input::Input;
use super::writer::{Map, plain, word};
use super::{authority, export, mebibytes, server};

const ROLES: [(&str, &str); 2] = [("controlplane", "controlplane"), ("worker", "worker")];

pub(super) fn read(input: &mut Input) -> Draft {
    let mut draft = Draft::default();
    proxmox(input, &mut draft);
    network(input, &mut draft);
    cluster(input, &mut draft);
    nodes(input, &mut draft);
    templates(input, &mut draft);
    distribution(input, &mut draft);
    draft.tags = input.list("tagging_config/common");
    draft.tags.extend(input.list("tagging_config/extra"));
    draft
}

fn proxmox(input: &mut Input, draft: &mut Draft) {
    let at = |key: &str| format!("proxmox_config/{key}");
    let port = input.number(&at("port")).unwrap_or(8006);
    let host = input.text(&at("host"));
    if host.is_none() {
        input.refuse(&at("port"), "the port of the `endpoint` counts");
    }
    draft.endpoint =
        host.map(|host| format!("https://{host}:{port}")).or_else(|| server(&input.text(&at("endpoint"))?));
    // The token as the provider takes it: its id and its secret in one.
    if let Some(token) = input.text(&at("api_token")) {
        draft.token = token.split_once('=').map(|(id, _)| id.to_owned()).filter(|id| id.contains('!'));
    }
    let instead = export();
    draft.token = draft.token.take().or_else(|| input.text(&at("api_token_id")));
    input.secret(&at("api_token_secret"), &instead);
    if input.has(&at("api_token")) {
        input.again(&at("api_token"));
        let kept = if draft.token.is_some() { "its id is kept; " } else { "" };
        input.secret(&at("api_token"), &format!("{kept}{instead}"));
    }
    draft.insecure = input.truth(&at("insecure")).unwrap_or(false);
    draft.disks = input.text(&at("vm_datastore_id"));
    draft.images = ["talos_disk_image_datastore_id", "iso_datastore_id", "image_datastore_id"]
        .iter()
        .find_map(|key| input.text(&at(key)));
    draft.templates = input.text(&at("template_datastore_id"));
    draft.cloud_init =
        ["cloud_init_datastore_id", "cloudinit_datastore_id"].iter().find_map(|key| input.text(&at(key)));
    // What is the same is not said twice.
    for other in [&mut draft.templates, &mut draft.cloud_init] {
        other.take_if(|other| Some(&*other) == draft.disks.as_ref());
    }
    draft.dns = input.list(&at("dns_servers"));
    draft.hosts.extend(input.text(&at("node_name")).map(|name| Host { name, ..Host::default() }));
    input.lose(
        &at("ssh_config"),
        "Proxmox is used through its API alone; nodes behind it are reached with `reach: {ssh: …}`",
    );
    input.lose(&at("ccm_config"), "`daedal proxmox ccm` makes the account of the cloud-controller-manager");
}

fn network(input: &mut Input, draft: &mut Draft) {
    let at = |key: &str| format!("network_config/{key}");
    draft.cidr = input.text(&at("cidr"));
    draft.gateway = input.text(&at("gateway"));
    draft.bridge = input.text(&at("bridge"));
    draft.vlan = input.number(&at("vlan_id"));
    draft.mtu = input.number(&at("mtu"));
    draft.resource_pool = input.text(&at("resource_pool_id"));
    let own = input.list(&at("dns_servers"));
    if !own.is_empty() {
        if !draft.dns.is_empty() && draft.dns != own {
            input.lose("proxmox_config/dns_servers", "`network_config.dns_servers` are others, which count");
        }
        draft.dns = own;
    }
    if input.truth(&at("enable_dhcp")) == Some(true) {
        draft.dhcp = Some("true");
    }
    input.lose(&at("interface"), "cards are found by their MAC, whatever they are called");
    let bridge = "Daedal makes no bridges on hosts: it uses the one that `proxmox.bridge` names";
    for key in [
        "create_bridge",
        "bridge_name",
        "bridge_id",
        "bridge_cidr",
        "bridge_ports",
        "vlan_aware",
        "vlan_parent_interface",
    ] {
        input.lose(&at(key), bridge);
    }
    let firewall = "`daedal proxmox firewall` makes the rules of the cluster";
    for key in ["enable_firewall", "allowed_cidrs", "nodeport_range", "ipsets", "vm_firewall"] {
        input.lose(&at(key), firewall);
    }
    input.lose(&at("enable_nat_gateway"), "Daedal changes no routing on hosts");
}

fn cluster(input: &mut Input, draft: &mut Draft) {
    let at = |key: &str| format!("cluster_config/{key}");
    draft.name = input.text(&at("name"));
    draft.talos = input.text(&at("talos_version"));
    draft.kubernetes = input.text(&at("kubernetes_version"));
    draft.extensions = input.list(&at("extensions"));
    draft.api = input.text(&at("endpoint_override")).map(|url| authority(&url));
    match input.truth(&at("vip/enabled")) {
        Some(false) => input.lose(&at("vip/ip"), "the virtual IP is switched off"),
        _ => draft.vip = input.text(&at("vip/ip")),
    }
}

fn nodes(input: &mut Input, draft: &mut Draft) {
    for (role, key) in ROLES {
        let resources = format!("resource_config/{key}");
        let limits = ["min", "max"].map(|end| input.number(&format!("vm_id_ranges/{key}_{end}")));
        if let [None, Some(_)] = limits {
            input.refuse(&format!("vm_id_ranges/{key}_max"), "a range needs its first number, too");
        }
        let count = input.number(&format!("node_config/{key}_count"));
        let pool = Pool {
            count,
            size: Size {
                cores: input.number(&format!("{resources}/cpu_cores")),
                memory: input.number(&format!("{resources}/memory")).map(mebibytes),
                disk: input.number(&format!("{resources}/disk_size")).map(|disk| format!("{disk}GiB")),
            },
            vmid: match limits {
                [Some(first), Some(last)] => Some(format!("{first}-{last}")),
                [first, _] => first.map(|first| first.to_string()),
            },
            address: input.number(&format!("node_config/{key}_ip_start")).map(|start| format!("+{start}")),
            ..Pool::of(role)
        };
        draft.pools.push(pool);
    }
    draft.cpu = input.text("resource_config/cpu_type");
}

/// VMs are clones of a template for each role.
fn templates(input: &mut Input, draft: &mut Draft) {
    let mut template = Map::default();
    for (key, id) in [("controlplane", "controlplane_id"), ("worker", "worker_id")] {
        template.put(key, input.number(&format!("template_config/{id}")).map(plain));
    }
    // Another storage takes copies only.
    template.put("clone", draft.templates.as_ref().map(|_| word("full")));
    draft.boot.put("from", Some(word("template"))).put("template", template.done());
    input.lose("template_config/node", "templates are made on every host where disks are local");
}

/// How many nodes are on each host: every node is pinned to one.
fn distribution(input: &mut Input, draft: &mut Draft) {
    // Terraform goes through maps by name.
    let mut hosts = input.names("node_distribution");
    hosts.sort();
    let mut placed = [0; 2];
    for host in &hosts {
        for (at, (_, key)) in ROLES.iter().enumerate() {
            let path = format!("node_distribution/{host}/{key}_count");
            for _ in 0..input.number(&path).unwrap_or(0) {
                placed[at] += 1;
                let pool = &draft.pools[at];
                draft.pins.push((format!("{}-{}", pool.name, placed[at]), host.clone()));
            }
        }
    }
    if !hosts.is_empty() {
        if input.text("proxmox_config/node_name").is_some_and(|name| !hosts.contains(&name)) {
            input.refuse("proxmox_config/node_name", "`node_distribution` names other hosts, which count");
        }
        draft.hosts = hosts.into_iter().map(|name| Host { name, ..Host::default() }).collect();
        for (at, (_, key)) in ROLES.iter().enumerate() {
            let path = format!("node_config/{key}_count");
            if draft.pools[at].count.is_some_and(|count| count != placed[at]) {
                input.refuse(&path, "`node_distribution` places another number, which counts");
            }
            draft.pools[at].count = Some(placed[at]);
        }
        draft.pins.sort();
    }
    for (at, (_, key)) in ROLES.iter().enumerate() {
        if draft.pools[at].count.is_none_or(|count| count == 0) {
            let why = "the cluster has no such nodes";
            input.lose(&format!("resource_config/{key}"), why);
            for path in ["vm_id_ranges/{}_min", "vm_id_ranges/{}_max", "node_config/{}_ip_start"] {
                input.refuse(&path.replace("{}", key), why);
            }
        }
    }
    draft.pools.retain(|pool| pool.count.is_some_and(|count| count > 0));
}
