//! The secrets bundle: everything about a cluster that cannot be computed again.

mod beside_config;
mod from_config;
mod readable;
mod summary;

use std::fmt::Write as _;

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE},
};
use jiff::{SignedDuration, Timestamp};
use rand::{CryptoRng, Rng, RngCore};
use rsa::pkcs1::EncodeRsaPrivateKey;
use yaml_serde::Value;
use zeroize::Zeroizing;

use crate::{
    Error, Result, pem,
    pki::{CertificateAuthority, KeyKind, PrivateKey},
    secret::Secret,
};

pub use summary::{AuthoritySummary, BundleSummary, KeySummary};

const AUTHORITY_LIFETIME: SignedDuration = SignedDuration::from_hours(87_600);
const SERVICE_ACCOUNT_KEY_BITS: usize = 4096;

/// A cluster's secrets, in the form that `talosctl gen secrets` writes and reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretsBundle {
    /// Identity of the cluster in discovery.
    pub cluster_id: String,
    /// Encrypts what discovery publishes.
    pub cluster_secret: Secret,
    /// Kubelets join Kubernetes with it.
    pub bootstrap_token: Secret,
    /// Encrypts Kubernetes secrets in etcd.
    pub encryption: EncryptionSecret,
    /// Nodes ask control planes for their API certificate with it (`machine.token`).
    pub trustd_token: Secret,
    /// Authority of etcd.
    pub etcd: CertificateAndKey,
    /// Authority of Kubernetes.
    pub k8s: CertificateAndKey,
    /// Authority of aggregated API servers.
    pub k8s_aggregator: CertificateAndKey,
    /// PEM key that signs service account tokens.
    pub k8s_service_account: Secret,
    /// Authority of the node API.
    pub os: CertificateAndKey,
}

/// How Kubernetes secrets are encrypted in etcd: one of two ways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EncryptionSecret {
    /// What every cluster of today uses.
    Secretbox(Secret),
    /// Clusters born before Talos 1.3.
    AesCbc(Secret),
}

/// An authority's certificate and key, both in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateAndKey {
    /// PEM certificate.
    pub crt: String,
    /// PEM private key.
    pub key: Secret,
}

impl CertificateAndKey {
    /// The pair as an authority that can issue certificates.
    pub fn authority(&self) -> Result<CertificateAuthority> {
        CertificateAuthority::from_pem(&self.crt, self.key.expose())
    }
}

impl From<&CertificateAuthority> for CertificateAndKey {
    fn from(authority: &CertificateAuthority) -> Self {
        Self { crt: authority.certificate_pem(), key: authority.key().to_pem() }
    }
}

impl SecretsBundle {
    /// Makes a new bundle. The RSA key makes this slow (seconds): run it where blocking is allowed.
    pub fn generate<R: RngCore + CryptoRng>(rng: &mut R, now: Timestamp) -> Result<Self> {
        Self::generate_with_key_size(rng, now, SERVICE_ACCOUNT_KEY_BITS)
    }

    /// Like [`SecretsBundle::generate`], with another size of the service account key. Only rehearsals, which make
    /// many bundles and protect nothing with them, should choose less than the usual 4096 bits.
    pub fn generate_with_key_size<R: RngCore + CryptoRng>(
        rng: &mut R,
        now: Timestamp,
        service_account_key_bits: usize,
    ) -> Result<Self> {
        let mut authority = |kind, organization| {
            CertificateAuthority::generate(kind, organization, AUTHORITY_LIFETIME, rng, now)
                .map(|authority| CertificateAndKey::from(&authority))
        };
        let etcd = authority(KeyKind::P256, Some("etcd"))?;
        let k8s = authority(KeyKind::P256, Some("kubernetes"))?;
        let k8s_aggregator = authority(KeyKind::P256, None)?;
        let os = authority(KeyKind::Ed25519, Some("talos"))?;
        let service_account =
            daedal_keys::new_rsa(rng, service_account_key_bits).map_err(Error::ServiceAccountKey)?;
        let service_account = service_account
            .to_pkcs1_der()
            .map_err(|error| Error::Key { reason: format!("the RSA key cannot be encoded ({error})") })?;
        Ok(Self {
            cluster_id: URL_SAFE.encode(random_32(rng)),
            cluster_secret: Secret::new(STANDARD.encode(random_32(rng))),
            bootstrap_token: token(rng),
            encryption: EncryptionSecret::Secretbox(Secret::new(STANDARD.encode(random_32(rng)))),
            trustd_token: token(rng),
            etcd,
            k8s,
            k8s_aggregator,
            k8s_service_account: Secret::new(pem::encode("RSA PRIVATE KEY", service_account.as_bytes())),
            os,
        })
    }

    /// Reads a bundle and checks every field of it, so that a damaged file is noticed before it is used.
    pub fn from_yaml(text: &str) -> Result<Self> {
        let root: Value = yaml_serde::from_str(text).map_err(|error| Error::Bundle {
            field: error.location().map_or(".".into(), |at| format!("line {}", at.line())),
            // The parser's own words may quote the text around the fault.
            reason: "is not valid YAML".into(),
        })?;
        let root = Fields { value: &root, path: String::new() };
        let pair = |name: &str| -> Result<CertificateAndKey> {
            let pair = root.section("certs")?.section(name)?;
            Ok(CertificateAndKey { crt: pair.pem("crt")?.expose().into(), key: pair.pem("key")? })
        };
        let secrets = root.section("secrets")?;
        let encryption = match (
            secrets.optional("secretboxencryptionsecret")?,
            secrets.optional("aescbcencryptionsecret")?,
        ) {
            (Some(secret), None) => EncryptionSecret::Secretbox(secret),
            (None, Some(secret)) => EncryptionSecret::AesCbc(secret),
            (None, None) => {
                return Err(secrets.fault(
                    "secretboxencryptionsecret",
                    "is missing (and so is aescbcencryptionsecret; one of them is needed)",
                ));
            }
            (Some(_), Some(_)) => {
                return Err(secrets
                    .fault("aescbcencryptionsecret", "must not stand beside secretboxencryptionsecret"));
            }
        };
        let bundle = Self {
            cluster_id: root.section("cluster")?.text("id")?.expose().into(),
            cluster_secret: root.section("cluster")?.text("secret")?,
            bootstrap_token: secrets.text("bootstraptoken")?,
            encryption,
            trustd_token: root.section("trustdinfo")?.text("token")?,
            etcd: pair("etcd")?,
            k8s: pair("k8s")?,
            k8s_aggregator: pair("k8saggregator")?,
            k8s_service_account: root.section("certs")?.section("k8sserviceaccount")?.pem("key")?,
            os: pair("os")?,
        };
        bundle.validate()?;
        Ok(bundle)
    }

    /// Checks that every field can be used for what it is for, and names the first that cannot.
    pub fn validate(&self) -> Result<()> {
        let fault = |field: &str, reason: &str| Error::Bundle { field: field.into(), reason: reason.into() };
        if URL_SAFE.decode(&self.cluster_id).map_or(true, |id| id.len() != 32) {
            return Err(fault("cluster.id", "is not 32 bytes in URL-safe base64"));
        }
        let (encryption_field, encryption) = match &self.encryption {
            EncryptionSecret::Secretbox(secret) => ("secrets.secretboxencryptionsecret", secret),
            EncryptionSecret::AesCbc(secret) => ("secrets.aescbcencryptionsecret", secret),
        };
        for (field, secret) in [("cluster.secret", &self.cluster_secret), (encryption_field, encryption)] {
            let decoded = STANDARD.decode(secret.expose()).map(Zeroizing::new);
            if decoded.map_or(true, |bytes| bytes.len() != 32) {
                return Err(fault(field, "is not 32 bytes in base64"));
            }
        }
        for (field, token) in
            [("secrets.bootstraptoken", &self.bootstrap_token), ("trustdinfo.token", &self.trustd_token)]
        {
            if !is_token(token.expose()) {
                return Err(fault(field, "is not 6 characters, a dot and 16 characters of 0-9 and a-z"));
            }
        }
        for (name, pair) in self.authorities() {
            if let Err(error) = pair.authority() {
                let (part, reason) = match error {
                    Error::Key { reason } => ("key", reason),
                    Error::Certificate { reason } => ("crt", reason),
                    other => ("crt", other.to_string()),
                };
                return Err(fault(&format!("certs.{name}.{part}"), &format!("cannot be used: {reason}")));
            }
        }
        service_account_key(self.k8s_service_account.expose())?;
        Ok(())
    }

    fn authorities(&self) -> [(&'static str, &CertificateAndKey); 4] {
        [("etcd", &self.etcd), ("k8s", &self.k8s), ("k8saggregator", &self.k8s_aggregator), ("os", &self.os)]
    }

    /// Writes the bundle as `talosctl gen secrets` does.
    pub fn to_yaml(&self) -> Secret {
        let b64 = |text: &str| Zeroizing::new(STANDARD.encode(text));
        let mut out = String::with_capacity(16 * 1024);
        let (encryption_key, encryption) = match &self.encryption {
            EncryptionSecret::Secretbox(secret) => ("secretboxencryptionsecret", secret),
            EncryptionSecret::AesCbc(secret) => ("aescbcencryptionsecret", secret),
        };
        // Writing to a String cannot fail.
        let _ = write!(
            out,
            "cluster:\n    id: {}\n    secret: {}\nsecrets:\n    bootstraptoken: {}\n    {encryption_key}: {}\n\
             trustdinfo:\n    token: {}\ncerts:\n",
            self.cluster_id,
            self.cluster_secret.expose(),
            token_scalar(self.bootstrap_token.expose()),
            encryption.expose(),
            token_scalar(self.trustd_token.expose()),
        );
        let pair = |out: &mut String, name: &str, pair: &CertificateAndKey| {
            let _ = write!(
                out,
                "    {name}:\n        crt: {}\n        key: {}\n",
                *b64(&pair.crt),
                *b64(pair.key.expose())
            );
        };
        pair(&mut out, "etcd", &self.etcd);
        pair(&mut out, "k8s", &self.k8s);
        pair(&mut out, "k8saggregator", &self.k8s_aggregator);
        let _ =
            write!(out, "    k8sserviceaccount:\n        key: {}\n", *b64(self.k8s_service_account.expose()));
        pair(&mut out, "os", &self.os);
        Secret::new(out)
    }
}

fn random_32<R: RngCore + CryptoRng>(rng: &mut R) -> Zeroizing<[u8; 32]> {
    let mut bytes = Zeroizing::new([0; 32]);
    rng.fill_bytes(bytes.as_mut_slice());
    bytes
}

fn token<R: RngCore + CryptoRng>(rng: &mut R) -> Secret {
    const ALPHABET: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut text = String::with_capacity(23);
    for position in 0..23 {
        text.push(if position == 6 { '.' } else { char::from(ALPHABET[rng.gen_range(0..ALPHABET.len())]) });
    }
    Secret::new(text)
}

fn is_token(text: &str) -> bool {
    let ok = |part: &str, length| {
        part.len() == length && part.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase())
    };
    text.split_once('.').is_some_and(|(id, secret)| ok(id, 6) && ok(secret, 16))
}

/// A token of digits alone (perhaps with an exponent) would be read as a number.
fn token_scalar(text: &str) -> String {
    if text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e')) {
        format!("\"{text}\"")
    } else {
        text.into()
    }
}

/// The key that signs service account tokens, and its public half.
fn service_account_key(text: &str) -> Result<(PrivateKey, Vec<u8>)> {
    let fault = |reason| Error::Bundle { field: "certs.k8sserviceaccount.key".into(), reason };
    let key = PrivateKey::from_pem(text).map_err(|error| match error {
        Error::Key { reason } => fault(format!("cannot be used: {reason}")),
        other => other,
    })?;
    let public = key.public_for_tokens().ok_or_else(|| fault("is neither an RSA nor an EC key".into()))?;
    Ok((key, public))
}

/// A mapping of the bundle together with where it stands, for errors that name the field.
struct Fields<'a> {
    value: &'a Value,
    path: String,
}

impl<'a> Fields<'a> {
    fn fault(&self, name: &str, reason: &str) -> Error {
        Error::Bundle { field: self.join(name), reason: reason.into() }
    }

    fn join(&self, name: &str) -> String {
        if self.path.is_empty() { name.into() } else { format!("{}.{name}", self.path) }
    }

    fn section(&self, name: &str) -> Result<Fields<'a>> {
        match self.value.get(name) {
            Some(value) if value.is_mapping() => Ok(Fields { value, path: self.join(name) }),
            Some(_) => Err(self.fault(name, "is not a mapping")),
            None => Err(self.fault(name, "is missing")),
        }
    }

    fn optional(&self, name: &str) -> Result<Option<Secret>> {
        match self.value.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text.is_empty() => Ok(None),
            Some(Value::String(text)) => Ok(Some(Secret::new(text.as_str()))),
            Some(_) => Err(self.fault(name, "is not a text")),
        }
    }

    fn text(&self, name: &str) -> Result<Secret> {
        self.optional(name)?.ok_or_else(|| self.fault(name, "is missing"))
    }

    fn pem(&self, name: &str) -> Result<Secret> {
        let encoded = self.text(name)?;
        let decoded = STANDARD
            .decode(encoded.expose())
            .map_err(|_| self.fault(name, "is not base64"))
            .map(Zeroizing::new)?;
        match std::str::from_utf8(&decoded) {
            Ok(text) if pem::decode(text).is_some() => Ok(Secret::new(text)),
            _ => Err(self.fault(name, "does not hold a PEM block")),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
