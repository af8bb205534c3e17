//! YAML documents → a validated, fully resolved [`Cluster`]. Pure: no I/O, no clock, no environment.
//!
//! Enter through [`load`]. The same text gives the same cluster, byte for byte, on every machine. Everything that is wrong
//! is found in one go, each with file, line, column, a sentence and a suggestion, and no secret that someone wrote into
//! a document by mistake is ever shown again. [`resolved_yaml`] shows the outcome, [`schema`] what may be written.
//!
//! ```text
//! texts ──yaml──► trees with places ──merge──► one ──check (against the schema of the types)──► Document ──resolve──► Cluster
//! ```

mod addon;
mod addons_lock;
mod base;
mod boot;
mod catalogue;
mod check;
mod cluster;
mod diagnostic;
mod document;
pub mod hardware;
mod image;
mod import;
mod layout;
mod lint;
mod load;
mod located;
mod merge;
mod node;
pub mod options;
mod path;
mod redact;
mod resolve;
mod schema;
mod secret;
mod show;
mod store;
mod suggest;
mod variables;
mod vault;
mod versions;
mod visible;
mod yaml;

pub use addon::{Addon, AddonSource, AddonText, KeptValue, ManifestSource, PodSecurity, Policies};
pub use addons_lock::{ADDONS_LOCK, AddonsLock, LockError, LockedChart};
pub use base::tidy;
pub use catalogue::{DataValues, Entry, EntrySource, Need, catalogue, catalogue_table};
pub use cluster::*;
pub use diagnostic::{Diagnostic, Diagnostics, Place, Related, Severity};
pub use import::{Imported, Shape, import};
pub use lint::{Rule, can_be_ignored, rule, rules};
pub use load::{Files, Loaded, Source, load, load_lacking};
pub use schema::schema;
pub use show::{ShowError, resolved_json, resolved_yaml};
pub use store::{S3Store, StorePlace, VaultPlace};
pub use suggest::nearest;
pub use vault::{VaultAuth, VaultField, VaultServer};
pub use versions::kubernetes_range;
pub use visible::{is_invisible, visible};
