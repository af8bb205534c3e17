//! Texts that may be secret: written as themselves, or as where they are.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::pattern;

/// A text, or where a secret one is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Text {
    /// The text itself.
    Plain(String),
    /// Where a secret one is.
    Secret(SecretText),
}

impl Text {
    /// The text, wherever it came from.
    pub fn expose(&self) -> &str {
        match self {
            Self::Plain(text) => text,
            Self::Secret(secret) => secret.expose(),
        }
    }
}

/// Where a secret text is: exactly one of `env`, `file`, `sops`, `vault` and `command`. The text itself is read with the
/// inventory, and neither shown nor written again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(extend("oneOf" = [
    {"required": ["env"]},
    {"required": ["file"]},
    {"required": ["sops"]},
    {"required": ["vault"]},
    {"required": ["command"]}
]))]
pub struct SecretText {
    /// Name of an environment variable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<String>,
    /// Path of a file, relative to the inventory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "path"))]
    pub file: Option<String>,
    /// A value in a file that SOPS encrypts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sops: Option<SopsText>,
    /// A field of a secret in the Vault that `spec.vault` declares.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vault: Option<VaultText>,
    /// A program that prints the secret, and its arguments. It is run without a shell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// Name of an environment variable that is used instead where it is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = pattern::VARIABLE))]
    pub r#override: Option<String>,
    #[serde(skip)]
    pub(crate) found: Hidden,
}

impl SecretText {
    /// The text that was found there.
    pub fn expose(&self) -> &str {
        &self.found.0
    }
}

/// A value in a SOPS file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SopsText {
    /// Path of the file, relative to the inventory.
    #[schemars(extend("format" = "path"))]
    pub file: String,
    /// Where the value is in it, such as `proxmox.token` or `users[0].password`.
    pub key: String,
}

/// A field of a secret in a Vault.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VaultText {
    /// Where the secret is, with its mount, such as `secret/team/registry`.
    pub path: String,
    /// Its field.
    pub key: String,
}

/// What was found, which has no printable form.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct Hidden(pub(crate) String);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hidden")
    }
}
