//! The part of the document that says where a store is.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{SecretRef, TlsTrust, pattern};

/// Where the secrets, the lock and what else outlives a run are kept: exactly one of the keys.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
pub(crate) struct Store {
    /// An S3 bucket, for several operators. Its server must honour conditional writes.
    pub(crate) s3: Option<S3>,
    /// The Vault that `spec.vault` declares, for several operators. Snapshots of etcd are too large for it.
    pub(crate) vault: Option<VaultPlace>,
}

/// Where in a Vault a store is.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct VaultPlace {
    /// Where its key-value store of version 2 is mounted; `secret` by default.
    #[schemars(regex(pattern = pattern::KEY_PREFIX))]
    pub(crate) mount: Option<String>,
    /// What all paths begin with; `daedal` by default. The cluster's name follows in any case.
    #[schemars(regex(pattern = pattern::KEY_PREFIX))]
    pub(crate) prefix: Option<String>,
    /// For how long a lock is good that is not renewed, in seconds; 60 by default.
    #[schemars(range(min = 3, max = 3600))]
    pub(crate) lease_seconds: Option<u32>,
}

/// An S3 bucket.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct S3 {
    /// Its name.
    #[schemars(example = &"platform-states")]
    #[schemars(regex(pattern = pattern::BUCKET))]
    pub(crate) bucket: String,
    /// What all keys begin with; nothing by default. The cluster's name follows in any case.
    #[schemars(regex(pattern = pattern::KEY_PREFIX))]
    pub(crate) prefix: Option<String>,
    /// URL of the server; that of AWS in the region by default.
    #[schemars(example = "https://minio.lan:9000")]
    #[schemars(regex(pattern = pattern::URL))]
    pub(crate) endpoint: Option<String>,
    /// Its region; `us-east-1` by default.
    #[schemars(regex(pattern = pattern::REGION))]
    pub(crate) region: Option<String>,
    /// Who Daedal is to it.
    pub(crate) credentials: S3Credentials,
    /// How its certificate is trusted; by default by this machine's own roots.
    pub(crate) tls: Option<TlsTrust>,
    /// For how long a lock is good that is not renewed, in seconds; 60 by default.
    #[schemars(range(min = 3, max = 3600))]
    pub(crate) lease_seconds: Option<u32>,
}

/// An access key. None of it stands in an inventory.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct S3Credentials {
    /// Where its id is found.
    pub(crate) access_key_id: SecretRef,
    /// Where its secret is found.
    pub(crate) secret_access_key: SecretRef,
    /// Where the token of temporary credentials is found.
    pub(crate) session_token: Option<SecretRef>,
}
