//! One HTTP/1.1 exchange, and the few idle connections worth keeping between exchanges.

use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use daedal_dial::{Bounded, Bounds, BoxStream, Dialer, Target};
use http::{Request, Response, header::CONNECTION};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Body as _, client::conn::http1, ext::ReasonPhrase};
use rustls::ClientConfig;
use tokio::time::Instant;

use crate::error::{Cause, text_cause};

/// Proxmox closes idle connections after 5 s; ours are given up a bit earlier, so that none dies under a request.
const KEEP_IDLE: Duration = Duration::from_secs(4);
const MAX_IDLE: usize = 16;

/// What came back.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) reason: String,
    /// The body; an error if it broke off.
    pub(crate) body: Result<Bytes, Cause>,
}

/// Why nothing came back.
pub(crate) enum Failure {
    /// Nothing was sent.
    NotSent(io::Error),
    /// The request, or part of it, was sent.
    Sent(Cause),
}

pub(crate) struct Transport {
    dialer: Dialer,
    target: Target,
    tls: Arc<ClientConfig>,
    connect_limit: Duration,
    idle: Mutex<Vec<Idle>>,
    /// How long the last connection took to come up, in microseconds.
    connect_time: AtomicU64,
}

type Sender = http1::SendRequest<Full<Bytes>>;

struct Idle {
    sender: Sender,
    since: Instant,
}

impl Transport {
    pub(crate) fn new(
        dialer: Dialer,
        target: Target,
        tls: Arc<ClientConfig>,
        connect_limit: Duration,
    ) -> Self {
        Self { dialer, target, tls, connect_limit, idle: Mutex::default(), connect_time: AtomicU64::new(0) }
    }

    /// The same way to the same target, with no connection yet.
    pub(crate) fn apart(&self) -> Self {
        Self {
            dialer: self.dialer.clone(),
            target: self.target.clone(),
            tls: self.tls.clone(),
            connect_limit: self.connect_limit,
            idle: Mutex::default(),
            connect_time: AtomicU64::new(self.connect_time.load(Ordering::Relaxed)),
        }
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// Sends one request, within `limit` in all.
    pub(crate) async fn exchange(
        &self,
        mut request: Request<Full<Bytes>>,
        limit: Duration,
        bounds: Bounds,
    ) -> Result<Answer, Failure> {
        let keep = request.method() == http::Method::GET;
        let sent = AtomicBool::new(false);
        let work = async {
            // A kept connection may have been closed meanwhile. hyper hands an unsent request back, and then a
            // fresh connection is as good as a first try.
            while let Some(mut sender) = self.take_idle() {
                if sender.ready().await.is_err() {
                    continue;
                }
                sent.store(true, Ordering::Relaxed);
                match sender.try_send_request(request).await {
                    Ok(response) => return Ok(self.finish(sender, response, keep, bounds).await),
                    Err(mut error) => match error.take_message() {
                        Some(unsent) => {
                            sent.store(false, Ordering::Relaxed);
                            request = unsent;
                        }
                        None => return Err(Failure::Sent(Arc::new(error.into_error()))),
                    },
                }
            }
            let mut sender = self.connect().await.map_err(Failure::NotSent)?;
            sent.store(true, Ordering::Relaxed);
            match sender.try_send_request(request).await {
                Ok(response) => Ok(self.finish(sender, response, keep, bounds).await),
                Err(mut error) => {
                    let unsent = error.take_message().is_some();
                    let error = error.into_error();
                    Err(if unsent {
                        Failure::NotSent(io::Error::new(io::ErrorKind::ConnectionAborted, error))
                    } else {
                        Failure::Sent(Arc::new(error))
                    })
                }
            }
        };
        match tokio::time::timeout(limit, work).await {
            Ok(result) => result,
            Err(_) if sent.load(Ordering::Relaxed) => {
                Err(Failure::Sent(text_cause(format!("no answer within {limit:?}"))))
            }
            Err(_) => Err(Failure::NotSent(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("no connection within {limit:?}"),
            ))),
        }
    }

    /// A stream of its own, for what is not an exchange.
    pub(crate) async fn stream(&self) -> io::Result<BoxStream> {
        let open = async {
            let stream = self.dialer.dial(&self.target).await?;
            let name = daedal_dial::server_name(&self.target.host)?;
            let stream = daedal_dial::tls_connect(stream, name, self.tls.clone()).await?;
            Ok(Box::new(stream) as BoxStream)
        };
        tokio::time::timeout(self.connect_limit, open)
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    fn take_idle(&self) -> Option<Sender> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|kept| kept.since.elapsed() < KEEP_IDLE && !kept.sender.is_closed());
        idle.pop().map(|kept| kept.sender)
    }

    /// How long before a request a connection should be opened to be ready for it.
    pub(crate) fn connect_time(&self) -> Duration {
        Duration::from_micros(self.connect_time.load(Ordering::Relaxed))
    }

    /// Opens a connection unless `count` kept ones will be ready at `at`.
    pub(crate) async fn warm(&self, at: Instant, count: usize) {
        let ready = |kept: &&Idle| kept.since + KEEP_IDLE > at && !kept.sender.is_closed();
        if self.idle.lock().unwrap_or_else(PoisonError::into_inner).iter().filter(ready).count() >= count {
            return;
        }
        // If it fails, the request itself will tell.
        if let Ok(mut sender) = self.connect().await
            && sender.ready().await.is_ok()
        {
            self.keep(sender);
        }
    }

    fn keep(&self, sender: Sender) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MAX_IDLE {
            idle.push(Idle { sender, since: Instant::now() });
        }
    }

    async fn connect(&self) -> io::Result<Sender> {
        let began = Instant::now();
        let open = async {
            let sender = daedal_dial::http1(&*self.dialer, &self.target, Some(self.tls.clone())).await?;
            let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
            self.connect_time.store(took, Ordering::Relaxed);
            Ok(sender)
        };
        tokio::time::timeout(self.connect_limit, open).await.unwrap_or_else(|_| {
            let through = self.dialer.through().map(|who| format!(" through {who}")).unwrap_or_default();
            Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("no connection to {}{through} within {:?}", self.target, self.connect_limit),
            ))
        })
    }

    async fn finish(
        &self,
        sender: Sender,
        response: Response<hyper::body::Incoming>,
        keep: bool,
        bounds: Bounds,
    ) -> Answer {
        let status = response.status();
        let reason = match response.extensions().get::<ReasonPhrase>() {
            Some(phrase) => String::from_utf8_lossy(phrase.as_bytes()).into_owned(),
            None => status.canonical_reason().unwrap_or_default().to_owned(),
        };
        // Proxmox closes after every failure and after most changes, sometimes saying both close and keep-alive.
        let closes = response
            .headers()
            .get_all(CONNECTION)
            .iter()
            .any(|value| value.as_bytes().to_ascii_lowercase().windows(5).any(|word| word == b"close"));
        let body = read(Bounded::new(response.into_body(), bounds), bounds).await;
        if keep && !closes && status.as_u16() < 400 && body.is_ok() && !sender.is_closed() {
            self.keep(sender);
        }
        Answer { status: status.as_u16(), reason, body }
    }
}

/// A whole body in one piece. It is put together as it comes, since pieces that are joined at the end take twice the memory.
async fn read(mut body: Bounded<hyper::body::Incoming>, bounds: Bounds) -> Result<Bytes, Cause> {
    let announced = body.size_hint().lower().min(bounds.bytes);
    let mut bytes = Vec::with_capacity(usize::try_from(announced).unwrap_or_default());
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.map_err(Cause::from)?.into_data() {
            bytes.extend_from_slice(&data);
        }
    }
    Ok(bytes.into())
}
