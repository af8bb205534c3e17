//! Private keys: read, written and used for signing as Go does.

use rand::rngs::StdRng;
use rsa::pkcs1::{DecodeRsaPrivateKey as _, EncodeRsaPrivateKey as _, EncodeRsaPublicKey as _};
use rsa::pkcs8::DecodePrivateKey as _;
use sha2::{Digest as _, Sha256};

use super::der::{self, INTEGER, NULL, OCTET_STRING, OID, Reader, SEQUENCE, element, sequence};

const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const RSA_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b];
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];

/// What stands before a SHA-256 digest that RSA signs.
const SHA256_INFO: &[u8] = &[
    0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00,
    0x04, 0x20,
];

/// The parameters of an elliptic curve: its name in keys, that of signatures by it, and the length of a private key.
struct Curve {
    oid: &'static [u8],
    signature: &'static [u8],
    length: usize,
}

const P256: Curve = Curve {
    oid: &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07],
    signature: &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02],
    length: 32,
};
const P384: Curve = Curve {
    oid: &[0x2b, 0x81, 0x04, 0x00, 0x22],
    signature: &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x03],
    length: 48,
};
const P521: Curve = Curve {
    oid: &[0x2b, 0x81, 0x04, 0x00, 0x23],
    signature: &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x04],
    length: 66,
};

/// A private key of one of the kinds that templates can generate or bring.
pub(super) enum Key {
    Rsa(Box<rsa::RsaPrivateKey>),
    P256(p256::ecdsa::SigningKey),
    P384(p384::ecdsa::SigningKey),
    P521(p521::ecdsa::SigningKey),
    Ed25519(ed25519_dalek::SigningKey),
}

impl Key {
    /// A new RSA key.
    pub(super) fn new_rsa(random: &mut StdRng, bits: usize) -> Result<Key, String> {
        let key = daedal_keys::new_rsa(random, bits).map_err(|e| e.to_string())?;
        Ok(Key::Rsa(Box::new(key)))
    }

    /// A new key on the curve P-256.
    pub(super) fn new_ecdsa(random: &mut StdRng) -> Key {
        Key::P256(p256::ecdsa::SigningKey::random(random))
    }

    /// A new Ed25519 key.
    pub(super) fn new_ed25519(random: &mut StdRng) -> Key {
        Key::Ed25519(ed25519_dalek::SigningKey::generate(random))
    }

    /// The key in the first block of a PEM text.
    pub(super) fn parse(text: &str) -> Result<Key, String> {
        let block = der::first_block(text).ok_or("no PEM data in input")?;
        let data = block.data.as_slice();
        match block.label.as_str() {
            "PRIVATE KEY" => pkcs8(data).map_err(|e| format!("decoding PEM as PKCS#8: {e}")),
            "RSA PRIVATE KEY" => match rsa::RsaPrivateKey::from_pkcs1_der(data) {
                Ok(key) => Ok(Key::Rsa(Box::new(key))),
                Err(e) => Err(format!("parsing RSA private key from PEM: {e}")),
            },
            "EC PRIVATE KEY" => sec1(None, data).map_err(|e| format!("parsing EC private key from PEM: {e}")),
            "DSA PRIVATE KEY" => Err("DSA keys are obsolete and not supported".into()),
            other if other.ends_with(" PRIVATE KEY") => Err(format!("invalid private key type {other}")),
            other => Err(format!("no private key data in PEM block of type {other}")),
        }
    }

    /// The key as PEM: PKCS#1 for RSA, SEC1 with the curve's name for ECDSA, PKCS#8 for Ed25519.
    pub(super) fn to_pem(&self) -> Result<String, String> {
        match self {
            Key::Rsa(key) => {
                let document = key.to_pkcs1_der().map_err(|e| e.to_string())?;
                Ok(der::pem("RSA PRIVATE KEY", document.as_bytes()))
            }
            Key::P256(key) => Ok(self.sec1_pem(&P256, &key.to_bytes())),
            Key::P384(key) => Ok(self.sec1_pem(&P384, &key.to_bytes())),
            Key::P521(key) => Ok(self.sec1_pem(&P521, &key.to_bytes())),
            // Version 1, without the public key: OpenSSL does not read version 2.
            Key::Ed25519(key) => {
                let algorithm = sequence(&[&element(OID, ED25519)]);
                let seed = element(OCTET_STRING, &element(OCTET_STRING, &key.to_bytes()));
                Ok(der::pem("PRIVATE KEY", &sequence(&[&der::unsigned(&[0]), &algorithm, &seed])))
            }
        }
    }

    fn sec1_pem(&self, curve: &Curve, scalar: &[u8]) -> String {
        let document = sequence(&[
            &der::unsigned(&[1]),
            &element(OCTET_STRING, scalar),
            &element(0xa0, &element(OID, curve.oid)),
            &element(0xa1, &der::bits(&self.public())),
        ]);
        der::pem("EC PRIVATE KEY", &document)
    }

    /// The public key, as the bits of a certificate hold it.
    pub(super) fn public(&self) -> Vec<u8> {
        match self {
            Key::Rsa(key) => match key.to_public_key().to_pkcs1_der() {
                Ok(document) => document.as_bytes().to_vec(),
                // Two numbers always have an encoding.
                Err(_) => Vec::new(),
            },
            Key::P256(key) => key.verifying_key().to_encoded_point(false).as_bytes().to_vec(),
            Key::P384(key) => key.verifying_key().to_encoded_point(false).as_bytes().to_vec(),
            Key::P521(key) => {
                p521::ecdsa::VerifyingKey::from(key).to_encoded_point(false).as_bytes().to_vec()
            }
            Key::Ed25519(key) => key.verifying_key().to_bytes().to_vec(),
        }
    }

    /// The public key with its algorithm, as a certificate holds them.
    pub(super) fn public_info(&self) -> Vec<u8> {
        let named = |curve: &Curve| sequence(&[&element(OID, EC), &element(OID, curve.oid)]);
        let algorithm = match self {
            Key::Rsa(_) => sequence(&[&element(OID, RSA), &NULL]),
            Key::P256(_) => named(&P256),
            Key::P384(_) => named(&P384),
            Key::P521(_) => named(&P521),
            Key::Ed25519(_) => sequence(&[&element(OID, ED25519)]),
        };
        sequence(&[&algorithm, &der::bits(&self.public())])
    }

    /// The algorithm that the key signs with.
    pub(super) fn signature_algorithm(&self) -> Vec<u8> {
        match self {
            Key::Rsa(_) => sequence(&[&element(OID, RSA_SHA256), &NULL]),
            Key::P256(_) => sequence(&[&element(OID, P256.signature)]),
            Key::P384(_) => sequence(&[&element(OID, P384.signature)]),
            Key::P521(_) => sequence(&[&element(OID, P521.signature)]),
            Key::Ed25519(_) => sequence(&[&element(OID, ED25519)]),
        }
    }

    /// A signature by that algorithm.
    pub(super) fn sign(&self, random: &mut StdRng, message: &[u8]) -> Result<Vec<u8>, String> {
        use p256::ecdsa::signature::{RandomizedSigner as _, Signer as _};
        let told = |e: p256::ecdsa::signature::Error| e.to_string();
        Ok(match self {
            Key::Rsa(key) => {
                let padding = rsa::Pkcs1v15Sign { hash_len: Some(32), prefix: SHA256_INFO.into() };
                key.sign(padding, &Sha256::digest(message)).map_err(|e| e.to_string())?
            }
            Key::P256(key) => {
                let signature: p256::ecdsa::DerSignature = key.try_sign(message).map_err(told)?;
                signature.as_bytes().to_vec()
            }
            Key::P384(key) => {
                let signature: p384::ecdsa::DerSignature = key.try_sign(message).map_err(told)?;
                signature.as_bytes().to_vec()
            }
            Key::P521(key) => {
                let signature: p521::ecdsa::Signature =
                    key.try_sign_with_rng(random, message).map_err(told)?;
                signature.to_der().as_bytes().to_vec()
            }
            Key::Ed25519(key) => key.try_sign(message).map_err(told)?.to_bytes().to_vec(),
        })
    }
}

/// PKCS#8: an algorithm, and the key as the algorithm writes it.
fn pkcs8(data: &[u8]) -> Result<Key, String> {
    let parts = || {
        let mut inner = Reader(Reader(data).take(SEQUENCE)?);
        inner.take(INTEGER)?;
        let mut algorithm = Reader(inner.take(SEQUENCE)?);
        Some((algorithm.take(OID)?, algorithm.take(OID), inner.take(OCTET_STRING)?))
    };
    let (algorithm, parameter, key) = parts().ok_or("x509: malformed private key")?;
    match algorithm {
        RSA => match rsa::RsaPrivateKey::from_pkcs8_der(data) {
            Ok(key) => Ok(Key::Rsa(Box::new(key))),
            Err(e) => Err(e.to_string()),
        },
        EC => sec1(parameter, key),
        ED25519 => {
            let seed = Reader(key).take(OCTET_STRING).and_then(|seed| <[u8; 32]>::try_from(seed).ok());
            let seed = seed.ok_or("x509: invalid Ed25519 private key")?;
            Ok(Key::Ed25519(ed25519_dalek::SigningKey::from_bytes(&seed)))
        }
        _ => Err("x509: PKCS#8 wrapping contained private key with unknown algorithm".into()),
    }
}

/// SEC1: a number, and the name of the curve if nothing around it tells.
fn sec1(curve: Option<&[u8]>, data: &[u8]) -> Result<Key, String> {
    let parts = || {
        let mut inner = Reader(Reader(data).take(SEQUENCE)?);
        inner.take(INTEGER)?;
        let scalar = inner.take(OCTET_STRING)?;
        Some((scalar, inner.take(0xa0).and_then(|named| Reader(named).take(OID))))
    };
    let (scalar, named) = parts().ok_or("x509: failed to parse EC private key")?;
    let padded = |curve: &Curve| {
        let digits = &scalar[scalar.iter().take_while(|b| **b == 0).count()..];
        let missing = curve.length.checked_sub(digits.len()).ok_or("x509: invalid private key length")?;
        Ok::<_, String>([&vec![0; missing], digits].concat())
    };
    let wrong = |_| "x509: invalid elliptic curve private key value".to_owned();
    match curve.or(named) {
        Some(oid) if oid == P256.oid => {
            p256::ecdsa::SigningKey::from_slice(&padded(&P256)?).map(Key::P256).map_err(wrong)
        }
        Some(oid) if oid == P384.oid => {
            p384::ecdsa::SigningKey::from_slice(&padded(&P384)?).map(Key::P384).map_err(wrong)
        }
        Some(oid) if oid == P521.oid => {
            p521::ecdsa::SigningKey::from_slice(&padded(&P521)?).map(Key::P521).map_err(wrong)
        }
        _ => Err("x509: unknown elliptic curve".into()),
    }
}
