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

#[cfg(test)]
mod tests {
    use hyper_util::{client::legacy::Client, rt::TokioExecutor};
    use rustls_pki_types::PrivateKeyDer;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::{Dial, Dialing, Trust, provider};

    /// Answers every request with the target that was dialled.
    struct Echo(Option<tokio_rustls::TlsAcceptor>);

    async fn answer(mut stream: BoxStream, target: String) -> io::Result<()> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await?);
        }
        let reply = format!("HTTP/1.1 200 {target}\r\nContent-Length: 0\r\n\r\n");
        stream.write_all(reply.as_bytes()).await?;
        stream.flush().await
    }

    impl Dial for Echo {
        fn dial<'a>(&'a self, target: &'a Target) -> Dialing<'a> {
            Box::pin(async move {
                let (near, far) = tokio::io::duplex(64 * 1024);
                let (tls, target) = (self.0.clone(), target.to_string());
                tokio::spawn(async move {
                    match tls {
                        Some(tls) => answer(Box::new(tls.accept(far).await?), target).await,
                        None => answer(Box::new(far), target).await,
                    }
                });
                Ok(Box::new(near) as BoxStream)
            })
        }
    }

    async fn reached(connector: Connector, uri: &str) -> String {
        let client: Client<_, String> = Client::builder(TokioExecutor::new()).build(connector);
        let response = client.get(uri.parse().unwrap()).await.unwrap();
        let reason = response.extensions().get::<hyper::ext::ReasonPhrase>().unwrap();
        String::from_utf8(reason.as_bytes().to_vec()).unwrap()
    }

    #[tokio::test]
    async fn hypers_client_runs_over_any_dialer() {
        let plain = Connector::new(Arc::new(Echo(None)));
        assert_eq!(reached(plain.clone(), "http://cp-1/x").await, "cp-1:80");
        assert_eq!(
            reached(plain.to(Target::new("10.0.0.11", 50000)), "http://cp-1/x").await,
            "10.0.0.11:50000"
        );
    }

    #[tokio::test]
    async fn tls_is_for_the_name_that_is_asked_for() {
        let pair = rcgen::generate_simple_self_signed(vec!["vip.home".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(pair.signing_key.serialize_der()).unwrap();
        let server = rustls::ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![pair.cert.der().clone()], key)
            .unwrap();
        let echo: Dialer = Arc::new(Echo(Some(tokio_rustls::TlsAcceptor::from(Arc::new(server)))));
        let trust = Trust::Ca(pair.cert.pem()).client_config().unwrap();
        let by_host = Connector::new(echo.clone()).tls(trust.clone(), None);
        assert_eq!(reached(by_host, "https://vip.home:6443/").await, "vip.home:6443");
        let by_name = Connector::new(echo).tls(trust, Some(server_name("vip.home").unwrap()));
        assert_eq!(reached(by_name.clone(), "https://10.0.0.20:6443/").await, "10.0.0.20:6443");
        assert!(by_name.clone().call("/no/host".parse().unwrap()).await.is_err());
    }
}
