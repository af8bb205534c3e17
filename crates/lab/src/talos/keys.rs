//! Certificates of the simulated nodes: issued by the very authorities in their configuration.

use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use daedal_talos_config::pki::{KeyKind, PrivateKey};
use rand::rngs::OsRng;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType,
};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    DigitallySignedStruct, DistinguishedName as PeerName, RootCertStore, ServerConfig, SignatureScheme,
};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::Pace;

/// Why a node could not set up its TLS from its configuration.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyError {
    #[error("failed to parse PEM block")]
    Pem,
    #[error("failed to parse private key")]
    PrivateKey,
    #[error("failed to create certificate")]
    Certificate(#[from] rcgen::Error),
    #[error("failed to set up TLS")]
    Tls(#[from] rustls::Error),
    #[error("failed to set up client verification")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
}

/// The first PEM block of a text, whatever its label.
pub(crate) fn pem_block(text: &str) -> Option<(String, Vec<u8>)> {
    let (_, rest) = text.split_once("-----BEGIN ")?;
    let (label, rest) = rest.split_once("-----")?;
    let (body, _) = rest.split_once("-----END ")?;
    let packed: String = body.chars().filter(|c| !c.is_whitespace()).collect();
    Some((label.to_owned(), STANDARD.decode(packed).ok()?))
}

/// A certificate authority out of a machine configuration.
pub(crate) struct Authority {
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, PrivateKey>,
}

impl Authority {
    /// From the PEM texts of a configuration.
    pub(crate) fn new(certificate: &str, key: &str) -> Result<Self, KeyError> {
        let (_, der) = pem_block(certificate).ok_or(KeyError::Pem)?;
        let certificate = CertificateDer::from(der);
        let key = PrivateKey::from_pem(key).map_err(|_| KeyError::PrivateKey)?;
        let issuer = Issuer::from_ca_cert_der(&certificate, key)?;
        Ok(Self { certificate, issuer })
    }

    /// An authority that exists in memory only, as in maintenance mode.
    pub(crate) fn throw_away() -> Result<Self, KeyError> {
        let key = PrivateKey::generate(KeyKind::Ed25519, &mut OsRng);
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "talos");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key)?.der().clone();
        Ok(Self { issuer: Issuer::new(params, key), certificate })
    }

    /// A server certificate chain for these addresses and names.
    pub(crate) fn server(
        &self,
        key: &KeyPair,
        names: &ServerNames,
    ) -> Result<Vec<CertificateDer<'static>>, KeyError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, names.common_name.as_str());
        params.subject_alt_names = names
            .addresses
            .iter()
            .map(|ip| SanType::IpAddress(*ip))
            .chain(names.hosts.iter().filter_map(|h| Some(SanType::DnsName(h.as_str().try_into().ok()?))))
            .collect();
        // A node's certificates are short-lived and renewed all the time; here they outlive every simulated clock.
        params.not_before = rcgen::date_time_ymd(2000, 1, 1);
        params.not_after = rcgen::date_time_ymd(2120, 1, 1);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let leaf = params.signed_by(key, &self.issuer)?;
        Ok(vec![leaf.der().clone(), self.certificate.clone()])
    }

    /// A client identity as PEM texts (certificate, key): its organisations say what it may do.
    pub(crate) fn client(
        &self,
        common_name: &str,
        organization: &str,
        now: i64,
        lifetime: i64,
    ) -> Result<(String, String), KeyError> {
        let key = PrivateKey::generate(self.issuer.key().kind_of_leaves(), &mut OsRng);
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, organization);
        if !common_name.is_empty() {
            params.distinguished_name.push(DnType::CommonName, common_name);
        }
        let moment = |seconds: i64| {
            rcgen::date_time_ymd(1970, 1, 1) + std::time::Duration::from_secs(seconds.max(0) as u64)
        };
        params.not_before = moment(now - 10);
        params.not_after = moment(now + lifetime);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let leaf = params.signed_by(&key, &self.issuer)?;
        Ok((leaf.pem(), key.to_pem().expose().to_owned()))
    }
}

/// What a server certificate is for.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerNames {
    pub(crate) common_name: String,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) hosts: Vec<String>,
}

/// Who may connect.
pub(crate) enum Clients {
    /// Anyone; no certificate is asked for.
    Anyone,
    /// Who has a certificate by one of these authorities (PEM) with the sole purpose of client authentication.
    Required(Vec<String>),
    /// As above, but a connection without a certificate is taken too.
    Optional(Vec<String>),
}

/// TLS of a simulated server.
pub(crate) fn server_config(
    chain: Vec<CertificateDer<'static>>,
    key: &KeyPair,
    clients: Clients,
    alpn: &[&[u8]],
    pace: Pace,
) -> Result<Arc<ServerConfig>, KeyError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let builder = ServerConfig::builder_with_details(provider.clone(), Arc::new(LabTime(pace)))
        .with_safe_default_protocol_versions()?;
    let builder = match clients {
        Clients::Anyone => builder.with_no_client_auth(),
        Clients::Required(cas) => {
            builder.with_client_cert_verifier(Arc::new(OnlyClients(verifier(&cas, &provider, true)?)))
        }
        Clients::Optional(cas) => builder.with_client_cert_verifier(verifier(&cas, &provider, false)?),
    };
    let mut config = builder.with_single_cert(chain, key)?;
    config.alpn_protocols = alpn.iter().map(|p| p.to_vec()).collect();
    Ok(Arc::new(config))
}

fn verifier(
    cas: &[String],
    provider: &Arc<CryptoProvider>,
    required: bool,
) -> Result<Arc<dyn ClientCertVerifier>, KeyError> {
    let mut roots = RootCertStore::empty();
    for ca in cas {
        let (_, der) = pem_block(ca).ok_or(KeyError::Pem)?;
        roots.add(CertificateDer::from(der))?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let builder = if required { builder } else { builder.allow_unauthenticated() };
    Ok(builder.build()?)
}

/// The lab's clock, as TLS wants it.
#[derive(Debug)]
struct LabTime(Pace);

impl rustls::time_provider::TimeProvider for LabTime {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(std::time::Duration::from_secs(self.0.now().max(0) as u64)))
    }
}

/// Takes only certificates whose one extended usage is client authentication, as the node API does.
#[derive(Debug)]
struct OnlyClients(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for OnlyClients {
    fn root_hint_subjects(&self) -> &[PeerName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self.0.verify_client_cert(end_entity, intermediates, now)?;
        let bad = || rustls::Error::InvalidCertificate(rustls::CertificateError::InvalidPurpose);
        let (_, certificate) = X509Certificate::from_der(end_entity).map_err(|_| bad())?;
        let usage = certificate.extended_key_usage().ok().flatten().ok_or_else(bad)?;
        let usage = usage.value;
        let others = usage.any
            || usage.server_auth
            || usage.code_signing
            || usage.email_protection
            || usage.time_stamping
            || usage.ocsp_signing
            || !usage.other.is_empty();
        if usage.client_auth && !others { Ok(verified) } else { Err(bad()) }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// Who a verified client is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Caller {
    /// Common name.
    pub(crate) name: String,
    /// Organisations: roles of the node API, groups of Kubernetes.
    pub(crate) groups: Vec<String>,
    /// Whether there was a certificate at all.
    pub(crate) known: bool,
}

impl Caller {
    /// Reads the subject of the peer's certificate.
    pub(crate) fn from_peer(certificates: Option<&[CertificateDer<'_>]>) -> Self {
        let Some(leaf) = certificates.and_then(<[_]>::first) else { return Self::default() };
        let Ok((_, certificate)) = X509Certificate::from_der(leaf) else { return Self::default() };
        let subject = certificate.subject();
        let name = subject.iter_common_name().find_map(|n| n.as_str().ok()).unwrap_or_default().to_owned();
        let groups = subject.iter_organization().filter_map(|o| o.as_str().ok()).map(str::to_owned).collect();
        Self { name, groups, known: true }
    }

    /// Whether one of the groups is among these.
    pub(crate) fn any_of(&self, wanted: &[&str]) -> bool {
        self.groups.iter().any(|g| wanted.contains(&g.as_str()))
    }
}
