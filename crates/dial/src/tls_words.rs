//! Errors of TLS in words for people: rustls names some of them by types of its own.

use std::{error::Error as StdError, fmt, io};

use rustls::{CertificateError, InvalidMessage};

/// An error of TLS that tells what it means. It has no source, or it would be told twice; [`tls_error`] finds what it was.
#[derive(Debug)]
struct Worded {
    fault: rustls::Error,
    words: String,
}

impl fmt::Display for Worded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl StdError for Worded {}

/// The same error, of the same kind, in words for people where rustls has none.
pub(crate) fn worded(error: io::Error) -> io::Error {
    let Some((fault, words)) = tls_error(&error).and_then(|fault| Some((fault.clone(), words(fault)?)))
    else {
        return error;
    };
    io::Error::new(error.kind(), Worded { fault, words })
}

fn words(fault: &rustls::Error) -> Option<String> {
    Some(match fault {
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "the server answered in plain HTTP; the endpoint must be HTTPS".to_owned()
        }
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "the server's certificate is signed by an authority that is not trusted".to_owned()
        }
        // webpki, from which this comes, is not rustls's to show.
        rustls::Error::InvalidCertificate(CertificateError::Other(other)) => {
            match other.0.to_string().as_str() {
                "CaUsedAsEndEntity" => {
                    "the server's certificate is a CA certificate, which cannot identify a server; pin \
                                    its fingerprint"
                        .to_owned()
                }
                other => format!("the server's certificate is not valid ({other})"),
            }
        }
        _ => return None,
    })
}

/// The error of TLS behind another one. rustls hides inside of `io::Error`, where `source()` does not lead to it.
pub fn tls_error<'e>(error: &'e (dyn StdError + 'static)) -> Option<&'e rustls::Error> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let hidden = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let worded = hidden.and_then(|inner| inner.downcast_ref::<Worded>()).map(|worded| &worded.fault);
        let tls = worded.or_else(|| hidden?.downcast_ref()).or_else(|| error.downcast_ref());
        if tls.is_some() {
            return tls;
        }
        cause = error.source();
    }
    None
}

/// Whether a certificate is refused because another authority than the trusted one has signed it.
pub fn is_of_another_authority(error: &rustls::Error) -> bool {
    use rustls::CertificateError as Fault;
    let rustls::Error::InvalidCertificate(fault) = error else { return false };
    matches!(
        fault,
        Fault::UnknownIssuer
            | Fault::BadSignature
            // One of the same name with keys of another kind.
            | Fault::UnsupportedSignatureAlgorithmContext { .. }
            | Fault::UnsupportedSignatureAlgorithmForPublicKeyContext { .. }
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls_pki_types::PrivateKeyDer;
    use tokio::io::AsyncWriteExt;

    use super::*;
    use crate::{Trust, provider, server_name, tls_connect};

    async fn refused(trust: Trust, far_end: impl AsyncFnOnce(tokio::io::DuplexStream)) -> io::Error {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let config = trust.client_config().unwrap();
        let (met, ()) =
            tokio::join!(tls_connect(near, server_name("atlas.lan").unwrap(), config), far_end(far));
        met.err().unwrap()
    }

    #[tokio::test]
    async fn a_server_that_speaks_plain_http_is_told_as_that() {
        let plain = async |mut far: tokio::io::DuplexStream| {
            far.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        };
        let error = refused(Trust::Insecure, plain).await;
        assert_eq!(error.to_string(), "the server answered in plain HTTP; the endpoint must be HTTPS");
        assert!(error.get_ref().is_some_and(|inner| inner.source().is_none()), "told twice");
        assert!(matches!(tls_error(&error), Some(rustls::Error::InvalidMessage(_))), "{error:?}");
    }

    #[tokio::test]
    async fn a_ca_certificate_that_a_server_shows_is_told_with_the_way_out() {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec!["atlas.lan".to_owned()]).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let shown = params.self_signed(&key).unwrap();
        let private = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config = rustls::ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![shown.der().clone()], private)
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let server = async |far| drop(acceptor.accept(far).await);
        let error = refused(Trust::Ca(shown.pem()), server).await;
        let words = "the server's certificate is a CA certificate, which cannot identify a server; pin its fingerprint";
        assert_eq!(error.to_string(), words);
        assert!(matches!(tls_error(&error), Some(rustls::Error::InvalidCertificate(_))), "{error:?}");
        // An authority that is not trusted is told, too, and still known as that.
        let other = rcgen::generate_simple_self_signed(vec!["atlas.lan".to_owned()]).unwrap().cert.pem();
        let error = refused(Trust::Ca(other), server).await;
        assert!(!error.to_string().contains("Other"), "{error}");
    }
}
