//! Talos Linux: secrets, machine configs and the node API.

pub mod proto;
