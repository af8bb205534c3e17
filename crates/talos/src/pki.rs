//! Keys, certificate authorities and the certificates they issue, in the encodings that Talos reads.

use std::{fmt, net::IpAddr};

use ed25519_dalek::{Signer, pkcs8::DecodePrivateKey};
use jiff::{SignedDuration, Timestamp};
use rand::{CryptoRng, RngCore};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyUsagePurpose, SanType, SerialNumber,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::{Error, Result, pem, secret::Secret};

const ED25519_LABEL: &str = "ED25519 PRIVATE KEY";
const P256_LABEL: &str = "EC PRIVATE KEY";

/// Which algorithm a key is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// The node API's authority and its clients.
    Ed25519,
    /// etcd and Kubernetes.
    P256,
}

/// A private key for signing.
#[derive(Clone)]
pub struct PrivateKey {
    signer: KeySigner,
    public: Vec<u8>,
}

#[derive(Clone)]
enum KeySigner {
    Ed25519(ed25519_dalek::SigningKey),
    P256(p256::SecretKey),
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey({:?}, redacted)", self.kind())
    }
}

impl PrivateKey {
    /// Makes a new key from the given randomness.
    pub fn generate<R: RngCore + CryptoRng>(kind: KeyKind, rng: &mut R) -> Self {
        match kind {
            KeyKind::Ed25519 => Self::from_ed25519(ed25519_dalek::SigningKey::generate(rng)),
            KeyKind::P256 => Self::from_p256(p256::SecretKey::random(rng)),
        }
    }

    fn from_ed25519(key: ed25519_dalek::SigningKey) -> Self {
        let public = key.verifying_key().to_bytes().to_vec();
        Self { signer: KeySigner::Ed25519(key), public }
    }

    fn from_p256(key: p256::SecretKey) -> Self {
        let public = key.public_key().to_sec1_bytes().to_vec();
        Self { signer: KeySigner::P256(key), public }
    }

    /// Reads a key with one of the labels that Talos writes.
    pub fn from_pem(text: &str) -> Result<Self> {
        let (label, der) =
            pem::decode(text).ok_or_else(|| Error::Key { reason: "there is no PEM block".into() })?;
        let bad = |reason: String| Error::Key { reason };
        match label {
            ED25519_LABEL => ed25519_dalek::SigningKey::from_pkcs8_der(&der)
                .map(Self::from_ed25519)
                .map_err(|error| bad(format!("the Ed25519 key is malformed ({error})"))),
            P256_LABEL => p256::SecretKey::from_sec1_der(&der)
                .map(Self::from_p256)
                .map_err(|_| bad("the EC key is not a P-256 key in SEC1 form".into())),
            other => Err(bad(format!("a block `{other}` is neither `{ED25519_LABEL}` nor `{P256_LABEL}`"))),
        }
    }

    /// Writes the key with the label and encoding that every Talos version reads.
    pub fn to_pem(&self) -> Secret {
        let (label, der) = match &self.signer {
            KeySigner::Ed25519(key) => (ED25519_LABEL, ed25519_pkcs8(key)),
            KeySigner::P256(key) => (P256_LABEL, p256_sec1(key, &self.public)),
        };
        Secret::new(pem::encode(label, &der))
    }

    /// The key in the form that rustls takes.
    pub fn to_der(&self) -> PrivateKeyDer<'static> {
        match &self.signer {
            KeySigner::Ed25519(key) => PrivatePkcs8KeyDer::from(ed25519_pkcs8(key).to_vec()).into(),
            KeySigner::P256(key) => PrivateSec1KeyDer::from(p256_sec1(key, &self.public).to_vec()).into(),
        }
    }

    /// The key's algorithm.
    pub fn kind(&self) -> KeyKind {
        match self.signer {
            KeySigner::Ed25519(_) => KeyKind::Ed25519,
            KeySigner::P256(_) => KeyKind::P256,
        }
    }
}

/// PKCS#8 version 1, which is what Go writes; newer forms carry the public key, which old readers do not expect.
fn ed25519_pkcs8(key: &ed25519_dalek::SigningKey) -> Zeroizing<Vec<u8>> {
    let mut der = Zeroizing::new(Vec::with_capacity(48));
    der.extend_from_slice(&[0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20]);
    der.extend_from_slice(&Zeroizing::new(key.to_bytes())[..]);
    der
}

/// SEC1 with the curve's name inside: Go refuses a key without it, and the p256 crate leaves it out.
fn p256_sec1(key: &p256::SecretKey, public: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut der = Zeroizing::new(Vec::with_capacity(121));
    der.extend_from_slice(&[0x30, 0x77, 2, 1, 1, 4, 0x20]);
    der.extend_from_slice(&Zeroizing::new(key.to_bytes())[..]);
    der.extend_from_slice(&[0xa0, 0x0a, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7]);
    der.extend_from_slice(&[0xa1, 0x44, 3, 0x42, 0]);
    der.extend_from_slice(public);
    der
}

impl rcgen::PublicKeyData for PrivateKey {
    fn der_bytes(&self) -> &[u8] {
        &self.public
    }

    fn algorithm(&self) -> &'static rcgen::SignatureAlgorithm {
        match self.signer {
            KeySigner::Ed25519(_) => &rcgen::PKCS_ED25519,
            KeySigner::P256(_) => &rcgen::PKCS_ECDSA_P256_SHA256,
        }
    }
}

impl rcgen::SigningKey for PrivateKey {
    fn sign(&self, message: &[u8]) -> std::result::Result<Vec<u8>, rcgen::Error> {
        Ok(match &self.signer {
            KeySigner::Ed25519(key) => key.sign(message).to_bytes().to_vec(),
            KeySigner::P256(key) => {
                let signature: p256::ecdsa::Signature = p256::ecdsa::SigningKey::from(key).sign(message);
                signature.to_der().as_bytes().to_vec()
            }
        })
    }
}

/// What a certificate may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// Talos clients: digital signature, client authentication only (the node refuses anything more).
    Client,
    /// Kubernetes clients: also key encipherment.
    KubernetesClient,
    /// Servers.
    Server,
}

/// A name that a server certificate is valid for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubjectName {
    /// A DNS name.
    Dns(String),
    /// An IP address.
    Ip(IpAddr),
}

/// What a certificate to be issued says.
#[derive(Clone, Debug)]
pub struct Leaf {
    /// Subject common name.
    pub common_name: Option<String>,
    /// Subject organization: Talos reads the role here, Kubernetes the group.
    pub organization: Option<String>,
    /// Names the certificate is valid for.
    pub names: Vec<SubjectName>,
    /// What it may be used for.
    pub usage: Usage,
    /// Start of validity.
    pub not_before: Timestamp,
    /// End of validity.
    pub not_after: Timestamp,
}

/// A certificate and its key, ready to be used by a TLS peer.
#[derive(Clone, Debug)]
pub struct Identity {
    /// PEM certificate.
    pub certificate: String,
    /// The key for it.
    pub key: PrivateKey,
}

/// A certificate authority with its key.
#[derive(Clone, Debug)]
pub struct CertificateAuthority {
    certificate: CertificateDer<'static>,
    key: PrivateKey,
}

impl CertificateAuthority {
    /// Makes a self-signed authority. Talos' aggregator authority has no subject at all, hence the option.
    pub fn generate<R: RngCore + CryptoRng>(
        kind: KeyKind,
        organization: Option<&str>,
        validity: SignedDuration,
        rng: &mut R,
        now: Timestamp,
    ) -> Result<Self> {
        let key = PrivateKey::generate(kind, rng);
        let mut params = base_params(rng, now, after(now, validity)?)?;
        if let Some(organization) = organization {
            params.distinguished_name.push(DnType::OrganizationName, organization);
        }
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.self_signed(&key).map_err(Error::Issue)?.der().clone();
        Ok(Self { certificate, key })
    }

    /// Reads an authority and checks that certificate and key belong together.
    pub fn from_pem(certificate: &str, key: &str) -> Result<Self> {
        let certificate = certificate_from_pem(certificate)?;
        let key = PrivateKey::from_pem(key)?;
        let parsed = parse(&certificate)?;
        if !parsed.is_ca() {
            return Err(Error::Certificate { reason: "it is not a certificate authority".into() });
        }
        if parsed.public_key().subject_public_key.data.as_ref() != key.public.as_slice() {
            return Err(Error::Certificate { reason: "its key is another one".into() });
        }
        Ok(Self { certificate, key })
    }

    /// The certificate in PEM.
    pub fn certificate_pem(&self) -> String {
        pem::encode("CERTIFICATE", &self.certificate)
    }

    /// The certificate in DER.
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// The authority's private key.
    pub fn key(&self) -> &PrivateKey {
        &self.key
    }

    /// Makes a new key of this authority's kind and a certificate for it.
    pub fn issue<R: RngCore + CryptoRng>(&self, leaf: &Leaf, rng: &mut R) -> Result<Identity> {
        let key = PrivateKey::generate(self.key.kind(), rng);
        let certificate = self.sign(leaf, &key, rng)?;
        Ok(Identity { certificate, key })
    }

    /// Issues a certificate for a key that is already there.
    pub fn sign<R: RngCore + CryptoRng>(&self, leaf: &Leaf, key: &PrivateKey, rng: &mut R) -> Result<String> {
        let mut params = base_params(rng, leaf.not_before, leaf.not_after)?;
        if let Some(organization) = &leaf.organization {
            params.distinguished_name.push(DnType::OrganizationName, organization.as_str());
        }
        if let Some(name) = &leaf.common_name {
            params.distinguished_name.push(DnType::CommonName, name.as_str());
        }
        for name in &leaf.names {
            params.subject_alt_names.push(match name {
                SubjectName::Ip(ip) => SanType::IpAddress(*ip),
                SubjectName::Dns(dns) => SanType::DnsName(dns.as_str().try_into().map_err(Error::Issue)?),
            });
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        if leaf.usage != Usage::Client {
            params.key_usages.push(KeyUsagePurpose::KeyEncipherment);
        }
        params.extended_key_usages = vec![match leaf.usage {
            Usage::Server => ExtendedKeyUsagePurpose::ServerAuth,
            Usage::Client | Usage::KubernetesClient => ExtendedKeyUsagePurpose::ClientAuth,
        }];
        params.use_authority_key_identifier_extension = true;
        let issuer = Issuer::from_ca_cert_der(&self.certificate, &self.key).map_err(Error::Issue)?;
        let certificate = params.signed_by(key, &issuer).map_err(Error::Issue)?;
        Ok(pem::encode("CERTIFICATE", certificate.der()))
    }
}

fn base_params<R: RngCore + CryptoRng>(
    rng: &mut R,
    not_before: Timestamp,
    not_after: Timestamp,
) -> Result<CertificateParams> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    let mut serial = [0_u8; 16];
    rng.fill_bytes(&mut serial);
    // A DER integer with its high bit clear stays positive and short enough for every reader.
    serial[0] &= 0x7f;
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = epoch + since_epoch(not_before)?;
    params.not_after = epoch + since_epoch(not_after)?;
    Ok(params)
}

/// `now` plus a lifetime, or an error for lifetimes that end beyond any calendar.
pub(crate) fn after(now: Timestamp, lifetime: SignedDuration) -> Result<Timestamp> {
    now.checked_add(lifetime).map_err(|_| Error::Lifetime)
}

/// rcgen speaks another calendar library; an offset from its epoch needs no dependency on that one.
fn since_epoch(at: Timestamp) -> Result<std::time::Duration> {
    u64::try_from(at.as_second()).map(std::time::Duration::from_secs).map_err(|_| Error::Lifetime)
}

/// The first certificate of a PEM text.
pub fn certificate_from_pem(text: &str) -> Result<CertificateDer<'static>> {
    match pem::decode(text) {
        Some(("CERTIFICATE", der)) => Ok(CertificateDer::from(der.to_vec())),
        Some((label, _)) => {
            Err(Error::Certificate { reason: format!("a block `{label}` is not a certificate") })
        }
        None => Err(Error::Certificate { reason: "there is no PEM block".into() }),
    }
}

pub(crate) fn parse<'a>(
    certificate: &'a CertificateDer<'_>,
) -> Result<x509_parser::certificate::X509Certificate<'a>> {
    x509_parser::parse_x509_certificate(certificate.as_ref())
        .map(|(_, parsed)| parsed)
        .map_err(|error| Error::Certificate { reason: format!("it is malformed ({error})") })
}

/// Base64 of the SHA-256 of a certificate's public key, as `talosctl --cert-fingerprint` takes it.
pub fn spki_fingerprint(certificate: &CertificateDer<'_>) -> Result<String> {
    use base64::Engine;
    let parsed = parse(certificate)?;
    Ok(base64::engine::general_purpose::STANDARD.encode(Sha256::digest(parsed.public_key().raw)))
}

/// When a certificate ends.
pub fn expires_at(certificate: &CertificateDer<'_>) -> Result<Timestamp> {
    validity(certificate).map(|(_, ends)| ends)
}

/// From when to when a certificate is valid.
pub fn validity(certificate: &CertificateDer<'_>) -> Result<(Timestamp, Timestamp)> {
    let parsed = parse(certificate)?;
    let at = |second| Timestamp::from_second(second).map_err(|_| Error::Lifetime);
    Ok((at(parsed.validity().not_before.timestamp())?, at(parsed.validity().not_after.timestamp())?))
}
