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
    /// A file of a release whose digest nobody published: the inventory names it.
    Release {
        /// What is installed by it.
        version: &'static str,
        /// Its address.
        url: &'static str,
    },
    /// Nothing: Talos brings it.
    Talos,
}

impl EntrySource {
    /// The version; none of what Talos brings.
    pub fn version(&self) -> &'static str {
        match self {
            Self::Chart { version, .. } | Self::Manifests { version, .. } | Self::Release { version, .. } => {
                version
            }
            Self::Talos => "",
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
    /// A volume for data with a name, mounted in the kubelet, and how the chart is told of it.
    DataVolume(&'static str, DataValues),
    /// An account on Proxmox: how its user ends, and what its config is called in the store where a command of Daedal makes it.
    ProxmoxAccount {
        /// The user is `CLUSTER-SUFFIX@pve`, the token `SUFFIX`.
        suffix: &'static str,
        /// The config's name in the store, and the command.
        kept: Option<(&'static str, &'static str)>,
    },
    /// Values that are secrets, by their paths.
    Secrets(&'static [&'static str]),
    /// That the parts of the control plane can be asked for their metrics.
    Metrics,
}

/// How a chart is told where its data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataValues {
    /// As Longhorn is.
    Longhorn,
    /// As the local path provisioner is.
    LocalPath,
}

/// Every entry, by name.
pub fn catalogue() -> impl Iterator<Item = &'static Entry> {
    table::ENTRIES.iter()
}

/// The entry with a name.
pub(crate) fn entry(name: &str) -> Option<&'static Entry> {
    catalogue().find(|entry| entry.name == name)
}

/// The table of all entries, in Markdown.
pub fn catalogue_table() -> String {
    let mut table = String::from("| name | what | version | namespace | on Talos |\n|---|---|---|---|---|\n");
    for entry in catalogue() {
        let version = entry.source.version();
        let security =
            entry.pod_security.map(|security| format!(" ({})", security.label())).unwrap_or_default();
        let retired = entry.retired.map(|why| format!("**Retired.** {why} ")).unwrap_or_default();
        let row = [
            format!("`{}`", entry.name),
            entry.about.to_owned(),
            version.to_owned(),
            format!("{}{security}", entry.namespace),
            format!("{retired}{}", entry.talos),
        ];
        table += &format!("| {} |\n", row.join(" | "));
    }
    table
}

/// The entry whose chart has a name.
pub(crate) fn by_chart(name: &str) -> Option<&'static Entry> {
    catalogue().find(|entry| matches!(entry.source, EntrySource::Chart { chart, .. } if chart == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_complete() {
        let names: Vec<&str> = catalogue().map(|entry| entry.name).collect();
        assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
        for entry in catalogue() {
            let is_talos = matches!(entry.source, EntrySource::Talos);
            assert_eq!(entry.source.version().is_empty(), is_talos, "{entry:?}");
            assert_eq!(entry.namespace.is_empty(), is_talos, "{entry:?}");
            assert!(!entry.about.is_empty() && !entry.about.ends_with('.'), "{entry:?}");
            assert!(entry.talos.is_empty() || entry.talos.ends_with('.'), "{entry:?}");
            assert!(entry.retired.is_none_or(|why| why.ends_with('.')), "{entry:?}");
            assert!(entry.after.iter().all(|name| names.contains(name)), "{entry:?}");
            let (documents, problems) = crate::yaml::parse(entry.values, 0);
            assert!(problems.is_empty() && documents.len() <= 1, "{entry:?}");
            if let EntrySource::Manifests { files, .. } = entry.source {
                for (url, sha256) in files {
                    assert!(url.starts_with("https://") && url.contains(entry.source.version()), "{url}");
                    assert!(hex::decode(sha256).is_ok_and(|bytes| bytes.len() == 32), "{url}");
                }
            }
        }
    }
}
