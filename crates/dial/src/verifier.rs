//! A server judged by its certificate alone, whatever names, dates and authority it has.

use std::{fmt, sync::Arc};

use rustls::{
    DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

/// Accepts the certificates that `judge` accepts, but never a server that cannot sign with its key.
pub fn judged_by<J>(judge: J) -> Arc<dyn ServerCertVerifier>
where
    J: Fn(&CertificateDer<'_>) -> Result<(), rustls::Error> + Send + Sync + 'static,
{
    Arc::new(Verifier { judge, provider: crate::provider() })
}

struct Verifier<J> {
    judge: J,
    provider: Arc<CryptoProvider>,
}

impl<J> fmt::Debug for Verifier<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier")
    }
}

impl<J> ServerCertVerifier for Verifier<J>
where
    J: Fn(&CertificateDer<'_>) -> Result<(), rustls::Error> + Send + Sync,
{
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        (self.judge)(end_entity).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
