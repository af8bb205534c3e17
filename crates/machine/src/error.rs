//! What can be wrong with a declared machine.

use std::fmt;
use std::net::IpAddr;

use daedal_inventory::Role;

/// Whose machine config it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigOwner {
    /// One node's.
    Node(String),
    /// What all nodes of a role have in common, a file of its own among the outputs.
    Role(Role),
}

impl fmt::Display for ConfigOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(name) => write!(f, "node {name}"),
            Self::Role(Role::ControlPlane) => f.write_str("all control planes (controlplane.yaml)"),
            Self::Role(Role::Worker) => f.write_str("all workers (worker.yaml)"),
        }
    }
}

/// Why a declared machine cannot be made. Display says what was attempted; `source()` says why it failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The endpoint is the first control plane's address, which nobody found yet.
    #[error(
        "the cluster's endpoint is not known: it is the address that its first control plane is given, once it is up"
    )]
    Unlocated,
    /// A node that the cluster does not have.
    #[error("there is no node `{name}` in the inventory")]
    NoNode {
        /// Its name.
        name: String,
    },
    /// A text that names no version.
    #[error("`{text}` is no version")]
    NoVersion {
        /// The text.
        text: String,
    },
    /// Credentials could not be made from the secrets.
    #[error("cannot make credentials from the secrets bundle")]
    Credentials {
        /// Why.
        source: daedal_talos_config::Error,
    },
    /// A machine config could not be made.
    #[error("cannot make the machine config of {whose}")]
    MachineConfig {
        /// Whose.
        whose: ConfigOwner,
        /// Why.
        source: Box<daedal_talos_config::Error>,
    },
    /// A patch cannot be applied.
    #[error("the patch {patch} cannot be applied to the machine config of {whose}")]
    Patch {
        /// Whose.
        whose: ConfigOwner,
        /// Where the patch is.
        patch: String,
        /// Why.
        source: Box<daedal_talos_config::Error>,
    },
    /// A machine config that no node would take, or none should; it was not sent.
    #[error(
        "the machine config of {whose} is not valid{}: {}",
        patch.as_ref().map_or_else(String::new, |patch| format!(" with the patch {patch}")),
        faults.join("; ")
    )]
    InvalidConfig {
        /// Whose.
        whose: ConfigOwner,
        /// The patch without which it would be, if it is one.
        patch: Option<String>,
        /// What is wrong with it.
        faults: Vec<String>,
    },
    /// Two machine configs with one address; neither was sent.
    #[error(
        "nodes {first} and {second} would both have the address {address}{}",
        patch.as_ref().map_or_else(String::new, |patch| format!(", by the patch {patch}"))
    )]
    SharedAddress {
        /// The address.
        address: IpAddr,
        /// One node.
        first: String,
        /// The other.
        second: String,
        /// The patch that gives it to the other, if it is one.
        patch: Option<String>,
    },
}
