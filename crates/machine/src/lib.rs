//! The declared machine. `(Cluster, Node, Secrets) →` its VM, its machine config and media, what they are called, how they
//! are marked, and what is compared. Pure.
//!
//! - [`Configs`]: the machine configs and media of a cluster, each made once.
//! - [`vet`]: whether they are valid, before anything is done.
//! - [`image`]: what nodes boot from, and what installs them.
//! - [`access`]: what people reach the cluster with.
//! - [`names`]: files and tags that we leave in the world, and how they are read back.
//! - [`mark`]: the line on a VM that says whose it is.
//! - [`guards`]: what firewall, high availability and backup jobs of its VM are called.
//! - [`digest`]: what was asked for, in 32 digits.
//! - [`slots`]: which SCSI slot holds which declared disk.
//! - [`views`]: the machines in the languages of other tools.
//! - [`vm`]: the options of its VM, declared and seen, and what differs.

pub mod access;
mod config;
mod configs;
pub mod digest;
mod error;
#[cfg(any(test, feature = "fixture"))]
#[allow(clippy::unwrap_used)]
pub mod fixture;
mod generation;
pub mod guards;
pub mod image;
pub mod mark;
pub mod names;
mod settings;
pub mod size;
pub mod slots;
mod versions;
mod vet;
pub mod views;
pub mod vm;

pub use configs::{Configs, NodeConfig, RoleConfig, SharedConfigs, passing_media};
pub use error::{ConfigOwner, Error};
pub use generation::Generation;
pub use versions::RunningVersions;
pub use vet::{SecondLook, vet, vet_configs};
