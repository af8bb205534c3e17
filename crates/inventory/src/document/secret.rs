//! The parts of the document that say where secrets are found.

use schemars::JsonSchema;
use serde::Deserialize;

use super::pattern;

/// Where a secret is found: exactly one of `env`, `file`, `sops`, `vault` and `command`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
// `writeOnly` is JSON Schema's word for a value that must not be shown again.
#[schemars(extend(
    "oneOf" = [
        {"required": ["env"]},
        {"required": ["file"]},
        {"required": ["sops"]},
        {"required": ["vault"]},
        {"required": ["command"]}
    ],
    "writeOnly" = true,
    "examples" = [{"env": "PROXMOX_TOKEN_SECRET"}]
))]
pub(crate) struct SecretRef {
    /// Name of an environment variable.
    #[schemars(regex(pattern = pattern::VARIABLE))]
    pub(crate) env: Option<String>,
    /// Path of a file, relative to the inventory.
    #[schemars(extend("format" = "path"))]
    pub(crate) file: Option<String>,
    /// A value in a file that SOPS encrypts.
    pub(crate) sops: Option<SopsRef>,
    /// A field of a secret in the Vault that `spec.vault` declares.
    pub(crate) vault: Option<VaultRef>,
    /// A program that prints the secret, and its arguments. It is run without a shell.
    pub(crate) command: Option<Vec<String>>,
    /// Name of an environment variable that is used instead where it is set.
    #[schemars(regex(pattern = pattern::VARIABLE))]
    pub(crate) r#override: Option<String>,
}

/// A value in a SOPS file.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SopsRef {
    /// Path of the file, relative to the inventory.
    #[schemars(example = &"secrets.sops.yaml")]
    #[schemars(extend("format" = "path"))]
    pub(crate) file: String,
    /// Where the value is in it, such as `proxmox.token` or `users[0].password`.
    #[schemars(example = &"proxmox.token")]
    pub(crate) key: String,
}

/// A field of a secret in a Vault.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct VaultRef {
    /// Where the secret is, with its mount, such as `secret/team/proxmox`.
    #[schemars(example = &"secret/team/proxmox")]
    pub(crate) path: String,
    /// Its field.
    #[schemars(example = &"token")]
    pub(crate) key: String,
}

/// Where the secrets bundle of the cluster is kept: exactly one of the keys.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
pub(crate) struct Secrets {
    /// Path of a YAML file that SOPS encrypts, relative to the inventory. The first `apply` writes the bundle into it.
    #[schemars(example = &"secrets.sops.yaml")]
    #[schemars(extend("format" = "path"))]
    pub(crate) sops: Option<String>,
    /// A secret of its own in the Vault that `spec.vault` declares. The first `apply` writes the bundle there.
    pub(crate) vault: Option<VaultBundle>,
}

/// A secret in a Vault that holds a secrets bundle.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct VaultBundle {
    /// Where the secret is, with its mount, such as `secret/talos/home`; nothing else is in it.
    #[schemars(example = &"secret/talos/home")]
    pub(crate) path: String,
}
