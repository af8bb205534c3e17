//! Snapshots of etcd: large, new each time, and described beside.

use std::path::{Path, PathBuf};

use super::Store;
use crate::Error;

/// Where they are.
const BACKUPS: &str = "backups/";
/// How their names end.
const SNAPSHOT: &str = ".db";

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
        let (snapshot, beside) = (format!("{BACKUPS}{name}"), format!("{BACKUPS}{name}.json"));
        let before = self.backend.get(&beside).await?.map(|blob| blob.version);
        self.put(&beside, description, before.as_ref()).await?;
        let fence = self.fence();
        self.backend.adopt(&snapshot, file, fence.as_ref()).await?;
        Ok(self.backend.locate(&snapshot))
    }

    /// All that are kept, oldest first.
    pub async fn backups(&self) -> Result<Vec<KeptBackup>, Error> {
        let names = self.backend.list(BACKUPS).await?;
        let mut all = Vec::new();
        for name in names.into_iter().filter(|name| name.ends_with(SNAPSHOT)) {
            let description = self.backend.get(&format!("{name}.json")).await?;
            let description = description.map(|blob| blob.bytes.expose().to_vec());
            all.push(KeptBackup { place: self.backend.locate(&name), description });
        }
        Ok(all)
    }
}
