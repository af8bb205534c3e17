//! Machine configs: generated from plain options by version contract, patched, checked and written as YAML.

mod contract;
mod document;
mod generate;
mod lint;
mod network;
mod options;
pub mod patch;

pub use contract::Contract;
pub use document::MachineConfig;
pub use lint::{Lint, Severity};
pub use options::{
    ClusterOptions, Cni, Discovery, Install, Link, Mac, NodeOptions, RegistryMirror, Role, Route,
};
pub use patch::Patch;
