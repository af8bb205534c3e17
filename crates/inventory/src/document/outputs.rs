//! How the files are written that a cluster's users get.

use schemars::JsonSchema;
use serde::Deserialize;

use super::pattern;

/// How the files that the cluster's users get are written.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Outputs {
    /// All of them alike.
    Named(OutputsName),
    /// With settings.
    Settings(OutputSettings),
}

/// How all of the files are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OutputsName {
    /// Readable by their owner alone, for kubectl and talosctl to use as they are.
    Plain,
    /// Encrypted with the key that the secrets are encrypted with, as `NAME.age`.
    Encrypted,
}

/// Settings of the files.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct OutputSettings {
    /// Encrypt what holds a key, as `NAME.age`; false by default.
    pub(crate) encrypted: Option<bool>,
    /// What the files are called.
    pub(crate) names: Option<OutputNames>,
    /// What the kubeconfig says.
    pub(crate) kubeconfig: Option<KubeconfigOutput>,
}

/// What the files are called: paths in the folder of the outputs.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct OutputNames {
    /// The config that control planes have in common; `controlplane.yaml` by default.
    #[schemars(regex(pattern = pattern::OUTPUT))]
    #[schemars(example = "control-plane.yaml")]
    pub(crate) controlplane: Option<String>,
    /// The config that workers have in common; `worker.yaml` by default.
    #[schemars(regex(pattern = pattern::OUTPUT))]
    pub(crate) worker: Option<String>,
    /// The config of each node, with `<node>` for its name; `nodes/<node>.yaml` by default.
    #[schemars(regex(pattern = pattern::OUTPUT))]
    #[schemars(example = "<node>.yaml")]
    pub(crate) node: Option<String>,
    /// A file of Terraform variables about the machines, HCL or, with the ending `.json`, JSON; none by default.
    #[schemars(regex(pattern = pattern::OUTPUT))]
    #[schemars(example = "talos-machines.auto.tfvars.json")]
    pub(crate) tfvars: Option<String>,
}

/// What the kubeconfig says.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct KubeconfigOutput {
    /// Go through `daedal proxy` on this machine (`proxy-url`); false by default.
    pub(crate) proxy: Option<bool>,
    /// The port of that proxy; 1080 by default.
    #[schemars(range(min = 1, max = 65535))]
    pub(crate) port: Option<u16>,
}
