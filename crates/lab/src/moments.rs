//! When things came about that somebody may be waiting for, so that it can be told how late he was.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

/// How many moments are kept.
const KEPT: usize = 50_000;

/// What came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Occasion {
    /// A Proxmox task ended. The subject is `KIND ID on HOST`.
    TaskEnded,
    /// A configured machine's API began to answer. The subject is the machine's name, here and below.
    ApiUp,
    /// A control plane became able to bootstrap etcd.
    Bootstrappable,
    /// A machine's etcd runs and votes.
    EtcdVotes,
    /// The shared address began to answer. The subject is the address.
    EndpointUp,
    /// Kubernetes learnt that the node is Ready.
    Ready,
}

/// One thing that came about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// When, by tokio's clock.
    pub at: Instant,
    /// What.
    pub occasion: Occasion,
    /// With whom.
    pub subject: String,
}

/// The last moments of a lab. Cheap to clone; all clones are one.
#[derive(Clone, Default)]
pub(crate) struct Moments(Arc<Mutex<VecDeque<Moment>>>);

impl Moments {
    /// It came about just now.
    pub(crate) fn note(&self, occasion: Occasion, subject: impl Into<String>) {
        let moment = Moment { at: Instant::now(), occasion, subject: subject.into() };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() == KEPT {
            all.pop_front();
        }
        all.push_back(moment);
    }

    /// All that are kept, in order.
    pub(crate) fn all(&self) -> Vec<Moment> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}
