//! The API of a Talos node: calls, watches and logs over gRPC.
//!
//! - [`Client`] talks to a node over a [`daedal_dial::Dialer`]: mutual TLS with
//!   [`daedal_talos_config::ClientCredentials`], or pinned in maintenance mode; [`probe()`] finds out what answers at
//!   an address. Failures are told apart by [`FailureKind`] (see [`Error::kind`]).
//! - [`Snapshot`] reads a snapshot of etcd as a node streams it.
//! - [`proto`] holds the wire types with client *and* server stubs.
//!
//! Invariants: nothing here reads a clock or an environment by itself; what a node says is kept as it said it.

mod calls;
mod connect;
mod cosi;
mod error;
mod etcd;
mod failure;
mod health;
mod lifecycle;
mod probe;
pub mod proto;
mod reset;
mod resume;
mod snapshot;
mod storage;
mod streams;
mod tls;

pub use calls::{Applied, ApplyMode, Bootstrap, EtcdMember, EtcdStatus, NodeVersion, Service};
pub use connect::{Client, ConnectOptions};
pub use cosi::{MachineStatus, Resource, ResourceEvent, ResourceEvents, WatchEvent};
pub use error::{Error, Result};
pub use etcd::EtcdAlarm;
pub use failure::{Cause, FailureKind, NodeError};
pub use health::HealthCheck;
pub use lifecycle::{ImageNamespace, ImageVerification, NodeImage, RegistryLogin, Upgrade};
pub use probe::{Probe, certificate_end, probe};
pub use reset::{Reset, WipedPartition};
pub use snapshot::{Entry, Snapshot, SnapshotInfo};
pub use storage::{DeviceWipe, NodeDisk, NodeDiskKind, WipeMethod};
pub use streams::{Bytes, ContainerDriver, ContainerLog, NodeEvent, Tail};
pub use tls::Clock;
