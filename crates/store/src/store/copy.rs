//! All of a store, copied to another place and verified there.

use super::backups::{BACKUPS, SNAPSHOT};
use super::{Store, blocking};
use crate::Error;
use crate::journal::JOURNAL;
use crate::keyring::ENCRYPTED;
use crate::secret::SecretBytes;

impl Store {
    /// The names of all that is kept.
    pub async fn names(&self) -> Result<Vec<String>, Error> {
        let mut names = self.backend.list("").await?;
        names.extend(self.backend.list(BACKUPS).await?);
        Ok(names)
    }

    /// Copies all that is kept to another store of the same cluster, and reads it back. What is there already must be the
    /// same: it is found out before anything is written. The names. To be called under the locks of both.
    pub async fn copy_to(&self, other: &Self) -> Result<Vec<String>, Error> {
        let names = self.names().await?;
        let mut missing = Vec::new();
        for name in names.iter().filter(|name| *name != JOURNAL) {
            if is_sealed(name) {
                // What cannot be opened here would not be there either.
                self.read(name).await?;
            }
            let Some(blob) = self.backend.get(name).await? else { continue };
            let new_name = other.name_of(name);
            match other.backend.get(&new_name).await? {
                None => missing.push((name, new_name, blob.bytes)),
                Some(there)
                    if other.opened(&new_name, &there.bytes).await?
                        == self.opened(name, &blob.bytes).await? => {}
                Some(_) => return Err(Error::Changed { path: other.backend.locate(&new_name) }),
            }
        }
        for (name, new_name, bytes) in missing {
            self.copy(name, &new_name, &bytes, other).await?;
        }
        self.copy_journal(other).await?;
        Ok(names)
    }

    async fn copy(&self, name: &str, new_name: &str, bytes: &SecretBytes, other: &Self) -> Result<(), Error> {
        let closed = match name == new_name {
            true => bytes.expose().to_vec(),
            false => {
                let (keys, plain) = (other.keys.clone(), bytes.clone());
                blocking(move || keys.encrypt(plain.expose())).await?
            }
        };
        other.put(new_name, &closed, None).await?;
        let unequal = || Error::ReadBack { path: other.backend.locate(new_name) };
        let there = other.backend.get(new_name).await?.ok_or_else(unequal)?;
        match other.opened(new_name, &there.bytes).await? == self.opened(name, bytes).await? {
            true => Ok(()),
            false => Err(unequal()),
        }
    }

    /// The journal is added to what is there, unless that has it.
    async fn copy_journal(&self, other: &Self) -> Result<(), Error> {
        let Some(ours) = self.backend.get(JOURNAL).await? else { return Ok(()) };
        let theirs = other.backend.get(JOURNAL).await?;
        match theirs.is_some_and(|theirs| theirs.bytes.expose().starts_with(ours.bytes.expose())) {
            true => Ok(()),
            false => other.backend.append(JOURNAL, ours.bytes.expose()).await,
        }
    }

    /// What a blob is called here: snapshots that leave this machine are encrypted.
    fn name_of(&self, name: &str) -> String {
        match name.starts_with(BACKUPS) && name.ends_with(SNAPSHOT) && !self.backend.is_private() {
            true => format!("{name}{ENCRYPTED}"),
            false => name.to_owned(),
        }
    }

    /// What is in a blob, whichever time it was encrypted.
    async fn opened(&self, name: &str, bytes: &SecretBytes) -> Result<SecretBytes, Error> {
        if !name.ends_with(ENCRYPTED) {
            return Ok(bytes.clone());
        }
        let (keys, path, bytes) = (self.keys.clone(), self.backend.locate(name), bytes.clone());
        blocking(move || keys.decrypt(&path, bytes.expose())).await
    }
}

/// Whether a blob carries the store's first line, encrypted or not.
fn is_sealed(name: &str) -> bool {
    !name.starts_with(BACKUPS)
}
