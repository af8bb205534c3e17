//! Hardware of VMs: what a type cannot say about sizes, names and what goes together.

use ipnet::IpNet;
use uuid::Uuid;

use super::size::{self, Of};
use super::{Context, address, mac, name, options};
use crate::cluster::{Arch, Disk, Nic};
use crate::document;
use crate::hardware::{Chipset, Firmware, Hardware};
use crate::path::Path;

/// Checks what the cluster or a pool says.
pub(crate) fn check(hardware: &Hardware, talos: &document::Talos, at: &Path<'_>, cx: &mut Context<'_>) {
    let counts = [
        ("disks", hardware.disks.len(), 13),
        ("nics", hardware.nics.len(), 8),
        ("pci", hardware.pci.len(), 16),
    ];
    for (key, count, most) in counts.into_iter().filter(|(_, count, most)| count > most) {
        let message = format!("A VM has room for {most} of these, and {count} are listed.");
        cx.error("hardware", &at.key(key), message, "List fewer.");
    }
    let disks_at = at.key("disks");
    for (i, disk) in hardware.disks.iter().enumerate() {
        let disk_at = disks_at.index(i);
        cx.take("size", &disk_at.key("size"), size::parse(&disk.size, Of::Disk));
        if let Some(storage) = &disk.storage {
            cx.take("name", &disk_at.key("storage"), name::proxmox_id("storage", storage));
        }
    }
    cards(hardware, at, cx);
    let pci_at = at.key("pci");
    for (i, mapping) in hardware.pci.iter().enumerate() {
        cx.take("name", &pci_at.index(i), name::proxmox_id("resource mapping", mapping));
    }
    if let Some(cpu) = &hardware.cpu
        && (cpu.is_empty() || !cpu.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)))
    {
        let help = "Write a model's name, for example `host` or `x86-64-v3`.";
        cx.error("cpu", &at.key("cpu"), format!("`{cpu}` is not a processor model."), help);
    }
    platform(hardware, talos, at, cx);
}

/// Network cards and their bond.
fn cards(hardware: &Hardware, at: &Path<'_>, cx: &mut Context<'_>) {
    let nics_at = at.key("nics");
    for (i, nic) in hardware.nics.iter().enumerate() {
        let at = nics_at.index(i);
        if let Some(bridge) = &nic.bridge {
            cx.take("name", &at.key("bridge"), name::proxmox_id("bridge", bridge));
        }
        if let Some(text) = &nic.address
            && text.parse::<IpNet>().is_err()
        {
            let message = format!("`{text}` is not an address with a prefix length.");
            cx.error("address", &at.key("address"), message, "Write for example `10.50.0.11/24`.");
        }
        let own = nic.address.is_some() || nic.dhcp == Some(true) || !nic.routes.is_empty();
        if nic.bonded == Some(true) && own {
            let message = "A bonded card has no address or routes of its own: the bond has the node's.";
            let help = "Remove `bonded`, or `address`, `dhcp` and `routes`.";
            cx.error("bond", &at.key("bonded"), message, help);
        }
        options::routes(&nic.routes, &at.key("routes"), cx);
    }
    let name = hardware.bond.as_ref().and_then(|bond| bond.name.as_deref()).unwrap_or("bond0");
    if name.is_empty() || name.len() > 15 || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        let message = format!("`{name}` is not a name for a network interface.");
        let help = "Use 1 to 15 letters, digits and hyphens.";
        cx.error("bond", &at.key("bond").key("name"), message, help);
    }
}

/// Architecture, chipset, processor and firmware.
fn platform(hardware: &Hardware, talos: &document::Talos, at: &Path<'_>, cx: &mut Context<'_>) {
    let arm = talos.arch == Some(Arch::Arm64);
    match hardware.machine {
        Some(Chipset::Q35 | Chipset::I440fx) if arm => {
            let message = "Machines of arm64 have the chipset `virt` and no other.";
            cx.error("machine", &at.key("machine"), message, "Remove `machine`, or `talos.arch`.");
        }
        Some(Chipset::Virt) if !arm => {
            let message = "`virt` is the chipset of arm64, and these nodes are amd64.";
            cx.error(
                "machine",
                &at.key("machine"),
                message,
                "Remove `machine`, or say `talos: {arch: arm64}`.",
            );
        }
        _ => {}
    }
    if arm && hardware.cpu.as_deref().is_some_and(|cpu| !matches!(cpu, "host" | "max")) {
        let message = "A host of arm64 runs VMs with its own processor only.";
        cx.error("cpu", &at.key("cpu"), message, "Remove `cpu`, or write `host` or `max`.");
    }
    if arm && hardware.firmware == Some(Firmware::Seabios) {
        let message = "There is no BIOS for arm64.";
        cx.error("firmware", &at.key("firmware"), message, "Remove `firmware`, or `talos.arch`.");
    }
    if talos.secure_boot == Some(true) && hardware.firmware == Some(Firmware::Seabios) {
        let message = "Secure boot needs UEFI, and `seabios` is not.";
        cx.error("firmware", &at.key("firmware"), message, "Remove `firmware`, or `talos.secureBoot`.");
    }
}

/// Checks what goes together only once a pool's hardware is added up.
pub(crate) fn check_pool(
    hardware: &Hardware,
    nodes: usize,
    spec: &document::Spec,
    at: &Path<'_>,
    cx: &mut Context<'_>,
) {
    for first in hardware.nics.iter().filter_map(|nic| nic.address.as_ref()) {
        if let Some(message) = address::runs_out(first, nodes) {
            let help = "Begin elsewhere, or with a shorter prefix length.";
            cx.error("address", &at.key("nics"), message, help);
        }
    }
    let bonded = hardware.nics.iter().any(|nic| nic.bonded == Some(true));
    match (&hardware.bond, bonded) {
        (Some(_), false) => {
            let help = "Mark at least one of `nics` as `bonded: true`.";
            cx.error("bond", &at.key("bond"), "The bond has the first card only.", help);
        }
        (None, true) => {
            let help = "Say how, for example `bond: {mode: active-backup}`.";
            cx.error("bond", &at.key("nics"), "A card is bonded, but there is no bond.", help);
        }
        _ => {}
    }
    let config = spec.boot.as_ref().and_then(|boot| boot.config);
    let early = matches!(config, Some(document::BootConfig::CloudInitDrive | document::BootConfig::Meta));
    if hardware.bond.is_some() && early {
        let message = "On this boot path the first card has the node's address before there is a bond.";
        cx.error("bond", &at.key("bond"), message, "Use `boot: {config: cidata}`.");
    }
}

/// The extra disks of a node.
pub(crate) fn disks(hardware: &Hardware) -> Vec<Disk> {
    let disk = |disk: &crate::hardware::ExtraDisk| {
        Some(Disk { storage: disk.storage.clone(), size: size::parse(&disk.size, Of::Disk).ok()? })
    };
    hardware.disks.iter().filter_map(disk).collect()
}

/// The extra network cards of the pool's node of this index, each with a MAC of its own.
pub(crate) fn nics(
    hardware: &Hardware,
    proxmox: &document::Proxmox,
    cluster: &Uuid,
    (node, index): (&str, usize),
    prefix: Option<&[u8]>,
) -> Vec<Nic> {
    let first = proxmox.bridge.clone().unwrap_or_else(|| "vmbr0".to_owned());
    let nics = hardware.nics.iter().enumerate().map(|(i, nic)| Nic {
        mac: mac::derive(cluster, &format!("{node}/net{}", i + 1), prefix),
        bridge: nic.bridge.clone().unwrap_or_else(|| first.clone()),
        vlan: nic.vlan,
        mtu: nic.mtu,
        dhcp: nic.dhcp.unwrap_or(nic.address.is_none() && nic.bonded != Some(true)),
        address: nic.address.as_ref().and_then(|first| address::counted(first, index)),
        routes: nic.routes.clone(),
        bonded: nic.bonded == Some(true),
    });
    nics.collect()
}
