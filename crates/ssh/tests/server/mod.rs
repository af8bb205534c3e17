//! An SSH server for tests: forwards to peers that it plays itself.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use russh::keys::agent::client::AgentClient;
use russh::keys::key::safe_rng;
use russh::keys::{Algorithm, PrivateKey, PublicKey, agent};
use russh::server::{
    Auth, ChannelOpenHandle, Config, Handler, Msg, PublicKeyOffer, Session, VerifiedPublicKey,
};
use russh::{Channel, ChannelOpenFailure, MethodKind, MethodSet};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// Nothing listens there.
pub const CLOSED: u16 = 1;
/// Nobody may go there.
pub const FORBIDDEN: u16 = 2;
/// Takes nothing in.
pub const DEAF: u16 = 3;
/// Is opened when the test says so.
pub const SLOW: u16 = 4;

#[derive(Default)]
struct Facts {
    authorized: Vec<PublicKey>,
    connections: AtomicUsize,
    logins: AtomicUsize,
    offers: AtomicUsize,
    open: AtomicUsize,
    opened: AtomicUsize,
    slow: Notify,
    relays: Mutex<HashMap<(String, u16), u16>>,
}

pub struct Server {
    pub port: u16,
    host_key: PublicKey,
    facts: Arc<Facts>,
    cuttable: Arc<Mutex<Vec<AbortHandle>>>,
}

impl Server {
    pub async fn start(authorized: &[&PrivateKey]) -> Self {
        let host_key = PrivateKey::random(&mut safe_rng(), Algorithm::Ed25519).unwrap();
        Self::start_with(authorized, vec![host_key]).await
    }

    pub async fn start_with(authorized: &[&PrivateKey], keys: Vec<PrivateKey>) -> Self {
        let host_key = keys[0].public_key().clone();
        let authorized = authorized.iter().map(|key| key.public_key().clone()).collect();
        let facts = Arc::new(Facts { authorized, ..Facts::default() });
        let config = Arc::new(Config {
            keys,
            methods: MethodSet::from(&[MethodKind::PublicKey][..]),
            auth_rejection_time: Duration::ZERO,
            ..Config::default()
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let cuttable = Arc::<Mutex<Vec<AbortHandle>>>::default();
        let (cut, known) = (cuttable.clone(), facts.clone());
        tokio::spawn(async move {
            loop {
                let (mut outside, _) = listener.accept().await.unwrap();
                known.connections.fetch_add(1, Ordering::SeqCst);
                let (config, visitor) = (config.clone(), Visitor { facts: known.clone() });
                // The task that is cut owns the socket.
                let task = tokio::spawn(async move {
                    let (mut inside, served) = tokio::io::duplex(1 << 16);
                    tokio::spawn(async move {
                        if let Ok(running) = russh::server::run_stream(config, served, visitor).await {
                            let _ = running.await;
                        }
                    });
                    let _ = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
                });
                cut.lock().unwrap().push(task.abort_handle());
            }
        });
        Self { port, host_key, facts, cuttable }
    }

    /// Cuts every connection in its middle.
    pub fn cut(&self) {
        self.cuttable.lock().unwrap().drain(..).for_each(|task| task.abort());
    }

    pub fn public(&self) -> String {
        self.host_key.to_openssh().unwrap()
    }

    pub fn known_line(&self) -> String {
        format!("[127.0.0.1]:{} {}", self.port, self.public())
    }

    pub fn connections(&self) -> usize {
        self.facts.connections.load(Ordering::SeqCst)
    }

    pub fn logins(&self) -> usize {
        self.facts.logins.load(Ordering::SeqCst)
    }

    pub fn offers(&self) -> usize {
        self.facts.offers.load(Ordering::SeqCst)
    }

    pub fn answer_slowly(&self) {
        self.facts.slow.notify_one();
    }

    /// Waits until the deaf peer was opened, and its window must be full.
    pub async fn until_full(&self) {
        self.until(|facts| facts.opened.load(Ordering::SeqCst) >= 2).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
    }

    pub async fn until_idle(&self) {
        self.until(|facts| facts.open.load(Ordering::SeqCst) == 0).await;
    }

    /// Waits until so many were opened and none is left.
    pub async fn until_idle_after(&self, opened: usize) {
        self.until(|facts| {
            facts.opened.load(Ordering::SeqCst) == opened && facts.open.load(Ordering::SeqCst) == 0
        })
        .await;
    }

    async fn until(&self, holds: impl Fn(&Facts) -> bool) {
        for _ in 0..12_000 {
            if holds(&self.facts) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("it never came to that");
    }
}

/// Lets a server lead to a port of this machine.
pub fn relay_to(server: &Server, (host, port): (&str, u16), local: u16) {
    server.facts.relays.lock().unwrap().insert((host.to_owned(), port), local);
}

struct Visitor {
    facts: Arc<Facts>,
}

impl Handler for Visitor {
    type Error = russh::Error;

    async fn auth_publickey_offered(&mut self, _: &str, _: PublicKeyOffer<'_>) -> Result<Auth, Self::Error> {
        self.facts.offers.fetch_add(1, Ordering::SeqCst);
        Ok(Auth::Accept)
    }

    async fn auth_publickey(&mut self, user: &str, key: VerifiedPublicKey<'_>) -> Result<Auth, Self::Error> {
        assert_eq!(user, "root");
        let known = |known: &PublicKey| known.key_data() == key.public_key.key_data();
        if self.facts.authorized.iter().any(known) {
            self.facts.logins.fetch_add(1, Ordering::SeqCst);
            return Ok(Auth::Accept);
        }
        Ok(Auth::reject())
    }

    async fn channel_open_direct_tcpip(
        &mut self,
        channel: Channel<Msg>,
        host: &str,
        port: u32,
        _: &str,
        _: u32,
        reply: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        let target = (host.to_owned(), port as u16);
        let facts = self.facts.clone();
        match target.1 {
            CLOSED => reply.reject(ChannelOpenFailure::ConnectFailed).await,
            FORBIDDEN => reply.reject(ChannelOpenFailure::AdministrativelyProhibited).await,
            _ => {
                tokio::spawn(async move {
                    if target.1 == SLOW {
                        facts.slow.notified().await;
                    }
                    facts.open.fetch_add(1, Ordering::SeqCst);
                    facts.opened.fetch_add(1, Ordering::SeqCst);
                    reply.accept().await;
                    let _ = play(channel, &target, &facts).await;
                    facts.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        }
        Ok(())
    }
}

async fn play(channel: Channel<Msg>, target: &(String, u16), facts: &Facts) -> std::io::Result<()> {
    if target.1 == DEAF {
        let _held = channel;
        return std::future::pending().await;
    }
    let mut stream = channel.into_stream();
    let local = facts.relays.lock().unwrap().get(target).copied();
    if let Some(local) = local {
        let mut peer = TcpStream::connect(("127.0.0.1", local)).await?;
        tokio::io::copy_bidirectional(&mut stream, &mut peer).await?;
        return Ok(());
    }
    // Says who it is, then repeats everything.
    stream.write_all(format!("{}:{} ", target.0, target.1).as_bytes()).await?;
    let (mut read, mut write) = tokio::io::split(stream);
    let mut buffer = vec![0; 1 << 15];
    loop {
        match read.read(&mut buffer).await? {
            0 => break,
            n => write.write_all(&buffer[..n]).await?,
        }
    }
    write.shutdown().await
}

/// An agent that holds keys.
pub async fn agent(socket: &Path, keys: &[&PrivateKey]) {
    #[derive(Clone)]
    struct Willing;
    impl agent::server::Agent for Willing {}
    let listener = UnixListener::bind(socket).unwrap();
    let streams = tokio_stream::wrappers::UnixListenerStream::new(listener);
    tokio::spawn(agent::server::serve(streams, Willing));
    let mut client = AgentClient::connect_uds(socket).await.unwrap();
    for key in keys {
        client.add_identity(key, &[]).await.unwrap();
    }
}
