//! What can go wrong with the store.

use std::io;
use std::path::PathBuf;

use crate::lease::Owner;

/// An error of the store. Display says what was attempted; `source()` says why it failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file operation failed.
    #[error("cannot {what} {}", path.display())]
    Io {
        /// What was attempted, such as `write`.
        what: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A kept file is not what was written.
    #[error("{} is damaged: {why}; restore it from a backup, nothing was changed", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Something else is there than what was seen before.
    #[error("{} was changed by somebody else meanwhile; it was not overwritten", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The lock was removed or taken over; what should have been written was not.
    #[error("this command no longer holds the lock on {}; nothing was written", path.display())]
    LeaseLost {
        /// Where it is.
        path: PathBuf,
    },
    /// Secrets are there already.
    #[error("{} exists already; secrets are never overwritten", path.display())]
    SecretsExist {
        /// The file.
        path: PathBuf,
    },
    /// What was read back is not what was written.
    #[error("{} reads back different from what was written; it was not used", path.display())]
    ReadBack {
        /// The file.
        path: PathBuf,
    },
    /// The secrets belong to another cluster of the same name.
    #[error("{} belongs to cluster {found}, not to {wanted}", path.display())]
    OtherCluster {
        /// The file.
        path: PathBuf,
        /// Whose it is.
        found: String,
        /// Whose it should be.
        wanted: String,
    },
    /// An older version's secrets are there beside encrypted ones, and they are not the same.
    #[error("{} and {} hold different secrets", plain.display(), encrypted.display())]
    TwoBundles {
        /// What an older version wrote.
        plain: PathBuf,
        /// What is used.
        encrypted: PathBuf,
    },
    /// There is no key to encrypt or decrypt with.
    #[error("there is no key in {place}{}", opens(file.as_ref()))]
    NoKey {
        /// Where it was looked for.
        place: String,
        /// What it should open; none if something should have been encrypted.
        file: Option<PathBuf>,
    },
    /// A key cannot be read.
    #[error("cannot read the key in {}", path.display())]
    ReadKey {
        /// Its file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// What should be a key is none.
    #[error("{place} holds no key: {why}")]
    BadKey {
        /// Where it is.
        place: String,
        /// What is wrong with it; never the key itself.
        why: String,
    },
    /// The keys at hand do not open a file.
    #[error("{} is encrypted for another key than those in {place} ({})", path.display(), keys.join(", "))]
    OtherKey {
        /// The file.
        path: PathBuf,
        /// Where the keys are.
        place: String,
        /// Their public halves.
        keys: Vec<String>,
    },
    /// Something could not be encrypted.
    #[error("cannot encrypt")]
    Encrypt {
        /// Why not.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Somebody else works on this cluster.
    #[error("cluster `{cluster}` is locked by {}; wait for it to finish", holder(owner.as_deref()))]
    Locked {
        /// The cluster.
        cluster: String,
        /// Who holds the lock; none if it was just taken and does not say yet.
        owner: Option<Box<Owner>>,
    },
    /// The background thread for file work is gone.
    #[error("file work was cut short")]
    Interrupted(#[source] tokio::task::JoinError),
}

fn opens(file: Option<&PathBuf>) -> String {
    file.map_or_else(String::new, |file| format!(", and {} is encrypted", file.display()))
}

fn holder(owner: Option<&Owner>) -> String {
    owner.map_or_else(|| "another process".to_owned(), ToString::to_string)
}
