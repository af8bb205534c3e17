//! The wire: TLS, HTTP/1.1 with Proxmox's reason phrases and envelope, credentials, and injected faults.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use daedal_dial::BoxStream;
use futures::Stream;
use http::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue, PRAGMA, SERVER, UPGRADE,
};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::ext::ReasonPhrase;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use serde_json::{Value, json};
use tokio_rustls::TlsAcceptor;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::context::Context;
use super::fail::{Answer, Fail};
use super::{Datacenter, Inner, api, request};
use crate::Acceptor;
use crate::faults::{Call, Fault, TaskFault};

/// A kept-alive connection is closed after this; it is the wire's own time, not the simulated one.
const IDLE: Duration = Duration::from_secs(5);

/// A connection is closed after this many requests.
const REQUESTS: u32 = 100;

const PREFIX: &str = "/api2/json";

type Body = StreamBody<Pin<Box<dyn Stream<Item = io::Result<Frame<Bytes>>> + Send>>>;

/// Takes connections for one host. Does not keep the datacenter alive.
pub(super) fn acceptor(datacenter: &Datacenter, host: String, tls: Arc<ServerConfig>) -> Acceptor {
    let datacenter: Weak<Inner> = Arc::downgrade(&datacenter.inner);
    Arc::new(move |stream| {
        let Some(inner) = datacenter.upgrade() else { return };
        tokio::spawn(serve(Datacenter { inner }, host.clone(), tls.clone(), stream));
    })
}

async fn serve(datacenter: Datacenter, host: String, tls: Arc<ServerConfig>, stream: BoxStream) {
    let halted = datacenter.halted();
    if !datacenter.with(|state| state.hosts.get(&host).is_some_and(|host| host.online)) {
        // The cable is pulled: the caller waits until it loses patience.
        halted.cancelled().await;
        return;
    }
    let Ok(stream) = TlsAcceptor::from(tls).accept(stream).await else { return };
    let served = AtomicU32::new(0);
    let service = hyper::service::service_fn(move |request| {
        let datacenter = datacenter.clone();
        let host = host.clone();
        let last = served.fetch_add(1, Ordering::Relaxed) + 1 >= REQUESTS;
        async move {
            let mut response = answer(datacenter, host, request).await?;
            if last {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Dropped>(response)
        }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .max_headers(64)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    tokio::select! {
        () = halted.cancelled() => {}
        // A broken connection is the caller's business.
        _ = connection => {}
    }
}

/// An answer as it goes on the wire.
struct Reply {
    status: u16,
    reason: String,
    body: Vec<u8>,
    writes: bool,
}

impl Reply {
    fn empty(status: u16, reason: &str) -> Self {
        Self { status, reason: reason.into(), body: Vec::new(), writes: false }
    }

    fn from(answer: Answer, writes: bool) -> Self {
        match answer {
            Ok(data) => {
                let mut envelope = json!({ "data": data.data });
                if let Some(total) = data.total {
                    envelope["total"] = total.into();
                }
                Self { status: 200, reason: "OK".into(), body: envelope.to_string().into_bytes(), writes }
            }
            Err(fail) if matches!(fail.status, 401 | 595 | 596) => Self::empty(fail.status, &fail.reason),
            Err(fail) => {
                let end = if fail.status == 501 { "" } else { "\n" };
                let mut envelope = json!({ "data": null, "message": format!("{}{end}", fail.reason) });
                if !fail.errors.is_empty() {
                    envelope["errors"] = fail
                        .errors
                        .iter()
                        .map(|(name, text)| (name.clone(), Value::from(text.as_str())))
                        .collect();
                }
                let reason = fail.reason.replace(['\n', '\r'], " ");
                Self {
                    status: fail.status,
                    reason: reason.trim().into(),
                    body: envelope.to_string().into(),
                    writes,
                }
            }
        }
    }

    fn into_response(self, truncate: bool) -> Response<Body> {
        let length = self.body.len();
        let close = self.status >= 400;
        let frames: Vec<io::Result<Frame<Bytes>>> = if truncate {
            let half = Bytes::copy_from_slice(&self.body[..length / 2]);
            vec![Ok(Frame::data(half)), Err(io::ErrorKind::ConnectionReset.into())]
        } else if length == 0 {
            Vec::new()
        } else {
            vec![Ok(Frame::data(self.body.into()))]
        };
        let mut response = Response::new(StreamBody::new(Box::pin(futures::stream::iter(frames)) as _));
        *response.status_mut() =
            StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if let Ok(reason) = ReasonPhrase::try_from(self.reason.into_bytes()) {
            response.extensions_mut().insert(reason);
        }
        let headers = response.headers_mut();
        headers.insert(SERVER, HeaderValue::from_static("pve-api-daemon/3.0"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("max-age=0"));
        headers.insert(PRAGMA, HeaderValue::from_static("no-cache"));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        if length > 0 {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json;charset=UTF-8"));
        }
        if close {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        } else if self.writes {
            // The real proxy says both; nobody should count on reuse.
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
            headers.append(CONNECTION, HeaderValue::from_static("Keep-Alive"));
        }
        response
    }
}

/// A connection that ends without an answer.
#[derive(Debug, thiserror::Error)]
#[error("the connection ends here")]
struct Dropped;

async fn answer(
    datacenter: Datacenter,
    host: String,
    request: Request<Incoming>,
) -> Result<Response<Body>, Dropped> {
    let mut request = request;
    let socket = upgrade(&mut request);
    let (head, body) = request.into_parts();
    let full_path = head.uri.path().to_owned();
    let path = full_path.strip_prefix(PREFIX).unwrap_or(&full_path).to_owned();
    let mutating = !matches!(head.method, Method::GET | Method::HEAD) && path != "/access/ticket";
    let method = head.method.as_str().to_owned();
    let incoming = Arrival {
        method: head.method,
        path: path.clone(),
        headers: head.headers,
        query: head.uri.query().unwrap_or_default().to_owned(),
        body: Vec::new(),
    };
    let incoming = match incoming.read(body).await {
        Ok(Some(incoming)) => incoming,
        Ok(None) => return Err(Dropped),
        Err(fail) => return Ok(Reply::from(Err(fail), mutating).into_response(false)),
    };
    let at = datacenter.pace().now();
    let faults = datacenter.faults().clone();
    let verdict = faults.arrive(Call { service: "proxmox", method: &method, path: &path, mutating, at });
    verdict.before_effect().await;
    let (pace, upgrading) = (datacenter.pace(), datacenter.clone());
    let patience = datacenter.durations().proxy;
    let canned = match &verdict.fault {
        Some(Fault::HangBefore) => std::future::pending().await,
        Some(Fault::DropBefore) => return Err(Dropped),
        Some(Fault::TimedOutBefore) => {
            pace.pass(patience).await;
            Some(Reply::empty(596, "Connection timed out"))
        }
        Some(Fault::Status(status)) => Some(Reply::from(Err(injected(*status)), mutating)),
        Some(Fault::LockTimeout) => Some(Reply::from(Err(lock_timeout(&path)), mutating)),
        _ => None,
    };
    let reply = match canned {
        Some(reply) => reply,
        None => {
            let task_fault = match &verdict.fault {
                Some(Fault::Task(fault)) => Some(fault.clone()),
                _ => None,
            };
            effect(datacenter, host, incoming, task_fault, mutating, &verdict.fault).await
        }
    };
    verdict.after_effect().await;
    let mut truncate = false;
    let mut reply = reply;
    match &verdict.fault {
        Some(Fault::HangAfter) => std::future::pending().await,
        Some(Fault::DropAfter) => return Err(Dropped),
        Some(Fault::TimedOutAfter) => {
            pace.pass(patience).await;
            reply = Reply::empty(596, "Connection timed out");
        }
        Some(Fault::Slow(duration)) => pace.pass(*duration).await,
        Some(Fault::TruncatedBody) => truncate = true,
        Some(Fault::MalformedBody) => reply.body = b"<html><body>Bad Gateway</body></html>".to_vec(),
        _ => {}
    }
    faults.finish(&verdict, reply.status);
    match socket {
        Some(socket) if reply.status == 200 => Ok(socket.switch(upgrading, &path)),
        _ => Ok(reply.into_response(truncate)),
    }
}

/// A request to speak WebSocket from here on.
struct Upgrade {
    key: String,
    protocol: bool,
    port: u16,
    ready: hyper::upgrade::OnUpgrade,
}

fn upgrade(request: &mut Request<Incoming>) -> Option<Upgrade> {
    let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
    let asked = request.uri().path().ends_with("/vncwebsocket")
        && header("upgrade").is_some_and(|to| to.eq_ignore_ascii_case("websocket"))
        && header("sec-websocket-version") == Some("13");
    let key = header("sec-websocket-key").filter(|_| asked)?.to_owned();
    let protocol = header("sec-websocket-protocol").is_some_and(|offered| offered.contains("binary"));
    let query = request::parse_form(request.uri().query().unwrap_or_default());
    let port = query.get("port").and_then(|port| port.parse().ok())?;
    Some(Upgrade { key, protocol, port, ready: hyper::upgrade::on(request) })
}

impl Upgrade {
    /// Ends HTTP on this connection and goes on with the console.
    fn switch(self, datacenter: Datacenter, path: &str) -> Response<Body> {
        let host = path.split('/').nth(2).unwrap_or_default().to_owned();
        let accept = derive_accept_key(self.key.as_bytes());
        let mut response = Response::new(StreamBody::new(Box::pin(futures::stream::empty()) as _));
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(UPGRADE, HeaderValue::from_static("WebSocket"));
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        if let Ok(accept) = HeaderValue::from_str(&accept) {
            headers.insert("sec-websocket-accept", accept);
        }
        if self.protocol {
            headers.insert("sec-websocket-protocol", HeaderValue::from_static("binary"));
        }
        tokio::spawn(async move {
            // A client that goes away before the switch leaves nothing to serve.
            if let Ok(stream) = self.ready.await {
                api::console::run(datacenter, host, self.port, TokioIo::new(stream)).await;
            }
        });
        response
    }
}

/// Runs the call to its end even when the caller goes away, and gives up on its answer when it takes too long.
async fn effect(
    datacenter: Datacenter,
    host: String,
    incoming: Arrival,
    fault: Option<TaskFault>,
    mutating: bool,
    injected: &Option<Fault>,
) -> Reply {
    let pace = datacenter.pace();
    let patience = datacenter.durations().proxy;
    let patient = datacenter.realities().proxy_timeout;
    let work = tokio::spawn(async move { incoming.run(datacenter, host, fault).await });
    // A caller that hangs on purpose waits for the effect however long it takes.
    if (injected.is_some() && mutating) || !patient {
        return finished(work.await, mutating);
    }
    tokio::select! {
        biased;
        answer = work => finished(answer, mutating),
        () = pace.pass(pace.patience(patience)) => Reply::empty(596, "Connection timed out"),
    }
}

fn finished(answer: Result<Answer, tokio::task::JoinError>, mutating: bool) -> Reply {
    Reply::from(answer.unwrap_or_else(|_| Err(Fail::internal("internal error in the lab"))), mutating)
}

fn injected(status: u16) -> Fail {
    let reason = match status {
        401 => "Authentication failed!",
        403 => "Permission check failed",
        404 => "Not Found",
        409 => "Conflict",
        501 => "Method not implemented",
        595 => "Connection refused",
        596 => "Connection timed out",
        _ => "an error was injected",
    };
    Fail::new(status, reason)
}

fn lock_timeout(path: &str) -> Fail {
    let mut parts = path.split('/');
    let vmid = parts.find(|part| *part == "qemu").and_then(|_| parts.next());
    let file = match vmid {
        Some(vmid) => format!("/var/lock/qemu-server/lock-{vmid}.conf"),
        None => "/var/lock/pve-manager/pve-storage-local".into(),
    };
    Fail::internal(format!("can't lock file '{file}' - got timeout"))
}

/// A request that was read whole.
struct Arrival {
    method: Method,
    path: String,
    headers: HeaderMap,
    query: String,
    body: Vec<u8>,
}

impl Arrival {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    fn is_upload(&self) -> bool {
        self.method == Method::POST && self.path.ends_with("/upload")
    }

    /// Applies the rules for bodies. None: the connection is dropped.
    async fn read(mut self, body: Incoming) -> Result<Option<Self>, Fail> {
        if let Some(encoding) = self.header("transfer-encoding") {
            return Err(if encoding.eq_ignore_ascii_case("chunked") {
                Fail::new(501, "chunked transfer encoding not supported")
            } else {
                Fail::new(501, format!("Unknown transfer encoding '{encoding}'"))
            });
        }
        let length: usize = self.header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
        if length == 0 {
            return Ok(Some(self));
        }
        if !matches!(self.method, Method::PUT | Method::POST) {
            return Err(Fail::new(501, format!("Unexpected content for method '{}'", self.method)));
        }
        let full_type = self.header("content-type").unwrap_or_default().to_owned();
        let plain = full_type.split(';').next().unwrap_or_default().trim();
        if self.is_upload() {
            if request::boundary(&full_type).is_none() {
                return Ok(None);
            }
        } else {
            if length > request::MAX_BODY {
                return Err(Fail::new(501, "for data too large"));
            }
            if !matches!(plain, "" | "application/x-www-form-urlencoded" | "application/json") {
                return Err(Fail::new(506, format!("upload 'Content-Type '{full_type}' not implemented")));
            }
        }
        let Ok(collected) = body.collect().await else { return Ok(None) };
        self.body = collected.to_bytes().to_vec();
        Ok(Some(self))
    }

    async fn run(self, dc: Datacenter, local: String, fault: Option<TaskFault>) -> Answer {
        let content_type = self.header("content-type").unwrap_or_default().to_owned();
        let mut upload = None;
        let body = if let Some(boundary) = request::boundary(&content_type).filter(|_| self.is_upload()) {
            let (params, file) = request::parse_multipart(&self.body, boundary);
            upload = file;
            params
        } else if content_type.starts_with("application/json") {
            request::parse_json(&self.body)?
        } else {
            request::parse_form(&String::from_utf8_lossy(&self.body))
        };
        let params = request::merge(body, request::parse_form(&self.query));
        let open = api::login::needs_no_credentials(self.method.as_str(), &self.path);
        let who = if open {
            super::access::Who { user: String::new(), token: None }
        } else {
            let credentials = api::login::Credentials {
                authorization: self.header("authorization"),
                cookie: self.header("cookie"),
                csrf: self.header("csrfpreventiontoken"),
                writes: self.method != Method::GET && !self.is_upload(),
            };
            match api::login::authenticate(&dc, &credentials) {
                Ok(who) => who,
                Err(fail) => {
                    dc.pace().pass(dc.durations().unauthorized).await;
                    return Err(fail);
                }
            }
        };
        let method = self.method.as_str().to_owned();
        let context = Context { dc, local, method, path: self.path, params, who, upload, fault };
        api::call(context).await
    }
}
