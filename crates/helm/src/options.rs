//! What the caller decides about a rendering.

use std::collections::BTreeMap;

use crate::error::Error;
use crate::limits::Limits;

/// A Kubernetes version as templates see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeVersion {
    /// The whole version, with a leading `v`.
    pub version: String,
    /// Major number.
    pub major: String,
    /// Minor number.
    pub minor: String,
}

impl KubeVersion {
    /// Reads `1.29`, `v1.29.3` or `1.29.3+k3s1`.
    pub fn parse(text: &str) -> Result<KubeVersion, Error> {
        let invalid =
            || Error::Values(format!("invalid kube version '{text}': could not parse {text:?} as version"));
        let body = text.trim().strip_prefix('v').unwrap_or(text.trim());
        let end = body.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(body.len());
        let numbers: Vec<u64> =
            body[..end].split('.').map(|n| n.parse().map_err(|_| invalid())).collect::<Result<_, _>>()?;
        if numbers.len() < 2 {
            return Err(invalid());
        }
        let shown: Vec<String> = numbers.iter().map(u64::to_string).collect();
        Ok(KubeVersion {
            version: format!("v{}", shown.join(".")),
            major: shown[0].clone(),
            minor: shown[1].clone(),
        })
    }
}

/// What the cluster and the renderer can do, as `.Capabilities`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The cluster's version.
    pub kube_version: KubeVersion,
    /// API versions (`apps/v1`) and kinds (`apps/v1/Deployment`) the cluster serves.
    pub api_versions: Vec<String>,
    /// The Helm version templates see. From `v4` on charts are rendered as Helm 4 does: `.Chart` is a map, and webhook
    /// configurations are installed after what they might guard.
    pub helm_version: String,
    /// The Go version templates see.
    pub go_version: String,
}

/// The API versions Helm assumes when it cannot ask a cluster.
const API_VERSIONS: &[&str] = &[
    "v1",
    "admissionregistration.k8s.io/v1",
    "admissionregistration.k8s.io/v1alpha1",
    "admissionregistration.k8s.io/v1beta1",
    "internal.apiserver.k8s.io/v1alpha1",
    "apps/v1",
    "apps/v1beta1",
    "apps/v1beta2",
    "authentication.k8s.io/v1",
    "authentication.k8s.io/v1alpha1",
    "authentication.k8s.io/v1beta1",
    "authorization.k8s.io/v1",
    "authorization.k8s.io/v1beta1",
    "autoscaling/v1",
    "autoscaling/v2",
    "autoscaling/v2beta1",
    "autoscaling/v2beta2",
    "batch/v1",
    "batch/v1beta1",
    "certificates.k8s.io/v1",
    "certificates.k8s.io/v1beta1",
    "certificates.k8s.io/v1alpha1",
    "coordination.k8s.io/v1alpha2",
    "coordination.k8s.io/v1beta1",
    "coordination.k8s.io/v1",
    "discovery.k8s.io/v1",
    "discovery.k8s.io/v1beta1",
    "events.k8s.io/v1",
    "events.k8s.io/v1beta1",
    "extensions/v1beta1",
    "flowcontrol.apiserver.k8s.io/v1",
    "flowcontrol.apiserver.k8s.io/v1beta1",
    "flowcontrol.apiserver.k8s.io/v1beta2",
    "flowcontrol.apiserver.k8s.io/v1beta3",
    "networking.k8s.io/v1",
    "networking.k8s.io/v1beta1",
    "node.k8s.io/v1",
    "node.k8s.io/v1alpha1",
    "node.k8s.io/v1beta1",
    "policy/v1",
    "policy/v1beta1",
    "rbac.authorization.k8s.io/v1",
    "rbac.authorization.k8s.io/v1beta1",
    "rbac.authorization.k8s.io/v1alpha1",
    "resource.k8s.io/v1",
    "resource.k8s.io/v1beta2",
    "resource.k8s.io/v1beta1",
    "resource.k8s.io/v1alpha3",
    "scheduling.k8s.io/v1alpha1",
    "scheduling.k8s.io/v1beta1",
    "scheduling.k8s.io/v1",
    "storage.k8s.io/v1beta1",
    "storage.k8s.io/v1",
    "storage.k8s.io/v1alpha1",
    "storagemigration.k8s.io/v1alpha1",
    "apiextensions.k8s.io/v1beta1",
    "apiextensions.k8s.io/v1",
];

impl Capabilities {
    pub(crate) fn is_helm4(&self) -> bool {
        let major = self.helm_version.trim_start_matches('v').split('.').next().unwrap_or_default();
        major.parse::<u32>().is_ok_and(|major| major >= 4)
    }
}

impl Default for Capabilities {
    fn default() -> Self {
        Capabilities {
            kube_version: KubeVersion { version: "v1.34.0".into(), major: "1".into(), minor: "34".into() },
            api_versions: API_VERSIONS.iter().map(|v| (*v).to_owned()).collect(),
            helm_version: "v3.19.0".into(),
            go_version: "go1.24.7".into(),
        }
    }
}

/// Refuses names a release may not have.
pub(crate) fn check_release_name(name: &str) -> Result<(), Error> {
    let wrong = |message| Err(Error::ReleaseName { name: name.to_owned(), message });
    if name.is_empty() {
        return wrong("no name provided");
    }
    let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let label = |part: &str| {
        let bytes = part.as_bytes();
        edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(|b| *b == b'-' || edge(Some(b)))
    };
    if name.len() > 53 || !name.split('.').all(label) {
        return wrong(
            r"invalid release name, must match regex ^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$ and the length must not be longer than 53",
        );
    }
    Ok(())
}

/// How a chart is rendered.
#[derive(Clone, Debug)]
pub struct RenderOptions {
    /// `.Release.Name`.
    pub release_name: String,
    /// `.Release.Namespace`.
    pub namespace: String,
    /// `.Release.IsUpgrade`; otherwise it is an install.
    pub is_upgrade: bool,
    /// `.Release.Revision`.
    pub revision: u32,
    /// `.Capabilities`.
    pub capabilities: Capabilities,
    /// Skips `values.schema.json`.
    pub skip_schema: bool,
    /// The documents that `values.schema.json` refers to on the network, by address. A rendering that lacks one ends with
    /// [`Error::SchemaReference`]; [`Fetcher::schema`](crate::Fetcher::schema) gets it.
    pub schemas: BTreeMap<String, Vec<u8>>,
    /// Missing keys are errors instead of nothing.
    pub strict: bool,
    /// The present, in seconds and nanoseconds since 1970.
    pub now: (i64, u32),
    /// What random values, keys among them, are derived from: fresh randomness, unless the output must repeat.
    pub seed: [u8; 32],
    /// Bounds on time and memory.
    pub limits: Limits,
}

impl Default for RenderOptions {
    fn default() -> Self {
        RenderOptions {
            release_name: "release-name".into(),
            namespace: "default".into(),
            is_upgrade: false,
            revision: 1,
            capabilities: Capabilities::default(),
            skip_schema: false,
            schemas: BTreeMap::new(),
            strict: false,
            now: (0, 0),
            seed: rand::random(),
            limits: Limits::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_renderings_share_their_random_values_by_default() {
        assert_ne!(RenderOptions::default().seed, RenderOptions::default().seed);
    }

    #[test]
    fn releases_have_names_that_fit_a_label() {
        for good in ["a", "a-b.c1", "0", &"a".repeat(53)] {
            assert!(check_release_name(good).is_ok(), "{good}");
        }
        for bad in ["A", "a_b", "-a", "a-", "a..b", ".a", "a.", "é", &"a".repeat(54)] {
            let error = check_release_name(bad).unwrap_err().to_string();
            assert!(error.starts_with(&format!("release name {bad:?}: invalid release name")), "{error}");
        }
        assert_eq!(check_release_name("").unwrap_err().to_string(), "release name \"\": no name provided");
    }
}
