//! The folder on this machine, the first backend: one file for each blob, under its name.
//!
//! A blob's version is the digest of its content. Reading the version and writing the blob are one step: both happen
//! while the folder itself is locked, for the moment that it takes.

mod lease;
#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::Error;
use crate::backend::{Acquired, Backend, Blob, Version, Working, is_name};
use crate::files;
use crate::lease::{Fence, Owner};
use crate::secret::SecretBytes;

/// The lease, which is no blob.
const LOCK: &str = "lock";
/// What takes its place on file systems that cannot lock a folder.
const TURN: &str = ".turn";

/// A folder that keeps blobs. Makes nothing until something is written.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    root: PathBuf,
}

impl Folder {
    pub(crate) fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    fn path(&self, name: &str) -> Result<PathBuf, Error> {
        let path = self.root.join(name);
        match is_name(name) && name != LOCK {
            true => Ok(path),
            false => Err(Error::Io {
                what: "use",
                path,
                source: io::Error::new(io::ErrorKind::InvalidInput, "it is not a name for something kept"),
            }),
        }
    }

    /// Keeps others from writing while it lives. The folder must be there.
    fn turn(&self) -> Result<File, Error> {
        let folder = File::open(&self.root).map_err(files::io("open the folder", &self.root))?;
        match folder.lock() {
            Ok(()) => Ok(folder),
            Err(_) => self.turn_in_file(),
        }
    }

    /// The same on network file systems, which lock only files that can be written.
    fn turn_in_file(&self) -> Result<File, Error> {
        let path = self.root.join(TURN);
        let file = files::open_or_make(&path)?;
        file.lock().map_err(files::io("lock", &path))?;
        Ok(file)
    }

    fn put(
        &self,
        name: &str,
        bytes: &[u8],
        before: Option<&Version>,
        fence: Option<&Fence>,
    ) -> Result<Version, Error> {
        let path = self.path(name)?;
        make_parent(&path)?;
        let _turn = self.turn()?;
        self.check(fence)?;
        let there = files::read(&path)?.map(|bytes| version(&bytes));
        if there.as_ref() != before {
            return Err(Error::Changed { path });
        }
        match before {
            None => files::write_new(&path, bytes)?,
            Some(_) => files::write_private(&path, bytes)?,
        }
        Ok(version(bytes))
    }

    fn delete(&self, name: &str, before: &Version, fence: Option<&Fence>) -> Result<(), Error> {
        let path = self.path(name)?;
        if !files::exists(&self.root)? {
            return Ok(());
        }
        let _turn = self.turn()?;
        self.check(fence)?;
        match files::read(&path)? {
            Some(bytes) if version(&bytes) != *before => Err(Error::Changed { path }),
            _ => files::remove_private(&path),
        }
    }

    fn wipe(&self, name: &str, fence: Option<&Fence>) -> Result<(), Error> {
        let path = self.path(name)?;
        if !files::exists(&self.root)? {
            return Ok(());
        }
        let _turn = self.turn()?;
        self.check(fence)?;
        files::remove_private(&path)
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, Error> {
        let path = match folder.strip_suffix('/') {
            Some(folder) => self.path(folder)?,
            None => self.root.clone(),
        };
        let names = files::names(&path)?.into_iter().map(|name| format!("{folder}{name}"));
        Ok(names.filter(|name| name != LOCK).collect())
    }

    fn adopt(&self, name: &str, file: &Path, fence: Option<&Fence>) -> Result<(), Error> {
        let path = self.path(name)?;
        make_parent(&path)?;
        // Where it was not made where it should be, it is brought there first.
        let beside = files::beside(&path);
        if file != beside {
            match fs::rename(file, &beside) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                    files::copy(file, &beside)?;
                    fs::remove_file(file).map_err(files::io("remove", file))?;
                }
                Err(error) => return Err(files::io("move", file)(error)),
            }
        }
        files::sync(&beside)?;
        let _turn = self.turn()?;
        self.check(fence)?;
        files::name_new(&beside, &path)
    }

    fn tidy(&self, name: &str) -> Result<bool, Error> {
        let beside = files::beside(&self.path(name)?);
        let there = files::exists(&beside)?;
        files::remove_private(&beside)?;
        Ok(there)
    }
}

fn make_parent(path: &Path) -> Result<(), Error> {
    path.parent().map_or(Ok(()), files::make_private_folder)
}

fn version(bytes: &[u8]) -> Version {
    Version::new(hex::encode(Sha256::digest(bytes)))
}

impl Backend for Folder {
    fn locate(&self, name: &str) -> PathBuf {
        match name {
            "" => self.root.clone(),
            name => self.root.join(name),
        }
    }

    fn get<'a>(&'a self, name: &'a str) -> Working<'a, Option<Blob>> {
        let (folder, name) = (self.clone(), name.to_owned());
        blocking(move || {
            let bytes = files::read(&folder.path(&name)?)?;
            Ok(bytes.map(|bytes| Blob { version: version(&bytes), bytes: SecretBytes::new(bytes) }))
        })
    }

    fn put_if_unchanged<'a>(
        &'a self,
        name: &'a str,
        bytes: &'a [u8],
        before: Option<&'a Version>,
        fence: Option<&'a Fence>,
    ) -> Working<'a, Version> {
        let (folder, name, bytes) = (self.clone(), name.to_owned(), SecretBytes::new(bytes.to_vec()));
        let (before, fence) = (before.cloned(), fence.cloned());
        blocking(move || folder.put(&name, bytes.expose(), before.as_ref(), fence.as_ref()))
    }

    fn delete_if_unchanged<'a>(
        &'a self,
        name: &'a str,
        before: &'a Version,
        fence: Option<&'a Fence>,
    ) -> Working<'a, ()> {
        let (folder, name) = (self.clone(), name.to_owned());
        let (before, fence) = (before.clone(), fence.cloned());
        blocking(move || folder.delete(&name, &before, fence.as_ref()))
    }

    fn wipe<'a>(&'a self, name: &'a str, fence: Option<&'a Fence>) -> Working<'a, ()> {
        let (folder, name, fence) = (self.clone(), name.to_owned(), fence.cloned());
        blocking(move || folder.wipe(&name, fence.as_ref()))
    }

    fn list<'a>(&'a self, folder: &'a str) -> Working<'a, Vec<String>> {
        let (this, folder) = (self.clone(), folder.to_owned());
        blocking(move || this.list(&folder))
    }

    fn append<'a>(&'a self, name: &'a str, lines: &'a [u8]) -> Working<'a, ()> {
        let (folder, name, lines) = (self.clone(), name.to_owned(), lines.to_vec());
        blocking(move || {
            let path = folder.path(&name)?;
            make_parent(&path)?;
            files::append(&path, &lines)
        })
    }

    fn scratch(&self, name: &str) -> Option<PathBuf> {
        self.path(name).ok().map(|path| files::beside(&path))
    }

    fn adopt<'a>(&'a self, name: &'a str, file: &'a Path, fence: Option<&'a Fence>) -> Working<'a, ()> {
        let (folder, name) = (self.clone(), name.to_owned());
        let (file, fence) = (file.to_owned(), fence.cloned());
        blocking(move || folder.adopt(&name, &file, fence.as_ref()))
    }

    fn tidy<'a>(&'a self, name: &'a str) -> Working<'a, bool> {
        let (folder, name) = (self.clone(), name.to_owned());
        blocking(move || folder.tidy(&name))
    }

    fn acquire<'a>(&'a self, owner: &'a Owner) -> Working<'a, Acquired> {
        let (folder, owner) = (self.clone(), owner.clone());
        blocking(move || folder.take(owner))
    }
}

/// File work waits for disks; it is kept off the threads that serve the network.
pub(super) fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Working<'static, T> {
    Box::pin(async { tokio::task::spawn_blocking(work).await.map_err(Error::Interrupted)? })
}
