//! The inventory as options of machine configs.

use std::collections::BTreeMap;

use daedal_inventory::options::Machine;
use daedal_inventory::{Cluster, Node, Role};
use daedal_talos_config::{
    ClusterOptions, Cni, Dhcp, Discovery, Hostname, Install, KubeSpan, Link, NodeOptions, RegistryMirror,
    Route,
};

use crate::error::{ConfigOwner, Error};
use crate::{image, settings};

pub(super) fn cluster_options(cluster: &Cluster) -> Result<ClusterOptions, Error> {
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

pub(crate) fn node_options(cluster: &Cluster, node: &Node) -> Result<NodeOptions, Error> {
    let failed = |source| Error::MachineConfig {
        whose: ConfigOwner::Node(node.name.clone()),
        source: Box::new(source),
    };
    let mut options = NodeOptions::new(node.role, &node.name);
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
    options.vip = cluster.network.vip.filter(|_| node.role == Role::ControlPlane);
    let own =
        Shared { machine: node.machine.clone(), labels: node.labels.clone(), taints: node.taints.clone() };
    own.apply(cluster, &mut options);
    Ok(options)
}

/// What the cluster says, and what all nodes of the role agree on.
pub(super) fn role_options(cluster: &Cluster, role: Role) -> NodeOptions {
    let mut options = NodeOptions::new(role, Hostname::Stable);
    let mut nodes = cluster.nodes.iter().filter(|node| node.role == role);
    let mut shared = Shared { machine: cluster.machine.clone(), ..Shared::default() };
    if let Some(first) = nodes.next() {
        let mut agreed = first.machine.clone();
        (shared.labels, shared.taints) = (first.labels.clone(), first.taints.clone());
        for node in nodes {
            agreed.keep_common(&node.machine);
            shared.labels.retain(|key, value| node.labels.get(key) == Some(value));
            shared.taints.retain(|key, value| node.taints.get(key) == Some(value));
        }
        shared.machine.extend(&agreed);
    }
    shared.apply(cluster, &mut options);
    options
}

/// What does not hang on one machine's cards and name.
#[derive(Default)]
struct Shared {
    machine: Machine,
    labels: BTreeMap<String, String>,
    taints: BTreeMap<String, String>,
}

impl Shared {
    fn apply(self, cluster: &Cluster, options: &mut NodeOptions) {
        options.nameservers.clone_from(&cluster.network.dns);
        options.time_servers.clone_from(&cluster.network.ntp);
        options.install = install(cluster);
        options.labels = self.labels.into_iter().collect();
        options.taints = self.taints.into_iter().collect();
        settings::apply(&self.machine, options);
    }
}

/// A disk image is installed already; the image named here is what an upgrade takes.
fn install(cluster: &Cluster) -> Install {
    Install {
        disk: Some(cluster.talos.install_disk.clone()),
        disk_selector: None,
        image: Some(image::installer(cluster)),
    }
}
