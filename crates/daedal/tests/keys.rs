//! The key of the store and the key for SSH, wherever the inventory says that they are.

use crate::common;

use std::process::Command;

use crate::stores::{listening, refused, vault::ROOT, vault::VaultServer, write_bundle};
use common::{Changed, good};
use daedal_sops::{Format, Rule};
use daedal_store::Keyring;

/// The home example with a key of its store, and more in its spec.
fn with(key: &str, more: &str) -> Changed {
    let spec = format!("  key: {key}\n\n{more}  network:\n");
    Changed::new("home", &[("  network:\n", &spec)])
}

/// The store is encrypted for the key that the inventory refers to, in each of the five places; a missing one is named and no
/// other key takes its place, unless the operator names one.
#[test]
fn the_key_of_the_store_is_where_the_inventory_says() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key.txt");
    let ring = Keyring::in_file(&file);
    ring.make().unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    let key = text.lines().find(|line| !line.starts_with('#')).unwrap();
    let bundle = folder.path().join("bundle.yaml");
    write_bundle(&bundle, 1);
    let own = folder.path().join("own");
    let command = |words: &[&str], inventory: &Changed| -> Command {
        let mut command = common::command(words);
        command.arg("-f").arg(inventory.file()).env("XDG_CONFIG_HOME", &own);
        command.env("SOPS_AGE_KEY", key).env("VAULT_TOKEN", ROOT);
        common::allow_commands(&mut command, folder.path());
        command
    };
    let import = ["secrets", "import", bundle.to_str().unwrap(), "--unchecked"];
    let show = ["secrets", "export", "--stdout"];
    let server = VaultServer::new();
    server.write("team/daedal", Some(serde_json::json!({"age": key, "other": "hunter2"})));
    let address = listening(async move { server.listen().await });
    let vault =
        format!("  vault: {{address: \"http://{address}\", auth: {{token: {{env: VAULT_TOKEN}}}}}}\n\n");

    for (place, more) in [
        ("{env: STORE_KEY}", ""),
        ("{file: keys/store.txt}", ""),
        ("{sops: {file: keys.sops.yaml, key: daedal.key}}", ""),
        ("{vault: {path: secret/team/daedal, key: age}}", vault.as_str()),
        ("{command: [cat, keys/store.txt]}", ""),
    ] {
        let inventory = with(place, more);
        let beside = |name: &str| inventory.file().with_file_name(name);
        // Before it is there.
        if !place.contains("vault") {
            let ran = command(&import, &inventory).output().unwrap();
            refused(&ran, 78, "the place that `spec.key` names holds no key: it is missing: ");
            assert!(!beside(".daedal/home/home/secrets.yaml.age").exists());
        }
        std::fs::create_dir_all(beside("keys")).unwrap();
        std::fs::write(beside("keys/store.txt"), &text).unwrap();
        let rule = Rule::for_recipients([ring.public().unwrap()]);
        let plain = format!("daedal: {{key: {key}}}\n");
        let (now, rng) = (jiff::Timestamp::now(), &mut rand::thread_rng());
        let closed = daedal_sops::encrypt(Format::Yaml, plain.as_bytes(), &rule, now, rng).unwrap();
        std::fs::write(beside("keys.sops.yaml"), closed).unwrap();
        good(&command(&import, &inventory).env("STORE_KEY", key).output().unwrap());
        let kept = beside(".daedal/home/home/secrets.yaml.age");
        assert!(ring.decrypt(&kept, &std::fs::read(&kept).unwrap()).is_ok(), "{place}");
        let exported = good(&command(&show, &inventory).env("STORE_KEY", key).output().unwrap());
        assert_eq!(exported, std::fs::read_to_string(&bundle).unwrap(), "{place}");
        // No key of the operator's own was made or used; one that they name is.
        assert!(!own.join("daedal").exists(), "{place}");
        let other = folder.path().join("other.txt");
        Keyring::in_file(&other).make().unwrap();
        let ran = command(&show, &inventory).arg("--key").arg(&other).output().unwrap();
        refused(&ran, 78, "is encrypted for another key than those in");
    }
    let wrong = with("{vault: {path: secret/team/daedal, key: aeg}}", &vault);
    refused(&command(&import, &wrong).output().unwrap(), 78, "It has these keys: age, other.");
    refused(
        &command(&["check", "--untrusted"], &with("{env: STORE_KEY}", "")).output().unwrap(),
        77,
        "STORE_KEY",
    );
}
