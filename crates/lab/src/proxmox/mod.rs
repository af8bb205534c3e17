//! A pretend Proxmox VE cluster: the REST API on every host, with tasks, locks, permissions and storages behind it.
//!
//! [`Datacenter`] is the entry. It is made from a [`DatacenterSpec`] or loaded from a [`SavedDatacenter`], listens on
//! the lab's [`Fabric`], runs what is inside its VMs through [`Guests`], and passes every call through [`Faults`].
//! A worker goes on when its caller is gone, as in life.
//!
//! # What is as in life
//!
//! Reason phrases, envelope and delays; UPIDs before failures; `lock: create` and `lock: clone` while they run; lock
//! files with one and ten seconds of patience; three API processes per host; 596 after thirty seconds; configuration
//! that reads back normalised; `/cluster/resources` that tells names and power states late; privileges by role, ACL,
//! pool and privilege separation.
//!
//! # What is not there
//!
//! Snapshots, replication, SDN and containers answer 501 like any unknown path. Firewalls, high
//! availability and backup jobs are kept and told, and do nothing. Checksums with MD5 never match. Decompression knows gzip only. All tasks of a host run at once, however many.

mod access;
mod api;
mod blob;
mod build;
mod cloudinit;
mod context;
mod disks;
mod durations;
mod fail;
mod fetch;
mod files;
mod kinds;
mod locks;
mod property;
mod realities;
mod request;
mod rng;
mod schema;
mod server;
mod spec;
mod state;
mod tasks;
mod vmconfig;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use self::locks::Locks;
use self::state::{State, Volume};
use crate::faults::Faults;
use crate::pki::{Pki, PkiError};
use crate::{Fabric, Guests, Pace};

pub use self::durations::Durations;
pub use self::files::NoFile;
pub use self::realities::Realities;
pub use self::spec::{DatacenterSpec, Grant, HostSpec, ImageSpec, StorageSpec, TokenSpec, UserSpec, VmSpec};

/// What a datacenter needs from the lab around it.
#[derive(Clone)]
pub struct Surroundings {
    /// The network it listens on and downloads from.
    pub fabric: Fabric,
    /// Its clock.
    pub pace: Pace,
    /// What runs inside the VMs.
    pub guests: Arc<dyn Guests>,
    /// What goes wrong.
    pub faults: Faults,
    /// Who issues its certificates.
    pub pki: Pki,
    /// How long things take.
    pub durations: Durations,
}

/// A datacenter as it was saved.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SavedDatacenter(State);

impl SavedDatacenter {
    /// Simulated time of the last change, after which a loaded world must go on.
    pub fn now(&self) -> i64 {
        self.0.now
    }
}

/// A running datacenter. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Datacenter {
    inner: Arc<Inner>,
}

struct Inner {
    around: Surroundings,
    state: Mutex<State>,
    locks: Locks,
    workers: Mutex<HashMap<String, CancellationToken>>,
    sessions: api::console::Sessions,
    halted: CancellationToken,
}

impl Datacenter {
    /// Makes a datacenter and lets it listen.
    pub fn start(spec: &DatacenterSpec, around: Surroundings) -> Result<Self, PkiError> {
        let now = around.pace.now();
        let datacenter = Self::around(State::empty(spec, now), around);
        datacenter.ensure(spec)?;
        Ok(datacenter)
    }

    /// Goes on with a saved datacenter: lost workers are over, running VMs are powered on again.
    pub fn resume(saved: SavedDatacenter, around: Surroundings) -> Result<Self, PkiError> {
        let mut state = saved.0;
        let now = around.pace.now().max(state.now);
        state.tasks.lose_workers(now);
        let datacenter = Self::around(state, around);
        let running = datacenter.with(|state| {
            state
                .vms
                .iter()
                .filter(|(_, vm)| vm.running.as_ref().is_some_and(|running| running.inhabited))
                .filter_map(|(vmid, vm)| state.hardware(*vmid, vm))
                .collect::<Vec<_>>()
        });
        for hardware in running {
            datacenter.guests().power_on(hardware);
        }
        datacenter.listen()?;
        Ok(datacenter)
    }

    fn around(state: State, around: Surroundings) -> Self {
        let inner = Inner {
            around,
            state: Mutex::new(state),
            locks: Locks::default(),
            workers: Mutex::default(),
            sessions: Default::default(),
            halted: CancellationToken::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The whole datacenter as it is now.
    pub fn save(&self) -> SavedDatacenter {
        SavedDatacenter(self.with(|state| state.clone()))
    }

    /// Ends all workers and connections without any cleaning up, as a power cut does.
    pub fn halt(&self) {
        self.inner.halted.cancel();
        self.unlisten();
    }

    /// Makes a host answer, or be as if its cable were pulled.
    pub fn set_host_online(&self, host: &str, online: bool) {
        self.with(|state| {
            if let Some(host) = state.hosts.get_mut(host) {
                host.online = online;
            }
        });
    }

    /// The software inside a VM has switched it off by itself.
    pub fn guest_ended(&self, vmid: u32) {
        self.with(|state| {
            if let Some(vm) = state.vms.get_mut(&vmid)
                && vm.running.take().is_some()
            {
                vm.apply_pending();
            }
        });
    }

    /// Moves a stopped or running VM to another host, as somebody else may. Disks must be on shared storage or are
    /// moved along. False if there is no such VM or host.
    pub fn migrate(&self, vmid: u32, target: &str) -> bool {
        self.with(|state| state.migrate(vmid, target))
    }

    /// What to call when a guest has switched itself off: its VM is stopped then. Does not keep the datacenter alive.
    pub fn halt_listener(&self) -> impl Fn(u32) + Send + Sync + 'static {
        let inner = Arc::downgrade(&self.inner);
        move |vmid| {
            let Some(inner) = inner.upgrade() else { return };
            Self { inner }.with(|state| {
                if let Some(vm) = state.vms.get_mut(&vmid)
                    && vm.running.take().is_some()
                {
                    vm.apply_pending();
                }
            });
        }
    }

    /// Maps a PCI device of every host under a name, as an administrator does.
    pub fn map_pci(&self, name: &str) {
        self.with(|state| {
            let maps: Vec<String> =
                state.hosts.keys().map(|host| format!("node={host},path=0000:01:00")).collect();
            state.objects.map(name, &maps.join(" "));
        });
    }

    /// Runs `qm unlock` on a host's shell, which no API token can. False if the VM had no lock.
    pub fn unlock(&self, vmid: u32) -> bool {
        self.with(|state| state.vms.get_mut(&vmid).is_some_and(|vm| vm.config.remove("lock").is_some()))
    }

    /// Puts a disk image on a host's storage (`local:import/x.raw`), as a copy over SSH does. A raw one can be sparse: its
    /// size is then not that of its bytes. False if there is no such storage, or it takes no images to import.
    pub fn put_image(&self, host: &str, volid: &str, bytes: Vec<u8>, size: Option<u64>) -> bool {
        let Some((storage, name)) = volid.split_once(':') else { return false };
        self.with(|state| {
            let takes = state.storages.get(storage).is_some_and(|storage| storage.holds("import"));
            let format = name.rsplit('.').next().unwrap_or("raw");
            let mut volume = Volume::file("import", format, bytes, state.now);
            volume.size = size.unwrap_or(volume.size);
            match state.store_mut(host, storage) {
                Ok(store) if takes => store.volumes.insert(name.to_owned(), volume).is_none(),
                _ => false,
            }
        })
    }

    /// Flips the last bit of a file on a storage (`host/storage:volume`, as [`Datacenter::volumes`] says it), as a bad
    /// disk or somebody's hand might. False if there is no such file.
    pub fn spoil(&self, volume: &str) -> bool {
        self.with(|state| {
            let mut volumes = state.stores.iter_mut().flat_map(|(key, store)| {
                store.volumes.iter_mut().map(move |(name, found)| (format!("{key}:{name}"), found))
            });
            let Some((_, found)) = volumes.find(|(name, _)| name == volume) else { return false };
            let mut bytes = found.bytes.bytes().to_vec();
            let Some(last) = bytes.last_mut() else { return false };
            *last ^= 1;
            found.bytes = bytes.into();
            true
        })
    }

    /// Every volume of every storage as `host/storage:volume` (or `storage:volume` when shared), sorted.
    pub fn volumes(&self) -> Vec<String> {
        self.with(|state| {
            let all = state.stores.iter();
            all.flat_map(|(key, store)| store.volumes.keys().map(move |name| format!("{key}:{name}")))
                .collect()
        })
    }

    /// Names of the hosts, sorted.
    pub fn hosts(&self) -> Vec<String> {
        self.with(|state| state.hosts.keys().cloned().collect())
    }

    /// The VMs as `(vmid, host, name, running)`, sorted by VMID.
    pub fn vms(&self) -> Vec<(u32, String, String, bool)> {
        self.with(|state| {
            let all = state.vms.iter();
            all.map(|(id, vm)| (*id, vm.host.clone(), vm.name(*id), vm.running.is_some())).collect()
        })
    }

    /// How many workers run.
    pub fn running_tasks(&self) -> usize {
        guard(&self.inner.workers).len()
    }

    /// The fault injector that this datacenter asks.
    pub fn faults(&self) -> &Faults {
        &self.inner.around.faults
    }

    fn with<R>(&self, work: impl FnOnce(&mut State) -> R) -> R {
        let mut state = guard(&self.inner.state);
        let now = self.inner.around.pace.now().max(state.now);
        state.advance(now);
        work(&mut state)
    }

    fn sessions(&self) -> &api::console::Sessions {
        &self.inner.sessions
    }

    fn pace(&self) -> Pace {
        self.inner.around.pace
    }

    fn durations(&self) -> &Durations {
        &self.inner.around.durations
    }

    fn guests(&self) -> &Arc<dyn Guests> {
        &self.inner.around.guests
    }

    fn halted(&self) -> CancellationToken {
        self.inner.halted.clone()
    }

    fn register_worker(&self, upid: &str, abort: CancellationToken) {
        guard(&self.inner.workers).insert(upid.to_owned(), abort);
    }

    fn unregister_worker(&self, upid: &str) {
        guard(&self.inner.workers).remove(upid);
    }

    fn abort_worker(&self, upid: &str) {
        if let Some(abort) = guard(&self.inner.workers).get(upid) {
            abort.cancel();
        }
    }
}

fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
