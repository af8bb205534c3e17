//! A store that cannot be opened: whoever can do without it goes on, and everybody else gets the reason.

use std::io;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::backend::{Acquired, Backend, Blob, Version, Working};
use crate::lease::{Fence, Owner};

/// Answers every question with why the store could not be opened.
#[derive(Debug)]
pub struct Unopened {
    place: PathBuf,
    why: String,
}

impl Unopened {
    /// A store at a place, and why it cannot be opened.
    pub fn new(place: impl Into<PathBuf>, why: impl Into<String>) -> Self {
        Self { place: place.into(), why: why.into() }
    }

    fn refuse<'a, T: Send + 'a>(&self) -> Working<'a, T> {
        let source = io::Error::other(self.why.clone());
        Box::pin(std::future::ready(Err(Error::Unopened { path: self.place.clone(), source })))
    }
}

impl Backend for Unopened {
    fn locate(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.place.clone() } else { self.place.join(name) }
    }

    fn get<'a>(&'a self, _: &'a str) -> Working<'a, Option<Blob>> {
        self.refuse()
    }

    fn put_if_unchanged<'a>(
        &'a self,
        _: &'a str,
        _: &'a [u8],
        _: Option<&'a Version>,
        _: Option<&'a Fence>,
    ) -> Working<'a, Version> {
        self.refuse()
    }

    fn delete_if_unchanged<'a>(
        &'a self,
        _: &'a str,
        _: &'a Version,
        _: Option<&'a Fence>,
    ) -> Working<'a, ()> {
        self.refuse()
    }

    fn wipe<'a>(&'a self, _: &'a str, _: Option<&'a Fence>) -> Working<'a, ()> {
        self.refuse()
    }

    fn list<'a>(&'a self, _: &'a str) -> Working<'a, Vec<String>> {
        self.refuse()
    }

    fn append<'a>(&'a self, _: &'a str, _: &'a [u8]) -> Working<'a, ()> {
        self.refuse()
    }

    fn adopt<'a>(&'a self, _: &'a str, _: &'a Path, _: Option<&'a Fence>) -> Working<'a, ()> {
        self.refuse()
    }

    fn acquire<'a>(&'a self, _: &'a Owner) -> Working<'a, Acquired> {
        self.refuse()
    }
}
