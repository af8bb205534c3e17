//! How to reach an address: direct, through a proxy, or inside a process.
//!
//! Everything that talks to a peer is built on a [`Dial`]: it hands out byte streams, so that the same client code
//! runs over TCP, through a proxy, and against an in-process peer under paused time.
//!
//! - [`Direct`] dials by TCP, [`Refused`] not at all, [`Proxy`] through HTTP CONNECT or SOCKS5 (the proxy resolves the name),
//!   [`Timeout`] bounds any of them.
//! - [`Routes`] holds one dialer for each kind of peer.
//! - [`serve_proxy`] lets other programs on this machine go through a dialer; [`relay`] passes bytes between two streams.
//! - [`Trust`] says how a TLS server proves itself and makes the `rustls` configuration for it; [`tls_connect`] runs the
//!   handshake over any stream; [`judged_by`] is for certificates that are known by themselves. Only the `ring` provider is used, and it is named explicitly: nothing needs installing.
//! - [`Bounded`] ends an answer where a peer says too much.
//! - [`Connector`] is the same as a `tower` service, for hyper, tonic and kube; [`http1`] one connection of it.

mod bounded;
mod connector;
mod http;
mod local_proxy;
mod proxy;
mod relay;
mod routes;
mod socks;
mod target;
mod timeout;
mod tls;
mod tls_words;
mod verifier;

use std::{future::Future, io, pin::Pin, sync::Arc};

use tokio::io::{AsyncRead, AsyncWrite};

pub use self::http::http1;
pub use bounded::{Bounded, Bounds};
pub use connector::{Connector, Io};
pub use local_proxy::serve_proxy;
pub use proxy::{Proxy, ProxyError};
pub use relay::relay;
pub use routes::Routes;
pub use target::Target;
pub use timeout::Timeout;
pub use tls::{Fingerprint, Trust, TrustError, provider, server_name, shown_fingerprint, tls_connect};
pub use tls_words::{is_of_another_authority, tls_error};
pub use verifier::judged_by;

/// A bidirectional byte stream.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for T {}

/// A boxed [`Stream`].
pub type BoxStream = Box<dyn Stream>;

/// A future that yields a stream.
pub type Dialing<'a> = Pin<Box<dyn Future<Output = io::Result<BoxStream>> + Send + 'a>>;

/// Opens streams to targets. How is the implementation's secret.
pub trait Dial: Send + Sync + 'static {
    /// Opens one stream.
    fn dial<'a>(&'a self, target: &'a Target) -> Dialing<'a>;

    /// Who stands between, to be named when nothing comes: `proxy 10.0.0.9:3128`.
    fn through(&self) -> Option<String> {
        None
    }
}

/// The usual way to hold a [`Dial`].
pub type Dialer = Arc<dyn Dial>;

/// Refuses every connection, with this reason.
#[derive(Clone, Copy, Debug)]
pub struct Refused(pub &'static str);

impl Dial for Refused {
    fn dial<'a>(&'a self, target: &'a Target) -> Dialing<'a> {
        let why = format!("{target} is not contacted: {}", self.0);
        Box::pin(async move { Err(io::Error::new(io::ErrorKind::PermissionDenied, why)) })
    }
}

/// Dials by TCP from this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Direct;

impl Dial for Direct {
    fn dial<'a>(&'a self, target: &'a Target) -> Dialing<'a> {
        Box::pin(async move {
            let stream = tokio::net::TcpStream::connect((target.host.as_str(), target.port)).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as BoxStream)
        })
    }
}
