//! A server that says exactly what a test wants, over in-memory streams and real TLS.
#![allow(dead_code, reason = "each test program uses a part")]

use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use daedal_dial::{BoxStream, Dial, Dialing, Target, provider};
use daedal_proxmox::{Builder, Client, Fingerprint, Token, Trust};
use rustls_pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;

pub const SECRET: &str = "canary-5c1f-secret";

/// A request as it came over the wire.
#[derive(Clone, Debug)]
pub struct Wire {
    pub method: String,
    pub target: String,
    pub head: String,
    pub body: String,
}

impl Wire {
    pub fn path(&self) -> &str {
        let path = self.target.split('?').next().unwrap();
        path.strip_prefix("/api2/json").unwrap()
    }

    pub fn query(&self) -> &str {
        self.target.split_once('?').map_or("", |(_, query)| query)
    }
}

/// What the server does.
pub enum Act {
    /// Answers and keeps the connection.
    Reply(String),
    /// The same, with an answer that is not copied.
    Shared(Arc<str>),
    /// Answers after a while.
    Late(Duration, String),
    /// Writes this and closes.
    Cut(String),
    /// Never answers.
    Hang,
}

/// An answer with a reason phrase of its own.
pub fn answer(status: u16, reason: &str, body: &str) -> Act {
    Act::Reply(text(status, reason, body))
}

pub fn text(status: u16, reason: &str, body: &str) -> String {
    let close = if status >= 400 { "Connection: close\r\n" } else { "" };
    format!("HTTP/1.1 {status} {reason}\r\nContent-Length: {}\r\n{close}\r\n{body}", body.len())
}

pub fn data(json: &str) -> Act {
    answer(200, "OK", &format!("{{\"data\":{json}}}"))
}

type Handler = dyn Fn(&Wire) -> Act + Send + Sync;

/// The server; also how to reach it.
#[derive(Clone)]
pub struct Server {
    handler: Arc<Handler>,
    acceptor: TlsAcceptor,
    pub pin: Fingerprint,
    pub seen: Arc<Mutex<Vec<Wire>>>,
    pub connections: Arc<AtomicU32>,
    /// So many dials are refused first.
    pub refuse: Arc<AtomicU32>,
    /// Half of each round trip.
    pub latency: Duration,
}

impl Server {
    pub fn new(handler: impl Fn(&Wire) -> Act + Send + Sync + 'static) -> Self {
        let pair = rcgen::generate_simple_self_signed(vec!["atlas".to_owned()]).unwrap();
        let der = pair.cert.der().clone();
        let key = PrivateKeyDer::try_from(pair.signing_key.serialize_der()).unwrap();
        let config = rustls::ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![der.clone()], key)
            .unwrap();
        Self {
            handler: Arc::new(handler),
            acceptor: TlsAcceptor::from(Arc::new(config)),
            pin: Fingerprint::of(&der),
            seen: Arc::default(),
            connections: Arc::default(),
            refuse: Arc::default(),
            latency: Duration::ZERO,
        }
    }

    pub fn builder(&self) -> Builder {
        let token = Token::new("robot@pve!cli", SECRET).unwrap();
        Client::builder("https://atlas:8006", token)
            .dialer(Arc::new(self.clone()))
            .trust(Trust::Fingerprint(self.pin))
    }

    pub fn client(&self) -> Client {
        self.builder().build().unwrap()
    }

    pub fn seen(&self) -> Vec<Wire> {
        self.seen.lock().unwrap().clone()
    }

    pub fn requests(&self) -> Vec<String> {
        self.seen().iter().map(|wire| format!("{} {}", wire.method, wire.path())).collect()
    }

    async fn serve(self, stream: tokio::io::DuplexStream) -> io::Result<()> {
        let mut stream = self.acceptor.accept(stream).await?;
        loop {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await?);
            }
            let head = String::from_utf8(head).unwrap();
            let length = head
                .lines()
                .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok())
                .unwrap_or(0_usize);
            let mut body = vec![0; length];
            stream.read_exact(&mut body).await?;
            let mut words = head.split(' ');
            let wire = Wire {
                method: words.next().unwrap().to_owned(),
                target: words.next().unwrap().to_owned(),
                head: head.clone(),
                body: String::from_utf8_lossy(&body).into_owned(),
            };
            tokio::time::sleep(self.latency).await;
            let act = (self.handler)(&wire);
            self.seen.lock().unwrap().push(wire);
            let (reply, keep): (Arc<str>, bool) = match act {
                Act::Reply(text) => (text.into(), true),
                Act::Shared(text) => (text, true),
                Act::Late(delay, text) => {
                    tokio::time::sleep(delay).await;
                    (text.into(), true)
                }
                Act::Cut(text) => (text.into(), false),
                Act::Hang => std::future::pending().await,
            };
            tokio::time::sleep(self.latency).await;
            let close = !keep || reply.contains("Connection: close");
            stream.write_all(reply.as_bytes()).await?;
            stream.flush().await?;
            if close {
                return stream.shutdown().await;
            }
        }
    }
}

impl Dial for Server {
    fn dial<'a>(&'a self, target: &'a Target) -> Dialing<'a> {
        Box::pin(async move {
            assert_eq!(target.to_string(), "atlas:8006");
            let refused =
                self.refuse.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
            if refused.is_ok() {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            self.connections.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(self.latency * 2).await;
            let (near, far) = tokio::io::duplex(1 << 20);
            tokio::spawn(self.clone().serve(far));
            Ok(Box::new(near) as BoxStream)
        })
    }
}
