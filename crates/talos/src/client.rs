//! The client of a node's API.

mod calls;
mod connect;
mod cosi;
mod etcd;
mod failure;
mod lifecycle;
mod probe;
mod snapshot;
mod streams;
mod tls;

pub use calls::{
    Applied, ApplyMode, Bootstrap, EtcdMember, EtcdStatus, NodeVersion, Reset, Service, WipedPartition,
};
pub use connect::{Client, ConnectOptions};
pub use cosi::{MachineStatus, Resource, ResourceEvent, ResourceEvents, WatchEvent};
pub use etcd::EtcdAlarm;
pub use failure::{Cause, FailureKind, NodeError};
pub use lifecycle::{ImageNamespace, NodeImage, Upgrade};
pub use probe::{Probe, certificate_end, probe};
pub use snapshot::{Entry, Snapshot, SnapshotInfo};
pub use streams::{Bytes, NodeEvent, Tail};
pub use tls::Clock;
