//! One connection through a chain of SSH servers, shared by all streams, and made again when it is lost.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{fmt, io};

use daedal_dial::{BoxStream, Dial, Dialer, Dialing, Direct, Target};
use russh::{Channel, ChannelMsg, ChannelOpenFailure, Preferred, client};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::channel::Forwarded;
use crate::client::{Client, Seen};
use crate::error::{ChangedKey, words};
use crate::known_hosts::{HostKey, KnownHosts, Verdict, line as known_line};
use crate::login::{self, Keys};
use crate::sftp::Sftp;
use crate::{Error, Hop, Questions, UnknownKey};

/// How long a server may take for each step of a connection.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// A server that says nothing for so long is asked whether it is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// So many unanswered questions are the end.
const KEEP_ALIVES: usize = 3;
/// After a failure nobody tries again for so long.
const PAUSE: Duration = Duration::from_secs(1);
/// The same for failures that trying again does not mend: servers lock out who knocks too often.
const LONG_PAUSE: Duration = Duration::from_secs(15);
/// How many connections a server is asked to open at the same time: each takes a file descriptor there.
const OPENINGS: usize = 256;
/// How many sessions a server is asked for at the same time; it usually allows ten.
const SESSIONS: usize = 4;
/// Messages that may wait for a reader. One who is slower holds up all others of the connection.
const WAITING: usize = 1024;

/// Dials through SSH. Cheap to clone; clones share the connection.
#[derive(Clone)]
pub struct Ssh {
    way: Arc<Way>,
}

struct Way {
    hops: Vec<Hop>,
    inner: Dialer,
    hosts: Arc<Mutex<KnownHosts>>,
    questions: Arc<dyn Questions>,
    keys: Keys,
    state: tokio::sync::Mutex<State>,
}

#[derive(Default)]
struct State {
    line: Option<Arc<Line>>,
    failed: Option<(Instant, Arc<Error>)>,
}

/// A connection to one server, and to those before it.
struct Line {
    handle: client::Handle<Client>,
    login: String,
    lost: CancellationToken,
    openings: Semaphore,
    sessions: Semaphore,
    /// Carries this one.
    _before: Option<Arc<Line>>,
}

impl Ssh {
    /// A way through servers, nearest first. Connects nothing yet.
    pub fn new(hops: Vec<Hop>, hosts: KnownHosts, questions: Arc<dyn Questions>) -> Self {
        Self::over(hops, hosts, questions, Arc::new(Direct))
    }

    /// The same, with the nearest server reached through another dialer.
    pub fn over(hops: Vec<Hop>, hosts: KnownHosts, questions: Arc<dyn Questions>, inner: Dialer) -> Self {
        let hosts = Arc::new(Mutex::new(hosts));
        let (keys, state) = (Keys::default(), tokio::sync::Mutex::default());
        Self { way: Arc::new(Way { hops, inner, hosts, questions, keys, state }) }
    }

    /// Connects now, so that questions and errors come before anything else. Does nothing if the connection is there.
    pub async fn connect(&self) -> Result<(), Arc<Error>> {
        self.way.line().await.map(drop)
    }

    /// What is in a file of the last server, of at most so many bytes; none if there is no such file.
    pub async fn read_file(&self, path: &str, limit: usize) -> io::Result<Option<Vec<u8>>> {
        self.with_files(|mut sftp| async move { sftp.read(path, limit).await }).await
    }

    /// Writes a file of the last server as a whole, readable by its owner alone.
    pub async fn write_file(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        self.with_files(|mut sftp| async move { sftp.write(path, bytes).await }).await
    }

    /// Removes a file of the last server, if it is there.
    pub async fn remove_file(&self, path: &str) -> io::Result<()> {
        self.with_files(|mut sftp| async move { sftp.remove(path).await }).await
    }

    async fn with_files<T, F>(&self, work: impl FnOnce(Sftp) -> F) -> io::Result<T>
    where
        F: Future<Output = io::Result<T>>,
    {
        let line = self.way.line().await.map_err(|error| io::Error::new(error.kind(), error))?;
        let closed = |_| io::Error::other("the connection is closed");
        let _turn = line.sessions.acquire().await.map_err(closed)?;
        let worked = timeout(PATIENCE, async {
            let stream = line.sftp().await.map_err(|error| io::Error::new(error.kind(), error))?;
            work(Sftp::begin(stream).await?).await
        });
        worked.await.unwrap_or_else(|_| {
            let silent = Error::Silent { login: line.login.clone(), seconds: PATIENCE.as_secs() };
            Err(io::Error::new(io::ErrorKind::TimedOut, silent))
        })
    }

    /// Who logs in where, on the last server.
    pub fn login(&self) -> String {
        self.way.hops.last().map(Hop::login).unwrap_or_default()
    }
}

impl fmt::Debug for Ssh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ssh").field("login", &self.login()).finish_non_exhaustive()
    }
}

impl Dial for Ssh {
    fn dial<'a>(&'a self, target: &'a Target) -> Dialing<'a> {
        Box::pin(async move {
            let mut again = true;
            loop {
                let line = self.way.line().await.map_err(|error| io::Error::new(error.kind(), error))?;
                match line.open(target).await {
                    Ok(stream) => return Ok(stream),
                    // It went away since somebody looked.
                    Err(Error::Lost { .. }) if again => again = false,
                    Err(error) => return Err(io::Error::new(error.kind(), error)),
                }
            }
        })
    }

    fn through(&self) -> Option<String> {
        Some(format!("SSH server {}", self.login()))
    }
}

impl Way {
    /// The connection, made if there is none.
    async fn line(self: &Arc<Self>) -> Result<Arc<Line>, Arc<Error>> {
        if let Ok(state) = self.state.try_lock()
            && let Some(line) = state.alive()
        {
            return Ok(line);
        }
        let (way, asked) = (self.clone(), Instant::now());
        // In a task of its own: who gives up must not take away what others wait for.
        let made = tokio::spawn(async move {
            let mut state = way.state.lock().await;
            if let Some(line) = state.alive() {
                return Ok(line);
            }
            if let Some((at, error)) = &state.failed {
                let pause = if error.is_lasting() { LONG_PAUSE } else { PAUSE };
                if asked < *at + pause {
                    return Err(error.clone());
                }
            }
            match Box::pin(way.connect()).await {
                Ok(line) => {
                    *state = State { line: Some(line.clone()), failed: None };
                    Ok(line)
                }
                Err(error) => {
                    let error = Arc::new(error);
                    *state = State { line: None, failed: Some((Instant::now(), error.clone())) };
                    Err(error)
                }
            }
        });
        // Only a runtime that ends takes the task away.
        made.await.unwrap_or_else(|_| Err(Arc::new(Error::NoServer)))
    }

    async fn connect(&self) -> Result<Arc<Line>, Error> {
        let mut line: Option<Arc<Line>> = None;
        for hop in &self.hops {
            line = Some(self.connect_hop(hop, line).await?);
        }
        let line = line.ok_or(Error::NoServer)?;
        tracing::info!(login = line.login, "connected by SSH");
        Ok(line)
    }

    async fn connect_hop(&self, hop: &Hop, before: Option<Arc<Line>>) -> Result<Arc<Line>, Error> {
        let login = hop.login();
        let mut asked = false;
        loop {
            let lost = CancellationToken::new();
            let stream = self.stream(hop, before.as_ref()).await?;
            let mut handle = match self.handshake(hop, stream, &lost).await? {
                Ok(handle) => handle,
                // The server does not wait for people: they are asked first, then it is called again.
                Err(shown) if !asked && self.trusts(hop, &shown).await => {
                    asked = true;
                    continue;
                }
                Err(shown) => return Err(Error::UnknownHostKey(unknown(hop, &shown))),
            };
            login::log_in(&mut handle, hop, &self.keys, &self.questions).await?;
            let (openings, sessions) = (Semaphore::new(OPENINGS), Semaphore::new(SESSIONS));
            return Ok(Arc::new(Line { handle, login, lost, openings, sessions, _before: before }));
        }
    }

    async fn stream(&self, hop: &Hop, before: Option<&Arc<Line>>) -> Result<BoxStream, Error> {
        let target = Target::new(&hop.host, hop.port);
        let login = hop.login();
        let dialled = timeout(PATIENCE, async {
            match before {
                Some(line) => line.open(&target).await.map_err(|error| io::Error::new(error.kind(), error)),
                None => self.inner.dial(&target).await,
            }
        });
        match dialled.await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(source)) => Err(Error::Connect { login, source }),
            Err(_) => Err(Error::Silent { login, seconds: PATIENCE.as_secs() }),
        }
    }

    /// Agrees on keys with the server; the inner error is a host key that nobody knows.
    async fn handshake(
        &self,
        hop: &Hop,
        stream: BoxStream,
        lost: &CancellationToken,
    ) -> Result<Result<client::Handle<Client>, russh::keys::PublicKey>, Error> {
        let login = hop.login();
        let (name, port) = known_name(hop);
        let types = Preferred::DEFAULT.key.to_vec();
        let types = self.hosts.lock().unwrap_or_else(PoisonError::into_inner).preferred(name, port, types);
        let config = client::Config {
            keepalive_interval: Some(KEEP_ALIVE),
            keepalive_max: KEEP_ALIVES,
            channel_buffer_size: WAITING,
            preferred: Preferred { key: Cow::Owned(types), ..Preferred::DEFAULT },
            nodelay: true,
            ..client::Config::default()
        };
        let seen = Seen::default();
        let client = Client {
            hosts: self.hosts.clone(),
            name: name.to_owned(),
            port,
            seen: seen.clone(),
            _lost: lost.clone().drop_guard(),
        };
        let connected = timeout(PATIENCE, client::connect_stream(Arc::new(config), stream, client)).await;
        let error = match connected {
            Ok(Ok(handle)) => return Ok(Ok(handle)),
            Ok(Err(error)) => error,
            Err(_) => return Err(Error::Silent { login, seconds: PATIENCE.as_secs() }),
        };
        let seen = seen.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((key, verdict)) = seen else {
            return Err(Error::Handshake { login, source: words(&error) });
        };
        let shown = HostKey::of(&key);
        match verdict {
            Verdict::Known => Err(Error::Handshake { login, source: words(&error) }),
            Verdict::Unknown => Ok(Err(key)),
            Verdict::Changed { place, known } => {
                Err(Error::ChangedHostKey(Box::new(ChangedKey { login, key: shown, place, known })))
            }
            Verdict::Revoked { place } => Err(Error::RevokedHostKey { login, key: shown, place }),
            Verdict::Authority { place } => Err(Error::HostCertificate { login, key: shown, place }),
        }
    }

    /// Asks whether a key is right, and remembers a yes.
    async fn trusts(&self, hop: &Hop, key: &russh::keys::PublicKey) -> bool {
        let (questions, unknown) = (self.questions.clone(), unknown(hop, key));
        let trusts = tokio::task::spawn_blocking(move || questions.trusts(&unknown)).await.unwrap_or(false);
        if trusts {
            let (name, port) = known_name(hop);
            self.hosts.lock().unwrap_or_else(PoisonError::into_inner).learn(name, port, key);
        }
        trusts
    }
}

/// The name and port that known_hosts has for a server. An alias stands for the server whatever its port.
fn known_name(hop: &Hop) -> (&str, u16) {
    match &hop.known_as {
        Some(alias) => (alias, 22),
        None => (&hop.host, hop.port),
    }
}

fn unknown(hop: &Hop, key: &russh::keys::PublicKey) -> UnknownKey {
    let (name, port) = known_name(hop);
    UnknownKey { login: hop.login(), key: HostKey::of(key), line: known_line(name, port, key) }
}

impl State {
    fn alive(&self) -> Option<Arc<Line>> {
        self.line.as_ref().filter(|line| !line.is_lost()).cloned()
    }
}

impl Line {
    fn is_lost(&self) -> bool {
        self.lost.is_cancelled() || self.handle.is_closed()
    }

    /// A session of the server's SFTP.
    async fn sftp(self: &Arc<Self>) -> Result<BoxStream, Error> {
        let line = self.clone();
        let (tell, told) = oneshot::channel();
        // In a task of its own, for the same reason as a forwarded connection.
        tokio::spawn(async move {
            if let Err(Ok(channel)) = tell.send(line.start_sftp().await) {
                let _ = channel.close().await;
            }
        });
        let channel = told.await.unwrap_or_else(|_| Err(Error::Lost { login: self.login.clone() }))?;
        Ok(Box::new(Forwarded::new(channel, self.lost.clone(), self.login.clone())))
    }

    async fn start_sftp(&self) -> Result<Channel<client::Msg>, Error> {
        let login = || self.login.clone();
        let mut channel = match self.handle.channel_open_session().await {
            Err(russh::Error::ChannelOpenFailure(_)) => return Err(Error::NoSession { login: login() }),
            opened => opened.map_err(|_| Error::Lost { login: login() })?,
        };
        let mut refused = channel.request_subsystem(true, "sftp").await.is_err();
        while !refused {
            match channel.wait().await {
                Some(ChannelMsg::Success) => return Ok(channel),
                Some(ChannelMsg::WindowAdjusted { .. }) => {}
                Some(_) => refused = true,
                None => break,
            }
        }
        let _ = channel.close().await;
        match refused && !self.is_lost() {
            true => Err(Error::NoSftp { login: login() }),
            false => Err(Error::Lost { login: login() }),
        }
    }

    async fn open(self: &Arc<Self>, target: &Target) -> Result<BoxStream, Error> {
        let (line, wanted) = (self.clone(), target.clone());
        let (tell, told) = oneshot::channel();
        // In a task of its own: a connection that comes when nobody waits any more must be closed, or it stays open there.
        tokio::spawn(async move {
            let Ok(_turn) = line.openings.acquire().await else { return };
            if tell.is_closed() {
                return;
            }
            let (host, port) = (wanted.host, u32::from(wanted.port));
            let opened = line.handle.channel_open_direct_tcpip(host, port, "127.0.0.1", 0).await;
            if let Err(Ok(channel)) = tell.send(opened) {
                let _ = channel.close().await;
            }
        });
        let (login, target) = (self.login.clone(), target.clone());
        match told.await {
            Ok(Ok(channel)) => Ok(Box::new(Forwarded::new(channel, self.lost.clone(), login))),
            Ok(Err(russh::Error::ChannelOpenFailure(ChannelOpenFailure::AdministrativelyProhibited))) => {
                Err(Error::Forbidden { login, target })
            }
            Ok(Err(russh::Error::ChannelOpenFailure(_))) => Err(Error::Unreachable { login, target }),
            Ok(Err(_)) | Err(_) => Err(Error::Lost { login }),
        }
    }
}
