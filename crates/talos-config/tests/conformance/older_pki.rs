//! Bundles with the authorities of a cluster that another tool made, by `talosctl gen secrets --from-kubernetes-pki`.

use std::{fs, path::Path, process::Command};

use daedal_talos_config::{
    CertificateAndKey, ClusterOptions, Hostname, MachineConfig, NodeOptions, Role, Secret, SecretsBundle,
    Talosconfig, pki::PrivateKey,
};
use p256::pkcs8::{EncodePrivateKey as _, LineEnding, PrivateKeyInfo};
use rand::{SeedableRng, rngs::StdRng};
use rsa::pkcs1::EncodeRsaPrivateKey as _;
use serde_json::json;

use crate::peer::{CONTRACTS, ConfigTool, Tally, difference, peer};

/// A key of an authority in PEM.
fn keys() -> [(&'static str, String); 4] {
    let rsa = rsa::RsaPrivateKey::new(&mut StdRng::seed_from_u64(1), 2048).unwrap();
    let p384 = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
    [
        ("RSA 2048", rsa.to_pkcs1_pem(LineEnding::LF).unwrap().to_string()),
        ("RSA 2048", rsa.to_pkcs8_pem(LineEnding::LF).unwrap().to_string()),
        ("ECDSA P-384", sec1(p384.serialized_der())),
        ("ECDSA P-384", p384.serialize_pem()),
    ]
}

/// A P-384 key as kubeadm writes it, from PKCS #8.
fn sec1(pkcs8: &[u8]) -> String {
    use base64::Engine as _;
    let key = PrivateKeyInfo::try_from(pkcs8).unwrap().private_key;
    let (private, public) = (&key[8..56], &key[key.len() - 97..]);
    let mut der = vec![0x30, 0x81, 0xa4, 2, 1, 1, 4, 0x30];
    der.extend_from_slice(private);
    der.extend_from_slice(&[0xa0, 7, 6, 5, 0x2b, 0x81, 4, 0, 0x22, 0xa1, 0x64, 3, 0x62, 0]);
    der.extend_from_slice(public);
    let body = base64::engine::general_purpose::STANDARD.encode(der);
    let lines: Vec<&str> =
        body.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN EC PRIVATE KEY-----\n{}\n-----END EC PRIVATE KEY-----\n", lines.join("\n"))
}

fn certificate(key: &str) -> String {
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::CommonName, "kubernetes");
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.key_usages = vec![rcgen::KeyUsagePurpose::DigitalSignature, rcgen::KeyUsagePurpose::KeyCertSign];
    params.self_signed(&PrivateKey::from_pem(key).unwrap()).unwrap().pem()
}

/// `/etc/kubernetes/pki` with one key for everything.
fn write_pki(folder: &Path, crt: &str, key: &str) {
    fs::create_dir_all(folder.join("etcd")).unwrap();
    for name in ["ca", "etcd/ca", "front-proxy-ca"] {
        fs::write(folder.join(format!("{name}.crt")), crt).unwrap();
        fs::write(folder.join(format!("{name}.key")), key).unwrap();
    }
    fs::write(folder.join("sa.key"), key).unwrap();
}

/// Theirs is read and written back byte for byte; the configs that both generate from it are the same and valid, and the
/// secrets come back out of them; what they sign with such an authority of the node API is ours to use.
#[test]
#[ignore = "needs real peers: cargo xtask conformance"]
fn bundles_of_an_older_pki() {
    let (Some(older), Some(newer)) = (peer("talos-v1.12.0", "talosctl"), peer("talos-v1.13.0", "talosctl"))
    else {
        return;
    };
    let mut tally =
        Tally::new("secrets: bundles of an older PKI (RSA, P-384; PKCS #1, SEC1, PKCS #8), v1.8 to v1.14");
    let folder = tempfile::tempdir().unwrap();
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    for (kind, key) in keys() {
        let is_generic = key.contains("BEGIN PRIVATE KEY");
        let crt = certificate(&key);
        write_pki(&folder.path().join("pki"), &crt, &key);
        for talosctl in [&older, &newer] {
            let run = |args: &[&str]| {
                let output = Command::new(talosctl).args(args).current_dir(folder.path()).output().unwrap();
                let words = String::from_utf8_lossy(&output.stderr).into_owned();
                assert!(output.status.success(), "talosctl {args:?}: {words}");
            };
            let token = ["--kubernetes-bootstrap-token", "abcdef.0123456789abcdef"];
            let from = ["gen", "secrets", "--from-kubernetes-pki", "pki", "-o", "theirs.yaml", "--force"];
            run(&[&from[..], &token[..]].concat());
            let back = SecretsBundle::from_yaml(&read("theirs.yaml")).map(|bundle| bundle.to_yaml());
            tally.case(match back {
                Ok(back) if back.expose() == read("theirs.yaml") => None,
                Ok(_) => Some(format!("{kind}: written back differently")),
                Err(error) => Some(format!("{kind}: {error}")),
            });
            let mut bundle = SecretsBundle::from_yaml(&read("theirs.yaml")).unwrap();
            bundle.os = CertificateAndKey { crt: crt.clone(), key: Secret::new(key.as_str()) };
            fs::write(folder.path().join("os.yaml"), bundle.to_yaml().expose()).unwrap();
            let with = ["gen", "config", "c1", "https://10.0.0.20:6443", "--with-secrets", "os.yaml"];
            run(&[&with[..], &["-o", "out", "--force"]].concat());
            let minted = Talosconfig::from_yaml(&read("out/talosconfig")).unwrap();
            let name = PrivateKey::from_pem(minted.credentials.key.expose()).map(|key| key.name());
            let expected = if kind.starts_with("RSA") { "RSA 4096" } else { "ECDSA P-256" };
            tally.case(
                (!name.as_deref().is_ok_and(|name| name == expected)).then(|| format!("{kind}: {name:?}")),
            );
        }
        let bundle = SecretsBundle::from_yaml(&read("theirs.yaml")).unwrap();
        let with_os = SecretsBundle::from_yaml(&read("os.yaml")).unwrap();
        for contract in CONTRACTS {
            let Some(mut tool) = ConfigTool::start(contract.library) else { return };
            let version = format!("v1.{}", contract.minor);
            let cases =
                [(&bundle, Role::ControlPlane), (&bundle, Role::Worker), (&with_os, Role::ControlPlane)];
            for (bundle, role) in cases {
                let name = if role == Role::Worker { "worker" } else { "controlplane" };
                let theirs = tool.ask(&json!({"generate": {
                    "cluster": "c1", "endpoint": "https://10.0.0.20:6443", "type": name, "contract": version,
                    "kubernetes": contract.kubernetes.trim_start_matches('v'),
                    "secrets": bundle.to_yaml().expose(), "disk": "/dev/sda",
                }, "validate": {"mode": "metal"}}));
                let theirs = theirs.unwrap();
                let talos = format!("{version}.0");
                let cluster = ClusterOptions::new("c1", "https://10.0.0.20:6443", talos, contract.kubernetes);
                let mut node = NodeOptions::new(role, Hostname::Stable);
                node.install.disk = Some("/dev/sda".into());
                let ours = MachineConfig::generate(bundle, &cluster, &node);
                // Their generator writes what nodes of such versions cannot use.
                if contract.minor <= 10 && (is_generic || bundle == &with_os) {
                    tally.case(ours.is_ok().then(|| format!("{version} {kind}: not refused")));
                    continue;
                }
                let ours = ours.unwrap();
                tally.case(difference(&ours, &theirs).map(|at| format!("{version} {kind} {name}: {at}")));
                let valid = tool.ask(&json!({
                    "config": ours.to_yaml().expose(), "validate": {"mode": "metal"},
                }));
                tally.case(valid.err().map(|error| format!("{version} {kind} {name}: {error}")));
                if role == Role::ControlPlane {
                    tally.case(match SecretsBundle::from_machine_config(&theirs) {
                        Ok(back) if &back == bundle => None,
                        Ok(_) => Some(format!("{version} {kind}: other secrets came out of the config")),
                        Err(error) => Some(format!("{version} {kind}: {error}")),
                    });
                }
            }
        }
    }
    tally.done();
}
