//! Resolves references to secrets: the named place only, and an error that says which key is missing.

use std::path::{Path, PathBuf};

use daedal_inventory::SecretRef;

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};

/// Reads a secret from where the inventory says it is; `what` is for the message.
pub fn read(reference: &SecretRef, what: &str, folder: &Path) -> Outcome<String> {
    match reference {
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
            match std::fs::read_to_string(&path) {
                Ok(text) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
                Ok(_) => Err(missing().hint("The file is empty.")),
                Err(error) => Err(missing().because(&error)),
            }
        }
    }
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

    #[test]
    fn a_missing_secret_names_its_key() {
        let reference = SecretRef::Env("DAEDAL_TEST_NO_SUCH_VARIABLE".into());
        let failure = read(&reference, "the API token's secret", Path::new(".")).unwrap_err();
        assert_eq!(failure.exit, Exit::MissingSecret);
        assert!(failure.message.contains("DAEDAL_TEST_NO_SUCH_VARIABLE"));
    }

    #[test]
    fn a_file_is_read_beside_the_inventory_and_trimmed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("token"), "s3cret\n").unwrap();
        let reference = SecretRef::File("token".into());
        assert_eq!(read(&reference, "it", folder.path()).unwrap(), "s3cret");
        let missing = SecretRef::File("other".into());
        assert!(read(&missing, "it", folder.path()).unwrap_err().message.ends_with("other"));
    }
}
