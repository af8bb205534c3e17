//! The inventory's machine settings as Talos' options.

use daedal_inventory::options::{self, FileSystem, HostnameFrom, Machine};
use daedal_talos::config::{
    Encryption, EncryptionKey, ExtraMount, Hostname, KernelLog, KernelModule, LogDestination, NodeOptions,
    Route, UserVolume, Vlan,
};

/// Puts the settings into a node's options. Texts were checked when the inventory was read.
pub(crate) fn apply(machine: &Machine, node: &mut NodeOptions) {
    node.sysctls = machine.sysctls.clone().into_iter().collect();
    node.annotations = machine.annotations.clone().into_iter().collect();
    node.search_domains.clone_from(&machine.search_domains);
    node.kernel_modules = machine
        .kernel_modules
        .iter()
        .map(|module| KernelModule { name: module.name.clone(), parameters: module.parameters.clone() })
        .collect();
    node.extra_mounts = machine.extra_mounts.iter().map(mount).collect();
    node.user_volumes = machine.user_volumes.iter().map(volume).collect();
    if let Some(encryption_of) = &machine.encryption {
        node.encrypt_state = encryption(&encryption_of.state);
        node.encrypt_ephemeral = encryption(&encryption_of.ephemeral);
    }
    node.log_destinations = machine
        .logs
        .iter()
        .map(|endpoint| LogDestination { endpoint: endpoint.clone(), extra_tags: Default::default() })
        .collect();
    node.kernel_logs = machine
        .kernel_logs
        .iter()
        .enumerate()
        .map(|(i, url)| KernelLog { name: format!("kernel-{}", i + 1), url: url.clone() })
        .collect();
    if let Some(link) = node.links.first_mut() {
        link.routes.extend(machine.routes.iter().filter_map(route));
        link.vlans = machine
            .vlans
            .iter()
            .map(|vlan| Vlan {
                id: vlan.id,
                mtu: vlan.mtu.map(u32::from),
                addresses: vlan.addresses.iter().filter_map(|address| address.parse().ok()).collect(),
                routes: vlan.routes.iter().filter_map(route).collect(),
                dhcp: None,
            })
            .collect();
    }
    if machine.hostname == Some(HostnameFrom::Dhcp) {
        node.hostname = Hostname::Off;
    }
}

fn route(route: &options::Route) -> Option<Route> {
    Some(Route {
        destination: Some(route.to.parse().ok()?),
        gateway: route.via.parse().ok()?,
        metric: route.metric,
    })
}

fn mount(mount: &options::ExtraMount) -> ExtraMount {
    let mut made = ExtraMount::bind(&mount.destination);
    if let Some(source) = &mount.source {
        made.source.clone_from(source);
    }
    if let Some(options) = &mount.options {
        made.options.clone_from(options);
    }
    made
}

fn volume(volume: &options::UserVolume) -> UserVolume {
    let disk = volume.disk.as_deref().unwrap_or("!system_disk");
    UserVolume {
        min_size: volume.min_size.clone(),
        max_size: volume.max_size.clone(),
        grow: volume.grow,
        filesystem: volume.filesystem.map(|kind| match kind {
            FileSystem::Xfs => "xfs".to_owned(),
            FileSystem::Ext4 => "ext4".to_owned(),
        }),
        encryption: volume.encryption.as_deref().and_then(encryption),
        ..UserVolume::new(&volume.name, disk)
    }
}

/// What opens a volume; nothing if it is not encrypted.
fn encryption(keys: &[options::EncryptionKey]) -> Option<Encryption> {
    let keys: Vec<EncryptionKey> = keys
        .iter()
        .filter_map(|key| match (&key.tpm, &key.kms) {
            (Some(tpm), _) => Some(EncryptionKey::Tpm { check_secure_boot: tpm.secure_boot }),
            (None, Some(kms)) => Some(EncryptionKey::Kms(kms.clone())),
            (None, None) => key.node_id.unwrap_or(false).then_some(EncryptionKey::NodeId),
        })
        .collect();
    (!keys.is_empty()).then(|| Encryption { keys, ..Encryption::default() })
}
