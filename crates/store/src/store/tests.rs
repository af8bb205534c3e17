//! What is kept comes back whole, private, and only to its own cluster.

use std::fs;

use jiff::Timestamp;

use super::*;

fn store(root: &Path) -> Store {
    let keys = Keyring::in_file(root.join("key.txt"));
    keys.make().unwrap();
    Store::in_folder(root, "home", "11111111-2222-3333-4444-555555555555", keys)
}

#[tokio::test]
async fn secrets_that_are_exchanged_leave_the_old_ones_behind() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let (old, new) = (SecretBytes::new(b"old".to_vec()), SecretBytes::new(b"new".to_vec()));
    store.write_new_secrets(&old).await.unwrap();
    let kept = store.replace_secrets(&new, "secrets-until-then.yaml").await.unwrap();
    assert!(kept.is_file());
    assert_eq!(store.secrets().await.unwrap(), Some(new.clone()));
    assert_eq!(store.kept("secrets-until-then.yaml").await.unwrap(), Some(old.clone()));
    // A name that is taken stops it while nothing has changed: nothing old is lost.
    let again = store.replace_secrets(&old, "secrets-until-then.yaml").await;
    assert!(again.is_err());
    assert_eq!(store.secrets().await.unwrap(), Some(new));
}

#[tokio::test]
async fn the_newest_generation_is_kept() {
    let root = tempfile::tempdir().unwrap();
    let store = store(root.path());
    assert_eq!(store.generation::<String>().await.unwrap(), None);
    for one in ["first", "second"].map(str::to_owned) {
        store.record_generation(one.clone()).await.unwrap();
        assert_eq!(store.generation().await.unwrap(), Some(one));
    }
}

fn owner(who: &str) -> Owner {
    Owner {
        who: who.to_owned(),
        machine: "forge".to_owned(),
        pid: 42,
        doing: "apply".to_owned(),
        since: Timestamp::from_second(1_800_000_000).unwrap(),
    }
}

#[tokio::test]
async fn secrets_come_back_and_are_never_overwritten() {
    let root = tempfile::tempdir().unwrap();
    let store = store(root.path());
    assert!(store.secrets().await.unwrap().is_none());
    let first = SecretBytes::new(b"cluster:\n  id: one\n".to_vec());
    assert_eq!(store.write_new_secrets(&first).await.unwrap(), first);
    let second = store.write_new_secrets(&SecretBytes::new(b"two".to_vec())).await;
    assert!(matches!(second, Err(Error::SecretsExist { .. })));
    assert_eq!(store.secrets().await.unwrap(), Some(first));
    assert!(folder::is_private(&store.path(SECRETS)));
}

/// The files of the cluster, by name.
fn files(store: &Store) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(store.place()).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect()
}

fn holds(bytes: &[u8], needle: &str) -> bool {
    bytes.windows(needle.len()).any(|window| window == needle.as_bytes())
}

#[tokio::test]
async fn nothing_secret_is_in_the_folder_in_plain() {
    let root = tempfile::tempdir().unwrap();
    let store = store(root.path());
    store.write_new_secrets(&SecretBytes::new(b"token: hunter2\n".to_vec())).await.unwrap();
    store.keep("ccm.yaml", &SecretBytes::new(b"token: hunter3\n".to_vec())).unwrap();
    let files = files(&store);
    assert_eq!(files.keys().collect::<Vec<_>>(), ["ccm.yaml.age", "secrets.yaml.age"]);
    for (name, bytes) in &files {
        assert!(!holds(bytes, "hunter") && !holds(bytes, "AGE-SECRET-KEY"), "{name}");
        assert!(folder::is_private(&store.path(name)), "{name}");
    }
    assert_eq!(store.kept("ccm.yaml").await.unwrap().unwrap().expose(), b"token: hunter3\n");
    assert!(store.kept("other").await.unwrap().is_none());
}

#[tokio::test]
async fn secrets_without_their_key_are_an_error_and_no_new_key_is_made() {
    let root = tempfile::tempdir().unwrap();
    let store = store(root.path());
    store.write_new_secrets(&SecretBytes::new(b"one".to_vec())).await.unwrap();
    let key = root.path().join("key.txt");
    fs::rename(&key, root.path().join("elsewhere.txt")).unwrap();
    assert!(matches!(store.secrets().await, Err(Error::NoKey { file: Some(_), .. })));
    assert!(matches!(store.ensure_key(), Err(Error::NoKey { file: Some(_), .. })));
    let kept = store.keep("ccm.yaml", &SecretBytes::new(b"x".to_vec()));
    assert!(matches!(kept, Err(Error::NoKey { .. })) && !key.exists());
    Keyring::in_file(&key).make().unwrap();
    assert!(matches!(store.secrets().await, Err(Error::OtherKey { .. })));
    assert!(matches!(store.ensure_key(), Err(Error::OtherKey { .. })));
    // Whatever is encrypted has a key; once nothing is, another one may be made.
    fs::remove_file(&key).unwrap();
    fs::rename(store.path(SECRETS), store.path("ccm.yaml.age")).unwrap();
    assert!(matches!(store.ensure_key(), Err(Error::NoKey { file: Some(_), .. })));
    fs::remove_file(store.path("ccm.yaml.age")).unwrap();
    assert!(store.ensure_key().unwrap());
}

#[tokio::test]
async fn secrets_of_an_older_version_are_read_and_then_encrypted() {
    let root = tempfile::tempdir().unwrap();
    let store = store(root.path());
    assert!(!store.has_plain_secrets().unwrap() && !store.encrypt_plain_secrets().await.unwrap());
    let secrets = SecretBytes::new(b"token: hunter2\n".to_vec());
    folder::make_private_folder(store.place()).unwrap();
    let plain = seal::seal(&store.identity, secrets.expose());
    fs::write(store.path(PLAIN_SECRETS), &plain).unwrap();
    assert_eq!(store.secrets().await.unwrap(), Some(secrets.clone()));
    let over = store.write_new_secrets(&SecretBytes::new(b"two".to_vec())).await;
    assert!(matches!(over, Err(Error::SecretsExist { .. })));
    fs::hard_link(store.path(PLAIN_SECRETS), store.path(".secrets.yaml.new")).unwrap();
    assert!(store.encrypt_plain_secrets().await.unwrap());
    assert_eq!(files(&store).into_keys().collect::<Vec<_>>(), [SECRETS]);
    assert_eq!(store.secrets().await.unwrap(), Some(secrets));
    // Killed between the two files, it goes on from there.
    fs::write(store.path(PLAIN_SECRETS), &plain).unwrap();
    assert!(store.encrypt_plain_secrets().await.unwrap());
    assert_eq!(files(&store).into_keys().collect::<Vec<_>>(), [SECRETS]);
    // Killed in the making, it left only that.
    fs::write(store.path(".secrets.yaml.new"), b"half").unwrap();
    assert!(store.has_plain_secrets().unwrap() && !store.encrypt_plain_secrets().await.unwrap());
    assert_eq!(files(&store).into_keys().collect::<Vec<_>>(), [SECRETS]);
    // Two different ones are for a person to look at.
    fs::write(store.path(PLAIN_SECRETS), seal::seal(&store.identity, b"other")).unwrap();
    assert!(matches!(store.encrypt_plain_secrets().await, Err(Error::TwoBundles { .. })));
    assert_eq!(files(&store).len(), 2);
}

#[tokio::test]
async fn all_that_is_kept_can_be_encrypted_with_another_key() {
    let root = tempfile::tempdir().unwrap();
    let store = store(root.path());
    assert!(store.rekey().await.unwrap().is_empty(), "nothing is kept yet");
    let secrets = SecretBytes::new(b"one".to_vec());
    store.write_new_secrets(&secrets).await.unwrap();
    store.keep("ccm.yaml", &secrets).unwrap();
    let key = root.path().join("key.txt");
    let old = fs::read_to_string(&key).unwrap();
    fs::remove_file(&key).unwrap();
    Keyring::in_file(&key).make().unwrap();
    let new = fs::read_to_string(&key).unwrap();
    assert!(matches!(store.rekey().await, Err(Error::OtherKey { .. })));
    fs::write(&key, format!("{new}{old}")).unwrap();
    // Half done: one of them has the new key already.
    store.keep("ccm.yaml", &secrets).unwrap();
    assert_eq!(store.rekey().await.unwrap(), ["ccm.yaml.age", SECRETS]);
    fs::write(&key, &new).unwrap();
    assert_eq!(store.secrets().await.unwrap(), Some(secrets.clone()));
    assert_eq!(store.kept("ccm.yaml").await.unwrap(), Some(secrets));
    fs::write(&key, &old).unwrap();
    assert!(matches!(store.secrets().await, Err(Error::OtherKey { .. })));
}

#[tokio::test]
async fn damage_at_every_byte_is_an_error_and_never_data() {
    let root = tempfile::tempdir().unwrap();
    let store = store(root.path());
    let secrets = SecretBytes::new(b"cluster:\n  id: one\n".to_vec());
    store.write_new_secrets(&secrets).await.unwrap();
    let path = store.path(SECRETS);
    let whole = fs::read(&path).unwrap();
    // The last byte ends the last line of the armor, no more.
    for at in 0..whole.len() - 1 {
        fs::write(&path, &whole[..at]).unwrap();
        assert!(matches!(store.secrets().await, Err(Error::Damaged { .. })), "cut at {at}");
        let mut bent = whole.clone();
        bent[at] ^= 0x20;
        fs::write(&path, &bent).unwrap();
        // A bent name of the recipient is as good as another one's.
        let read = store.secrets().await;
        assert!(matches!(read, Err(Error::Damaged { .. } | Error::OtherKey { .. })), "bent at {at}");
    }
    fs::write(&path, &whole).unwrap();
    assert_eq!(store.secrets().await.unwrap(), Some(secrets));
}

#[tokio::test]
async fn another_clusters_secrets_are_not_ours() {
    let root = tempfile::tempdir().unwrap();
    let ours = store(root.path());
    ours.write_new_secrets(&SecretBytes::new(b"x".to_vec())).await.unwrap();
    let identity = "99999999-2222-3333-4444-555555555555";
    let other = Store::in_folder(root.path(), "home", identity, ours.keys().clone());
    assert!(matches!(other.secrets().await, Err(Error::OtherCluster { .. })));
}

#[test]
fn the_second_is_told_who_was_first_and_a_gone_owner_leaves_no_lock() {
    let root = tempfile::tempdir().unwrap();
    let store = store(root.path());
    let first = store.lock(&owner("ada")).unwrap();
    let message = store.lock(&owner("bob")).unwrap_err().to_string();
    assert_eq!(
        message,
        "cluster `home` is locked by ada on forge (process 42, apply, since 2027-01-15 08:00:00 UTC); \
         wait for it to finish"
    );
    // The moment before the first has written its name.
    fs::write(store.path("lock"), b"").unwrap();
    let message = store.lock(&owner("bob")).unwrap_err().to_string();
    assert_eq!(message, "cluster `home` is locked by another process; wait for it to finish");
    drop(first);
    // What a crash leaves: the owner's name in the file, and no lock.
    fs::write(store.path("lock"), serde_json::to_vec(&owner("crashed")).unwrap()).unwrap();
    store.lock(&owner("bob")).unwrap();
}

#[tokio::test]
async fn pins_are_kept_by_file() {
    let root = tempfile::tempdir().unwrap();
    let store = store(root.path());
    let pin = |file: &str, size| Pin { file: file.into(), size, sha256: "ab".repeat(32), disk_size: None };
    store.record_pin(pin("a.qcow2", 1)).await.unwrap();
    store.record_pin(pin("b.qcow2", 2)).await.unwrap();
    store.record_pin(pin("a.qcow2", 3)).await.unwrap();
    assert_eq!(store.pin("a.qcow2").await.unwrap(), Some(pin("a.qcow2", 3)));
    assert_eq!(store.pin("b.qcow2").await.unwrap(), Some(pin("b.qcow2", 2)));
    assert_eq!(store.pin("c.qcow2").await.unwrap(), None);
}

#[test]
fn the_journal_only_grows() {
    let root = tempfile::tempdir().unwrap();
    let store = store(root.path());
    let entry = crate::Entry {
        at: Timestamp::UNIX_EPOCH,
        what: "begun".into(),
        subject: "cp-1: creating the VM".into(),
        detail: String::new(),
    };
    store.journal().unwrap().note(&entry).unwrap();
    store.journal().unwrap().note(&entry).unwrap();
    let text = fs::read_to_string(store.path("journal.jsonl")).unwrap();
    let lines: Vec<crate::Entry> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines, [entry.clone(), entry]);
}
