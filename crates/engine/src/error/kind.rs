//! What sort of failure an error is: what exit codes and programs go by.

use daedal_machine::Error as Machine;
use daedal_talos_client::FailureKind;
use schemars::JsonSchema;
use serde::Serialize;

use super::Error;

/// A sort of failure, whatever step or look met it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ErrorKind {
    /// Credentials are not accepted, or a privilege is missing.
    Denied,
    /// A peer cannot be reached.
    Unreachable,
    /// A peer's certificate is not the trusted one; it was sent nothing.
    Untrusted,
    /// Somebody else holds the cluster's lock.
    Busy,
    /// The key that opens the kept secrets is missing or another.
    Key,
    /// The cluster's secrets are missing or unusable.
    Secrets,
    /// The store cannot be read or written.
    Store,
    /// Something belongs to somebody else, or could not be verified as ours; it was not touched.
    NotOurs,
    /// Something is no longer what the plan was made from; it was not touched.
    Changed,
    /// A VM is left locked by a task that died.
    Stuck,
    /// A wait took too long.
    Timeout,
    /// A config or request was refused as invalid.
    Invalid,
    /// Any other failure.
    Failed,
}

impl Error {
    /// What sort of failure it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Proxmox(error) => of_proxmox(error.kind()),
            Self::Talos { source, .. } => source.kind().map_or(ErrorKind::Failed, of_talos),
            Self::Kubernetes { source, .. } => of_kubernetes(source),
            Self::Store(error) => of_store(error),
            Self::NoSecrets | Self::BadSecrets { .. } | Self::SecretsNotText { .. } => ErrorKind::Secrets,
            Self::NotOurs { .. }
            | Self::OtherAuthority { .. }
            | Self::OtherCluster { .. }
            | Self::Unproven { .. }
            | Self::AddonOwned { .. }
            | Self::AddonConflict { .. }
            | Self::AddonSet { .. } => ErrorKind::NotOurs,
            Self::Changed { .. } | Self::ConfigMoved { .. } | Self::Gone { .. } => ErrorKind::Changed,
            Self::StuckCreate { .. } => ErrorKind::Stuck,
            Self::Deadline { .. } | Self::ApiNotReady { .. } => ErrorKind::Timeout,
            Self::ConfigRefused { .. }
            | Self::AddonNotRendered { .. }
            | Self::AddonRefused { .. }
            | Self::Machine(
                Machine::InvalidConfig { .. }
                | Machine::MachineConfig { .. }
                | Machine::Patch { .. }
                | Machine::SharedAddress { .. },
            ) => ErrorKind::Invalid,
            _ => ErrorKind::Failed,
        }
    }
}

fn of_proxmox(kind: &daedal_proxmox::Kind) -> ErrorKind {
    use daedal_proxmox::Kind;
    match kind {
        Kind::Auth { .. } | Kind::Permission { .. } => ErrorKind::Denied,
        Kind::Unreachable { .. } => ErrorKind::Unreachable,
        Kind::Untrusted { .. } => ErrorKind::Untrusted,
        Kind::Stale { .. } => ErrorKind::Changed,
        Kind::Parameter { .. } => ErrorKind::Invalid,
        Kind::LockTimeout { .. } | Kind::StorageTimeout { .. } => ErrorKind::Timeout,
        _ => ErrorKind::Failed,
    }
}

fn of_talos(kind: FailureKind) -> ErrorKind {
    match kind {
        FailureKind::Unreachable => ErrorKind::Unreachable,
        FailureKind::OtherCluster => ErrorKind::NotOurs,
        FailureKind::Tls => ErrorKind::Untrusted,
        FailureKind::Unauthenticated | FailureKind::PermissionDenied => ErrorKind::Denied,
        FailureKind::Invalid => ErrorKind::Invalid,
        FailureKind::Timeout => ErrorKind::Timeout,
        _ => ErrorKind::Failed,
    }
}

fn of_kubernetes(error: &kube::Error) -> ErrorKind {
    match error {
        kube::Error::Api(status) if matches!(status.code, 401 | 403) => ErrorKind::Denied,
        kube::Error::Api(status) if matches!(status.code, 400 | 422) => ErrorKind::Invalid,
        kube::Error::HyperError(_) | kube::Error::Service(_) => ErrorKind::Unreachable,
        _ => ErrorKind::Failed,
    }
}

fn of_store(error: &daedal_store::Error) -> ErrorKind {
    use daedal_store::{Error as Store, Fault};
    match error {
        Store::Locked { .. } | Store::LeaseLost { .. } | Store::Changed { .. } => ErrorKind::Busy,
        Store::NoKey { .. } | Store::BadKey { .. } | Store::OtherKey { .. } | Store::ReadKey { .. } => {
            ErrorKind::Key
        }
        Store::Sops { source, .. } if source.lacks_key() => ErrorKind::Key,
        Store::NoSopsRules { .. } => ErrorKind::Key,
        Store::Remote { source: Fault::Refused { status: 401 | 403, .. }, .. } => ErrorKind::Denied,
        Store::Remote { .. } => ErrorKind::Unreachable,
        _ => ErrorKind::Store,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxmox(kind: daedal_proxmox::Kind) -> ErrorKind {
        Error::Proxmox(daedal_proxmox::Error::new("start VM 300", kind)).kind()
    }

    #[test]
    fn a_refusal_is_one_whoever_says_it() {
        let text = String::new();
        let permission = daedal_proxmox::Kind::Permission { path: None, privilege: None, text: text.clone() };
        assert_eq!(proxmox(permission), ErrorKind::Denied);
        assert_eq!(proxmox(daedal_proxmox::Kind::Auth { text }), ErrorKind::Denied);
        assert_eq!(of_talos(FailureKind::PermissionDenied), ErrorKind::Denied);
        assert_eq!(serde_json::json!(ErrorKind::NotOurs), "not-ours");
    }
}
