//! Bundles: what is in them, how they are written and read, and what is refused.

use std::sync::OnceLock;

use rand::{SeedableRng, rngs::StdRng};

use super::*;
use crate::{
    config::{ClusterOptions, Contract, MachineConfig, NodeOptions, Role},
    pki::tests::old_authorities,
};

/// 2026-01-01T00:00:00Z
pub(crate) fn now() -> Timestamp {
    Timestamp::from_second(1_767_225_600).unwrap()
}

fn small_bundle() -> SecretsBundle {
    SecretsBundle::generate_with_key_size(&mut StdRng::seed_from_u64(7), now(), 512).unwrap()
}

pub(crate) fn test_bundle() -> SecretsBundle {
    static BUNDLE: OnceLock<SecretsBundle> = OnceLock::new();
    BUNDLE.get_or_init(small_bundle).clone()
}

#[test]
fn same_seed_same_bundle_and_it_survives_the_file() {
    let bundle = test_bundle();
    assert_eq!(bundle, small_bundle());
    let text = bundle.to_yaml();
    assert_eq!(SecretsBundle::from_yaml(text.expose()).unwrap(), bundle);
}

#[test]
fn labels_and_encodings_are_those_talos_reads() {
    let bundle = test_bundle();
    assert!(bundle.os.key.expose().starts_with("-----BEGIN ED25519 PRIVATE KEY-----\n"));
    assert!(bundle.k8s.key.expose().starts_with("-----BEGIN EC PRIVATE KEY-----\n"));
    assert!(bundle.k8s_service_account.expose().starts_with("-----BEGIN RSA PRIVATE KEY-----\n"));
    let der = |text: &str| pem::decode(text).unwrap().1;
    assert_eq!(der(bundle.os.key.expose()).len(), 48, "PKCS#8 version 1");
    assert_eq!(der(bundle.k8s.key.expose()).len(), 121, "SEC1 with curve and public key");
    assert_eq!(bundle.cluster_id.len(), 44);
}

#[test]
fn authorities_say_what_talosctl_makes_them_say() {
    let bundle = test_bundle();
    for (name, subject, pair) in [
        ("etcd", "O=etcd", &bundle.etcd),
        ("k8s", "O=kubernetes", &bundle.k8s),
        ("k8saggregator", "", &bundle.k8s_aggregator),
        ("os", "O=talos", &bundle.os),
    ] {
        let der = crate::pki::certificate_from_pem(&pair.crt).unwrap();
        let parsed = crate::pki::parse(&der).unwrap();
        assert_eq!(parsed.subject().to_string(), subject, "{name}");
        let usage = parsed.key_usage().unwrap().unwrap();
        assert!(usage.critical && usage.value.digital_signature() && usage.value.key_cert_sign());
        assert!(!usage.value.crl_sign());
        let extended = parsed.extended_key_usage().unwrap().unwrap().value;
        assert!(extended.server_auth && extended.client_auth);
        let validity = parsed.validity();
        assert_eq!(validity.not_before.timestamp(), now().as_second());
        assert_eq!(validity.not_after.timestamp() - validity.not_before.timestamp(), 87_600 * 3600);
    }
}

#[test]
fn broken_fields_are_named() {
    let good = test_bundle().to_yaml();
    let good = good.expose();
    let line = |prefix: &str| good.lines().find(|line| line.trim_start().starts_with(prefix)).unwrap();
    let cases = [
        (good.replace(line("bootstraptoken"), "    bootstraptoken: canary"), "secrets.bootstraptoken"),
        (good.replace(line("secret:"), "    secret: canary"), "cluster.secret"),
        (good.replace("trustdinfo:", "trustd:"), "trustdinfo"),
        (good.replace("    os:", "    oss:"), "certs.os"),
        (good.replace(line("crt:"), "        crt: canary!"), "certs.etcd.crt"),
        (good.replace(line("crt:"), "        crt: Y2FuYXJ5"), "certs.etcd.crt"),
        (good.replace(line("secretbox"), ""), "secrets.secretboxencryptionsecret"),
        (
            good.replace(line("secretbox"), &format!("{}\n    aescbcencryptionsecret: x", line("secretbox"))),
            "secrets.aescbcencryptionsecret",
        ),
        ("cluster: [canary".into(), "line"),
    ];
    for (text, field) in cases {
        let error = SecretsBundle::from_yaml(&text).unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(error.to_string().contains(field), "{field}: {shown}");
        assert!(!shown.contains("canary"), "{shown}");
    }
}

#[test]
fn a_key_of_another_authority_is_noticed() {
    let mut bundle = test_bundle();
    bundle.k8s.key = bundle.etcd.key.clone();
    let error = bundle.validate().unwrap_err().to_string();
    assert!(error.contains("certs.k8s.crt") && error.contains("another"), "{error}");
}

/// `talosctl gen secrets --from-kubernetes-pki` takes the authorities of an older cluster, whatever their keys are.
#[test]
fn authorities_of_an_older_pki_stay_what_they_are() {
    for old in old_authorities() {
        let mut bundle = test_bundle();
        let pair = CertificateAndKey { crt: old.crt.clone(), key: Secret::new(old.key.as_str()) };
        for place in [&mut bundle.etcd, &mut bundle.k8s, &mut bundle.k8s_aggregator, &mut bundle.os] {
            *place = pair.clone();
        }
        let read = SecretsBundle::from_yaml(bundle.to_yaml().expose()).unwrap();
        assert_eq!(read, bundle, "{}", old.name);
        assert_eq!(read.to_yaml(), bundle.to_yaml());
        for contract in Contract::all().iter().filter(|contract| contract.talos_minor > 10) {
            let talos = format!("v1.{}.0", contract.talos_minor);
            let kubernetes = format!("v1.{}.0", contract.kubernetes_minors.end());
            let cluster = ClusterOptions::new("home", "https://10.0.0.20:6443", talos, kubernetes);
            let node = NodeOptions::new(Role::ControlPlane, "cp-1");
            let config = MachineConfig::generate(&bundle, &cluster, &node).unwrap();
            assert_eq!(SecretsBundle::from_machine_config(&config).unwrap(), bundle, "{}", old.name);
        }
        let summary = bundle.summary().unwrap();
        assert!(summary.authorities.iter().all(|authority| authority.key == old.name), "{summary:?}");

        let mut mixed = bundle;
        mixed.etcd.key = test_bundle().etcd.key;
        let error = mixed.validate().unwrap_err().to_string();
        assert!(error.contains("certs.etcd.crt") && error.contains("another"), "{error}");
    }
}

#[test]
fn tokens_are_signed_by_rsa_and_elliptic_curves() {
    for old in old_authorities() {
        let mut bundle = test_bundle();
        bundle.k8s_service_account = Secret::new(old.key.as_str());
        if old.name == "Ed25519" {
            let error = bundle.validate().unwrap_err().to_string();
            assert!(error.contains("certs.k8sserviceaccount.key"), "{error}");
        } else {
            let read = SecretsBundle::from_yaml(bundle.to_yaml().expose()).unwrap();
            assert_eq!(read.summary().unwrap().service_account.key, old.name);
        }
    }
}

#[test]
fn keys_that_a_release_cannot_use_are_refused_for_it() {
    let made = |bundle: &SecretsBundle, talos: &str| {
        let cluster = ClusterOptions::new("home", "https://10.0.0.20:6443", talos, "v1.33.0");
        MachineConfig::generate(bundle, &cluster, &NodeOptions::new(Role::Worker, "worker-1"))
            .map_err(|error| error.to_string())
    };
    for old in old_authorities() {
        let pair = CertificateAndKey { crt: old.crt.clone(), key: Secret::new(old.key.as_str()) };
        let in_pkcs8 = old.key.contains("BEGIN PRIVATE KEY");
        let mut bundle = test_bundle();
        bundle.k8s = pair.clone();
        made(&bundle, "v1.10.3").unwrap();
        assert_eq!(made(&bundle, "v1.10.2").is_err(), in_pkcs8, "{}", old.name);
        let mut bundle = test_bundle();
        bundle.os = pair;
        made(&bundle, "v1.10.3").unwrap();
        let refused = made(&bundle, "v1.10.2").err();
        assert_eq!(refused.is_some(), in_pkcs8 || old.name != "Ed25519", "{}", old.name);
        assert!(refused.is_none_or(|error| error.contains("certs.os.key") && error.contains("v1.10.3")));
    }
}

#[test]
fn tokens_that_look_like_numbers_stay_text() {
    let mut bundle = test_bundle();
    bundle.trustd_token = Secret::new("123456.1234567890123456");
    bundle.bootstrap_token = Secret::new("000012.12345678901234e6");
    assert_eq!(SecretsBundle::from_yaml(bundle.to_yaml().expose()).unwrap(), bundle);
}

#[test]
fn nothing_secret_is_shown() {
    let bundle = test_bundle();
    let shown = format!("{bundle:?}");
    for secret in [&bundle.cluster_secret, &bundle.trustd_token, &bundle.os.key, &bundle.k8s_service_account]
    {
        assert!(!shown.contains(secret.expose().lines().nth(1).unwrap_or(secret.expose())));
    }
}
