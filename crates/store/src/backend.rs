//! What a place must be able to do to keep a store: bytes under names, changed only by who saw them last.
//!
//! A backend knows nothing of clusters, keys or formats. What it keeps is sealed and encrypted above it, once for all
//! backends.

use std::fmt;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;

use crate::Error;
use crate::lease::{Fence, Lease, Owner};
use crate::secret::SecretBytes;

/// Work of a backend.
pub type Working<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Tells one content of a blob from another. What it is made of is the backend's secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version(String);

impl Version {
    /// A version as the backend knows it: an ETag, a number, a digest.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The same again.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What is kept under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// Its content.
    pub bytes: SecretBytes,
    /// Which content that is.
    pub version: Version,
}

/// What came of asking for the lease.
#[derive(Debug)]
pub enum Acquired {
    /// It is ours.
    Held(Box<dyn Lease>),
    /// Somebody else has it; who, if that can be told.
    Busy(Option<Owner>),
}

/// A place that keeps blobs.
///
/// Names are made of letters, digits, `-`, `_` and `.`, in folders separated by `/`; no part begins with a dot.
///
/// Every write says on which version it is based, and carries the [`Fence`] of the lease that it is made under, if
/// there is one. A write whose fence is not that of the newest lease is refused with [`Error::LeaseLost`], whatever
/// it is based on: whoever took over must never see the work of whoever was thought dead.
pub trait Backend: fmt::Debug + Send + Sync + 'static {
    /// Where a blob is, for people: a path or an address. Where all of them are, if the name is empty.
    fn locate(&self, name: &str) -> PathBuf;

    /// Reads a blob; none if there is none.
    fn get<'a>(&'a self, name: &'a str) -> Working<'a, Option<Blob>>;

    /// Writes a blob whole or not at all, in place of the version `before`, or as a new one if that is none.
    /// [`Error::Changed`] if something else is there. When it returns, the blob outlives a power cut.
    fn put_if_unchanged<'a>(
        &'a self,
        name: &'a str,
        bytes: &'a [u8],
        before: Option<&'a Version>,
        fence: Option<&'a Fence>,
    ) -> Working<'a, Version>;

    /// Removes the version `before` of a blob, and what a killed writer may have left of it. Fine if it is gone.
    fn delete_if_unchanged<'a>(
        &'a self,
        name: &'a str,
        before: &'a Version,
        fence: Option<&'a Fence>,
    ) -> Working<'a, ()>;

    /// Removes a blob or a log whatever is in it, damaged too, and what a killed writer may have left of it. Fine if it is gone.
    fn wipe<'a>(&'a self, name: &'a str, fence: Option<&'a Fence>) -> Working<'a, ()>;

    /// Makes an empty place of one in which nothing can be found because what describes it is damaged. Whether it was. What was
    /// written under a lease of before is refused.
    fn mend(&self) -> Working<'_, bool> {
        Box::pin(std::future::ready(Ok(false)))
    }

    /// The names of all blobs in a folder (`""` or one that ends with `/`), but not of those in folders below it; sorted.
    fn list<'a>(&'a self, folder: &'a str) -> Working<'a, Vec<String>>;

    /// Adds whole lines to the end of a blob. Those of two writers never mix. Not fenced: a log tells what happened,
    /// also of whoever lost the lease.
    fn append<'a>(&'a self, name: &'a str, lines: &'a [u8]) -> Working<'a, ()>;

    /// Where a large blob is best made, so that [`Backend::adopt`] need not copy it; none if it does not matter.
    fn scratch(&self, name: &str) -> Option<PathBuf> {
        let _ = name;
        None
    }

    /// Makes a new blob of a private file on this machine, however large, and removes the file.
    /// [`Error::Changed`] if there is a blob of that name.
    fn adopt<'a>(&'a self, name: &'a str, file: &'a Path, fence: Option<&'a Fence>) -> Working<'a, ()>;

    /// Whether only the user of this machine can read it. What is secret and not encrypted yet must be, elsewhere.
    fn is_private(&self) -> bool {
        true
    }

    /// Removes what a killed writer may have left of a blob in the making. Whether there was anything.
    fn tidy<'a>(&'a self, name: &'a str) -> Working<'a, bool> {
        let _ = name;
        Box::pin(std::future::ready(Ok(false)))
    }

    /// Takes the lease on all blobs, with an epoch greater than that of every lease before it. One that ended, by
    /// itself or with its owner, is taken over.
    fn acquire<'a>(&'a self, owner: &'a Owner) -> Working<'a, Acquired>;
}

/// Whether this may be the name of a blob.
pub(crate) fn is_name(name: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    name.split('/').all(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_inside() {
        for good in ["lock", "secrets.yaml.age", "backups/etcd-20260101T000000Z.db", "a/b/c_1"] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", "/", "a/", "/a", "..", "a/../b", ".hidden", "a/.hidden", "a b", "a\\b", "a\0"] {
            assert!(!is_name(bad), "{bad:?}");
        }
    }
}
