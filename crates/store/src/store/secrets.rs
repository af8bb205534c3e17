//! The secrets bundle, and other secrets that are kept beside it.

use std::path::PathBuf;

use super::{Elsewhere, Store, blocking};
use crate::Error;
use crate::keyring::{ENCRYPTED, Keyring};
use crate::secret::SecretBytes;
use crate::sops_file::SopsFile;

pub(super) const SECRETS: &str = "secrets.yaml.age";
/// What older versions wrote.
pub(super) const PLAIN_SECRETS: &str = "secrets.yaml";

impl Store {
    /// The secrets bundle; none if there never was one. A damaged one is an error, and so is one that is somewhere else than
    /// declared.
    pub async fn secrets(&self) -> Result<Option<SecretBytes>, Error> {
        if let Some(declared) = self.secrets_elsewhere() {
            let identity = self.identity.clone();
            let found = match &self.bundle {
                Some(Elsewhere::Vault(bundle)) => bundle.read(&identity).await?,
                _ => self.in_file(move |file, _| file.read(&identity)).await?.flatten(),
            };
            return match (found, self.left_behind().await) {
                (Some(found), _) => Ok(Some(found)),
                (None, Ok(None)) => Ok(None),
                (None, Ok(Some(kept))) => Err(Error::KeptElsewhere { declared, kept }),
                (None, Err(error)) => Err(error),
            };
        }
        self.in_backend().await
    }

    /// The bundle that the backend keeps although it is declared to be in a file, which has none yet.
    pub async fn secrets_left_behind(&self) -> Result<Option<SecretBytes>, Error> {
        match self.secrets().await {
            Err(Error::KeptElsewhere { .. }) => self.in_backend().await,
            other => other.map(|_| None),
        }
    }

    async fn in_backend(&self) -> Result<Option<SecretBytes>, Error> {
        let kept = match self.read(SECRETS).await? {
            None => self.read(PLAIN_SECRETS).await?,
            kept => kept,
        };
        Ok(kept.map(|kept| kept.content))
    }

    /// Where the bundle is kept, for messages.
    pub fn secrets_place(&self) -> PathBuf {
        self.secrets_elsewhere().unwrap_or_else(|| self.place())
    }

    /// The SOPS file or the secret in a Vault that the bundle is in, if it is in one.
    pub fn secrets_elsewhere(&self) -> Option<PathBuf> {
        self.bundle.as_ref().map(|bundle| match bundle {
            Elsewhere::Sops(file) => file.path().to_owned(),
            Elsewhere::Vault(bundle) => bundle.place(),
        })
    }

    /// Makes sure that a new bundle can be encrypted before anything else is done: the key is made if it is needed and missing, or
    /// the rules of the SOPS file are tried. Whether a key was made; none if none is needed.
    pub async fn ready_for_secrets(&self) -> Result<Option<bool>, Error> {
        if let Some(Elsewhere::Vault(bundle)) = &self.bundle {
            return bundle.read(&self.identity).await.map(|_| None);
        }
        match self.in_file(|file, own| file.check_writable(own)).await? {
            Some(()) => Ok(None),
            None => self.ensure_key().await.map(Some),
        }
    }

    /// Works on the file of the bundle, if it is in one.
    async fn in_file<T: Send + 'static>(
        &self,
        work: impl FnOnce(&SopsFile, &Keyring) -> Result<T, Error> + Send + 'static,
    ) -> Result<Option<T>, Error> {
        let Some(Elsewhere::Sops(file)) = self.bundle.clone() else { return Ok(None) };
        let keys = self.keys.clone();
        blocking(move || work(&file, &keys)).await.map(Some)
    }

    /// Where the backend keeps a bundle, if it does.
    async fn left_behind(&self) -> Result<Option<PathBuf>, Error> {
        let names = self.backend.list("").await?;
        let kept = [SECRETS, PLAIN_SECRETS].into_iter().find(|name| names.iter().any(|there| there == name));
        Ok(kept.map(|name| self.backend.locate(name)))
    }

    /// Encrypts the file of the bundle anew. Where it is, if there is one.
    pub(super) async fn rekey_bundle(&self) -> Result<Option<String>, Error> {
        self.still_locked().await?;
        let done =
            self.in_file(|file, own| Ok(file.rekey(own)?.then(|| file.path().display().to_string()))).await?;
        Ok(done.flatten())
    }

    /// Stores a new bundle: encrypted, written, synced, read back, compared, and only then handed back for use.
    pub async fn write_new_secrets(&self, secrets: &SecretBytes) -> Result<SecretBytes, Error> {
        if self.bundle.is_some() {
            // No write of the backend proves the lock here.
            self.still_locked().await?;
            let (identity, new) = (self.identity.clone(), secrets.clone());
            match &self.bundle {
                Some(Elsewhere::Vault(bundle)) => bundle.write_new(&identity, &new).await?,
                _ => drop(self.in_file(move |file, own| file.write_new(&identity, &new, own)).await?),
            }
            return Ok(secrets.clone());
        }
        if self.backend.get(PLAIN_SECRETS).await?.is_some() {
            return Err(Error::SecretsExist { path: self.backend.locate(PLAIN_SECRETS) });
        }
        self.write_new(SECRETS, secrets).await.map_err(exist)
    }

    /// Exchanges the bundle for another. The old one is kept first, under a name of its own; where that is. To be called
    /// under the lock.
    pub async fn replace_secrets(&self, secrets: &SecretBytes, old_name: &str) -> Result<PathBuf, Error> {
        if self.bundle.is_some() {
            self.still_locked().await?;
            if let Some(Elsewhere::Vault(bundle)) = &self.bundle {
                return bundle.replace(&self.identity, secrets, old_name).await;
            }
            let (identity, new, old) = (self.identity.clone(), secrets.clone(), old_name.to_owned());
            let replaced = self.in_file(move |file, own| file.replace(&identity, &new, &old, own)).await?;
            return Ok(replaced.unwrap_or_default());
        }
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
