//! One cluster's part of a backend.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Error;
use crate::folder;
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

    /// The newest generation of the cluster that was applied with this store, or onto which somebody said to go, as it was
    /// recorded. What a generation is, is the caller's to say.
    pub async fn generation<T>(&self) -> Result<Option<T>, Error>
    where
        T: DeserializeOwned + Send + 'static,
    {
        self.read_document(GENERATION).await
    }

    /// Records a generation, in place of the one before. To be called under the lock.
    pub async fn record_generation<T>(&self, generation: T) -> Result<(), Error>
    where
        T: Serialize + Send + 'static,
    {
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
mod tests;
