//! The operator's own settings: what whoever runs the program allows an inventory, which somebody else may have written.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Deserialize;

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::untrusted::Listed;

/// Whether the inventory is somebody else's. A fact of the whole run, decided by the command line alone.
static UNTRUSTED: AtomicBool = AtomicBool::new(false);

/// Takes every inventory of this run for somebody else's.
pub fn distrust() {
    UNTRUSTED.store(true, Ordering::Relaxed);
}

/// Whether every inventory of this run is somebody else's.
pub fn distrusts() -> bool {
    UNTRUSTED.load(Ordering::Relaxed)
}

/// A file with the settings, instead of the usual one.
const SETTINGS: &str = "DAEDAL_SETTINGS";

/// What the operator allows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Settings {
    /// Whether an inventory may name files outside its folder.
    pub allow_outside: bool,
    /// What inventories of others may read and contact.
    pub untrusted: Listed,
}

/// Reads the settings: the file that `DAEDAL_SETTINGS` names, or `daedal/settings.yaml` in the configuration folder, if it is there.
pub fn settings() -> Outcome<Settings> {
    let named = variable(SETTINGS).map(PathBuf::from);
    let is_named = named.is_some();
    let Some(path) = named.or_else(|| Some(configuration()?.join("settings.yaml"))) else {
        return Ok(Settings::default());
    };
    let cannot = |exit| Failure::new(exit, format!("cannot read your settings {}", path.display()));
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !is_named => {
            return Ok(Settings::default());
        }
        Err(error) => return Err(cannot(Exit::NoInput).because(&error)),
    };
    parse(&text).map_err(|error| cannot(Exit::BadDocument).because(&error))
}

fn parse(text: &str) -> Result<Settings, yaml_serde::Error> {
    let settings: Option<Settings> = yaml_serde::from_str(text)?;
    Ok(settings.unwrap_or_default())
}

/// The folder of the operator's own files; none without a home.
pub fn configuration() -> Option<PathBuf> {
    let folder = variable("XDG_CONFIG_HOME").map(PathBuf::from);
    let folder = folder.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".config")));
    folder.map(|folder| folder.join("daedal"))
}

/// An environment variable that says something.
pub fn variable(name: &str) -> Option<std::ffi::OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_few_and_none_is_overlooked() {
        assert_eq!(parse("").unwrap(), Settings::default());
        assert_eq!(parse("# nothing\n").unwrap(), Settings::default());
        assert!(parse("allowOutside: true\n").unwrap().allow_outside);
        let listed =
            parse("untrusted: {variables: [A], endpoints: ['https://a:8006'], networks: [10.0.0.0/16]}\n");
        assert_eq!(listed.unwrap().untrusted.variables, ["A"]);
        for wrong in ["allowoutside: true\n", "allowOutside: maybe\n", "- a\n"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
