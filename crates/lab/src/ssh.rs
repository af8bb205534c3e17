//! SSH on the lab's hosts: one server on loopback that logs in root with the lab's own key and forwards connections into the lab;
//! its SFTP is that of the first host.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use daedal_dial::{Dial as _, Target, relay};
use russh::keys::key::safe_rng;
use russh::keys::ssh_key::LineEnding;
use russh::keys::{Algorithm, PrivateKey, PublicKey, decode_secret_key};
use russh::server::{Auth, ChannelOpenHandle, Config, Handler, Msg, Session, VerifiedPublicKey, run_stream};
use russh::{Channel, ChannelId, ChannelOpenFailure, MethodKind, MethodSet};
use tokio::net::TcpListener;

use crate::activity::Activity;
use crate::handle::{SMALL, files};
use crate::own::{self, write_private};
use crate::{Lab, sftp};

/// Who may log in, as on a Proxmox host.
const USER: &str = "root";

/// The keys of a lab's SSH server.
pub(crate) struct Keys {
    host: PrivateKey,
    user: PublicKey,
}

impl Keys {
    /// Those that a lab's folder has, made at the first call.
    pub(crate) fn of(folder: &Path) -> io::Result<Self> {
        let host = kept(&folder.join(files::SSH_HOST_KEY))?;
        let user = kept(&folder.join(files::SSH_KEY))?.public_key().clone();
        Ok(Self { host, user })
    }

    /// Writes what makes the server known at an address.
    pub(crate) fn announce(&self, folder: &Path, at: SocketAddr) -> io::Result<()> {
        let key = self.host.public_key().to_openssh().map_err(io::Error::other)?;
        let line = format!("[{}]:{} {}\n", at.ip(), at.port(), key.trim());
        write_private(&folder.join(files::SSH_KNOWN_HOSTS), line.as_bytes())
    }
}

fn kept(path: &Path) -> io::Result<PrivateKey> {
    let text = own::read_private(path, SMALL).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    if let Some(key) = text.and_then(|text| decode_secret_key(&text, None).ok()) {
        return Ok(key);
    }
    let key = PrivateKey::random(&mut safe_rng(), Algorithm::Ed25519).map_err(io::Error::other)?;
    let text = key.to_openssh(LineEnding::LF).map_err(io::Error::other)?;
    write_private(path, text.as_bytes())?;
    Ok(key)
}

/// Serves for ever.
pub(crate) async fn serve(listener: TcpListener, keys: Keys, lab: Lab, activity: Activity) {
    let config = Arc::new(Config {
        keys: vec![keys.host],
        methods: MethodSet::from(&[MethodKind::PublicKey][..]),
        auth_rejection_time: std::time::Duration::ZERO,
        inactivity_timeout: None,
        ..Config::default()
    });
    let authorized = Arc::new(keys.user);
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "the lab's SSH server cannot accept a connection");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        let (lab, authorized) = (lab.clone(), authorized.clone());
        let visitor = Visitor { lab, authorized, sessions: HashMap::new() };
        let (config, busy) = (config.clone(), activity.begin());
        tokio::spawn(async move {
            let _busy = busy;
            let ended = match run_stream(config, stream, visitor).await {
                Ok(session) => session.await,
                Err(error) => Err(error),
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection to the lab's SSH server ended");
            }
        });
    }
}

/// One connection.
struct Visitor {
    lab: Lab,
    authorized: Arc<PublicKey>,
    /// Sessions that have not begun anything yet.
    sessions: HashMap<ChannelId, Channel<Msg>>,
}

impl Handler for Visitor {
    type Error = russh::Error;

    async fn auth_publickey(&mut self, user: &str, key: VerifiedPublicKey<'_>) -> Result<Auth, Self::Error> {
        let known = user == USER && key.public_key.key_data() == self.authorized.key_data();
        Ok(if known { Auth::Accept } else { Auth::reject() })
    }

    async fn channel_open_session(
        &mut self,
        channel: Channel<Msg>,
        reply: ChannelOpenHandle,
        _session: &mut Session,
    ) -> Result<(), Self::Error> {
        self.sessions.insert(channel.id(), channel);
        reply.accept().await;
        Ok(())
    }

    async fn subsystem_request(
        &mut self,
        channel: ChannelId,
        name: &str,
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        let opened = self.sessions.remove(&channel).filter(|_| name == "sftp");
        let Some(opened) = opened else { return session.channel_failure(channel) };
        session.channel_success(channel)?;
        let datacenter = self.lab.datacenter().clone();
        let host = datacenter.first_host();
        tokio::spawn(async move {
            if let Err(error) = sftp::serve(opened.into_stream(), datacenter, host).await {
                tracing::debug!(%error, "a session of the lab's SFTP server ended");
            }
        });
        Ok(())
    }

    async fn channel_open_direct_tcpip(
        &mut self,
        channel: Channel<Msg>,
        host: &str,
        port: u32,
        _from: &str,
        _from_port: u32,
        reply: ChannelOpenHandle,
        _session: &mut Session,
    ) -> Result<(), Self::Error> {
        let Ok(port) = u16::try_from(port) else {
            reply.reject(ChannelOpenFailure::ConnectFailed).await;
            return Ok(());
        };
        let (fabric, target) = (self.lab.fabric().clone(), Target::new(host, port));
        tokio::spawn(async move {
            match fabric.dial(&target).await {
                Ok(service) => {
                    reply.accept().await;
                    let _ = relay(channel.into_stream(), service).await;
                }
                Err(_) => reply.reject(ChannelOpenFailure::ConnectFailed).await,
            }
        });
        Ok(())
    }
}
