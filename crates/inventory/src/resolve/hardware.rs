//! Hardware of VMs: what a type cannot say about sizes, names and what goes together.

use uuid::Uuid;

use super::size::{self, Of};
use super::{Context, mac, name};
use crate::cluster::{Disk, Nic};
use crate::document;
use crate::hardware::{Firmware, Hardware};
use crate::path::Path;

/// Checks what the cluster or a pool says.
pub(crate) fn check(hardware: &Hardware, secure_boot: bool, at: &Path<'_>, cx: &mut Context<'_>) {
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
    let nics_at = at.key("nics");
    for (i, nic) in hardware.nics.iter().enumerate() {
        if let Some(bridge) = &nic.bridge {
            cx.take("name", &nics_at.index(i).key("bridge"), name::proxmox_id("bridge", bridge));
        }
    }
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
    if secure_boot && hardware.firmware == Some(Firmware::Seabios) {
        let message = "Secure boot needs UEFI, and `seabios` is not.";
        cx.error("firmware", &at.key("firmware"), message, "Remove `firmware`, or `talos.secureBoot`.");
    }
}

/// The extra disks of a node.
pub(crate) fn disks(hardware: &Hardware) -> Vec<Disk> {
    let disk = |disk: &crate::hardware::ExtraDisk| {
        Some(Disk { storage: disk.storage.clone(), size: size::parse(&disk.size, Of::Disk).ok()? })
    };
    hardware.disks.iter().filter_map(disk).collect()
}

/// The extra network cards of a node, each with a MAC of its own.
pub(crate) fn nics(
    hardware: &Hardware,
    proxmox: &document::Proxmox,
    cluster: &Uuid,
    node: &str,
    prefix: Option<&[u8]>,
) -> Vec<Nic> {
    let first = proxmox.bridge.clone().unwrap_or_else(|| "vmbr0".to_owned());
    let nics = hardware.nics.iter().enumerate().map(|(i, nic)| Nic {
        mac: mac::derive(cluster, &format!("{node}/net{}", i + 1), prefix),
        bridge: nic.bridge.clone().unwrap_or_else(|| first.clone()),
        vlan: nic.vlan,
        mtu: nic.mtu,
        dhcp: nic.dhcp.unwrap_or(true),
    });
    nics.collect()
}
