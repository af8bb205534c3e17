//! Resolves references to secrets: the named place only, and an error that says which key is missing.

use std::path::{Path, PathBuf};

use daedal_inventory::SecretRef;
use daedal_store::{ENCRYPTED, Keyring, SecretBytes};

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::{keys, program, sops, vaults};

/// Reads a secret from where the inventory says it is; `what` is for the message.
///
/// A file may be encrypted (`NAME.age`): it is opened with the keys.
pub fn read(reference: &SecretRef, what: &str, folder: &Path, keys: &Keyring) -> Outcome<String> {
    match reference {
        SecretRef::Vault(field) => vaults::read(field, what, folder, keys),
        SecretRef::Sops(value) => {
            let read = sops::value(&resolve(&value.file, folder), &value.key, keys);
            read.map_err(|failure| lacking(what, failure))
        }
        SecretRef::Command(words) => program::output(words, folder).map_err(|failure| lacking(what, failure)),
        SecretRef::Override { variable, otherwise } => match overriding(variable) {
            Some(value) => Ok(value),
            None => read(otherwise, what, folder, keys)
                .map_err(|failure| failure.hint(format!("Or override it: export {variable}=…"))),
        },
        SecretRef::Env(name) => match std::env::var(name) {
            Ok(value) if !value.trim().is_empty() => Ok(value.trim().to_owned()),
            _ => Err(Failure::new(
                Exit::MissingSecret,
                format!("{what} is missing: the environment variable {name} is not set"),
            )
            .hint(format!("export {name}=…, or change the reference in the inventory."))),
        },
        SecretRef::File(path) => {
            let path = resolve(path, folder);
            let missing =
                || Failure::new(Exit::MissingSecret, format!("{what} is missing: {}", path.display()));
            let bytes = std::fs::read(&path).map_err(|error| missing().because(&error))?;
            let bytes =
                keys.open(&path, bytes).map_err(|error| keys::failure(&error, Exit::MissingSecret))?;
            match std::str::from_utf8(bytes.expose()).map(str::trim) {
                Ok("") => Err(missing().hint("The file is empty.")),
                Ok(text) => Ok(text.to_owned()),
                Err(error) => Err(missing().because(&error)),
            }
        }
    }
}

/// What a variable says that overrides a secret.
fn overriding(variable: &str) -> Option<String> {
    std::env::var(variable).ok().map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

/// Says which secret is missing before why.
pub fn lacking(what: &str, failure: Failure) -> Failure {
    Failure { message: format!("{what} is missing: {}", failure.message), ..failure }
}

/// Writes a secret into a file that nobody else can read, all or nothing; encrypted if the file is called `NAME.age`.
pub fn write(file: &Path, secret: &str, keys: &Keyring) -> Result<(), daedal_store::Error> {
    if let Some(folder) = file.parent() {
        daedal_store::make_private_folder(folder)?;
    }
    let text = SecretBytes::new(format!("{secret}\n").into_bytes());
    match is_named_encrypted(file) {
        true => daedal_store::write_private(file, &keys.encrypt(text.expose())?),
        false => daedal_store::write_private(file, text.expose()),
    }
}

/// Whether a secret is in an encrypted file, by its name.
pub fn is_encrypted(reference: &SecretRef) -> bool {
    matches!(reference.place(), SecretRef::File(path) if is_named_encrypted(path))
}

/// Whether what is in a file of this name should be encrypted.
pub fn is_named_encrypted(file: &Path) -> bool {
    file.to_string_lossy().ends_with(ENCRYPTED)
}

/// A path in an inventory: `~/` is the home folder, everything else is relative to the inventory's.
pub fn resolve(path: &Path, folder: &Path) -> PathBuf {
    match (path.strip_prefix("~"), std::env::var_os("HOME")) {
        (Ok(rest), Some(home)) => PathBuf::from(home).join(rest),
        _ => folder.join(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> Keyring {
        Keyring::in_file("no/such/key.txt")
    }

    #[test]
    fn a_missing_secret_names_its_key() {
        let reference = SecretRef::Env("DAEDAL_TEST_NO_SUCH_VARIABLE".into());
        let failure = read(&reference, "the API token's secret", Path::new("."), &keys()).unwrap_err();
        assert_eq!(failure.exit, Exit::MissingSecret);
        assert!(failure.message.contains("DAEDAL_TEST_NO_SUCH_VARIABLE"));
    }

    #[test]
    fn a_file_is_read_beside_the_inventory_and_trimmed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("token"), "s3cret\n").unwrap();
        let reference = SecretRef::File("token".into());
        assert_eq!(read(&reference, "it", folder.path(), &keys()).unwrap(), "s3cret");
        let missing = SecretRef::File("other".into());
        assert!(read(&missing, "it", folder.path(), &keys()).unwrap_err().message.ends_with("other"));
    }

    #[test]
    fn a_file_is_encrypted_if_its_name_says_so_and_opened_whatever_it_is_called() {
        let folder = tempfile::tempdir().unwrap();
        let keys = Keyring::in_file(folder.path().join("key.txt"));
        keys.make().unwrap();
        write(&folder.path().join("token.age"), "s3cret", &keys).unwrap();
        write(&folder.path().join("token"), "s3cret", &keys).unwrap();
        assert_eq!(std::fs::read_to_string(folder.path().join("token")).unwrap(), "s3cret\n");
        let encrypted = std::fs::read_to_string(folder.path().join("token.age")).unwrap();
        assert!(!encrypted.contains("s3cret"), "{encrypted}");
        std::fs::copy(folder.path().join("token.age"), folder.path().join("renamed")).unwrap();
        for name in ["token.age", "token", "renamed"] {
            let reference = SecretRef::File(name.into());
            assert_eq!(read(&reference, "it", folder.path(), &keys).unwrap(), "s3cret", "{name}");
        }
        let other = Keyring::in_file(folder.path().join("absent.txt"));
        let failure = read(&SecretRef::File("token.age".into()), "it", folder.path(), &other).unwrap_err();
        assert_eq!(failure.exit, Exit::MissingSecret);
        assert!(failure.message.contains("absent.txt"), "{}", failure.message);
    }
}
