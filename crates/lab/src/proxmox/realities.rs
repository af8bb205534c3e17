//! Proxmox's awkward ways, each of which can be switched off, and what befalls a datacenter from outside.

use serde::{Deserialize, Serialize};

use super::Datacenter;

/// Which of Proxmox's awkward ways this datacenter has. It has all of them unless told otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Realities {
    /// A host has three API processes for reads and three for changes; further calls wait.
    pub worker_limit: bool,
    /// Whoever waits for a lock file loses patience after one or ten seconds.
    pub lock_timeouts: bool,
    /// `/cluster/resources` tells names and power states up to ten seconds late.
    pub stale_lists: bool,
    /// An answer that takes longer than thirty seconds becomes a 596, while the work goes on.
    pub proxy_timeout: bool,
    /// Without most of its hosts a cluster takes no changes.
    pub quorum: bool,
}

impl Default for Realities {
    fn default() -> Self {
        Self { worker_limit: true, lock_timeouts: true, stale_lists: true, proxy_timeout: true, quorum: true }
    }
}

impl Datacenter {
    /// Switches realities on or off from now on.
    pub fn set_realities(&self, realities: Realities) {
        self.with(|state| state.realities = realities);
    }

    pub(super) fn realities(&self) -> Realities {
        self.with(|state| state.realities.clone())
    }

    /// From now on no host knows who signed the certificate of this server: it is of an authority of somebody's own.
    pub fn distrust(&self, server: &str) {
        self.with(|state| state.distrusted.insert(server.to_owned()));
    }

    /// Somebody else fills a storage (`host/storage`, or `storage` when shared) until so many bytes are left. False if
    /// there is no such storage.
    pub fn fill(&self, store: &str, left: u64) -> bool {
        self.with(|state| {
            let Some(store) = state.stores.get_mut(store) else { return false };
            let ours = store.used() - store.others;
            store.others = store.total.saturating_sub(ours + left);
            true
        })
    }

    /// From now on making one disk on a storage (`host/storage`, or `storage` when shared) takes so long. False if there is
    /// no such storage.
    pub fn slow_down(&self, store: &str, allocate: std::time::Duration) -> bool {
        self.with(|state| {
            let found = state.stores.get_mut(store);
            found.map(|store| store.allocate = Some(allocate)).is_some()
        })
    }

    /// How long making one disk takes on a storage of a host.
    pub(super) fn allocate_time(&self, host: &str, storage: &str) -> std::time::Duration {
        let own = self.with(|state| state.store(host, storage).ok().and_then(|store| store.allocate));
        own.unwrap_or(self.durations().allocate)
    }

    /// What a storage (`host/storage`, or `storage` when shared) is on vanishes, or is there again. False if there is no such
    /// storage.
    pub fn lose(&self, store: &str, lost: bool) -> bool {
        self.with(|state| {
            let now = state.now;
            let found = state.stores.get_mut(store);
            found.map(|store| store.lost = lost.then_some(now)).is_some()
        })
    }

    /// A storage (`host/storage`, or `storage` when shared) keeps so many bytes for itself, which it calls neither used nor
    /// free. False if there is no such storage.
    pub fn reserve(&self, store: &str, bytes: u64) -> bool {
        self.with(|state| {
            let Some(store) = state.stores.get_mut(store) else { return false };
            store.reserved = bytes;
            true
        })
    }

    /// An administrator switches a storage off, or on again. False if there is no such storage.
    pub fn disable(&self, storage: &str, disabled: bool) -> bool {
        self.with(|state| {
            let found = state.storages.get_mut(storage);
            found.map(|storage| storage.disabled = disabled).is_some()
        })
    }

    /// Somebody's job (`backup`, `snapshot`, `migrate` …) takes hold of a VM. False if there is none, or it is held.
    pub fn hold(&self, vmid: u32, lock: &str) -> bool {
        self.with(|state| {
            let Some(vm) = state.vms.get_mut(&vmid) else { return false };
            if vm.config.contains_key("lock") {
                return false;
            }
            vm.config.insert("lock".into(), lock.into());
            true
        })
    }
}
