//! The inventory's machine settings as Talos' options.

use std::collections::BTreeMap;

use daedal_inventory::hardware;
use daedal_inventory::options::{self, FileSystem, HostnameFrom, Machine};
use daedal_talos_config::{
    Bond, ClusterOptions, DiskSelector, Encryption, EncryptionKey, ExtensionService, ExtraMount, Hostname,
    KernelLog, Link, LogDestination, Mac, NodeOptions, RegistryAuth, RegistryTls, Route, Secret, UserVolume,
    Vlan,
};

/// Puts the settings into a node's options. Texts were checked when the inventory was read.
pub(crate) fn apply(machine: &Machine, node: &mut NodeOptions) {
    node.sysctls = machine.sysctls.clone().into_iter().collect();
    node.annotations = machine.annotations.clone().into_iter().collect();
    node.search_domains.clone_from(&machine.search_domains);
    node.kernel_modules.clone_from(&machine.kernel_modules);
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
    // Both belong to what carries the node's address: its bond, else its first card.
    let carrier = match node.bonds.first_mut() {
        Some(bond) => Some((&mut bond.routes, &mut bond.vlans)),
        None => node.links.first_mut().map(|link| (&mut link.routes, &mut link.vlans)),
    };
    if let Some((routes, vlans)) = carrier {
        routes.extend(machine.routes.iter().filter_map(route));
        *vlans = machine.vlans.iter().map(vlan).collect();
    }
    node.extension_services = machine.extension_services.iter().map(service).collect();
    if let Some(selector) = &machine.install_disk {
        node.install.disk = None;
        node.install.disk_selector = Some(disk(selector));
    }
    if machine.hostname == Some(HostnameFrom::Dhcp) {
        node.hostname = Hostname::Off;
    }
}

/// Puts who the nodes are to registries into the cluster's options.
pub(crate) fn registries(registries: &BTreeMap<String, options::Registry>, cluster: &mut ClusterOptions) {
    let secret = |text: &Option<options::SecretText>| text.as_ref().map(|text| Secret::new(text.expose()));
    let plain =
        |text: &Option<options::Text>| text.as_ref().map(|text| format!("{}\n", text.expose().trim_end()));
    for (host, registry) in registries {
        if let Some(auth) = &registry.auth {
            cluster.registry_auth.push(RegistryAuth {
                registry: host.clone(),
                username: auth.username.clone(),
                password: secret(&auth.password),
                auth: secret(&auth.auth),
                identity_token: secret(&auth.identity_token),
            });
        }
        if let Some(tls) = &registry.tls {
            let key = tls.client_key.as_ref().map(|key| Secret::new(format!("{}\n", key.expose())));
            cluster.registry_tls.push(RegistryTls {
                registry: host.clone(),
                ca: plain(&tls.ca),
                client: plain(&tls.client_certificate).zip(key),
                insecure_skip_verify: tls.insecure,
            });
        }
    }
}

fn service(service: &options::ExtensionService) -> ExtensionService {
    ExtensionService {
        name: service.name.clone(),
        config_files: service
            .files
            .iter()
            .map(|file| (file.path.clone(), Secret::new(file.content.expose())))
            .collect(),
        environment: service
            .environment
            .iter()
            .map(|(name, text)| (name.clone(), Secret::new(text.expose())))
            .collect(),
    }
}

fn disk(selector: &options::DiskSelector) -> DiskSelector {
    DiskSelector {
        min_size: selector.min_bytes(),
        model: selector.model.clone(),
        serial: selector.serial.clone(),
        modalias: None,
        uuid: selector.uuid.clone(),
        wwid: selector.wwid.clone(),
        kind: selector.kind,
        bus_path: selector.bus_path.clone(),
    }
}

fn vlan(vlan: &options::Vlan) -> Vlan {
    Vlan {
        id: vlan.id,
        mtu: vlan.mtu.map(u32::from),
        addresses: vlan.addresses.iter().filter_map(|address| address.parse().ok()).collect(),
        routes: vlan.routes.iter().filter_map(route).collect(),
        dhcp: None,
    }
}

/// Cards as one interface, in the place of the first of them.
pub(crate) fn bond(bond: &hardware::Bond, members: Vec<Mac>, first: Link) -> Bond {
    Bond {
        hash_policy: bond.hash_policy.map(|policy| policy.as_str().to_owned()),
        lacp_rate: bond.lacp_rate.map(|rate| rate.as_str().to_owned()),
        miimon: bond.miimon,
        mtu: first.mtu,
        addresses: first.addresses,
        routes: first.routes,
        dhcp: first.dhcp,
        ..Bond::new(bond.name.as_deref().unwrap_or("bond0"), members, bond.mode)
    }
}

pub(crate) fn route(route: &options::Route) -> Option<Route> {
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

#[cfg(test)]
mod tests {
    use daedal_talos_config::{DiskKind, Link, Role};

    use super::*;

    fn applied(text: &str) -> NodeOptions {
        let machine: Machine = yaml_serde::from_str(text).unwrap();
        let mut node = NodeOptions::new(Role::Worker, "worker-1");
        node.links = vec![Link::new("02:00:00:00:00:01".parse().unwrap())];
        apply(&machine, &mut node);
        node
    }

    #[test]
    fn nothing_said_is_nothing_asked() {
        let node = applied("{}");
        assert!(node.sysctls.is_empty() && node.kernel_modules.is_empty() && node.user_volumes.is_empty());
        assert!(node.encrypt_state.is_none() && node.encrypt_ephemeral.is_none());
        assert!(node.links[0].routes.is_empty() && node.links[0].vlans.is_empty());
        assert_eq!(node.hostname, Hostname::Static("worker-1".into()));
    }

    /// Mission: M19
    #[test]
    fn every_setting_arrives() {
        let node = applied(
            "sysctls: {vm.max_map_count: '262144'}
kernelModules: [{name: nbd, parameters: [nbds_max=16]}]
extraMounts: [{destination: /var/lib/longhorn}, {destination: /a, source: /b, options: [ro]}]
userVolumes: [{name: data, minSize: 10GiB, grow: true, filesystem: ext4, encryption: [{nodeId: true}]}, {name: fast, disk: 'disk.transport == \"nvme\"'}]
encryption: {state: [{tpm: {secureBoot: true}}], ephemeral: [{kms: 'https://kms.example.org'}, {nodeId: true}]}
logs: ['tcp://10.0.0.9:6001']
kernelLogs: ['udp://10.0.0.9:6002', 'udp://10.0.0.9:6003']
annotations: {example.org/rack: a}
searchDomains: [example.org]
routes: [{to: 192.168.0.0/16, via: 10.0.0.2, metric: 5}]
vlans: [{id: 100, mtu: 9000, addresses: [10.100.0.11/24], routes: [{to: 10.200.0.0/16, via: 10.100.0.1}]}]
extensionServices: [{name: tailscale, environment: {TS_ROUTES: 10.0.0.0/16}, files: [{path: /a.conf, content: b}]}]
installDisk: {minSize: 20GiB, type: nvme, model: 'Samsung*'}
hostname: dhcp",
        );
        let service = &node.extension_services[0];
        assert_eq!(
            (service.name.as_str(), service.environment["TS_ROUTES"].expose()),
            ("tailscale", "10.0.0.0/16")
        );
        assert_eq!(
            (service.config_files[0].0.as_str(), service.config_files[0].1.expose()),
            ("/a.conf", "b")
        );
        let selector = node.install.disk_selector.as_ref().unwrap();
        assert_eq!(
            (selector.min_size, selector.kind, selector.model.as_deref()),
            (Some(20 << 30), Some(DiskKind::Nvme), Some("Samsung*"))
        );
        assert_eq!(node.install.disk, None);
        assert_eq!(node.sysctls["vm.max_map_count"], "262144");
        assert_eq!(node.kernel_modules[0].parameters, ["nbds_max=16"]);
        assert_eq!(node.extra_mounts[0], ExtraMount::bind("/var/lib/longhorn"));
        assert_eq!(
            (node.extra_mounts[1].source.as_str(), &node.extra_mounts[1].options[..]),
            ("/b", &["ro".to_owned()][..])
        );
        let [data, fast] = &node.user_volumes[..] else { panic!("{:?}", node.user_volumes) };
        assert_eq!(
            (data.disk.as_str(), data.filesystem.as_deref(), data.grow),
            ("!system_disk", Some("ext4"), Some(true))
        );
        assert_eq!(data.encryption.as_ref().unwrap().keys, [EncryptionKey::NodeId]);
        assert_eq!((fast.disk.as_str(), &fast.encryption), ("disk.transport == \"nvme\"", &None));
        assert_eq!(node.encrypt_state.unwrap().keys, [EncryptionKey::Tpm { check_secure_boot: true }]);
        let kms = EncryptionKey::Kms("https://kms.example.org".into());
        assert_eq!(node.encrypt_ephemeral.unwrap().keys, [kms, EncryptionKey::NodeId]);
        assert_eq!(node.log_destinations[0].endpoint, "tcp://10.0.0.9:6001");
        let names: Vec<&str> = node.kernel_logs.iter().map(|log| log.name.as_str()).collect();
        assert_eq!(names, ["kernel-1", "kernel-2"]);
        assert_eq!(
            (node.annotations["example.org/rack"].as_str(), &node.search_domains[..]),
            ("a", &["example.org".to_owned()][..])
        );
        let link = &node.links[0];
        assert_eq!(
            (link.routes[0].metric, link.routes[0].gateway.to_string().as_str()),
            (Some(5), "10.0.0.2")
        );
        let vlan = &link.vlans[0];
        assert_eq!(
            (vlan.id, vlan.mtu, vlan.addresses[0].to_string().as_str()),
            (100, Some(9000), "10.100.0.11/24")
        );
        assert_eq!(vlan.routes.len(), 1);
        assert_eq!(node.hostname, Hostname::Off);
    }
}
