//! How a TLS server proves who it is, and the handshake over any stream.

use std::{fmt, io, str::FromStr, sync::Arc};

use rustls::{ClientConfig, RootCertStore, crypto::CryptoProvider};
use rustls_pki_types::{CertificateDer, ServerName, pem::PemObject};
use sha2::{Digest, Sha256};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::tls_words::worded;
use crate::{Dialer, Stream, Target, judged_by};

/// How a TLS server proves who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Signed by a CA that this system trusts.
    System,
    /// Signed by one of these CAs (PEM).
    Ca(String),
    /// Shows exactly the certificate with this SHA-256 fingerprint; names and dates do not matter then.
    Fingerprint(Fingerprint),
    /// Not at all: the certificate is not verified.
    Insecure,
}

/// Why a [`Trust`] cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// A fingerprint that is none.
    #[error(
        "'{0}' is not a SHA-256 fingerprint: 64 hex digits, or 32 pairs of them with colons between, are expected"
    )]
    Fingerprint(String),
    /// PEM text without a usable CA.
    #[error("the CA certificate cannot be used: {0}")]
    Ca(String),
    /// No system roots.
    #[error("this system has no trusted CA certificates")]
    NoSystemRoots,
    /// rustls refused.
    #[error("TLS cannot be set up")]
    Tls(#[from] rustls::Error),
}

/// The only crypto provider used, named explicitly so that none needs to be installed for the process.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

impl Trust {
    /// A client configuration that trusts so, without client certificate and without ALPN.
    pub fn client_config(&self) -> Result<Arc<ClientConfig>, TrustError> {
        let builder =
            ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
        let config = match self {
            Self::System => {
                let mut roots = RootCertStore::empty();
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                if roots.is_empty() {
                    return Err(TrustError::NoSystemRoots);
                }
                builder.with_root_certificates(roots).with_no_client_auth()
            }
            Self::Ca(pem) => {
                let mut roots = RootCertStore::empty();
                for cert in CertificateDer::pem_slice_iter(pem.as_bytes()) {
                    let cert = cert.map_err(|e| TrustError::Ca(e.to_string()))?;
                    roots.add(cert).map_err(|e| TrustError::Ca(e.to_string()))?;
                }
                if roots.is_empty() {
                    return Err(TrustError::Ca("there is no certificate in it".into()));
                }
                builder.with_root_certificates(roots).with_no_client_auth()
            }
            Self::Fingerprint(pin) => {
                let pin = *pin;
                builder
                    .dangerous()
                    .with_custom_certificate_verifier(judged_by(move |shown| is_pinned(shown, pin)))
                    .with_no_client_auth()
            }
            Self::Insecure => builder
                .dangerous()
                .with_custom_certificate_verifier(judged_by(|_| Ok(())))
                .with_no_client_auth(),
        };
        Ok(Arc::new(config))
    }
}

/// SHA-256 of a certificate in DER form. Written and read as Proxmox does, `AB:CD:…`; plain hex is read too.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// The fingerprint of a certificate.
    pub fn of(certificate: &CertificateDer<'_>) -> Self {
        Self(Sha256::digest(certificate).into())
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<[u8; 32]> for Fingerprint {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl FromStr for Fingerprint {
    type Err = TrustError;

    fn from_str(text: &str) -> Result<Self, TrustError> {
        let invalid = || TrustError::Fingerprint(text.to_owned());
        let bare = text.trim();
        let digits = if bare.contains(':') {
            if bare.split(':').any(|pair| pair.len() != 2) {
                return Err(invalid());
            }
            bare.replace(':', "")
        } else {
            bare.to_owned()
        };
        let mut bytes = [0; 32];
        hex::decode_to_slice(digits, &mut bytes).map_err(|_| invalid())?;
        Ok(Self(bytes))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, byte) in self.0.iter().enumerate() {
            let colon = if position == 0 { "" } else { ":" };
            write!(f, "{colon}{byte:02X}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The name a server must prove for a host given as DNS name or IP address.
pub fn server_name(host: &str) -> io::Result<ServerName<'static>> {
    ServerName::try_from(host.to_owned()).map_err(|_| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("'{host}' is neither a DNS name nor an IP address"),
        )
    })
}

/// Runs the client side of a TLS handshake over a stream. Why it fails is told in words for people.
pub async fn tls_connect<S: Stream>(
    stream: S,
    server_name: ServerName<'static>,
    config: Arc<ClientConfig>,
) -> io::Result<TlsStream<S>> {
    TlsConnector::from(config).connect(server_name, stream).await.map_err(worded)
}

/// The fingerprint of the certificate that a server shows, whoever it is: for somebody to compare before it is trusted.
pub async fn shown_fingerprint(dialer: &Dialer, target: &Target) -> io::Result<Fingerprint> {
    let config = Trust::Insecure.client_config().map_err(io::Error::other)?;
    let stream = tls_connect(dialer.dial(target).await?, server_name(&target.host)?, config).await?;
    let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first).map(Fingerprint::of);
    shown.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the server shows no certificate"))
}

/// Whether a certificate is the pinned one.
fn is_pinned(certificate: &CertificateDer<'_>, pin: Fingerprint) -> Result<(), rustls::Error> {
    match Fingerprint::of(certificate) {
        shown if shown == pin => Ok(()),
        shown => Err(rustls::Error::General(format!(
            "the server's certificate has fingerprint {shown}, but {pin} is pinned"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rustls_pki_types::PrivateKeyDer;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn server(names: &[&str]) -> (tokio_rustls::TlsAcceptor, CertificateDer<'static>, String) {
        let key =
            rcgen::generate_simple_self_signed(names.iter().map(ToString::to_string).collect::<Vec<_>>())
                .unwrap();
        let der = key.cert.der().clone();
        let pem = key.cert.pem();
        let private = PrivateKeyDer::try_from(key.signing_key.serialize_der()).unwrap();
        let config = rustls::ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![der.clone()], private)
            .unwrap();
        (tokio_rustls::TlsAcceptor::from(Arc::new(config)), der, pem)
    }

    async fn meets(trust: Trust, name: &str, acceptor: tokio_rustls::TlsAcceptor) -> io::Result<()> {
        let (near, far) = tokio::io::duplex(64 * 1024);
        tokio::spawn(async move {
            if let Ok(mut stream) = acceptor.accept(far).await {
                let _ = stream.write_all(b"hello").await;
                let _ = stream.shutdown().await;
            }
        });
        let config = trust.client_config().unwrap();
        let mut stream = tls_connect(near, server_name(name).unwrap(), config).await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        assert_eq!(text, "hello");
        Ok(())
    }

    #[tokio::test]
    async fn a_pin_accepts_one_certificate_under_any_name() {
        let (acceptor, der, _) = server(&["atlas.lan"]);
        let pin = Fingerprint::of(&der);
        meets(Trust::Fingerprint(pin), "192.0.2.1", acceptor.clone()).await.unwrap();
        let error = meets(Trust::Fingerprint([7; 32].into()), "atlas.lan", acceptor).await.unwrap_err();
        assert!(error.to_string().contains(&pin.to_string()), "{error}");
    }

    #[tokio::test]
    async fn a_ca_is_checked_with_the_name() {
        let (acceptor, _, pem) = server(&["atlas.lan", "127.0.0.1"]);
        meets(Trust::Ca(pem.clone()), "atlas.lan", acceptor.clone()).await.unwrap();
        meets(Trust::Ca(pem.clone()), "127.0.0.1", acceptor.clone()).await.unwrap();
        assert!(meets(Trust::Ca(pem), "other.lan", acceptor.clone()).await.is_err());
        let (_, _, stranger) = server(&["atlas.lan"]);
        assert!(meets(Trust::Ca(stranger), "atlas.lan", acceptor.clone()).await.is_err());
        meets(Trust::Insecure, "anything", acceptor).await.unwrap();
    }

    #[test]
    fn a_ca_without_certificate_is_refused() {
        let error = Trust::Ca("hello".into()).client_config().unwrap_err();
        assert_eq!(error.to_string(), "the CA certificate cannot be used: there is no certificate in it");
    }

    proptest! {
        #[test]
        fn fingerprints_survive_text(bytes: [u8; 32]) {
            let print = Fingerprint::from(bytes);
            prop_assert_eq!(print.to_string().parse::<Fingerprint>().unwrap(), print);
            prop_assert_eq!(hex::encode(bytes).parse::<Fingerprint>().unwrap(), print);
        }

        #[test]
        fn other_text_is_no_fingerprint(text in "[0-9A-Fa-f:]{0,63}") {
            prop_assert!(text.parse::<Fingerprint>().is_err());
        }
    }
}
