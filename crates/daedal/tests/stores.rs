//! A store for teams: a bucket instead of the folder, with a server of the test's own.

use crate::common;

use std::process::{Command, Output, Stdio};

use common::served::Served;
use common::{Changed, FINGERPRINT, SMALL, eventually, good, text};
use daedal_talos_config::SecretsBundle;
use rand::SeedableRng as _;
use rand::rngs::StdRng;

#[path = "../../store/tests/servers/s3.rs"]
pub(crate) mod server;

use server::S3Server;

#[path = "../../store/tests/servers/vault.rs"]
pub(crate) mod vault;

use vault::VaultServer;

/// A server on a thread of its own, for as long as the tests run.
pub(crate) fn serve(server: &S3Server) -> std::net::SocketAddr {
    let server = server.clone();
    listening(async move { server.listen().await })
}

pub(crate) fn listening(
    listen: impl Future<Output = std::net::SocketAddr> + Send + 'static,
) -> std::net::SocketAddr {
    let (sent, got) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            sent.send(listen.await).unwrap();
            std::future::pending::<()>().await;
        });
    });
    got.recv().unwrap()
}

/// What an inventory says of the bucket.
fn declared(address: std::net::SocketAddr) -> String {
    format!(
        "  store:\n    s3:\n      bucket: states\n      prefix: teams/a\n      endpoint: \"http://{address}\"\n      \
         leaseSeconds: 60\n      credentials: {{accessKeyId: {{env: S3_KEY}}, secretAccessKey: {{env: S3_SECRET}}}}\n\n"
    )
}

fn run(command_line: &[&str], inventory: &Changed, key: &std::path::Path) -> Command {
    let mut command = common::command(command_line);
    command.arg("-f").arg(inventory.file()).arg("--key").arg(key);
    command.envs([("S3_KEY", server::ACCESS_KEY), ("S3_SECRET", "hunter2-secret")]);
    command
}

/// Secrets of a cluster, as `talosctl gen secrets` writes them.
pub fn write_bundle(file: &std::path::Path, seed: u64) {
    let (rng, now) = (&mut StdRng::seed_from_u64(seed), jiff::Timestamp::now());
    let bundle = SecretsBundle::generate_with_key_size(rng, now, 512).unwrap();
    std::fs::write(file, bundle.to_yaml().expose()).unwrap();
}

pub fn refused(ran: &Output, exit: i32, words: &str) {
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(exit), "{said}");
    assert!(said.contains(words), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
}

/// Two operators on two machines with one bucket: both see the same, one works at a time, and nothing secret is
/// in the bucket in plain.
/// Mission: E16, F8
#[test]
fn two_operators_share_a_bucket() {
    let (served, bucket) = (Served::start(), S3Server::new());
    let address = serve(&bucket);
    let store = format!("{}  network:\n", declared(address));
    let reach = format!("  reach: {{proxy: \"{}\"}}\n\n{store}", served.announced("proxy"));
    let by_ca = format!("ca: \"{}\"", served.announced("ca"));
    let factory = format!("version: v1.12.0\n    factoryTls: {{ca: \"{}\"}}", served.announced("ca"));
    let replacements =
        [SMALL, &[(FINGERPRINT, by_ca.as_str()), ("  network:\n", &reach), ("version: v1.12.0", &factory)]]
            .concat();
    // Two machines: two folders, one key.
    let (ada, bob) = (Changed::new("home", &replacements), Changed::new("home", &replacements));
    let keys = tempfile::tempdir().unwrap();
    let key = keys.path().join("key.txt");
    let token = served.token();
    let run = |command_line: &[&str], inventory: &Changed| {
        let mut command = run(command_line, inventory, &key);
        command.env("PROXMOX_TOKEN_SECRET", &token);
        command
    };
    let mut apply =
        run(&["apply", "--yes"], &ada).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let manifest = "teams/a/home/manifest";
    let is_locked =
        || bucket.object(manifest).is_some_and(|bytes| text(&bytes).contains("\"doing\": \"apply\""));
    eventually("ada has the lock", is_locked);
    let busy = run(&["apply", "--yes"], &bob).output().unwrap();
    if apply.try_wait().unwrap().is_none() {
        refused(&busy, 75, "cluster `home` is locked by");
        assert!(text(&busy.stderr).contains("apply, since"), "{}", text(&busy.stderr));
    }
    assert!(apply.wait().unwrap().success());
    // The lock is given back: nobody has to wait for it to end.
    assert!(!text(&bucket.object(manifest).unwrap()).contains("\"lease\""));
    // Whoever was refused has no outputs yet; nothing else is left to do.
    good(&run(&["apply", "--yes"], &bob).output().unwrap());
    let said = good(&run(&["plan", "--detailed-exitcode"], &bob).output().unwrap());
    assert!(!said.is_empty());
    let shown = good(&run(&["secrets", "show"], &bob).output().unwrap());
    assert!(shown.contains("s3://states/teams/a/home"), "{shown}");
    let [first, second] =
        [&ada, &bob].map(|who| good(&run(&["secrets", "export", "--stdout"], who).output().unwrap()));
    assert_eq!(first, second);
    let taken = good(&run(&["backup", "create"], &bob).output().unwrap());
    assert!(taken.contains("s3://states/teams/a/home/backups/etcd-"), "{taken}");
    assert!(good(&run(&["backup", "list"], &ada).output().unwrap()).contains(".db.age"));
    let token = first.lines().find_map(|line| line.trim().strip_prefix("token: ")).unwrap().trim().to_owned();
    for name in bucket.keys() {
        let bytes = bucket.object(&name).unwrap();
        assert!(!text(&bytes).contains(&token), "{name} has a secret in plain");
    }
    good(&run(&["destroy", "--confirm", "home"], &ada).output().unwrap());
}

/// What is on this machine or with Proxmox is not held up by a store that cannot be opened or asked; what needs it says so.
#[test]
fn what_does_not_need_the_store_goes_on_without_it() {
    let (served, bucket) = (Served::start(), S3Server::new());
    let address = serve(&bucket);
    let store = format!("{}  network:\n", declared(address));
    let reach = format!("  reach: {{proxy: \"{}\"}}\n\n{store}", served.announced("proxy"));
    let by_ca = format!("ca: \"{}\"", served.announced("ca"));
    let factory = format!("version: v1.12.0\n    factoryTls: {{ca: \"{}\"}}", served.announced("ca"));
    let replacements =
        [SMALL, &[(FINGERPRINT, by_ca.as_str()), ("  network:\n", &reach), ("version: v1.12.0", &factory)]]
            .concat();
    let ada = Changed::new("home", &replacements);
    let keys = tempfile::tempdir().unwrap();
    let (key, token) = (keys.path().join("key.txt"), served.token());
    let run = |command_line: &[&str]| {
        let mut command = run(command_line, &ada, &key);
        command.env("PROXMOX_TOKEN_SECRET", &token);
        command
    };
    good(&run(&["apply", "--yes"]).output().unwrap());

    let goes_on = |lacks: &str, ask: &dyn Fn(&[&str]) -> Output| {
        for command in [&["env"][..], &["outputs"], &["outputs", "kubeconfig"], &["outputs", "envrc"]] {
            let said = good(&ask(command));
            assert!(said.contains("kubeconfig") || said.contains("clusters:"), "{command:?}: {said}");
        }
        assert!(text(&ask(&["outputs"]).stderr).contains(lacks));
        let listed = good(&ask(&["node", "list"]));
        assert!(listed.contains("cp-1") && listed.contains("running"), "{listed}");
        assert!(listed.contains("Not everything was seen") && listed.contains(lacks), "{listed}");
        let status = ask(&["status"]);
        let (said, why) = (text(&status.stdout), text(&status.stderr));
        assert!(said.contains("2 of 2 VMs run") && why.contains(lacks), "{said}{why}");
    };
    goes_on("S3_KEY", &|command| run(command).env_remove("S3_KEY").output().unwrap());
    // What would change something does not.
    for command in [&["apply", "--yes"][..], &["destroy", "--confirm", "home"]] {
        refused(&run(command).env_remove("S3_KEY").output().unwrap(), 78, "S3_KEY");
    }
    let inventory = std::fs::read_to_string(ada.file()).unwrap();
    std::fs::write(ada.file(), inventory.replace(&address.to_string(), "127.0.0.1:9")).unwrap();
    goes_on("s3://states/teams/a/home", &|command| run(command).output().unwrap());
}

/// An account is made under the lock of the declared store, and told of in its journal.
#[test]
fn an_account_is_made_under_the_lock_of_the_declared_store() {
    let (served, bucket) = (Served::start(), S3Server::new());
    let store = format!("{}  network:\n", declared(serve(&bucket)));
    let reach = format!("  reach: {{proxy: \"{}\"}}\n\n{store}", served.announced("proxy"));
    let by_ca = format!("ca: \"{}\"", served.announced("ca"));
    let home =
        Changed::new("home", &[SMALL, &[(FINGERPRINT, by_ca.as_str()), ("  network:\n", &reach)]].concat());
    let keys = tempfile::tempdir().unwrap();
    let (key, file) = (keys.path().join("key.txt"), keys.path().join("token"));
    let setup = |more: &[&str]| {
        let mut command =
            run(&[&["proxmox", "setup", "--token", "robot@pve!cli"], more].concat(), &home, &key);
        command.env("PROXMOX_ADMIN_SECRET", served.token()).arg("--secret-file").arg(&file);
        command
    };
    // Whoever only prints commands needs no store.
    good(&setup(&["--print"]).env_remove("S3_KEY").output().unwrap());
    let lacking = setup(&["--yes"]).env_remove("S3_KEY").output().unwrap();
    refused(&lacking, 78, "S3_KEY");
    assert!(!file.exists());
    good(&setup(&["--yes"]).output().unwrap());
    assert!(file.exists());
    let journal = bucket.keys().into_iter().filter(|name| name.contains("journal"));
    let told: String = journal.map(|name| text(&bucket.object(&name).unwrap())).collect();
    assert!(told.contains("account robot@pve!cli"), "{:?}: {told}", bucket.keys());
}

/// A bucket that lost a part of the store is found out and not written to; one that lost all of it is filled again from what runs
/// and a copy of the bundle, without a VM being made or changed, and another operator sees the same.
/// Mission: E16, F8
#[test]
fn a_lost_bucket_is_rebuilt_from_the_world_and_the_bundle() {
    let (served, bucket) = (Served::start(), S3Server::new());
    let store = format!("{}  network:\n", declared(serve(&bucket)));
    let reach = format!("  reach: {{proxy: \"{}\"}}\n\n{store}", served.announced("proxy"));
    let by_ca = format!("ca: \"{}\"", served.announced("ca"));
    let factory = format!("version: v1.12.0\n    factoryTls: {{ca: \"{}\"}}", served.announced("ca"));
    let replacements =
        [SMALL, &[(FINGERPRINT, by_ca.as_str()), ("  network:\n", &reach), ("version: v1.12.0", &factory)]]
            .concat();
    let (ada, bob) = (Changed::new("home", &replacements), Changed::new("home", &replacements));
    let keys = tempfile::tempdir().unwrap();
    let (key, token) = (keys.path().join("key.txt"), served.token());
    let run = |command_line: &[&str], inventory: &Changed| {
        run(command_line, inventory, &key).env("PROXMOX_TOKEN_SECRET", &token).output().unwrap()
    };
    good(&run(&["apply", "--yes"], &ada));
    let bundle = keys.path().join("bundle.yaml");
    good(&run(&["secrets", "export", "--to", bundle.to_str().unwrap()], &ada));

    // Each object truncated, altered or gone: an error that says so, and nothing is written.
    let of_store = |name: &String| name.ends_with("/manifest") || name.contains("/blobs/secrets");
    let (mut tried, mut found) = (0, 0);
    for name in bucket.keys().iter().filter(|name| of_store(name)) {
        let whole = bucket.object(name).unwrap();
        let mut bent = whole.clone();
        bent[whole.len() / 2] ^= 0x01;
        for damaged in [None, Some(Vec::new()), Some(whole[..whole.len() / 2].to_vec()), Some(bent)] {
            bucket.set(name, damaged.clone());
            tried += 1;
            for command_line in [&["plan"][..], &["apply", "--yes"]] {
                let ran = run(command_line, &bob);
                assert!(!ran.status.success(), "{name}: {}", text(&ran.stdout));
                assert!(text(&ran.stderr).contains("is damaged"), "{name}: {}", text(&ran.stderr));
                assert!(bucket.object(name) == damaged, "{name} was written to");
            }
            found += 1;
        }
        bucket.set(name, Some(whole));
    }
    println!("damage\tS3 store\t{tried} objects damaged\t{found} found");
    assert!(tried >= 8, "{tried}");

    bucket.keys().iter().for_each(|name| bucket.set(name, None));
    let ran = run(&["apply", "--yes"], &bob);
    assert!(!ran.status.success(), "{}", text(&ran.stdout));
    good(&run(&["secrets", "import", bundle.to_str().unwrap()], &bob));
    let planned = good(&run(&["plan"], &bob));
    assert!(planned.contains("0 to create") && planned.contains("0 to destroy"), "{planned}");
    good(&run(&["apply", "--yes"], &bob));
    for who in [&ada, &bob] {
        good(&run(&["plan", "--detailed-exitcode"], who));
        let exported = good(&run(&["secrets", "export", "--stdout"], who));
        assert_eq!(exported, std::fs::read_to_string(&bundle).unwrap());
    }
    good(&run(&["destroy", "--confirm", "home"], &ada));
}

/// Mission: E16
#[test]
fn a_bucket_that_cannot_keep_a_store_is_refused_with_the_reason() {
    let bucket = S3Server::ignoring_conditions();
    let address = serve(&bucket);
    let store = |text: &str| Changed::new("home", &[("  network:\n", &format!("{text}  network:\n"))]);
    let inventory = store(&declared(address));
    let keys = tempfile::tempdir().unwrap();
    let key = keys.path().join("key.txt");
    let files = tempfile::tempdir().unwrap();
    let bundle = files.path().join("bundle.yaml");
    write_bundle(&bundle, 1);
    let import = ["secrets", "import", bundle.to_str().unwrap(), "--unchecked"];
    refused(&run(&import, &inventory, &key).output().unwrap(), 69, "does not honour conditional writes");
    assert!(bucket.keys().is_empty(), "{:?}", bucket.keys());
    // Nobody listens there, and nobody is known there.
    let nowhere = store(&declared("127.0.0.1:9".parse().unwrap()));
    refused(&run(&["secrets", "show"], &nowhere, &key).output().unwrap(), 69, "no connection to 127.0.0.1:9");
    let mut stranger = run(&["secrets", "show"], &inventory, &key);
    refused(&stranger.env("S3_KEY", "stranger").output().unwrap(), 77, "InvalidAccessKeyId");
    let mut lacking = run(&["secrets", "show"], &inventory, &key);
    refused(&lacking.env_remove("S3_SECRET").output().unwrap(), 78, "S3_SECRET");
    let other = store(&declared(address).replace("bucket: states", "bucket: other"));
    refused(&run(&["secrets", "show"], &other, &key).output().unwrap(), 69, "NoSuchBucket");
}

/// From the folder to a bucket and back: the same secrets, asked for first, and nothing is written over.
#[test]
fn a_store_is_migrated_to_a_bucket_and_back() {
    let bucket = S3Server::new();
    let address = serve(&bucket);
    let with_store = format!("{}  network:\n", declared(address));
    let there = Changed::new("home", &[("  network:\n", &with_store)]);
    let here = Changed::new("home", &[]);
    let keys = tempfile::tempdir().unwrap();
    let key = keys.path().join("key.txt");
    let import = |seed: u64, inventory: &Changed| {
        let bundle = keys.path().join("bundle.yaml");
        write_bundle(&bundle, seed);
        let import = ["secrets", "import", bundle.to_str().unwrap(), "--unchecked"];
        good(&run(&import, inventory, &key).output().unwrap());
    };
    import(1, &here);
    let folder = here.file().with_file_name(".daedal").join("home");
    let migrate = ["store", "migrate", "--from", folder.to_str().unwrap()];
    // Nobody is there to be asked.
    refused(&run(&migrate, &there, &key).output().unwrap(), 64, "--yes");
    assert!(bucket.keys().is_empty(), "{:?}", bucket.keys());
    let yes = [&migrate[..], &["--yes"]].concat();
    let said = good(&run(&yes, &there, &key).output().unwrap());
    assert!(said.contains("copied from") && said.contains("secrets.yaml.age"), "{said}");
    let export = |inventory: &Changed| {
        good(&run(&["secrets", "export", "--stdout"], inventory, &key).output().unwrap())
    };
    assert_eq!(export(&here), export(&there));
    good(&run(&yes, &there, &key).output().unwrap());

    // Back, into a folder that has nothing yet; the inventory of before says where it was.
    let back = Changed::new("home", &[]);
    let from = there.file().display().to_string();
    good(&run(&["store", "migrate", "--yes", "--from", &from], &back, &key).output().unwrap());
    assert_eq!(export(&back), export(&there));
    // The same secrets, encrypted again, are the same; others are not written over.
    good(&run(&["secrets", "rekey"], &back, &key).output().unwrap());
    good(&run(&["store", "migrate", "--yes", "--from", &from], &back, &key).output().unwrap());
    let other = Changed::new("home", &[]);
    import(2, &other);
    let ran = run(&["store", "migrate", "--yes", "--from", &from], &other, &key).output().unwrap();
    refused(&ran, 75, "secrets.yaml.age was changed by somebody else");
    let nothing = Changed::new("home", &[("name: home ", "name: other "), ("  network:\n", &with_store)]);
    refused(
        &run(&["store", "migrate", "--yes"], &nothing, &key).output().unwrap(),
        66,
        "nothing of cluster other",
    );
}

/// The bundle alone is in a Vault: the store stays in the folder, no key of ours is needed, and another machine goes on with it.
/// Mission: E17
#[test]
fn the_bundle_alone_is_in_a_vault() {
    let server = VaultServer::new();
    let serving = server.clone();
    let address = listening(async move { serving.listen().await });
    let spec = format!(
        "  vault: {{address: \"http://{address}\", auth: {{token: {{env: VAULT_TOKEN}}}}}}\n\n  \
         secrets: {{vault: {{path: secret/talos/home}}}}\n\n  network:\n"
    );
    let keys = tempfile::tempdir().unwrap();
    let (key, bundle) = (keys.path().join("key.txt"), keys.path().join("bundle.yaml"));
    let run = |words: &[&str], inventory: &Changed| {
        run(words, inventory, &key).env("VAULT_TOKEN", vault::ROOT).output().unwrap()
    };
    let (ada, bob) =
        (Changed::new("home", &[("  network:\n", &spec)]), Changed::new("home", &[("  network:\n", &spec)]));
    let export = ["secrets", "export", "--stdout"];
    refused(&run(&export, &ada), 66, "vault:secret/talos/home yet");
    write_bundle(&bundle, 1);
    let import = ["secrets", "import", bundle.to_str().unwrap(), "--unchecked"];
    assert!(good(&run(&import, &ada)).contains("vault:secret/talos/home"));
    let whole = std::fs::read_to_string(&bundle).unwrap();
    let kept = server.secret("talos/home").unwrap()["bundle"].as_str().unwrap().to_owned();
    assert!(kept.ends_with(&whole), "the Vault has it as it is");
    assert!(
        !key.exists() && !ada.file().with_file_name(".daedal").join("home/home/secrets.yaml.age").exists()
    );
    assert_eq!(good(&run(&export, &bob)), whole);
    // Secrets are made there by the first phase, and made once.
    server.write("talos/home", None);
    good(&run(&["generate"], &ada));
    let made = good(&run(&export, &ada));
    assert_ne!(made, whole);
    good(&run(&["generate"], &bob));
    assert_eq!(good(&run(&export, &bob)), made);
    refused(&run(&import, &bob), 1, "other secrets of cluster home are kept in vault:secret/talos/home");
    let apart = Changed::new(
        "home",
        &[("  network:\n", "  secrets: {vault: {path: secret/talos/home}}\n\n  network:\n")],
    );
    refused(&run(&["check"], &apart), 65, "No Vault is configured.");
    let both = spec.replace("secrets: {", "secrets: {sops: secrets.sops.yaml, ");
    let both = Changed::new("home", &[("  network:\n", &both)]);
    assert_eq!(run(&["check"], &both).status.code(), Some(65));
}

/// A store is emptied where somebody says so by name, also one that is damaged beyond reading, and never under somebody who works.
/// Mission: E16
#[test]
fn a_store_is_reset_by_name_and_goes_on_from_the_copy_of_its_bundle() {
    let bucket = S3Server::new();
    let with_store = format!("{}  network:\n", declared(serve(&bucket)));
    let keys = tempfile::tempdir().unwrap();
    let (key, bundle) = (keys.path().join("key.txt"), keys.path().join("bundle.yaml"));
    write_bundle(&bundle, 1);
    let import = |file: &str| ["secrets", "import", file, "--unchecked"].map(str::to_owned);
    let export = ["secrets", "export", "--stdout"];
    let whole = std::fs::read_to_string(&bundle).unwrap();
    let reset = ["store", "reset"];
    let yes = ["store", "reset", "--confirm", "home", "-o", "json"];
    for inventory in [Changed::new("home", &[("  network:\n", &with_store)]), Changed::new("home", &[])] {
        let run = |words: &[&str]| run(words, &inventory, &key).output().unwrap();
        let json =
            |words: &[&str]| -> serde_json::Value { serde_json::from_str(&good(&run(words))).unwrap() };
        let bring = |file: &str| good(&run(&import(file).each_ref().map(String::as_str)));
        assert_eq!(json(&yes)["removed"], serde_json::json!([]), "nothing was there");
        bring(bundle.to_str().unwrap());
        // Nobody is there to be asked, and a wrong name is no answer.
        refused(&run(&reset), 64, "--confirm home");
        refused(&run(&["store", "reset", "--confirm", "hoem"]), 1, "the cluster is called home, not hoem");
        assert_eq!(good(&run(&export)), whole);
        let done = json(&yes);
        assert!(done["removed"].to_string().contains("\"secrets.yaml.age\""), "{done:#}");
        refused(&run(&export), 66, "there are no secrets of cluster home");
        bring(done["copy"].as_str().unwrap());
        assert_eq!(good(&run(&export)), whole);
    }

    // The bucket again: its manifest is damaged, then gone.
    let inventory = Changed::new("home", &[("  network:\n", &with_store)]);
    let run = |words: &[&str]| run(words, &inventory, &key).output().unwrap();
    let manifest = "teams/a/home/manifest";
    for damage in [Some(b"not a manifest".to_vec()), None] {
        bucket.set(manifest, damage);
        assert!(!bucket.keys().is_empty());
        assert!(text(&run(&["secrets", "show"]).stderr).contains("is damaged"));
        refused(&run(&reset), 64, "--confirm home");
        let done: serde_json::Value = serde_json::from_str(&good(&run(&yes))).unwrap();
        assert_eq!(done["copy"], serde_json::Value::Null, "{done:#}");
        assert!(!bucket.keys().iter().any(|key| key.contains("/blobs/")), "{:?}", bucket.keys());
        good(&run(&import(bundle.to_str().unwrap()).each_ref().map(String::as_str)));
        assert_eq!(good(&run(&export)), whole);
    }
}

/// The Proxmox token and the store are in a Vault; what is missing there is named, and nothing else is looked at.
/// Mission: E17
#[test]
fn secrets_and_the_store_are_in_a_vault() {
    let (served, server) = (Served::start(), VaultServer::new());
    let token = served.token();
    server.write("team/proxmox", Some(serde_json::json!({"other": "hunter2", "token": token})));
    let serving = server.clone();
    let address = listening(async move { serving.listen().await });
    let inventory = |auth: &str, key: &str| {
        let declared = format!(
            "  reach: {{proxy: \"{}\"}}\n\n  vault: {{address: \"http://{address}\", auth: {auth}}}\n\n  \
             store: {{vault: {{prefix: teams, leaseSeconds: 60}}}}\n\n  network:\n",
            served.announced("proxy")
        );
        let secret = format!("secret: {{vault: {{path: secret/team/proxmox, key: {key}}}}}");
        let by_ca = format!("ca: \"{}\"", served.announced("ca"));
        let replacements = [
            (FINGERPRINT, by_ca.as_str()),
            ("secret: {env: PROXMOX_TOKEN_SECRET}", &secret),
            ("  network:\n", &declared),
        ];
        Changed::new("home", &replacements)
    };
    let keys = tempfile::tempdir().unwrap();
    let key = keys.path().join("key.txt");
    let run = |command_line: &[&str], inventory: &Changed| {
        let mut command = run(command_line, inventory, &key);
        command.envs([
            ("VAULT_TOKEN", vault::ROOT),
            ("ROLE_ID", vault::ROLE.0),
            ("SECRET_ID", vault::ROLE.1),
        ]);
        command.output().unwrap()
    };
    let by_token = inventory("{token: {env: VAULT_TOKEN}}", "token");
    let by_role = inventory("{appRole: {roleId: {env: ROLE_ID}, secretId: {env: SECRET_ID}}}", "token");
    for inventory in [&by_token, &by_role] {
        let ran = run(&["plan", "--detailed-exitcode"], inventory);
        assert_eq!(ran.status.code(), Some(2), "{}", text(&ran.stderr));
        assert!(!(text(&ran.stdout) + &text(&ran.stderr)).contains(&token), "the token shows");
    }
    let ran = run(&["plan"], &inventory("{token: {env: VAULT_TOKEN}}", "tokn"));
    refused(&ran, 78, "has no key `tokn`");
    assert!(text(&ran.stderr).contains("It has these keys: other, token."), "{}", text(&ran.stderr));
    let ran = run(&["plan"], &inventory("{token: {env: NO_SUCH_TOKEN}}", "token"));
    refused(&ran, 78, "NO_SUCH_TOKEN");

    let bundle = keys.path().join("bundle.yaml");
    write_bundle(&bundle, 1);
    good(&run(&["secrets", "import", bundle.to_str().unwrap(), "--unchecked"], &by_token));
    let shown = good(&run(&["secrets", "show"], &by_role));
    assert!(shown.contains("vault:secret/teams/home"), "{shown}");
    let exported = good(&run(&["secrets", "export", "--stdout"], &by_role));
    assert_eq!(exported, std::fs::read_to_string(&bundle).unwrap());
    assert!(!server.secret("teams/home/manifest").unwrap().to_string().is_empty());
}
