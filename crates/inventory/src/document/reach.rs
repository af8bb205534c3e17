//! How the nodes are reached: directly, through a proxy, or through SSH.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{SecretRef, pattern};

/// How this machine reaches the nodes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Reach {
    /// By ordinary routing.
    Named(ReachName),
    /// Through something in between.
    Through(Box<ReachThrough>),
}

/// Ways to reach the nodes that need no settings.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ReachName {
    /// By ordinary routing.
    Direct,
}

/// Ways to reach the nodes through something in between: exactly one of the keys.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
pub(crate) struct ReachThrough {
    /// URL of an HTTP CONNECT (`http://host:port`) or SOCKS5 (`socks5://host:port`) proxy.
    #[schemars(example = "socks5://127.0.0.1:1080")]
    #[schemars(regex(pattern = pattern::PROXY))]
    pub(crate) proxy: Option<String>,
    /// An SSH server that reaches the nodes, such as a Proxmox host. Nothing is installed there.
    pub(crate) ssh: Option<ReachSsh>,
}

/// An SSH server that reaches the nodes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ReachSsh {
    /// Name or address of the server, or an alias of `~/.ssh/config`.
    #[schemars(example = "atlas.lan")]
    #[schemars(regex(pattern = pattern::SSH_HOST))]
    pub(crate) host: String,
    /// User to log in as; by default what `~/.ssh/config` says, else your own name.
    #[schemars(regex(pattern = pattern::SSH_USER))]
    pub(crate) user: Option<String>,
    /// Port; by default what `~/.ssh/config` says, else 22.
    #[schemars(range(min = 1, max = 65535))]
    pub(crate) port: Option<u16>,
    /// Path of the private key, relative to the inventory or below `~/`, or where it is found. By default the keys that `ssh`
    /// would use.
    pub(crate) key: Option<SshKey>,
    /// Use only the keys of the SSH agent (`SSH_AUTH_SOCK`).
    pub(crate) agent: Option<bool>,
    /// Where the passphrase of an encrypted `key` is found; by default it is asked for.
    pub(crate) passphrase: Option<SecretRef>,
    /// Servers on the way, the nearest first; by default what `~/.ssh/config` says (`ProxyJump`). An empty list is none.
    pub(crate) jump: Option<Vec<Jump>>,
    /// File with host keys, relative to the inventory, instead of `~/.ssh/known_hosts`.
    #[schemars(extend("format" = "path"))]
    pub(crate) known_hosts: Option<String>,
    /// Whether the Proxmox API is reached through it, too; false by default.
    pub(crate) proxmox: Option<bool>,
}

/// A private key for SSH: the path of its file, or where it is found.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum SshKey {
    /// Path of its file.
    File(#[schemars(extend("format" = "path"))] String),
    /// Where it is found.
    Found(SecretRef),
}

/// A server on the way: `user@host:port`, an alias, or its settings.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Jump {
    /// `user@host:port`, or an alias.
    Text(#[schemars(regex(pattern = pattern::SSH_JUMP))] String),
    /// Its settings.
    Server(Box<SshServer>),
}

/// A server on the way, with settings.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SshServer {
    /// Name or address, or an alias of `~/.ssh/config`.
    #[schemars(example = "bastion.example.org")]
    #[schemars(regex(pattern = pattern::SSH_HOST))]
    pub(crate) host: String,
    /// User to log in as.
    #[schemars(regex(pattern = pattern::SSH_USER))]
    pub(crate) user: Option<String>,
    /// Port.
    #[schemars(range(min = 1, max = 65535))]
    pub(crate) port: Option<u16>,
    /// Path of the private key, relative to the inventory or below `~/`, or where it is found.
    pub(crate) key: Option<SshKey>,
    /// Use only the keys of the SSH agent.
    pub(crate) agent: Option<bool>,
    /// Where the passphrase of an encrypted `key` is found.
    pub(crate) passphrase: Option<SecretRef>,
}
