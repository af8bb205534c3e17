//! `daedal secrets`, through the command line: bring in, look at, take out, mint.

use crate::common;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use base64::Engine as _;
use common::{BESIDE, Changed, Lab, SMALL, eventually, good, text};
use daedal_talos_client::{ApplyMode, Client, ConnectOptions, FailureKind};
use daedal_talos_config::{
    ApiRole, CertificateAndKey, ClientCredentials, DEFAULT_LIFETIME, MachineConfig, Patch, Secret,
    SecretsBundle, Talosconfig,
};
use futures::TryStreamExt as _;
use rand::SeedableRng as _;
use rand::rngs::StdRng;

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

fn is_private(path: &Path) -> bool {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o077 == 0
}

/// A bundle made elsewhere becomes the cluster's, comes out as it went in, and is never exchanged for another
/// under a running cluster; a lost one comes back from a control plane's machine config.
/// Mission: M22
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
    // What is there may be somebody's only copy.
    let again = other.run(&lab, &["secrets", "export", "--to", &at("bundle.yaml")]);
    assert_eq!(again.status.code(), Some(73), "{}", text(&again.stderr));
    assert!(text(&again.stderr).contains("--force"), "{}", text(&again.stderr));
    good(&other.run(&lab, &["secrets", "export", "--force", "--to", &at("bundle.yaml")]));
    std::os::unix::fs::symlink(at("nowhere"), at("link")).unwrap();
    for (name, words) in [("link", "--force"), (".", "is a folder")] {
        let refused = other.run(&lab, &["secrets", "export", "--to", &at(name)]);
        assert_eq!(refused.status.code(), Some(73), "{}", text(&refused.stderr));
        assert!(text(&refused.stderr).contains(words), "{}", text(&refused.stderr));
    }
    for wrong in [&["--stdout", "--force"][..], &["--stdout", "--to", "x"], &[]] {
        let refused = other.run(&lab, &[&["secrets", "export"], wrong].concat());
        assert_eq!(refused.status.code(), Some(64), "{wrong:?}: {}", text(&refused.stderr));
    }
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
        format!("        key: {}", STANDARD.encode(pem.replace("ED25519 PRIVATE KEY", "DSA PRIVATE KEY")))
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

/// An authority as kubeadm makes it, in PEM.
fn authority(name: &str, key: &rcgen::KeyPair, pem: &str) -> CertificateAndKey {
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.key_usages = vec![rcgen::KeyUsagePurpose::DigitalSignature, rcgen::KeyUsagePurpose::KeyCertSign];
    CertificateAndKey { crt: params.self_signed(key).unwrap().pem(), key: Secret::new(pem) }
}

/// The authorities of an older cluster, as `talosctl gen secrets --from-kubernetes-pki` takes them over, are as good as
/// new ones: nodes and Kubernetes serve by them, and who asks is let in by them.
#[test]
fn authorities_of_an_older_pki_carry_a_cluster() {
    use rsa::pkcs1::EncodeRsaPrivateKey as _;
    use rsa::pkcs8::{EncodePrivateKey as _, LineEnding};

    let rsa = rsa::RsaPrivateKey::new(&mut StdRng::seed_from_u64(1), 2048).unwrap();
    let pair = rcgen::KeyPair::try_from(rsa.to_pkcs8_der().unwrap().as_bytes()).unwrap();
    let p384 = || rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
    let (for_etcd, for_nodes) = (p384(), p384());
    let mut bundle = other_bundle();
    bundle.k8s = authority("kubernetes", &pair, &rsa.to_pkcs1_pem(LineEnding::LF).unwrap());
    bundle.k8s_aggregator = authority("front-proxy-ca", &pair, &rsa.to_pkcs8_pem(LineEnding::LF).unwrap());
    bundle.etcd = authority("etcd-ca", &for_etcd, &for_etcd.serialize_pem());
    bundle.os = authority("nodes", &for_nodes, &for_nodes.serialize_pem());

    let lab = Lab::new();
    let home = Changed::new("home", SMALL);
    let files = tempfile::tempdir().unwrap();
    let file = written(files.path(), "older.yaml", &bundle);
    // What the nodes of an older Talos cannot use is told before there are any.
    let versions = [("version: v1.12.0", "version: v1.10.2"), ("version: v1.35.0", "version: v1.33.0")];
    let old = Changed::new("home", &[SMALL, &versions].concat());
    let run = old.run(&lab, &["secrets", "import", &file]);
    assert_eq!(run.status.code(), Some(65), "{}", text(&run.stderr));
    for words in ["nothing was imported", "certs.etcd.key", "PKCS #8", "v1.10.3"] {
        assert!(text(&run.stderr).contains(words), "{words}: {}", text(&run.stderr));
    }
    good(&home.run(&lab, &["secrets", "import", &file]));
    assert_eq!(good(&home.run(&lab, &["secrets", "export", "--stdout"])), read(Path::new(&file)));
    let shown = good(&home.run(&lab, &["secrets", "show"]));
    for (authority, key) in [("etcd", "ECDSA P-384"), ("k8s", "RSA 2048"), ("os", "ECDSA P-384")] {
        let row = shown.lines().find(|line| line.starts_with(&format!("{authority} authority"))).unwrap();
        assert!(row.contains(key), "{row}");
    }
    good(&home.run(&lab, &["apply", "--yes"]));
    good(&home.run(&lab, &["status"]));

    // All of it comes back from a control plane.
    let empty = files.path().join("empty").display().to_string();
    let node_config = lab.dir().join("clusters/home/outputs/nodes/cp-1.yaml").display().to_string();
    good(&home.run(&lab, &["secrets", "import", &node_config, "--state", &empty]));
    assert_eq!(
        good(&home.run(&lab, &["secrets", "export", "--stdout", "--state", &empty])),
        read(Path::new(&file))
    );
}

/// A cluster that runs on its own secrets does not take others, even where its store is lost.
/// Mission: M22
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

/// A node of a lab, as whoever holds the credentials reaches it.
async fn node(lab: &Lab, address: &str, credentials: &ClientCredentials) -> Client {
    let status =
        common::command(["lab", "status", "-o", "json", "--lab-dir"]).arg(lab.dir()).output().unwrap();
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    let proxy = daedal_dial::Proxy::parse(&format!("http://{}", status["proxy"].as_str().unwrap())).unwrap();
    let target = daedal_dial::Target::new(address, 50000);
    let options = ConnectOptions::default();
    Client::connect(std::sync::Arc::new(proxy), target, credentials, &options).await.unwrap()
}

/// Gives a node a patched config at once.
async fn patch(lab: &Lab, address: &str, credentials: &ClientCredentials, patches: &[&str]) {
    let node = node(lab, address, credentials).await;
    let running = node.machine_config().await.unwrap().unwrap();
    let mut config = MachineConfig::from_yaml(running.expose()).unwrap();
    for patch in patches {
        config.apply_patch(&Patch::from_yaml(patch).unwrap()).unwrap();
    }
    node.apply_configuration(&config.to_yaml(), ApplyMode::NoReboot, false).await.unwrap();
}

/// A bundle that has nothing in common with any other.
fn other_bundle() -> SecretsBundle {
    SecretsBundle::generate_with_key_size(&mut StdRng::seed_from_u64(9), jiff::Timestamp::now(), 512).unwrap()
}

/// A bundle in a file.
fn written(folder: &Path, name: &str, bundle: &SecretsBundle) -> String {
    let path = folder.join(name);
    std::fs::write(&path, bundle.to_yaml().expose()).unwrap();
    path.display().to_string()
}

/// Insists that an import was refused with these words, and gives all of them.
#[track_caller]
fn refused(run: &std::process::Output, words: &[&str]) -> String {
    let said = text(&run.stderr);
    assert_eq!(run.status.code(), Some(1), "{said}");
    for word in [&["nothing was imported"], words].concat() {
        assert!(said.contains(word), "{word}: {said}");
    }
    said
}

/// Where no node can be asked, kept secrets are not replaced.
#[test]
fn without_a_node_to_ask_nothing_is_replaced() {
    let lab = Lab::new();
    let home = Changed::new("home", SMALL);
    let files = tempfile::tempdir().unwrap();
    let mut bundle = other_bundle();
    let kept = written(files.path(), "kept.yaml", &bundle);
    bundle.os =
        SecretsBundle::generate_with_key_size(&mut StdRng::seed_from_u64(8), jiff::Timestamp::now(), 512)
            .unwrap()
            .os;
    let new = written(files.path(), "new.yaml", &bundle);
    let said =
        refused(&home.run(&lab, &["secrets", "import", "--replace", &kept]), &["no node of cluster home"]);
    assert!(said.contains("import without --replace") && !said.contains("move secrets.yaml.age"), "{said}");
    good(&home.run(&lab, &["secrets", "import", &kept]));
    let run = home.run(&lab, &["secrets", "import", "--replace", &new]);
    refused(&run, &["no node of cluster home", "move secrets.yaml.age away"]);
    assert_eq!(good(&home.run(&lab, &["secrets", "export", "--stdout"])), read(Path::new(&kept)));
}

/// That a node answers proves the authority of its API; every other secret is compared with the config that it runs on.
/// Kubernetes' authority is changed on every node, as `talosctl rotate-ca --talos=false` does it: until all have it the kept
/// secrets stay, and afterwards the old ones do not come back.
#[tokio::test]
async fn secrets_of_which_nodes_hold_others_are_refused_by_name() {
    let lab = Lab::new();
    let home = Changed::new("home", SMALL);
    good(&home.run(&lab, &["apply", "--yes"]));
    let files = tempfile::tempdir().unwrap();
    let outputs = lab.dir().join("clusters/home/outputs");
    let access = Talosconfig::from_yaml(&read(&outputs.join("talosconfig"))).unwrap().credentials;
    let old = SecretsBundle::from_yaml(&good(&home.run(&lab, &["secrets", "export", "--stdout"]))).unwrap();
    let stale = written(files.path(), "stale.yaml", &old);
    let lost = files.path().join("lost").display().to_string();

    // Every node answers to it, but the tokens and the key of what etcd keeps are others.
    let other = other_bundle();
    let mut mixed = old.clone();
    mixed.encryption = other.encryption.clone();
    mixed.trustd_token = other.trustd_token.clone();
    let mixed = written(files.path(), "mixed.yaml", &mixed);
    let fields =
        ["cp-1 (trustdinfo.token, secrets.secretboxencryptionsecret)", "worker-1 (trustdinfo.token)"];
    refused(&home.run(&lab, &["secrets", "import", "--replace", &mixed]), &fields);
    refused(&home.run(&lab, &["secrets", "import", &mixed, "--state", &lost]), &fields);

    let mut new = old.clone();
    new.k8s = other.k8s.clone();
    let file = written(files.path(), "new.yaml", &new);
    let import = ["secrets", "import", "--replace", file.as_str()];
    let base64 = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let [old_ca, new_ca, new_key] =
        [old.k8s.crt.as_str(), new.k8s.crt.as_str(), new.k8s.key.expose()].map(base64);
    for address in ["10.0.0.11", "10.0.0.21"] {
        patch(&lab, address, &access, &[&format!("cluster: {{acceptedCAs: [{{crt: {new_ca}}}]}}")]).await;
    }
    let said = refused(&home.run(&lab, &import), &["cp-1 (certs.k8s.crt, certs.k8s.key)"]);
    assert!(said.contains("worker-1 (certs.k8s.crt)"), "{said}");
    let swap =
        |key: &str| format!("cluster: {{ca: {{crt: {new_ca}{key}}}, acceptedCAs: [{{crt: {old_ca}}}]}}");
    let forget = "cluster: {acceptedCAs: {$patch: delete}}";
    patch(&lab, "10.0.0.11", &access, &[forget, &swap(&format!(", key: {new_key}"))]).await;
    let said = refused(&home.run(&lab, &import), &["worker-1 (certs.k8s.crt)"]);
    assert!(!said.contains("cp-1 ("), "{said}");
    patch(&lab, "10.0.0.21", &access, &[forget, &swap("")]).await;
    for address in ["10.0.0.11", "10.0.0.21"] {
        patch(&lab, address, &access, &[forget]).await;
    }

    // The store is lost, and only the bundle of before was saved elsewhere.
    let run = home.run(&lab, &["secrets", "import", &stale, "--state", &lost]);
    refused(&run, &["cp-1 (certs.k8s.crt, certs.k8s.key)", "worker-1 (certs.k8s.crt)", "get machineconfig"]);
    good(&home.run(&lab, &import));
    let run = home.run(&lab, &["secrets", "import", "--replace", &stale]);
    refused(&run, &["cp-1 (certs.k8s.crt, certs.k8s.key)", "worker-1 (certs.k8s.crt)"]);

    // A node that is off may still have the kept ones; where none are kept, nobody speaks of them.
    node(&lab, "10.0.0.21", &access).await.shutdown(true).await.unwrap();
    eventually("worker-1 is off", || {
        home.json(&lab, &["node", "show", "worker-1"])["proxmox"]["seen"]["power"] == "stopped"
    });
    let said = refused(&home.run(&lab, &["secrets", "import", "--replace", &stale]), &["worker-1"]);
    assert!(said.contains("worker-1 may still need the kept secrets"), "{said}");
    let run = home.run(&lab, &["secrets", "import", "--replace", &stale, "--state", &lost]);
    let said = refused(&run, &["worker-1 may run on other secrets"]);
    assert!(!said.contains("kept"), "{said}");
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
    eventually("all is well", || home.json(&lab, &["status"])["healthy"] == true);
}

/// The same for the authority of Kubernetes, as `talosctl rotate-ca --talos=false` changes it: until the kept secrets have followed,
/// an apply waits for nothing and says what to do.
#[tokio::test]
async fn the_authority_of_kubernetes_is_changed_and_the_kept_secrets_follow() {
    let lab = Lab::new();
    let home = Changed::new("home", SMALL);
    good(&home.run(&lab, &["apply", "--yes"]));
    let outputs = lab.dir().join("clusters/home/outputs");
    let access = Talosconfig::from_yaml(&read(&outputs.join("talosconfig"))).unwrap().credentials;
    let old = SecretsBundle::from_yaml(&good(&home.run(&lab, &["secrets", "export", "--stdout"]))).unwrap();
    let new = SecretsBundle { k8s: other_bundle().k8s, ..old.clone() };
    let base64 = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let [old_ca, new_ca, new_key] =
        [old.k8s.crt.as_str(), new.k8s.crt.as_str(), new.k8s.key.expose()].map(base64);
    let forget = "cluster: {acceptedCAs: {$patch: delete}}";
    let nodes = [("10.0.0.11", format!(", key: {new_key}")), ("10.0.0.21", String::new())];
    for (address, _) in &nodes {
        patch(&lab, address, &access, &[&format!("cluster: {{acceptedCAs: [{{crt: {new_ca}}}]}}")]).await;
    }
    // The API server begins anew with what it accepts now.
    eventually("the old authority still signs", || home.json(&lab, &["status"])["endpointAnswers"] == true);
    for (address, key) in &nodes {
        let swap = format!("cluster: {{ca: {{crt: {new_ca}{key}}}, acceptedCAs: [{{crt: {old_ca}}}]}}");
        patch(&lab, address, &access, &[forget, &swap]).await;
    }
    for (address, _) in &nodes {
        patch(&lab, address, &access, &[forget]).await;
    }

    // It does not wait for what will not come: the longest wait for the endpoint is ten minutes.
    let began = std::time::Instant::now();
    let run = home.run(&lab, &["apply", "--yes"]);
    assert!(began.elapsed() < std::time::Duration::from_secs(5 * 60), "{:?}", began.elapsed());
    let said = text(&run.stdout) + &text(&run.stderr);
    assert!(!run.status.success() && said.contains("daedal secrets import --replace FILE"), "{said}");
    let files = tempfile::tempdir().unwrap();
    let file = written(files.path(), "new.yaml", &new);
    good(&home.run(&lab, &["secrets", "import", "--replace", &file]));
    good(&home.run(&lab, &["apply", "--yes"]));
    assert!(read(&outputs.join("kubeconfig")).contains(&new_ca));
    assert_eq!(home.run(&lab, &["plan", "--detailed-exitcode"]).status.code(), Some(0));
    eventually("all is well", || home.json(&lab, &["status"])["healthy"] == true);
}

/// What a call of a role came to: done, or denied. Anything else is a fault.
#[track_caller]
fn was_granted<T>(call: Result<T, daedal_talos_client::Error>) -> bool {
    match call {
        Ok(_) => true,
        Err(error) if error.kind() == Some(FailureKind::PermissionDenied) => false,
        Err(error) => panic!("{error}"),
    }
}

/// Talosconfig by role and kubeconfig are minted offline with a chosen life; each role may what Talos lets it, and no
/// more; the admin's are exchanged.
/// Mission: M22
#[tokio::test]
async fn access_is_minted_by_role_and_lifetime() {
    let lab = Lab::new();
    let home = Changed::new("home", SMALL);
    good(&home.run(&lab, &["apply", "--yes"]));
    let outputs = lab.dir().join("clusters/home/outputs");
    let before = (read(&outputs.join("talosconfig")), read(&outputs.join("kubeconfig")));

    let roles = ["os:admin", "os:operator", "os:reader", "os:etcd:backup"];
    // What each of them may: version, members, snapshot, defragmentation, the config, a change of it. The last as a dry run.
    let granted = [
        [true, true, true, true, true, true],
        [true, true, true, true, false, false],
        [true, true, false, false, false, false],
        [false, true, true, false, false, false],
    ];
    for (role, granted) in roles.into_iter().zip(granted) {
        let minted =
            good(&home.run(&lab, &["secrets", "talosconfig", "--role", role, "--ttl", "8h", "--stdout"]));
        let parsed = Talosconfig::from_yaml(&minted).unwrap();
        let (begins, ends) = parsed.credentials.validity().unwrap();
        assert_eq!(ends.duration_since(begins).as_hours(), 8, "{role}");
        assert_eq!(parsed.endpoints, ["10.0.0.11"]);
        let node = node(&lab, "10.0.0.11", &parsed.credentials).await;
        let config = Secret::new(read(&outputs.join("nodes/cp-1.yaml")));
        let may = [
            was_granted(node.version().await),
            was_granted(node.etcd_members().await),
            was_granted(match node.etcd_snapshot().await {
                Ok(pieces) => pieces.try_collect::<Vec<_>>().await,
                Err(error) => Err(error),
            }),
            was_granted(node.etcd_defragment().await),
            was_granted(node.machine_config().await),
            was_granted(node.apply_configuration(&config, ApplyMode::NoReboot, true).await),
        ];
        assert_eq!(may, granted, "{role}");
    }
    assert_eq!(
        home.run(&lab, &["secrets", "talosconfig", "--role", "os:root", "--stdout"]).status.code(),
        Some(64)
    );
    assert_eq!(home.run(&lab, &["secrets", "kubeconfig"]).status.code(), Some(64), "where to must be said");
    let file = lab.dir().join("minted");
    good(&home.run(&lab, &["secrets", "kubeconfig", "--ttl", "30d", "--to", &file.display().to_string()]));
    assert!(is_private(&file));
    let (begins, ends) = daedal_talos_config::kubeconfig_validity(&read(&file)).unwrap();
    assert_eq!(ends.duration_since(begins).as_hours(), 30 * 24);

    good(&home.run(&lab, &["secrets", "rotate-admin", "--ttl", "90d"]));
    let after = (read(&outputs.join("talosconfig")), read(&outputs.join("kubeconfig")));
    assert!(before.0 != after.0 && before.1 != after.1);
    let plan = home.run(&lab, &["plan", "--detailed-exitcode"]);
    assert_eq!(plan.status.code(), Some(0), "{}", text(&plan.stdout));
    assert_eq!(home.json(&lab, &["status"])["healthy"], true);
}
