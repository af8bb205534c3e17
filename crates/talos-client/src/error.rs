//! What can go wrong, said once for the whole crate.

use crate::failure::{Cause, FailureKind};

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong. `Display` names the operation; the cause, if any, is the source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A call to a node failed.
    #[error("{operation} on {node}: {kind}")]
    Call {
        /// What was asked.
        operation: &'static str,
        /// Of whom.
        node: String,
        /// What the failure means.
        kind: FailureKind,
        /// What happened, in the words of the node, of TLS or of the operating system.
        source: Cause,
    },
    /// The credentials, or what a node showed, cannot be read.
    #[error(transparent)]
    Credentials(#[from] daedal_talos_config::Error),
    /// A certificate cannot be used for TLS.
    #[error("the certificate cannot be used: {reason}")]
    Certificate {
        /// Why.
        reason: String,
    },
    /// A snapshot of etcd is not whole.
    #[error("the etcd snapshot cannot be used: {reason}")]
    Snapshot {
        /// Why.
        reason: &'static str,
    },
}

impl Error {
    /// What a failed call means, if this is one.
    pub fn kind(&self) -> Option<FailureKind> {
        match self {
            Self::Call { kind, .. } => Some(*kind),
            _ => None,
        }
    }
}
