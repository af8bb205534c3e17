//! The part of the document that says what is installed in the cluster.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{SecretRef, pattern};
use crate::addon::{PodSecurity, Policies};

/// An add-on: the name of an entry of the catalogue, or settings.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Addon {
    /// An entry of the catalogue as it is.
    Entry(String),
    /// With settings.
    Settings(Box<AddonSettings>),
}

impl Addon {
    /// What it is called.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Entry(name) => name,
            Self::Settings(settings) => &settings.name,
        }
    }

    /// Its settings, if it has any.
    pub(crate) fn settings(&self) -> Option<&AddonSettings> {
        match self {
            Self::Entry(_) => None,
            Self::Settings(settings) => Some(settings),
        }
    }
}

/// Settings of an add-on.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AddonSettings {
    /// Name of the add-on and its release: an entry of the catalogue, or a name of your own with `chart` or `manifests`.
    #[schemars(example = &"cilium")]
    #[schemars(regex(pattern = pattern::RELEASE))]
    pub(crate) name: String,
    /// The chart: its name in `repo`, its address in a registry (`oci://ghcr.io/team/charts/app`), or a folder or archive beside the
    /// inventory (`charts/app`, `app-1.0.0.tgz`). Without `repo` a name is that of a chart of the catalogue.
    #[schemars(extend("format" = "chart"))]
    pub(crate) chart: Option<String>,
    /// Where the chart is: `https://…` or `oci://…`.
    #[schemars(regex(pattern = pattern::CHART_REPO))]
    pub(crate) repo: Option<String>,
    /// Exact version of the chart.
    #[schemars(example = &"1.16.5")]
    #[schemars(regex(pattern = pattern::VERSION))]
    pub(crate) version: Option<String>,
    /// Namespace of the release, created if it does not exist; the catalogue's, else the add-on's name by default.
    #[schemars(regex(pattern = pattern::NAME))]
    pub(crate) namespace: Option<String>,
    /// Values for the chart. They win over `valuesFrom` and the catalogue's.
    pub(crate) values: Option<Values>,
    /// Files of values beside the inventory, in order; the last one wins.
    pub(crate) values_from: Option<Vec<ValuesFile>>,
    /// Values that are secrets, by their path in the values, such as `adminPassword` or `auth.clients[0].secret`.
    pub(crate) secrets: Option<BTreeMap<String, SecretRef>>,
    /// Manifests: instead of a chart, or besides it.
    pub(crate) manifests: Option<Vec<Manifests>>,
    /// Pod Security Standard that the namespace enforces; the catalogue's, else the cluster's default (`baseline`).
    pub(crate) pod_security: Option<PodSecurity>,
    /// Network policies of its namespace: `baseline` lets its pods be reached from their own namespace, and from elsewhere only where
    /// they offer a service; none by default. Needs a pod network that enforces them, such as Cilium.
    pub(crate) policies: Option<Policies>,
    /// Whether it brings the pod network, so that nodes become Ready by it; the catalogue's, else false by default.
    pub(crate) network: Option<bool>,
    /// Names of the add-ons that must be ready before this one is installed.
    pub(crate) after: Option<Vec<String>>,
    /// Whether `apply` waits until it is ready; the catalogue's, else true by default.
    pub(crate) wait: Option<bool>,
    /// How long `apply` waits for it, such as `90s`, `10m` or `1h`; `5m` by default.
    #[schemars(example = &"10m")]
    #[schemars(regex(pattern = pattern::DURATION))]
    pub(crate) timeout: Option<String>,
    /// Whether fields that another manager owns are taken over; false by default: they are conflicts.
    pub(crate) force: Option<bool>,
}

impl AddonSettings {
    /// Whether nothing says what it is made of but its name.
    pub(crate) fn is_bare(&self) -> bool {
        self.chart.is_none() && self.manifests.is_none()
    }
}

/// Where manifests are.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Manifests {
    /// A file, or a folder whose files (`.yaml`, `.yml`, `.json`) are manifests.
    Path(ManifestsPath),
    /// Somewhere else.
    From(ManifestsFrom),
}

/// A file, or a folder whose files are manifests, relative to the inventory.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(extend("format" = "path"))]
pub(crate) struct ManifestsPath(pub(crate) String);

/// A file of values, relative to the inventory.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(extend("format" = "path"))]
pub(crate) struct ValuesFile(pub(crate) String);

/// Manifests that are not beside the inventory: on a server (`url`, with its `sha256`), or written here (`inline`).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("examples" = [{"inline": "{}"}]))]
pub(crate) struct ManifestsFrom {
    /// Address of a file of manifests.
    pub(crate) url: Option<String>,
    /// SHA-256 of the file at `url`, in hex, to accept no other.
    #[schemars(regex(pattern = pattern::SHA256))]
    pub(crate) sha256: Option<String>,
    /// The manifests themselves, as text (a YAML block: `inline: |`).
    pub(crate) inline: Option<String>,
}

/// Values of a chart: anything.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct Values(pub(crate) Map<String, Value>);

impl JsonSchema for Values {
    fn schema_name() -> Cow<'static, str> {
        "Values".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "object", "additionalProperties": true})
    }
}
