//! Collects what a client needs, and logs in where a password is all there is.

use std::{sync::Arc, time::Duration};

use daedal_dial::{Dialer, Direct, Target, Trust, TrustError};
use http::{HeaderValue, Method};
use serde_json::Value;
use tokio::sync::Semaphore;

use super::{Ask, Client, Inner, Repeat, Retry};
use crate::{
    error::{Error, Kind},
    lenient::as_text,
    observe::Observer,
    params::Params,
    secret::{Identity, Ticket},
    transport::Transport,
};

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
    pub(super) fn new(endpoint: String, identity: Identity) -> Self {
        Self {
            endpoint,
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
        if !plain || url.host_str().is_none_or(str::is_empty) {
            return Err(wrong());
        }
        // A URL without port means 443, which reverse proxies in front of Proxmox use.
        let target = Target::from(&url);
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
