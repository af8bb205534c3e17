//! The folder's lease: the operating system's lock on one file, which goes with the process, and in that file who has it.

use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::{Folder, LOCK, blocking};
use crate::Error;
use crate::backend::{Acquired, Working};
use crate::files;
use crate::lease::{Fence, Lease, Owner};

/// The most that is read of the file.
const SMALL: u64 = 64 << 10;

/// What is in the file, whoever wrote it: the owner only while there is one, the epoch since there are epochs.
#[derive(Deserialize)]
struct Epoch {
    #[serde(default)]
    epoch: u64,
}

#[derive(Debug)]
struct FolderLease(Arc<Held>);

#[derive(Debug)]
struct Held {
    folder: Folder,
    file: File,
    fence: Fence,
}

impl Folder {
    /// Takes the lease, if nobody has it.
    pub(super) fn take(self, owner: Owner) -> Result<Acquired, Error> {
        files::make_private_folder(&self.root)?;
        let path = self.root.join(LOCK);
        let failed = |source| Error::Io { what: "lock", path: path.clone(), source };
        loop {
            let file = files::open_or_make(&path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let said = read(&file).and_then(|text| serde_json::from_slice(&text).ok());
                    return Ok(Acquired::Busy(said));
                }
                Err(TryLockError::Error(source)) => return Err(failed(source)),
            }
            // Whoever writes at this moment still has the lease before this one.
            let _turn = self.turn()?;
            // Somebody may have removed the file after it was opened: then this is a lock on nothing.
            if !is_at(&file, &path).map_err(failed)? {
                continue;
            }
            // What a crashed owner left in it means nothing but its epoch.
            let before = read(&file).and_then(|text| serde_json::from_slice::<Epoch>(&text).ok());
            let epoch = before.map_or(0, |before| before.epoch).saturating_add(1);
            let fence = Fence { owner, epoch };
            write(&file, &serde_json::to_vec(&fence).unwrap_or_default())
                .map_err(files::io("write", &path))?;
            return Ok(Acquired::Held(Box::new(FolderLease(Arc::new(Held { folder: self, file, fence })))));
        }
    }

    /// Whether a write may be made: its lease is the newest. To be called in its turn.
    pub(super) fn check(&self, fence: Option<&Fence>) -> Result<(), Error> {
        let Some(fence) = fence else { return Ok(()) };
        let newest = files::read(&self.root.join(LOCK))?;
        match newest.and_then(|text| serde_json::from_slice::<Fence>(&text).ok()) {
            Some(newest) if newest == *fence => Ok(()),
            _ => Err(Error::LeaseLost { path: self.root.clone() }),
        }
    }
}

impl Held {
    fn check(&self) -> Result<(), Error> {
        let _turn = self.folder.turn()?;
        self.folder.check(Some(&self.fence))
    }

    /// The name goes before the lock, so that nobody reads one that no longer holds it. The epoch stays.
    fn release(&self) {
        let turn = self.folder.turn();
        if turn.is_ok() && self.folder.check(Some(&self.fence)).is_ok() {
            let _ = write(&self.file, format!("{{\"epoch\":{}}}", self.fence.epoch).as_bytes());
        }
        let _ = self.file.unlock();
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.release();
    }
}

impl Lease for FolderLease {
    fn fence(&self) -> &Fence {
        &self.0.fence
    }

    fn renew_every(&self) -> Option<Duration> {
        None
    }

    fn renew(&self) -> Working<'_, ()> {
        let held = self.0.clone();
        blocking(move || held.check())
    }

    fn release(&self) -> Working<'_, ()> {
        let held = self.0.clone();
        blocking(move || {
            held.release();
            Ok(())
        })
    }
}

/// Whether a file that is open is the one at a path.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let open = file.metadata()?;
    match path.symlink_metadata() {
        Ok(there) => Ok((there.dev(), there.ino()) == (open.dev(), open.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Between taking the lock and writing the name, nobody is named.
fn read(mut file: &File) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    file.rewind().and_then(|()| file.take(SMALL).read_to_end(&mut text)).ok()?;
    Some(text)
}

/// Never empty in between: the epoch must not be lost.
fn write(mut file: &File, text: &[u8]) -> io::Result<()> {
    file.rewind()?;
    file.write_all(text)?;
    file.set_len(text.len() as u64)
}
