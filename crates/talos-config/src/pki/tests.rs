use std::sync::{Arc, OnceLock};

use p256::pkcs8::EncodePrivateKey as _;
use rand::{SeedableRng as _, rngs::StdRng};
use rsa::pkcs1::EncodeRsaPrivateKey as _;
use rustls::{RootCertStore, server::WebPkiClientVerifier};
use rustls_pki_types::UnixTime;

use super::*;
use crate::secrets::tests::now;

/// An authority as an older PKI has it.
pub(crate) struct Old {
    /// As `secrets show` names the key.
    pub(crate) name: &'static str,
    /// How what it signs is signed.
    signature: &'static str,
    pub(crate) crt: String,
    pub(crate) key: String,
}

fn certified(key: &PrivateKey, subject: &[(DnType, &str)]) -> String {
    let mut params =
        base_params(&mut StdRng::seed_from_u64(1), now(), now() + SignedDuration::from_hours(24));
    let params = params.as_mut().unwrap();
    for (kind, text) in subject {
        params.distinguished_name.push(kind.clone(), *text);
    }
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign];
    pem::encode("CERTIFICATE", params.self_signed(key).unwrap().der())
}

/// What a P-384 key looks like in SEC1 as Go and OpenSSL write it, from PKCS #8.
fn p384_sec1(pkcs8: &[u8]) -> Vec<u8> {
    let key = p256::pkcs8::PrivateKeyInfo::try_from(pkcs8).unwrap().private_key;
    let (private, public) = (&key[8..56], &key[key.len() - 97..]);
    let mut der = vec![0x30, 0x81, 0xa4, 2, 1, 1, 4, 0x30];
    der.extend_from_slice(private);
    der.extend_from_slice(&[0xa0, 7, 6, 5, 0x2b, 0x81, 4, 0, 0x22, 0xa1, 0x64, 3, 0x62, 0]);
    der.extend_from_slice(public);
    der
}

/// One authority for every kind and encoding of a key; two calls give different keys.
fn made(seed: u64) -> Vec<Old> {
    let rng = &mut StdRng::seed_from_u64(seed);
    let rsa = daedal_keys::new_rsa(rng, 2048).unwrap();
    let p384 = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap().serialize_der();
    let p256 = p256::SecretKey::random(rng);
    let generic = |der: &[u8]| pem::encode("PRIVATE KEY", der);
    let (by_rsa, by_p384) = ("1.2.840.113549.1.1.11", "1.2.840.10045.4.3.3");
    let (by_p256, by_ed25519) = ("1.2.840.10045.4.3.2", "1.3.101.112");
    let ed25519 = PrivateKey::generate(KeyKind::Ed25519, rng).to_pem().expose().to_owned();
    [
        ("RSA 2048", by_rsa, pem::encode("RSA PRIVATE KEY", rsa.to_pkcs1_der().unwrap().as_bytes())),
        ("RSA 2048", by_rsa, generic(rsa.to_pkcs8_der().unwrap().as_bytes())),
        ("ECDSA P-384", by_p384, pem::encode("EC PRIVATE KEY", &p384_sec1(&p384))),
        ("ECDSA P-384", by_p384, generic(&p384)),
        ("ECDSA P-256", by_p256, PrivateKey::generate(KeyKind::P256, rng).to_pem().expose().to_owned()),
        ("ECDSA P-256", by_p256, generic(p256.to_pkcs8_der().unwrap().as_bytes())),
        ("Ed25519", by_ed25519, ed25519.replace("ED25519 ", "")),
        ("Ed25519", by_ed25519, ed25519),
    ]
    .map(|(name, signature, key)| {
        let crt = certified(&PrivateKey::from_pem(&key).unwrap(), &[(DnType::CommonName, "kubernetes")]);
        Old { name, signature, crt, key }
    })
    .into()
}

pub(crate) fn old_authorities() -> &'static [Old] {
    static MADE: OnceLock<Vec<Old>> = OnceLock::new();
    MADE.get_or_init(|| made(1))
}

fn leaf() -> Leaf {
    Leaf {
        common_name: Some("admin".into()),
        organization: Some("system:masters".into()),
        names: Vec::new(),
        usage: Usage::KubernetesClient,
        not_before: now(),
        not_after: now() + SignedDuration::from_hours(1),
    }
}

#[test]
fn what_every_kind_of_authority_issues_is_taken_by_tls() {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    for old in old_authorities() {
        let authority = CertificateAuthority::from_pem(&old.crt, &old.key).unwrap();
        assert_eq!(authority.key().name(), old.name);
        let identity = authority.issue(&leaf(), &mut StdRng::seed_from_u64(2)).unwrap();
        let issued = certificate_from_pem(&identity.certificate).unwrap();
        let parsed = parse(&issued).unwrap();
        assert_eq!(parsed.signature_algorithm.algorithm.to_id_string(), old.signature, "{}", old.name);
        let mut roots = RootCertStore::empty();
        roots.add(authority.certificate().clone()).unwrap();
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build().unwrap();
        let at = UnixTime::since_unix_epoch(since_epoch(now()).unwrap());
        verifier.verify_client_cert(&issued, &[], at).unwrap_or_else(|error| panic!("{}: {error}", old.name));
        // Both the issued key and one like the authority's can be shown in a handshake.
        for key in [&identity.key, authority.key()] {
            provider.key_provider.load_private_key(key.to_der()).unwrap();
        }
    }
}

#[test]
fn keys_are_written_as_they_were_read_or_as_talos_writes_them() {
    for old in old_authorities() {
        let key = PrivateKey::from_pem(&old.key).unwrap();
        let written = key.to_pem();
        let again = PrivateKey::from_pem(written.expose()).unwrap();
        assert_eq!(again.public(), key.public(), "{}", old.name);
        assert!(!format!("{key:?}").contains(old.key.lines().nth(1).unwrap()));
        match old.name {
            "Ed25519" => assert!(written.expose().contains("BEGIN ED25519 PRIVATE KEY")),
            "ECDSA P-256" => assert!(written.expose().contains("BEGIN EC PRIVATE KEY")),
            _ => assert_eq!(written.expose(), old.key),
        }
    }
}

#[test]
fn a_pair_that_is_none_is_refused_for_every_kind() {
    for (old, other) in old_authorities().iter().zip(made(2)) {
        let error = CertificateAuthority::from_pem(&old.crt, &other.key).unwrap_err();
        assert!(matches!(&error, Error::Certificate { reason } if reason.contains("another")), "{error}");
    }
    let (rsa, p384) = (&old_authorities()[0], &old_authorities()[2]);
    assert!(CertificateAuthority::from_pem(&rsa.crt, &p384.key).is_err());
}

#[test]
fn what_is_not_supported_is_said_to_be_so_and_what_is_broken_to_be_broken() {
    let sec1 =
        [&[0x30, 0x50, 2, 1, 1, 4, 0x42][..], &[1; 66], &[0xa0, 7, 6, 5, 0x2b, 0x81, 4, 0, 0x23]].concat();
    let head =
        [0x30, 0x68, 2, 1, 0, 0x30, 0x10, 6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1, 6, 5, 0x2b, 0x81, 4, 0];
    let pkcs8 = [&head[..], &[0x23, 4, 0x51], &sec1[..81]].concat();
    let x25519 =
        [&[0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x6e, 4, 0x22, 4, 0x20][..], &[1; 32]].concat();
    let short = daedal_keys::new_rsa(&mut StdRng::seed_from_u64(4), 1024).unwrap();
    let short = pem::encode("RSA PRIVATE KEY", short.to_pkcs1_der().unwrap().as_bytes());
    for (key, words) in [
        (pem::encode("EC PRIVATE KEY", &sec1), "P-521 are not supported"),
        (pem::encode("PRIVATE KEY", &pkcs8), "P-521 are not supported"),
        (pem::encode("PRIVATE KEY", &x25519), "1.3.101.110 are not supported"),
        (short, "1024 bits is not supported"),
        (pem::encode("EC PARAMETERS", &[6, 5, 0x2b, 0x81, 4, 0, 0x22]), "a block `EC PARAMETERS` is none of"),
        (pem::encode("RSA PRIVATE KEY", b"canary"), "malformed"),
        (pem::encode("PRIVATE KEY", b"canary"), "malformed"),
        (pem::encode("EC PRIVATE KEY", b"canary"), "not a P-256 key"),
    ] {
        let error = CertificateAuthority::from_pem(&old_authorities()[0].crt, &key).unwrap_err().to_string();
        assert!(error.contains(words) && !error.contains("canary"), "{words}: {error}");
    }
    // A P-384 key whose halves are of different keys.
    let [one, other] = [1, 2].map(|seed| pem::decode(&made(seed)[3].key).unwrap().1.to_vec());
    let mixed = [&one[..one.len() - 97], &other[other.len() - 97..]].concat();
    for key in [pem::encode("PRIVATE KEY", &mixed), pem::encode("EC PRIVATE KEY", &p384_sec1(&mixed))] {
        let error = PrivateKey::from_pem(&key).unwrap_err().to_string();
        assert!(error.contains("P-384 key is malformed"), "{error}");
    }
}

/// Nobody would find the authority by a name that is not wholly its own.
#[test]
fn nothing_is_issued_under_half_a_name() {
    let key = PrivateKey::generate(KeyKind::P256, &mut StdRng::seed_from_u64(5));
    let twice = DnType::CustomDnType(vec![2, 5, 4, 11]);
    let crt = certified(&key, &[(DnType::OrganizationalUnitName, "one"), (twice, "two")]);
    let authority = CertificateAuthority::from_pem(&crt, key.to_pem().expose()).unwrap();
    let error = authority.issue(&leaf(), &mut StdRng::seed_from_u64(6)).unwrap_err().to_string();
    assert!(error.contains("subject"), "{error}");
}
