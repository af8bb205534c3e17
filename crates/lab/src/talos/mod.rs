//! Simulated Talos machines: one per powered-on VM, with the node API, etcd and the kubelet's doings.

mod apid;
mod bolt;
mod config;
mod cosi;
mod durations;
mod etcd;
mod firmware;
mod fold;
mod iso9660;
pub(crate) mod keys;
mod kubelet;
mod life;
mod machines;
pub(crate) mod media;
pub(crate) mod network;
pub(crate) mod node;
mod services;
mod snapshot;
mod validate;
mod world;

pub use config::{ConfigError, MachineConfig, Role};
pub use durations::Durations;
pub use machines::{Machines, SavedMachines};
pub use world::Ground;

/// Whether a version such as `v1.12.3` is of this 1.x minor or newer.
pub(crate) fn version_at_least(version: &str, minor: u32) -> bool {
    let mut parts = version.trim_start_matches('v').split(['.', '-']).map(|p| p.parse::<u32>().unwrap_or(0));
    let major = parts.next().unwrap_or(0);
    major > 1 || (major == 1 && parts.next().unwrap_or(0) >= minor)
}
