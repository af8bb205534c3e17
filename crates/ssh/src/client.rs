//! Our side of an SSH connection: judges the server's key, and tells when the connection is gone.

use std::sync::{Arc, Mutex, PoisonError};

use russh::client;
use russh::keys::{PublicKey, PublicKeyOrCertificate};
use tokio_util::sync::DropGuard;

use crate::known_hosts::{KnownHosts, Verdict};

/// What the server showed, and what is thought of it.
pub(crate) type Seen = Arc<Mutex<Option<(PublicKey, Verdict)>>>;

/// Lives for as long as the connection.
pub(crate) struct Client {
    pub(crate) hosts: Arc<Mutex<KnownHosts>>,
    /// The name that known_hosts has for the server.
    pub(crate) name: String,
    pub(crate) port: u16,
    pub(crate) seen: Seen,
    /// Tells everybody who reads or writes that the connection is gone.
    pub(crate) _lost: DropGuard,
}

impl client::Handler for Client {
    type Error = russh::Error;

    async fn check_server_key(&mut self, shown: &PublicKeyOrCertificate) -> Result<bool, Self::Error> {
        // Certificates are not asked for, so that none can be shown.
        let PublicKeyOrCertificate::PublicKey { key, .. } = shown else { return Ok(false) };
        let hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let verdict = hosts.judge(&self.name, self.port, key);
        let known = verdict == Verdict::Known;
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some((key.clone(), verdict));
        Ok(known)
    }
}
