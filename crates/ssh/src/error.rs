//! Why an address cannot be reached through SSH.

use std::io::{self, ErrorKind};

use daedal_dial::Target;

use crate::UnknownKey;
use crate::known_hosts::{HostKey, Place};

/// Why an address cannot be reached through SSH.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no way at all.
    #[error("no SSH server is given")]
    NoServer,
    /// No connection to the server.
    #[error("cannot connect to the SSH server {login}")]
    Connect {
        /// Who logs in where.
        login: String,
        /// Why not.
        source: io::Error,
    },
    /// The handshake failed.
    #[error("the SSH handshake with {login} failed")]
    Handshake {
        /// Who logs in where.
        login: String,
        /// Why.
        source: Cause,
    },
    /// The server stopped answering.
    #[error("the SSH server {login} does not answer for {seconds} s")]
    Silent {
        /// Who logs in where.
        login: String,
        /// For how long.
        seconds: u64,
    },
    /// No known_hosts file has the server's key, and nobody vouched for it.
    #[error("the host key of {} is not known: {}", .0.login, .0.key)]
    UnknownHostKey(UnknownKey),
    /// A known_hosts file has another key.
    #[error("the host key of {} has changed: it is {}, but {} has {}", .0.login, .0.key, .0.place, .0.known)]
    ChangedHostKey(Box<ChangedKey>),
    /// A known_hosts file revokes the server's key.
    #[error("the host key {key} of {login} is revoked in {place}")]
    RevokedHostKey {
        /// Who logs in where.
        login: String,
        /// What the server shows.
        key: HostKey,
        /// Where it is revoked.
        place: Place,
    },
    /// A known_hosts file has only an authority for the server.
    #[error(
        "the host key of {login} is {key}, but {place} trusts a certificate authority, which is not supported"
    )]
    HostCertificate {
        /// Who logs in where.
        login: String,
        /// What the server shows.
        key: HostKey,
        /// Where the authority is.
        place: Place,
    },
    /// The server lets nobody in with what was offered.
    #[error("the SSH server refuses the login {login}")]
    Login {
        /// Who logs in where.
        login: String,
        /// What was tried, what it takes.
        source: Cause,
    },
    /// A key cannot be read.
    #[error("cannot read the SSH key {name}")]
    Key {
        /// Which key.
        name: String,
        /// Why.
        source: Cause,
    },
    /// A key is encrypted.
    #[error("the SSH key {name} is encrypted, and its passphrase is not known")]
    Encrypted {
        /// Which key.
        name: String,
    },
    /// The server does not forward.
    #[error("forwarding is forbidden on {login}: no connection to {target}")]
    Forbidden {
        /// Who logs in where.
        login: String,
        /// What was asked for.
        target: Target,
    },
    /// The server does not reach the target.
    #[error("{login} cannot reach {target}")]
    Unreachable {
        /// Who logs in where.
        login: String,
        /// What was asked for.
        target: Target,
    },
    /// The server has no SFTP.
    #[error("{login} does not serve SFTP")]
    NoSftp {
        /// Who logs in where.
        login: String,
    },
    /// The server opens no session, because others are open or because it never does.
    #[error("{login} refuses to open another session")]
    NoSession {
        /// Who logs in where.
        login: String,
    },
    /// The connection was lost.
    #[error("the SSH connection to {login} was lost")]
    Lost {
        /// Who logs in where.
        login: String,
    },
}

/// A host key that is not the one that is known.
#[derive(Debug)]
pub struct ChangedKey {
    /// Who logs in where.
    pub login: String,
    /// What the server shows.
    pub key: HostKey,
    /// Where the other one is.
    pub place: Place,
    /// The other one.
    pub known: HostKey,
}

/// The words of another program or library.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Cause(pub(crate) String);

impl Error {
    /// The kind that callers of a dialer judge by.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NoServer => ErrorKind::InvalidInput,
            Self::Connect { source, .. } => source.kind(),
            Self::Silent { .. } => ErrorKind::TimedOut,
            Self::Unreachable { .. } => ErrorKind::HostUnreachable,
            Self::NoSession { .. } => ErrorKind::ResourceBusy,
            Self::NoSftp { .. } => ErrorKind::Unsupported,
            Self::Handshake { .. } | Self::Lost { .. } => ErrorKind::ConnectionReset,
            Self::UnknownHostKey(_)
            | Self::ChangedHostKey(_)
            | Self::RevokedHostKey { .. }
            | Self::HostCertificate { .. }
            | Self::Login { .. }
            | Self::Key { .. }
            | Self::Encrypted { .. }
            | Self::Forbidden { .. } => ErrorKind::PermissionDenied,
        }
    }

    /// Whether trying again soon is of no use, and may lock the caller out.
    pub(crate) fn is_lasting(&self) -> bool {
        self.kind() == ErrorKind::PermissionDenied || matches!(self, Self::NoServer)
    }
}

/// What went wrong in a handshake, in words.
pub(crate) fn words(error: &russh::Error) -> Cause {
    use russh::{AlgorithmKind, Error as E};
    Cause(match error {
        E::NoCommonAlgo { kind, theirs, .. } => {
            let kind = match kind {
                AlgorithmKind::Kex => "key exchange method",
                AlgorithmKind::Key => "host key type",
                AlgorithmKind::Cipher => "cipher",
                AlgorithmKind::Compression => "compression",
                AlgorithmKind::Mac => "MAC",
            };
            format!("no {kind} in common; the server offers {}", theirs.join(", "))
        }
        E::Version => "the server does not speak SSH 2".to_owned(),
        E::HUP | E::Disconnect | E::SendError | E::RecvError => "the server closed the connection".to_owned(),
        E::IO(error) if error.kind() == ErrorKind::UnexpectedEof => {
            "the server closed the connection".to_owned()
        }
        other => other.to_string(),
    })
}
