//! From the inventory to what Talos and Proxmox are told of one node: its machine config, its media, its VM.

use std::collections::BTreeMap;

use daedal_inventory::hardware::{Firmware, Hardware};
use daedal_inventory::{Arch, BootConfig, Cluster, Node, Role};
use daedal_planner::names::{media_file, media_volid, template_name};
use daedal_planner::{TemplateMark, plain_options};
use daedal_proxmox::{CreateVm, NewDisk, Nic, UpdateVm, cdrom};
use daedal_talos::config::{
    ClusterOptions, Cni, Contract, Dhcp, Discovery, Hostname, Install, KubeSpan, Link, Lint, MachineConfig,
    NodeOptions, Patch, RegistryMirror, Role as TalosRole, Route, Severity,
};
use daedal_talos::nocloud::Cidata;
use daedal_talos::{Secret, SecretsBundle};
use zeroize::Zeroizing;

use crate::error::Error;
use crate::image;
use crate::settings;

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

/// The NIC that carries the node's address.
pub(crate) const FIRST_NIC: &str = "net0";

/// A node's whole machine config as YAML.
pub(crate) fn config(cluster: &Cluster, node: &Node, secrets: &SecretsBundle) -> Result<Secret, Error> {
    Ok(patched(cluster, node, secrets)?.to_yaml())
}

/// A node's config media: a `cidata` volume, the same bytes for the same inventory and secrets.
pub(crate) fn media(
    cluster: &Cluster,
    node: &Node,
    secrets: &SecretsBundle,
) -> Result<Zeroizing<Vec<u8>>, Error> {
    let failed = |source| Error::MachineConfig { node: node.name.clone(), source: Box::new(source) };
    let config = patched(cluster, node, secrets)?;
    let options = node_options(cluster, node)?;
    let media = Cidata::new(&config, &daedal_planner::node_digest(cluster, node));
    // The network is there even before the config is read, so that a broken config can be seen from outside. A bond comes
    // with the config only: before it, one of its cards would have the node's address, and keep it.
    let media = match options.bonds.is_empty() {
        true => media.with_network(&options.links, &options.nameservers).map_err(failed)?,
        false => media,
    };
    media.to_iso().map_err(failed)
}

/// A node's machine config with all patches applied, and found valid: whatever leaves for a node comes from here.
pub(crate) fn patched(
    cluster: &Cluster,
    node: &Node,
    secrets: &SecretsBundle,
) -> Result<MachineConfig, Error> {
    let config = unjudged(cluster, node, secrets, usize::MAX)?;
    let contract = contract(cluster, node)?;
    let faults = faults(&config, contract);
    let Some(first) = faults.first() else { return Ok(config) };
    // The patch that brought it is the last one before which it was not there.
    let mut patch = None;
    for (before, candidate) in patches(cluster, node).enumerate() {
        if !self::faults(&unjudged(cluster, node, secrets, before)?, contract).contains(first) {
            patch = Some(candidate.origin.clone());
        }
    }
    Err(Error::InvalidConfig { node: node.name.clone(), patch, faults })
}

/// What the cluster's version of Talos knows.
pub(crate) fn contract(cluster: &Cluster, node: &Node) -> Result<&'static Contract, Error> {
    Contract::of(&cluster.talos.version.to_string())
        .map_err(|source| Error::MachineConfig { node: node.name.clone(), source: Box::new(source) })
}

/// What makes a config invalid, in words.
fn faults(config: &MachineConfig, contract: &Contract) -> Vec<String> {
    let bad = |lint: &Lint| lint.severity == Severity::Error;
    config.lint(contract).iter().filter(|lint| bad(lint)).map(ToString::to_string).collect()
}

/// The patches that a node's config gets, in their order.
fn patches<'a>(cluster: &'a Cluster, node: &'a Node) -> impl Iterator<Item = &'a daedal_inventory::Patch> {
    cluster.patches.iter().chain(&node.patches).filter(|patch| patch.is_for(node.role))
}

/// What environment variables put into a node's config by way of its patches.
pub(crate) fn patch_secrets<'a>(cluster: &'a Cluster, node: &'a Node) -> impl Iterator<Item = &'a str> {
    patches(cluster, node).flat_map(daedal_inventory::Patch::secret_texts)
}

/// A node's machine config with the first so many patches applied, whatever came of it.
fn unjudged(
    cluster: &Cluster,
    node: &Node,
    secrets: &SecretsBundle,
    patches: usize,
) -> Result<MachineConfig, Error> {
    let failed = |source| Error::MachineConfig { node: node.name.clone(), source: Box::new(source) };
    let mut config =
        MachineConfig::generate(secrets, &cluster_options(cluster)?, &node_options(cluster, node)?)
            .map_err(failed)?;
    let contract = contract(cluster, node)?;
    for patch in self::patches(cluster, node).take(patches) {
        let text = patch.text_for(cluster, node);
        let applied = Patch::for_contract(&text, contract).and_then(|patch| config.apply_patch(&patch));
        applied.map_err(|source| Error::Patch {
            node: node.name.clone(),
            patch: patch.origin.clone(),
            source: Box::new(source),
        })?;
    }
    Ok(config)
}

/// What all nodes of a role have in common, as `talosctl gen config` would write it: no name, no addresses.
pub(crate) fn role_config(cluster: &Cluster, role: Role, secrets: &SecretsBundle) -> Result<Secret, Error> {
    let name = match role {
        Role::ControlPlane => "controlplane",
        Role::Worker => "worker",
    };
    let failed = |source| Error::MachineConfig { node: name.to_owned(), source: Box::new(source) };
    let mut options = NodeOptions::new(talos_role(role), Hostname::Stable);
    options.install = install(cluster);
    let mut config =
        MachineConfig::generate(secrets, &cluster_options(cluster)?, &options).map_err(failed)?;
    // What speaks of one node has no place in what all have in common.
    let shared = cluster.patches.iter().filter(|patch| patch.is_for(role) && !patch.speaks_of_nodes());
    for (patch, node) in shared.flat_map(|patch| cluster.nodes.first().map(|node| (patch, node))) {
        let patch = Patch::for_contract(&patch.text_for(cluster, node), contract(cluster, node)?);
        config.apply_patch(&patch.map_err(failed)?).map_err(failed)?;
    }
    Ok(config.to_yaml())
}

fn talos_role(role: Role) -> TalosRole {
    match role {
        Role::ControlPlane => TalosRole::ControlPlane,
        Role::Worker => TalosRole::Worker,
    }
}

fn cluster_options(cluster: &Cluster) -> Result<ClusterOptions, Error> {
    let kubernetes = &cluster.kubernetes;
    let mut options = ClusterOptions::new(
        &cluster.name,
        kubernetes.endpoint_url().ok_or(Error::Unlocated)?,
        format!("v{}", cluster.talos.version),
        format!("v{}", kubernetes.version),
    );
    options.pod_subnets.clone_from(&kubernetes.pod_subnets);
    options.service_subnets.clone_from(&kubernetes.service_subnets);
    options.dns_domain.clone_from(&kubernetes.dns_domain);
    options.cert_sans.clone_from(&kubernetes.cert_sans);
    options.kube_proxy = kubernetes.kube_proxy;
    options.schedule_on_control_planes = kubernetes.schedule_on_control_planes;
    options.cni = match kubernetes.cni {
        _ if !kubernetes.cni_manifests.is_empty() => Cni::Custom(kubernetes.cni_manifests.clone()),
        daedal_inventory::Cni::Flannel => Cni::Flannel,
        daedal_inventory::Cni::None => Cni::None,
    };
    options.discovery = match &kubernetes.discovery_service {
        _ if kubernetes.no_discovery => Discovery::Disabled,
        Some(service) => Discovery::Service(service.clone()),
        None => Discovery::Public,
    };
    options.kubespan = kubernetes.kubespan.then(KubeSpan::default);
    options.registry_mirrors = cluster
        .registry_mirrors
        .iter()
        .map(|(registry, mirror)| RegistryMirror {
            registry: registry.clone(),
            endpoints: mirror.endpoints.clone(),
            override_path: mirror.override_path,
            skip_fallback: mirror.skip_fallback,
        })
        .collect();
    settings::registries(&cluster.registries, &mut options);
    Ok(options)
}

fn node_options(cluster: &Cluster, node: &Node) -> Result<NodeOptions, Error> {
    let failed = |source| Error::MachineConfig { node: node.name.clone(), source: Box::new(source) };
    let mut options = NodeOptions::new(talos_role(node.role), &node.name);
    let mut first = Link {
        mtu: cluster.network.mtu.map(u32::from),
        addresses: node.address.into_iter().collect(),
        routes: vec![Route { destination: None, gateway: cluster.network.gateway, metric: None }],
        ..Link::new(node.mac.parse().map_err(failed)?)
    };
    if cluster.network.dhcp {
        // What is asked for comes with the routes to everywhere else.
        first.addresses.clear();
        first.routes.clear();
        first.dhcp = Some(if cluster.network.cidr.addr().is_ipv4() {
            Dhcp::IPV4
        } else {
            Dhcp { ipv6: true, ..Dhcp::default() }
        });
    }
    let mut members = vec![first.mac];
    let mut further = Vec::new();
    for nic in &node.nics {
        let mac = nic.mac.parse().map_err(failed)?;
        if nic.bonded {
            members.push(mac);
            continue;
        }
        let dhcp = Dhcp { ipv4: nic.dhcp, ..Dhcp::default() };
        further.push(Link {
            mtu: nic.mtu.map(u32::from),
            dhcp: Some(dhcp),
            addresses: nic.address.into_iter().collect(),
            routes: nic.routes.iter().filter_map(settings::route).collect(),
            ..Link::new(mac)
        });
    }
    match &node.hardware.bond {
        Some(bond) => options.bonds = vec![settings::bond(bond, members, first)],
        None => options.links.push(first),
    }
    options.links.extend(further);
    options.nameservers.clone_from(&cluster.network.dns);
    options.time_servers.clone_from(&cluster.network.ntp);
    options.vip = cluster.network.vip.filter(|_| node.role == Role::ControlPlane);
    options.install = install(cluster);
    options.labels = node.labels.clone().into_iter().collect();
    options.taints = node.taints.clone().into_iter().collect();
    settings::apply(&node.machine, &mut options);
    Ok(options)
}

/// A disk image is installed already; the image named here is what an upgrade takes.
fn install(cluster: &Cluster) -> Install {
    Install {
        disk: Some(cluster.talos.install_disk.clone()),
        disk_selector: None,
        image: Some(image::installer(cluster)),
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
pub(crate) fn vm(cluster: &Cluster, node: &Node, sources: Sources<'_>) -> CreateVm {
    let proxmox = &cluster.proxmox;
    let disk = match sources.image {
        Some(image) => NewDisk::import(&proxmox.disks_storage, image),
        None => NewDisk::blank(&proxmox.disks_storage, node.disk >> 30),
    };
    let Drives { media, boot } = drives(cluster);
    let drives = [(media, sources.media), (boot, sources.iso)];
    // An empty disk does not boot, so the ISO's turn comes until the system is installed, and never again.
    let boots = [Some(SYSTEM_DISK), sources.iso.map(|_| boot)];
    CreateVm {
        vmid: node.vmid,
        name: node.name.clone(),
        cores: node.cores,
        memory_mib: node.memory >> 20,
        on_boot: true,
        // A token whose rights come through a pool may set tags only once the VM is in it.
        tags: if proxmox.pool.is_some() { Vec::new() } else { daedal_planner::names::tags(cluster, node) },
        description: Some(daedal_planner::first_description(cluster, node)),
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
        extra: cloud_init(cluster, node).into_iter().chain(plain_options(cluster, node)).collect(),
        ..hardware(cluster, &node.hardware, &proxmox.disks_storage)
    }
}

/// Empty disks besides the system disk, in the slots after it.
fn extra_disks<'a>(cluster: &'a Cluster, node: &'a Node) -> impl Iterator<Item = (String, NewDisk)> + 'a {
    node.disks.iter().enumerate().map(|(i, disk)| {
        let storage = disk.storage.as_ref().unwrap_or(&cluster.proxmox.disks_storage);
        (format!("scsi{}", i + 1), NewDisk::blank(storage, disk.size >> 30))
    })
}

/// What an option of an existing VM's hardware is set to; none if it is taken away.
pub(crate) fn option(cluster: &Cluster, node: &Node, option: &str) -> Option<String> {
    match option {
        "cpu" => Some(node.hardware.processor(cluster.talos.arch).to_owned()),
        "serial0" => node.hardware.serial_console.unwrap_or(true).then(|| "socket".to_owned()),
        _ if option.starts_with("scsi") => extra_disks(cluster, node)
            .find(|(slot, _)| slot == option)
            .map(|(_, disk)| disk.property_string()),
        _ if option.starts_with("net") => {
            let at: usize = option.strip_prefix("net")?.parse().ok()?;
            nics(cluster, node).get(at).map(Nic::property_string)
        }
        _ => plain_options(cluster, node).remove(option),
    }
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
pub(crate) fn template(cluster: &Cluster, role: Role, vmid: u32, image: &str, digest: &str) -> CreateVm {
    let proxmox = &cluster.proxmox;
    let mark = TemplateMark { cluster: cluster.uuid, role, vmid, digest: digest.to_owned() };
    let of_role = cluster.nodes.iter().find(|node| node.role == role);
    let schematic = image::references(cluster).shared.map(|image| image.schematic_id).unwrap_or_default();
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
        extra: of_role.map(|node| plain_options(cluster, node)).unwrap_or_default(),
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
        boot_order: vec![SYSTEM_DISK.to_owned(), slots.boot.to_owned()],
        nics: vec![nic(cluster, node)],
        start: true,
        ..template(cluster, node.role, vmid, iso, digest)
    }
}

/// What a clone must be told: everything that Proxmox invents (uuid, MAC) or takes from the template.
pub(crate) fn clone_update(cluster: &Cluster, node: &Node) -> UpdateVm {
    let mut update = UpdateVm::new()
        .set("cores", node.cores)
        .set("memory", node.memory >> 20)
        .set("onboot", 1)
        .set("tags", daedal_planner::names::tags(cluster, node).join(";"))
        .set("description", daedal_planner::first_description(cluster, node))
        .set("smbios1", format!("uuid={}", node.uuid))
        .set(FIRST_NIC, nic(cluster, node).property_string());
    for (i, nic) in nics(cluster, node).iter().enumerate().skip(1) {
        update = update.set(format!("net{i}"), nic.property_string());
    }
    for (slot, disk) in extra_disks(cluster, node) {
        update = update.set(slot, disk.property_string());
    }
    if cluster.boot.by_medium() {
        let file = media_file(cluster, node);
        let volid = media_volid(&cluster.proxmox.images_storage, &file);
        update = update.set(drives(cluster).media, cdrom(Some(&volid)));
    }
    for (option, value) in cloud_init(cluster, node) {
        update = update.set(option, value);
    }
    update
}

/// Proxmox's own drive with the node's static network, where the boot path has one; it holds no secrets.
fn cloud_init(cluster: &Cluster, node: &Node) -> BTreeMap<String, String> {
    if cluster.boot.config != BootConfig::CloudInitDrive {
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
    if !resolvers.is_empty() {
        options.insert("nameserver".to_owned(), resolvers.join(" "));
    }
    options
}

/// The first NIC as declared.
pub(crate) fn nic(cluster: &Cluster, node: &Node) -> Nic {
    Nic {
        vlan: cluster.proxmox.vlan,
        mtu: cluster.network.mtu.map(u32::from),
        ..Nic::virtio(&node.mac, &cluster.proxmox.bridge)
    }
}

/// All NICs as declared, the first one first.
fn nics(cluster: &Cluster, node: &Node) -> Vec<Nic> {
    let more = node.nics.iter().map(|more| Nic {
        vlan: more.vlan,
        mtu: more.mtu.map(u32::from),
        ..Nic::virtio(&more.mac, &more.bridge)
    });
    std::iter::once(nic(cluster, node)).chain(more).collect()
}

/// Whether the image has the guest agent in it; without it Proxmox would wait for one in vain.
pub(crate) fn has_agent(cluster: &Cluster) -> bool {
    cluster.talos.extensions.iter().any(|name| name.rsplit('/').next() == Some("qemu-guest-agent"))
}

#[cfg(test)]
mod tests;
