//! Where container images come from, who the nodes are there, and how it is trusted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{SecretText, Text};

/// Where container images come from, for all nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RegistryMirror {
    /// Addresses to try, in order.
    #[schemars(extend("examples" = [["https://mirror.example.org"]]))]
    pub endpoints: Vec<String>,
    /// Whether the addresses hold the whole path; false by default.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub override_path: bool,
    /// Fail rather than ask the registry itself; false by default, from Talos v1.9.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skip_fallback: bool,
}

/// Who the nodes are to a registry, and how it is trusted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Registry {
    /// Who the nodes are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<RegistryAuth>,
    /// How it is trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<RegistryTls>,
}

/// Who the nodes are to a registry: a user with a password, or one of the other two.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RegistryAuth {
    /// User.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// The user's password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<SecretText>,
    /// User and password as one, as in docker's own file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<SecretText>,
    /// A token instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity_token: Option<SecretText>,
}

/// How a registry is trusted, and how it trusts the nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RegistryTls {
    /// Certificate authority in PEM: itself, or `{file: ca.pem}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<Text>,
    /// The nodes' certificate in PEM, with `clientKey`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_certificate: Option<Text>,
    /// The key of the nodes' certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_key: Option<SecretText>,
    /// Take any certificate; false by default.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
}
