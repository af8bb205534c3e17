//! One cluster's part of a backend.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Error;
use crate::folder;
use crate::generation::Generation;
use crate::journal::Journal;
use crate::keyring::{ENCRYPTED, Keyring};
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
    keys: Keyring,
}

impl Store {
    /// The store of cluster `name` with `identity` (its uuid) in the folder `root`; what is secret in it is encrypted
    /// with `keys`. Makes nothing yet.
    pub fn in_folder(
        root: impl Into<PathBuf>,
        name: impl Into<String>,
        identity: impl Into<String>,
        keys: Keyring,
    ) -> Self {
        let name = name.into();
        Self { backend: Backend::Folder(root.into().join(&name)), name, identity: identity.into(), keys }
    }

    /// Where it is, for messages.
    pub fn place(&self) -> &Path {
        let Backend::Folder(path) = &self.backend;
        path
    }

    /// What encrypts the secrets in it.
    pub fn keys(&self) -> &Keyring {
        &self.keys
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

    /// Makes the key if there is none, and nothing here that is encrypted with one that is elsewhere. Whether it did.
    pub fn ensure_key(&self) -> Result<bool, Error> {
        for name in self.encrypted_names()? {
            self.read_sealed(&name)?;
        }
        self.keys.make()
    }

    /// The names of all files that are encrypted.
    fn encrypted_names(&self) -> Result<Vec<String>, Error> {
        let mut names = folder::names(self.place())?;
        names.retain(|name| name.ends_with(ENCRYPTED));
        Ok(names)
    }

    /// The secrets bundle; none if there never was one. A damaged one is an error.
    pub async fn secrets(&self) -> Result<Option<SecretBytes>, Error> {
        let store = self.clone();
        blocking(move || match store.read_sealed(SECRETS)? {
            None => store.read_sealed(PLAIN_SECRETS),
            secrets => Ok(secrets),
        })
        .await
    }

    /// Stores a new bundle: encrypted, written, synced, read back, compared, and only then handed back for use.
    pub async fn write_new_secrets(&self, secrets: &SecretBytes) -> Result<SecretBytes, Error> {
        let (store, secrets) = (self.clone(), secrets.clone());
        blocking(move || {
            let plain = store.path(PLAIN_SECRETS);
            if folder::exists(&plain)? {
                return Err(Error::SecretsExist { path: plain });
            }
            store.write_new_sealed(SECRETS, &secrets)
        })
        .await
    }

    /// Exchanges the bundle for another. The old one is kept first, under a name of its own. To be called under the lock.
    pub async fn replace_secrets(&self, secrets: &SecretBytes, old_name: &str) -> Result<PathBuf, Error> {
        let (store, secrets, old_file) = (self.clone(), secrets.clone(), format!("{old_name}{ENCRYPTED}"));
        let old = self.secrets().await?;
        blocking(move || {
            if let Some(old) = old {
                store.write_new_sealed(&old_file, &old)?;
            }
            let path = store.path(SECRETS);
            folder::write_private(&path, &store.encrypted(&secrets)?)?;
            if store.read_sealed(SECRETS)?.is_none_or(|read| read != secrets) {
                return Err(Error::ReadBack { path });
            }
            folder::remove_private(&store.path(PLAIN_SECRETS))?;
            Ok(store.path(&old_file))
        })
        .await
    }

    /// Whether an older version kept secrets in plain, or was killed while it did.
    pub fn has_plain_secrets(&self) -> Result<bool, Error> {
        let plain = self.path(PLAIN_SECRETS);
        Ok(folder::exists(&plain)? || folder::exists(&folder::beside(&plain))?)
    }

    /// Encrypts secrets that an older version kept in plain. Whether there were any. To be called under the lock.
    pub async fn encrypt_plain_secrets(&self) -> Result<bool, Error> {
        let store = self.clone();
        blocking(move || {
            let plain = store.read_sealed(PLAIN_SECRETS)?;
            if let Some(plain) = &plain {
                match store.read_sealed(SECRETS)? {
                    None => drop(store.write_new_sealed(SECRETS, plain)?),
                    Some(encrypted) if encrypted == *plain => {}
                    Some(_) => {
                        let (plain, encrypted) = (store.path(PLAIN_SECRETS), store.path(SECRETS));
                        return Err(Error::TwoBundles { plain, encrypted });
                    }
                }
            }
            folder::remove_private(&store.path(PLAIN_SECRETS))?;
            Ok(plain.is_some())
        })
        .await
    }

    /// Something secret that is kept beside the bundle, such as an account's token, by its name.
    pub async fn kept(&self, name: &str) -> Result<Option<SecretBytes>, Error> {
        let (store, file) = (self.clone(), format!("{name}{ENCRYPTED}"));
        blocking(move || store.read_sealed(&file)).await
    }

    /// Keeps something secret beside the bundle, encrypted, in place of what had the name. Waits for the disk. To be called
    /// under the lock.
    pub fn keep(&self, name: &str, secret: &SecretBytes) -> Result<(), Error> {
        folder::make_private_folder(self.place())?;
        folder::write_private(&self.path(&format!("{name}{ENCRYPTED}")), &self.encrypted(secret)?)
    }

    /// Encrypts all that is kept anew, with the first of the keys; those it was encrypted with must still be there. The
    /// names of the files. To be called under the lock.
    pub async fn rekey(&self) -> Result<Vec<String>, Error> {
        let store = self.clone();
        blocking(move || {
            let names = store.encrypted_names()?;
            let read = |name: &String| Ok((store.path(name), store.read_sealed(name)?));
            // All of it is read first: what cannot be opened stops it while nothing has changed.
            let all: Vec<_> = names.iter().map(read).collect::<Result<_, Error>>()?;
            for (path, secret) in all {
                let Some(secret) = secret else { continue };
                let sealed = seal::seal(&store.identity, secret.expose());
                store.keys.replace(&path, &SecretBytes::new(sealed))?;
            }
            Ok(names)
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
        self.write_document(PINS, pins).await
    }

    async fn pins(&self) -> Result<BTreeMap<String, Pin>, Error> {
        Ok(self.read_document(PINS).await?.unwrap_or_default())
    }

    /// The newest generation of the cluster that was applied with this store, or onto which somebody said to go.
    pub async fn generation(&self) -> Result<Option<Generation>, Error> {
        self.read_document(GENERATION).await
    }

    /// Records a generation, in place of the one before. To be called under the lock.
    pub async fn record_generation(&self, generation: Generation) -> Result<(), Error> {
        self.write_document(GENERATION, generation).await
    }

    /// A sealed document by its file's name; none if there is none.
    async fn read_document<T>(&self, name: &'static str) -> Result<Option<T>, Error>
    where
        T: DeserializeOwned + Send + 'static,
    {
        let store = self.clone();
        blocking(move || match store.read_sealed(name)? {
            None => Ok(None),
            Some(text) => serde_json::from_slice(text.expose())
                .map(Some)
                .map_err(|error| Error::Damaged { path: store.path(name), why: error.to_string() }),
        })
        .await
    }

    /// Seals a document, in place of what had the name.
    async fn write_document<T>(&self, name: &'static str, document: T) -> Result<(), Error>
    where
        T: Serialize + Send + 'static,
    {
        let store = self.clone();
        blocking(move || {
            folder::make_private_folder(store.place())?;
            let text = serde_json::to_vec_pretty(&document).unwrap_or_default();
            folder::write_private(&store.path(name), &seal::seal(&store.identity, &text))
        })
        .await
    }

    fn encrypted(&self, secret: &SecretBytes) -> Result<Vec<u8>, Error> {
        let sealed = SecretBytes::new(seal::seal(&self.identity, secret.expose()));
        self.keys.encrypt(sealed.expose())
    }

    fn write_new_sealed(&self, file: &str, secret: &SecretBytes) -> Result<SecretBytes, Error> {
        folder::make_private_folder(self.place())?;
        let path = self.path(file);
        folder::write_new(&path, &self.encrypted(secret)?)?;
        match self.read_sealed(file)? {
            Some(read) if read == *secret => Ok(read),
            _ => Err(Error::ReadBack { path }),
        }
    }

    /// Reads a sealed file, encrypted or not, and checks that it is whole and this cluster's.
    fn read_sealed(&self, file: &str) -> Result<Option<SecretBytes>, Error> {
        let path = self.path(file);
        let Some(bytes) = folder::read(&path)?.map(SecretBytes::new) else { return Ok(None) };
        // What a file is called says what is in it: a secret that lost its encryption is no secret of ours.
        let bytes = match file.ends_with(ENCRYPTED) {
            true => self.keys.decrypt(&path, bytes.expose())?,
            false => bytes,
        };
        let opened = seal::open(bytes.expose()).map_err(|why| Error::Damaged { path: path.clone(), why })?;
        if opened.cluster != self.identity {
            return Err(Error::OtherCluster {
                path,
                found: opened.cluster.to_owned(),
                wanted: self.identity.clone(),
            });
        }
        Ok(Some(SecretBytes::new(opened.content.to_vec())))
    }
}

const SECRETS: &str = "secrets.yaml.age";
/// What older versions wrote.
const PLAIN_SECRETS: &str = "secrets.yaml";
const PINS: &str = "images.json";
const GENERATION: &str = "generation.json";

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
        assert_eq!(store.generation().await.unwrap(), None);
        for number in [1, 2] {
            let one = Generation { number, by: "ann@desk".into(), at: "2026-11-18T01:00:00Z".into() };
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
        entries
            .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
            .collect()
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
