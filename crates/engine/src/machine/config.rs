//! The machine config of a node, its medium, and what all nodes of a role have in common.

use daedal_inventory::{Cluster, Node, Role};
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

pub(super) fn node_options(cluster: &Cluster, node: &Node) -> Result<NodeOptions, Error> {
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
