//! The secrets bundle in a SOPS file: written by the rules, read back, exchanged, and never where something else would be lost.
//! The real sops opens it, too, where `DAEDAL_SOPS` names it (`cargo xtask conformance sops-bundle`).
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "helpers of tests")]

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use age::secrecy::ExposeSecret as _;
use age::x25519::Identity;
use daedal_sops::{Encrypted, Format, Identities, Opened, Rule};
use daedal_store::{Error, Keyring, Now, SecretBytes, SopsFile, Store};
use jiff::Timestamp;
use serde_json::Value as Json;

const BUNDLE: &str = "cluster:\n    id: aWRlbnRpdHk=\n    secret: canary-secret\nsecrets:\n    bootstraptoken: canary.bootstrap\n    \
                      secretboxencryptionsecret: canary-secretbox\ntrustdinfo:\n    token: \"1234567890\"\ncerts:\n    os:\n        \
                      crt: certificate-of-os\n        key: canary-key-of-os\n";
const OWNER: &str = "# daedal: secrets bundle of cluster 1b4e28ba\n";

struct Bench {
    folder: tempfile::TempDir,
    own: Keyring,
    recipient: String,
    key: String,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = Identity::generate();
        let own = Keyring::in_file(folder.path().join("no/key.txt"));
        let recipient = key.to_public().to_string();
        Self { folder, own, recipient, key: key.to_string().expose_secret().to_owned() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn file(&self) -> PathBuf {
        self.path("deep/secrets.sops.yaml")
    }

    fn rules(&self, settings: &str) {
        let rules = format!("creation_rules:\n  - age: {}\n{settings}", self.recipient);
        std::fs::write(self.path(".sops.yaml"), rules).unwrap();
    }

    fn store_of(&self, identity: &str) -> Store {
        let now: Now = Arc::new(Timestamp::now);
        let mut identities = Identities::parse(&self.key).unwrap();
        identities.extend(self.own.identities().unwrap());
        Store::in_folder(self.path("state"), "home", identity, self.own.clone())
            .with_bundle_in(SopsFile::new(self.file(), identities, now))
    }

    fn store(&self) -> Store {
        self.store_of("1b4e28ba")
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.file()).unwrap()
    }

    fn put(&self, plain: &str) {
        let rule = Rule::for_recipients([&self.recipient]);
        let rng = &mut rand::thread_rng();
        let closed =
            daedal_sops::encrypt(Format::Yaml, plain.as_bytes(), &rule, Timestamp::now(), rng).unwrap();
        std::fs::create_dir_all(self.path("deep")).unwrap();
        std::fs::write(self.file(), closed).unwrap();
    }

    fn opened(&self) -> Opened {
        let identities = Identities::parse(&self.key).unwrap();
        Encrypted::parse(Format::Yaml, &self.text()).unwrap().open(&identities).unwrap()
    }

    fn plain(&self) -> String {
        self.opened().plain().expose_text().unwrap().to_owned()
    }
}

fn bytes(text: &str) -> SecretBytes {
    SecretBytes::new(text.as_bytes().to_vec())
}

fn json(read: &SecretBytes) -> Json {
    serde_json::from_slice(read.expose()).unwrap()
}

#[tokio::test]
async fn a_bundle_is_written_by_the_rules_and_read_back() {
    use std::os::unix::fs::PermissionsExt as _;
    let bench = Bench::new();
    bench.rules("");
    let store = bench.store();
    assert!(store.secrets().await.unwrap().is_none());
    // The rules name the recipients: no key of ours is made.
    assert_eq!(store.ready_for_secrets().await.unwrap(), None);
    store.write_new_secrets(&bytes(BUNDLE)).await.unwrap();
    assert!(!bench.text().contains("canary") && bench.text().contains(&bench.recipient));
    assert_eq!(std::fs::metadata(bench.file()).unwrap().permissions().mode() & 0o077, 0);
    let read = json(&store.secrets().await.unwrap().unwrap());
    assert_eq!(read["certs"]["os"]["key"], "canary-key-of-os");
    assert_eq!(read["trustdinfo"]["token"], "1234567890");
    assert_eq!(bench.plain(), format!("{OWNER}{BUNDLE}"));
    // Never over another, and never somebody else's.
    let again = store.write_new_secrets(&bytes(BUNDLE)).await.unwrap_err();
    assert!(matches!(again, Error::SecretsExist { .. }), "{again:?}");
    let other = bench.store_of("another").secrets().await.unwrap_err();
    assert!(matches!(&other, Error::OtherCluster { found, .. } if found == "1b4e28ba"), "{other:?}");
    assert_eq!(std::fs::read_dir(bench.path("deep")).unwrap().count(), 1);
    assert!(!bench.path("state").exists() && !bench.path("no").exists());
}

#[tokio::test]
async fn what_else_is_in_the_file_stays() {
    let bench = Bench::new();
    let others = "# about it\nproxmox:\n    token: s3cret # behind\nlist:\n- a\n";
    bench.put(others);
    let (store, before) = (bench.store(), bench.text());
    assert!(store.secrets().await.unwrap().is_none());
    store.write_new_secrets(&bytes(BUNDLE)).await.unwrap();
    assert_eq!(bench.plain(), format!("{others}{OWNER}{BUNDLE}"));
    // What did not change keeps its text, so that a diff shows what changed.
    let token = |text: &str| text.lines().find(|line| line.contains("token:")).unwrap().to_owned();
    assert_eq!(token(&before), token(&bench.text()));
    let newer = BUNDLE.replace("canary-key", "newer-key");
    let (kept, before) = (bench.text(), store.secrets().await.unwrap());
    let old = store.replace_secrets(&bytes(&newer), "secrets-until-then.yaml").await.unwrap();
    assert_eq!(std::fs::read_to_string(&old).unwrap(), kept);
    assert!(old.ends_with("deep/secrets-until-then.sops.yaml"));
    assert_eq!(bench.plain(), format!("{others}{OWNER}{newer}"));
    assert_ne!(store.secrets().await.unwrap(), before);
}

#[tokio::test]
async fn rules_that_cannot_be_used_are_refused_before_anything_is_written() {
    let bench = Bench::new();
    let store = bench.store();
    let refused = async || {
        let error = store.write_new_secrets(&bytes(BUNDLE)).await.unwrap_err();
        assert!(!bench.path("deep").exists());
        error
    };
    // No rules, and no key of ours.
    assert!(matches!(store.ready_for_secrets().await, Err(Error::NoSopsRules { .. })));
    assert!(matches!(refused().await, Error::NoSopsRules { .. }));
    bench.rules("    encrypted_regex: ^(key|bootstraptoken)$\n");
    let error = refused().await;
    assert!(matches!(&error, Error::LeftPlain { key, .. } if key == "cluster.secret"), "{error:?}");
    bench.rules("    path_regex: ^other/\n");
    assert!(matches!(refused().await, Error::SopsRules { .. }));
    // For somebody else, whose key is not at hand.
    let other = Identity::generate().to_public().to_string();
    std::fs::write(bench.path(".sops.yaml"), format!("creation_rules: [{{age: {other}}}]\n")).unwrap();
    let error = refused().await;
    assert!(matches!(&error, Error::Sops { source, .. } if source.to_string().contains(&other)), "{error:?}");
    assert!(store.ready_for_secrets().await.is_err());
    // What is no secret may stay in plain.
    bench.rules("    unencrypted_regex: ^(crt|id)$\n");
    store.write_new_secrets(&bytes(BUNDLE)).await.unwrap();
    assert!(bench.text().contains("certificate-of-os") && !bench.text().contains("canary"));
}

#[tokio::test]
async fn without_rules_our_own_key_is_used() {
    let bench = Bench::new();
    bench.own.make().unwrap();
    let store = bench.store();
    store.write_new_secrets(&bytes(BUNDLE)).await.unwrap();
    assert!(store.secrets().await.unwrap().is_some());
    assert!(bench.text().contains(&bench.own.public().unwrap()));
}

#[tokio::test]
async fn a_file_is_encrypted_anew_for_whom_the_rules_name() {
    let bench = Bench::new();
    bench.put(&format!("other: value\n{OWNER}{BUNDLE}"));
    let second = Identity::generate();
    let rules = format!("creation_rules: [{{age: \"{},{}\"}}]\n", bench.recipient, second.to_public());
    std::fs::write(bench.path(".sops.yaml"), rules).unwrap();
    let (before, plain) = (bench.text(), bench.plain());
    assert_eq!(bench.store().rekey().await.unwrap(), [bench.file().display().to_string()]);
    assert_eq!(bench.plain(), plain);
    let values = |text: &str| -> Vec<String> {
        text.lines().filter(|line| line.contains("ENC[")).map(str::to_owned).collect()
    };
    assert!(values(&before).iter().all(|line| !bench.text().contains(line)), "the data key is a new one");
    let theirs = Identities::parse(second.to_string().expose_secret()).unwrap();
    assert!(Encrypted::parse(Format::Yaml, &bench.text()).unwrap().open(&theirs).is_ok());
}

#[tokio::test]
async fn a_bundle_that_the_store_keeps_is_not_overlooked() {
    let bench = Bench::new();
    bench.rules("");
    bench.own.make().unwrap();
    let before = Store::in_folder(bench.path("state"), "home", "1b4e28ba", bench.own.clone());
    before.write_new_secrets(&bytes(BUNDLE)).await.unwrap();
    let error = bench.store().secrets().await.unwrap_err();
    let Error::KeptElsewhere { declared, kept } = &error else { panic!("{error:?}") };
    assert!(*declared == bench.file() && kept.ends_with("secrets.yaml.age"), "{error}");
    assert_eq!(bench.store().secrets_left_behind().await.unwrap(), Some(bytes(BUNDLE)));
    bench.store().write_new_secrets(&bytes(BUNDLE)).await.unwrap();
    assert!(bench.store().secrets().await.unwrap().is_some());
    assert_eq!(bench.store().secrets_left_behind().await.unwrap(), None);
}

/// Every line cut off, left out or altered: found, and nothing is written over it.
#[tokio::test]
async fn damage_is_found_and_nothing_is_written_over_it() {
    let bench = Bench::new();
    bench.put(&format!("note_unencrypted: left\n{OWNER}{BUNDLE}"));
    let (store, whole) = (bench.store(), bench.text());
    let good = store.secrets().await.unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let joined = |lines: Vec<&str>| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    let (mut tried, mut found) = (0, 0);
    for (number, line) in lines.iter().enumerate() {
        let mut without = lines.clone();
        without.remove(number);
        let mut altered = lines.clone();
        let other = match line.rfind(|c: char| c.is_ascii_alphanumeric()) {
            Some(at) => format!(
                "{}{}{}",
                &line[..at],
                if line[at..].starts_with('x') { 'y' } else { 'x' },
                &line[at + 1..]
            ),
            None => continue,
        };
        altered[number] = &other;
        for changed in [joined(lines[..number].to_vec()), joined(without), joined(altered)] {
            std::fs::write(bench.file(), &changed).unwrap();
            tried += 1;
            match store.secrets().await {
                Err(_) => {
                    found += 1;
                    let replaced = store.replace_secrets(&bytes(BUNDLE), "old.yaml").await;
                    assert!(replaced.is_err() && bench.text() == changed, "line {number} of\n{changed}");
                }
                // Comments, and what sops itself does not look at.
                same => assert_eq!(same.unwrap(), good, "line {number} of\n{changed}"),
            }
        }
    }
    println!("damage\tSOPS bundle\t{tried} changes\t{found} found, {} change no value", tried - found);
    assert!(tried > 60 && found * 10 > tried * 8, "{found} of {tried}");
}

#[tokio::test]
async fn a_file_that_is_not_encrypted_is_refused() {
    let bench = Bench::new();
    std::fs::create_dir_all(bench.path("deep")).unwrap();
    std::fs::write(bench.file(), BUNDLE).unwrap();
    let error = bench.store().secrets().await.unwrap_err();
    assert!(
        matches!(&error, Error::Sops { source, .. } if source.to_string().contains("not encrypted")),
        "{error:?}"
    );
}

/// The real program: it opens what is written by its own rules, edits it, and finds what was changed.
#[tokio::test]
#[ignore = "needs real peers: cargo xtask conformance"]
async fn the_real_sops_opens_and_edits_a_bundle() {
    let Some(program) = std::env::var_os("DAEDAL_SOPS").map(PathBuf::from) else {
        println!("skipped: DAEDAL_SOPS names no program");
        return;
    };
    let (mut cases, mut differences) = (0, 0);
    let mut same = |same: bool, what: &str| {
        cases += 1;
        if !same {
            differences += 1;
            println!("DIFFERS: bundles in SOPS files: {what}");
        }
    };
    for settings in [
        "",
        "    unencrypted_regex: ^(crt|id)$\n    mac_only_encrypted: true\n",
        "    unencrypted_suffix: crt\n",
    ] {
        let bench = Bench::new();
        bench.rules(settings);
        std::fs::write(bench.path("keys.txt"), &bench.key).unwrap();
        let sops = |args: &[&str]| {
            let mut command = Command::new(&program);
            command.args(args).current_dir(bench.path("")).env_clear().env("HOME", bench.path(""));
            command.env("SOPS_AGE_KEY_FILE", bench.path("keys.txt")).env("SOPS_DISABLE_VERSION_CHECK", "1");
            let output = command.output().unwrap();
            output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let file = "deep/secrets.sops.yaml";
        let store = bench.store();
        store.write_new_secrets(&bytes(BUNDLE)).await.unwrap();
        let value = sops(&["decrypt", "--extract", "[\"certs\"][\"os\"][\"key\"]", file]);
        same(value.as_deref() == Some("canary-key-of-os"), "sops decrypts ours");
        same(sops(&["set", file, "[\"proxmox\"]", "{\"token\": \"s3cret\"}"]).is_some(), "sops edits ours");
        let read = store.secrets().await.unwrap().unwrap();
        same(json(&read)["cluster"]["secret"] == "canary-secret", "we read what sops edited");
        let newer = BUNDLE.replace("canary-key", "newer-key");
        store.replace_secrets(&bytes(&newer), "old.yaml").await.unwrap();
        let token = sops(&["decrypt", "--extract", "[\"proxmox\"][\"token\"]", file]);
        same(token.as_deref() == Some("s3cret"), "what sops added stays");
        let value = sops(&["decrypt", "--extract", "[\"certs\"][\"os\"][\"key\"]", file]);
        same(value.as_deref() == Some("newer-key-of-os"), "sops decrypts what was exchanged");
        store.rekey().await.unwrap();
        same(sops(&["decrypt", file]).is_some(), "sops decrypts what was encrypted anew");
        let whole = bench.text();
        let line = whole.lines().find(|line| line.trim_start().starts_with("key: ENC")).unwrap();
        std::fs::write(bench.file(), whole.replacen(&format!("{line}\n"), "", 1)).unwrap();
        same(store.secrets().await.is_err(), "we find a line that is gone");
        same(sops(&["decrypt", file]).is_none(), "sops finds a line that is gone");
    }
    println!("conformance\tbundles in SOPS files\t{cases}\t{differences}");
    assert!(cases > 0 && differences == 0, "{differences} differences");
}
