//! Whether a running node gets the declared machine config: decided here by what was seen of both.

use daedal_inventory::{Cluster, Node};

use crate::plan::FieldChange;
use crate::why::WhyConfigStays;
use crate::world::{ConfigDifference, ConfigView, DryRun};

/// What becomes of the machine config that a node runs on.
#[derive(Debug)]
pub(crate) enum ConfigFate<'v> {
    /// It was not seen, or the node was not asked what it would do with another.
    Unseen,
    /// It is the declared one.
    AsDeclared,
    /// The declared one takes its place.
    Replaced {
        /// What differs.
        difference: &'v ConfigDifference,
        /// Whether the node has to reboot for it.
        reboot: bool,
    },
    /// It differs and stays.
    Stays(WhyConfigStays),
}

impl ConfigFate<'_> {
    /// Whether the node's next upgrade will be to another image than before.
    pub(crate) fn brings_installer(&self) -> bool {
        match self {
            Self::Replaced { difference, .. } => {
                difference.running.installer != difference.declared.installer
            }
            Self::Unseen | Self::AsDeclared | Self::Stays(_) => false,
        }
    }
}

/// What becomes of a node's config.
pub(crate) fn config_fate<'v>(cluster: &Cluster, node: &Node, view: &'v ConfigView) -> ConfigFate<'v> {
    match view {
        ConfigView::Unknown => ConfigFate::Unseen,
        ConfigView::AsDeclared => ConfigFate::AsDeclared,
        ConfigView::NotMade { talos, why } => ConfigFate::Stays(WhyConfigStays::NoConfigForVersion {
            runs: talos.clone(),
            declared: format!("v{}", cluster.talos.version),
            why: why.clone(),
        }),
        ConfigView::Differs(difference) => match (why_config_stays(node, difference), &difference.answer) {
            (Some(why), _) => ConfigFate::Stays(why),
            (None, DryRun::Accepted { reboot }) => ConfigFate::Replaced { difference, reboot: *reboot },
            (None, DryRun::Refused { text }) => {
                ConfigFate::Stays(WhyConfigStays::Refused { text: text.clone() })
            }
            (None, DryRun::NotAsked) => ConfigFate::Unseen,
        },
    }
}

/// Fields that say which cluster and which machine a node is.
const IDENTITY: [&str; 12] = [
    "machine.type",
    "machine.token",
    "machine.ca",
    "cluster.id",
    "cluster.secret",
    "cluster.token",
    "cluster.ca",
    "cluster.aggregatorCA",
    "cluster.serviceAccount",
    "cluster.etcd.ca",
    "cluster.secretboxEncryptionSecret",
    "cluster.aescbcEncryptionSecret",
];
/// The same from Talos 1.14 on.
const IDENTITY_DOCUMENTS: [&str; 5] = [
    "DiscoveryIdentityConfig",
    "KubeAPIServerCAConfig",
    "KubeAggregatorCAConfig",
    "KubeServiceAccountConfig",
    "KubeEtcdEncryptionConfig",
];
/// Fields that say which disk the system is on.
const INSTALL_DISK: [&str; 2] = ["machine.install.disk", "machine.install.diskSelector"];

/// Why the declared config must not be given to a running node, whatever the node would say to it; none if it may.
pub fn why_config_stays(node: &Node, difference: &ConfigDifference) -> Option<WhyConfigStays> {
    let fields = difference
        .changes
        .iter()
        .flat_map(|document| document.fields.iter().map(move |field| (document.document.as_str(), field)));
    for (document, field) in fields {
        if let Some(why) = why_field_stays(document, field) {
            return Some(why);
        }
    }
    let ConfigDifference { running, declared, .. } = difference;
    // Who asked for its address and answers where it is declared has that very address.
    if let Some(to) = node.address
        && declared.addresses.contains(&to)
        && !running.addresses.contains(&to)
        && !running.asks_dhcp
    {
        return Some(WhyConfigStays::Address { to });
    }
    let mac = node.mac.to_ascii_lowercase();
    if declared.macs.contains(&mac) && !running.macs.contains(&mac) {
        return Some(WhyConfigStays::Mac { mac });
    }
    None
}

fn why_field_stays(document: &str, field: &FieldChange) -> Option<WhyConfigStays> {
    let FieldChange { path, from, to } = field;
    let (from, to) = (from.clone(), to.clone());
    let main = document == "v1alpha1";
    // Accepted authorities are there to be changed.
    let identity = (main && IDENTITY.iter().any(|prefix| below(path, prefix)))
        || (IDENTITY_DOCUMENTS.contains(&document) && !below(path, "acceptedCAs"));
    let disk = (main && INSTALL_DISK.iter().any(|prefix| below(path, prefix)))
        || (document == "UnattendedInstallConfig" && path.to_ascii_lowercase().contains("disk"));
    let name =
        (main && path == "machine.network.hostname") || (document == "HostnameConfig" && path == "hostname");
    if identity {
        Some(WhyConfigStays::Identity { document: document.to_owned(), path: path.clone() })
    } else if disk {
        Some(WhyConfigStays::InstallDisk { from, to })
    } else if name {
        Some(WhyConfigStays::Name { from, to })
    } else if names_kubernetes(document, path) {
        Some(WhyConfigStays::KubernetesVersion { path: path.clone(), from, to })
    } else {
        None
    }
}

/// Whether a path is this one, or leads further into it.
fn below(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Whether a field of a machine config names an image of Kubernetes itself.
pub fn names_kubernetes(document: &str, path: &str) -> bool {
    path == "machine.kubelet.image"
        || (path.ends_with("image") && (path.starts_with("cluster.") || document.starts_with("Kube")))
}
