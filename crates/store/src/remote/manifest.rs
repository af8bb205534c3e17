//! What is in a remote store: which object is the content of which blob, and who has the lease on all of them.
//!
//! It is one object, replaced only if it is unchanged: whoever writes it proves the lease and the version of every blob
//! in the same step.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::backend::Version;
use crate::lease::Fence;
use crate::seal;

/// What it is called.
pub(super) const MANIFEST: &str = "manifest";
/// Who seals it: it is the store's own, whichever cluster is in it.
const SEALED_BY: &str = "manifest";
/// How many writes back a lost answer can be recognised.
const RECENT: usize = 64;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Manifest {
    /// The epoch of the newest lease.
    pub(super) epoch: u64,
    /// The newest lease; none if it was given back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) lease: Option<Held>,
    /// The blobs, by name.
    #[serde(default)]
    pub(super) blobs: BTreeMap<String, Entry>,
    /// The newest writes, newest last. No two contents of a manifest are the same because of them.
    #[serde(default)]
    recent: VecDeque<String>,
}

/// A lease as others see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Held {
    #[serde(flatten)]
    pub(super) fence: Fence,
    /// Tells it from every other lease, also of the same owner.
    pub(super) id: String,
    /// How often it was renewed.
    pub(super) renewed: u64,
    /// For how long it must be seen unchanged before it has ended, in milliseconds.
    ttl: u64,
}

impl Held {
    pub(super) fn new(fence: Fence, id: String, ttl: Duration) -> Self {
        Self { fence, id, renewed: 0, ttl: u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX) }
    }

    pub(super) fn ttl(&self) -> Duration {
        Duration::from_millis(self.ttl)
    }
}

/// The content of a blob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Entry {
    /// What tells it from every other content: the end of the object's key.
    pub(super) version: String,
    pub(super) size: u64,
    pub(super) sha256: String,
}

impl Entry {
    pub(super) fn version(&self) -> Version {
        Version::new(&self.version)
    }
}

impl Manifest {
    /// An empty one after so many leases.
    pub(super) fn of_epoch(epoch: u64) -> Self {
        Self { epoch, ..Self::default() }
    }

    /// Reads one; an error says what is wrong with it.
    pub(super) fn open(bytes: &[u8], path: &Path) -> Result<Self, Error> {
        let damaged = |why: String| Error::Damaged { path: path.to_owned(), why };
        let opened = seal::open(bytes).map_err(damaged)?;
        if opened.cluster != SEALED_BY {
            return Err(damaged("its first line is not the manifest's".to_owned()));
        }
        serde_json::from_slice(opened.content).map_err(|error| damaged(error.to_string()))
    }

    /// The same to be written.
    pub(super) fn sealed(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec_pretty(self).unwrap_or_default();
        text.push(b'\n');
        seal::seal(SEALED_BY, &text)
    }

    /// Notes which write this is.
    pub(super) fn sign(&mut self, write: &str) {
        self.recent.push_back(write.to_owned());
        while self.recent.len() > RECENT {
            self.recent.pop_front();
        }
    }

    /// Whether a write was made, perhaps without an answer.
    pub(super) fn has(&self, write: &str) -> bool {
        self.recent.iter().any(|recent| recent == write)
    }

    /// Whether a write may be made under this lease.
    pub(super) fn check(&self, fence: Option<&Fence>, place: &Path) -> Result<(), Error> {
        match (fence, &self.lease) {
            (None, _) => Ok(()),
            (Some(fence), Some(held)) if held.fence == *fence => Ok(()),
            (Some(_), _) => Err(Error::LeaseLost { path: place.to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::owner;

    #[test]
    fn damage_at_every_byte_is_detected() {
        let fence = Fence { owner: owner("ada"), epoch: 3 };
        let lease = Some(Held::new(fence, "x".into(), Duration::from_secs(60)));
        let entry = Entry { version: "3-ab".into(), size: 1, sha256: "00".into() };
        let blobs = BTreeMap::from([("a".to_owned(), entry)]);
        let mut manifest = Manifest { epoch: 3, lease, blobs, ..Manifest::default() };
        manifest.sign("write");
        let whole = manifest.sealed();
        assert_eq!(Manifest::open(&whole, Path::new("m")).unwrap(), manifest);
        for at in 0..whole.len() {
            assert!(Manifest::open(&whole[..at], Path::new("m")).is_err(), "cut at {at}");
            let mut bent = whole.clone();
            bent[at] ^= 0x20;
            assert!(Manifest::open(&bent, Path::new("m")).is_err(), "bent at {at}");
        }
    }

    #[test]
    fn a_write_is_known_for_a_while() {
        let mut manifest = Manifest::default();
        for number in 0..=RECENT {
            manifest.sign(&number.to_string());
        }
        assert!(!manifest.has("0") && manifest.has("1") && manifest.has(&RECENT.to_string()));
    }
}
