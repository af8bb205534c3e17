//! What must outlive a run: the secrets bundle, image pins, the lock and the journal.
//!
//! The entry type is [`Store`]: one cluster's part of a [`Backend`], which keeps bytes under names: a local folder,
//! a bucket ([`S3`]) or a Vault ([`VaultStore`]). It reads no environment; where it is and what time it is are passed in.
//!
//! Invariants:
//! - Backends are reached through [`Backend`] alone. Seals and encryption are above it, once for all of them.
//! - A write is based on the version that was read, and carries the lock that it is made under: neither what somebody
//!   else wrote meanwhile is overwritten, nor does anybody write whose lock was taken over.
//! - Files are 0600 in folders of 0700, written to a temporary name, synced, renamed, and the folder synced.
//! - Secrets are encrypted with a key that is not among them ([`Keyring`]); nothing secret is written in plain.
//! - Secrets are written once, read back and compared before anyone may use them, and never overwritten by others;
//!   a new key closes the same ones anew, read back before they take the old ones' place.
//! - The bundle may be in a SOPS file of the operator's instead ([`SopsFile`]); then it is nowhere else.
//! - Every kept file carries the digest of its content: a truncated or altered one is an error, never data.
//! - A folder's lock is the operating system's: it goes with the process, so a crash leaves nothing to clean up.
//!   A remote lock ends unless it is renewed; clocks of two machines are never compared.

mod backend;
#[cfg(test)]
mod contract;
mod error;
mod files;
mod folder;
mod http;
mod journal;
mod keyring;
mod lease;
mod memory;
mod pins;
mod remote;
mod s3;
mod seal;
mod secret;
mod sops_file;
mod store;
mod unopened;
mod vault;

pub use backend::{Acquired, Backend, Blob, Version, Working};
pub use error::Error;
pub use files::{make_private_folder, remove_private, write_private};
pub use http::Fault;
pub use journal::{Entry, Journal};
pub use keyring::{ENCRYPTED, Keyring};
pub use lease::{Fence, Lease, Lock, Owner};
pub use memory::Memory;
pub use pins::Pin;
pub use remote::{LEASE, Now};
pub use s3::{Credentials, S3};
pub use secret::SecretBytes;
pub use sops_file::SopsFile;
pub use store::{Contents, KeptBackup, Store};
pub use unopened::Unopened;
pub use vault::{Login, Vault, VaultBundle, VaultSecret, VaultSettings, VaultStore};
