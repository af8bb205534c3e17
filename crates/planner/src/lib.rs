//! `(Cluster, World) → Plan`. Pure: no I/O, no clock, no randomness; same input, same plan, byte for byte.

mod plan;
mod world;

pub use plan::*;
pub use world::*;
