//! What can go wrong with the store.

use std::io;
use std::path::PathBuf;

use crate::http::Fault;
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
    /// A SOPS file that keeps the secrets cannot be used.
    #[error("cannot {what} the SOPS file {}", path.display())]
    Sops {
        /// What was attempted, such as `read`.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: Box<daedal_sops::Error>,
    },
    /// The rules by which a new SOPS file is encrypted cannot be used.
    #[error("cannot use the rules in {}", file.display())]
    SopsRules {
        /// The file of the rules.
        file: PathBuf,
        /// Why not.
        source: Box<daedal_sops::Error>,
    },
    /// Nothing says for whom a new SOPS file is encrypted.
    #[error(
        "cannot encrypt {}: no .sops.yaml in its folder or above has creation rules, and there is no key in {place}",
        path.display()
    )]
    NoSopsRules {
        /// The file.
        path: PathBuf,
        /// Where our own key was looked for.
        place: String,
    },
    /// The rules would leave a secret in plain.
    #[error("the SOPS rules leave `{key}` in {} in plain; it was not written", path.display())]
    LeftPlain {
        /// The file.
        path: PathBuf,
        /// Which secret.
        key: String,
    },
    /// The secrets are not in the declared file, but the store has some.
    #[error("there are no secrets in {}, but {} has some", declared.display(), kept.display())]
    KeptElsewhere {
        /// The file.
        declared: PathBuf,
        /// Where they are.
        kept: PathBuf,
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
    /// A server that keeps a store did not do as asked.
    #[error("cannot {what} {}", path.display())]
    Remote {
        /// What was attempted, such as `write`.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: Fault,
    },
    /// What it takes to open the store is missing on this machine.
    #[error("cannot open the store {}", path.display())]
    Unopened {
        /// Where it is.
        path: PathBuf,
        /// What is missing.
        source: io::Error,
    },
    /// The server's certificate cannot be judged.
    #[error("cannot connect to {host}")]
    Trust {
        /// The server.
        host: String,
        /// Why not.
        source: daedal_dial::TrustError,
    },
    /// The server does not honour conditional writes: every lock would seem to succeed.
    #[error(
        "the server of {} does not honour conditional writes ({why}); two operators could work at once, so it cannot \
         keep a store",
        path.display()
    )]
    NoConditions {
        /// Where the store is.
        path: PathBuf,
        /// What it did.
        why: String,
    },
    /// The server keeps nothing of this size.
    #[error("{} has {size} bytes, but at most {largest} can be kept there", path.display())]
    TooLarge {
        /// What should have been kept.
        path: PathBuf,
        /// Its size.
        size: u64,
        /// The limit.
        largest: u64,
    },
    /// The background thread for file work is gone.
    #[error("file work was cut short")]
    Interrupted(#[source] tokio::task::JoinError),
}

impl Error {
    /// Whether the store as a whole could not be asked, so that there is no use in asking it for anything else.
    pub fn of_the_whole(&self) -> bool {
        matches!(self, Self::Remote { .. } | Self::Unopened { .. } | Self::Trust { .. })
    }

    /// Whether the same may succeed at the next try.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Self::Remote { source, .. } if source.may_pass())
    }
}

fn opens(file: Option<&PathBuf>) -> String {
    file.map_or_else(String::new, |file| format!(", and {} is encrypted", file.display()))
}

fn holder(owner: Option<&Owner>) -> String {
    owner.map_or_else(|| "another process".to_owned(), ToString::to_string)
}
