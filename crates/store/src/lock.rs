//! One worker per cluster at a time, by the operating system's own file lock.

use std::fmt;
use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::folder::{io, open_or_make};

/// Who holds the lock, for the message to whoever comes second.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Owner {
    /// The user.
    pub who: String,
    /// The machine.
    pub machine: String,
    /// The process.
    pub pid: u32,
    /// What it does, such as `apply`.
    pub doing: String,
    /// Since when.
    pub since: Timestamp,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { who, machine, pid, doing, since } = self;
        let since = since.strftime("%Y-%m-%d %H:%M:%S UTC");
        write!(f, "{who} on {machine} (process {pid}, {doing}, since {since})")
    }
}

/// The lock, held until dropped or until the process ends in whatever way.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

impl Lock {
    pub(crate) fn acquire(path: &Path, cluster: &str, owner: &Owner) -> Result<Self, Error> {
        let mut file = open_or_make(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Locked {
                    cluster: cluster.to_owned(),
                    owner: read_owner(&mut file).map(Box::new),
                });
            }
            Err(TryLockError::Error(source)) => {
                return Err(Error::Io { what: "lock", path: path.to_owned(), source });
            }
        }
        // Only now is the content ours to change; what a crashed owner left in it means nothing.
        let text = serde_json::to_vec(owner).unwrap_or_default();
        file.set_len(0).map_err(io("write", path))?;
        file.rewind().map_err(io("write", path))?;
        file.write_all(&text).map_err(io("write", path))?;
        Ok(Self { file })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The content goes first, so that nobody reads a name that no longer holds it.
        let _ = self.file.set_len(0);
        let _ = self.file.unlock();
    }
}

/// Who holds the lock. Between taking it and writing the name, and again before letting it go, nobody is named.
fn read_owner(file: &mut File) -> Option<Owner> {
    let mut text = String::new();
    file.rewind().and_then(|()| file.read_to_string(&mut text)).ok()?;
    serde_json::from_str(&text).ok()
}
