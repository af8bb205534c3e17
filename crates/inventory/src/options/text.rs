//! Texts that may be secret: written as themselves, or as where they are.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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

/// Where a secret text is: exactly one of the keys. The text itself is read with the inventory, and neither shown nor
/// written again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
pub struct SecretText {
    /// Name of an environment variable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<String>,
    /// Path of a file, relative to the inventory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    #[serde(skip)]
    pub(crate) found: Hidden,
}

impl SecretText {
    /// The text that was found there.
    pub fn expose(&self) -> &str {
        &self.found.0
    }
}

/// What was found, which has no printable form.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct Hidden(pub(crate) String);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hidden")
    }
}
