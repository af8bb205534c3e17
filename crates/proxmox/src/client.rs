//! The client: authentication, deadlines, retries where they are safe, and typed failures.

mod builder;

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use daedal_dial::{Bounds, tls_error};
use http::{
    HeaderName, HeaderValue, Method, Request,
    header::{CONTENT_LENGTH, CONTENT_TYPE, HOST},
};
use http_body_util::Full;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::{sync::Semaphore, time::Instant};

use crate::{
    classify::{Refusal, from_answer},
    error::{Error, Kind, text_cause},
    lenient::as_text,
    observe::{Call, Fault, Observer, Seen},
    params::Params,
    secret::{Identity, Token},
    transport::{Answer, Failure, Transport},
};

pub use builder::{BuildError, Builder, LoginError};

/// A client of one Proxmox VE endpoint. Cheap to clone; all clones share connections.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
    transport: Arc<Transport>,
}

struct Inner {
    endpoint: String,
    identity: Identity,
    credentials: Vec<(HeaderName, HeaderValue)>,
    host: HeaderValue,
    observer: Option<Arc<dyn Observer>>,
    read_limit: Duration,
    write_limit: Duration,
    retry: Retry,
    /// Turns for reads and for changes. Apart, so that slow uploads do not hold up a look at a task.
    reads: Semaphore,
    changes: Semaphore,
}

/// How often, and after which waits, a call that may be repeated is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Tries in all; 1 turns retries off.
    pub tries: u32,
    /// Wait before the second try; doubles with each further one.
    pub first_wait: Duration,
    /// Longest wait.
    pub longest_wait: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        let (first_wait, longest_wait) = (Duration::from_millis(250), Duration::from_secs(4));
        Self { tries: 5, first_wait, longest_wait }
    }
}

impl Retry {
    fn wait(&self, attempt: u32) -> Duration {
        self.first_wait.saturating_mul(1 << attempt.saturating_sub(1).min(16)).min(self.longest_wait)
    }
}

/// When a call may be sent again. See the table in the crate's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// A read: whenever the failure may pass.
    Read,
    /// A change that has the same effect when done twice: when the failure proves that nothing happened.
    Idempotent,
    /// A change that has not: only when nothing was sent.
    Once,
}

/// A body to send.
pub(crate) enum Body {
    None,
    Form(Params),
    Multipart { content_type: String, bytes: Bytes },
}

/// A request before it is sent.
pub(crate) struct Ask {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: Params,
    pub(crate) body: Body,
    pub(crate) operation: String,
    pub(crate) repeat: Repeat,
    pub(crate) limit: Option<Duration>,
    /// How much may be answered.
    pub(crate) bounds: Bounds,
}

impl Ask {
    pub(crate) fn get(path: impl Into<String>, operation: impl Into<String>) -> Self {
        Self {
            method: Method::GET,
            path: path.into(),
            query: Params::new(),
            body: Body::None,
            operation: operation.into(),
            repeat: Repeat::Read,
            limit: None,
            bounds: Bounds::LIST,
        }
    }

    pub(crate) fn change(
        method: Method,
        path: impl Into<String>,
        repeat: Repeat,
        operation: impl Into<String>,
    ) -> Self {
        Self { method, repeat, ..Self::get(path, operation) }
    }

    /// What is asked for is one thing, not a list.
    pub(crate) fn about_one(mut self) -> Self {
        self.bounds = Bounds::ONE;
        self
    }

    pub(crate) fn query(mut self, query: Params) -> Self {
        self.query = query;
        self
    }

    pub(crate) fn form(mut self, form: Params) -> Self {
        self.body = Body::Form(form);
        self
    }

    fn mutating(&self) -> bool {
        self.method != Method::GET
    }
}

/// The envelope of a success.
#[derive(Deserialize)]
struct Envelope<T> {
    data: T,
}

/// What the body of a failure says, if it says anything.
#[derive(Default, Deserialize)]
struct Complaint {
    #[serde(default)]
    message: Option<Value>,
    #[serde(default)]
    errors: Option<serde_json::Map<String, Value>>,
}

enum Step<T> {
    Done(T),
    Fail { kind: Kind, again: Again },
}

/// What a failure says about trying again, besides its kind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Again {
    /// Nothing was sent: any call may.
    Any,
    /// As [`Repeat`] and the kind say.
    ByKind,
    /// The answer would be the same.
    Never,
}

impl Client {
    /// Starts a client of an endpoint such as `https://atlas.lan:8006`.
    pub fn builder(endpoint: impl Into<String>, token: Token) -> Builder {
        Builder::new(endpoint.into(), Identity::Token(token))
    }

    /// Starts a client of an endpoint that nobody has logged in to yet: see [`Builder::log_in`].
    pub fn anonymous(endpoint: impl Into<String>) -> Builder {
        Builder::new(endpoint.into(), Identity::Nobody)
    }

    /// `host:port` of the endpoint.
    pub fn endpoint(&self) -> &str {
        &self.inner.endpoint
    }

    /// `user@realm!name` of the token; `user@realm` of somebody who logged in.
    pub fn token_id(&self) -> &str {
        self.inner.identity.id()
    }

    /// `user@realm` of the token or of who logged in.
    pub fn user(&self) -> &str {
        self.inner.identity.user()
    }

    /// Whether this is a clone of the same client.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// The same client with connections of its own, which nobody else's calls take away.
    pub(crate) fn apart(&self) -> Self {
        Self { inner: self.inner.clone(), transport: Arc::new(self.transport.apart()) }
    }

    /// A stream to the endpoint that is not an exchange of the API.
    pub(crate) async fn stream(&self) -> std::io::Result<daedal_dial::BoxStream> {
        self.transport.stream().await
    }

    /// The headers that every request has: host and credentials.
    pub(crate) fn headers(&self) -> impl Iterator<Item = (&http::HeaderName, &http::HeaderValue)> {
        let credentials = self.inner.credentials.iter().map(|(name, value)| (name, value));
        std::iter::once((&HOST, &self.inner.host)).chain(credentials)
    }

    /// How long before a call a connection should be opened to be ready for it.
    pub(crate) fn connect_time(&self) -> Duration {
        self.transport.connect_time()
    }

    /// Opens a connection unless `count` of them will be ready for calls at `at`. No call is made.
    pub(crate) async fn warm(&self, at: Instant, count: usize) {
        self.transport.warm(at, count).await;
    }

    /// Sends a request, again where that is safe, and reads `data`.
    pub(crate) async fn ask<T: DeserializeOwned>(&self, ask: Ask) -> Result<T, Error> {
        let mut call = Call {
            method: match ask.method {
                Method::POST => "POST",
                Method::PUT => "PUT",
                Method::DELETE => "DELETE",
                _ => "GET",
            },
            path: ask.path.clone(),
            operation: ask.operation.clone(),
            mutating: ask.mutating(),
            attempt: 0,
        };
        let (content_type, body) = match ask.body {
            Body::None => (None, Bytes::new()),
            Body::Form(form) => (Some("application/x-www-form-urlencoded".to_owned()), form.encode().into()),
            Body::Multipart { content_type, bytes } => (Some(content_type), bytes),
        };
        let uri = if ask.query.is_empty() {
            format!("/api2/json{}", ask.path)
        } else {
            format!("/api2/json{}?{}", ask.path, ask.query.encode())
        };
        let limit =
            ask.limit.unwrap_or(if call.mutating { self.inner.write_limit } else { self.inner.read_limit });
        loop {
            call.attempt += 1;
            let mut request = Request::builder().method(&ask.method).uri(&uri).header(HOST, &self.inner.host);
            for (name, value) in &self.inner.credentials {
                request = request.header(name, value);
            }
            if let Some(content_type) = &content_type {
                request = request.header(CONTENT_TYPE, content_type);
            } else if matches!(ask.method, Method::POST | Method::PUT) {
                // hyper leaves it out for empty bodies.
                request = request.header(CONTENT_LENGTH, 0);
            }
            let request = request.body(Full::new(body.clone())).map_err(|error| {
                Error::new(
                    &ask.operation,
                    Kind::Protocol { text: format!("the request cannot be made: {error}") },
                )
            })?;
            let (kind, again) = match self.attempt(&call, request, limit, ask.bounds).await {
                Step::Done(data) => return Ok(data),
                Step::Fail { kind, again } => (kind, again),
            };
            let again = call.attempt < self.inner.retry.tries && repeatable(ask.repeat, &kind, again);
            tracing::debug!(
                method = call.method, path = %call.path, attempt = call.attempt, again, error = %kind, "call failed"
            );
            if !again {
                return Err(Error::new(ask.operation, kind));
            }
            tokio::time::sleep(self.inner.retry.wait(call.attempt)).await;
        }
    }

    async fn attempt<T: DeserializeOwned>(
        &self,
        call: &Call,
        request: Request<Full<Bytes>>,
        limit: Duration,
        bounds: Bounds,
    ) -> Step<T> {
        let observer = self.inner.observer.as_deref();
        if let Some(observer) = observer
            && let Some(fault) = observer.before(call).await
        {
            return self.judge(call, fault.into());
        }
        let turns = if call.mutating { &self.inner.changes } else { &self.inner.reads };
        // Never closed, so that a turn always comes.
        let turn = turns.acquire().await;
        let began = Instant::now();
        let result = self.transport.exchange(request, limit, bounds).await;
        drop(turn);
        let status = result.as_ref().ok().map(|answer| answer.status);
        tracing::trace!(method = call.method, path = %call.path, ?status, elapsed = ?began.elapsed(), "call");
        if let Some(observer) = observer {
            let seen = Seen { status, elapsed: began.elapsed() };
            if let Some(fault) = observer.after(call, &seen).await {
                return self.judge(call, fault.into());
            }
        }
        self.judge(call, result)
    }

    fn judge<T: DeserializeOwned>(&self, call: &Call, result: Result<Answer, Failure>) -> Step<T> {
        let endpoint = self.transport.target().to_string();
        let fail = |kind, again| Step::Fail { kind, again };
        let answer = match result {
            Ok(answer) => answer,
            Err(Failure::NotSent(error)) if is_distrust(&error) => {
                // A certificate does not become right by asking again.
                return fail(Kind::Untrusted { endpoint, cause: Arc::new(error) }, Again::Never);
            }
            Err(Failure::NotSent(error)) => {
                // Neither does a server without TLS.
                let plain = matches!(tls_error(&error), Some(rustls::Error::InvalidMessage(_)));
                let again = if plain { Again::Never } else { Again::Any };
                return fail(Kind::Unreachable { endpoint, cause: Arc::new(error) }, again);
            }
            Err(Failure::Sent(cause)) if call.mutating => {
                return fail(Kind::MayHaveHappened { cause }, Again::ByKind);
            }
            Err(Failure::Sent(cause)) => return fail(Kind::Unreachable { endpoint, cause }, Again::ByKind),
        };
        if !(200..300).contains(&answer.status) {
            let body = answer.body.unwrap_or_default();
            let complaint: Complaint = serde_json::from_slice(&body).unwrap_or_default();
            let errors = complaint.errors.unwrap_or_default();
            let refusal = Refusal {
                status: answer.status,
                reason: answer.reason,
                message: complaint.message.as_ref().and_then(as_text).unwrap_or_default(),
                errors: errors.iter().filter_map(|(name, why)| Some((name.clone(), as_text(why)?))).collect(),
            };
            return fail(from_answer(refusal, call.mutating, &endpoint), Again::ByKind);
        }
        let (text, again) = match answer.body {
            Ok(body) => match serde_json::from_slice::<Envelope<T>>(&body) {
                Ok(envelope) => return Step::Done(envelope.data),
                Err(error) if error.is_data() => (error.to_string(), Again::Never),
                Err(error) => (error.to_string(), Again::ByKind),
            },
            Err(cause) => (cause.to_string(), Again::ByKind),
        };
        if call.mutating {
            let cause = text_cause(format!("the answer cannot be read: {text}"));
            return fail(Kind::MayHaveHappened { cause }, again);
        }
        fail(Kind::Protocol { text }, again)
    }
}

/// The table of the crate's documentation.
fn repeatable(repeat: Repeat, kind: &Kind, again: Again) -> bool {
    match (again, kind) {
        (Again::Any, _) => true,
        (Again::Never, _) => false,
        (Again::ByKind, Kind::Unreachable { .. } | Kind::Protocol { .. } | Kind::StorageTimeout { .. }) => {
            repeat == Repeat::Read
        }
        (Again::ByKind, Kind::LockTimeout { .. } | Kind::NoWorkerUpid { .. }) => repeat != Repeat::Once,
        _ => false,
    }
}

fn is_distrust(error: &std::io::Error) -> bool {
    matches!(tls_error(error), Some(rustls::Error::InvalidCertificate(_) | rustls::Error::General(_)))
}

impl From<Fault> for Result<Answer, Failure> {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Refused => {
                Err(Failure::NotSent(std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "injected")))
            }
            Fault::Lost => Err(Failure::Sent(text_cause("the connection broke (injected)"))),
            Fault::Reply { status, reason, body } => Ok(Answer { status, reason, body: Ok(body.into()) }),
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("endpoint", &self.inner.endpoint)
            .field("identity", &self.inner.identity)
            .finish_non_exhaustive()
    }
}
