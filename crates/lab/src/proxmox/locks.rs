//! Lock files: who waits for a guest or a storage, and for how long before giving up.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{
    OwnedMutexGuard, OwnedRwLockReadGuard, OwnedRwLockWriteGuard, OwnedSemaphorePermit, RwLock, Semaphore,
};

use super::fail::Fail;
use super::{Datacenter, guard};

/// How many API processes a host has for calls that read, and again for calls that write.
const API_PROCESSES: usize = 3;

/// All locks of a datacenter. A restart frees them, so they are not saved.
#[derive(Default)]
pub(super) struct Locks {
    guests: Mutex<HashMap<u32, Arc<RwLock<()>>>>,
    storages: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    processes: Mutex<HashMap<(String, bool), Arc<Semaphore>>>,
}

/// A guest's lock file held. Dropping it frees the lock.
#[expect(dead_code, reason = "held for its drop")]
pub(super) enum GuestLock {
    Shared(OwnedRwLockReadGuard<()>),
    Exclusive(OwnedRwLockWriteGuard<()>),
}

impl Datacenter {
    async fn patient<T>(
        &self,
        patience: Duration,
        file: &str,
        got: impl Future<Output = T>,
    ) -> Result<T, Fail> {
        if !self.realities().lock_timeouts {
            return Ok(got.await);
        }
        let pace = self.pace();
        tokio::select! {
            biased;
            value = got => Ok(value),
            () = pace.pass(pace.patience(patience)) => Err(Fail::internal(format!("can't lock file '{file}' - got timeout"))),
        }
    }

    /// Takes a guest's lock file for itself alone.
    pub(super) async fn lock_guest(&self, vmid: u32, patience: Duration) -> Result<GuestLock, Fail> {
        let lock = guard(&self.inner.locks.guests).entry(vmid).or_default().clone();
        let file = format!("/var/lock/qemu-server/lock-{vmid}.conf");
        self.patient(patience, &file, lock.write_owned()).await.map(GuestLock::Exclusive)
    }

    /// Takes a guest's lock file together with others who only read.
    pub(super) async fn share_guest(&self, vmid: u32, patience: Duration) -> Result<GuestLock, Fail> {
        let lock = guard(&self.inner.locks.guests).entry(vmid).or_default().clone();
        let file = format!("/var/lock/qemu-server/lock-{vmid}.conf");
        self.patient(patience, &file, lock.read_owned()).await.map(GuestLock::Shared)
    }

    /// Takes a storage's lock: of the host, or of the cluster if the storage is shared.
    pub(super) async fn lock_storage(&self, host: &str, storage: &str) -> Result<OwnedMutexGuard<()>, Fail> {
        let key = self.with(|state| state.store_key(host, storage))?;
        let shared = key == storage;
        let lock = guard(&self.inner.locks.storages).entry(key).or_default().clone();
        let patience = self.durations().long_lock;
        let file = format!("/var/lock/pve-manager/pve-storage-{storage}");
        self.patient(patience, &file, lock.lock_owned()).await.map_err(|fail| {
            if shared {
                Fail::internal(format!("cfs-lock 'storage-{storage}' error: got lock request timeout"))
            } else {
                fail
            }
        })
    }

    /// Waits for one of the host's API processes, as a synchronous call occupies one.
    pub(super) async fn process(&self, host: &str, writes: bool) -> Option<OwnedSemaphorePermit> {
        if !self.realities().worker_limit {
            return None;
        }
        let key = (host.to_owned(), writes);
        let processes = guard(&self.inner.locks.processes)
            .entry(key)
            .or_insert_with(|| Arc::new(Semaphore::new(API_PROCESSES)))
            .clone();
        processes.acquire_owned().await.ok()
    }
}
