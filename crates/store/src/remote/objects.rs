//! What a service must be able to do to keep a store: objects under keys, written only on a condition.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::backend::Working;
use crate::secret::SecretBytes;

/// Tells one content of an object from another, as the service does: an ETag, a version number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tag(pub(crate) String);

/// What is kept under a key.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) bytes: SecretBytes,
    pub(crate) tag: Tag,
}

/// What must be true of a key for a write to be made.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Condition<'a> {
    /// There is no object.
    New,
    /// It has this content.
    Matches(&'a Tag),
}

/// What is written.
#[derive(Clone, Copy)]
pub(crate) enum Content<'a> {
    Bytes(&'a [u8]),
    /// A file on this machine, however large.
    File {
        path: &'a Path,
        size: u64,
        sha256: &'a str,
    },
}

/// What came of a write that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Put {
    Done(Tag),
    /// The condition was not met.
    Refused,
}

/// A service that keeps objects. An error of a write leaves open whether it was made.
pub(crate) trait Objects: fmt::Debug + Send + Sync + 'static {
    /// Where an object is, for people.
    fn locate(&self, key: &str) -> PathBuf;

    /// The largest object that it takes, in bytes.
    fn largest(&self) -> u64;

    fn get<'a>(&'a self, key: &'a str) -> Working<'a, Option<Object>>;

    fn put<'a>(&'a self, key: &'a str, content: Content<'a>, condition: Condition<'a>) -> Working<'a, Put>;

    /// Removes an object for good. Fine if it is gone.
    fn delete<'a>(&'a self, key: &'a str) -> Working<'a, ()>;

    /// All keys that begin so, at any depth, sorted.
    fn list<'a>(&'a self, prefix: &'a str) -> Working<'a, Vec<String>>;
}
