//! What all clusters on one Proxmox share: the limits of its hosts and storages, the watch of its tasks, and room for tries.
//!
//! An engine is one cluster's. Engines of one [`Site`] may run at once: together they ask of a host no more than one alone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use daedal_proxmox::{Client, TaskWatcher};
use tokio::sync::Semaphore;

use crate::engine::{Engine, Parts};
use crate::execute::Limiter;
use crate::limits::Limits;

/// One Proxmox and what it bears. Cheap to clone; all clones are the same site.
#[derive(Clone)]
pub struct Site {
    shared: Arc<Shared>,
}

struct Shared {
    limits: Limits,
    places: Mutex<BTreeMap<Place, Arc<Limiter>>>,
    watched: Mutex<Vec<(Client, TaskWatcher)>>,
    overlaps: Semaphore,
}

/// What steps queue at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// A storage in which disks are made.
    Creates(String),
    /// Tasks of a host.
    Tasks(String),
    /// Uploads to a host.
    Uploads(String),
    /// Config calls of a host.
    Configs(String),
    /// Guest agents on a host.
    Agents(String),
}

impl Site {
    /// A site on which nothing runs yet. Of the limits it keeps those per host and storage, and the tries under way in all.
    pub fn new(limits: &Limits) -> Self {
        let overlaps = Semaphore::new(limits.overlaps);
        let (places, watched) = Default::default();
        Self { shared: Arc::new(Shared { limits: limits.clone(), places, watched, overlaps }) }
    }

    /// Whether this is the same site.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// The engine of a cluster on this site.
    pub fn engine(&self, parts: Parts) -> Engine {
        Engine::on(self.clone(), parts)
    }

    /// Where to queue at a place.
    pub(crate) fn limiter(&self, place: Place) -> Arc<Limiter> {
        let limits = &self.shared.limits;
        let new = |place: &Place| match place {
            Place::Creates(_) => Limiter::paced(limits.creates_per_storage),
            Place::Tasks(_) => Limiter::fixed(limits.tasks_per_host),
            Place::Uploads(_) => Limiter::fixed(limits.uploads_per_host),
            Place::Configs(_) => Limiter::fixed(limits.config_calls_per_host),
            // An agent that is not up yet holds one of the three API workers for seconds.
            Place::Agents(_) => Limiter::fixed(1),
        };
        lock(&self.shared.places).entry(place).or_insert_with_key(new).clone()
    }

    /// The watch of the tasks that a client sees: one for all clusters that use this client.
    pub(crate) fn tasks(&self, client: &Client) -> TaskWatcher {
        let mut watched = lock(&self.shared.watched);
        if let Some((_, tasks)) = watched.iter().find(|(known, _)| known.is(client)) {
            return tasks.clone();
        }
        let tasks = TaskWatcher::new(client);
        watched.push((client.clone(), tasks.clone()));
        tasks
    }

    /// Room for tries beside each wait's first.
    pub(crate) fn overlaps(&self) -> &Semaphore {
        &self.shared.overlaps
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
