//! Where container images come from, and how a registry is trusted.

use crate::secret::Secret;

/// Where images of a registry come from instead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegistryMirror {
    /// The registry, such as `docker.io`, or `*`.
    pub registry: String,
    /// Addresses to try, in order.
    pub endpoints: Vec<String>,
    /// Whether the addresses hold the whole path, so that nothing is put behind them.
    pub override_path: bool,
    /// Whether to fail rather than ask the registry itself.
    pub skip_fallback: bool,
}

/// Who one is to a registry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegistryAuth {
    /// The registry's host, with port if it is not the usual one.
    pub registry: String,
    /// User.
    pub username: Option<String>,
    /// Password.
    pub password: Option<Secret>,
    /// User and password as one, in the form of docker's own file.
    pub auth: Option<Secret>,
    /// Token.
    pub identity_token: Option<Secret>,
}

/// How a registry is trusted, and how it trusts us.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegistryTls {
    /// The registry's host, with port if it is not the usual one.
    pub registry: String,
    /// Certificate authority, PEM.
    pub ca: Option<String>,
    /// Client certificate, PEM, and its key.
    pub client: Option<(String, Secret)>,
    /// Whether any certificate will do.
    pub insecure_skip_verify: bool,
}
