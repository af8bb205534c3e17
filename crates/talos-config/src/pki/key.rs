//! Private keys of the kinds that authorities have: those that Talos makes, and those of a PKI that was there before it.

use std::{fmt, sync::Arc};

use ed25519_dalek::{Signer, pkcs8::DecodePrivateKey};
use p256::pkcs8::{
    ObjectIdentifier, PrivateKeyInfo,
    der::{
        AnyRef, Decode, TagNumber,
        asn1::{ContextSpecific, OctetStringRef},
    },
};
use rand::{CryptoRng, RngCore, rngs::OsRng};
use rcgen::PublicKeyData as _;
use rsa::{
    Pkcs1v15Sign, RsaPrivateKey,
    pkcs1::{DecodeRsaPrivateKey, EncodeRsaPublicKey},
    traits::PublicKeyParts,
};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::{Error, Result, pem, secret::Secret};

const ED25519_LABEL: &str = "ED25519 PRIVATE KEY";
const EC_LABEL: &str = "EC PRIVATE KEY";
const RSA_LABEL: &str = "RSA PRIVATE KEY";
/// PKCS #8 of any algorithm.
const GENERIC_LABEL: &str = "PRIVATE KEY";

const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");
const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
const P521: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.35");

/// What stands before a SHA-256 in an RSA signature (PKCS #1 v1.5).
const SHA256_PREFIX: [u8; 19] =
    [0x30, 0x31, 0x30, 0x0d, 6, 9, 0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1, 5, 0, 4, 0x20];

/// Which algorithm a new key is of.
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
    label: &'static str,
    der: Zeroizing<Vec<u8>>,
}

#[derive(Clone)]
enum KeySigner {
    Ed25519(ed25519_dalek::SigningKey),
    P256(p256::SecretKey),
    P384(Arc<rcgen::KeyPair>),
    Rsa(Box<RsaPrivateKey>),
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey({}, redacted)", self.name())
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
        let der = ed25519_pkcs8(&key);
        Self { signer: KeySigner::Ed25519(key), public, label: ED25519_LABEL, der }
    }

    fn from_p256(key: p256::SecretKey) -> Self {
        let public = key.public_key().to_sec1_bytes().to_vec();
        let der = p256_sec1(&key, &public);
        Self { signer: KeySigner::P256(key), public, label: EC_LABEL, der }
    }

    /// A P-384 key in PKCS #8, which is what its signer takes, from a block of this label and content.
    fn from_p384(pkcs8: &[u8], label: &'static str, der: Zeroizing<Vec<u8>>) -> Result<Self> {
        let pkcs8 = PrivatePkcs8KeyDer::from(pkcs8);
        let key = rcgen::KeyPair::from_pkcs8_der_and_sign_algo(&pkcs8, &rcgen::PKCS_ECDSA_P384_SHA384)
            .map_err(|_| bad("the P-384 key is malformed, or its public half is not in it"))?;
        let public = key.public_key_raw().to_vec();
        Ok(Self { signer: KeySigner::P384(Arc::new(key)), public, label, der })
    }

    fn from_rsa(key: RsaPrivateKey, label: &'static str, der: Zeroizing<Vec<u8>>) -> Result<Self> {
        let public = key.to_public_key().to_pkcs1_der();
        let public = public.map_err(|_| bad("the RSA key is malformed"))?.into_vec();
        Ok(Self { signer: KeySigner::Rsa(Box::new(key)), public, label, der })
    }

    /// Reads a key with one of the labels that Talos reads.
    pub fn from_pem(text: &str) -> Result<Self> {
        let (label, der) = pem::decode(text).ok_or_else(|| bad("there is no PEM block"))?;
        match label {
            ED25519_LABEL => ed25519_dalek::SigningKey::from_pkcs8_der(&der)
                .map(Self::from_ed25519)
                .map_err(|error| bad(&format!("the Ed25519 key is malformed ({error})"))),
            EC_LABEL => Self::from_sec1(der),
            RSA_LABEL => {
                let key = RsaPrivateKey::from_pkcs1_der(&der);
                let key = key.map_err(|error| bad(&format!("the RSA key is malformed ({error})")))?;
                Self::from_rsa(key, RSA_LABEL, der)
            }
            GENERIC_LABEL => Self::from_pkcs8(der),
            other => Err(bad(&format!(
                "a block `{other}` is none of `{ED25519_LABEL}`, `{EC_LABEL}`, `{RSA_LABEL}` and `{GENERIC_LABEL}`"
            ))),
        }
    }

    fn from_sec1(der: Zeroizing<Vec<u8>>) -> Result<Self> {
        match curve_of_sec1(&der) {
            Some(P384) => Self::from_p384(&p384_pkcs8(&der), EC_LABEL, der),
            // Without a name the length tells.
            Some(P256) | None => p256::SecretKey::from_sec1_der(&der)
                .map(Self::from_p256)
                .map_err(|_| bad("the EC key is not a P-256 key in SEC1 form")),
            Some(curve) => Err(bad_curve(curve)),
        }
    }

    fn from_pkcs8(der: Zeroizing<Vec<u8>>) -> Result<Self> {
        let malformed = |what: &str| bad(&format!("the {what} key is malformed"));
        let (algorithm, curve) = {
            let key = PrivateKeyInfo::try_from(der.as_slice()).map_err(|_| malformed("PKCS #8"))?;
            (key.algorithm.oid, key.algorithm.parameters_oid().ok())
        };
        match (algorithm, curve) {
            (ED25519, _) => ed25519_dalek::SigningKey::from_pkcs8_der(&der)
                .map(Self::from_ed25519)
                .map_err(|_| malformed("Ed25519")),
            (RSA, _) => {
                let key = RsaPrivateKey::from_pkcs8_der(&der).map_err(|_| malformed("RSA"))?;
                Self::from_rsa(key, GENERIC_LABEL, der)
            }
            (EC, Some(P256)) => {
                p256::SecretKey::from_pkcs8_der(&der).map(Self::from_p256).map_err(|_| malformed("P-256"))
            }
            (EC, Some(P384)) => {
                let pkcs8 = der.clone();
                Self::from_p384(&pkcs8, GENERIC_LABEL, der)
            }
            (EC, Some(curve)) => Err(bad_curve(curve)),
            (other, _) => Err(bad(&format!("keys of the algorithm {other} are not supported"))),
        }
    }

    /// Writes the key with the label and encoding that every Talos version reads; one in PKCS #8 that Talos would not have
    /// made stays as it was read.
    pub fn to_pem(&self) -> Secret {
        Secret::new(pem::encode(self.label, &self.der))
    }

    /// The key in the form that rustls takes.
    pub fn to_der(&self) -> PrivateKeyDer<'static> {
        let der = self.der.to_vec();
        match self.label {
            EC_LABEL => PrivateSec1KeyDer::from(der).into(),
            RSA_LABEL => PrivatePkcs1KeyDer::from(der).into(),
            _ => PrivatePkcs8KeyDer::from(der).into(),
        }
    }

    /// The key's algorithm and size, such as `ECDSA P-256` or `RSA 2048`.
    pub fn name(&self) -> String {
        match &self.signer {
            KeySigner::Ed25519(_) => "Ed25519".into(),
            KeySigner::P256(_) => "ECDSA P-256".into(),
            KeySigner::P384(_) => "ECDSA P-384".into(),
            KeySigner::Rsa(key) => format!("RSA {}", key.n().bits()),
        }
    }

    /// Which keys an authority with this one makes for those it certifies. They need not be of the same algorithm, and new
    /// RSA keys would take seconds.
    pub fn kind_of_leaves(&self) -> KeyKind {
        match self.signer {
            KeySigner::Ed25519(_) => KeyKind::Ed25519,
            KeySigner::P256(_) | KeySigner::P384(_) | KeySigner::Rsa(_) => KeyKind::P256,
        }
    }

    /// Whether TLS takes what the key signs: too short and too long RSA keys are nothing that certificates are checked by.
    pub(super) fn check_strength(&self) -> Result<()> {
        match &self.signer {
            KeySigner::Rsa(key) if !(2048..=8192).contains(&key.n().bits()) => Err(bad(&format!(
                "an RSA key of {} bits is not supported for an authority, only 2048 to 8192 are",
                key.n().bits()
            ))),
            _ => Ok(()),
        }
    }

    /// The public half as it stands in a certificate.
    pub(super) fn public(&self) -> &[u8] {
        &self.public
    }

    /// The public half with its algorithm (SubjectPublicKeyInfo); `None` where Kubernetes cannot sign tokens with the key.
    pub(crate) fn public_for_tokens(&self) -> Option<Vec<u8>> {
        match self.signer {
            KeySigner::Ed25519(_) => None,
            _ => Some(self.subject_public_key_info()),
        }
    }
}

fn bad(reason: &str) -> Error {
    Error::Key { reason: reason.into() }
}

fn bad_curve(curve: ObjectIdentifier) -> Error {
    let name = if curve == P521 { "P-521".to_owned() } else { curve.to_string() };
    bad(&format!("keys of the curve {name} are not supported, only those of P-256 and P-384"))
}

/// The name of the curve inside a SEC1 key.
fn curve_of_sec1(der: &[u8]) -> Option<ObjectIdentifier> {
    let fields = AnyRef::from_der(der).ok()?;
    let curve = fields.sequence(|reader| {
        u8::decode(reader)?;
        OctetStringRef::decode(reader)?;
        let curve = ContextSpecific::<ObjectIdentifier>::decode_explicit(reader, TagNumber::N0)?;
        // The public half is read by whoever reads the key.
        ContextSpecific::<AnyRef<'_>>::decode_explicit(reader, TagNumber::N1)?;
        Ok(curve)
    });
    curve.ok().flatten().map(|curve| curve.value)
}

/// PKCS #8 around a P-384 key in SEC1.
fn p384_pkcs8(sec1: &[u8]) -> Zeroizing<Vec<u8>> {
    // 0, and the two names: elliptic curve, P-384.
    let head = [
        &[2, 1, 0, 0x30, 0x10, 6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1, 6, 5][..],
        &[0x2b, 0x81, 4, 0, 0x22],
    ]
    .concat();
    let key = der_block(4, sec1);
    let inner = Zeroizing::new([head.as_slice(), key.as_slice()].concat());
    der_block(0x30, &inner)
}

/// Tag, length and content.
fn der_block(tag: u8, content: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut block = Zeroizing::new(Vec::with_capacity(content.len() + 6));
    block.push(tag);
    let length = content.len().to_be_bytes();
    let length = &length[length.iter().take_while(|byte| **byte == 0).count()..];
    match length {
        [] => block.push(0),
        [short @ 0..=0x7f] => block.push(*short),
        _ => {
            block.push(0x80 | u8::try_from(length.len()).unwrap_or_default());
            block.extend_from_slice(length);
        }
    }
    block.extend_from_slice(content);
    block
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
            KeySigner::P384(_) => &rcgen::PKCS_ECDSA_P384_SHA384,
            KeySigner::Rsa(_) => &rcgen::PKCS_RSA_SHA256,
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
            KeySigner::P384(key) => key.sign(message)?,
            KeySigner::Rsa(key) => {
                let scheme = Pkcs1v15Sign { hash_len: Some(32), prefix: Box::new(SHA256_PREFIX) };
                // The randomness only blinds the computation: the signature is the same with any.
                key.sign_with_rng(&mut OsRng, scheme, &Sha256::digest(message))
                    .map_err(|_| rcgen::Error::RemoteKeyError)?
            }
        })
    }
}
