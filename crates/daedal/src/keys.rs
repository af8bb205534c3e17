//! The key that encrypts what is kept: where it is looked for, and what is said about it.

use std::path::PathBuf;

use clap::Args;
use daedal_store::{Error, Keyring, Store};

use crate::console;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};

/// A key in the environment, for machines that should have none on disk.
const KEY: &str = "DAEDAL_KEY";
/// A file with the key, instead of `--key`.
const KEY_FILE: &str = "DAEDAL_KEY_FILE";

/// Where the key is.
#[derive(Clone, Debug, Default, Args)]
pub struct KeyArgs {
    /// The age key that secrets are encrypted with, made when it is first needed [default: DAEDAL_KEY_FILE, or
    /// daedal/key.txt in your configuration folder; with --lab the lab's own]. DAEDAL_KEY has the key itself.
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
}

impl KeyArgs {
    /// The key as it was named, or where it usually is.
    pub fn ring(&self) -> Outcome<Keyring> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        if let Some(file) = &self.key {
            return Ok(Keyring::in_file(file));
        }
        if let Some(key) = variable(KEY) {
            return Keyring::given(&key.to_string_lossy(), KEY)
                .map_err(|error| failure(&error, Exit::Failed));
        }
        if let Some(file) = variable(KEY_FILE) {
            return Ok(Keyring::in_file(file));
        }
        let configuration = variable("XDG_CONFIG_HOME")
            .map(PathBuf::from)
            .or_else(|| Some(PathBuf::from(variable("HOME")?).join(".config")));
        match configuration {
            Some(folder) => Ok(Keyring::in_file(folder.join("daedal/key.txt"))),
            None => Err(Failure::new(Exit::MissingSecret, "nobody says where the key to the secrets is")
                .hint(format!("--key FILE, or export {KEY_FILE}=FILE"))),
        }
    }
}

/// Makes the key if something is about to be encrypted for the first time, and says so; a pretend cluster's key is nothing
/// to keep.
pub fn ensure(store: &Store, pretend: bool) -> Outcome<()> {
    made(store.ensure_key(), store.keys(), pretend)
}

/// The same where there is no store.
pub fn make(keys: &Keyring) -> Outcome<()> {
    made(keys.make(), keys, false)
}

fn made(made: Result<bool, Error>, keys: &Keyring, pretend: bool) -> Outcome<()> {
    if made.map_err(|error| failure(&error, Exit::CannotWrite))? && !pretend {
        console::progress(&format!(
            "Made the key {}, with which secrets are encrypted. Keep a copy of it elsewhere.",
            keys.place()
        ));
    }
    Ok(())
}

/// An error of the store as a failure, with what helps where the key is the matter.
pub fn failure(error: &Error, otherwise: Exit) -> Failure {
    let exit = match error {
        Error::Locked { .. } => Exit::Busy,
        Error::NoKey { .. } | Error::BadKey { .. } | Error::OtherKey { .. } => Exit::MissingSecret,
        _ => otherwise,
    };
    let failure = Failure::from_error(exit, error);
    match error {
        Error::NoKey { .. } | Error::OtherKey { .. } => failure
            .hint(format!("Name the right one with --key FILE or {KEY_FILE}, or put the key itself into {KEY}."))
            .hint(
                "If it is lost: a control plane's machine config has all of the cluster's secrets, and `daedal secrets \
                 import` takes them from there, once the file that nothing opens is moved away.",
            ),
        Error::BadKey { .. } => failure.hint("`age-keygen` makes such a key, and so does the first apply."),
        _ => failure,
    }
}
