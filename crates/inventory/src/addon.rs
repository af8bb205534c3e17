//! What is installed in the cluster: add-ons, each a chart or plain manifests.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::secret::SecretRef;
use crate::yaml;

/// An add-on with nothing left to decide. Its values hold no secret: those are referred to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Addon {
    /// What it is called; its release has the same name.
    pub name: String,
    /// The entry of the catalogue that it is, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
    /// The namespace of its release.
    pub namespace: String,
    /// What it is made of.
    pub source: AddonSource,
    /// Values of a chart, in order; later ones win.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<AddonText>,
    /// Values that are secrets, by their dotted path in the values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secret_values: BTreeMap<String, SecretRef>,
    /// Values that the store keeps, by their dotted path in the values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kept_values: BTreeMap<String, KeptValue>,
    /// Objects that come with it besides those of its source.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra: Vec<AddonText>,
    /// What pods in its namespace may do, where it is other than usual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_security: Option<PodSecurity>,
    /// Which network policies its namespace gets, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policies: Option<Policies>,
    /// Whether nodes become Ready by it: it brings the pod network.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub network: bool,
    /// Names of the add-ons that must be ready before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// Whether it is waited for until it is ready.
    pub wait: bool,
    /// Seconds until it must be ready.
    pub timeout: u64,
    /// Whether fields that others own are taken from them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

/// A value that the store keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeptValue {
    /// What the file is called in the store; it is YAML.
    pub name: String,
    /// Where the value is in it, such as `clusters[0].token_secret`.
    pub key: String,
    /// The command that keeps it there.
    pub command: String,
}

impl KeptValue {
    /// The value in a text of this name; none if there is no text at its place.
    pub fn of(&self, text: &str) -> Option<String> {
        let (documents, problems) = yaml::parse(text, 0);
        let root = documents.first().filter(|_| problems.is_empty())?;
        let steps =
            self.key.split('.').flat_map(|part| part.split('[').map(|step| step.trim_end_matches(']')));
        let found = steps.into_iter().try_fold(root, |node, step| match &node.value {
            yaml::Value::Seq(items) => items.get(step.parse::<usize>().ok()?),
            _ => node.get(step).map(|entry| &entry.value),
        })?;
        match &found.value {
            yaml::Value::Scalar { text, .. } if !found.is_null() => Some(text.clone()),
            _ => None,
        }
    }
}

/// What an add-on is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AddonSource {
    /// A chart of a repository (`https://…`) or a registry (`oci://…`).
    Chart {
        /// Its name in the repository; for a registry, the last part of its address.
        chart: String,
        /// The repository's address, or the registry's without the chart's name.
        repo: String,
        /// The exact version.
        version: String,
    },
    /// A chart in a folder or an archive, relative to the inventory.
    Local {
        /// Its path.
        path: String,
    },
    /// Plain manifests.
    Manifests(Vec<ManifestSource>),
}

/// Where manifests are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ManifestSource {
    /// Read with the inventory.
    Text(AddonText),
    /// On a server.
    Url {
        /// The address.
        url: String,
        /// SHA-256 of what it must be, as lower-case hex.
        sha256: String,
    },
}

/// A text of an add-on, and where it came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AddonText {
    /// Where it came from, for messages.
    pub origin: String,
    /// The YAML.
    pub text: String,
}

/// Network policies of an add-on's namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Policies {
    /// Its pods are reached from their own namespace, and from elsewhere only where they offer something.
    Baseline,
}

/// What Kubernetes lets pods of a namespace do: its pod security standards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PodSecurity {
    /// Everything.
    Privileged,
    /// What is not known to lead out of a container.
    Baseline,
    /// What is hardened by today's practice.
    Restricted,
}

impl PodSecurity {
    /// As the label of a namespace has it.
    pub fn label(self) -> &'static str {
        match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_values_are_found_by_their_keys() {
        let text = "clusters:\n  - {\"url\":\"https://a:8006\",\"insecure\":false,\"token_secret\":\"s\"}\n";
        let of = |key: &str| {
            let kept = KeptValue { name: "ccm.yaml".into(), key: key.into(), command: String::new() };
            kept.of(text)
        };
        assert_eq!(of("clusters[0].token_secret").as_deref(), Some("s"));
        assert_eq!(of("clusters[0].url").as_deref(), Some("https://a:8006"));
        for missing in ["clusters", "clusters[1].url", "clusters.url", "clusters[0].else", "url", ""] {
            assert_eq!(of(missing), None, "{missing}");
        }
    }
}
