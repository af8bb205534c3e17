//! The client of a node's API.

mod calls;
mod connect;
mod cosi;
mod etcd;
mod failure;
mod health;
mod lifecycle;
mod probe;
mod reset;
mod resume;
mod snapshot;
mod storage;
mod streams;
mod tls;

pub use calls::{Applied, ApplyMode, Bootstrap, EtcdMember, EtcdStatus, NodeVersion, Service};
pub use connect::{Client, ConnectOptions};
pub use cosi::{MachineStatus, Resource, ResourceEvent, ResourceEvents, WatchEvent};
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
