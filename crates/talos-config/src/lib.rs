//! Talos Linux: secrets, certificates and machine configs. Pure: no network, no files.
//!
//! - [`SecretsBundle`] is everything about a cluster that cannot be computed again. From it come
//!   [`ClientCredentials`] (and [`Talosconfig`]) and an admin kubeconfig, offline.
//! - [`MachineConfig`] is generated from plain options by version contract, patched and linted.
//! - [`nocloud::Cidata`] is the CD-ROM that brings a machine its config on the first boot.
//! - [`pki`] reads and issues certificates in the encodings that Talos accepts.
//!
//! ```
//! use daedal_talos_config::{ClusterOptions, MachineConfig, NodeOptions, Patch, Release, Role};
//! use daedal_talos_config::{SecretsBundle, nocloud::Cidata};
//! # fn main() -> Result<(), daedal_talos_config::Error> {
//! # use rand::SeedableRng;
//! # let (mut rng, now) = (rand::rngs::StdRng::seed_from_u64(1), jiff::Timestamp::UNIX_EPOCH);
//! # let generate = |rng: &mut _, now| SecretsBundle::generate_with_key_size(rng, now, 512);
//! // `SecretsBundle::generate` in earnest.
//! let secrets = generate(&mut rng, now)?;
//! let cluster = ClusterOptions::new("home", "https://10.0.0.20:6443", "v1.12.0", "v1.35.0");
//! let node = NodeOptions::new(Role::ControlPlane, "cp-1");
//! let mut config = MachineConfig::generate(&secrets, &cluster, &node)?;
//! config.apply_patch(&Patch::from_yaml("machine: {sysctls: {vm.max_map_count: '262144'}}")?)?;
//! assert!(config.lint(Release::of("v1.12.0")?).is_empty());
//! let medium = Cidata::new(&config, "home-cp-1").to_iso()?;
//! # assert!(medium.len() > 2048 * 26);
//! # Ok(())
//! # }
//! ```
//!
//! Invariants: nothing here reads a clock, randomness or an environment by itself; secrets have no printable form
//! ([`Secret`]).

mod access;
mod arch;
mod config;
mod error;
pub mod nocloud;
mod pem;
pub mod pki;
mod secret;
mod secrets;
mod yaml;

pub use access::{
    ApiRole, ClientCredentials, DEFAULT_LIFETIME, KubeconfigOptions, Talosconfig, kubeconfig_validity,
};
pub use arch::Arch;
pub use config::{
    Bond, BondMode, ClusterOptions, Cni, Contract, Dhcp, Discovery, DiskKind, DiskSelector,
    DocumentDifference, Encryption, EncryptionKey, ExtensionService, ExtraMount, FieldDifference, Hostname,
    Install, KernelLog, KernelModule, KubeSpan, Link, Lint, LogDestination, Mac, MachineConfig, Marks,
    Misfit, NodeOptions, Part, Patch, PatchFault, RegistryAuth, RegistryMirror, RegistryTls, Release, Role,
    Route, Severity, UserVolume, Vlan, is_word, support_matrix,
};
pub use error::{Error, Result};
pub use secret::Secret;
pub use secrets::{
    AuthoritySummary, BundleSummary, CertificateAndKey, EncryptionSecret, KeySummary, SecretsBundle,
};
