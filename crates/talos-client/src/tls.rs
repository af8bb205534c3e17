//! TLS as nodes speak it: mutual with Ed25519, or the server's certificate pinned by its public key.

use std::{
    fmt, io,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use daedal_dial::{BoxStream, Dialer, Target, judged_by, provider, tls_connect, tls_error};
use daedal_talos_config::{ClientCredentials, pki};
use jiff::Timestamp;
use rustls::{
    ClientConfig, RootCertStore,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier as _},
    time_provider::{DefaultTimeProvider, TimeProvider},
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Sleep,
};
use tokio_rustls::client::TlsStream;

use crate::{
    Result,
    failure::{Failure, FailureKind},
};

/// Tells the time that certificates are judged by. Only simulations need one of their own.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

struct InjectedTime(Clock);

impl fmt::Debug for InjectedTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InjectedTime")
    }
}

impl TimeProvider for InjectedTime {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = u64::try_from((self.0)().as_second()).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

fn time_provider(clock: Option<&Clock>) -> Arc<dyn TimeProvider> {
    match clock {
        Some(clock) => Arc::new(InjectedTime(clock.clone())),
        None => Arc::new(DefaultTimeProvider),
    }
}

fn roots(authority: &str) -> Result<Arc<RootCertStore>> {
    let mut roots = RootCertStore::empty();
    let certificate = pki::certificate_from_pem(authority)?;
    roots.add(certificate).map_err(|error| crate::Error::Certificate { reason: error.to_string() })?;
    Ok(Arc::new(roots))
}

/// Mutual TLS with the given credentials.
pub(crate) fn mutual(credentials: &ClientCredentials, clock: Option<&Clock>) -> Result<Arc<ClientConfig>> {
    let tls_fault = |error: rustls::Error| crate::Error::Certificate { reason: error.to_string() };
    let certificate = pki::certificate_from_pem(&credentials.crt)?;
    let key = pki::PrivateKey::from_pem(credentials.key.expose())?.to_der();
    let mut config = ClientConfig::builder_with_details(provider(), time_provider(clock))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(tls_fault)?
        .with_root_certificates(roots(&credentials.ca)?)
        .with_client_auth_cert(vec![certificate], key)
        .map_err(tls_fault)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}

/// What the server showed during the handshake.
pub(crate) type Seen = Arc<Mutex<Option<CertificateDer<'static>>>>;

/// No client certificate, and the server's judged only by its pinned public key, if there is a pin.
pub(crate) fn without_identity(
    pin: Option<&str>,
    clock: Option<&Clock>,
) -> Result<(Arc<ClientConfig>, Seen)> {
    let seen = Seen::default();
    let (pin, shown) = (pin.map(str::to_owned), seen.clone());
    let verifier = judged_by(move |certificate| {
        use rustls::CertificateError as Fault;
        let fingerprint = pki::spki_fingerprint(certificate).map_err(|_| Fault::BadEncoding)?;
        if pin.as_ref().is_some_and(|pin| *pin != fingerprint) {
            return Err(Fault::ApplicationVerificationFailure.into());
        }
        *shown.lock().unwrap_or_else(PoisonError::into_inner) = Some(certificate.clone().into_owned());
        Ok(())
    });
    let mut config = ClientConfig::builder_with_details(provider(), time_provider(clock))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| crate::Error::Certificate { reason: error.to_string() })?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok((Arc::new(config), seen))
}

/// Whether a certificate was issued by this authority. Neither names nor the clock count here.
pub(crate) fn is_issued_by(certificate: &CertificateDer<'_>, authority: &str) -> Result<bool> {
    let verifier = WebPkiServerVerifier::builder_with_provider(roots(authority)?, provider())
        .build()
        .map_err(|error| crate::Error::Certificate { reason: error.to_string() })?;
    // A moment at which the certificate is valid: only its signature is in question.
    let (begins, _) = pki::validity(certificate)?;
    let moment = u64::try_from(begins.as_second()).unwrap_or_default();
    let moment = UnixTime::since_unix_epoch(Duration::from_secs(moment));
    let name = ServerName::IpAddress(std::net::IpAddr::from([127, 0, 0, 1]).into());
    match verifier.verify_server_cert(certificate, &[], &name, &[], moment) {
        Ok(_) => Ok(true),
        Err(rustls::Error::InvalidCertificate(fault)) => Ok(matches!(
            fault,
            rustls::CertificateError::NotValidForName
                | rustls::CertificateError::NotValidForNameContext { .. }
        )),
        Err(_) => Ok(false),
    }
}

/// What last went wrong below HTTP/2, which itself passes on no more than a text. It stays until the next connection
/// is tried, because many calls may fail for the same reason.
#[derive(Clone, Default)]
pub(crate) struct LastFault(Arc<Mutex<Option<(FailureKind, String)>>>);

impl LastFault {
    pub(crate) fn get(&self) -> Option<Failure> {
        let fault = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        fault.as_ref().map(|(kind, words)| Failure::new(*kind, words.as_str()))
    }

    fn set(&self, fault: Option<&Failure>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) =
            fault.map(|failure| (failure.kind, failure.cause.to_string()));
    }
}

/// Opens connections to one node.
#[derive(Clone)]
pub(crate) struct NodeDialer {
    pub(crate) dialer: Dialer,
    pub(crate) target: Target,
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) fault: LastFault,
}

impl NodeDialer {
    pub(crate) async fn connect(self) -> io::Result<NodeStream> {
        self.fault.set(None);
        match self.handshake().await {
            Ok(stream) => Ok(NodeStream { stream, fault: self.fault, broken: None }),
            Err(error) => {
                self.fault.set(Some(&Failure::of_io(&error)));
                Err(error)
            }
        }
    }

    async fn handshake(&self) -> io::Result<TlsStream<BoxStream>> {
        let stream = self.dialer.dial(&self.target).await?;
        let name = daedal_dial::server_name(&self.target.host)?;
        tls_connect(stream, name, self.config.clone()).await
    }
}

/// How long a node that hung up has for its reason to arrive.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A TLS stream that remembers why it broke: under TLS 1.3 a refused client certificate shows on the first read, and a
/// node that refused one hangs up at once, so that a write may fail before that read.
pub(crate) struct NodeStream {
    stream: TlsStream<BoxStream>,
    fault: LastFault,
    /// A write that failed, and how long what is still to be read may take.
    broken: Option<(io::Error, Pin<Box<Sleep>>)>,
}

impl NodeStream {
    fn remember<T>(&self, result: io::Result<T>) -> io::Result<T> {
        result.inspect_err(|error| {
            if tls_error(error).is_some() {
                self.fault.set(Some(&Failure::of_io(error)));
            }
        })
    }

    /// Writes; if that fails, what the node said before it hung up is read to its end first, because its reason is the last of it.
    fn poll_heard_out<T>(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut TlsStream<BoxStream>>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let (error, mut patience) = match self.broken.take() {
            Some(broken) => broken,
            None => match ready!(write(Pin::new(&mut self.stream), cx)) {
                Ok(written) => return Poll::Ready(Ok(written)),
                Err(error) => (error, Box::pin(tokio::time::sleep(LAST_WORDS))),
            },
        };
        let mut unread = [0; 1024];
        loop {
            let mut unread = ReadBuf::new(&mut unread);
            match self.as_mut().poll_read(cx, &mut unread) {
                Poll::Ready(Ok(())) if !unread.filled().is_empty() => {}
                Poll::Pending if patience.as_mut().poll(cx).is_pending() => {
                    self.broken = Some((error, patience));
                    return Poll::Pending;
                }
                _ => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncRead for NodeStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let result = ready!(Pin::new(&mut self.stream).poll_read(cx, buf));
        Poll::Ready(self.remember(result))
    }
}

impl AsyncWrite for NodeStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_heard_out(cx, |stream, cx| stream.poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_heard_out(cx, |stream, cx| stream.poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_heard_out(cx, |stream, cx| stream.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
