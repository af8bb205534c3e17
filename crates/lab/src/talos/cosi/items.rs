//! What a node's resources say at this moment.

use std::sync::Arc;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::Item;
use super::definitions::KINDS;
use super::specs::*;
use crate::talos::node::Node;
use crate::talos::version_at_least;
use crate::talos::world::Shared;

fn item(id: impl Into<String>, yaml: Value, proto: &impl prost::Message) -> Item {
    Item { id: id.into(), yaml, proto: proto.encode_to_vec() }
}

fn two(first: &str, second: &str) -> TwoTexts {
    TwoTexts { first: first.into(), second: second.into() }
}

/// The resources of a type.
pub(super) fn of(shared: &Arc<Shared>, node: &Arc<Node>, kind: &str) -> Vec<Item> {
    match kind {
        "Namespaces.meta.cosi.dev" => namespaces(),
        "ResourceDefinitions.meta.cosi.dev" => definitions(&version(node)),
        "MachineStatuses.runtime.talos.dev" => machine_status(node),
        "Versions.runtime.talos.dev" => {
            let version = version(node);
            let named = version_at_least(&version, 13);
            let yaml = if named {
                json!({"name": "Talos", "version": version})
            } else {
                json!({"version": version})
            };
            vec![item("version", yaml, &two(&version, if named { "Talos" } else { "" }))]
        }
        "ExtensionStatuses.runtime.talos.dev" => extensions(node),
        "SecurityStates.talos.dev" => security_state(node),
        "PlatformMetadatas.talos.dev" => platform(node),
        "MetaKeys.runtime.talos.dev" => meta_keys(shared, node),
        "Services.v1alpha1.talos.dev" => services(node),
        "SystemInformations.hardware.talos.dev" => system_information(shared, node),
        "HostnameStatuses.net.talos.dev" => {
            let name = { node.state().hostname.clone() };
            vec![item("hostname", json!({"hostname": name, "domainname": ""}), &two(&name, ""))]
        }
        "NodeAddresses.net.talos.dev" => node_addresses(node),
        "AddressStatuses.net.talos.dev" => addresses(shared, node),
        "LinkStatuses.net.talos.dev" => links(node),
        "NetworkStatuses.net.talos.dev" => {
            let up = { node.state().address.is_some() };
            let yaml = json!({"addressReady": up, "connectivityReady": up, "hostnameReady": true, "etcFilesReady": true});
            vec![item("status", yaml, &Flags { first: up, second: up, third: true, fourth: true })]
        }
        "TimeStatuses.v1alpha1.talos.dev" => {
            let yaml = json!({"synced": true, "epoch": 0, "syncDisabled": false});
            vec![item("node", yaml, &Flags { first: true, ..Flags::default() })]
        }
        "Disks.block.talos.dev" => disks(node),
        "SystemDisks.block.talos.dev" => {
            let there = node.disk.iter();
            let one = |_| {
                item("system-disk", json!({"diskID": "sda", "devPath": "/dev/sda"}), &two("sda", "/dev/sda"))
            };
            there.map(one).collect()
        }
        "DiscoveredVolumes.block.talos.dev" => volumes(node),
        "VolumeStatuses.block.talos.dev" => volume_statuses(node),
        "Members.cluster.talos.dev" => members(shared, node),
        "Infos.cluster.talos.dev" => infos(node),
        "EtcdMembers.etcd.talos.dev" => etcd_member(shared, node),
        "Nodenames.kubernetes.talos.dev" => {
            let (name, there) = {
                let state = node.state();
                (state.hostname.clone(), state.config.is_some())
            };
            let yaml = json!({"nodename": name, "hostnameVersion": "1", "skipNodeRegistration": false});
            if there { vec![item("nodename", yaml, &two(&name, "1"))] } else { Vec::new() }
        }
        "NodeStatuses.kubernetes.talos.dev" => node_status(node),
        "MachineConfigs.config.talos.dev" => machine_configs(shared, node),
        "KubernetesRootSecrets.secrets.talos.dev" => super::root::kubernetes_root(node),
        "OSRootSecrets.secrets.talos.dev" => super::root::os_root(node),
        "MachineTypes.config.talos.dev" => {
            let config = { node.state().config.clone() };
            let (name, number) = match config {
                Some(c) if c.is_control_plane() => ("controlplane", 2),
                Some(_) => ("worker", 3),
                None => ("unknown", 0),
            };
            vec![item("machine-type", json!(name), &Number { value: number })]
        }
        _ => Vec::new(),
    }
}

fn version(node: &Node) -> String {
    node.state().image.as_ref().map(|i| i.version.clone()).unwrap_or_default()
}

fn namespaces() -> Vec<Item> {
    let mut names: Vec<&str> = KINDS.iter().map(|k| k.namespace).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(|n| item(n, json!({"description": n}), &two(n, ""))).collect()
}

fn definitions(version: &str) -> Vec<Item> {
    KINDS
        .iter()
        .map(|kind| {
            let columns: Vec<Value> =
                kind.columns(version).map(|(name, path)| json!({"name": name, "jsonPath": path})).collect();
            let mut yaml = json!({
                "type": kind.name, "displayType": kind.singular, "defaultNamespace": kind.namespace,
                "aliases": kind.own_aliases(), "allAliases": kind.all_aliases(), "printColumns": columns,
            });
            if kind.sensitive {
                yaml["sensitivity"] = json!("sensitive");
            }
            let column =
                |(name, path): (&str, &str)| PrintColumn { name: name.into(), json_path: path.into() };
            let proto = DefinitionSpec {
                resource_type: kind.name.into(),
                display_type: kind.singular.into(),
                default_namespace: kind.namespace.into(),
                aliases: kind.own_aliases(),
                all_aliases: kind.all_aliases(),
                print_columns: kind.columns(version).map(column).collect(),
                sensitivity: i32::from(kind.sensitive),
            };
            item(kind.name.to_ascii_lowercase(), yaml, &proto)
        })
        .collect()
}

fn machine_status(node: &Node) -> Vec<Item> {
    let Some(stage) = ({ node.state().stage }) else { return Vec::new() };
    let unmet = node.unmet_conditions();
    let ready = unmet.is_empty() && matches!(stage.name(), "running" | "maintenance");
    let conditions: Vec<Value> = unmet.iter().map(|(n, r)| json!({"name": n, "reason": r})).collect();
    let proto = MachineStatusSpec {
        stage: stage as i32,
        status: Some(MachineStatus {
            ready,
            unmet_conditions: unmet
                .iter()
                .map(|(name, reason)| UnmetCondition { name: (*name).into(), reason: reason.clone() })
                .collect(),
        }),
    };
    let yaml = json!({"stage": stage.name(), "status": {"ready": ready, "unmetConditions": conditions}});
    vec![item("machine", yaml, &proto)]
}

fn extensions(node: &Node) -> Vec<Item> {
    let Some(image) = ({ node.state().image.clone() }) else { return Vec::new() };
    let schematic = [("schematic".to_owned(), image.schematic.clone())];
    let named = image
        .extensions
        .iter()
        .map(|e| (e.rsplit('/').next().unwrap_or(e).to_owned(), image.version.clone()));
    named
        .chain(schematic)
        .enumerate()
        .map(|(index, (name, version))| {
            let metadata = json!({
                "name": name, "version": version, "author": "Image Factory", "description": "", "compatibility": {"talos": {"version": ""}},
            });
            let proto = ExtensionSpec {
                layer: Some(ExtensionLayer {
                    image: format!("{index:03}.{name}.sqsh"),
                    metadata: Some(ExtensionMetadata { name: name.clone(), version, ..ExtensionMetadata::default() }),
                }),
            };
            item(index.to_string(), json!({"image": format!("{index:03}.{name}.sqsh"), "metadata": metadata}), &proto)
        })
        .collect()
}

fn security_state(node: &Node) -> Vec<Item> {
    let (secure, uki) = {
        let state = node.state();
        let Some(image) = &state.image else { return Vec::new() };
        let uefi = node.hardware().firmware != crate::machine::Firmware::Bios;
        (state.secure, image.secure_boot || uefi && version_at_least(&image.version, 10))
    };
    let mut yaml = json!({"secureBoot": secure, "selinuxState": "enabled, permissive"});
    if uki {
        yaml["bootedWithUKI"] = json!(true);
    }
    let proto = SecurityStateSpec { secure_boot: secure, selinux_state: 1, booted_with_uki: uki };
    vec![item("securitystate", yaml, &proto)]
}

fn platform(node: &Node) -> Vec<Item> {
    let state = node.state();
    let Some(image) = &state.image else { return Vec::new() };
    let yaml = json!({"platform": image.platform, "hostname": state.hostname});
    vec![item("platformmetadata", yaml, &two(&image.platform, &state.hostname))]
}

fn meta_keys(shared: &Shared, node: &Node) -> Vec<Item> {
    let world = shared.world();
    let saved = node.disk.as_deref().and_then(|d| world.disks.get(d));
    let keys = saved.into_iter().flat_map(|s| &s.meta);
    keys.map(|(key, value)| item(format!("{key:#04x}"), json!({"value": value}), &two(value, ""))).collect()
}

fn services(node: &Node) -> Vec<Item> {
    let state = node.state();
    state
        .services
        .iter()
        .map(|(id, s)| {
            let running = s.state == "Running";
            let unknown = s.unknown();
            let healthy = !unknown && s.healthy;
            let yaml = json!({"running": running, "healthy": healthy, "unknown": unknown});
            item(*id, yaml, &Flags { first: running, second: healthy, third: unknown, fourth: false })
        })
        .collect()
}

fn system_information(shared: &Shared, node: &Node) -> Vec<Item> {
    if shared.without_firmware.load(std::sync::atomic::Ordering::Relaxed) {
        return Vec::new();
    }
    let uuid = node.hardware().uuid.to_ascii_lowercase();
    let yaml = json!({
        "manufacturer": "QEMU", "productName": "Standard PC (Q35 + ICH9, 2009)", "version": "pc-q35-10.1",
        "serialnumber": "", "uuid": uuid, "wakeuptype": "Power Switch", "skunumber": "",
    });
    let proto = SystemInformationSpec {
        manufacturer: "QEMU".into(),
        product_name: "Standard PC (Q35 + ICH9, 2009)".into(),
        uuid,
    };
    vec![item("systeminformation", yaml, &proto)]
}

fn node_addresses(node: &Node) -> Vec<Item> {
    let nets: Vec<ipnet::IpNet> = { node.state().links.iter().flat_map(|l| l.addresses.clone()).collect() };
    let texts: Vec<String> = nets.iter().map(ToString::to_string).collect();
    let proto = NodeAddressSpec { addresses: nets.into_iter().map(Into::into).collect() };
    ["accumulative", "current", "default", "routed"]
        .into_iter()
        .map(|id| item(id, json!({"addresses": texts, "sortAlgorithm": "v1"}), &proto))
        .collect()
}

fn addresses(shared: &Shared, node: &Node) -> Vec<Item> {
    let vip = {
        let world = shared.world();
        world.clusters.values().find_map(|c| c.vip.filter(|(_, vmid)| *vmid == node.vmid)).map(|(ip, _)| ip)
    };
    let state = node.state();
    let mut items = Vec::new();
    for net in [ipnet::IpNet::from(LOOPBACK.0), ipnet::IpNet::from(LOOPBACK.1)] {
        items.push(address("lo", 1, net, "host"));
    }
    for (index, link) in state.links.iter().enumerate() {
        let shared = vip.filter(|v| link.vip == Some(*v)).map(ipnet::IpNet::from);
        for net in link.addresses.iter().copied().chain(shared) {
            items.push(address(&link.name, index as u32 + 2, net, "global"));
        }
    }
    items
}

/// What every machine calls itself.
const LOOPBACK: (ipnet::Ipv4Net, ipnet::Ipv6Net) = (
    ipnet::Ipv4Net::new_assert(std::net::Ipv4Addr::LOCALHOST, 8),
    ipnet::Ipv6Net::new_assert(std::net::Ipv6Addr::LOCALHOST, 128),
);

fn address(link: &str, index: u32, net: ipnet::IpNet, scope: &str) -> Item {
    let family = if net.addr().is_ipv4() { ("inet4", 2) } else { ("inet6", 10) };
    let yaml = json!({
        "address": net.to_string(), "local": net.addr().to_string(), "linkIndex": index,
        "linkName": link, "family": family.0, "scope": scope, "flags": "permanent", "priority": 0,
    });
    let proto = AddressStatusSpec {
        address: Some(net.into()),
        local: Some(net.addr().into()),
        link_index: index,
        link_name: link.to_owned(),
        family: family.1,
    };
    item(format!("{link}/{net}"), yaml, &proto)
}

fn links(node: &Node) -> Vec<Item> {
    let state = node.state();
    let bytes = |mac: &str| hex::decode(mac.replace(':', "")).unwrap_or_default();
    let loopback = item(
        "lo",
        json!({
            "index": 1, "type": "loopback", "linkIndex": 0, "flags": "UP,LOOPBACK,RUNNING,LOWER_UP",
            "hardwareAddr": "00:00:00:00:00:00", "permanentAddr": "00:00:00:00:00:00",
            "broadcastAddr": "00:00:00:00:00:00", "mtu": 65536, "queueDisc": "noqueue", "operationalState": "unknown",
            "kind": "", "slaveKind": "", "linkState": true, "port": "Other", "duplex": "Unknown",
        }),
        &LinkStatusSpec {
            index: 1,
            kind: 772,
            hardware_addr: vec![0; 6],
            mtu: 65536,
            link_state: true,
            permanent_addr: vec![0; 6],
            ..LinkStatusSpec::default()
        },
    );
    let cards = state
        .links
        .iter()
        .enumerate()
        .map(|(index, link)| {
            let yaml = json!({
                "index": index + 2, "alias": link.alias.clone().unwrap_or_default(), "type": "ether", "linkIndex": 0,
                "flags": "UP,BROADCAST,RUNNING,MULTICAST,LOWER_UP", "hardwareAddr": link.mac, "permanentAddr": link.mac,
                "broadcastAddr": "ff:ff:ff:ff:ff:ff", "mtu": 1500, "queueDisc": "pfifo_fast", "operationalState": "up",
                "kind": "", "slaveKind": "", "driver": "virtio_net", "linkState": true, "port": "Other",
                "duplex": "Unknown",
            });
            let proto = LinkStatusSpec {
                index: index as u32 + 2,
                kind: 1,
                hardware_addr: bytes(&link.mac),
                mtu: 1500,
                operational_state: 6,
                driver: "virtio_net".into(),
                link_state: true,
                permanent_addr: bytes(&link.mac),
                alias: link.alias.clone().unwrap_or_default(),
            };
            item(link.name.clone(), yaml, &proto)
        });
    std::iter::once(loopback).chain(cards).collect()
}

fn pretty(size: u64) -> String {
    match size {
        0..1_000_000 => format!("{:.1} kB", size as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.0} MB", size as f64 / 1e6),
        _ => format!("{:.0} GB", size as f64 / 1e9),
    }
}

fn disks(node: &Node) -> Vec<Item> {
    let hardware = node.hardware();
    let disk = |name: &str, size: u64, cdrom: bool| {
        let proto = DiskSpec {
            size,
            io_size: 512,
            sector_size: 512,
            readonly: cdrom,
            model: if cdrom { "QEMU DVD-ROM" } else { "QEMU HARDDISK" }.into(),
            transport: if cdrom { "ata" } else { "virtio" }.into(),
            rotational: true,
            cdrom,
            dev_path: format!("/dev/{name}"),
            pretty_size: pretty(size),
        };
        let yaml = json!({
            "dev_path": proto.dev_path, "size": size, "pretty_size": proto.pretty_size, "io_size": 512,
            "sector_size": 512, "readonly": cdrom, "cdrom": cdrom, "model": proto.model, "transport": proto.transport,
            "rotational": true, "bus_path": "/pci0000:00/0000:00:05.0", "sub_system": "/sys/class/block",
        });
        item(name, yaml, &proto)
    };
    let system = hardware.disk.iter().map(|d| disk("sda", d.size, false));
    let drives =
        hardware.cdroms.iter().enumerate().map(|(i, c)| disk(&format!("sr{i}"), c.len() as u64, true));
    system.chain(drives).collect()
}

fn volumes(node: &Node) -> Vec<Item> {
    if node.disk.is_none() {
        return Vec::new();
    }
    ["EFI", "META", "STATE", "EPHEMERAL"]
        .iter()
        .enumerate()
        .map(|(index, label)| {
            let id = format!("sda{}", index + 1);
            let yaml = json!({"type": "partition", "parent": "sda", "partition_label": label, "name": if *label == "META" { "talosmeta" } else { "xfs" },
                              "dev_path": format!("/dev/{id}")});
            item(id, yaml, &two("", ""))
        })
        .collect()
}

fn volume_statuses(node: &Node) -> Vec<Item> {
    let Some(disk) = node.hardware().disk else { return Vec::new() };
    let configured = { node.state().config.is_some() };
    // The small partitions take about a gigabyte; EPHEMERAL has the rest.
    let rest = disk.size.saturating_sub(1 << 30);
    [("META", 2, 1 << 20), ("STATE", 3, 100 << 20), ("EPHEMERAL", 4, rest)]
        .into_iter()
        .map(|(id, index, size)| {
            let ready = configured || id == "META";
            let proto = VolumeStatusSpec {
                phase: if ready { 3 } else { 0 },
                location: format!("/dev/sda{index}"),
                parent_location: "/dev/sda".into(),
                size,
                pretty_size: pretty(size),
            };
            let yaml = json!({
                "type": "partition", "phase": if ready { "ready" } else { "waiting" }, "location": proto.location,
                "parentLocation": "/dev/sda", "size": size, "prettySize": proto.pretty_size,
            });
            item(id, yaml, &proto)
        })
        .collect()
}

fn members(shared: &Shared, node: &Node) -> Vec<Item> {
    let Some(config) = ({ node.state().config.clone() }) else { return Vec::new() };
    let key = config.text_at("/cluster/id").unwrap_or_default().to_owned();
    if config.whole().pointer("/cluster/discovery/enabled") == Some(&Value::Bool(false)) {
        return Vec::new();
    }
    let world = shared.world();
    let mut items: Vec<Item> = Vec::new();
    for other in world.nodes.values() {
        let state = other.state();
        let Some(theirs) = state.config.as_ref().filter(|c| c.text_at("/cluster/id") == Some(&key)) else {
            continue;
        };
        let Some(address) = state.address.filter(|_| state.apid) else { continue };
        let (kind, number) = if theirs.is_control_plane() { ("controlplane", 2) } else { ("worker", 3) };
        let version = state.image.as_ref().map(|i| i.version.clone()).unwrap_or_default();
        let id = hex::encode(Sha256::digest(other.disk.as_deref().unwrap_or_default()));
        let mut yaml = json!({
            "nodeId": id, "addresses": [address.to_string()], "hostname": state.hostname, "machineType": kind,
            "operatingSystem": format!("Talos ({version})"),
        });
        if number == 2 {
            yaml["controlPlane"] = json!({"port": 6443});
        }
        let proto = MemberSpec {
            node_id: id,
            addresses: vec![address.into()],
            hostname: state.hostname.clone(),
            machine_type: number,
            operating_system: format!("Talos ({version})"),
            control_plane: (number == 2).then_some(MemberControlPlane { port: 6443 }),
        };
        items.push(item(state.hostname.clone(), yaml, &proto));
    }
    items
}

fn infos(node: &Node) -> Vec<Item> {
    let Some(config) = ({ node.state().config.clone() }) else { return Vec::new() };
    let id = config.text_at("/cluster/id").unwrap_or_default();
    let yaml = json!({"clusterId": id, "clusterName": config.cluster_name()});
    vec![item("current", yaml, &two(id, config.cluster_name()))]
}

fn etcd_member(shared: &Shared, node: &Node) -> Vec<Item> {
    let world = shared.world();
    let member = node.disk.as_deref().and_then(|d| world.disks.get(d)?.etcd.clone());
    let running = { node.state().etcd };
    let id = member.filter(|_| running).map(|m| format!("{:016x}", m.member));
    id.into_iter().map(|id| item("local", json!({"memberId": id}), &two(&id, ""))).collect()
}

fn node_status(node: &Node) -> Vec<Item> {
    let state = node.state();
    if !state.kubelet {
        return Vec::new();
    }
    let yaml = json!({"nodename": state.hostname, "nodeReady": state.ready, "unschedulable": false});
    let proto =
        NodeStatusSpec { nodename: state.hostname.clone(), node_ready: state.ready, unschedulable: false };
    vec![item(state.hostname.clone(), yaml, &proto)]
}

fn machine_configs(shared: &Shared, node: &Node) -> Vec<Item> {
    let active = { node.state().config.clone() };
    let stored = {
        let world = shared.world();
        node.disk.as_deref().and_then(|d| world.disks.get(d)?.config.clone())
    };
    let one = |id: &str, text: &str| {
        // The specification of this type is the configuration's text itself.
        item(id, json!(text), &MachineConfigSpec { yaml: text.as_bytes().to_vec() })
    };
    let active = active.iter().map(|c| one("v1alpha1", c.text()));
    active.chain(stored.iter().map(|t| one("persistent", t))).collect()
}
