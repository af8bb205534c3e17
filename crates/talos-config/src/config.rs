//! Machine configs: generated from plain options by version contract, patched, checked and written as YAML.

mod cluster_section;
mod compare;
mod contract;
mod disk;
mod document;
mod facts;
mod generate;
mod kubernetes;
mod lint;
mod machine_section;
mod network;
mod options;
mod patch;
mod redact;
mod registry;
mod schema;
mod spelling;
mod support;
mod url;

pub use compare::{DocumentDifference, FieldDifference};
pub use contract::{Contract, Release};
pub use document::MachineConfig;
pub use lint::{Lint, Severity};
pub use options::{
    Bond, BondMode, ClusterOptions, Cni, Dhcp, Discovery, DiskKind, DiskSelector, Encryption, EncryptionKey,
    ExtensionService, ExtraMount, Hostname, Install, KernelLog, KernelModule, KubeSpan, Link, LogDestination,
    Mac, NodeOptions, RegistryAuth, RegistryMirror, RegistryTls, Role, Route, UserVolume, Vlan,
};
pub use patch::{Patch, PatchFault};
pub use redact::Marks;
pub use schema::{Misfit, Part, is_word};
pub use support::support_matrix;
