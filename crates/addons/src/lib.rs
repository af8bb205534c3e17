//! Add-ons as releases: rendered sets of Kubernetes objects with identity, order, readiness and owners.
//!
//! [`render`] turns an add-on of the inventory and its chart into a [`Release`]. Everything else answers questions about objects:
//! whether what is there is what was rendered ([`compare`]), whether it is ready ([`readiness`]), whose it is ([`owner`]).
//! Pure: no network, no clock, no randomness but what the caller brings.

mod object;
mod release;

pub use object::{Object, ObjectId, Stage};
pub use release::{ChartInfo, Hook, HookEvent, Release};
