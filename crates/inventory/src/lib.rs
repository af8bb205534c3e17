//! YAML documents → a validated, fully resolved [`Cluster`]. Pure: no I/O, no clock, no environment.
//!
//! Enter through [`load`]. The same text gives the same cluster, byte for byte, on every machine. Everything that is wrong
//! is found in one go, each with file, line, column, a sentence and a suggestion, and no secret that someone wrote into
//! a document by mistake is ever shown again. [`resolved_yaml`] shows the outcome, [`schema`] what may be written.
//!
//! ```text
//! text ──yaml──► tree with places ──check (against the schema of the types)──► Document ──resolve──► Cluster
//! ```

mod boot;
mod check;
mod cluster;
mod diagnostic;
mod document;
pub mod hardware;
mod image;
mod load;
mod located;
mod node;
pub mod options;
mod path;
mod redact;
mod resolve;
mod schema;
mod show;
mod suggest;
mod variables;
mod versions;
mod visible;
mod yaml;

pub use cluster::*;
pub use diagnostic::{Diagnostic, Diagnostics, Place, Related, Severity};
pub use load::{Files, Loaded, Source, load, load_lacking};
pub use schema::schema;
pub use show::{ShowError, resolved_json, resolved_yaml};
pub use suggest::nearest;
pub use versions::kubernetes_range;
pub use visible::{is_invisible, visible};
