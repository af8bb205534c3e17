//! How long things take on the simulated hosts, all in one place.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Simulated durations of calls and tasks. The defaults are those of a modest host with an SSD.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Durations {
    /// A call that reads.
    pub read: Duration,
    /// A call that writes or starts a task.
    pub write: Duration,
    /// The answer to wrong credentials.
    pub unauthorized: Duration,
    /// How long clone and create wait for a guest's lock file.
    pub short_lock: Duration,
    /// How long everything else waits for a lock.
    pub long_lock: Duration,
    /// When the proxy gives up on an answer.
    pub proxy: Duration,
    /// How long an agent call waits for an agent that is not up.
    pub agent: Duration,
    /// Making one disk (under the storage's lock).
    pub allocate: Duration,
    /// What create and clone take besides the disks.
    pub create: Duration,
    /// Importing or copying one GiB of virtual disk.
    pub copy_gib: Duration,
    /// Starting a VM.
    pub start: Duration,
    /// Stopping a VM.
    pub stop: Duration,
    /// Resizing a disk.
    pub resize: Duration,
    /// Allocating the metadata of one TiB of qcow2.
    pub preallocate_tib: Duration,
    /// Destroying a VM.
    pub destroy: Duration,
    /// Making a template.
    pub template: Duration,
    /// Starting a download or upload task.
    pub transfer: Duration,
    /// Moving one MiB of a download or upload.
    pub transfer_mib: Duration,
    /// Deleting a volume.
    pub delete: Duration,
}

impl Default for Durations {
    fn default() -> Self {
        Self {
            read: Duration::from_millis(10),
            write: Duration::from_millis(40),
            unauthorized: Duration::from_secs(3),
            short_lock: Duration::from_secs(1),
            long_lock: Duration::from_secs(10),
            proxy: Duration::from_secs(30),
            agent: Duration::from_secs(3),
            allocate: Duration::from_millis(80),
            create: Duration::from_millis(400),
            copy_gib: Duration::from_millis(250),
            start: Duration::from_millis(1500),
            stop: Duration::from_millis(900),
            resize: Duration::from_millis(300),
            preallocate_tib: Duration::from_secs(6),
            destroy: Duration::from_millis(500),
            template: Duration::from_millis(300),
            transfer: Duration::from_millis(600),
            transfer_mib: Duration::from_millis(10),
            delete: Duration::from_millis(100),
        }
    }
}
