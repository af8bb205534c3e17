//! What is kept comes back whole, private, and only to its own cluster.

mod everywhere;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use jiff::Timestamp;

use super::secrets::{PLAIN_SECRETS, SECRETS};
use super::*;
use crate::contract::{all, owner};
use crate::{Entry, Pin, files};

const UUID: &str = "11111111-2222-3333-4444-555555555555";

fn store(root: &Path) -> Store {
    let keys = Keyring::in_file(root.join("key.txt"));
    keys.make().unwrap();
    Store::in_folder(root, "home", UUID, keys)
}

impl Store {
    /// Where a file is, for whoever breaks it.
    fn path(&self, file: &str) -> PathBuf {
        self.place().join(file)
    }
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
    assert!(files::is_private(&store.path(SECRETS)));
}

/// The files of the cluster, by name.
fn kept_files(store: &Store) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(store.place()).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap_or_default()))
        .collect()
}

fn holds(bytes: &[u8], needle: &str) -> bool {
    bytes.windows(needle.len()).any(|window| window == needle.as_bytes())
}

/// Mission: M14
#[tokio::test]
async fn nothing_secret_is_in_the_folder_in_plain() {
    let root = tempfile::tempdir().unwrap();
    let store = store(root.path());
    store.write_new_secrets(&SecretBytes::new(b"token: hunter2\n".to_vec())).await.unwrap();
    store.keep("ccm.yaml", &SecretBytes::new(b"token: hunter3\n".to_vec())).await.unwrap();
    let files = kept_files(&store);
    assert_eq!(files.keys().collect::<Vec<_>>(), ["ccm.yaml.age", "secrets.yaml.age"]);
    for (name, bytes) in &files {
        assert!(!holds(bytes, "hunter") && !holds(bytes, "AGE-SECRET-KEY"), "{name}");
        assert!(files::is_private(&store.path(name)), "{name}");
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
    assert!(matches!(store.ensure_key().await, Err(Error::NoKey { file: Some(_), .. })));
    let kept = store.keep("ccm.yaml", &SecretBytes::new(b"x".to_vec())).await;
    assert!(matches!(kept, Err(Error::NoKey { .. })) && !key.exists());
    Keyring::in_file(&key).make().unwrap();
    assert!(matches!(store.secrets().await, Err(Error::OtherKey { .. })));
    assert!(matches!(store.ensure_key().await, Err(Error::OtherKey { .. })));
    // Whatever is encrypted has a key; once nothing is, another one may be made.
    fs::remove_file(&key).unwrap();
    fs::rename(store.path(SECRETS), store.path("ccm.yaml.age")).unwrap();
    assert!(matches!(store.ensure_key().await, Err(Error::NoKey { file: Some(_), .. })));
    fs::remove_file(store.path("ccm.yaml.age")).unwrap();
    assert!(store.ensure_key().await.unwrap());
}

#[tokio::test]
async fn secrets_of_an_older_version_are_read_and_then_encrypted() {
    let root = tempfile::tempdir().unwrap();
    let store = store(root.path());
    assert!(!store.has_plain_secrets().await.unwrap() && !store.encrypt_plain_secrets().await.unwrap());
    let secrets = SecretBytes::new(b"token: hunter2\n".to_vec());
    files::make_private_folder(&store.place()).unwrap();
    let plain = seal::seal(&store.identity, secrets.expose());
    fs::write(store.path(PLAIN_SECRETS), &plain).unwrap();
    assert_eq!(store.secrets().await.unwrap(), Some(secrets.clone()));
    let over = store.write_new_secrets(&SecretBytes::new(b"two".to_vec())).await;
    assert!(matches!(over, Err(Error::SecretsExist { .. })));
    fs::hard_link(store.path(PLAIN_SECRETS), store.path(".secrets.yaml.new")).unwrap();
    assert!(store.encrypt_plain_secrets().await.unwrap());
    assert_eq!(kept_files(&store).into_keys().collect::<Vec<_>>(), [SECRETS]);
    assert_eq!(store.secrets().await.unwrap(), Some(secrets));
    // Killed between the two files, it goes on from there.
    fs::write(store.path(PLAIN_SECRETS), &plain).unwrap();
    assert!(store.encrypt_plain_secrets().await.unwrap());
    assert_eq!(kept_files(&store).into_keys().collect::<Vec<_>>(), [SECRETS]);
    // Killed in the making, it left only that.
    fs::write(store.path(".secrets.yaml.new"), b"half").unwrap();
    assert!(!store.has_plain_secrets().await.unwrap());
    assert_eq!(kept_files(&store).into_keys().collect::<Vec<_>>(), [SECRETS]);
    // Two different ones are for a person to look at.
    fs::write(store.path(PLAIN_SECRETS), seal::seal(&store.identity, b"other")).unwrap();
    assert!(matches!(store.encrypt_plain_secrets().await, Err(Error::TwoBundles { .. })));
    assert_eq!(kept_files(&store).len(), 2);
}

#[tokio::test]
async fn all_that_is_kept_can_be_encrypted_with_another_key() {
    let root = tempfile::tempdir().unwrap();
    let store = store(root.path());
    assert!(store.rekey().await.unwrap().is_empty(), "nothing is kept yet");
    let secrets = SecretBytes::new(b"one".to_vec());
    store.write_new_secrets(&secrets).await.unwrap();
    store.keep("ccm.yaml", &secrets).await.unwrap();
    let key = root.path().join("key.txt");
    let old = fs::read_to_string(&key).unwrap();
    fs::remove_file(&key).unwrap();
    Keyring::in_file(&key).make().unwrap();
    let new = fs::read_to_string(&key).unwrap();
    assert!(matches!(store.rekey().await, Err(Error::OtherKey { .. })));
    fs::write(&key, format!("{new}{old}")).unwrap();
    // Half done: one of them has the new key already.
    store.keep("ccm.yaml", &secrets).await.unwrap();
    assert_eq!(store.rekey().await.unwrap(), ["ccm.yaml.age", SECRETS]);
    fs::write(&key, &new).unwrap();
    assert_eq!(store.secrets().await.unwrap(), Some(secrets.clone()));
    assert_eq!(store.kept("ccm.yaml").await.unwrap(), Some(secrets));
    fs::write(&key, &old).unwrap();
    assert!(matches!(store.secrets().await, Err(Error::OtherKey { .. })));
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

#[tokio::test]
async fn the_second_is_told_who_was_first_and_a_gone_owner_leaves_no_lock() {
    let root = tempfile::tempdir().unwrap();
    let store = store(root.path());
    let first = store.lock(&owner("ada")).await.unwrap();
    let message = store.lock(&owner("bob")).await.unwrap_err().to_string();
    assert_eq!(
        message,
        "cluster `home` is locked by ada on forge (process 42, apply, since 2027-01-15 08:00:00 UTC); \
         wait for it to finish"
    );
    // The moment before the first has written its name.
    fs::write(store.path("lock"), b"").unwrap();
    let message = store.lock(&owner("bob")).await.unwrap_err().to_string();
    assert_eq!(message, "cluster `home` is locked by another process; wait for it to finish");
    drop(first);
    // What a crash leaves: the owner's name in the file, and no lock.
    fs::write(store.path("lock"), serde_json::to_vec(&owner("crashed")).unwrap()).unwrap();
    store.lock(&owner("bob")).await.unwrap();
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

fn entry(subject: &str) -> Entry {
    let subject = subject.to_owned();
    Entry { at: Timestamp::UNIX_EPOCH, what: "begun".into(), subject, detail: String::new() }
}

#[tokio::test]
async fn the_journal_only_grows() {
    let root = tempfile::tempdir().unwrap();
    let store = store(root.path());
    let entries =
        [entry("cp-1: creating the VM"), entry("cp-1: starting it"), entry("cp-2: creating the VM")];
    for run in [&entries[..2], &entries[2..]] {
        let journal = store.journal();
        run.iter().for_each(|entry| journal.note(entry));
        journal.close().await.unwrap();
    }
    let text = fs::read_to_string(store.path("journal.jsonl")).unwrap();
    let lines: Vec<Entry> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines, entries);
    assert!(files::is_private(&store.path("journal.jsonl")));
    // Whoever cannot write it learns why in the end, and is not held up before.
    fs::remove_file(store.path("journal.jsonl")).unwrap();
    fs::create_dir(store.path("journal.jsonl")).unwrap();
    let journal = store.journal();
    journal.note(&entries[0]);
    assert!(matches!(journal.close().await, Err(Error::Io { .. })));
}

/// A store as the version before made it: everything in it is read, and gets its place again.
#[tokio::test]
async fn a_store_of_the_version_before_is_used_as_it_is() {
    let root = tempfile::tempdir().unwrap();
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kept"), root.path());
    let store = Store::in_folder(root.path(), "home", UUID, Keyring::in_file(root.path().join("key.txt")));
    let names: Vec<_> = kept_files(&store).into_keys().collect();
    let text = |secret: Option<SecretBytes>| String::from_utf8(secret.unwrap().expose().to_vec()).unwrap();
    assert_eq!(text(store.secrets().await.unwrap()), "cluster:\n  id: second\n");
    let old = store.kept("secrets-until-20261101T000000Z.yaml").await.unwrap();
    assert_eq!(text(old), "cluster:\n  id: first\n");
    assert_eq!(text(store.kept("ccm.yaml").await.unwrap()), "clusters: []\n");
    assert_eq!(store.where_kept("ccm.yaml").await.unwrap(), Some(store.path("ccm.yaml.age")));
    assert_eq!(store.pin("b.qcow2").await.unwrap().unwrap().size, 2);
    assert_eq!(store.generation::<String>().await.unwrap().unwrap(), "seventh");
    assert_eq!(store.addresses().await.unwrap(), None, "they are new");
    let backups = store.backups().await.unwrap();
    assert_eq!(backups[0].place, store.path("backups/etcd-20261101T000000Z.db"));
    assert_eq!(backups[0].description.as_deref(), Some(&br#"{"cluster": "home"}"#[..]));
    assert_eq!(backups.len(), 1);

    let lock = store.lock(&owner("ada")).await.unwrap();
    assert!(!store.ensure_key().await.unwrap() && !store.has_plain_secrets().await.unwrap());
    store.record_pin(Pin { size: 3, ..store.pin("b.qcow2").await.unwrap().unwrap() }).await.unwrap();
    store.record_generation("eighth").await.unwrap();
    let encrypted = ["ccm.yaml.age", "secrets-until-20261101T000000Z.yaml.age", SECRETS];
    assert_eq!(store.rekey().await.unwrap(), encrypted);
    let journal = store.journal();
    journal.note(&entry("cp-1: creating the VM"));
    journal.close().await.unwrap();
    drop(lock);
    assert_eq!(kept_files(&store).into_keys().collect::<Vec<_>>(), names, "the same files");
    assert_eq!(fs::read_to_string(store.path("journal.jsonl")).unwrap().lines().count(), 2);
    assert_eq!(store.pin("a.qcow2").await.unwrap().unwrap().size, 1);
    assert_eq!(text(store.secrets().await.unwrap()), "cluster:\n  id: second\n");
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap().map(|entry| entry.unwrap()) {
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => {
                fs::create_dir(&to).unwrap();
                copy(&entry.path(), &to);
            }
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

/// All that a store keeps, in every backend, and encrypted before the backend sees it.
#[tokio::test(start_paused = true)]
async fn a_store_is_the_same_in_every_backend() {
    for place in all() {
        let keys = tempfile::tempdir().unwrap();
        let keyring = Keyring::in_file(keys.path().join("key.txt"));
        let store = Store::over(place.backend.clone(), "home", UUID, keyring);
        let lock = store.lock(&owner("ada")).await.unwrap();
        assert!(store.ensure_key().await.unwrap());
        let secrets = SecretBytes::new(b"token: hunter2\n".to_vec());
        store.write_new_secrets(&secrets).await.unwrap();
        store.keep("ccm.yaml", &secrets).await.unwrap();
        store.record_generation(7).await.unwrap();
        let addresses = BTreeMap::from([("cp-1".to_owned(), "10.0.0.11".parse().unwrap())]);
        store.record_addresses(&addresses).await.unwrap();
        let file = store.backup_scratch("a.db").unwrap_or(place.elsewhere.clone());
        files::make_private_folder(file.parent().unwrap()).unwrap();
        fs::write(&file, "snapshot").unwrap();
        let kept = store.keep_backup("a.db", &file, b"{}").await.unwrap();
        let name = if place.backend.is_private() { "backups/a.db" } else { "backups/a.db.age" };
        assert_eq!(kept, place.backend.locate(name));
        assert!(
            place.backend.is_private()
                || !holds(place.backend.get(name).await.unwrap().unwrap().bytes.expose(), "snapshot")
        );
        let fetched = store.fetch_backup(&kept, keys.path()).await.unwrap().unwrap();
        assert_eq!(fs::read_to_string(&fetched).unwrap(), "snapshot");
        assert_eq!(fs::read_to_string(keys.path().join("a.db.json")).unwrap(), "{}");
        assert_eq!(store.fetch_backup(Path::new("elsewhere"), keys.path()).await.unwrap(), None);
        let listed = [KeptBackup { place: kept, description: Some(b"{}".to_vec()) }];
        assert_eq!(store.backups().await.unwrap(), listed);
        lock.release().await.unwrap();
        assert_eq!(store.secrets().await.unwrap(), Some(secrets), "{}", place.name);
        assert_eq!(store.generation::<u32>().await.unwrap(), Some(7));
        assert_eq!(store.addresses().await.unwrap(), Some(addresses));
        let names = place.backend.list("").await.unwrap();
        assert_eq!(names, ["addresses.json", "ccm.yaml.age", "generation.json", SECRETS], "{}", place.name);
        for name in names {
            let blob = place.backend.get(&name).await.unwrap().unwrap();
            assert!(!holds(blob.bytes.expose(), "hunter"), "{name}");
        }
    }
}

/// Everything that a store writes is refused to whoever lost the lock, and nothing of it is there.
#[tokio::test(start_paused = true)]
async fn a_late_writer_is_refused_whatever_it_writes() {
    for place in all() {
        let keys = tempfile::tempdir().unwrap();
        let keyring = Keyring::in_file(keys.path().join("key.txt"));
        keyring.make().unwrap();
        let stores = [0; 2].map(|_| Store::over(place.backend.clone(), "home", UUID, keyring.clone()));
        let [late, next] = &stores;
        let lost = late.lock(&owner("ada")).await.unwrap();
        let secrets = SecretBytes::new(b"of ada".to_vec());
        late.write_new_secrets(&secrets).await.unwrap();
        place.lose_lease();
        let lock = next.lock(&owner("bob")).await.unwrap();
        next.record_generation(2).await.unwrap();
        assert!(matches!(late.still_locked().await, Err(Error::LeaseLost { .. })), "{}", place.name);
        next.still_locked().await.unwrap();
        let pin = Pin { file: "a".into(), size: 1, sha256: String::new(), disk_size: None };
        let other = SecretBytes::new(b"other".to_vec());
        fs::write(&place.elsewhere, "snapshot").unwrap();
        for written in [
            late.record_generation(1).await,
            late.record_pin(pin).await,
            late.record_addresses(&BTreeMap::new()).await,
            late.keep("ccm.yaml", &other).await,
            late.replace_secrets(&other, "old.yaml").await.map(drop),
            late.rekey().await.map(drop),
            late.keep_backup("a.db", &place.elsewhere, b"{}").await.map(drop),
        ] {
            assert!(matches!(written, Err(Error::LeaseLost { .. })), "{}: {written:?}", place.name);
        }
        drop(lost);
        late.still_locked().await.unwrap();
        assert_eq!(place.backend.list("").await.unwrap(), ["generation.json", SECRETS], "{}", place.name);
        assert_eq!(place.backend.list("backups/").await.unwrap(), [""; 0], "{}", place.name);
        next.record_generation(3).await.unwrap();
        assert_eq!(late.generation::<u32>().await.unwrap(), Some(3));
        drop(lock);
    }
}

/// A lease that ends by itself is renewed for as long as its lock is held, and no longer.
#[tokio::test(start_paused = true)]
async fn a_lock_is_renewed_while_it_is_held() {
    use std::time::Duration;
    let memory = crate::Memory::new(Duration::from_secs(30));
    let keys = Keyring::given("", "KEY");
    let stores = [0; 2].map(|_| Store::over(Arc::new(memory.clone()), "home", UUID, keys.clone()));
    let first = stores[0].lock(&owner("ada")).await.unwrap();
    assert_eq!(first.epoch(), 1);
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_secs(29)).await;
        assert!(matches!(stores[1].lock(&owner("bob")).await, Err(Error::Locked { .. })));
    }
    stores[0].record_generation(1).await.unwrap();
    drop(first);
    // Whoever dies renews nothing.
    let Acquired::Held(dead) = memory.acquire(&owner("dead")).await.unwrap() else {
        panic!("it was dropped")
    };
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert_eq!(stores[1].lock(&owner("bob")).await.unwrap().epoch(), 3);
    assert!(matches!(dead.renew().await, Err(Error::LeaseLost { .. })));
}

/// Pins are recorded at the same time by the steps of one run, and none is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn pins_that_are_recorded_at_once_are_all_kept() {
    let root = tempfile::tempdir().unwrap();
    let store = store(root.path());
    let recording: Vec<_> = (0..8)
        .map(|number| {
            let store = store.clone();
            let pin = Pin { file: format!("{number}"), size: number, sha256: String::new(), disk_size: None };
            tokio::spawn(async move { store.record_pin(pin).await })
        })
        .collect();
    for one in recording {
        one.await.unwrap().unwrap();
    }
    for number in 0..8 {
        assert_eq!(store.pin(&number.to_string()).await.unwrap().unwrap().size, number);
    }
}
