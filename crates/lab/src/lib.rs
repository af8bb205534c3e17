//! A datacenter in a process: Proxmox, Talos, the Image Factory and Kubernetes.

mod activity;
mod fabric;
mod factory;
pub mod faults;
mod faulty;
mod http;
mod image;
mod kubernetes;
mod lab;
mod loopback;
mod machine;
mod pace;
pub mod pki;
pub mod proxmox;
mod proxy;
mod talos;

pub use fabric::{Acceptor, Fabric};
pub use factory::{Factory, SavedFactory};
pub use image::{Format, SystemImage, virtual_size};
pub use lab::{Lab, LabError, LabSpec};
pub use machine::{Disk, GuestInterface, Guests, Hardware};
pub use pace::Pace;
pub use talos::{ConfigError, Durations, Ground, MachineConfig, Machines, Role, SavedMachines};
