//! The key that encrypts what is kept: where it is looked for, and what is said about it.

use std::path::{Path, PathBuf};

use clap::Args;
use daedal_inventory::Cluster;
use daedal_store::{Error, Fault, Keyring, Store};
use zeroize::Zeroizing;

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::operator::variable;
use crate::{advice, console, operator, secrets};

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

    /// The key of a cluster's store: the one that was named, else the one that the inventory declares, else the usual one.
    pub fn ring_of(&self, cluster: &Cluster, folder: &Path) -> Keyring {
        let own = self.ring();
        let declared = cluster.key.as_ref().filter(|_| self.key.is_none() && !in_environment());
        let Some(reference) = declared.cloned() else { return own };
        let folder = folder.to_owned();
        let ask = move || {
            let read = secrets::read(&reference, "it", &folder, &own).map(Zeroizing::new);
            read.map_err(|failure| [vec![failure.message], failure.causes, failure.hints].concat().join(": "))
        };
        Keyring::asked(ask, "the place that `spec.key` names")
    }
}

/// Makes the key if something is about to be encrypted for the first time, and says so; a pretend cluster's key is nothing
/// to keep. After it, the key is known to work.
pub async fn ensure(store: &Store, pretend: bool) -> Outcome<()> {
    let made = store.ensure_key().await.map_err(|error| store_failure(&error, Exit::CannotWrite))?;
    told(made && !pretend, store.keys())
}

/// Makes sure that a new bundle can be encrypted: by the key, which is made if there is none, or by the rules of its SOPS file.
pub async fn ready_for_secrets(store: &Store, pretend: bool) -> Outcome<()> {
    let ready = store.ready_for_secrets().await;
    match ready.map_err(|error| store_failure(&error, Exit::CannotWrite))? {
        Some(made) => told(made && !pretend, store.keys()),
        None => Ok(()),
    }
}

/// The same where there is no store.
pub fn make(keys: &Keyring) -> Outcome<()> {
    told(keys.make().map_err(|error| failure(&error, Exit::CannotWrite))?, keys)
}

/// Says that a key was made, and makes sure that it works.
pub fn told(made: bool, keys: &Keyring) -> Outcome<()> {
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
        Error::Sops { source, .. } if source.lacks_key() => Exit::MissingSecret,
        Error::NoSopsRules { .. } => Exit::MissingSecret,
        Error::Unopened { .. } => Exit::MissingSecret,
        Error::KeptElsewhere { .. } => Exit::BadDocument,
        Error::Remote { source: Fault::Refused { status: 401 | 403, .. }, .. } => Exit::Denied,
        Error::Remote { .. } | Error::NoConditions { .. } | Error::Trust { .. } => Exit::Unavailable,
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
        Error::NoConditions { .. } => {
            failure.hint("Use a server that does: docs/stores.md lists some. Or keep the store in the folder.")
        }
        Error::Sops { source, .. } if source.lacks_key() => failure
            .hint("Put an age key that opens it into SOPS_AGE_KEY, or name its file in SOPS_AGE_KEY_FILE.")
            .hint("Or add your own recipient (age1…) to the rule in .sops.yaml, and let somebody who has a key run `sops updatekeys`."),
        Error::Sops { source, path, .. } if matches!(**source, daedal_sops::Error::NotEncrypted) => {
            failure.hint(format!("Encrypt it: sops encrypt --in-place {}", path.display()))
        }
        Error::SopsRules { .. } | Error::NoSopsRules { .. } => failure
            .hint("Write into .sops.yaml beside the inventory: creation_rules: [{age: age1…}], with your recipients."),
        Error::LeftPlain { .. } => {
            failure.hint("Change the rule in .sops.yaml. Only `crt` and `id` may stay in plain: `unencrypted_regex: ^(crt|id)$`.")
        }
        Error::KeptElsewhere { declared, .. } => failure.hint(format!(
            "To move them: remove `secrets` from the inventory, run `daedal secrets export --to bundle.yaml`, put `secrets` back, and \
             run `daedal secrets import bundle.yaml`, which writes {}.",
            declared.display()
        )),
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
        "secrets.yaml.age" => format!(
            "to take the cluster's secrets from the machine config of a control plane (docs/secrets.md): {}",
            advice::here("secrets import FILE")
        ),
        "ccm.yaml.age" => format!("to make a new token: {}", advice::with_file("proxmox ccm --rotate")),
        _ => return failure,
    };
    failure.hint(format!("If the key is lost: move {name} away; {way}"))
}

/// The file that no key at hand opens.
pub fn unopened(error: &Error) -> Option<&Path> {
    match error {
        Error::NoKey { file: Some(file), .. } | Error::OtherKey { path: file, .. } => Some(file),
        _ => None,
    }
}
