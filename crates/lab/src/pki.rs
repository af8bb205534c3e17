//! The lab's certificate authority: one root that clients may trust, and server certificates issued under it.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Why a certificate could not be made or used.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A certificate or key could not be made.
    #[error("could not make a lab certificate")]
    Certificate(#[from] rcgen::Error),
    /// A saved certificate or key could not be read.
    #[error("could not read a lab certificate")]
    Pem(#[from] rustls_pki_types::pem::Error),
    /// The TLS library refused the certificate.
    #[error("could not set up TLS with a lab certificate")]
    Tls(#[from] rustls::Error),
}

/// The lab's root. Can be saved with the world, so that a client's trust survives a restart.
#[derive(Clone, Serialize, Deserialize)]
pub struct Pki {
    certificate: String,
    key: String,
}

/// A server certificate with its key, both PEM.
#[derive(Clone, Serialize, Deserialize)]
pub struct Leaf {
    certificate: String,
    key: String,
}

impl Pki {
    /// Makes a new root with this common name.
    pub fn generate(common_name: &str) -> Result<Self, PkiError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key)?;
        Ok(Self { certificate: certificate.pem(), key: key.serialize_pem() })
    }

    /// The root certificate, PEM.
    pub fn ca_pem(&self) -> &str {
        &self.certificate
    }

    /// Issues a server certificate for these DNS names and IP addresses.
    pub fn issue(&self, names: &[String]) -> Result<Leaf, PkiError> {
        let issuer = Issuer::from_ca_cert_pem(&self.certificate, KeyPair::from_pem(&self.key)?)?;
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(names)?;
        let common_name = names.first().map_or("lab", String::as_str);
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &issuer)?;
        Ok(Leaf { certificate: certificate.pem(), key: key.serialize_pem() })
    }

    /// A TLS client configuration that trusts this root and nothing else.
    pub fn client_config(&self) -> Result<Arc<ClientConfig>, PkiError> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.certificate.as_bytes())?)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Arc::new(config))
    }
}

impl Leaf {
    /// The certificate, PEM.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate
    }

    /// SHA-256 of the certificate, as upper-case hex pairs joined by colons.
    pub fn fingerprint(&self) -> Result<String, PkiError> {
        let der = CertificateDer::from_pem_slice(self.certificate.as_bytes())?;
        let digest = Sha256::digest(der.as_ref());
        Ok(digest.iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(":"))
    }

    /// A TLS server configuration that presents this certificate and speaks the given ALPN protocols.
    pub fn server_config(&self, alpn: &[&[u8]]) -> Result<Arc<ServerConfig>, PkiError> {
        let certificate = CertificateDer::from_pem_slice(self.certificate.as_bytes())?;
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)?;
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        Ok(Arc::new(config))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saved_root_still_issues_certificates() {
        let pki = Pki::generate("test lab").unwrap();
        let saved = serde_json::to_string(&pki).unwrap();
        let loaded: Pki = serde_json::from_str(&saved).unwrap();
        let leaf = loaded.issue(&["atlas.lan".into(), "10.0.0.2".into()]).unwrap();
        assert_eq!(leaf.fingerprint().unwrap().len(), 95);
        leaf.server_config(&[b"http/1.1"]).unwrap();
        assert_eq!(loaded.ca_pem(), pki.ca_pem());
    }
}
