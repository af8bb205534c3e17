//! How machine configs are made from the inventory: a node's, and what all nodes of a role have in common.
//!
//! Whoever needs one asks [`Configs`](crate::Configs), which makes each of them once.

mod options;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

use daedal_inventory::{Cluster, Node, Role};
use daedal_talos_config::{
    ClusterOptions, Lint, MachineConfig, Marks, NodeOptions, Patch, Release, SecretsBundle, Severity,
};

use crate::error::{ConfigOwner, Error};

pub(crate) use self::options::node_options;
use self::options::{cluster_options, role_options};

/// A machine config that is valid, and what of it deserves a second look.
pub(crate) struct Judged {
    /// The config, all patches applied.
    pub(crate) config: MachineConfig,
    /// What is probably not as meant.
    pub(crate) doubts: Vec<String>,
}

/// A node's machine config with all patches applied, and found valid: whatever leaves for a node comes from here.
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
pub(crate) struct Common {
    /// The config: no name, no addresses.
    pub(crate) config: MachineConfig,
    /// The patches that fit single nodes only, and are not in it.
    pub(crate) left_out: Vec<String>,
}

/// What all nodes of a role have in common. Patches that fit the nodes but not this (because they need what single nodes have, or
/// are about the other role while this one has no nodes) are left out of it.
pub(crate) fn role_config(cluster: &Cluster, role: Role, secrets: &SecretsBundle) -> Result<Common, Error> {
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
    Ok(Common { config, left_out })
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
