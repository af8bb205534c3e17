//! Faults of certificates and keys in PEM.

use p256::pkcs8::PrivateKeyInfo;
use rsa::pkcs1::RsaPrivateKey;
use x509_parser::asn1_rs::{FromDer as _, Integer, OctetString, Sequence};
use yaml_serde::Value;

use super::{Findings, is_set, items, text};
use crate::config::{
    contract::Release,
    document::{DocumentId, MachineConfig},
    schema,
};

/// Algorithms of keys that Talos can read: RSA, elliptic curves, Ed25519, X25519.
const ALGORITHMS: [&str; 4] = ["1.2.840.113549.1.1.1", "1.2.840.10045.2.1", "1.3.101.112", "1.3.101.110"];
/// Curves that it can read: P-224, P-256, P-384, P-521.
const CURVES: [&str; 4] = ["1.3.132.0.33", "1.2.840.10045.3.1.7", "1.3.132.0.34", "1.3.132.0.35"];

impl MachineConfig {
    pub(super) fn lint_pem(&self, release: Release, found: &mut Findings) {
        for document in self.of_kind("RegistryTLSConfig") {
            let place = DocumentId::of(document).to_string();
            let ca = text(Some(document), "ca");
            if !ca.is_empty() && !blocks(ca).iter().any(Block::is_certificate) {
                found.error(&place, "has a `ca` that is no certificate in PEM");
            }
            if let Some(identity) = document.get("clientIdentity").filter(|value| is_set(value)) {
                let (cert, key) = (text(Some(identity), "cert"), text(Some(identity), "key"));
                let (good_cert, good_key) = if release.minor() >= 14 {
                    (is_only_certificates(cert), !blocks(key).is_empty())
                } else {
                    (
                        blocks(cert).first().is_some_and(Block::holds_certificate),
                        blocks(key).first().is_some_and(Block::is_pkcs8),
                    )
                };
                if !good_cert {
                    found.error(&place, "has a client identity whose `cert` is no certificate in PEM");
                }
                if !good_key {
                    let message = "has a client identity whose `key` is no private key in PEM (PKCS #8)";
                    found.error(&place, message);
                }
            }
        }
        for (kind, needed) in [("KubeAPIServerCAConfig", false), ("KubeAggregatorCAConfig", true)] {
            for document in self.of_kind(kind) {
                lint_authority(document, kind, needed, found);
            }
        }
        for document in self.of_kind("KubeServiceAccountConfig") {
            let key = blocks(text(Some(document), "issuer.privateKey"));
            if !key.first().is_some_and(Block::is_key) {
                found.error("KubeServiceAccountConfig", "needs an `issuer.privateKey` that is a key in PEM");
            }
            if text(Some(document), "issuer.issuerURL").is_empty() {
                found.error("KubeServiceAccountConfig", "needs an `issuer.issuerURL`");
            }
        }
    }
}

fn lint_authority(document: &Value, kind: &str, needed: bool, found: &mut Findings) {
    match document.get("issuingCA").filter(|value| is_set(value)) {
        None if needed => found.error(kind, "needs an `issuingCA`"),
        None => {}
        Some(authority) => {
            let (cert, key) = (text(Some(authority), "cert"), text(Some(authority), "key"));
            let is_first = blocks(cert).first().is_some_and(Block::holds_certificate);
            if !is_only_certificates(cert) || !is_first {
                found.error(kind, "needs an `issuingCA.cert` that is a certificate in PEM");
            }
            if !blocks(key).first().is_some_and(Block::is_key) {
                found.error(kind, "needs an `issuingCA.key` that is a private key in PEM");
            }
        }
    }
    if items(document, "acceptedCAs").any(|ca| !is_only_certificates(ca.as_str().unwrap_or_default())) {
        found.error(kind, "has `acceptedCAs` that are no certificates in PEM");
    }
}

/// Whether there is something in a PEM text, and nothing but certificates.
fn is_only_certificates(pem: &str) -> bool {
    let blocks = blocks(pem);
    !blocks.is_empty() && blocks.iter().all(|block| block.label == "CERTIFICATE")
}

/// What stands between a `BEGIN` and its `END`.
struct Block<'a> {
    label: &'a str,
    bytes: Vec<u8>,
}

impl Block<'_> {
    fn is_certificate(&self) -> bool {
        self.label == "CERTIFICATE" && self.holds_certificate()
    }

    fn holds_certificate(&self) -> bool {
        x509_parser::parse_x509_certificate(&self.bytes).is_ok_and(|(rest, certificate)| {
            let key = &certificate.public_key().algorithm;
            let curve = key.parameters.as_ref().and_then(|of| of.as_oid().ok()).map(|oid| oid.to_id_string());
            rest.is_empty()
                && certificate.signature_algorithm == certificate.tbs_certificate.signature
                && (key.algorithm.to_id_string() != ALGORITHMS[1]
                    || curve.is_some_and(|curve| CURVES.contains(&curve.as_str())))
        })
    }

    fn is_pkcs8(&self) -> bool {
        PrivateKeyInfo::try_from(self.bytes.as_slice())
            .is_ok_and(|key| ALGORITHMS.contains(&key.algorithm.oid.to_string().as_str()))
    }

    /// A number, the key, and what may be said of its curve.
    fn is_of_curve(&self) -> bool {
        Sequence::from_der(&self.bytes).is_ok_and(|(rest, fields)| {
            let version = Integer::from_der(&fields.content);
            rest.is_empty() && version.is_ok_and(|(rest, _)| OctetString::from_der(rest).is_ok())
        })
    }

    fn is_key(&self) -> bool {
        match self.label {
            "RSA PRIVATE KEY" => RsaPrivateKey::try_from(self.bytes.as_slice()).is_ok(),
            "EC PRIVATE KEY" => self.is_of_curve(),
            "PRIVATE KEY" => self.is_pkcs8(),
            "ED25519 PRIVATE KEY" => PrivateKeyInfo::try_from(self.bytes.as_slice())
                .is_ok_and(|key| key.algorithm.oid.to_string() == ALGORITHMS[2]),
            _ => false,
        }
    }
}

/// Every block of a PEM text that can be read.
fn blocks(pem: &str) -> Vec<Block<'_>> {
    let mut found = Vec::new();
    let mut rest = pem;
    while let Some(at) = rest.find("-----BEGIN ") {
        let begins_line = at == 0 || rest[..at].ends_with('\n');
        rest = &rest[at + "-----BEGIN ".len()..];
        let Some((line, body)) = rest.split_once('\n').filter(|_| begins_line) else { continue };
        let Some(label) = line.trim_end().strip_suffix("-----") else { continue };
        let end = format!("-----END {label}-----");
        let Some((body, behind)) = body.split_once(&end) else { continue };
        let lines = body.lines().skip_while(|line| line.contains(':'));
        let digits: String = lines.flat_map(str::chars).filter(|letter| !letter.is_whitespace()).collect();
        if let Some(bytes) = schema::bytes(&digits) {
            found.push(Block { label, bytes });
            rest = behind;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::blocks;

    #[test]
    fn blocks_are_found_between_other_texts() {
        let pem = "text\n-----BEGIN A-----\nYQ==\n-----END A-----\n-----BEGIN B-----\n?\n-----END B-----\n-----BEGIN C-----\nX: y\n\nYg==\n-----END C-----";
        let found: Vec<(&str, Vec<u8>)> =
            blocks(pem).into_iter().map(|block| (block.label, block.bytes)).collect();
        assert_eq!(found, [("A", b"a".to_vec()), ("C", b"b".to_vec())]);
    }
}
