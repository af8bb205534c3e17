//! A small S3 server for tests: one bucket, path-style addresses, conditional writes, lists in pages.
//!
//! Its line can be bad: answers get lost before or after the work is done, and everything can be held up for a while.

#![allow(dead_code)] // Every test uses a part of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

/// The bucket and the access key that it knows.
pub const BUCKET: &str = "states";
pub const ACCESS_KEY: &str = "test-access-key";

type Answer = Response<Full<Bytes>>;

/// A server. All clones are the same one.
#[derive(Clone)]
pub struct S3Server(Arc<Mutex<State>>);

struct State {
    objects: BTreeMap<String, Vec<u8>>,
    /// Whether it honours conditional writes.
    honest: bool,
    page: usize,
}

/// The way of one client to a server.
#[derive(Clone)]
pub struct Line(Arc<Mutex<Way>>);

struct Way {
    chance: u64,
    /// One of that many requests meets each kind of fault; none if there are no faults.
    faults: Option<u64>,
    held_until: Option<Instant>,
}

/// What happens to a request.
#[derive(PartialEq)]
enum Fate {
    Fine,
    LostBefore,
    LostAfter,
    Unavailable,
    Conflict,
}

impl Line {
    pub fn good() -> Self {
        Self(Arc::new(Mutex::new(Way { chance: 0, faults: None, held_until: None })))
    }

    pub fn bad(seed: u64, faults: u64) -> Self {
        Self(Arc::new(Mutex::new(Way { chance: seed, faults: Some(faults), held_until: None })))
    }

    /// Holds up all requests for a while, also those that are under way.
    pub fn hold(&self, time: Duration) {
        self.0.lock().unwrap().held_until = Some(Instant::now() + time);
    }

    async fn travel(&self) -> Fate {
        let (delay, fate) = {
            let mut way = self.0.lock().unwrap();
            let Some(faults) = way.faults else { return Fate::Fine };
            let mut below = |limit: u64| {
                way.chance = way
                    .chance
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                (way.chance >> 33) % limit
            };
            let fate = match below(faults) {
                0 => Fate::LostBefore,
                1 => Fate::LostAfter,
                2 => Fate::Unavailable,
                3 => Fate::Conflict,
                _ => Fate::Fine,
            };
            (Duration::from_millis(below(100)), fate)
        };
        tokio::time::sleep(delay).await;
        loop {
            let held = self.0.lock().unwrap().held_until.filter(|until| *until > Instant::now());
            match held {
                Some(until) => tokio::time::sleep_until(until).await,
                None => return fate,
            }
        }
    }
}

impl S3Server {
    pub fn new() -> Self {
        let state = State { objects: BTreeMap::new(), honest: true, page: 1000 };
        Self(Arc::new(Mutex::new(state)))
    }

    /// One that takes every write, whatever its conditions are, as Garage 2.5 does.
    pub fn ignoring_conditions() -> Self {
        let server = Self::new();
        server.state().honest = false;
        server
    }

    /// Lists that many keys at once.
    pub fn pages_of(&self, keys: usize) {
        self.state().page = keys;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub fn keys(&self) -> Vec<String> {
        self.state().objects.keys().cloned().collect()
    }

    pub fn object(&self, key: &str) -> Option<Vec<u8>> {
        self.state().objects.get(key).cloned()
    }

    /// What somebody else does to it.
    pub fn set(&self, key: &str, bytes: Option<Vec<u8>>) {
        let mut state = self.state();
        match bytes {
            Some(bytes) => drop(state.objects.insert(key.to_owned(), bytes)),
            None => drop(state.objects.remove(key)),
        }
    }

    /// Listens on a port of this machine for as long as the runtime lives.
    pub async fn listen(&self) -> SocketAddr {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, server) = (listener.local_addr().unwrap(), self.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(server.clone().serve(stream, Line::good()));
            }
        });
        address
    }

    /// Serves one connection.
    pub async fn serve(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, line: Line) {
        let service = service_fn(move |request| {
            let (server, line) = (self.clone(), line.clone());
            async move { server.exchange(request, &line).await }
        });
        let _ =
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
    }

    async fn exchange(&self, request: Request<Incoming>, line: &Line) -> Result<Answer, std::io::Error> {
        let cut = || std::io::Error::other("the line was cut");
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
        let fate = line.travel().await;
        let conditional = head.headers.contains_key("if-match") || head.headers.contains_key("if-none-match");
        match fate {
            Fate::LostBefore => return Err(cut()),
            Fate::Unavailable => return Ok(error(503, "SlowDown", "Please reduce your request rate.")),
            Fate::Conflict if conditional => {
                return Ok(error(
                    409,
                    "ConditionalRequestConflict",
                    "The conditional request cannot succeed.",
                ));
            }
            _ => {}
        }
        let answer = self.answer(&head.method, &head.uri, &head.headers, &body);
        match fate {
            Fate::LostAfter => Err(cut()),
            _ => Ok(answer),
        }
    }

    fn answer(&self, method: &Method, uri: &http::Uri, headers: &HeaderMap, body: &Bytes) -> Answer {
        if let Some(refusal) = unsigned(headers, body) {
            return refusal;
        }
        let path = decoded(uri.path());
        let (bucket, key) = path.trim_start_matches('/').split_once('/').unwrap_or((&path[1..], ""));
        if bucket != BUCKET {
            return error(404, "NoSuchBucket", "The specified bucket does not exist");
        }
        let mut state = self.state();
        match (method.as_str(), key) {
            ("GET", "") => state.list(uri.query().unwrap_or_default()),
            ("GET", key) => match state.objects.get(key) {
                Some(bytes) => reply(200, Some(&etag(bytes)), bytes.clone()),
                None => error(404, "NoSuchKey", "The specified key does not exist."),
            },
            ("PUT", key) => state.put(key, headers, body),
            ("DELETE", key) => {
                state.objects.remove(key);
                reply(204, None, Vec::new())
            }
            _ => error(405, "MethodNotAllowed", "The specified method is not allowed against this resource."),
        }
    }
}

impl State {
    fn put(&mut self, key: &str, headers: &HeaderMap, body: &Bytes) -> Answer {
        let there = self.objects.get(key).map(|bytes| etag(bytes));
        let header = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
        let failed = || error(412, "PreconditionFailed", "At least one of the pre-conditions did not hold");
        if self.honest {
            match (header("if-none-match").as_deref(), header("if-match"), there) {
                (Some("*"), None, Some(_)) => return failed(),
                (None, Some(_), None) => {
                    return error(404, "NoSuchKey", "The specified key does not exist.");
                }
                (None, Some(wanted), Some(there)) if wanted != there => return failed(),
                _ => {}
            }
        }
        self.objects.insert(key.to_owned(), body.to_vec());
        reply(200, Some(&etag(body)), Vec::new())
    }

    fn list(&self, query: &str) -> Answer {
        let parameter = |name: &str| {
            let value = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
            decoded(value.unwrap_or_default())
        };
        let (prefix, after) = (parameter("prefix"), parameter("continuation-token"));
        let keys: Vec<&String> =
            self.objects.keys().filter(|key| key.starts_with(&prefix) && **key > after).collect();
        let shown = &keys[..keys.len().min(self.page)];
        let mut text = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult \
             xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>{BUCKET}</Name><IsTruncated>{}</IsTruncated>",
            shown.len() < keys.len()
        );
        for key in shown {
            text += &format!("<Contents><Key>{}</Key></Contents>", key.replace('&', "&amp;"));
        }
        if let (Some(last), true) = (shown.last(), shown.len() < keys.len()) {
            text += &format!("<NextContinuationToken>{last}</NextContinuationToken>");
        }
        reply(200, None, (text + "</ListBucketResult>").into_bytes())
    }
}

/// The refusal of a request that lacks what a signed one must carry. Whether the signature is right is for real servers to say.
fn unsigned(headers: &HeaderMap, body: &Bytes) -> Option<Answer> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let said = header("authorization");
    if !said.starts_with(&format!("AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/")) {
        return Some(error(403, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist."));
    }
    let names =
        said.split("SignedHeaders=").nth(1).and_then(|rest| rest.split(',').next()).unwrap_or_default();
    let must = ["host", "x-amz-content-sha256", "x-amz-date", "if-match", "if-none-match"];
    let forgotten =
        must.iter().find(|name| headers.contains_key(**name) && !names.split(';').any(|n| n == **name));
    if forgotten.is_some() || header("x-amz-content-sha256") != hex::encode(Sha256::digest(body)) {
        return Some(error(403, "SignatureDoesNotMatch", "The request signature does not match."));
    }
    None
}

fn etag(bytes: &[u8]) -> String {
    format!("\"{}\"", &hex::encode(Sha256::digest(bytes))[..32])
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let digits = [rest.next().unwrap(), rest.next().unwrap()];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap());
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).unwrap()
}

fn reply(status: u16, etag: Option<&str>, body: Vec<u8>) -> Answer {
    let mut response = Response::builder().status(status);
    if let Some(etag) = etag {
        response = response.header("etag", etag);
    }
    response.body(Full::new(Bytes::from(body))).unwrap()
}

fn error(status: u16, code: &str, message: &str) -> Answer {
    let text =
        format!("<?xml version=\"1.0\"?>\n<Error><Code>{code}</Code><Message>{message}</Message></Error>");
    reply(status, None, text.into_bytes())
}
