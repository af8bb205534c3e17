//! The machine configs of a cluster, each made once for all who need it.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use daedal_inventory::{Cluster, Node, Role};
use daedal_talos_config::nocloud::Cidata;
use daedal_talos_config::{MachineConfig, Marks, Secret, SecretsBundle};
use zeroize::Zeroizing;

use crate::config::{self, node_options};
use crate::error::{ConfigOwner, Error};
use crate::versions::RunningVersions;
use crate::vet::own_addresses;

/// A node's machine config with all patches applied, and found valid.
#[derive(Debug)]
pub struct NodeConfig {
    whose: ConfigOwner,
    text: Secret,
    /// What is probably not as meant.
    pub(crate) doubts: Vec<String>,
    /// The addresses that must be this node's alone.
    pub(crate) own_addresses: Vec<IpAddr>,
}

impl NodeConfig {
    fn make(cluster: &Cluster, node: &Node, secrets: &SecretsBundle) -> Result<Self, Error> {
        let judged = config::judged(cluster, node, secrets)?;
        Ok(Self {
            whose: ConfigOwner::Node(node.name.clone()),
            text: judged.config.to_yaml(),
            doubts: judged.doubts,
            own_addresses: own_addresses(&judged.config),
        })
    }

    fn media(&self, cluster: &Cluster, node: &Node) -> Result<Zeroizing<Vec<u8>>, Error> {
        let failed = |source| Error::MachineConfig { whose: self.whose.clone(), source: Box::new(source) };
        let options = node_options(cluster, node)?;
        let instance = crate::digest::node_digest(cluster, node);
        let media = Cidata { user_data: self.text.clone(), ..Cidata::new(&self.read()?, &instance) };
        // The network is there even before the config is read, so that a broken config can be seen from outside. A bond comes
        // with the config only: before it, one of its cards would have the node's address, and keep it.
        let media = match options.bonds.is_empty() {
            true => media.with_network(&options.links, &options.nameservers).map_err(failed)?,
            false => media,
        };
        media.to_iso().map_err(failed)
    }

    /// The whole config as YAML.
    pub fn text(&self) -> &Secret {
        &self.text
    }

    /// The config as a node reads it.
    pub fn read(&self) -> Result<MachineConfig, Error> {
        MachineConfig::from_yaml(self.text.expose())
            .map_err(|source| Error::MachineConfig { whose: self.whose.clone(), source: Box::new(source) })
    }
}

/// What all nodes of a role have in common, as `talosctl gen config` would write it: no name, no addresses.
#[derive(Debug)]
pub struct RoleConfig {
    /// The config as YAML.
    pub text: Secret,
    /// The patches that fit single nodes only, and are not in it.
    pub left_out: Vec<String>,
}

/// The machine configs of a cluster with its secrets.
#[derive(Debug)]
pub struct Configs {
    cluster: Cluster,
    secrets: SecretsBundle,
    declared: RunningVersions,
    clusters: Once<RunningVersions, Cluster>,
    nodes: Once<(String, RunningVersions), NodeConfig>,
    roles: Once<Role, RoleConfig>,
    generations: Arc<Generations>,
}

impl Configs {
    /// Those of a cluster whose addresses are known as far as they can be. None is made before somebody asks for it.
    pub fn new(cluster: &Cluster, secrets: &SecretsBundle) -> Self {
        Self {
            cluster: cluster.clone(),
            secrets: secrets.clone(),
            declared: RunningVersions::declared(cluster),
            clusters: Once::default(),
            nodes: Once::default(),
            roles: Once::default(),
            generations: Arc::default(),
        }
    }

    /// The cluster that they are of.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The secrets that they hold.
    pub fn secrets(&self) -> &SecretsBundle {
        &self.secrets
    }

    /// The versions that are declared.
    pub fn declared(&self) -> &RunningVersions {
        &self.declared
    }

    /// A node's config as it is declared.
    pub fn node(&self, name: &str) -> Result<Arc<NodeConfig>, Error> {
        self.node_of(name, &self.declared)
    }

    /// A node's config as it would be declared for the versions that it runs.
    pub fn node_of(&self, name: &str, versions: &RunningVersions) -> Result<Arc<NodeConfig>, Error> {
        let key = (name.to_owned(), versions.clone());
        self.nodes.get(&key, || {
            if *versions == self.declared {
                return self.make(&self.cluster, &key);
            }
            let cluster = self.clusters.get(versions, || versions.of(&self.cluster))?;
            self.make(&cluster, &key)
        })
    }

    fn make(&self, cluster: &Cluster, key: &(String, RunningVersions)) -> Result<NodeConfig, Error> {
        let node = cluster.node(&key.0).ok_or_else(|| Error::NoNode { name: key.0.clone() })?;
        self.generations.count(key);
        NodeConfig::make(cluster, node, &self.secrets)
    }

    /// What all nodes of a role have in common.
    pub fn role(&self, role: Role) -> Result<Arc<RoleConfig>, Error> {
        self.roles.get(&role, || {
            let made = config::role_config(&self.cluster, role, &self.secrets)?;
            Ok(RoleConfig { text: made.config.to_yaml(), left_out: made.left_out })
        })
    }

    /// The marks for what a node's config may not show.
    pub fn marks(&self, node: &Node) -> Marks<'_> {
        config::marks(&self.cluster, node, &self.secrets)
    }

    /// A node's config media: a `cidata` volume, the same bytes for the same inventory and secrets.
    pub fn media(&self, node: &Node) -> Result<Zeroizing<Vec<u8>>, Error> {
        self.node(&node.name)?.media(&self.cluster, node)
    }
}

/// The config media of a machine that is no node of the cluster but declared like one, and not kept.
pub fn passing_media(
    cluster: &Cluster,
    node: &Node,
    secrets: &SecretsBundle,
) -> Result<Zeroizing<Vec<u8>>, Error> {
    NodeConfig::make(cluster, node, secrets)?.media(cluster, node)
}

/// The configs that were asked for last, for those who do not know each other.
#[derive(Debug, Default)]
pub struct SharedConfigs {
    last: Mutex<Option<Arc<Configs>>>,
    generations: Arc<Generations>,
}

impl SharedConfigs {
    /// The configs of this very cluster with these very secrets.
    pub fn of(&self, cluster: &Cluster, secrets: &SecretsBundle) -> Arc<Configs> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = last.as_ref().filter(|last| last.secrets == *secrets && last.cluster == *cluster)
        {
            return last.clone();
        }
        let generations = self.generations.clone();
        let new = Arc::new(Configs { generations, ..Configs::new(cluster, secrets) });
        last.insert(new).clone()
    }

    /// How often each node's config was made, by name and versions.
    pub fn generations(&self) -> BTreeMap<(String, String), usize> {
        self.generations.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// How often each config was made.
#[derive(Debug, Default)]
struct Generations(Mutex<BTreeMap<(String, String), usize>>);

impl Generations {
    fn count(&self, (node, versions): &(String, RunningVersions)) {
        let versions = format!("Talos {}, Kubernetes {}", versions.talos, versions.kubernetes);
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry((node.clone(), versions)).or_default() += 1;
    }
}

/// A value being made by one, while others wait for it.
type Slot<V> = Arc<Mutex<Option<Arc<V>>>>;

/// Values that are made once each. What could not be made is tried again.
#[derive(Debug)]
struct Once<K, V>(Mutex<HashMap<K, Slot<V>>>);

impl<K, V> Default for Once<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone + Eq + Hash, V> Once<K, V> {
    fn get(&self, key: &K, make: impl FnOnce() -> Result<V, Error>) -> Result<Arc<V>, Error> {
        let slot = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.entry(key.clone()).or_default().clone()
        };
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = &*slot {
            return Ok(made.clone());
        }
        let made = Arc::new(make()?);
        *slot = Some(made.clone());
        Ok(made)
    }
}
