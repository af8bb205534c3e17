//! The client: authentication, deadlines, retries where they are safe, and typed failures.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use daedal_dial::{Dialer, Direct, Target, Trust, TrustError};
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
    secret::{Identity, Ticket, Token},
    transport::{Answer, Failure, Transport},
};

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

/// Why a client cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Not an endpoint.
    #[error("'{0}' is not a Proxmox endpoint; 'https://host:8006' is expected")]
    Endpoint(String),
    /// TLS cannot be set up.
    #[error("the trust in the Proxmox server cannot be set up")]
    Trust(#[from] TrustError),
    /// The token cannot be sent.
    #[error("the API token cannot be sent in a header")]
    Token,
}

/// Why somebody could not log in.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// The client cannot be made.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// Proxmox said no, or said nothing.
    #[error(transparent)]
    Call(#[from] Error),
    /// A password is not enough.
    #[error("{user} logs in with a second factor, which needs a browser")]
    SecondFactor {
        /// Who.
        user: String,
    },
}

/// Collects what a [`Client`] needs.
pub struct Builder {
    endpoint: String,
    identity: Identity,
    dialer: Dialer,
    trust: Trust,
    observer: Option<Arc<dyn Observer>>,
    connect_limit: Duration,
    read_limit: Duration,
    write_limit: Duration,
    retry: Retry,
    parallel: (usize, usize),
}

impl Builder {
    /// How to reach the endpoint; by TCP unless told otherwise.
    pub fn dialer(mut self, dialer: Dialer) -> Self {
        self.dialer = dialer;
        self
    }

    /// How the server proves who it is; by the system's CAs unless told otherwise.
    pub fn trust(mut self, trust: Trust) -> Self {
        self.trust = trust;
        self
    }

    /// Who sees every call.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// How long a connection may take to come up (10 s), a read (45 s) and a change (90 s) to be answered. Proxmox
    /// itself gives up on another node after 30 s and on its own locks after up to 60 s.
    pub fn limits(mut self, connect: Duration, read: Duration, write: Duration) -> Self {
        (self.connect_limit, self.read_limit, self.write_limit) = (connect, read, write);
        self
    }

    /// How retries are spaced.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// How many reads (32) and how many changes (32) may be under way at once; the others wait their turn, and their
    /// deadlines with them. A node has three workers for each daemon, so more would only queue there.
    pub fn parallel(mut self, reads: usize, changes: usize) -> Self {
        self.parallel = (reads.max(1), changes.max(1));
        self
    }

    /// A client of somebody with a password, as the web interface logs in. What it may do ends after two hours, when
    /// Proxmox forgets the ticket.
    pub async fn log_in(mut self, user: &str, password: &str) -> Result<Client, LoginError> {
        let client = self.again().build()?;
        let mut form = Params::new();
        form.set("username", user).set("password", password);
        let ask =
            Ask::change(Method::POST, "/access/ticket", Repeat::Idempotent, format!("log in as {user}"));
        let answer: Value = client.ask(ask.form(form)).await?;
        if answer.get("NeedTFA").and_then(as_text).is_some_and(|needed| needed == "1") {
            return Err(LoginError::SecondFactor { user: user.to_owned() });
        }
        let part = |name: &str| answer.get(name).and_then(as_text);
        let (Some(ticket), Some(csrf)) = (part("ticket"), part("CSRFPreventionToken")) else {
            let kind = Kind::Protocol { text: "there is no ticket in it".to_owned() };
            return Err(LoginError::Call(Error::new(format!("log in as {user}"), kind)));
        };
        self.identity = Identity::Ticket(Ticket::new(user, ticket, csrf));
        Ok(self.build()?)
    }

    fn again(&self) -> Self {
        Self {
            endpoint: self.endpoint.clone(),
            identity: Identity::Nobody,
            dialer: self.dialer.clone(),
            trust: self.trust.clone(),
            observer: self.observer.clone(),
            ..*self
        }
    }

    /// The client. Connects to nothing yet.
    pub fn build(self) -> Result<Client, BuildError> {
        let wrong = || BuildError::Endpoint(self.endpoint.clone());
        let url = url::Url::parse(&self.endpoint).map_err(|_| wrong())?;
        let plain = url.scheme() == "https"
            && matches!(url.path(), "" | "/")
            && url.query().is_none()
            && url.username().is_empty();
        let host = url.host_str().filter(|host| plain && !host.is_empty()).ok_or_else(wrong)?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        // A URL without port means 443, which reverse proxies in front of Proxmox use.
        let target = Target::new(host, url.port_or_known_default().unwrap_or(443));
        let credentials = self.identity.headers().ok_or(BuildError::Token)?;
        let (name, tls) = (target.to_string(), self.trust.client_config()?);
        Ok(Client {
            transport: Arc::new(Transport::new(self.dialer, target, tls, self.connect_limit)),
            inner: Arc::new(Inner {
                host: HeaderValue::from_str(&name).map_err(|_| wrong())?,
                endpoint: name,
                identity: self.identity,
                credentials,
                observer: self.observer,
                read_limit: self.read_limit,
                write_limit: self.write_limit,
                retry: self.retry,
                reads: Semaphore::new(self.parallel.0),
                changes: Semaphore::new(self.parallel.1),
            }),
        })
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
        Self::builder_as(endpoint, Identity::Token(token))
    }

    /// Starts a client of an endpoint that nobody has logged in to yet: see [`Builder::log_in`].
    pub fn anonymous(endpoint: impl Into<String>) -> Builder {
        Self::builder_as(endpoint, Identity::Nobody)
    }

    fn builder_as(endpoint: impl Into<String>, identity: Identity) -> Builder {
        Builder {
            endpoint: endpoint.into(),
            identity,
            dialer: Arc::new(Direct),
            trust: Trust::System,
            observer: None,
            connect_limit: Duration::from_secs(10),
            read_limit: Duration::from_secs(45),
            write_limit: Duration::from_secs(90),
            retry: Retry::default(),
            parallel: (32, 32),
        }
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

    /// The same client with connections of its own, which nobody else's calls take away.
    pub(crate) fn apart(&self) -> Self {
        Self { inner: self.inner.clone(), transport: Arc::new(self.transport.apart()) }
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
            let (kind, again) = match self.attempt(&call, request, limit).await {
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
        let result = self.transport.exchange(request, limit).await;
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
                return fail(Kind::Unreachable { endpoint, cause: Arc::new(error) }, Again::Any);
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
        (Again::ByKind, Kind::Unreachable { .. } | Kind::Protocol { .. }) => repeat == Repeat::Read,
        (Again::ByKind, Kind::LockTimeout { .. } | Kind::NoWorkerUpid { .. }) => repeat != Repeat::Once,
        _ => false,
    }
}

fn is_distrust(error: &std::io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    matches!(inner, Some(rustls::Error::InvalidCertificate(_) | rustls::Error::General(_)))
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
