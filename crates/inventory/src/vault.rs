//! A Vault that keeps secrets, and who Daedal is to it.

use serde::{Deserialize, Serialize};

use crate::cluster::{SecretRef, TlsTrust};

/// A Vault or OpenBao.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VaultServer {
    /// Its URL.
    pub address: String,
    /// The namespace; none for the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// How its certificate is verified.
    #[serde(default, skip_serializing_if = "TlsTrust::is_system")]
    pub tls: TlsTrust,
    /// Who asks.
    pub auth: VaultAuth,
}

/// How a Vault is told who asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum VaultAuth {
    /// By a token.
    Token(SecretRef),
    /// By AppRole.
    #[serde(rename_all = "camelCase")]
    AppRole {
        /// Where the method is mounted.
        mount: String,
        /// Where the role's id is found.
        role_id: SecretRef,
        /// Where its secret is found.
        secret_id: SecretRef,
    },
    /// By a JWT, of a service account of Kubernetes or of a pipeline.
    Jwt {
        /// Where the method is mounted.
        mount: String,
        /// The role.
        role: String,
        /// Where the JWT is found.
        jwt: SecretRef,
    },
}

impl VaultAuth {
    /// Where everything is found that is needed.
    pub fn secrets(&self) -> Vec<&SecretRef> {
        match self {
            Self::Token(token) => vec![token],
            Self::AppRole { role_id, secret_id, .. } => vec![role_id, secret_id],
            Self::Jwt { jwt, .. } => vec![jwt],
        }
    }
}

/// A field of a secret in a Vault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VaultField {
    /// The Vault.
    pub server: Box<VaultServer>,
    /// Where the secret is, with its mount.
    pub path: String,
    /// The field.
    pub key: String,
}
