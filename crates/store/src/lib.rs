//! What must outlive a run: the secrets bundle, image pins, the lock and the journal.
//!
//! The entry type is [`Store`]: one cluster's part of a backend (a local folder today; S3 and Vault are further
//! variants of the same enum). It reads no environment; where it is and what time it is are passed in.
//!
//! Invariants:
//! - Files are 0600 in folders of 0700, written to a temporary name, synced, renamed, and the folder synced.
//! - Secrets are encrypted with a key that is not among them ([`Keyring`]); nothing secret is written in plain.
//! - Secrets are written once, read back and compared before anyone may use them, and never overwritten by others;
//!   a new key closes the same ones anew, read back before they take the old ones' place.
//! - Every kept file carries the digest of its content: a truncated or altered one is an error, never data.
//! - The lock is the operating system's: it goes with the process, so a crash leaves nothing to clean up.

mod error;
mod folder;
mod journal;
mod keyring;
mod lock;
mod pins;
mod seal;
mod secret;
mod store;

pub use error::Error;
pub use folder::{make_private_folder, remove_private, write_private};
pub use journal::{Entry, Journal};
pub use keyring::{ENCRYPTED, Keyring};
pub use lock::{Lock, Owner};
pub use pins::Pin;
pub use secret::SecretBytes;
pub use store::Store;
