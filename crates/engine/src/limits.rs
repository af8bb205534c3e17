//! How much is asked of Proxmox and of the nodes at once, and how long anything may take.

use std::time::Duration;

/// Parallelism and patience. The defaults keep a real Proxmox free of lock errors with nothing to tune.
#[derive(Clone, Debug)]
pub struct Limits {
    /// VM creates at once per storage (a shared storage counts once, a local one per host): allocation takes a
    /// storage-wide lock with 10 s patience, and imports compete for the same disks.
    pub creates_per_storage: usize,
    /// Power, resize and destroy tasks at once per host: each forks a worker and loads the host.
    pub tasks_per_host: usize,
    /// Uploads at once per host: each is held in memory here and written twice there.
    pub uploads_per_host: usize,
    /// Synchronous config calls at once per host: pvedaemon has three workers and a slow call blocks one.
    pub config_calls_per_host: usize,
    /// Nodes probed at once while observing.
    pub probes: usize,
    /// Patience with one node's Talos API while observing.
    pub probe_timeout: Duration,
    /// Patience while observing with a control plane that is just booting and cannot tell of its etcd yet.
    pub settle: Duration,
    /// Patience with one call to a node while executing.
    pub call_timeout: Duration,
    /// Time from one try to reach something that boots to the next, whether or not the first was answered: a packet
    /// that is lost must not cost its whole timeout.
    pub attempt_every: Duration,
    /// Tries that may be under way in all beside each wait's first: every one holds a connection.
    pub overlaps: usize,
    /// How often a mutating step is tried again after a passing fault, once the world was read again.
    pub attempts: u32,
    /// Longest wait for somebody else's lock on a VM: a backup takes its time.
    pub lock: Duration,
    /// Longest wait for the quorum of the Proxmox cluster, or for Proxmox itself, to come back.
    pub outage: Duration,
    /// Longest wait for a Proxmox task (image downloads included).
    pub task: Duration,
    /// Longest wait for a node to answer over mTLS after its start.
    pub boot: Duration,
    /// Longest wait for etcd to take a member.
    pub etcd: Duration,
    /// Longest wait for etcd to be whole and to let a member go.
    pub leave: Duration,
    /// Longest wait for a node's pods to be gone.
    pub drain: Duration,
    /// Longest wait for the API endpoint.
    pub endpoint: Duration,
    /// Longest wait for a node to be Ready.
    pub ready: Duration,
}

impl Limits {
    /// Patience with one request to an API server: a list may be long.
    pub(crate) fn request(&self) -> Duration {
        3 * self.call_timeout
    }

    /// For peers on this very machine, as those of a lab are: each answers or refuses at once, and is slow only because the
    /// machine is busy.
    pub fn of_a_lab() -> Self {
        let minute = Duration::from_secs(60);
        Self { probe_timeout: minute / 2, settle: 2 * minute, call_timeout: minute, ..Self::default() }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            creates_per_storage: 4,
            tasks_per_host: 8,
            uploads_per_host: 3,
            config_calls_per_host: 3,
            probes: 64,
            probe_timeout: Duration::from_secs(3),
            settle: Duration::from_secs(20),
            call_timeout: Duration::from_secs(10),
            attempt_every: Duration::from_millis(100),
            overlaps: 160,
            attempts: 5,
            lock: Duration::from_secs(30 * 60),
            outage: Duration::from_secs(2 * 60),
            task: Duration::from_secs(30 * 60),
            boot: Duration::from_secs(15 * 60),
            etcd: Duration::from_secs(10 * 60),
            leave: Duration::from_secs(3 * 60),
            drain: Duration::from_secs(10 * 60),
            endpoint: Duration::from_secs(10 * 60),
            ready: Duration::from_secs(15 * 60),
        }
    }
}
