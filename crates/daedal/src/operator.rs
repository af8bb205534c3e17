//! The operator's own settings: what whoever runs the program allows an inventory, which somebody else may have written.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Deserialize;

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::secrets;
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
    /// Which inventories may name programs that print secrets.
    pub allow_commands: Commands,
    /// What inventories of others may read and contact.
    pub untrusted: Listed,
}

/// Which inventories may name programs that are run.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Commands {
    /// All of them, or none.
    All(bool),
    /// Those in these folders and in the folders below them.
    Of(Vec<PathBuf>),
}

impl Default for Commands {
    fn default() -> Self {
        Self::All(false)
    }
}

impl Commands {
    /// Whether an inventory in this folder may. Links count by where they lead.
    fn allow(&self, folder: &Path) -> bool {
        let real = |path: &Path| path.canonicalize().ok();
        match self {
            Self::All(all) => *all,
            Self::Of(listed) => real(folder).is_some_and(|folder| {
                let listed = listed.iter().map(|listed| secrets::resolve(listed, Path::new("/")));
                listed.filter_map(|listed| real(&listed)).any(|listed| folder.starts_with(listed))
            }),
        }
    }
}

/// Refuses to run a program for an inventory in this folder where the settings do not allow it: whoever cloned the folder may not
/// know what is in it.
pub fn may_run(folder: &Path) -> Outcome<()> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    if settings()?.allow_commands.allow(folder) {
        return Ok(());
    }
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let file = place().map_or_else(|| "your settings".to_owned(), |(path, _)| path.display().to_string());
    let why = format!("your settings do not allow inventories in {} to run programs", folder.display());
    Err(Failure::new(Exit::MissingSecret, why).hint(format!(
        "If the inventory is trusted, write into {file}: allowCommands: [{}]",
        folder.display()
    )))
}

/// Where the settings are, and whether that was said; none without a home.
fn place() -> Option<(PathBuf, bool)> {
    let named = variable(SETTINGS).map(|path| (PathBuf::from(path), true));
    named.or_else(|| Some((configuration()?.join("settings.yaml"), false)))
}

/// Reads the settings: the file that `DAEDAL_SETTINGS` names, or `daedal/settings.yaml` in the configuration folder, if it is there.
pub fn settings() -> Outcome<Settings> {
    let Some((path, is_named)) = place() else {
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
    fn programs_are_run_for_inventories_in_listed_folders_only() {
        let top = tempfile::tempdir().unwrap();
        let (mine, cloned) = (top.path().join("mine"), top.path().join("mine-not"));
        for folder in [&mine.join("home"), &cloned] {
            std::fs::create_dir_all(folder).unwrap();
        }
        std::os::unix::fs::symlink(&cloned, mine.join("link")).unwrap();
        let allowed = |settings: &str, folder: &Path| parse(settings).unwrap().allow_commands.allow(folder);
        let listed = format!("allowCommands: ['{}']\n", mine.display());
        assert!(allowed(&listed, &mine) && allowed(&listed, &mine.join("home")));
        for other in [&cloned, &mine.join("link"), &mine.join(".."), &mine.join("none")] {
            assert!(!allowed(&listed, other), "{}", other.display());
        }
        assert!(!allowed("", &mine) && !allowed("allowCommands: false\n", &mine));
        assert!(allowed("allowCommands: true\n", &cloned));
        // What is relative is relative to nothing that an inventory could choose.
        assert!(!allowed("allowCommands: [mine]\n", &mine));
    }

    #[test]
    fn settings_are_few_and_none_is_overlooked() {
        assert_eq!(parse("").unwrap(), Settings::default());
        assert_eq!(parse("# nothing\n").unwrap(), Settings::default());
        assert!(parse("allowOutside: true\n").unwrap().allow_outside);
        let listed =
            parse("untrusted: {variables: [A], endpoints: ['https://a:8006'], networks: [10.0.0.0/16]}\n");
        assert_eq!(listed.unwrap().untrusted.variables, ["A"]);
        for wrong in ["allowCommands: maybe\n", "allowoutside: true\n", "allowOutside: maybe\n", "- a\n"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
