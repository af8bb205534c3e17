//! A datacenter in a process: Proxmox, Talos, the Image Factory and Kubernetes.

mod activity;
mod fabric;
pub mod faults;
mod http;
mod image;
mod kubernetes;
mod loopback;
mod machine;
mod pace;
pub mod pki;
pub mod proxmox;
mod proxy;
mod talos;

pub use fabric::{Acceptor, Fabric};
pub use image::{Format, SystemImage, virtual_size};
pub use machine::{Disk, GuestInterface, Guests, Hardware};
pub use pace::Pace;
pub use talos::{ConfigError, Durations, MachineConfig, Machines, Role, SavedMachines};
