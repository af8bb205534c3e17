//! The catalogue: add-ons that are known by name, with what Talos needs of them.
//!
//! Each entry is data: where it is, which version was tried, its values for Talos, and what the nodes must be told. The inventory wins
//! over everything that an entry says.

mod table;

use crate::addon::PodSecurity;

/// An add-on that is known by name.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    /// What it is made of.
    pub source: EntrySource,
    /// The namespace of its release.
    pub namespace: &'static str,
    /// Values that it needs on Talos, as YAML.
    pub values: &'static str,
    /// What pods in its namespace may do, where it is other than usual.
    pub pod_security: Option<PodSecurity>,
    /// Whether it brings the pod network.
    pub network: bool,
    /// Whether it runs nothing: it only defines kinds.
    pub definitions: bool,
    /// Entries that must be ready before it where they are installed as well.
    pub after: &'static [&'static str],
    /// Whether it is ready by itself; some wait for a person.
    pub wait: bool,
    /// Seconds until it must be ready.
    pub timeout: u64,
    /// What it needs of the nodes.
    pub needs: &'static [Need],
    /// Why it is not to be begun with, and what to use instead.
    pub retired: Option<&'static str>,
    /// Its Talos particulars, in a sentence or two.
    pub talos: &'static str,
}

/// What an entry is made of.
#[derive(Clone, Copy, Debug)]
pub enum EntrySource {
    /// A chart.
    Chart {
        /// Its name.
        chart: &'static str,
        /// Its repository, or the registry without its name.
        repo: &'static str,
        /// The version.
        version: &'static str,
    },
    /// Manifests on a server.
    Manifests {
        /// What is installed by them.
        version: &'static str,
        /// Address and SHA-256 of each.
        files: &'static [(&'static str, &'static str)],
    },
}

impl EntrySource {
    /// The version.
    pub fn version(&self) -> &'static str {
        match self {
            Self::Chart { version, .. } | Self::Manifests { version, .. } => version,
        }
    }
}

/// What an entry needs of the nodes, or of their settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// That Talos brings no network plugin.
    NoCni,
    /// That the API server is reached through KubePrism, and kube-proxy does not run if this add-on replaces it.
    KubeProxyReplacement,
    /// That the kubelet leaves it to the add-on to make nodes known.
    ExternalCloudProvider,
    /// That the kubelet's certificate is signed by the cluster.
    ServingCertificates,
    /// A system extension.
    Extension(&'static str),
    /// A volume for data, mounted in the kubelet.
    DataVolume(&'static str),
    /// That the parts of the control plane can be asked for their metrics.
    Metrics,
}

/// Every entry, by name.
pub fn catalogue() -> impl Iterator<Item = &'static Entry> {
    table::ENTRIES.iter()
}

/// The entry with a name.
pub(crate) fn entry(name: &str) -> Option<&'static Entry> {
    catalogue().find(|entry| entry.name == name)
}

/// The entry whose chart has a name.
pub(crate) fn by_chart(name: &str) -> Option<&'static Entry> {
    catalogue().find(|entry| matches!(entry.source, EntrySource::Chart { chart, .. } if chart == name))
}
