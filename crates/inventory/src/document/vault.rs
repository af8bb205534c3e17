//! The part of the document that says where a Vault is.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{SecretRef, TlsTrust, pattern};

/// A Vault or OpenBao, for references `{vault: {path, key}}` and `store.vault`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Vault {
    /// Its URL.
    #[schemars(example = "https://vault.lan:8200")]
    #[schemars(regex(pattern = pattern::URL))]
    pub(crate) address: String,
    /// The namespace; the root by default. The free Vault has none.
    pub(crate) namespace: Option<String>,
    /// How its certificate is trusted; by default by this machine's own roots.
    pub(crate) tls: Option<TlsTrust>,
    /// Who Daedal is to it.
    pub(crate) auth: VaultAuth,
}

/// How a Vault is told who asks: exactly one of the keys.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
pub(crate) struct VaultAuth {
    /// Where a token is found.
    pub(crate) token: Option<SecretRef>,
    /// Log in by AppRole.
    pub(crate) app_role: Option<AppRole>,
    /// Log in by the token of a service account of Kubernetes.
    pub(crate) kubernetes: Option<JwtLogin>,
    /// Log in by a JWT, such as that of a pipeline.
    pub(crate) jwt: Option<JwtLogin>,
}

/// An AppRole.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AppRole {
    /// Where the method is mounted; `approle` by default.
    #[schemars(regex(pattern = pattern::KEY_PREFIX))]
    pub(crate) mount: Option<String>,
    /// Where the role's id is found.
    pub(crate) role_id: SecretRef,
    /// Where its secret is found.
    pub(crate) secret_id: SecretRef,
}

/// A role that a JWT proves.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct JwtLogin {
    /// Where the method is mounted; `kubernetes` or `jwt` by default.
    #[schemars(regex(pattern = pattern::KEY_PREFIX))]
    pub(crate) mount: Option<String>,
    /// The role.
    pub(crate) role: String,
    /// Where the JWT is found, such as `{file: /var/run/secrets/kubernetes.io/serviceaccount/token}`.
    pub(crate) jwt: SecretRef,
}
