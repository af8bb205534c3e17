//! One cluster's part of a backend: sealed, encrypted where it is secret, and changed only under the lock that is held.

mod backups;
mod copy;
mod documents;
mod reset;
mod secrets;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use crate::Error;
use crate::backend::{Acquired, Backend, Version};
use crate::folder::Folder;
use crate::journal::Journal;
use crate::keyring::{ENCRYPTED, Keyring};
use crate::lease::{Current, Fence, Lock, Owner};
use crate::seal;
use crate::secret::SecretBytes;
use crate::sops_file::SopsFile;
use crate::vault::VaultBundle;

pub use backups::KeptBackup;
pub use reset::Contents;

/// How often a change is tried again that others were quicker with.
const TRIES: usize = 16;

/// What outlives a run, for one cluster. Cheap to clone; what one clone locks, all of them have locked.
#[derive(Clone, Debug)]
pub struct Store {
    backend: Arc<dyn Backend>,
    name: String,
    identity: String,
    keys: Keyring,
    lease: Current,
    /// Where the bundle is, if not in the backend.
    bundle: Option<Elsewhere>,
}

/// Where a bundle is that is not in the backend.
#[derive(Clone, Debug)]
enum Elsewhere {
    Sops(Arc<SopsFile>),
    Vault(VaultBundle),
}

/// A blob that was opened.
struct Kept {
    content: SecretBytes,
    version: Version,
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
        Self::over(Arc::new(Folder::new(root.into().join(&name))), name, identity, keys)
    }

    /// The same in a backend that keeps this cluster alone.
    pub fn over(
        backend: Arc<dyn Backend>,
        name: impl Into<String>,
        identity: impl Into<String>,
        keys: Keyring,
    ) -> Self {
        let lease = Current::default();
        Self { backend, name: name.into(), identity: identity.into(), keys, lease, bundle: None }
    }

    /// Whether the secrets bundle is somewhere else than all the rest.
    pub fn keeps_bundle_apart(&self) -> bool {
        self.bundle.is_some()
    }

    /// The same, with the secrets bundle in a SOPS file.
    pub fn with_bundle_in(self, file: SopsFile) -> Self {
        Self { bundle: Some(Elsewhere::Sops(Arc::new(file))), ..self }
    }

    /// The same, with the secrets bundle as a secret in a Vault.
    pub fn with_bundle_in_vault(self, bundle: VaultBundle) -> Self {
        Self { bundle: Some(Elsewhere::Vault(bundle)), ..self }
    }

    /// Where it is, for messages.
    pub fn place(&self) -> PathBuf {
        self.backend.locate("")
    }

    /// What encrypts the secrets in it.
    pub fn keys(&self) -> &Keyring {
        &self.keys
    }

    /// Takes the lock, or says who has it. From now on, what is written carries it, and is refused once somebody else
    /// has it.
    pub async fn lock(&self, owner: &Owner) -> Result<Lock, Error> {
        match self.backend.acquire(owner).await? {
            Acquired::Held(lease) => Ok(Lock::new(lease, self.lease.clone())),
            Acquired::Busy(owner) => {
                Err(Error::Locked { cluster: self.name.clone(), owner: owner.map(Box::new) })
            }
        }
    }

    /// Makes sure that nobody else has the lock that was taken here. Fine where none was taken.
    pub async fn still_locked(&self) -> Result<(), Error> {
        match self.lease.get() {
            Some(lease) => lease.renew().await,
            None => Ok(()),
        }
    }

    /// Opens the journal for appending.
    pub fn journal(&self) -> Journal {
        Journal::open(self.backend.clone())
    }

    /// Makes the key if there is none, and nothing here that is encrypted with one that is elsewhere. Whether it did.
    pub async fn ensure_key(&self) -> Result<bool, Error> {
        for name in self.encrypted_names().await? {
            self.read(&name).await?;
        }
        let keys = self.keys.clone();
        blocking(move || keys.make()).await
    }

    /// Encrypts all that is kept anew, with the first of the keys; those it was encrypted with must still be there. The
    /// names of the files. To be called under the lock.
    pub async fn rekey(&self) -> Result<Vec<String>, Error> {
        let mut names = self.encrypted_names().await?;
        // All of it is read first: what cannot be opened stops it while nothing has changed.
        let mut all = Vec::new();
        for name in &names {
            all.extend(self.read(name).await?.map(|kept| (name, kept)));
        }
        for (name, kept) in all {
            let sealed = SecretBytes::new(seal::seal(&self.identity, kept.content.expose()));
            let (keys, path) = (self.keys.clone(), self.backend.locate(name));
            let closed = blocking(move || keys.encrypt_for_first(&path, &sealed)).await?;
            self.put(name, &closed, Some(&kept.version)).await?;
        }
        names.extend(self.rekey_bundle().await?);
        Ok(names)
    }

    /// The names of all blobs that are encrypted.
    async fn encrypted_names(&self) -> Result<Vec<String>, Error> {
        let mut names = self.backend.list("").await?;
        names.retain(|name| name.ends_with(ENCRYPTED));
        Ok(names)
    }

    /// Reads a sealed blob, encrypted or not, and checks that it is whole and this cluster's.
    async fn read(&self, name: &str) -> Result<Option<Kept>, Error> {
        let Some(blob) = self.backend.get(name).await? else { return Ok(None) };
        let path = self.backend.locate(name);
        // What a blob is called says what is in it: a secret that lost its encryption is no secret of ours.
        let bytes = match name.ends_with(ENCRYPTED) {
            true => {
                let (keys, path) = (self.keys.clone(), path.clone());
                blocking(move || keys.decrypt(&path, blob.bytes.expose())).await?
            }
            false => blob.bytes,
        };
        let opened = seal::open(bytes.expose()).map_err(|why| Error::Damaged { path: path.clone(), why })?;
        if opened.cluster != self.identity {
            return Err(Error::OtherCluster {
                path,
                found: opened.cluster.to_owned(),
                wanted: self.identity.clone(),
            });
        }
        Ok(Some(Kept { content: SecretBytes::new(opened.content.to_vec()), version: blob.version }))
    }

    /// Content as it is kept under a name: sealed, and encrypted if the name says so.
    async fn closed(&self, name: &str, content: &[u8]) -> Result<Vec<u8>, Error> {
        let sealed = SecretBytes::new(seal::seal(&self.identity, content));
        match name.ends_with(ENCRYPTED) {
            true => {
                let keys = self.keys.clone();
                blocking(move || keys.encrypt(sealed.expose())).await
            }
            false => Ok(sealed.expose().to_vec()),
        }
    }

    /// Writes something new, reads it back, and hands out what was read.
    async fn write_new(&self, name: &str, content: &SecretBytes) -> Result<SecretBytes, Error> {
        self.put(name, &self.closed(name, content.expose()).await?, None).await?;
        self.read_back(name, content).await
    }

    /// Writes something in place of whatever has the name.
    async fn replace(&self, name: &str, content: &[u8]) -> Result<(), Error> {
        let closed = self.closed(name, content).await?;
        let mut tries = 1;
        loop {
            let before = self.backend.get(name).await?.map(|blob| blob.version);
            match self.put(name, &closed, before.as_ref()).await {
                Err(Error::Changed { .. }) if tries < TRIES => tries += 1,
                done => return done,
            }
        }
    }

    async fn read_back(&self, name: &str, content: &SecretBytes) -> Result<SecretBytes, Error> {
        match self.read(name).await? {
            Some(read) if read.content == *content => Ok(read.content),
            _ => Err(Error::ReadBack { path: self.backend.locate(name) }),
        }
    }

    /// Writes what is closed already.
    async fn put(&self, name: &str, closed: &[u8], before: Option<&Version>) -> Result<(), Error> {
        let fence = self.fence();
        self.backend.put_if_unchanged(name, closed, before, fence.as_ref()).await.map(drop)
    }

    /// Removes a blob, if it is there.
    async fn forget(&self, name: &str) -> Result<(), Error> {
        let Some(blob) = self.backend.get(name).await? else { return Ok(()) };
        let fence = self.fence();
        self.backend.delete_if_unchanged(name, &blob.version, fence.as_ref()).await
    }

    /// The lock that is held, if any.
    fn fence(&self) -> Option<Fence> {
        self.lease.get().map(|lease| lease.fence().clone())
    }
}

/// Keys are in files, which wait for disks; that is kept off the threads that serve the network.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.map_err(Error::Interrupted)?
}
