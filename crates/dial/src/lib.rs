//! How to reach an address: direct, through a proxy, or inside a process.
//!
//! Everything that talks to a peer is built on a [`Dial`]: it hands out byte streams, so that the same client code
//! runs over TCP, through a proxy, and against an in-process peer under paused time.

use std::{fmt, future::Future, io, pin::Pin, sync::Arc};

use tokio::io::{AsyncRead, AsyncWrite};

/// Where a stream should end: a DNS name or an IP address in text form, and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// DNS name or IP address, without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl Target {
    /// A target from its two parts.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

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
}

/// The usual way to hold a [`Dial`].
pub type Dialer = Arc<dyn Dial>;

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
