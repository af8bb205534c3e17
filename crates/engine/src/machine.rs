//! From the inventory to what Proxmox is told of one node's VM.

mod options;

use std::collections::BTreeMap;

use daedal_inventory::hardware::{Firmware, Hardware};
use daedal_inventory::{Arch, Cluster, Node, Role};
use daedal_machine::vm::{cards, further_disks, plain_options};
use daedal_planner::names::{media_file, media_volid, template_name};
use daedal_planner::{Seat, Seats, Stamp, TemplateMark, seat};
use daedal_proxmox::{CreateVm, NewDisk, Nic, UpdateVm, VmConfig, cdrom};

pub(crate) use daedal_machine::vm::FIRST_NIC;

use self::options::new_disk;
pub(crate) use self::options::{seen, sent};

/// Slot of the system disk.
pub(crate) const SYSTEM_DISK: &str = "scsi0";
/// The CD drives of a VM, by slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Drives {
    /// Where the config media goes.
    pub(crate) media: &'static str,
    /// Where a boot ISO goes.
    pub(crate) boot: &'static str,
}

/// Which drives the VMs of a cluster have. A q35 machine has these two IDE slots only; arm64 has none, and the last SCSI
/// slots are beyond those of all disks.
pub(crate) fn drives(cluster: &Cluster) -> Drives {
    match cluster.talos.arch {
        Arch::Amd64 => Drives { media: "ide2", boot: "ide0" },
        Arch::Arm64 => Drives { media: "scsi30", boot: "scsi29" },
    }
}

/// What a VM is made from, by volume id.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sources<'a> {
    /// The image to import; none for an empty disk.
    pub(crate) image: Option<&'a str>,
    /// The boot ISO.
    pub(crate) iso: Option<&'a str>,
    /// The config medium.
    pub(crate) media: Option<&'a str>,
}

/// The one call that makes a node's VM, marks and all.
pub(crate) fn vm(cluster: &Cluster, node: &Node, sources: Sources<'_>, stamp: &Stamp) -> CreateVm {
    let proxmox = &cluster.proxmox;
    let disk = match sources.image {
        Some(image) => NewDisk::import(&proxmox.disks_storage, image),
        None => NewDisk::blank(&proxmox.disks_storage, node.disk >> 30),
    };
    let Drives { media, boot } = drives(cluster);
    // A snippet is no medium itself: Proxmox puts it on the drive that it makes.
    let medium = sources.media.filter(|_| !cluster.boot.by_snippet());
    let drives = [(media, medium), (boot, sources.iso)];
    // An empty disk does not boot, so the ISO's turn comes until the system is installed, and never again. The config medium
    // boots nothing; a drive that is not in the order would be appended to it when it is emptied, as a change that waits.
    let boots = [Some(SYSTEM_DISK), sources.iso.map(|_| boot), sources.media.map(|_| media)];
    CreateVm {
        vmid: node.vmid,
        name: node.name.clone(),
        cores: node.cores,
        memory_mib: node.memory >> 20,
        on_boot: true,
        protection: cluster.protect,
        // A token whose rights come through a pool may set tags only once the VM is in it.
        tags: if proxmox.pool.is_some() { Vec::new() } else { daedal_planner::names::tags(cluster, node) },
        description: Some(daedal_planner::first_description(cluster, node, stamp)),
        smbios_uuid: Some(node.uuid.to_string()),
        disks: std::iter::once((SYSTEM_DISK.to_owned(), disk)).chain(extra_disks(cluster, node)).collect(),
        cdroms: drives
            .iter()
            .filter_map(|(slot, volid)| Some(((*slot).to_owned(), Some((*volid)?.to_owned()))))
            .collect(),
        nics: nics(cluster, node),
        // An empty disk need not grow, so that the VM can start in the same breath.
        start: sources.image.is_none(),
        boot_order: boots.into_iter().flatten().map(str::to_owned).collect(),
        extra: cloud_init(cluster, node, sources.media).into_iter().chain(plain(cluster, node)).collect(),
        ..hardware(cluster, &node.hardware, &proxmox.disks_storage)
    }
}

/// Empty disks besides the system disk, in the slots that a new VM has for them.
fn extra_disks(cluster: &Cluster, node: &Node) -> impl Iterator<Item = (String, NewDisk)> {
    further_disks(cluster, node, &Seats::new()).into_iter().map(|(slot, disk)| (slot, new_disk(&disk)))
}

/// What the SCSI slots of a VM hold, the system disk's aside.
pub(crate) fn seats(vmid: u32, config: &VmConfig) -> Seats {
    let number = |slot: &str| slot.strip_prefix("scsi").and_then(|number| number.parse::<u32>().ok());
    let disks = config.disks.iter().filter(|(slot, _)| *slot != SYSTEM_DISK);
    let disks = disks.filter_map(|(slot, disk)| {
        let serial = disk.options.get("serial").map(String::as_str);
        Some((number(slot)?, seat(vmid, &disk.volid, serial)))
    });
    let drives = config.cdroms.keys().filter_map(|slot| Some((number(slot)?, Seat::Taken)));
    drives.chain(disks).collect()
}

/// The machine itself.
fn hardware(cluster: &Cluster, hardware: &Hardware, storage: &str) -> CreateVm {
    let arch = cluster.talos.arch;
    let uefi = hardware.firmware.unwrap_or_default() == Firmware::Ovmf;
    CreateVm {
        // Talos and the kubelet count on all of the memory being there.
        balloon_mib: Some(0),
        cpu: Some(hardware.processor(arch).to_owned()),
        machine: Some(hardware.chipset(arch).name().to_owned()),
        bios: Some(if uefi { "ovmf" } else { "seabios" }.to_owned()),
        ostype: Some("l26".to_owned()),
        scsihw: Some("virtio-scsi-single".to_owned()),
        agent: has_agent(cluster),
        serial_console: hardware.serial_console.unwrap_or(true),
        efi_storage: uefi.then(|| storage.to_owned()),
        // Without keys the firmware is in setup mode, in which signed images bring their own.
        efi_keys: false,
        tpm_storage: (hardware.tpm == Some(true)).then(|| storage.to_owned()),
        pool: cluster.proxmox.pool.clone(),
        ..CreateVm::default()
    }
}

/// The call that makes what becomes a role's template: the image and what Talos needs, and nothing of any node.
pub(crate) fn template(
    cluster: &Cluster,
    role: Role,
    vmid: u32,
    image: &str,
    digest: &str,
    stamp: &Stamp,
) -> CreateVm {
    let proxmox = &cluster.proxmox;
    let mark = TemplateMark {
        cluster: cluster.uuid,
        role,
        vmid,
        digest: digest.to_owned(),
        secrets: stamp.secrets.clone(),
    };
    let of_role = cluster.nodes.iter().find(|node| node.role == role);
    let schematic =
        daedal_machine::image::references(cluster).shared.map(|image| image.schematic_id).unwrap_or_default();
    CreateVm {
        vmid,
        name: template_name(cluster, role, &schematic),
        cores: of_role.map_or(2, |node| node.cores),
        memory_mib: of_role.map_or(2048, |node| node.memory >> 20),
        description: Some(format!(
            "Talos v{}, a template of cluster {}, made and kept by daedal. The line below says so; please leave it.\n\n{}",
            cluster.talos.version,
            cluster.name,
            mark.line()
        )),
        disks: [(SYSTEM_DISK.to_owned(), NewDisk::import(proxmox.templates_storage(), image))].into(),
        boot_order: vec![SYSTEM_DISK.to_owned()],
        tags: if proxmox.pool.is_some() { Vec::new() } else { vec!["daedal".to_owned()] },
        extra: of_role.map(|node| plain(cluster, node)).unwrap_or_default(),
        ..hardware(
            cluster,
            of_role.map_or(&Hardware::default(), |node| &node.hardware),
            proxmox.templates_storage(),
        )
    }
}

/// The call that makes what an ISO installs itself on to become a role's template. Until then it has a node's network card,
/// and a medium with a config that is wiped afterwards.
pub(crate) fn installing_template(
    cluster: &Cluster,
    node: &Node,
    vmid: u32,
    iso: &str,
    media: &str,
    digest: &str,
    stamp: &Stamp,
) -> CreateVm {
    let storage = cluster.proxmox.templates_storage();
    let least = cluster.nodes.iter().filter(|other| other.role == node.role).map(|other| other.disk).min();
    // Smaller than any node's, so that every clone grows to its own size.
    let disk = NewDisk::blank(storage, (least.unwrap_or(node.disk) >> 30).saturating_sub(1).max(1));
    let slots = drives(cluster);
    let drives = [(slots.boot, iso), (slots.media, media)];
    CreateVm {
        disks: [(SYSTEM_DISK.to_owned(), disk)].into(),
        cdroms: drives.map(|(slot, volid)| (slot.to_owned(), Some(volid.to_owned()))).into(),
        boot_order: [SYSTEM_DISK, slots.boot, slots.media].map(str::to_owned).into(),
        nics: nics(cluster, node).into_iter().take(1).collect(),
        start: true,
        ..template(cluster, node.role, vmid, iso, digest, stamp)
    }
}

/// What a clone must be told: everything that Proxmox invents (uuid, MAC) or takes from the template.
pub(crate) fn clone_update(cluster: &Cluster, node: &Node, stamp: &Stamp) -> UpdateVm {
    let mut update = UpdateVm::new()
        .set("cores", node.cores)
        .set("memory", node.memory >> 20)
        .set("onboot", 1)
        .set("tags", daedal_planner::names::tags(cluster, node).join(";"))
        .set("description", daedal_planner::first_description(cluster, node, stamp))
        .set("smbios1", format!("uuid={}", node.uuid));
    if cluster.protect {
        update = update.set("protection", 1);
    }
    for (i, nic) in nics(cluster, node).iter().enumerate() {
        update = update.set(format!("net{i}"), nic.property_string());
    }
    for (slot, disk) in extra_disks(cluster, node) {
        update = update.set(slot, disk.property_string());
    }
    let file = media_file(cluster, node, stamp.secrets.as_ref());
    let volid = media_volid(&cluster.proxmox.images_storage, &file);
    if cluster.boot.by_medium() && !cluster.boot.by_snippet() {
        update = update.set(drives(cluster).media, cdrom(Some(&volid)));
    }
    for (option, value) in cloud_init(cluster, node, Some(&volid)) {
        update = update.set(option, value);
    }
    update
}

/// The options that have Proxmox put a snippet on its own drive.
pub(crate) fn with_snippet(cluster: &Cluster, volid: &str) -> [(&'static str, String); 2] {
    let drive = format!("{}:cloudinit", cluster.proxmox.cloud_init_storage());
    [(drives(cluster).media, drive), (CUSTOM, format!("user={volid}"))]
}

/// The option that names a snippet.
pub(crate) const CUSTOM: &str = "cicustom";

/// The snippet that Proxmox puts on the drive of a VM.
pub(crate) fn snippet(config: &VmConfig) -> Option<&str> {
    let custom = config.raw.get(CUSTOM)?;
    custom.split(',').find_map(|part| part.strip_prefix("user="))
}

/// Proxmox's own drive with the node's static network, where the boot path has one. It holds no secrets but those of the snippet
/// that it may have.
fn cloud_init(cluster: &Cluster, node: &Node, medium: Option<&str>) -> BTreeMap<String, String> {
    if !cluster.boot.has_cloud_init() {
        return BTreeMap::new();
    }
    let network = &cluster.network;
    let (ip, gw) = match network.gateway {
        std::net::IpAddr::V4(_) => ("ip", "gw"),
        std::net::IpAddr::V6(_) => ("ip6", "gw6"),
    };
    let resolvers: Vec<String> = network.dns.iter().map(ToString::to_string).collect();
    let drive = format!("{}:cloudinit", cluster.proxmox.cloud_init_storage());
    let own = node.address.map(|address| address.to_string()).unwrap_or_default();
    let address = format!("{ip}={own},{gw}={}", network.gateway);
    let mut options = BTreeMap::from([
        (drives(cluster).media.to_owned(), drive),
        ("citype".to_owned(), "nocloud".to_owned()),
        ("ipconfig0".to_owned(), address),
    ]);
    if cluster.network.dhcp {
        options.insert("ipconfig0".to_owned(), format!("{ip}=dhcp"));
    }
    if let Some(volid) = medium.filter(|_| cluster.boot.by_snippet()) {
        options.extend(with_snippet(cluster, volid).map(|(option, value)| (option.to_owned(), value)));
    }
    if !resolvers.is_empty() {
        options.insert("nameserver".to_owned(), resolvers.join(" "));
    }
    options
}

/// All NICs as declared, the first one first.
fn nics(cluster: &Cluster, node: &Node) -> Vec<Nic> {
    cards(cluster, node).iter().map(options::nic).collect()
}

/// Options that a template has as well, as Proxmox takes them.
fn plain(cluster: &Cluster, node: &Node) -> BTreeMap<String, String> {
    plain_options(cluster, node).iter().map(|(option, value)| (option.clone(), sent(value))).collect()
}

/// Whether the image has the guest agent in it; without it Proxmox would wait for one in vain.
pub(crate) fn has_agent(cluster: &Cluster) -> bool {
    cluster.talos.extensions.iter().any(|name| name.rsplit('/').next() == Some("qemu-guest-agent"))
}

#[cfg(test)]
mod tests;
