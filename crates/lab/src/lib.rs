//! A datacenter in a process: Proxmox, Talos, the Image Factory and Kubernetes.

mod activity;
mod dhcp;
mod distant;
mod fabric;
mod factory;
pub mod faults;
mod faulty;
mod handle;
mod http;
mod image;
mod kubernetes;
mod lab;
mod loopback;
mod machine;
mod moments;
mod outside;
mod pace;
pub mod pki;
pub mod proxmox;
mod proxy;
mod relay;
mod serve;
mod talos;

pub use dhcp::Dhcp;
pub use distant::Distant;
pub use fabric::{Acceptor, Fabric};
pub use factory::{Factory, SavedFactory};
pub use handle::{Announcement, Handle, HandleError, LabStatus, files, is_held};
pub use image::{Format, SystemImage, virtual_size};
pub use lab::{Lab, LabError, LabSpec, Wanted};
pub use machine::{Disk, Firmware, GuestInterface, Guests, Hardware, Lines};
pub use moments::{Moment, Occasion};
pub use outside::Runner;
pub use pace::Pace;
pub use serve::{ServeError, ServeOptions, serve, token_secret};
pub use talos::{ConfigError, Durations, Ground, MachineConfig, Machines, Role, SavedMachines};
