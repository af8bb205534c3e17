//! A dialer as a `tower` service over URIs, as hyper, tonic and kube want it.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::{
    client::legacy::connect::{Connected, Connection},
    rt::TokioIo,
};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tower_service::Service;

use crate::{BoxStream, Dialer, Target, server_name, tls_connect};

/// Opens a stream for each URI. Cheap to clone.
#[derive(Clone)]
pub struct Connector {
    dialer: Dialer,
    target: Option<Target>,
    tls: Option<(Arc<ClientConfig>, Option<ServerName<'static>>)>,
}

impl Connector {
    /// Plain streams to the URI's host and port.
    pub fn new(dialer: Dialer) -> Self {
        Self { dialer, target: None, tls: None }
    }

    /// Ends every stream at `target`, whatever the URI says.
    pub fn to(mut self, target: Target) -> Self {
        self.target = Some(target);
        self
    }

    /// Runs TLS over every stream, whatever the URI's scheme is. The server is expected to be `name`, or else the host
    /// that was dialled.
    pub fn tls(mut self, config: Arc<ClientConfig>, name: Option<ServerName<'static>>) -> Self {
        self.tls = Some((config, name));
        self
    }
}

impl Service<Uri> for Connector {
    type Response = Io;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Io>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let Self { dialer, target, tls } = self.clone();
        Box::pin(async move {
            let target = target.or_else(|| Target::of_uri(&uri)).ok_or_else(|| {
                io::Error::new(io::ErrorKind::InvalidInput, format!("no host to dial in '{uri}'"))
            })?;
            let stream = dialer.dial(&target).await?;
            let Some((config, name)) = tls else { return Ok(Io::new(stream)) };
            let name = match name {
                Some(name) => name,
                None => server_name(&target.host)?,
            };
            Ok(Io::new(Box::new(tls_connect(stream, name, config).await?)))
        })
    }
}

/// A stream in hyper's clothes.
pub struct Io(TokioIo<BoxStream>);

impl Io {
    /// Wraps a stream.
    pub fn new(stream: BoxStream) -> Self {
        Self(TokioIo::new(stream))
    }
}

impl Connection for Io {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl Write for Io {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, bufs)
    }
}
