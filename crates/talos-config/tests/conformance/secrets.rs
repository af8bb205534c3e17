//! Secrets, talosconfig and configs exchanged with talosctl; and how long each side takes.

use std::{path::Path, process::Command};

use daedal_talos_config::{
    ClusterOptions, EncryptionSecret, Hostname, MachineConfig, NodeOptions, Role, Secret, SecretsBundle,
    Talosconfig,
};
use jiff::Timestamp;
use rand::{SeedableRng, rngs::StdRng};

use crate::peer::{CONTRACTS, Tally, difference, peer};

fn cluster() -> ClusterOptions {
    ClusterOptions::new("c1", "https://10.0.0.20:6443", "v1.12.0", "v1.35.0")
}

#[test]
#[ignore = "needs real peers: cargo xtask conformance"]
fn secrets_are_exchanged_with_talosctl() {
    let Some(talosctl) = peer("talos-v1.12.0", "talosctl") else { return };
    let folder = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let output = Command::new(&talosctl).args(args).current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "talosctl {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();

    run(&["gen", "secrets", "-o", "theirs.yaml"]);
    let theirs = SecretsBundle::from_yaml(&read("theirs.yaml")).unwrap();
    assert_eq!(theirs.to_yaml().expose(), read("theirs.yaml"), "written as talosctl writes it");

    let now = Timestamp::now();
    let begin = std::time::Instant::now();
    let ours = SecretsBundle::generate(&mut rand::rngs::OsRng, now).unwrap();
    println!("a bundle with a 4096-bit service account key took {:?}", begin.elapsed());
    std::fs::write(folder.path().join("ours.yaml"), ours.to_yaml().expose()).unwrap();
    run(&["gen", "config", "c1", "https://10.0.0.20:6443", "--with-secrets", "ours.yaml", "-o", "out"]);
    run(&["validate", "-m", "metal", "-c", "out/controlplane.yaml"]);
    // They signed this client certificate with our authority's key.
    let talosconfig = Talosconfig::from_yaml(&read("out/talosconfig")).unwrap();
    assert_eq!(talosconfig.credentials.ca, ours.os.crt);

    let node = NodeOptions::new(Role::ControlPlane, "node-1");
    let config = MachineConfig::generate(&theirs, &cluster(), &node).unwrap();
    std::fs::write(folder.path().join("ours-cp.yaml"), config.to_yaml().expose()).unwrap();
    run(&["validate", "-m", "cloud", "-c", "ours-cp.yaml"]);

    let rng = &mut StdRng::seed_from_u64(3);
    let credentials = ours
        .client_credentials(
            daedal_talos_config::ApiRole::Admin,
            daedal_talos_config::DEFAULT_LIFETIME,
            rng,
            now,
        )
        .unwrap();
    let file = Talosconfig {
        context: "c1".into(),
        endpoints: vec!["127.0.0.1".into()],
        nodes: Vec::new(),
        credentials,
    };
    std::fs::write(folder.path().join("talosconfig"), file.to_yaml().unwrap().expose()).unwrap();
    let output = Command::new(&talosctl)
        .args(["--talosconfig", "talosconfig", "config", "info"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("os:admin") && text.contains("c1"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// For every contract: their bundle is read and written back byte for byte, ours is generated from, and the secrets come
/// back out of the machine configs that they make.
#[test]
#[ignore = "needs real peers: cargo xtask conformance"]
fn bundles_interchange_for_every_contract() {
    let Some(older) = peer("talos-v1.12.0", "talosctl") else { return };
    let newer = peer("talos-v1.13.0", "talosctl");
    let folder = tempfile::tempdir().unwrap();
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let mut tally = Tally::new("secrets: bundles exchanged with talosctl, both ways, v1.8 to v1.14");
    let ours = crate::peer::bundle();
    std::fs::write(folder.path().join("ours.yaml"), ours.to_yaml().expose()).unwrap();
    for contract in CONTRACTS {
        let minor = contract.minor;
        let version = format!("v1.{minor}");
        // The newest one that there is, but for contracts that an older one is there for.
        let talosctl = newer.as_ref().filter(|_| minor > 12).unwrap_or(&older);
        let run = |args: &[&str]| talosctl_in(talosctl, folder.path(), args);
        run(&["gen", "secrets", "--talos-version", &version, "-o", "theirs.yaml", "--force"]);
        let theirs = SecretsBundle::from_yaml(&read("theirs.yaml")).map(|bundle| bundle.to_yaml());
        tally.case(match &theirs {
            Ok(back) if back.expose() == read("theirs.yaml") => None,
            Ok(_) => Some(format!("{version}: written back differently")),
            Err(error) => Some(format!("{version}: {error}")),
        });
        for (bundle, file) in [
            (ours.clone(), "ours.yaml"),
            (SecretsBundle::from_yaml(&read("theirs.yaml")).unwrap(), "theirs.yaml"),
        ] {
            // No talosctl writes a newer contract than its own; those come from their libraries.
            let made = if minor <= 12 || (minor == 13 && newer.is_some()) {
                let args = ["gen", "config", "c1", "https://10.0.0.20:6443", "--with-secrets", file];
                let rest = ["--talos-version", &version, "--kubernetes-version", contract.kubernetes];
                run(&[&args[..], &rest[..], &["-o", "out", "--force"]].concat());
                read("out/controlplane.yaml")
            } else {
                let Some(mut tool) = crate::peer::ConfigTool::start(contract.library) else { return };
                let request = serde_json::json!({"generate": {
                    "cluster": "c1", "endpoint": "https://10.0.0.20:6443", "type": "controlplane",
                    "contract": version, "kubernetes": contract.kubernetes.trim_start_matches('v'),
                    "secrets": bundle.to_yaml().expose(), "disk": "/dev/sda",
                }});
                tool.ask(&request).unwrap().to_yaml().expose().to_owned()
            };
            let config = MachineConfig::from_yaml(&made).unwrap();
            tally.case(match SecretsBundle::from_machine_config(&config) {
                Ok(back) if back == bundle => None,
                Ok(_) => Some(format!("{version}: other secrets came out of the config of {file}")),
                Err(error) => Some(format!("{version} {file}: {error}")),
            });
        }
    }
    tally.done();
}

/// Bundles of clusters born before Talos 1.3. Contracts before 1.14 have Talos' generator leave their key out, so that
/// Kubernetes could not read its own Secrets any more: ours puts it where Talos reads it, and nothing else differs.
#[test]
#[ignore = "needs real peers: cargo xtask conformance"]
fn bundles_with_the_older_key_keep_it() {
    let mut tally =
        Tally::new("secrets: bundles with an AES-CBC key: generated from, and taken back, v1.8 to v1.14");
    let mut bundle = crate::peer::bundle().clone();
    let key = "bm90aGluZ25vdGhpbmdub3RoaW5nbm90aGluZ25vdGg=";
    bundle.encryption = EncryptionSecret::AesCbc(Secret::new(key));
    assert_eq!(SecretsBundle::from_yaml(bundle.to_yaml().expose()).unwrap(), bundle);
    for contract in CONTRACTS {
        let Some(mut tool) = crate::peer::ConfigTool::start(contract.library) else { return };
        let version = format!("v1.{}", contract.minor);
        for (role, name) in [(Role::ControlPlane, "controlplane"), (Role::Worker, "worker")] {
            let mut generated = serde_json::json!({"generate": {
                "cluster": "c1", "endpoint": "https://10.0.0.20:6443", "type": name, "contract": version,
                "kubernetes": contract.kubernetes.trim_start_matches('v'),
                "secrets": bundle.to_yaml().expose(), "disk": "/dev/sda",
            }, "validate": {"mode": "metal"}});
            let left_out = contract.minor < 14 && role == Role::ControlPlane;
            if left_out {
                let theirs = tool.ask(&generated).unwrap();
                assert!(
                    !theirs.to_yaml().expose().contains(key),
                    "{version}: the real generator writes it now"
                );
                let patch = format!("cluster: {{aescbcEncryptionSecret: {key}}}");
                generated["patches"] = serde_json::json!([patch]);
            }
            let theirs = tool.ask(&generated).unwrap();
            let talos = format!("{version}.0");
            let cluster = ClusterOptions::new("c1", "https://10.0.0.20:6443", talos, contract.kubernetes);
            let mut node = NodeOptions::new(role, Hostname::Stable);
            node.install.disk = Some("/dev/sda".into());
            let ours = MachineConfig::generate(&bundle, &cluster, &node).unwrap();
            tally.case(difference(&ours, &theirs).map(|at| format!("{version} {name}: {at}")));
            if role == Role::ControlPlane {
                for config in [&ours, &theirs] {
                    tally.case(match SecretsBundle::from_machine_config(config) {
                        Ok(back) if back == bundle => None,
                        Ok(_) => Some(format!("{version}: other secrets came out of the config")),
                        Err(error) => Some(format!("{version}: {error}")),
                    });
                }
            }
        }
    }
    tally.done();
}

fn talosctl_in(talosctl: &Path, folder: &Path, args: &[&str]) {
    let output = Command::new(talosctl).args(args).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "talosctl {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}
