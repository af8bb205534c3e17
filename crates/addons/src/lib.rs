//! Add-ons as releases: rendered sets of Kubernetes objects with identity, order, readiness and owners.
//!
//! [`render`] turns an add-on of the inventory and its chart into a [`Release`]. Everything else answers questions about objects:
//! whether what is there is what was rendered ([`compare`]), whether it is ready ([`readiness`]), whose it is ([`owner`]).
//! Pure: no network, no clock, no randomness but what the caller brings.

pub mod applyset;
mod chart;
pub mod compare;
mod digest;
mod error;
pub mod export;
pub mod fields;
pub mod helm_release;
mod inputs;
mod kinds;
mod manifests;
mod marks;
mod namespace;
mod object;
mod order;
pub mod owner;
pub mod policies;
pub mod readiness;
pub mod refusal;
mod release;
mod render;
mod settle;
pub mod yaml;

#[cfg(test)]
mod tests;

pub use chart::info as chart_info;
pub use error::Error;
pub use inputs::{
    Capabilities, Fetched, Inputs, Lookup, LookupAnswer, NothingAsked, Rendered, Seed, ServedKind,
};
pub use kinds::defined_by;
pub use marks::{DIGEST, HELM_NAMESPACE, HELM_RELEASE, MANAGED_BY, digest_of, unmarked};
pub use object::{Object, ObjectId, Stage};
pub use release::{ChartInfo, Hook, HookEvent, Release};
pub use settle::render;

/// The field manager that objects are applied with.
pub const MANAGER: &str = "daedal";
