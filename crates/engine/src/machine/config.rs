//! The machine config of a node, its medium, and what all nodes of a role have in common.

use std::collections::BTreeMap;
use std::net::IpAddr;

use daedal_inventory::options::Machine;
use daedal_inventory::{Cluster, Node, Role};
use daedal_planner::RunningVersions;
use daedal_talos_config::nocloud::Cidata;
use daedal_talos_config::{
    ClusterOptions, Cni, Dhcp, Discovery, Hostname, Install, KubeSpan, Link, Lint, MachineConfig, Marks,
    NodeOptions, Patch, RegistryMirror, Release, Route, Secret, SecretsBundle, Severity,
};
use zeroize::Zeroizing;

use crate::error::{ConfigOwner, Error, chain};
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
    let failed = |source| Error::MachineConfig {
        whose: ConfigOwner::Node(node.name.clone()),
        source: Box::new(source),
    };
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
    Ok(judged(cluster, node, secrets)?.config)
}

/// The cluster as it would be declared for nodes of these versions; none if they are no versions.
pub(crate) fn of_versions(cluster: &Cluster, versions: &RunningVersions) -> Option<Cluster> {
    let mut cluster = cluster.clone();
    cluster.talos.version = versions.talos.trim_start_matches('v').parse().ok()?;
    cluster.kubernetes.version = versions.kubernetes.trim_start_matches('v').parse().ok()?;
    Some(cluster)
}

/// A machine config that is valid, and what of it deserves a second look.
pub(crate) struct Judged {
    /// The config, all patches applied.
    pub(crate) config: MachineConfig,
    /// What is probably not as meant.
    pub(crate) doubts: Vec<String>,
}

/// A node's machine config as [`patched`] gives it, with what was found besides.
pub(crate) fn judged(cluster: &Cluster, node: &Node, secrets: &SecretsBundle) -> Result<Judged, Error> {
    Recipe::of_node(cluster, node)?.judged(secrets)
}

/// The patches that a node's config gets, in their order.
fn patches<'a>(cluster: &'a Cluster, node: &'a Node) -> impl Iterator<Item = &'a daedal_inventory::Patch> {
    cluster.patches.iter().chain(&node.patches).filter(|patch| patch.is_for(node.role))
}

/// The marks for what a node's config may not show.
pub(crate) fn marks<'a>(cluster: &Cluster, node: &Node, secrets: &'a SecretsBundle) -> Marks<'a> {
    Marks::new(&secrets.cluster_secret)
        .hiding(patches(cluster, node).flat_map(daedal_inventory::Patch::secret_texts))
}

/// Why a node refuses a config, in its own words, but for the secrets that they quote.
pub(crate) fn refusal(
    config: &MachineConfig,
    marks: &Marks<'_>,
    error: &daedal_talos_client::Error,
) -> String {
    config.quoted(&chain(error), marks)
}

/// The patch by which a node has an address, if it is one.
pub(crate) fn address_from(
    cluster: &Cluster,
    node: &Node,
    secrets: &SecretsBundle,
    address: IpAddr,
) -> Result<Option<String>, Error> {
    let has = |config: &MachineConfig| config.addresses().iter().any(|net| net.addr() == address);
    Recipe::of_node(cluster, node)?.brought_by(secrets, has)
}

/// What all nodes of a role have in common, as `talosctl gen config` would write it.
pub(crate) struct RoleConfig {
    /// The config: no name, no addresses.
    pub(crate) config: MachineConfig,
    /// The patches that fit single nodes only, and are not in it.
    pub(crate) left_out: Vec<String>,
}

/// What all nodes of a role have in common. Patches that fit the nodes but not this (because they need what single nodes have, or
/// are about the other role while this one has no nodes) are left out of it.
pub(crate) fn role_config(
    cluster: &Cluster,
    role: Role,
    secrets: &SecretsBundle,
) -> Result<RoleConfig, Error> {
    let recipe = Recipe::of_role(cluster, role)?;
    let mut config = recipe.unjudged(secrets, 0)?;
    let mut faults = recipe.judge(&config).0;
    let mut left_out = Vec::new();
    for (origin, text) in &recipe.patches {
        let mut next = config.clone();
        let fits = recipe.apply(&mut next, text).is_ok().then(|| recipe.judge(&next).0);
        match fits.filter(|then| then.iter().all(|fault| faults.contains(fault))) {
            Some(then) => (config, faults) = (next, then),
            None => left_out.push((*origin).to_owned()),
        }
    }
    Ok(RoleConfig { config, left_out })
}

/// All that a machine config is made from, the secrets apart.
struct Recipe<'a> {
    whose: ConfigOwner,
    release: Release,
    cluster: ClusterOptions,
    machine: NodeOptions,
    /// Where each patch is, and its text with all facts in place, in their order.
    patches: Vec<(&'a str, String)>,
}

impl<'a> Recipe<'a> {
    fn of_node(cluster: &'a Cluster, node: &'a Node) -> Result<Self, Error> {
        let patches = patches(cluster, node);
        let patches = patches.map(|patch| (patch.origin.as_str(), patch.text_for(cluster, node))).collect();
        Self::new(cluster, ConfigOwner::Node(node.name.clone()), node_options(cluster, node)?, patches)
    }

    fn of_role(cluster: &'a Cluster, role: Role) -> Result<Self, Error> {
        // What speaks of one node has no place in what all have in common; then any node will do.
        let shared = cluster.patches.iter().filter(|patch| patch.is_for(role) && !patch.speaks_of_nodes());
        let shared = shared.flat_map(|patch| cluster.nodes.first().map(|node| (patch, node)));
        let patches =
            shared.map(|(patch, node)| (patch.origin.as_str(), patch.text_for(cluster, node))).collect();
        Self::new(cluster, ConfigOwner::Role(role), role_options(cluster, role), patches)
    }

    fn new(
        cluster: &Cluster,
        whose: ConfigOwner,
        machine: NodeOptions,
        patches: Vec<(&'a str, String)>,
    ) -> Result<Self, Error> {
        let release = Release::of(&cluster.talos.version.to_string())
            .map_err(|source| Error::MachineConfig { whose: whose.clone(), source: Box::new(source) })?;
        Ok(Self { whose, release, cluster: cluster_options(cluster)?, machine, patches })
    }

    /// The config, if it is one that a node would take.
    fn judged(&self, secrets: &SecretsBundle) -> Result<Judged, Error> {
        let config = self.unjudged(secrets, usize::MAX)?;
        let (faults, doubts) = self.judge(&config);
        let Some(first) = faults.first() else { return Ok(Judged { config, doubts }) };
        let patch = self.brought_by(secrets, |config| self.judge(config).0.contains(first))?;
        Err(Error::InvalidConfig { whose: self.whose.clone(), patch, faults })
    }

    /// The patch that brought what holds of the whole config: the last one before which it did not.
    fn brought_by(
        &self,
        secrets: &SecretsBundle,
        holds: impl Fn(&MachineConfig) -> bool,
    ) -> Result<Option<String>, Error> {
        let mut patch = None;
        for (before, (origin, _)) in self.patches.iter().enumerate() {
            if !holds(&self.unjudged(secrets, before)?) {
                patch = Some((*origin).to_owned());
            }
        }
        Ok(patch)
    }

    /// What makes a config invalid, and what is probably not as meant, in words.
    fn judge(&self, config: &MachineConfig) -> (Vec<String>, Vec<String>) {
        let found = config.lint(self.release).into_iter();
        let (faults, doubts): (Vec<Lint>, Vec<Lint>) =
            found.partition(|lint| lint.severity == Severity::Error);
        let words = |lints: Vec<Lint>| lints.iter().map(ToString::to_string).collect();
        (words(faults), words(doubts))
    }

    fn apply(&self, config: &mut MachineConfig, patch: &str) -> Result<(), daedal_talos_config::Error> {
        config.apply_patch(&Patch::for_contract(patch, self.release.contract)?)
    }

    /// The config with the first so many patches applied, whatever came of it.
    fn unjudged(&self, secrets: &SecretsBundle, patches: usize) -> Result<MachineConfig, Error> {
        let mut config = MachineConfig::generate(secrets, &self.cluster, &self.machine)
            .map_err(|source| Error::MachineConfig { whose: self.whose.clone(), source: Box::new(source) })?;
        for (origin, text) in self.patches.iter().take(patches) {
            self.apply(&mut config, text).map_err(|source| Error::Patch {
                whose: self.whose.clone(),
                patch: (*origin).to_owned(),
                source: Box::new(source),
            })?;
        }
        Ok(config)
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
fn role_options(cluster: &Cluster, role: Role) -> NodeOptions {
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
