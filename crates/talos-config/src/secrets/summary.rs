//! What may be known of a secrets bundle without knowing a secret: subjects, kinds of keys, fingerprints, ends.

use jiff::Timestamp;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::{
    Error, Result, pki,
    secrets::{EncryptionSecret, SecretsBundle, service_account_key},
};

/// A bundle as it may be shown to anybody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BundleSummary {
    /// Identity of the cluster in discovery; no secret.
    pub cluster_id: String,
    /// Its authorities, in the order of the file.
    pub authorities: Vec<AuthoritySummary>,
    /// The key that signs service account tokens.
    pub service_account: KeySummary,
    /// `secretbox` or `aescbc`: how Kubernetes secrets are encrypted in etcd.
    pub encryption: &'static str,
}

/// An authority without its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuthoritySummary {
    /// Its name in the file: `etcd`, `k8s`, `k8saggregator`, `os`.
    pub name: &'static str,
    /// Its subject, such as `O=talos`; empty for the aggregator's.
    pub subject: String,
    /// `Ed25519`, `ECDSA P-256`, `ECDSA P-384` or, with its size, `RSA 2048`.
    pub key: String,
    /// SHA-256 of the certificate in hex.
    pub fingerprint: String,
    /// Since when it is valid.
    pub begins: Timestamp,
    /// When it ends.
    pub ends: Timestamp,
}

/// A key without what is private about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeySummary {
    /// `RSA 4096`, `ECDSA P-256` or `ECDSA P-384`.
    pub key: String,
    /// SHA-256 of the public key (SubjectPublicKeyInfo) in hex.
    pub fingerprint: String,
}

impl SecretsBundle {
    /// Everything about the bundle that is no secret.
    pub fn summary(&self) -> Result<BundleSummary> {
        let mut authorities = Vec::new();
        for (name, pair) in self.authorities() {
            let authority = pair.authority()?;
            let certificate = authority.certificate();
            let parsed = pki::parse(certificate)?;
            let at = |second| Timestamp::from_second(second).map_err(|_| Error::Lifetime);
            authorities.push(AuthoritySummary {
                name,
                subject: parsed.subject().to_string(),
                key: authority.key().name(),
                fingerprint: hex(&Sha256::digest(certificate)),
                begins: at(parsed.validity().not_before.timestamp())?,
                ends: at(parsed.validity().not_after.timestamp())?,
            });
        }
        Ok(BundleSummary {
            cluster_id: self.cluster_id.clone(),
            authorities,
            service_account: service_account(self.k8s_service_account.expose())?,
            encryption: match self.encryption {
                EncryptionSecret::Secretbox(_) => "secretbox",
                EncryptionSecret::AesCbc(_) => "aescbc",
            },
        })
    }
}

fn service_account(text: &str) -> Result<KeySummary> {
    let (key, public) = service_account_key(text)?;
    Ok(KeySummary { key: key.name(), fingerprint: hex(&Sha256::digest(public)) })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use crate::secrets::tests::{now, test_bundle};

    #[test]
    fn a_summary_tells_what_is_there_and_no_secret() {
        let bundle = test_bundle();
        let summary = bundle.summary().unwrap();
        let of = |name: &str| summary.authorities.iter().find(|found| found.name == name).unwrap();
        assert_eq!((of("os").subject.as_str(), of("os").key.as_str()), ("O=talos", "Ed25519"));
        assert_eq!((of("k8s").subject.as_str(), of("k8s").key.as_str()), ("O=kubernetes", "ECDSA P-256"));
        assert_eq!(of("k8saggregator").subject, "");
        assert_eq!(of("etcd").begins, now());
        assert_eq!((of("etcd").ends.as_second() - now().as_second()) / 3600, 87_600);
        assert_eq!(of("etcd").fingerprint.len(), 64);
        assert!(summary.service_account.key.starts_with("RSA "));
        assert_eq!(summary.encryption, "secretbox");
        let shown = format!("{summary:?}");
        for secret in [&bundle.cluster_secret, &bundle.trustd_token, &bundle.bootstrap_token] {
            assert!(!shown.contains(secret.expose()));
        }
    }
}
