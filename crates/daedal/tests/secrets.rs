//! `daedal secrets`, through the command line: bring in, look at, take out, mint.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "helpers of tests")]

mod common;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use base64::Engine as _;
use common::{BESIDE, Changed, Lab, SMALL, good, text};
use daedal_talos::client::{ApplyMode, Client, ConnectOptions};
use daedal_talos::config::{MachineConfig, Patch};
use daedal_talos::{ApiRole, ClientCredentials, DEFAULT_LIFETIME, SecretsBundle, Talosconfig};
use rand::SeedableRng as _;
use rand::rngs::StdRng;

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

fn is_private(path: &Path) -> bool {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o077 == 0
}

/// E6, F8, M22: a bundle made elsewhere becomes the cluster's, comes out as it went in, and is never exchanged for another
/// under a running cluster; a lost one comes back from a control plane's machine config.
#[test]
fn secrets_are_imported_shown_exported_and_never_exchanged() {
    let lab = Lab::new();
    let home = Changed::new("home", SMALL);
    let files = tempfile::tempdir().unwrap();
    let at = |name: &str| files.path().join(name).display().to_string();

    // A bundle of another cluster, made by the tool itself.
    let other = Changed::new("home", &[SMALL, &[("name: home ", "name: other ")]].concat());
    good(&other.run(&lab, &["apply", "--yes"]));
    good(&other.run(&lab, &["secrets", "export", "--to", &at("bundle.yaml")]));
    good(&other.run(&lab, &["destroy", "--confirm", "other"]));
    assert!(is_private(&files.path().join("bundle.yaml")));

    let nothing = home.run(&lab, &["secrets", "show"]);
    assert_eq!(nothing.status.code(), Some(66), "{}", text(&nothing.stderr));
    assert!(text(&nothing.stderr).contains("secrets import"), "{}", text(&nothing.stderr));

    // Broken bundles are refused with the field's name, and nothing is kept.
    let whole = read(&files.path().join("bundle.yaml"));
    let line = |start: &str| whole.lines().find(|line| line.trim_start().starts_with(start)).unwrap();
    let keys: Vec<&str> = whole.lines().filter(|line| line.starts_with("        key: ")).collect();
    let relabelled = {
        use base64::{Engine as _, engine::general_purpose::STANDARD};
        let encoded = keys[4].trim().strip_prefix("key: ").unwrap();
        let pem = String::from_utf8(STANDARD.decode(encoded).unwrap()).unwrap();
        format!("        key: {}", STANDARD.encode(pem.replace("ED25519 PRIVATE KEY", "PRIVATE KEY")))
    };
    for (broken, field) in [
        (whole.replace(keys[0], ""), "certs.etcd.key"),
        (whole.replace(keys[1], keys[0]), "certs.k8s.crt"),
        (whole.replace(keys[4], &relabelled), "certs.os.key"),
        (whole.replace(line("bootstraptoken"), "    bootstraptoken: abc"), "secrets.bootstraptoken"),
        (whole.replace("trustdinfo:", "trustd:"), "trustdinfo"),
    ] {
        assert_ne!(broken, whole);
        std::fs::write(at("broken.yaml"), broken).unwrap();
        let run = home.run(&lab, &["secrets", "import", &at("broken.yaml")]);
        assert_eq!(run.status.code(), Some(65), "{field}");
        assert!(text(&run.stderr).contains(&format!("`{field}`")), "{field}: {}", text(&run.stderr));
    }

    assert!(good(&home.run(&lab, &["secrets", "import", &at("bundle.yaml")])).contains("Imported"));
    assert!(good(&home.run(&lab, &["secrets", "import", &at("bundle.yaml")])).contains("already"));
    assert_eq!(good(&home.run(&lab, &["secrets", "export", "--stdout"])), whole);
    let shown = good(&home.run(&lab, &["secrets", "show"]));
    for word in ["O=talos", "O=kubernetes", "O=etcd", "Ed25519", "ECDSA P-256", "RSA 4096", "secretbox"] {
        assert!(shown.contains(word), "{word}: {shown}");
    }
    good(&home.run(&lab, &["apply", "--yes"]));

    // The store is lost: the bundle comes back out of a control plane's config; a worker's does not hold it.
    let empty = at("empty");
    let node_config = lab.dir().join("clusters/home/outputs/nodes/cp-1.yaml").display().to_string();
    let worker_config = lab.dir().join("clusters/home/outputs/nodes/worker-1.yaml").display().to_string();
    let run = home.run(&lab, &["secrets", "import", &worker_config, "--state", &empty]);
    assert_eq!(run.status.code(), Some(65));
    assert!(text(&run.stderr).contains("machine.type"), "{}", text(&run.stderr));
    good(&home.run(&lab, &["secrets", "import", &node_config, "--state", &empty]));
    assert_eq!(good(&home.run(&lab, &["secrets", "export", "--stdout", "--state", &empty])), whole);
}

/// A cluster that runs on its own secrets does not take others, even where its store is lost.
#[test]
fn a_running_cluster_refuses_other_secrets() {
    let lab = Lab::new();
    let home = Changed::new("home", SMALL);
    let work = Changed::new("home", &[SMALL, BESIDE].concat());
    good(&home.run(&lab, &["apply", "--yes"]));
    good(&work.run(&lab, &["apply", "--yes"]));
    let files = tempfile::tempdir().unwrap();
    let theirs = files.path().join("work.yaml").display().to_string();
    good(&work.run(&lab, &["secrets", "export", "--to", &theirs]));
    let run = home.run(&lab, &["secrets", "import", &theirs]);
    assert_eq!(run.status.code(), Some(1), "other secrets are kept");
    assert!(text(&run.stderr).contains("never overwritten"), "{}", text(&run.stderr));
    let lost = files.path().join("lost").display().to_string();
    let run = home.run(&lab, &["secrets", "import", &theirs, "--state", &lost]);
    assert_eq!(run.status.code(), Some(1), "the nodes run on others");
    assert!(
        text(&run.stderr).contains("cp-1") && text(&run.stderr).contains("other secrets"),
        "{}",
        text(&run.stderr)
    );
    assert_eq!(
        home.run(&lab, &["secrets", "show", "--state", &lost]).status.code(),
        Some(66),
        "nothing kept"
    );
}

/// Gives a node a patched config at once, as whoever holds the credentials.
async fn patch(lab: &Lab, address: &str, credentials: &ClientCredentials, patches: &[&str]) {
    let status =
        common::command(["lab", "status", "-o", "json", "--lab-dir"]).arg(lab.dir()).output().unwrap();
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    let proxy = daedal_dial::Proxy::parse(&format!("http://{}", status["proxy"].as_str().unwrap())).unwrap();
    let target = daedal_dial::Target::new(address, 50000);
    let options = ConnectOptions::default();
    let node = Client::connect(std::sync::Arc::new(proxy), target, credentials, &options).await.unwrap();
    let running = node.machine_config().await.unwrap().unwrap();
    let mut config = MachineConfig::from_yaml(running.expose()).unwrap();
    for patch in patches {
        config.apply_patch(&Patch::from_yaml(patch).unwrap()).unwrap();
    }
    node.apply_configuration(&config.to_yaml(), ApplyMode::NoReboot, false).await.unwrap();
}

/// An authority is changed on running nodes by the steps of the manual; the kept secrets follow when every node has changed, and
/// not before.
#[tokio::test]
async fn an_authority_is_changed_and_the_kept_secrets_follow() {
    let lab = Lab::new();
    let home = Changed::new("home", SMALL);
    good(&home.run(&lab, &["apply", "--yes"]));
    let nodes = [("10.0.0.11", true), ("10.0.0.21", false)];
    let outputs = lab.dir().join("clusters/home/outputs");
    let old_access = Talosconfig::from_yaml(&read(&outputs.join("talosconfig"))).unwrap().credentials;
    let old = good(&home.run(&lab, &["secrets", "export", "--stdout"]));
    let mut bundle = SecretsBundle::from_yaml(&old).unwrap();
    let (rng, now) = (&mut StdRng::seed_from_u64(5), jiff::Timestamp::now());
    bundle.os = SecretsBundle::generate_with_key_size(rng, now, 512).unwrap().os;
    let new_access = bundle.client_credentials(ApiRole::Admin, DEFAULT_LIFETIME, rng, now).unwrap();
    let base64 = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let [old_ca, new_ca, new_key] =
        [old_access.ca.as_str(), bundle.os.crt.as_str(), bundle.os.key.expose()].map(base64);
    let files = tempfile::tempdir().unwrap();
    let file = files.path().join("new.yaml").display().to_string();
    std::fs::write(&file, bundle.to_yaml().expose()).unwrap();

    // Accepted everywhere, then the one that signs: while one node still has the old one, the kept secrets stay.
    for (address, _) in nodes {
        patch(&lab, address, &old_access, &[&format!("machine: {{acceptedCAs: [{{crt: {new_ca}}}]}}")]).await;
    }
    for (address, control_plane) in nodes {
        let run = home.run(&lab, &["secrets", "import", "--replace", &file]);
        assert_eq!(run.status.code(), Some(1), "{address} has the old authority");
        assert!(text(&run.stderr).contains("nothing was imported"), "{}", text(&run.stderr));
        let key = if control_plane { format!(", key: {new_key}") } else { String::new() };
        let swap = format!("machine: {{ca: {{crt: {new_ca}{key}}}, acceptedCAs: [{{crt: {old_ca}}}]}}");
        patch(&lab, address, &old_access, &["machine: {acceptedCAs: {$patch: delete}}", &swap]).await;
    }
    for (address, _) in nodes {
        patch(&lab, address, &new_access, &["machine: {acceptedCAs: {$patch: delete}}"]).await;
    }
    assert_eq!(
        home.run(&lab, &["secrets", "import", &file]).status.code(),
        Some(1),
        "not without being told to"
    );
    let said = good(&home.run(&lab, &["secrets", "import", "--replace", &file]));
    assert!(said.contains("secrets-until-"), "{said}");
    good(&home.run(&lab, &["apply", "--yes"]));
    let renewed = Talosconfig::from_yaml(&read(&outputs.join("talosconfig"))).unwrap().credentials;
    assert_eq!(renewed.ca, bundle.os.crt);
    assert_eq!(home.run(&lab, &["plan", "--detailed-exitcode"]).status.code(), Some(0));
    assert_eq!(home.json(&lab, &["status"])["healthy"], true);
}

/// M22: talosconfig by role and kubeconfig are minted offline with a chosen life; the admin's are exchanged.
#[test]
fn access_is_minted_by_role_and_lifetime() {
    let lab = Lab::new();
    let home = Changed::new("home", SMALL);
    good(&home.run(&lab, &["apply", "--yes"]));
    let outputs = lab.dir().join("clusters/home/outputs");
    let before = (read(&outputs.join("talosconfig")), read(&outputs.join("kubeconfig")));

    let roles = ["os:admin", "os:operator", "os:reader", "os:etcd:backup"];
    for role in roles {
        let minted =
            good(&home.run(&lab, &["secrets", "talosconfig", "--role", role, "--ttl", "8h", "--stdout"]));
        let parsed = daedal_talos::Talosconfig::from_yaml(&minted).unwrap();
        let (begins, ends) = parsed.credentials.validity().unwrap();
        assert_eq!(ends.duration_since(begins).as_hours(), 8, "{role}");
        assert_eq!(parsed.endpoints, ["10.0.0.11"]);
        // Roles are the organizations of the certificate's subject, in plain letters.
        let certificate = daedal_talos::pki::certificate_from_pem(&parsed.credentials.crt).unwrap();
        let names = |role: &&str| certificate.windows(role.len()).any(|part| part == role.as_bytes());
        assert_eq!(roles.into_iter().filter(names).collect::<Vec<_>>(), [role]);
    }
    assert_eq!(
        home.run(&lab, &["secrets", "talosconfig", "--role", "os:root", "--stdout"]).status.code(),
        Some(64)
    );
    assert_eq!(home.run(&lab, &["secrets", "kubeconfig"]).status.code(), Some(64), "where to must be said");
    let file = lab.dir().join("minted");
    good(&home.run(&lab, &["secrets", "kubeconfig", "--ttl", "30d", "--to", &file.display().to_string()]));
    assert!(is_private(&file));
    let (begins, ends) = daedal_talos::kubeconfig_validity(&read(&file)).unwrap();
    assert_eq!(ends.duration_since(begins).as_hours(), 30 * 24);

    good(&home.run(&lab, &["secrets", "rotate-admin", "--ttl", "90d"]));
    let after = (read(&outputs.join("talosconfig")), read(&outputs.join("kubeconfig")));
    assert!(before.0 != after.0 && before.1 != after.1);
    let plan = home.run(&lab, &["plan", "--detailed-exitcode"]);
    assert_eq!(plan.status.code(), Some(0), "{}", text(&plan.stdout));
    assert_eq!(home.json(&lab, &["status"])["healthy"], true);
}
