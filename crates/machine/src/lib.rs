//! The declared machine. `(Cluster, Node) →` what its VM is called, how it is marked, and what is compared. Pure.
//!
//! - [`names`]: files and tags that we leave in the world, and how they are read back.
//! - [`mark`]: the line on a VM that says whose it is.
//! - [`guards`]: what firewall, high availability and backup jobs of its VM are called.
//! - [`digest`]: what was asked for, in 32 digits.
//! - [`slots`]: which SCSI slot holds which declared disk.
//! - [`vm`]: the options of its VM, declared and seen, and what differs.

pub mod digest;
#[cfg(any(test, feature = "fixture"))]
#[allow(clippy::unwrap_used)]
pub mod fixture;
mod generation;
pub mod guards;
pub mod mark;
pub mod names;
pub mod size;
pub mod slots;
pub mod vm;

pub use generation::Generation;
