//! Where secrets are found that the inventory refers to, and where the cluster's own are kept.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::vault::{VaultField, VaultServer};

/// Where a secret is found. The binary resolves it; a missing one is an error that names the key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SecretRef {
    /// An environment variable.
    Env(String),
    /// A file, relative to the inventory.
    File(PathBuf),
    /// A value in a SOPS file.
    Sops(SopsValue),
    /// A field of a secret in a Vault.
    Vault(VaultField),
    /// What a program prints: its name and its arguments.
    Command(Vec<String>),
    /// An environment variable where it is set, and another place where it is not.
    Override {
        /// The variable.
        variable: String,
        /// The place otherwise.
        otherwise: Box<SecretRef>,
    },
}

impl SecretRef {
    /// The place that is declared, whatever overrides it.
    pub fn place(&self) -> &Self {
        match self {
            Self::Override { otherwise, .. } => otherwise.place(),
            place => place,
        }
    }
}

/// A value in a SOPS file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SopsValue {
    /// The file, relative to the inventory.
    pub file: PathBuf,
    /// Where the value is in it.
    pub key: String,
}

/// Where a cluster's secrets bundle is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SecretsPlace {
    /// The store.
    #[default]
    Store,
    /// A SOPS file, relative to the inventory.
    Sops(PathBuf),
    /// A secret in a Vault.
    Vault(Box<VaultBundle>),
}

/// A secret in a Vault that holds a secrets bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VaultBundle {
    /// The Vault.
    pub server: VaultServer,
    /// Where the secret is, with its mount.
    pub path: String,
}

impl SecretsPlace {
    /// Whether it is the usual place.
    pub fn is_store(&self) -> bool {
        *self == Self::Store
    }
}
