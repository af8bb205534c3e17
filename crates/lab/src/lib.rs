//! A datacenter in a process: Proxmox, Talos, the Image Factory and Kubernetes.

mod fabric;
mod machine;
mod pace;

pub use fabric::{Acceptor, Fabric};
pub use machine::{Disk, GuestInterface, Guests, Hardware};
pub use pace::Pace;
