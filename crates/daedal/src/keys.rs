//! The key that encrypts what is kept: where it is looked for, and what is said about it.

use std::path::{Path, PathBuf};

use clap::Args;
use daedal_store::{Error, Keyring, Store};

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::operator::variable;
use crate::{console, operator};

/// A key in the environment, for machines that should have none on disk.
const KEY: &str = "DAEDAL_KEY";
/// A file with the key, instead of `--key`.
const KEY_FILE: &str = "DAEDAL_KEY_FILE";

/// Where the key is.
#[derive(Clone, Debug, Default, Args)]
pub struct KeyArgs {
    /// The file with the age key that encrypts the secrets; created when first needed [default: the key in DAEDAL_KEY, the
    /// file that DAEDAL_KEY_FILE names, or daedal/key.txt in your configuration folder; with --lab the lab's own].
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
}

/// Whether the environment names a key.
pub fn in_environment() -> bool {
    [KEY, KEY_FILE].into_iter().any(|name| variable(name).is_some())
}

impl KeyArgs {
    /// The key as it was named, or where it usually is. What is wrong with it is told to whoever needs it.
    pub fn ring(&self) -> Keyring {
        if let Some(file) = &self.key {
            return Keyring::in_file(file);
        }
        if let Some(key) = variable(KEY) {
            return Keyring::given(&key.to_string_lossy(), KEY);
        }
        if let Some(file) = variable(KEY_FILE) {
            return Keyring::in_file(file);
        }
        match operator::configuration() {
            Some(folder) => Keyring::in_file(folder.join("key.txt")),
            // Without a home there is no usual place.
            None => Keyring::given("", KEY),
        }
    }
}

/// Makes the key if something is about to be encrypted for the first time, and says so; a pretend cluster's key is nothing
/// to keep. After it, the key is known to work.
pub async fn ensure(store: &Store, pretend: bool) -> Outcome<()> {
    let made = store.ensure_key().await.map_err(|error| store_failure(&error, Exit::CannotWrite))?;
    tell(made && !pretend, store.keys())
}

/// The same where there is no store.
pub fn make(keys: &Keyring) -> Outcome<()> {
    tell(keys.make().map_err(|error| failure(&error, Exit::CannotWrite))?, keys)
}

fn tell(made: bool, keys: &Keyring) -> Outcome<()> {
    if made {
        console::say(&format!(
            "Created the key {}, which encrypts the secrets. Keep a copy of it elsewhere.",
            keys.place()
        ));
    }
    keys.public().map(drop).map_err(|error| failure(&error, Exit::CannotWrite))
}

/// Says that others can read the key.
pub fn warn_if_exposed(keys: &Keyring) {
    if let Some(path) = keys.exposed() {
        let path = path.display();
        console::say(&format!("warning: other users can read the key {path}: chmod 600 {path}"));
    }
}

/// An error about keys and encrypted files as a failure, with what helps where the key is the matter.
pub fn failure(error: &Error, otherwise: Exit) -> Failure {
    let exit = match error {
        Error::Locked { .. } | Error::LeaseLost { .. } | Error::Changed { .. } => Exit::Busy,
        Error::NoKey { .. } | Error::BadKey { .. } | Error::OtherKey { .. } | Error::ReadKey { .. } => {
            Exit::MissingSecret
        }
        _ => otherwise,
    };
    let failure = Failure::from_error(exit, error);
    let right =
        format!("Name the right one with --key FILE or {KEY_FILE}, or put the key itself into {KEY}.");
    match error {
        Error::NoKey { .. } | Error::OtherKey { .. } | Error::ReadKey { .. } => failure.hint(right),
        Error::LeaseLost { .. } | Error::Changed { .. } => {
            failure.hint("Wait until nobody else works on this cluster, and run the command again.")
        }
        Error::BadKey { .. } => failure.hint(right).hint("`age-keygen` makes such a key."),
        Error::TwoBundles { plain, encrypted } => failure.hint(format!(
            "The nodes run on one of them: move the other away. {} is used until then; {} is what an older version wrote.",
            encrypted.display(),
            plain.display()
        )),
        _ => failure,
    }
}

/// The same for what is in a store, where each file has its own way back.
pub fn store_failure(error: &Error, otherwise: Exit) -> Failure {
    let failure = failure(error, otherwise);
    let name = unopened(error).and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    let way = match name.as_ref() {
        "secrets.yaml.age" => {
            "a control plane's machine config has all of the cluster's secrets, and `daedal secrets import` takes them \
             from there (docs/secrets.md)"
        }
        "ccm.yaml.age" => "`daedal proxmox ccm --rotate` makes a new token",
        _ => return failure,
    };
    failure.hint(format!("If the key is lost: move {name} away; {way}."))
}

/// The file that no key at hand opens.
pub fn unopened(error: &Error) -> Option<&Path> {
    match error {
        Error::NoKey { file: Some(file), .. } | Error::OtherKey { path: file, .. } => Some(file),
        _ => None,
    }
}
