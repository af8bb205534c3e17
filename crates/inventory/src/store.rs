//! Where what must outlive a run is kept.

use serde::{Deserialize, Serialize};

use crate::cluster::{SecretRef, TlsTrust};
use crate::vault::VaultServer;

/// Where a cluster's secrets, its lock and what else outlives a run are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StorePlace {
    /// A folder beside the inventory.
    #[default]
    Folder,
    /// An S3 bucket.
    S3(Box<S3Store>),
    /// A Vault.
    Vault(Box<VaultPlace>),
}

impl StorePlace {
    /// Whether it is the usual place.
    pub fn is_folder(&self) -> bool {
        *self == Self::Folder
    }
}

/// Where in a Vault a store is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VaultPlace {
    /// The Vault.
    pub server: VaultServer,
    /// Where its key-value store is mounted.
    pub mount: String,
    /// What all paths begin with; may be empty.
    pub prefix: String,
    /// For how long a lock is good that is not renewed, in seconds.
    pub lease_seconds: u32,
}

/// An S3 bucket that keeps a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct S3Store {
    /// The bucket.
    pub bucket: String,
    /// What all keys begin with, without `/` at either end; may be empty.
    pub prefix: String,
    /// URL of the server.
    pub endpoint: String,
    /// Its region.
    pub region: String,
    /// Where the access key's id is found.
    pub access_key_id: SecretRef,
    /// Where its secret is found.
    pub secret_access_key: SecretRef,
    /// Where the token of temporary credentials is found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_token: Option<SecretRef>,
    /// How the server's certificate is verified.
    #[serde(default, skip_serializing_if = "TlsTrust::is_system")]
    pub tls: TlsTrust,
    /// For how long a lock is good that is not renewed, in seconds.
    pub lease_seconds: u32,
}
