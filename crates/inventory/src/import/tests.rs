//! The law of every import: a value changes the document, or something is said of it.

use serde_json::{Value as Json, json};

use super::{Imported, import};
use crate::load::Source;

fn imported(told: &Json) -> Imported {
    import(&[Source { name: "told.json".into(), text: told.to_string() }]).unwrap()
}

/// The paths of all single values, as messages show them, each with another value there.
fn changed(told: &Json) -> Vec<(String, Json)> {
    let mut all = Vec::new();
    walk(told, "", &mut |path, pointer| {
        let mut other = told.clone();
        let value = other.pointer_mut(pointer).unwrap();
        *value = another(value);
        all.push((path.to_owned(), other));
    });
    all
}

fn walk(node: &Json, pointer: &str, see: &mut impl FnMut(&str, &str)) {
    match node {
        Json::Object(map) => {
            map.iter().for_each(|(key, value)| walk(value, &format!("{pointer}/{key}"), see));
        }
        Json::Array(items) => {
            items.iter().enumerate().for_each(|(at, item)| walk(item, &format!("{pointer}/{at}"), see));
        }
        _ => see(&super::input::shown(pointer.trim_start_matches('/')), pointer),
    }
}

fn another(value: &Json) -> Json {
    match value {
        Json::Bool(is) => json!(!is),
        Json::Number(number) => json!(number.as_u64().unwrap() + 1),
        Json::String(text) => match text.split_once("://") {
            Some((scheme, rest)) => json!(format!("{scheme}://x{rest}")),
            None if text.ends_with(|c: char| c.is_ascii_digit()) => json!(format!("{text}1")),
            None => json!(format!("{text}x")),
        },
        _ => unreachable!("no other value is told"),
    }
}

/// Whether something is said of a value, or of what it is in.
fn is_told(imported: &Imported, path: &str) -> bool {
    imported.lost.iter().any(|lost| {
        let named = lost.message.split('`').nth(1).unwrap_or_default();
        path == named || path.strip_prefix(named).is_some_and(|rest| rest.starts_with(['.', '[']))
    })
}

fn assert_nothing_is_lost_unsaid(told: &Json) {
    let first = imported(told);
    let silent: Vec<String> = changed(told)
        .into_iter()
        .filter(|(path, other)| {
            let second = imported(other);
            first.document == second.document && !is_told(&first, path) && !is_told(&second, path)
        })
        .map(|(path, _)| path)
        .collect();
    assert!(silent.is_empty(), "nothing is said of {silent:?}:\n{}", first.document);
}

fn groups() -> Json {
    json!({
        "proxmox_config": {
            "host": "pve1.lan", "port": 8006, "api_token": "a@pve!b=secret", "insecure": true, "node_name": "pve1",
            "talos_disk_image_datastore_id": "local", "iso_datastore_id": "nfs", "template_datastore_id": "local-lvm",
            "vm_datastore_id": "local-zfs", "dns_servers": ["9.9.9.9"], "ccm_config": {"enabled": true},
        },
        "network_config": {
            "cidr": "10.20.0.0/24", "gateway": "10.20.0.1", "bridge": "vmbr1", "vlan_id": 30, "interface": "eth0",
            "mtu": 1450, "dns_servers": ["1.1.1.1", "8.8.8.8"], "enable_firewall": true, "resource_pool_id": "talos",
        },
        "cluster_config": {
            "name": "staging", "talos_version": "v1.12.0", "vip": {"enabled": false, "ip": "10.20.0.5"}, "new": "key",
        },
        "node_config": {
            "controlplane_count": 1, "worker_count": 0, "controlplane_ip_start": 10, "worker_ip_start": 20,
        },
        "template_config": {"controlplane_id": 998, "worker_id": 999, "node": "pve1"},
        "resource_config": {
            "controlplane": {"memory": 4096, "cpu_cores": 4, "disk_size": 20},
            "worker": {"memory": 6144, "cpu_cores": 8, "disk_size": 50},
            "cpu_type": "x86-64-v3",
        },
        "vm_id_ranges": {"controlplane_max": 2999, "worker_min": 3000, "worker_max": 3999},
        "tagging_config": {"common": ["talos"], "extra": ["team-a"]},
    })
}

#[test]
fn no_value_in_groups_is_lost_unsaid() {
    assert_nothing_is_lost_unsaid(&groups());
    let mut spread = groups();
    spread["node_distribution"] = json!({"pve2": {"controlplane_count": 1, "worker_count": 2}, "pve3": {}});
    spread["vm_id_ranges"]["controlplane_min"] = json!(2000);
    spread["cluster_config"]["vip"]["enabled"] = json!(true);
    assert_nothing_is_lost_unsaid(&spread);
    spread["proxmox_config"].as_object_mut().unwrap().remove("host");
    spread["proxmox_config"]["endpoint"] = json!("https://pve1.lan:8006/");
    assert_nothing_is_lost_unsaid(&spread);
}

#[test]
fn no_variable_is_lost_unsaid() {
    let told = json!({
        "cluster_name": "platform", "environment": "production", "ha_enabled": true, "control_plane_count": 3,
        "worker_count": 0, "proxmox_api_url": "https://pve.example.com:8006/api2/json",
        "proxmox_api_token_id": "u@pam!t", "proxmox_api_token_secret": "secret", "other": [1, {"deep": "er"}],
        "proxmox": {
            "endpoint": "https://pve.example.com:8006", "insecure": false, "target_nodes": ["pve-a", "pve-b"],
            "datastore_id": "ceph-vm", "bridge": "vmbr1", "vlan_id": 120,
        },
        "pve_capacity": {"pve-a": {"vcpu": 48, "memory": 196_608}, "pve-c": {"vcpu": 16, "memory": 65_536}},
        "sizing": {
            "control_plane": {"vcpu": 4, "memory": 8192, "disk": 60}, "worker": {"vcpu": 8, "memory": 24_576, "disk": 100},
        },
        "placement": {"strategy": "weighted", "pinned": {"platform-cp-1": "pve-a", "mystery": "pve-b"}},
        "talos": {"iso": "cephfs:iso/talos-1.9.0.iso", "platform": "nocloud"},
        "load_balancer": {"enabled": true, "strategy": "haproxy", "vip": "10.0.0.5", "interface": "eth0"},
    });
    assert_nothing_is_lost_unsaid(&told);
}

#[test]
fn no_value_of_listed_nodes_is_lost_unsaid() {
    let told = json!({
        "control_plane_vip": "placeholder", "headscale_login_server": "https://headscale.lan:8080",
        "controlplanes": [{"name": "cp-01", "dhcp": "10.0.232.93", "address": "10.0.0.11"}],
        "workers": [{"name": "worker-01", "dhcp": "10.0.232.109", "rack": "a"}],
    });
    assert_nothing_is_lost_unsaid(&told);
}

#[test]
fn no_variable_of_a_group_is_lost_unsaid() {
    let node = |name: &str, vmid: u32, disk: u32| {
        json!({"name": name, "vmid": vmid, "ip": format!("10.10.0.{vmid}"), "cores": 4, "memory": 8192,
               "boot_disk_gb": 20, "disk_gb": 30, "longhorn_disk_gb": disk})
    };
    let told = json!({
        "proxmox_host": "10.10.0.1", "proxmox_node": "fluodata", "proxmox_api_user": "root@pam",
        "proxmox_api_token_id": "other@pve!terraform", "proxmox_api_token_secret": "secret", "cluster_name": "fluodata",
        "talos_version": "v1.12.4", "cluster_vip": "10.10.0.5", "cluster_endpoint": "https://10.10.0.5:6443",
        "vm_bridge": "vmbr1", "vm_gateway": "10.10.0.1", "vm_subnet": "10.10.0.0/24", "vm_subnet_mask": 24,
        "vm_nameservers": ["10.10.0.1"], "vm_storage": "local-lvm", "cilium_version": "1.17.3",
        "controlplane_nodes": [node("cp-0", 110, 10)],
        "worker_nodes": [node("worker-0", 120, 20), node("worker-1", 121, 40)],
    });
    assert_nothing_is_lost_unsaid(&told);
}
