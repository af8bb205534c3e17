//! Why a call to a node failed, told apart by what one can do about it.

use std::{fmt, io};

use daedal_dial::{is_of_another_authority, tls_error};
use rustls::{AlertDescription, CertificateError};
use tonic::Code;

use crate::proto::common::Metadata;

/// What a failed call means for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailureKind {
    /// Nobody answers at the address, or the connection broke: the node may be off, booting or elsewhere.
    Unreachable,
    /// The node trusts, or is trusted by, another authority: it belongs to another cluster.
    OtherCluster,
    /// TLS failed for another reason: a wrong name, a wrong clock, an expired certificate.
    Tls,
    /// The node wants a client certificate, or a better one.
    Unauthenticated,
    /// The credentials do not allow this.
    PermissionDenied,
    /// The node does not have this call, or not in its present mode.
    NotImplemented,
    /// Not now: the node is not in the state that the call needs.
    FailedPrecondition,
    /// It is done already.
    AlreadyExists,
    /// There is no such thing on the node.
    NotFound,
    /// The node refuses the content of the request.
    Invalid,
    /// No reply in time. A change may have happened all the same.
    Timeout,
    /// The node is there but cannot answer at the moment.
    Transient,
    /// Anything else.
    Other,
}

impl FailureKind {
    /// Whether the same call may succeed later without anyone doing anything.
    pub fn may_pass(self) -> bool {
        matches!(self, Self::Unreachable | Self::Timeout | Self::Transient | Self::FailedPrecondition)
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unreachable => "the node cannot be reached",
            Self::OtherCluster => "the node belongs to another cluster",
            Self::Tls => "no trusted connection could be made",
            Self::Unauthenticated => "the node does not accept the client certificate",
            Self::PermissionDenied => "the credentials do not allow it",
            Self::NotImplemented => "the node does not offer it",
            Self::FailedPrecondition => "the node is not ready for it",
            Self::AlreadyExists => "it is done already",
            Self::NotFound => "the node has no such thing",
            Self::Invalid => "the node refuses the request",
            Self::Timeout => "there was no reply in time",
            Self::Transient => "the node cannot answer at the moment",
            Self::Other => "the node failed",
        })
    }
}

/// What the node itself said.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code:?}: {message}")]
pub struct NodeError {
    /// gRPC status code.
    pub code: Code,
    /// The node's words.
    pub message: String,
}

/// The cause of a failure.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// A failure before it knows which call it belongs to.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    pub(crate) cause: Cause,
}

impl Failure {
    pub(crate) fn new(kind: FailureKind, cause: impl Into<Cause>) -> Self {
        Self { kind, cause: cause.into() }
    }

    pub(crate) fn timeout() -> Self {
        Self::new(FailureKind::Timeout, "the deadline has passed")
    }

    /// A failure of dialling or of TLS.
    pub(crate) fn of_io(error: &io::Error) -> Self {
        let kind = tls_error(error).map_or(FailureKind::Unreachable, tls_kind);
        Self::new(kind, error.to_string())
    }

    pub(crate) fn of_code(code: Code, message: &str) -> Self {
        let kind = match code {
            Code::AlreadyExists => FailureKind::AlreadyExists,
            Code::FailedPrecondition => FailureKind::FailedPrecondition,
            Code::Unimplemented => FailureKind::NotImplemented,
            Code::PermissionDenied => FailureKind::PermissionDenied,
            Code::Unauthenticated => FailureKind::Unauthenticated,
            Code::NotFound => FailureKind::NotFound,
            Code::InvalidArgument | Code::OutOfRange => FailureKind::Invalid,
            Code::DeadlineExceeded => FailureKind::Timeout,
            Code::Unavailable | Code::Aborted | Code::ResourceExhausted | Code::Cancelled => {
                FailureKind::Transient
            }
            _ => FailureKind::Other,
        };
        Self::new(kind, NodeError { code, message: message.into() })
    }

    /// A node behind a proxying one reports its failure inside a reply that is otherwise fine.
    pub(crate) fn of_metadata(metadata: Option<&Metadata>) -> Result<(), Self> {
        match metadata {
            Some(Metadata { status: Some(status), .. }) if status.code != 0 => {
                Err(Self::of_code(Code::from_i32(status.code), &status.message))
            }
            Some(metadata) if !metadata.error.is_empty() => {
                Err(Self::of_code(Code::Unknown, &metadata.error))
            }
            _ => Ok(()),
        }
    }
}

fn tls_kind(error: &rustls::Error) -> FailureKind {
    match error {
        error if is_of_another_authority(error) => FailureKind::OtherCluster,
        // What a pinned certificate is compared by.
        rustls::Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure) => {
            FailureKind::OtherCluster
        }
        rustls::Error::AlertReceived(alert) => match alert {
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::DecryptError
            | AlertDescription::CertificateUnknown => FailureKind::OtherCluster,
            AlertDescription::CertificateRequired
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateRevoked
            | AlertDescription::NoCertificate
            | AlertDescription::AccessDenied => FailureKind::Unauthenticated,
            _ => FailureKind::Tls,
        },
        _ => FailureKind::Tls,
    }
}
