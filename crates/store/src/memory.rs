//! A backend that keeps nothing: for tests, with a lease that ends by itself like those of remote backends.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::Error;
use crate::backend::{Acquired, Backend, Blob, Version, Working, is_name};
use crate::lease::{Fence, Lease, Owner};
use crate::secret::SecretBytes;

/// Blobs in memory. All clones are the same place.
#[derive(Clone, Debug)]
pub struct Memory {
    state: Arc<Mutex<State>>,
    ttl: Duration,
}

#[derive(Debug, Default)]
struct State {
    blobs: BTreeMap<String, Blob>,
    /// Counts the writes: every content has a version of its own.
    writes: u64,
    /// The newest lease, and when it was renewed; none if it was given back.
    lease: Option<(Fence, Instant)>,
    epoch: u64,
}

impl Memory {
    /// An empty one, whose lease ends unless it is renewed for that long.
    pub fn new(ttl: Duration) -> Self {
        Self { state: Arc::default(), ttl }
    }

    /// Ends the lease at once, as if its owner had not renewed it in time.
    pub fn end_lease(&self) {
        self.state().lease = None;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self, name: &str) -> Error {
        Error::Changed { path: self.locate(name) }
    }

    fn take(&self, owner: &Owner) -> Acquired {
        let mut state = self.state();
        match &state.lease {
            Some((fence, renewed)) if renewed.elapsed() < self.ttl => {
                return Acquired::Busy(Some(fence.owner.clone()));
            }
            _ => {}
        }
        state.epoch += 1;
        let fence = Fence { owner: owner.clone(), epoch: state.epoch };
        state.lease = Some((fence.clone(), Instant::now()));
        Acquired::Held(Box::new(MemoryLease { memory: self.clone(), fence }))
    }
}

impl State {
    fn check(&self, fence: Option<&Fence>) -> Result<(), Error> {
        match (fence, &self.lease) {
            (None, _) => Ok(()),
            (Some(fence), Some((newest, _))) if newest == fence => Ok(()),
            (Some(_), _) => Err(Error::LeaseLost { path: PLACE.into() }),
        }
    }

    fn write(&mut self, name: &str, bytes: Vec<u8>) -> Version {
        self.writes += 1;
        let version = Version::new(self.writes.to_string());
        let blob = Blob { bytes: SecretBytes::new(bytes), version: version.clone() };
        self.blobs.insert(name.to_owned(), blob);
        version
    }
}

const PLACE: &str = "memory:";

fn ready<'a, T: Send + 'a>(result: Result<T, Error>) -> Working<'a, T> {
    Box::pin(std::future::ready(result))
}

impl Backend for Memory {
    fn locate(&self, name: &str) -> PathBuf {
        Path::new(PLACE).join(name)
    }

    fn get<'a>(&'a self, name: &'a str) -> Working<'a, Option<Blob>> {
        ready(Ok(self.state().blobs.get(name).cloned()))
    }

    fn put_if_unchanged<'a>(
        &'a self,
        name: &'a str,
        bytes: &'a [u8],
        before: Option<&'a Version>,
        fence: Option<&'a Fence>,
    ) -> Working<'a, Version> {
        let mut state = self.state();
        ready(state.check(fence).and_then(|()| {
            let there = state.blobs.get(name).map(|blob| &blob.version);
            match is_name(name) && there == before {
                true => Ok(state.write(name, bytes.to_vec())),
                false => Err(self.changed(name)),
            }
        }))
    }

    fn delete_if_unchanged<'a>(
        &'a self,
        name: &'a str,
        before: &'a Version,
        fence: Option<&'a Fence>,
    ) -> Working<'a, ()> {
        let mut state = self.state();
        ready(state.check(fence).and_then(|()| match state.blobs.get(name) {
            Some(blob) if blob.version != *before => Err(self.changed(name)),
            _ => {
                state.blobs.remove(name);
                Ok(())
            }
        }))
    }

    fn wipe<'a>(&'a self, name: &'a str, fence: Option<&'a Fence>) -> Working<'a, ()> {
        let mut state = self.state();
        ready(state.check(fence).map(|()| drop(state.blobs.remove(name))))
    }

    fn list<'a>(&'a self, folder: &'a str) -> Working<'a, Vec<String>> {
        let state = self.state();
        let inside = |name: &&String| name.strip_prefix(folder).is_some_and(|rest| !rest.contains('/'));
        ready(Ok(state.blobs.keys().filter(inside).cloned().collect()))
    }

    fn append<'a>(&'a self, name: &'a str, lines: &'a [u8]) -> Working<'a, ()> {
        let mut state = self.state();
        let before = state.blobs.get(name).map_or(&[][..], |blob| blob.bytes.expose());
        let longer = [before, lines].concat();
        state.write(name, longer);
        ready(Ok(()))
    }

    fn adopt<'a>(&'a self, name: &'a str, file: &'a Path, fence: Option<&'a Fence>) -> Working<'a, ()> {
        Box::pin(async move {
            let failed = |source| Error::Io { what: "read", path: file.to_owned(), source };
            let bytes = tokio::fs::read(file).await.map_err(failed)?;
            self.put_if_unchanged(name, &bytes, None, fence).await?;
            tokio::fs::remove_file(file).await.map_err(failed)
        })
    }

    fn acquire<'a>(&'a self, owner: &'a Owner) -> Working<'a, Acquired> {
        ready(Ok(self.take(owner)))
    }
}

#[derive(Debug)]
struct MemoryLease {
    memory: Memory,
    fence: Fence,
}

impl MemoryLease {
    fn give_back(&self) {
        let mut state = self.memory.state();
        if state.check(Some(&self.fence)).is_ok() {
            state.lease = None;
        }
    }
}

impl Drop for MemoryLease {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl Lease for MemoryLease {
    fn fence(&self) -> &Fence {
        &self.fence
    }

    fn renew_every(&self) -> Option<Duration> {
        Some(self.memory.ttl / 3)
    }

    fn renew(&self) -> Working<'_, ()> {
        let mut state = self.memory.state();
        ready(state.check(Some(&self.fence)).map(|()| {
            state.lease = Some((self.fence.clone(), Instant::now()));
        }))
    }

    fn release(&self) -> Working<'_, ()> {
        self.give_back();
        ready(Ok(()))
    }
}
