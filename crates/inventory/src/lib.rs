//! YAML documents → a validated, fully resolved [`Cluster`]. Pure: no I/O, no clock, no environment.

mod cluster;

pub use cluster::*;
