//! Snapshots of etcd: large, new each time, and described beside. They hold the cluster's secrets in plain, so that they
//! are encrypted where others than their owner may read them.

use std::path::{Path, PathBuf};

use super::{Store, blocking};
use crate::Error;
use crate::files;
use crate::keyring::ENCRYPTED;

/// Where they are.
pub(super) const BACKUPS: &str = "backups/";
/// How their names end.
pub(super) const SNAPSHOT: &str = ".db";

/// A snapshot that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptBackup {
    /// Where it is, for people.
    pub place: PathBuf,
    /// What is written beside it; none if nothing is.
    pub description: Option<Vec<u8>>,
}

impl Store {
    /// Where a snapshot of this name (`….db`) is best made before it is kept; none if it does not matter.
    pub fn backup_scratch(&self, name: &str) -> Option<PathBuf> {
        self.backend.scratch(&format!("{BACKUPS}{name}"))
    }

    /// Keeps a snapshot that was made and verified in a private file on this machine, which is removed. It has its
    /// description before it has its name: a description without a snapshot is of no account. Where it is now.
    pub async fn keep_backup(&self, name: &str, file: &Path, description: &[u8]) -> Result<PathBuf, Error> {
        let (mut snapshot, beside) = (format!("{BACKUPS}{name}"), format!("{BACKUPS}{name}.json"));
        let before = self.backend.get(&beside).await?.map(|blob| blob.version);
        self.put(&beside, description, before.as_ref()).await?;
        if !self.backend.is_private() {
            snapshot.push_str(ENCRYPTED);
            let (keys, file) = (self.keys.clone(), file.to_owned());
            blocking(move || {
                let plain = std::fs::read(&file).map_err(files::io("read", &file))?;
                files::write_private(&file, &keys.encrypt(&plain)?)
            })
            .await?;
        }
        let fence = self.fence();
        self.backend.adopt(&snapshot, file, fence.as_ref()).await?;
        Ok(self.backend.locate(&snapshot))
    }

    /// All that are kept, oldest first.
    pub async fn backups(&self) -> Result<Vec<KeptBackup>, Error> {
        let mut all = Vec::new();
        for name in self.snapshots().await? {
            let plain = name.strip_suffix(ENCRYPTED).unwrap_or(&name);
            let description = self.backend.get(&format!("{plain}.json")).await?;
            let description = description.map(|blob| blob.bytes.expose().to_vec());
            all.push(KeptBackup { place: self.backend.locate(&name), description });
        }
        Ok(all)
    }

    async fn snapshots(&self) -> Result<Vec<String>, Error> {
        let mut names = self.backend.list(BACKUPS).await?;
        names.retain(|name| name.strip_suffix(ENCRYPTED).unwrap_or(name).ends_with(SNAPSHOT));
        Ok(names)
    }

    /// Brings a snapshot that is kept at `place` into a folder on this machine, opened, with its description beside it.
    /// Where it is now; none if nothing is kept there.
    pub async fn fetch_backup(&self, place: &Path, folder: &Path) -> Result<Option<PathBuf>, Error> {
        let names = self.snapshots().await?;
        let Some(name) = names.into_iter().find(|name| self.backend.locate(name) == place) else {
            return Ok(None);
        };
        let Some(blob) = self.backend.get(&name).await? else { return Ok(None) };
        let plain = name.strip_suffix(ENCRYPTED).unwrap_or(&name).to_owned();
        let description = self.backend.get(&format!("{plain}.json")).await?;
        let (keys, is_encrypted) = (self.keys.clone(), plain != name);
        let file = folder.join(plain.strip_prefix(BACKUPS).unwrap_or(&plain));
        let (place, to) = (place.to_owned(), file.clone());
        blocking(move || {
            let bytes = match is_encrypted {
                true => keys.decrypt(&place, blob.bytes.expose())?,
                false => blob.bytes,
            };
            files::write_private(&to, bytes.expose())?;
            match description {
                Some(text) => files::write_private(&beside(&to), text.bytes.expose()),
                None => Ok(()),
            }
        })
        .await?;
        Ok(Some(file))
    }
}

/// Where the description of a snapshot is.
fn beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".json");
    name.into()
}
