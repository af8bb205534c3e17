//! One cluster's part of a backend.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::folder;
use crate::journal::Journal;
use crate::lock::{Lock, Owner};
use crate::pins::Pin;
use crate::seal;
use crate::secret::SecretBytes;

/// Where things are kept. Further backends are further variants.
#[derive(Clone, Debug)]
enum Backend {
    /// A folder on this machine.
    Folder(PathBuf),
}

/// What outlives a run, for one cluster. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    backend: Backend,
    name: String,
    identity: String,
}

impl Store {
    /// The store of cluster `name` with `identity` (its uuid) in the folder `root`. Makes nothing yet.
    pub fn in_folder(root: impl Into<PathBuf>, name: impl Into<String>, identity: impl Into<String>) -> Self {
        let name = name.into();
        Self { backend: Backend::Folder(root.into().join(&name)), name, identity: identity.into() }
    }

    /// Where it is, for messages.
    pub fn place(&self) -> &Path {
        let Backend::Folder(path) = &self.backend;
        path
    }

    fn path(&self, file: &str) -> PathBuf {
        self.place().join(file)
    }

    /// Takes the lock, or says who has it.
    pub fn lock(&self, owner: &Owner) -> Result<Lock, Error> {
        folder::make_private_folder(self.place())?;
        Lock::acquire(&self.path("lock"), &self.name, owner)
    }

    /// Opens the journal for appending.
    pub fn journal(&self) -> Result<Journal, Error> {
        folder::make_private_folder(self.place())?;
        Journal::open(self.path("journal.jsonl"))
    }

    /// The secrets bundle; none if there never was one. A damaged one is an error.
    pub async fn secrets(&self) -> Result<Option<SecretBytes>, Error> {
        let store = self.clone();
        blocking(move || Ok(store.read_sealed(SECRETS)?.map(SecretBytes::new))).await
    }

    /// Stores a new bundle: written, synced, read back, compared, and only then handed back for use.
    pub async fn write_new_secrets(&self, secrets: &SecretBytes) -> Result<SecretBytes, Error> {
        let (store, secrets) = (self.clone(), secrets.clone());
        blocking(move || {
            folder::make_private_folder(store.place())?;
            let path = store.path(SECRETS);
            let sealed = SecretBytes::new(seal::seal(&store.identity, secrets.expose()));
            folder::write_new(&path, sealed.expose())?;
            match store.read_sealed(SECRETS)? {
                Some(read) if read == secrets.expose() => Ok(SecretBytes::new(read)),
                _ => Err(Error::ReadBack { path }),
            }
        })
        .await
    }

    /// What is known of an image file.
    pub async fn pin(&self, file: &str) -> Result<Option<Pin>, Error> {
        Ok(self.pins().await?.remove(file))
    }

    /// Records what an image file is.
    pub async fn record_pin(&self, pin: Pin) -> Result<(), Error> {
        let mut pins = self.pins().await?;
        pins.insert(pin.file.clone(), pin);
        let store = self.clone();
        blocking(move || {
            folder::make_private_folder(store.place())?;
            let text = serde_json::to_vec_pretty(&pins).unwrap_or_default();
            folder::write_private(&store.path(PINS), &seal::seal(&store.identity, &text))
        })
        .await
    }

    async fn pins(&self) -> Result<BTreeMap<String, Pin>, Error> {
        let store = self.clone();
        blocking(move || match store.read_sealed(PINS)? {
            None => Ok(BTreeMap::new()),
            Some(text) => serde_json::from_slice(&text)
                .map_err(|error| Error::Damaged { path: store.path(PINS), why: error.to_string() }),
        })
        .await
    }

    /// Reads a sealed file and checks that it is whole and this cluster's.
    fn read_sealed(&self, file: &str) -> Result<Option<Vec<u8>>, Error> {
        let path = self.path(file);
        let Some(bytes) = folder::read(&path)? else { return Ok(None) };
        let bytes = SecretBytes::new(bytes);
        let opened = seal::open(bytes.expose()).map_err(|why| Error::Damaged { path: path.clone(), why })?;
        if opened.cluster != self.identity {
            return Err(Error::OtherCluster {
                path,
                found: opened.cluster.to_owned(),
                wanted: self.identity.clone(),
            });
        }
        Ok(Some(opened.content.to_vec()))
    }
}

const SECRETS: &str = "secrets.yaml";
const PINS: &str = "images.json";

/// File work waits for disks; it is kept off the threads that serve the network.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.map_err(Error::Interrupted)?
}

#[cfg(test)]
mod tests {
    use std::fs;

    use jiff::Timestamp;

    use super::*;

    fn store(root: &Path) -> Store {
        Store::in_folder(root, "home", "11111111-2222-3333-4444-555555555555")
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

    #[tokio::test]
    async fn damage_at_every_byte_is_an_error_and_never_data() {
        let root = tempfile::tempdir().unwrap();
        let store = store(root.path());
        store.write_new_secrets(&SecretBytes::new(b"cluster:\n  id: one\n".to_vec())).await.unwrap();
        let path = store.path(SECRETS);
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            fs::write(&path, &whole[..at]).unwrap();
            assert!(matches!(store.secrets().await, Err(Error::Damaged { .. })), "cut at {at}");
            let mut bent = whole.clone();
            bent[at] ^= 0x20;
            fs::write(&path, &bent).unwrap();
            assert!(matches!(store.secrets().await, Err(Error::Damaged { .. })), "bent at {at}");
        }
        fs::write(&path, &whole).unwrap();
        assert!(store.secrets().await.unwrap().is_some());
    }

    #[tokio::test]
    async fn another_clusters_secrets_are_not_ours() {
        let root = tempfile::tempdir().unwrap();
        store(root.path()).write_new_secrets(&SecretBytes::new(b"x".to_vec())).await.unwrap();
        let other = Store::in_folder(root.path(), "home", "99999999-2222-3333-4444-555555555555");
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
        let pin =
            |file: &str, size| Pin { file: file.into(), size, sha256: "ab".repeat(32), disk_size: None };
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
}
