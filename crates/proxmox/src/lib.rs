//! A typed client for the Proxmox VE API.
//!
//! [`Client`] is the entry: HTTPS/1.1 with an API [`Token`], over any [`daedal_dial::Dialer`], with one method for each
//! endpoint. Long work answers with a [`Upid`]; one [`TaskWatcher`] waits for any number of them with few calls.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use daedal_proxmox::{Client, CreateVm, NewDisk, TaskWatcher, Token, Trust};
//!
//! let token = Token::new("robot@pve!cli", "00000000-0000-0000-0000-000000000000")?;
//! let client = Client::builder("https://atlas.lan:8006", token)
//!     .trust(Trust::Fingerprint("10:87:D9:AC:7F:8A:64:F8:B9:D6:21:92:CA:A7:D5:75:80:69:6F:1B:2A:55:B3:8C:22:29:31:97:B7:E1:6D:59".parse()?))
//!     .build()?;
//! let tasks = TaskWatcher::new(&client);
//! let vm = CreateVm { vmid: 300, name: "cp-1".into(), cores: 4, memory_mib: 8192,
//!     disks: [("scsi0".into(), NewDisk::import("local-lvm", "local:import/talos.qcow2"))].into(), ..CreateVm::default() };
//! let upid = client.create_vm("atlas", &vm).await?;
//! tasks.finish(&upid, "create VM 300").await?;
//! # Ok(()) }
//! ```
//!
//! # Failures
//!
//! [`Error`] names the operation; [`Error::kind`] is typed from Proxmox's reason phrase *and* body, and from a task's
//! exit status with the same patterns ([`from_task_text`]). A change that was sent and not answered is
//! [`Kind::MayHaveHappened`]: look before repeating it.
//!
//! # Retries
//!
//! | failure | reads | idempotent changes | other changes |
//! |---|---|---|---|
//! | connection refused or not up, nothing sent | again | again | again |
//! | kept connection closed before the request left | at once on a fresh one | the same | the same |
//! | sent, then connection lost, no answer in time, 595, 596, 502, 504 | again | `MayHaveHappened` | `MayHaveHappened` |
//! | success, but the body is truncated or malformed | again | `MayHaveHappened` | `MayHaveHappened` |
//! | lock timeout, no worker UPID | again | again | surfaces |
//! | anything else (401, 403, 400, locked, missing …) | surfaces | surfaces | surfaces |
//!
//! Idempotent are: upload, delete volume, download with checksum, config update, absolute resize, start, stop, shutdown,
//! destroy, abort. Create VM, download without checksum and create pool are not. [`Retry`] spaces the tries.
//!
//! # Invariants
//!
//! The token's secret is in no error, log line or `Debug` output. Every try of every call passes the client's
//! [`Observer`], where it can be counted, failed or held. All waits are on tokio's clock.

mod access;
mod api;
mod classify;
mod client;
mod cluster_objects;
mod console;
mod create;
mod error;
mod estimate;
mod firewall;
mod lenient;
mod model;
mod observe;
mod params;
mod release;
mod secret;
mod task;
mod transport;
mod upid;
mod upload;
mod vm;
mod watch;

pub use access::{AclEntry, Holder, NewToken, RoleRow, TokenRow, UserRow};
pub use api::Download;
pub use classify::from_task_text;
pub use client::{BuildError, Builder, Client, LoginError, Retry};
pub use cluster_objects::{ClusterObject, Options};
pub use console::Console;
pub use create::{CloneVm, CreateVm, DiskSource, NewDisk};
pub use daedal_dial::{Fingerprint, Trust, TrustError};
pub use error::{Cause, Error, Kind, Missing};
pub use firewall::FirewallRule;
pub use model::{
    ClusterMember, CpuInfo, GuestInterface, HaState, Interface, KernelInfo, MemoryInfo, Node, NodeStatus,
    Permissions, Pool, Propagates, Resource, Storage, Version, VmRow, VmStatus, Volume, VolumeInfo,
    permitted,
};
pub use observe::{Call, CallCounter, Counts, Fault, Observer, Seen, Verdict};
pub use params::{Params, Properties, format_size, parse_size};
pub use release::{imports_disk_images, release};
pub use secret::{Token, TokenError};
pub use task::{TaskFilter, TaskOutcome, TaskRow, TaskSource, TaskState};
pub use upid::{NotAUpid, Upid};
pub use upload::Upload;
pub use vm::{DiskConfig, Nic, UpdateVm, VmConfig, cdrom};
pub use watch::{TaskWatcher, WatchOptions};
