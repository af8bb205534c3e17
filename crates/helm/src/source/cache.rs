//! Fetched archives on disk, by digest, so that a chart is fetched once and can be had without a network afterwards.

use std::path::{Path, PathBuf};

use sha2::Digest as _;

use crate::error::Error;

/// A folder of archives, and of notes which reference led to which.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: Option<PathBuf>,
}

impl Cache {
    /// A cache in a folder, which is made when something is kept.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Cache { folder: Some(folder.into()) }
    }

    /// No cache: everything is fetched every time.
    pub fn none() -> Self {
        Cache { folder: None }
    }

    /// The archive a reference led to, if it is there and still what it was.
    pub(super) fn find(&self, key: &str) -> Option<Vec<u8>> {
        let folder = self.folder.as_ref()?;
        let digest = std::fs::read_to_string(folder.join("references").join(key)).ok()?;
        self.archive(digest.trim())
    }

    /// The archive of a digest, if it is there and still has it.
    pub(super) fn archive(&self, digest: &str) -> Option<Vec<u8>> {
        let folder = self.folder.as_ref()?;
        if digest.len() != 64 || !digest.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        let archive = std::fs::read(folder.join("archives").join(format!("{digest}.tgz"))).ok()?;
        super::has_digest(&archive, digest).then_some(archive)
    }

    /// Keeps an archive. The note comes last, so that it never names what is not there.
    pub(super) fn keep(&self, key: &str, archive: &[u8]) -> Result<(), Error> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let digest = hex::encode(sha2::Sha256::digest(archive));
        write(&folder.join("archives"), &format!("{digest}.tgz"), archive)?;
        write(&folder.join("references"), key, digest.as_bytes())
    }

    /// A document that was kept, by its address.
    pub(super) fn document(&self, url: &str) -> Option<Vec<u8>> {
        std::fs::read(self.folder.as_ref()?.join("documents").join(document_name(url))).ok()
    }

    /// Keeps a document.
    pub(super) fn keep_document(&self, url: &str, data: &[u8]) -> Result<(), Error> {
        match &self.folder {
            Some(folder) => write(&folder.join("documents"), &document_name(url), data),
            None => Ok(()),
        }
    }
}

fn document_name(url: &str) -> String {
    hex::encode(sha2::Sha256::digest(url.as_bytes()))
}

/// Writes beside the target and renames, so that readers see the old or the new file, never half of one.
fn write(folder: &Path, name: &str, data: &[u8]) -> Result<(), Error> {
    let target = folder.join(name);
    let part = folder.join(format!("{name}.{}.part", std::process::id()));
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&part, data))
        .and_then(|()| std::fs::rename(&part, &target))
        .map_err(|e| Error::Fetch {
            what: target.display().to_string(),
            message: format!("cannot keep it: {e}"),
        })
}
