//! What can go wrong with a SOPS file.

use crate::file::Format;
use crate::path::Path;

/// An error. Display says the operation and never shows a value; `source()` says why.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is not of the format.
    #[error("line {line}, column {column} is not valid {format}{}", aside(.why))]
    Syntax {
        /// The format.
        format: Format,
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// What is wrong, if more is known.
        why: &'static str,
    },
    /// A document is something else than a mapping with text keys.
    #[error("{}{why}", at(.path))]
    Shape {
        /// Where.
        path: Path,
        /// What is wrong.
        why: &'static str,
    },
    /// The file is not encrypted.
    #[error("there is no sops metadata: the file is not encrypted")]
    NotEncrypted,
    /// The file to be encrypted is encrypted already.
    #[error("the key `sops` is there already: the file is encrypted, or must not have that key")]
    AlreadyEncrypted,
    /// Something in the metadata is wrong or missing.
    #[error("the sops metadata cannot be used: `{key}` {why}")]
    Metadata {
        /// The key of the metadata.
        key: String,
        /// What is wrong.
        why: String,
    },
    /// None of the identities opens the file.
    #[error(
        "none of the age identities opens the file: it is encrypted for {}, and the identities at hand are {}",
        listed(.needed),
        listed(.had)
    )]
    NoIdentity {
        /// For whom it is encrypted: age recipients, and other keys with their type.
        needed: Vec<String>,
        /// The recipients of the identities that were tried.
        had: Vec<String>,
    },
    /// Too few of the key groups could be opened.
    #[error(
        "{opened} of {wanted} needed key groups can be opened: encrypted for {}, and the identities at hand are {}",
        listed(.needed),
        listed(.had)
    )]
    TooFewGroups {
        /// How many were opened.
        opened: usize,
        /// How many are needed.
        wanted: usize,
        /// For whom the groups that stayed closed are encrypted.
        needed: Vec<String>,
        /// The recipients of the identities that were tried.
        had: Vec<String>,
    },
    /// The data key in the metadata is damaged.
    #[error("the data key for {recipient} is damaged")]
    DataKey {
        /// For whom it is encrypted.
        recipient: String,
        /// What age says.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A value does not open: it was changed, moved, or belongs to another file.
    #[error("{path} cannot be decrypted: {why}")]
    Value {
        /// Which.
        path: Path,
        /// What is wrong.
        why: &'static str,
    },
    /// The message authentication code does not match.
    #[error("the file was changed by something else than sops: its message authentication code (MAC) {why}")]
    Mac {
        /// What is wrong with it.
        why: &'static str,
    },
    /// Somebody cannot be encrypted for.
    #[error("cannot encrypt for `{recipient}`: {why}")]
    Recipient {
        /// Who.
        recipient: String,
        /// Why not.
        why: String,
    },
    /// An identity cannot be read.
    #[error("line {line} of the age identities {why}")]
    Identity {
        /// The line, from 1.
        line: usize,
        /// What is wrong, without showing it.
        why: &'static str,
    },
    /// A rule of `.sops.yaml`, or one that was given, cannot be used.
    #[error("the rule cannot be used: {why}")]
    Rule {
        /// What is wrong.
        why: String,
    },
    /// No creation rule is for this file.
    #[error("no creation rule of .sops.yaml matches {file}")]
    NoRule {
        /// The file.
        file: String,
    },
    /// A path is not written as one.
    #[error("`{}` is not a path: write `a.b`, `a[0]` or `[\"a\"][\"b\"]`", text.escape_debug())]
    Path {
        /// What was given.
        text: String,
    },
    /// Nothing is at a path.
    #[error("there is no key {path}; the keys are {}", listed(.known))]
    Missing {
        /// What was looked for.
        path: Path,
        /// What there is.
        known: Vec<String>,
    },
    /// A mapping or list is where a value was looked for.
    #[error("{path} is not a single value; the keys in it are {}", listed(.known))]
    NotAValue {
        /// Which.
        path: Path,
        /// What is in it.
        known: Vec<String>,
    },
    /// What was written does not read back as what it should be; it must not be used.
    #[error("the encrypted file does not read back as it was written{}", near(.path))]
    ReadBack {
        /// The first value that differs.
        path: Path,
    },
    /// Encryption itself failed.
    #[error("cannot encrypt")]
    Encrypt {
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Error {
    /// Whether a key that is not at hand would do.
    pub fn lacks_key(&self) -> bool {
        matches!(self, Self::NoIdentity { .. } | Self::TooFewGroups { .. })
    }
}

/// More than this many names are only counted.
const MOST: usize = 40;

fn listed(names: &[String]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    let mut shown = names.iter().take(MOST).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > MOST {
        shown += &format!(" and {} more", names.len() - MOST);
    }
    shown
}

fn aside(why: &str) -> String {
    if why.is_empty() { String::new() } else { format!(": {why}") }
}

fn at(path: &Path) -> String {
    if path.0.is_empty() { String::new() } else { format!("{path}: ") }
}

fn near(path: &Path) -> String {
    if path.0.is_empty() { String::new() } else { format!(" at {path}") }
}
