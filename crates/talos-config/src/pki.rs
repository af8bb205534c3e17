//! Keys, certificate authorities and the certificates they issue, in the encodings that Talos reads.

mod key;
#[cfg(test)]
pub(crate) mod tests;

use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};
use rand::{CryptoRng, RngCore};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyUsagePurpose, SanType, SerialNumber,
};
use rustls_pki_types::CertificateDer;
use sha2::{Digest, Sha256};

use crate::{Error, Result, pem};

pub use key::{KeyKind, PrivateKey};

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
        key.check_strength()?;
        let parsed = parse(&certificate)?;
        if !parsed.is_ca() {
            return Err(Error::Certificate { reason: "it is not a certificate authority".into() });
        }
        if parsed.public_key().subject_public_key.data.as_ref() != key.public() {
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

    /// Makes a new key that goes with this authority's and a certificate for it.
    pub fn issue<R: RngCore + CryptoRng>(&self, leaf: &Leaf, rng: &mut R) -> Result<Identity> {
        let key = PrivateKey::generate(self.key.kind_of_leaves(), rng);
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
        // A subject with an attribute twice comes out with it once, and nobody would find the authority by that.
        if parse(certificate.der())?.issuer().as_raw() != parse(&self.certificate)?.subject().as_raw() {
            let reason = "its subject is one that certificates cannot be issued under here".into();
            return Err(Error::Certificate { reason });
        }
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
