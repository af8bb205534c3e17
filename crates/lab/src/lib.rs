//! A datacenter in a process: Proxmox, Talos, the Image Factory and Kubernetes.

mod activity;
mod fabric;
pub mod faults;
mod loopback;
mod machine;
mod pace;
pub mod pki;
pub mod proxmox;
mod proxy;

pub use fabric::{Acceptor, Fabric};
pub use machine::{Disk, GuestInterface, Guests, Hardware};
pub use pace::Pace;
