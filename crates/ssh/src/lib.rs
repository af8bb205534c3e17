//! Reaches addresses through SSH servers, as `ssh -W` does: nothing but an SSH server is needed on the way.
//!
//! - [`Ssh`] is a [`Dial`](daedal_dial::Dial): one connection through a chain of [`Hop`]s, shared by all streams, made when it
//!   is first needed and again when it is lost. A stream whose connection is lost ends with `ConnectionReset`, never with a
//!   clean end of file.
//! - [`Ssh::read_file`] and [`Ssh::write_file`] are about files on the last server, by SFTP.
//! - [`KnownHosts`] judges host keys by known_hosts files. A key that they do not know is taken only if [`Questions`] says so.
//! - [`SshConfig`] reads ssh_config files; [`way`] turns an alias and its jumps into [`Stop`]s, which say what a [`Hop`] needs.
//!
//! Nothing here reads the environment, the home folder or a file but the agent's socket: texts and paths are passed in.

mod channel;
mod client;
mod config;
mod error;
mod known_hosts;
mod line;
mod login;
mod pattern;
mod route;
mod sftp;

use std::fmt;
use std::path::PathBuf;

use zeroize::Zeroizing;

pub use config::{ConfigError, Settings, SshConfig};
pub use error::{Cause, ChangedKey, Error};
pub use known_hosts::{HostKey, KnownHosts, Place, Verdict};
pub use line::Ssh;
pub use pattern::fits;
pub use route::{Asked, Facts, Stop, way};

/// One SSH server on the way, with everything needed to log in.
#[derive(Clone, Debug)]
pub struct Hop {
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Who logs in.
    pub user: String,
    /// The name that known_hosts has for it, if it is another.
    pub known_as: Option<String>,
    /// The agent's socket, if it may be asked.
    pub agent: Option<PathBuf>,
    /// Offer only those of the agent's keys that are among the identities.
    pub identities_only: bool,
    /// Keys to offer, in order.
    pub identities: Vec<Identity>,
}

impl Hop {
    /// Who logs in where, as `user@host` or `user@host:port`.
    pub fn login(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match self.port {
            22 => format!("{}@{host}", self.user),
            port => format!("{}@{host}:{port}", self.user),
        }
    }
}

/// A key to offer.
#[derive(Clone)]
pub struct Identity {
    /// What it is called in messages, usually its path.
    pub name: String,
    /// The text of the private key's file; none if only an agent has it.
    pub private: Option<Zeroizing<String>>,
    /// The text of the public key's file.
    pub public: Option<String>,
    /// The passphrase of an encrypted key, if it is known already.
    pub passphrase: Option<Zeroizing<String>>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A host key that no known_hosts file has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownKey {
    /// Who logs in where.
    pub login: String,
    /// The key.
    pub key: HostKey,
    /// The line that makes it known.
    pub line: String,
}

/// Asks somebody what only a person can decide. Called on a thread that may block.
pub trait Questions: Send + Sync + 'static {
    /// Whether this is the right key of that server. Only a yes of a person who has compared it is one.
    fn trusts(&self, unknown: &UnknownKey) -> bool;

    /// The passphrase of an encrypted key; none if nobody knows it.
    fn passphrase(&self, key: &str) -> Option<Zeroizing<String>>;
}

/// Where nobody can be asked: unknown keys are refused, encrypted ones not used.
#[derive(Clone, Copy, Debug, Default)]
pub struct NobodyToAsk;

impl Questions for NobodyToAsk {
    fn trusts(&self, _: &UnknownKey) -> bool {
        false
    }

    fn passphrase(&self, _: &str) -> Option<Zeroizing<String>> {
        None
    }
}
