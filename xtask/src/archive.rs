//! Archives whose bytes follow from their content alone: no times, no owners of this machine, entries in the order of their paths.

use std::collections::BTreeMap;
use std::io::{self, Write as _};

use flate2::{Compression, GzBuilder};
use sha2::{Digest as _, Sha256};
use tar::{Builder, EntryType, Header};

/// A file or a folder in an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its mode.
    pub mode: u32,
    /// Owner and group.
    pub owner: u64,
    /// What stands in it; none for a folder.
    pub content: Option<Vec<u8>>,
}

impl Entry {
    /// A file of root's.
    pub fn file(mode: u32, content: impl Into<Vec<u8>>) -> Self {
        Self { mode, owner: 0, content: Some(content.into()) }
    }

    /// A folder.
    pub fn folder(mode: u32, owner: u64) -> Self {
        Self { mode, owner, content: None }
    }
}

/// What an archive holds, by path without a slash at either end.
pub type Entries = BTreeMap<String, Entry>;

/// Adds a file with the folders on its way.
pub fn add(entries: &mut Entries, path: &str, entry: Entry) {
    for (at, _) in path.match_indices('/') {
        entries.entry(path[..at].to_owned()).or_insert_with(|| Entry::folder(0o755, 0));
    }
    entries.insert(path.to_owned(), entry);
}

/// The archive.
pub fn tar(entries: &Entries) -> io::Result<Vec<u8>> {
    let mut builder = Builder::new(Vec::new());
    for (path, entry) in entries {
        let mut header = Header::new_ustar();
        header.set_mode(entry.mode);
        header.set_uid(entry.owner);
        header.set_gid(entry.owner);
        header.set_mtime(0);
        let content = entry.content.as_deref().unwrap_or_default();
        header.set_size(content.len() as u64);
        match entry.content {
            Some(_) => {
                header.set_entry_type(EntryType::Regular);
                builder.append_data(&mut header, path, content)?;
            }
            None => {
                header.set_entry_type(EntryType::Directory);
                builder.append_data(&mut header, format!("{path}/"), content)?;
            }
        }
    }
    builder.into_inner()
}

/// The bytes, compressed, without a name or a time.
pub fn gzip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::default());
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// SHA-256 in hex.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
