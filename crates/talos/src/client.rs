//! The client of a node's API.

mod calls;
mod connect;
mod cosi;
mod failure;
mod probe;
mod tls;

pub use calls::{
    Applied, ApplyMode, Bootstrap, EtcdMember, EtcdStatus, NodeVersion, Reset, Service, WipedPartition,
};
pub use connect::{Client, ConnectOptions};
pub use cosi::{MachineStatus, Resource, ResourceEvent, ResourceEvents, WatchEvent};
pub use failure::{Cause, FailureKind, NodeError};
pub use probe::{Probe, probe};
pub use tls::Clock;
