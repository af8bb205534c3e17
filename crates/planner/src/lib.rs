//! `(Cluster, World) → Plan`. Pure: no I/O, no clock, no randomness; same input, same plan, byte for byte.

mod digest;
#[cfg(test)]
mod fixture;
mod mark;
pub mod names;
mod plan;
mod world;

pub use digest::{intent, node_digest};
pub use mark::{FoundMark, Identity, Judge, Mark, description};
pub use names::ImageRef;
pub use plan::*;
pub use world::*;
