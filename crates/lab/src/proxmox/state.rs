//! Everything a datacenter is at one moment, ready to be saved.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use sha1::{Digest, Sha1};

use super::access::{Access, Privileges, Who};
use super::blob::{Blob, qcow2};
use super::fail::Fail;
use super::rng::Rng;
use super::tasks::Tasks;
use crate::pki::Leaf;

/// A VM's configuration: every value as text, as in its file.
pub(crate) type Config = BTreeMap<String, String>;

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) version: String,
    pub(crate) hosts: BTreeMap<String, Host>,
    pub(crate) first_host: String,
    pub(crate) endpoints: Vec<String>,
    pub(crate) storages: BTreeMap<String, Storage>,
    pub(crate) stores: BTreeMap<String, Store>,
    pub(crate) vms: BTreeMap<u32, Vm>,
    pub(crate) pools: BTreeMap<String, Pool>,
    pub(crate) pool_of: BTreeMap<u32, String>,
    pub(crate) access: Access,
    pub(crate) tasks: Tasks,
    pub(crate) rng: Rng,
    pub(crate) broadcast: Broadcast,
    #[serde(default, alias = "guarding")]
    pub(crate) objects: super::api::cluster_objects::ClusterObjects,
    #[serde(default)]
    pub(crate) realities: super::Realities,
    /// Servers whose certificates the hosts' own roots did not sign.
    #[serde(default)]
    pub(crate) distrusted: BTreeSet<String>,
    /// Simulated time of the last change, so that a loaded world goes on after it.
    pub(crate) now: i64,
}

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Host {
    #[serde(default = "usual_machine")]
    pub(crate) machine: String,
    pub(crate) cpus: u32,
    pub(crate) memory: u64,
    pub(crate) bridges: Vec<String>,
    /// Bridges without a physical port.
    #[serde(default)]
    pub(crate) portless: BTreeSet<String>,
    pub(crate) endpoints: Vec<String>,
    pub(crate) booted: i64,
    pub(crate) online: bool,
    pub(crate) next_pid: u32,
    pub(crate) leaf: Leaf,
    pub(crate) fingerprint: String,
}

impl Host {
    pub(crate) fn is_arm(&self) -> bool {
        self.machine == "aarch64"
    }
}

/// What a world that was saved before hosts differed has.
fn usual_machine() -> String {
    "x86_64".to_owned()
}

/// A storage's definition, the same on all its hosts.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Storage {
    pub(crate) kind: String,
    pub(crate) content: Vec<String>,
    pub(crate) shared: bool,
    pub(crate) hosts: BTreeSet<String>,
    /// An administrator has switched it off.
    #[serde(default)]
    pub(crate) disabled: bool,
}

impl Storage {
    pub(crate) fn holds(&self, content: &str) -> bool {
        self.content.iter().any(|one| one == content)
    }
}

impl Host {
    /// Its bridges with the zones they are in: `localnetwork`, unless they are VNets.
    pub(crate) fn bridges(&self) -> impl Iterator<Item = (&str, &str)> {
        self.bridges.iter().map(|bridge| bridge.split_once('/').unwrap_or(("localnetwork", bridge)))
    }
}

impl State {
    /// The path that the right to use a bridge is on.
    pub(crate) fn bridge_path(&self, bridge: &str) -> String {
        let zone = self.hosts.values().flat_map(Host::bridges).find(|(_, name)| *name == bridge);
        format!("/sdn/zones/{}/{bridge}", zone.map_or("localnetwork", |(zone, _)| zone))
    }
}

/// Where volumes are: one per host and storage, or one for a shared storage.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Store {
    pub(crate) total: u64,
    pub(crate) others: u64,
    /// Bytes that are neither used nor free: a file system keeps some for root, or shares them with others.
    #[serde(default)]
    pub(crate) reserved: u64,
    pub(crate) volumes: BTreeMap<String, Volume>,
    /// Since when what it is on is not there: a volume group, a mount, a server.
    #[serde(default)]
    pub(crate) lost: Option<i64>,
    /// How long making one disk takes, where that is not the usual time.
    #[serde(default)]
    pub(crate) allocate: Option<std::time::Duration>,
}

impl Store {
    pub(crate) fn used(&self) -> u64 {
        self.others + self.volumes.values().map(|volume| volume.used).sum::<u64>()
    }

    /// Bytes that can still be written.
    pub(crate) fn available(&self) -> u64 {
        self.total.saturating_sub(self.used() + self.reserved)
    }

    /// Whether a file of that many bytes fits.
    pub(crate) fn takes(&self, bytes: usize) -> bool {
        bytes as u64 <= self.available()
    }
}

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Volume {
    /// `images`, `iso`, `import`, …
    pub(crate) content: String,
    pub(crate) format: String,
    /// Virtual size of a disk; of a file that came from outside, its own.
    pub(crate) size: u64,
    pub(crate) used: u64,
    pub(crate) vmid: Option<u32>,
    pub(crate) parent: Option<String>,
    pub(crate) created: i64,
    pub(crate) bytes: Blob,
    pub(crate) identity: String,
}

#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Pool {
    pub(crate) comment: Option<String>,
    pub(crate) storages: BTreeSet<String>,
}

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Vm {
    pub(crate) host: String,
    pub(crate) config: Config,
    /// Changes that wait for a stop: a new value, or none for a deletion.
    pub(crate) pending: BTreeMap<String, Option<String>>,
    pub(crate) running: Option<Running>,
    #[serde(default)]
    pub(crate) snapshots: BTreeMap<String, super::api::snapshot::Snapshot>,
}

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Running {
    pub(crate) since: i64,
    pub(crate) pid: u32,
    /// Whether something runs inside; foreign VMs are empty.
    pub(crate) inhabited: bool,
}

impl Vm {
    /// A VM that does not run.
    pub(crate) fn new(host: &str, config: Config) -> Self {
        let (pending, snapshots) = (BTreeMap::new(), BTreeMap::new());
        Self { host: host.to_owned(), config, pending, running: None, snapshots }
    }

    pub(crate) fn name(&self, vmid: u32) -> String {
        self.config.get("name").cloned().unwrap_or_else(|| format!("VM {vmid}"))
    }

    pub(crate) fn lock(&self) -> Option<&str> {
        self.config.get("lock").map(String::as_str)
    }

    pub(crate) fn check_lock(&self) -> Result<(), Fail> {
        match self.lock() {
            Some(lock) => Err(Fail::internal(format!("VM is locked ({lock})"))),
            None => Ok(()),
        }
    }

    pub(crate) fn is_template(&self) -> bool {
        self.config.get("template").is_some_and(|value| value == "1")
    }

    pub(crate) fn status(&self) -> &'static str {
        if self.running.is_some() { "running" } else { "stopped" }
    }

    /// The values that the next start would use.
    pub(crate) fn wanted(&self) -> Config {
        let mut config = self.config.clone();
        for (key, value) in &self.pending {
            match value {
                Some(value) => config.insert(key.clone(), value.clone()),
                None => config.remove(key),
            };
        }
        config
    }

    pub(crate) fn apply_pending(&mut self) {
        self.config = self.wanted();
        self.pending.clear();
    }

    /// What Proxmox prints as `digest`: changes with every change of the file.
    pub(crate) fn digest(&self) -> String {
        let mut hash = Sha1::new();
        for (key, value) in &self.config {
            hash.update(format!("{key}: {value}\n"));
        }
        for (key, value) in &self.pending {
            hash.update(format!("[PENDING] {key}: {value:?}\n"));
        }
        hex::encode(hash.finalize())
    }
}

/// What the hosts' status daemon last told the cluster, every ten seconds.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Broadcast {
    tick: i64,
    now: BTreeMap<u32, (String, String)>,
    before: BTreeMap<u32, (String, String)>,
    reads: u64,
}

const BROADCAST_SECONDS: i64 = 10;

impl State {
    /// Brings the clock forward; on a new tick the status daemons speak of the world as it was until now.
    pub(crate) fn advance(&mut self, now: i64) {
        let tick = now / BROADCAST_SECONDS;
        if tick != self.broadcast.tick {
            let told = self.told();
            self.broadcast.before = std::mem::replace(&mut self.broadcast.now, told);
            self.broadcast.tick = tick;
        }
        self.now = now;
    }

    /// What the status daemons of all hosts that are up know at this moment.
    fn told(&self) -> BTreeMap<u32, (String, String)> {
        self.vms
            .iter()
            .filter(|(_, vm)| self.hosts.get(&vm.host).is_some_and(|host| host.online))
            .map(|(vmid, vm)| (*vmid, (vm.name(*vmid), vm.status().to_owned())))
            .collect()
    }

    /// Whether most hosts are there. A single host is a quorum.
    pub(crate) fn quorate(&self) -> bool {
        let online = self.hosts.values().filter(|host| host.online).count();
        !self.realities.quorum || online * 2 > self.hosts.len()
    }

    /// Name and status as `/cluster/resources` tells them. Within a second of a tick every other read is old, as the
    /// proxy's processes cache on their own.
    pub(crate) fn broadcast(&mut self) -> &BTreeMap<u32, (String, String)> {
        if !self.realities.stale_lists {
            self.broadcast.now = self.told();
            return &self.broadcast.now;
        }
        self.broadcast.reads += 1;
        let fresh = self.now % BROADCAST_SECONDS == 0;
        if fresh && self.broadcast.reads.is_multiple_of(2) {
            &self.broadcast.before
        } else {
            &self.broadcast.now
        }
    }

    /// Which store holds a storage's volumes on a host.
    pub(crate) fn store_key(&self, host: &str, storage: &str) -> Result<String, Fail> {
        let definition = self.storages.get(storage).ok_or_else(|| Fail::no_storage(storage))?;
        if !definition.hosts.contains(host) {
            return Err(Fail::internal(format!("storage '{storage}' is not available on node '{host}'")));
        }
        if definition.disabled {
            return Err(Fail::internal(format!("storage '{storage}' is disabled")));
        }
        Ok(if definition.shared { storage.to_owned() } else { format!("{host}/{storage}") })
    }

    pub(crate) fn store(&self, host: &str, storage: &str) -> Result<&Store, Fail> {
        let key = self.store_key(host, storage)?;
        let store = self.stores.get(&key).ok_or_else(|| Fail::no_storage(storage))?;
        if store.lost.is_some() {
            return Err(self.cannot_activate(storage));
        }
        Ok(store)
    }

    pub(crate) fn store_mut(&mut self, host: &str, storage: &str) -> Result<&mut Store, Fail> {
        self.store(host, storage)?;
        let key = self.store_key(host, storage)?;
        self.stores.get_mut(&key).ok_or_else(|| Fail::no_storage(storage))
    }

    /// What a host says when what a storage is on is not there.
    fn cannot_activate(&self, storage: &str) -> Fail {
        Fail::internal(match self.storages.get(storage).map_or("", |known| known.kind.as_str()) {
            "lvm" | "lvmthin" => {
                "command '/sbin/vgs' failed: exit code 5: Volume group \"pve\" not found".to_owned()
            }
            "zfspool" => format!(
                "could not activate storage '{storage}', zfs error: cannot import '{storage}': no such pool available"
            ),
            "dir" => format!(
                "unable to activate storage '{storage}' - directory is expected to be a mount point but is not mounted"
            ),
            _ => format!("storage '{storage}' is not online"),
        })
    }

    /// A volume by its id (`storage:name`), as seen from a host.
    pub(crate) fn volume(&self, host: &str, volid: &str) -> Option<&Volume> {
        let (storage, name) = volid.split_once(':')?;
        self.store(host, storage).ok()?.volumes.get(name)
    }

    pub(crate) fn remove_volume(&mut self, host: &str, volid: &str) -> Option<Volume> {
        let (storage, name) = volid.split_once(':')?;
        self.store_mut(host, storage).ok()?.volumes.remove(name)
    }

    /// The VM if it is on this host.
    pub(crate) fn vm(&self, host: &str, vmid: u32) -> Result<&Vm, Fail> {
        self.vms.get(&vmid).filter(|vm| vm.host == host).ok_or_else(|| Fail::no_vm(host, vmid))
    }

    pub(crate) fn vm_mut(&mut self, host: &str, vmid: u32) -> Result<&mut Vm, Fail> {
        self.vms.get_mut(&vmid).filter(|vm| vm.host == host).ok_or_else(|| Fail::no_vm(host, vmid))
    }

    /// What `who` may do on an ACL path, pools included.
    pub(crate) fn privileges(&self, who: &Who, path: &str) -> Privileges {
        let pool = if let Some(vmid) = path.strip_prefix("/vms/") {
            vmid.parse().ok().and_then(|vmid: u32| self.pool_of.get(&vmid)).map(String::as_str)
        } else if let Some(storage) = path.strip_prefix("/storage/") {
            self.pools.iter().find(|(_, pool)| pool.storages.contains(storage)).map(|(name, _)| name.as_str())
        } else {
            None
        };
        self.access.privileges(who, path, pool)
    }

    /// What `who` may do on VMs, worked out once for all that have neither a pool nor an ACL entry of their own.
    pub(crate) fn vm_view<'a>(&'a self, who: &'a Who) -> VmView<'a> {
        let special = self.access.acl.range("/vms/".to_owned().."/vms0".to_owned());
        let special = special.filter_map(|(path, _)| path.strip_prefix("/vms/")?.parse().ok()).collect();
        VmView { state: self, who, usual: self.access.privileges(who, "/vms/0", None), special }
    }

    pub(crate) fn major(&self) -> u32 {
        self.version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(9)
    }

    fn release(&self) -> (u32, u32, u32) {
        let mut parts = self.version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
        (parts.next().unwrap_or(0), parts.next().unwrap_or(0), parts.next().unwrap_or(0))
    }

    /// Whether it is this release or a later one.
    pub(crate) fn at_least(&self, major: u32, minor: u32) -> bool {
        self.release() >= (major, minor, 0)
    }

    /// Whether wrong credentials are all answered alike (since 9.1.5).
    pub(crate) fn tells_nothing_on_wrong_credentials(&self) -> bool {
        self.release() >= (9, 1, 5)
    }

    /// A new process on a host.
    pub(crate) fn pid(&mut self, host: &str) -> u32 {
        let step = 1 + (self.rng.next() % 7) as u32;
        match self.hosts.get_mut(host) {
            Some(host) => {
                host.next_pid += step;
                host.next_pid
            }
            None => step,
        }
    }
}

impl Volume {
    /// Bytes of the disk in it: what the header of a file says, if it has one.
    pub(crate) fn disk_size(&self) -> u64 {
        let is_file = self.vmid.is_none() && self.format == "qcow2";
        let header = is_file.then(|| qcow2(self.bytes.bytes())).flatten();
        header.map_or(self.size, |header| header.size)
    }

    /// A file that came from outside.
    pub(crate) fn file(content: &str, format: &str, bytes: Vec<u8>, now: i64) -> Self {
        let size = bytes.len() as u64;
        Self {
            content: content.into(),
            format: format.into(),
            size,
            used: size,
            vmid: None,
            parent: None,
            created: now,
            bytes: Blob::from(bytes),
            identity: String::new(),
        }
    }
}

/// One caller's privileges on all VMs.
pub(crate) struct VmView<'a> {
    state: &'a State,
    who: &'a Who,
    usual: Privileges,
    special: BTreeSet<u32>,
}

impl VmView<'_> {
    pub(crate) fn privileges(&self, vmid: u32) -> Privileges {
        if self.special.contains(&vmid) || self.state.pool_of.contains_key(&vmid) {
            self.state.privileges(self.who, &format!("/vms/{vmid}"))
        } else {
            self.usual
        }
    }
}
