//! Version, hosts, their status and network.

use serde_json::{Value, json};

use super::rows;
use crate::proxmox::context::Context;
use crate::proxmox::fail::{Answer, Data};
use crate::proxmox::schema::{Kind, opt, verify};
use crate::proxmox::state::State;
use crate::proxmox::vmconfig;

/// What a host itself uses.
const HOST_MEMORY: u64 = 1 << 30;
const ROOT_SIZE: u64 = 94 << 30;

/// `GET /version`
pub(super) fn version(context: &Context) -> Answer {
    let version = context.dc.with(|state| state.version.clone());
    let release = version.splitn(3, '.').take(2).collect::<Vec<_>>().join(".");
    Ok(Data::from(json!({ "version": version, "release": release, "repoid": "14a22df35955d97d" })))
}

/// Memory in use: the host's own and that of running VMs.
pub(super) fn memory_used(state: &State, host: &str) -> u64 {
    let running = state.vms.values().filter(|vm| vm.host == host && vm.running.is_some());
    HOST_MEMORY + running.map(|vm| vmconfig::memory_bytes(&vm.config)).sum::<u64>()
}

fn cpu_used(state: &State, host: &str, cpus: u32) -> f64 {
    let running = state.vms.values().filter(|vm| vm.host == host && vm.running.is_some());
    let busy: f64 = running.map(|vm| f64::from(vmconfig::cpus(&vm.config)) * 0.05).sum();
    (0.01 + busy / f64::from(cpus.max(1))).min(1.0)
}

/// One row of `/nodes`, also used in `/cluster/resources`.
pub(super) fn row(state: &State, name: &str, detail: bool) -> Value {
    let Some(host) = state.hosts.get(name) else { return Value::Null };
    let mut row = json!({
        "id": format!("node/{name}"),
        "node": name,
        "type": "node",
        "status": if host.online { "online" } else { "offline" },
    });
    if !detail {
        return row;
    }
    row["level"] = "".into();
    if host.online {
        row["cpu"] = cpu_used(state, name, host.cpus).into();
        row["maxcpu"] = host.cpus.into();
        row["mem"] = memory_used(state, name).min(host.memory).into();
        row["maxmem"] = host.memory.into();
        row["disk"] = (ROOT_SIZE / 8).into();
        row["maxdisk"] = ROOT_SIZE.into();
        row["uptime"] = (state.now - host.booted).into();
    }
    row
}

/// `GET /nodes`
pub(super) fn list(context: &Context) -> Answer {
    verify(&context.params, &[])?;
    context.dc.with(|state| {
        let all = state.hosts.iter().map(|(name, host)| {
            let detail = state.privileges(&context.who, &format!("/nodes/{name}")).has("Sys.Audit");
            let mut row = row(state, name, detail);
            row["ssl_fingerprint"] = host.fingerprint.clone().into();
            row
        });
        rows(all.collect())
    })
}

/// `GET /nodes/{node}/status`
pub(super) fn status(context: &Context, host: &str) -> Answer {
    context.need(&format!("/nodes/{host}"), &["Sys.Audit"])?;
    context.dc.with(|state| {
        let used = memory_used(state, host);
        let load = cpu_used(state, host, state.hosts.get(host).map_or(1, |host| host.cpus));
        let Some(known) = state.hosts.get(host) else { return Data::null() };
        let total = known.memory;
        let used = used.min(total);
        Ok(Data::from(json!({
            "boot-info": { "mode": "efi", "secureboot": 0 },
            "cpu": load,
            "cpuinfo": {
                "cores": known.cpus, "cpus": known.cpus, "sockets": 1, "hvm": "1", "mhz": "2299.998",
                "model": "Lab Processor", "user_hz": 100, "flags": "fpu vme de pse tsc msr pae aes avx2 vmx",
            },
            "current-kernel": {
                "machine": known.machine, "release": "6.17.2-1-pve", "sysname": "Linux", "version": "#1 SMP",
            },
            "idle": 0,
            "ksm": { "shared": 0 },
            "kversion": "Linux 6.17.2-1-pve #1 SMP",
            "loadavg": [format!("{:.2}", load * 2.0), format!("{:.2}", load * 2.0), format!("{:.2}", load)],
            "memory": { "total": total, "used": used, "free": total - used, "available": total - used },
            "pveversion": format!("pve-manager/{}/14a22df35955d97d", state.version),
            "rootfs": { "total": ROOT_SIZE, "used": ROOT_SIZE / 8, "free": ROOT_SIZE / 8 * 7, "avail": ROOT_SIZE / 8 * 7 },
            "swap": { "total": 0, "used": 0, "free": 0 },
            "uptime": state.now - known.booted,
            "wait": 0.0,
        })))
    })
}

/// A host's own address: one that it was given, or one after the other.
pub(super) fn address(state: &State, host: &str) -> String {
    let given = state.hosts.get(host).into_iter().flat_map(|host| &host.endpoints);
    let given = given.map(|one| one.split_once(':').map_or(one.as_str(), |(address, _)| address));
    let mut given = given.filter(|one| one.parse::<std::net::Ipv4Addr>().is_ok());
    let place = state.hosts.keys().position(|name| name == host).unwrap_or(0);
    given.next().map(str::to_owned).unwrap_or_else(|| format!("10.0.{}.{}", place / 200, 2 + place % 200))
}

/// `GET /nodes/{node}/time`
pub(super) fn time(context: &Context, host: &str) -> Answer {
    verify(&context.params, &[])?;
    context.need(&format!("/nodes/{host}"), &["Sys.Audit"])?;
    let now = context.dc.pace().outside();
    Ok(Data::from(json!({ "time": now, "localtime": now, "timezone": "UTC" })))
}

/// `GET /nodes/{node}/network`
pub(super) fn network(context: &Context, host: &str) -> Answer {
    const TYPES: &[&str] = &[
        "bridge",
        "bond",
        "eth",
        "alias",
        "vlan",
        "fabric",
        "OVSBridge",
        "OVSBond",
        "OVSPort",
        "OVSIntPort",
        "vnet",
        "any_bridge",
        "any_local_bridge",
        "include_sdn",
    ];
    verify(&context.params, &[opt("type", Kind::OneOf(TYPES))])?;
    let wanted = context.param("type");
    if !matches!(wanted, None | Some("bridge" | "any_bridge" | "any_local_bridge" | "include_sdn")) {
        return rows(Vec::new());
    }
    let all_seen = context.may(&format!("/nodes/{host}"), "Sys.Audit");
    context.dc.with(|state| {
        let Some(known) = state.hosts.get(host) else { return rows(Vec::new()) };
        let may_use = |bridge: &str| {
            let may = state.privileges(&context.who, &state.bridge_path(bridge));
            may.has("SDN.Use") || may.has("SDN.Audit")
        };
        // The hosts themselves live on the first bridge.
        let own = address(state, host);
        let bridges = known.bridges().enumerate();
        let seen = bridges.filter(|(_, (_, bridge))| all_seen && wanted.is_none() || may_use(bridge));
        rows(
            seen.map(|(index, (zone, bridge))| {
                if zone != "localnetwork" {
                    return json!({ "iface": bridge, "type": "vnet", "active": "1" });
                }
                let mut row = json!({
                    "iface": bridge, "type": "bridge", "active": 1, "autostart": 1, "method": "manual",
                    "method6": "manual", "families": ["inet"], "bridge_fd": "0", "bridge_ports": "eno1",
                    "bridge_stp": "off", "priority": index + 3,
                });
                if index == 0 {
                    row["method"] = "static".into();
                    row["address"] = own.as_str().into();
                    row["netmask"] = "16".into();
                    row["cidr"] = format!("{own}/16").into();
                    row["gateway"] = "10.0.0.1".into();
                }
                row
            })
            .collect(),
        )
    })
}
