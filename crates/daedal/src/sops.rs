//! Values in SOPS files, and the age keys that open these: those of sops, and our own.

use std::path::{Path, PathBuf};

use daedal_inventory::nearest;
use daedal_sops::{Encrypted, Error, Format, Identities, Opened};
use daedal_store::Keyring;

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::{file, operator};

/// Keys in the environment.
const KEY: &str = "SOPS_AGE_KEY";
/// A file of keys, instead of one in the usual place beside it.
const KEY_FILE: &str = "SOPS_AGE_KEY_FILE";
/// Where sops looks besides, which is said where no key fits.
const NOT_USED: [&str; 3] =
    ["SOPS_AGE_KEY_CMD", "SOPS_AGE_SSH_PRIVATE_KEY_FILE", "SOPS_AGE_SSH_PRIVATE_KEY_CMD"];

/// A value in a SOPS file. The message of a failure says which, its causes say why.
pub fn value(path: &Path, key: &str, ring: &Keyring) -> Outcome<String> {
    let failed = || {
        let message = format!("the key `{key}` of {} cannot be read", path.display());
        Failure::new(Exit::MissingSecret, message)
    };
    let because = |error: &Error| failed().because(error);
    let wanted: daedal_sops::Path = key.parse().map_err(|error| because(&error))?;
    let opened = open(path, ring).map_err(|failure| {
        let causes = [vec![failure.message], failure.causes].concat();
        Failure { causes, hints: failure.hints, ..failed() }
    })?;
    let value = opened.get(&wanted).map_err(|error| {
        let known = opened.keys();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        match nearest(key, &known) {
            Some(near) => because(&error).hint(format!("Did you mean `{near}`?")),
            None => because(&error),
        }
    })?;
    let written = value.as_written();
    match written.expose_text().map(str::trim) {
        Some("") => Err(failed().because(&std::io::Error::other("it is empty"))),
        Some(text) => Ok(text.to_owned()),
        None => Err(failed().because(&std::io::Error::other("it is not text"))),
    }
}

/// Opens a SOPS file; its authentication code is checked.
fn open(path: &Path, ring: &Keyring) -> Outcome<Opened> {
    let failed = || {
        let message = format!("cannot read the SOPS file {}", path.display());
        Failure::new(Exit::MissingSecret, message)
    };
    let bytes = file::read(path).map_err(|error| failed().because(&error))?;
    let text = String::from_utf8(bytes).map_err(|error| failed().because(&error.utf8_error()))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let keys = AgeKeys::find(ring)?;
    Encrypted::parse(Format::of(&name), &text).and_then(|file| file.open(&keys.identities)).map_err(|error| {
        let failure = failed().because(&error);
        if error.lacks_key() { keys.hint(failure) } else { failure }
    })
}

/// age keys, and where they were looked for.
pub struct AgeKeys {
    /// The keys.
    pub identities: Identities,
    places: Vec<String>,
}

impl AgeKeys {
    /// The keys of sops, and our own. One that is named and cannot be read is an error; the usual ones need not be there.
    pub fn find(ring: &Keyring) -> Outcome<Self> {
        let mut keys = Self { identities: Identities::default(), places: Vec::new() };
        if let Some(text) = operator::variable(KEY) {
            keys.add(KEY.to_owned(), &text.to_string_lossy())?;
        }
        let named = operator::variable(KEY_FILE).map(PathBuf::from);
        for (file, must_exist) in
            named.into_iter().map(|file| (file, true)).chain(usual().map(|file| (file, false)))
        {
            match std::fs::read_to_string(&file) {
                Ok(text) => keys.add(file.display().to_string(), &text)?,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound && !must_exist => {
                    keys.places.push(file.display().to_string());
                }
                Err(error) => {
                    let message = format!("cannot read the age keys in {}", file.display());
                    return Err(Failure::new(Exit::MissingSecret, message).because(&error));
                }
            }
        }
        match ring.identities() {
            Ok(own) => {
                keys.places.push(ring.place());
                keys.identities.extend(own);
            }
            // It matters only if no other key fits.
            Err(error) => keys.places.push(format!("{} ({error})", ring.place())),
        }
        Ok(keys)
    }

    fn add(&mut self, place: String, text: &str) -> Outcome<()> {
        let found = Identities::parse(text).map_err(|error| {
            Failure::new(Exit::MissingSecret, format!("the age keys in {place} cannot be used"))
                .because(&error)
        })?;
        self.identities.extend(found);
        self.places.push(place);
        Ok(())
    }

    /// Adds to a failure where keys were looked for.
    pub fn hint(&self, failure: Failure) -> Failure {
        let places = self.places.join(", ");
        let failure =
            failure.hint(format!("age keys were looked for in {places}; {KEY} and {KEY_FILE} name others."));
        match NOT_USED.into_iter().find(|name| operator::variable(name).is_some()) {
            Some(name) => failure
                .hint(format!("{name} is set, but not used: put an age key (AGE-SECRET-KEY-1…) into {KEY}.")),
            None => failure,
        }
    }
}

/// Where sops keeps its keys.
fn usual() -> Option<PathBuf> {
    let folder = match operator::variable("XDG_CONFIG_HOME") {
        Some(folder) => PathBuf::from(folder),
        None => {
            let usual = if cfg!(target_os = "macos") { "Library/Application Support" } else { ".config" };
            PathBuf::from(operator::variable("HOME")?).join(usual)
        }
    };
    Some(folder.join("sops/age/keys.txt"))
}
