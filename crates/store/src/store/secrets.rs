//! The secrets bundle, and other secrets that are kept beside it.

use std::path::PathBuf;

use super::Store;
use crate::Error;
use crate::keyring::ENCRYPTED;
use crate::secret::SecretBytes;

pub(super) const SECRETS: &str = "secrets.yaml.age";
/// What older versions wrote.
pub(super) const PLAIN_SECRETS: &str = "secrets.yaml";

impl Store {
    /// The secrets bundle; none if there never was one. A damaged one is an error.
    pub async fn secrets(&self) -> Result<Option<SecretBytes>, Error> {
        let kept = match self.read(SECRETS).await? {
            None => self.read(PLAIN_SECRETS).await?,
            kept => kept,
        };
        Ok(kept.map(|kept| kept.content))
    }

    /// Stores a new bundle: encrypted, written, synced, read back, compared, and only then handed back for use.
    pub async fn write_new_secrets(&self, secrets: &SecretBytes) -> Result<SecretBytes, Error> {
        if self.backend.get(PLAIN_SECRETS).await?.is_some() {
            return Err(Error::SecretsExist { path: self.backend.locate(PLAIN_SECRETS) });
        }
        self.write_new(SECRETS, secrets).await.map_err(exist)
    }

    /// Exchanges the bundle for another. The old one is kept first, under a name of its own; where that is. To be called
    /// under the lock.
    pub async fn replace_secrets(&self, secrets: &SecretBytes, old_name: &str) -> Result<PathBuf, Error> {
        let old_file = format!("{old_name}{ENCRYPTED}");
        if let Some(old) = self.secrets().await? {
            self.write_new(&old_file, &old).await.map_err(exist)?;
        }
        self.replace(SECRETS, secrets.expose()).await?;
        self.read_back(SECRETS, secrets).await?;
        self.forget(PLAIN_SECRETS).await?;
        Ok(self.backend.locate(&old_file))
    }

    /// Whether an older version kept secrets in plain, or was killed while it did. What a kill left of them is removed.
    /// To be called under the lock.
    pub async fn has_plain_secrets(&self) -> Result<bool, Error> {
        self.backend.tidy(PLAIN_SECRETS).await?;
        Ok(self.backend.get(PLAIN_SECRETS).await?.is_some())
    }

    /// Encrypts secrets that an older version kept in plain. Whether there were any. To be called under the lock.
    pub async fn encrypt_plain_secrets(&self) -> Result<bool, Error> {
        let Some(plain) = self.read(PLAIN_SECRETS).await? else { return Ok(false) };
        match self.read(SECRETS).await? {
            None => drop(self.write_new(SECRETS, &plain.content).await.map_err(exist)?),
            Some(encrypted) if encrypted.content == plain.content => {}
            Some(_) => {
                let (plain, encrypted) = (self.backend.locate(PLAIN_SECRETS), self.backend.locate(SECRETS));
                return Err(Error::TwoBundles { plain, encrypted });
            }
        }
        self.forget(PLAIN_SECRETS).await?;
        Ok(true)
    }

    /// Something secret that is kept beside the bundle, such as an account's token, by its name.
    pub async fn kept(&self, name: &str) -> Result<Option<SecretBytes>, Error> {
        Ok(self.read(&format!("{name}{ENCRYPTED}")).await?.map(|kept| kept.content))
    }

    /// Where that is, whether or not it can be opened; none if nothing is kept under the name.
    pub async fn where_kept(&self, name: &str) -> Result<Option<PathBuf>, Error> {
        let file = format!("{name}{ENCRYPTED}");
        Ok(self.backend.list("").await?.contains(&file).then(|| self.backend.locate(&file)))
    }

    /// Keeps something secret beside the bundle, encrypted, in place of what had the name. To be called under the lock.
    pub async fn keep(&self, name: &str, secret: &SecretBytes) -> Result<(), Error> {
        self.replace(&format!("{name}{ENCRYPTED}"), secret.expose()).await
    }
}

/// Secrets are never overwritten.
fn exist(error: Error) -> Error {
    match error {
        Error::Changed { path } => Error::SecretsExist { path },
        error => error,
    }
}
