//! SOPS files by age recipients, as the program `sops` reads and writes them.
//!
//! [`Encrypted::parse`] reads what a file says of itself, [`Encrypted::open`] decrypts it with [`Identities`] and always checks
//! its authentication code. [`Opened`] hands out values and the plain file; [`Opened::edit`] and [`encrypt`] write files that
//! sops reads. [`Config`] reads the creation rules of `.sops.yaml`.
//!
//! - Texts are changed where values stand: order, layout and comments stay. Values that did not change keep their encrypted
//!   text, so that a diff shows what changed.
//! - What is written was read back and compared before it is handed out.
//! - No error and no `Debug` shows a value. Nothing here reads a file, the environment or a clock.

mod cipher;
mod comments;
mod config;
mod dotenv;
mod edit;
mod error;
mod file;
mod json;
mod keys;
mod layout;
mod metadata;
mod path;
mod render;
mod resolve;
mod seal;
mod secret;
mod selection;
mod shamir;
#[cfg(test)]
mod tests;
mod tree;
mod value;
mod yaml;

pub use config::{CONFIG, Config, Rule};
pub use error::Error;
pub use file::{Encrypted, Format, Opened};
pub use keys::Identities;
pub use path::{Path, Step};
pub use seal::encrypt;
pub use secret::Secret;
pub use selection::Selection;
pub use value::{Kind, Value};
