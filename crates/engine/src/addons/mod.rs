//! Add-ons: what they are rendered to, and what of it is in the cluster.
//!
//! A release is rendered with what the cluster serves and what its templates look up. It is kept until the engine is dropped, so
//! that a run applies exactly what its plan was made from, although what it applies changes what the cluster serves.

mod files;
mod look;
mod objects;
mod outcome;
mod render;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use daedal_addons::{Release, Seed};
use daedal_talos_config::SecretsBundle;
use sha2::{Digest, Sha256};

pub use files::{AddonFiles, NoFiles};
pub(crate) use look::{foreign, how_ready, look, same};
pub(crate) use objects::{Applying, Objects};
pub(crate) use outcome::{Answer, answer};
pub(crate) use render::releases;

/// Releases by the names of their add-ons, as they were last rendered for a look.
#[derive(Clone, Default)]
pub(crate) struct Releases(Arc<Mutex<BTreeMap<String, Arc<Release>>>>);

impl Releases {
    pub(crate) fn keep(&self, release: Arc<Release>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(release.name.clone(), release);
    }

    pub(crate) fn of(&self, addon: &str) -> Option<Arc<Release>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(addon).cloned()
    }
}

/// What random values of releases are derived from: as secret as the cluster's secrets, and no less lasting.
pub(crate) fn seed(secrets: &SecretsBundle) -> Seed {
    let mut hash = Sha256::new();
    hash.update(b"daedal add-ons\0");
    hash.update(secrets.cluster_id.as_bytes());
    hash.update([0]);
    hash.update(secrets.cluster_secret.expose().as_bytes());
    Seed::new(hash.finalize().into())
}
