//! `(Cluster, World) → Plan`. Pure: no I/O, no clock, no randomness; same input, same plan, byte for byte.

mod apply;
mod basis;
mod bootstrap;
mod capacity;
mod check;
mod destroy;
mod digest;
mod drift;
mod error;
mod fit;
#[cfg(test)]
mod fixture;
mod graph;
mod image;
mod mark;
pub mod names;
mod placement;
mod plan;
mod size;
mod survey;
#[cfg(test)]
mod tests;
mod text;
mod volumes;
mod world;

pub use apply::plan_apply;
pub use check::{Finding, Rule, check};
pub use destroy::plan_destroy;
pub use digest::{intent, node_digest};
pub use error::{NoRoom, PlanError, Resource, Shortfall, UnusableHost};
pub use fit::{Unfit, fits};
pub use mark::{FoundMark, Identity, Judge, Mark, description};
pub use names::ImageRef;
pub use plan::*;
pub use text::{RenderOptions, render, summary};
pub use world::*;
