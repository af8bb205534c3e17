//! The files of a host, as whoever logs in by SSH sees them: the definition of the storages, and the snippets on them.

use std::fmt::Write as _;

use super::Datacenter;
use super::state::{State, Volume};

/// Why a file cannot be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoFile {
    /// There is none, or no folder for it.
    Missing,
    /// The storage is full.
    Full,
}

const STORAGES: &str = "/etc/pve/storage.cfg";
/// The type of content that snippets are.
const SNIPPETS: &str = "snippets";

impl Datacenter {
    /// The first host, which answers on the endpoints and serves SSH.
    pub fn first_host(&self) -> String {
        self.with(|state| state.hosts.keys().next().cloned().unwrap_or_default())
    }

    /// What is in a file of a host.
    pub fn read_file(&self, host: &str, path: &str) -> Result<Vec<u8>, NoFile> {
        self.with(|state| {
            if path == STORAGES {
                return Ok(storage_cfg(state).into_bytes());
            }
            let (storage, name) = snippet(state, host, path).ok_or(NoFile::Missing)?;
            let store = state.store(host, &storage).map_err(|_| NoFile::Missing)?;
            let volume = store.volumes.get(&name).ok_or(NoFile::Missing)?;
            Ok(volume.bytes.bytes().to_vec())
        })
    }

    /// Writes a file of a host as a whole.
    pub fn write_file(&self, host: &str, path: &str, bytes: Vec<u8>) -> Result<(), NoFile> {
        self.with(|state| {
            let (storage, name) = snippet(state, host, path).ok_or(NoFile::Missing)?;
            let volume = Volume::file(SNIPPETS, "snippet", bytes, state.now);
            let store = state.store_mut(host, &storage).map_err(|_| NoFile::Missing)?;
            let before = store.volumes.remove(&name);
            if !store.takes(usize::try_from(volume.size).unwrap_or(usize::MAX)) {
                store.volumes.extend(before.map(|before| (name, before)));
                return Err(NoFile::Full);
            }
            store.volumes.insert(name, volume);
            Ok(())
        })
    }

    /// Removes a file of a host.
    pub fn remove_file(&self, host: &str, path: &str) -> Result<(), NoFile> {
        self.with(|state| {
            let (storage, name) = snippet(state, host, path).ok_or(NoFile::Missing)?;
            let store = state.store_mut(host, &storage).map_err(|_| NoFile::Missing)?;
            store.volumes.remove(&name).map(drop).ok_or(NoFile::Missing)
        })
    }

    /// Gives a file of a host another name on the same storage, in the place of what had it.
    pub fn rename_file(&self, host: &str, from: &str, to: &str) -> Result<(), NoFile> {
        self.with(|state| {
            let (storage, from) = snippet(state, host, from).ok_or(NoFile::Missing)?;
            let (_, to) = snippet(state, host, to).filter(|to| to.0 == storage).ok_or(NoFile::Missing)?;
            let store = state.store_mut(host, &storage).map_err(|_| NoFile::Missing)?;
            let volume = store.volumes.remove(&from).ok_or(NoFile::Missing)?;
            store.volumes.insert(to, volume);
            Ok(())
        })
    }
}

/// The storages, as Proxmox keeps them.
fn storage_cfg(state: &State) -> String {
    let mut text = String::new();
    for (id, storage) in &state.storages {
        let _ = writeln!(text, "{}: {id}", storage.kind);
        if storage.has_path() {
            let _ = writeln!(text, "\tpath {}", root(id));
        }
        let _ = writeln!(text, "\tcontent {}\n", storage.content.join(","));
    }
    text
}

/// The folder of a storage that has one.
fn root(storage: &str) -> String {
    if storage == "local" { "/var/lib/vz".to_owned() } else { format!("/mnt/pve/{storage}") }
}

/// The storage of a snippet and its name there, by its path.
fn snippet(state: &State, host: &str, path: &str) -> Option<(String, String)> {
    state.storages.iter().find_map(|(id, storage)| {
        let file = path.strip_prefix(&format!("{}/{SNIPPETS}/", root(id)))?;
        let takes = storage.has_path()
            && storage.hosts.contains(host)
            && storage.content.iter().any(|content| content == SNIPPETS);
        (takes && !file.is_empty() && !file.contains('/')).then(|| (id.clone(), format!("{SNIPPETS}/{file}")))
    })
}
