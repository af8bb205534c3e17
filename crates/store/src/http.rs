//! One HTTP/1.1 exchange with a server that keeps things, over any dialer.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use daedal_dial::{Dialer, Target, Trust, TrustError};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::client::conn::http1::SendRequest;
use rustls::ClientConfig;
use tokio::time::Instant;
use url::Url;

const CONNECT_LIMIT: Duration = Duration::from_secs(15);
/// For an answer to a small request; a large one gets more.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// The slowest line that an upload is waited for.
const BYTES_PER_SECOND: u64 = 128 << 10;
/// Idle connections are given up before servers close them under a request.
const KEEP_IDLE: Duration = Duration::from_secs(4);
const MAX_IDLE: usize = 4;
/// How often a request is tried that may be repeated without harm.
const TRIES: u32 = 4;

pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// Why a server did not do as asked.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// Nothing was sent.
    #[error("no connection to {host}")]
    Unreachable {
        /// The server.
        host: String,
        /// What broke.
        source: io::Error,
    },
    /// The connection broke after something was sent.
    #[error("{host} broke off the connection")]
    BrokeOff {
        /// The server.
        host: String,
        /// What broke.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No answer in time.
    #[error("{host} did not answer within {} s", limit.as_secs())]
    Silent {
        /// The server.
        host: String,
        /// How long it was waited for.
        limit: Duration,
    },
    /// An answer other than success.
    #[error("{host} answered {status}{}", said(text))]
    Refused {
        /// The server.
        host: String,
        /// The HTTP status.
        status: u16,
        /// What it said.
        text: String,
    },
    /// An answer that cannot be understood.
    #[error("the answer of {host} cannot be used: {text}")]
    Protocol {
        /// The server.
        host: String,
        /// What is wrong with it.
        text: String,
    },
}

fn said(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

impl Fault {
    /// Whether it may be gone at the next try.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { source, .. } => daedal_dial::tls_error(source).is_none(),
            Self::BrokeOff { .. } | Self::Silent { .. } => true,
            Self::Refused { status, .. } => matches!(status, 408 | 429 | 500 | 502 | 503 | 504),
            Self::Protocol { .. } => false,
        }
    }
}

/// An answer with its whole body.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// One server.
pub(crate) struct Http {
    dialer: Dialer,
    target: Target,
    tls: Option<Arc<ClientConfig>>,
    idle: Mutex<Vec<(SendRequest<Body>, Instant)>>,
}

impl Http {
    /// The server of a URL.
    pub(crate) fn new(url: &Url, dialer: Dialer, trust: &Trust) -> Result<Self, TrustError> {
        let tls = match url.scheme() {
            "http" => None,
            _ => Some(trust.client_config()?),
        };
        Ok(Self { dialer, target: Target::from(url), tls, idle: Mutex::default() })
    }

    pub(crate) fn host(&self) -> String {
        self.target.to_string()
    }

    /// Sends a request with a body of `size` bytes, and reads an answer of at most `largest`.
    pub(crate) async fn send(
        &self,
        request: Request<Body>,
        size: u64,
        largest: usize,
    ) -> Result<Answer, Fault> {
        let limit = ANSWER_LIMIT + Duration::from_secs((size + largest as u64 / 64) / BYTES_PER_SECOND);
        let mut sender = match self.take_idle().await {
            Some(sender) => sender,
            None => self.connect().await?,
        };
        let host = || self.host();
        let work = async {
            let broke = |error: hyper::Error| Fault::BrokeOff { host: host(), source: Box::new(error) };
            let (head, body) = sender.send_request(request).await.map_err(broke)?.into_parts();
            let body = Limited::new(body, largest).collect().await.map_err(|error| match error
                .downcast_ref::<LengthLimitError>(
            ) {
                Some(_) => {
                    Fault::Protocol { host: host(), text: format!("it has more than {largest} bytes") }
                }
                None => Fault::BrokeOff { host: host(), source: error },
            })?;
            Ok(Answer { status: head.status, headers: head.headers, body: body.to_bytes() })
        };
        let answer = tokio::time::timeout(limit, work)
            .await
            .unwrap_or_else(|_| Err(Fault::Silent { host: host(), limit }))?;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MAX_IDLE {
            idle.push((sender, Instant::now()));
        }
        Ok(answer)
    }

    /// Sends a request without a body that may be repeated without harm, as often as it may help.
    pub(crate) async fn ask(
        &self,
        make: impl Fn() -> Result<Request<Body>, Fault>,
        largest: usize,
    ) -> Result<Answer, Fault> {
        let mut tried = 1;
        loop {
            let fault = match self.send(make()?, 0, largest).await {
                Ok(answer) if tried < TRIES && matches!(answer.status.as_u16(), 429 | 500..=504) => None,
                Err(fault) if tried < TRIES && fault.may_pass() => Some(fault),
                done => return done,
            };
            tracing::debug!(host = self.host(), tried, ?fault, "trying again");
            tokio::time::sleep(Duration::from_millis(100 << tried)).await;
            tried += 1;
        }
    }

    async fn take_idle(&self) -> Option<SendRequest<Body>> {
        loop {
            let (mut sender, since) = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
            if since.elapsed() < KEEP_IDLE && sender.ready().await.is_ok() {
                return Some(sender);
            }
        }
    }

    async fn connect(&self) -> Result<SendRequest<Body>, Fault> {
        let connecting = daedal_dial::http1(&*self.dialer, &self.target, self.tls.clone());
        let late = || io::Error::new(io::ErrorKind::TimedOut, format!("no answer for {CONNECT_LIMIT:?}"));
        tokio::time::timeout(CONNECT_LIMIT, connecting)
            .await
            .unwrap_or_else(|_| Err(late()))
            .map_err(|source| Fault::Unreachable { host: self.host(), source })
    }
}

/// A body of bytes.
pub(crate) fn full(bytes: &[u8]) -> Body {
    Full::new(Bytes::copy_from_slice(bytes)).map_err(|never| match never {}).boxed_unsync()
}

/// What a server says in an answer, shortened for a message.
pub(crate) fn shortened(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(300) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
