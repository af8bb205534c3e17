//! Reads the inventory from disk and turns what is wrong with it into a failure that points at the place.

use std::io;
use std::path::{Path, PathBuf};

use daedal_engine::SecondLook;
use daedal_inventory::{Cluster, Diagnostic, Files, Loaded, Source};
use daedal_store::Keyring;
use miette::{GraphicalReportHandler, GraphicalTheme};

use crate::cli::Target;
use crate::console;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::keys::KeyArgs;
use crate::untrusted::Policy;
use crate::{advice, file, operator};

/// An inventory and where it came from.
pub struct Inventory {
    /// What it declares, and what deserves a second look.
    pub loaded: Loaded,
    /// Its path as given.
    pub path: PathBuf,
    /// The folder that paths inside it are relative to.
    pub folder: PathBuf,
}

/// Reads the inventory that a command is about.
pub fn of(target: &Target, color: bool) -> Outcome<Inventory> {
    advice::is_about(target);
    read(&target.inventory(), &target.keys, color)
}

/// The same for a command that makes no machine configs: secrets that the inventory refers to may be missing, which is said.
pub fn of_lacking(target: &Target, color: bool) -> Outcome<Inventory> {
    advice::is_about(target);
    let (path, text) = text_of(&target.inventory())?;
    let inventory = parse_with(path, text, &target.keys, color, daedal_inventory::load_lacking)?;
    for lack in &inventory.loaded.cluster.lacks {
        console::say(&format!("warning: {lack}: machine configs cannot be made or compared without it."));
    }
    Ok(inventory)
}

/// Reads the inventory at `path`; a folder stands for the `cluster.yaml` in it. Encrypted files that it refers to are
/// opened with the key.
pub fn read(path: &Path, keys: &KeyArgs, color: bool) -> Outcome<Inventory> {
    let (path, text) = text_of(path)?;
    parse(path, text, keys, color)
}

fn text_of(path: &Path) -> Outcome<(PathBuf, String)> {
    let path = if path.is_dir() { path.join("cluster.yaml") } else { path.to_owned() };
    let bytes = bytes(&path).map_err(|error| {
        Failure::new(Exit::NoInput, format!("cannot read the inventory {}", path.display()))
            .because(&error)
            .hint("Name it with -f FILE; examples/home/cluster.yaml is one to start from.")
    })?;
    let text = String::from_utf8(bytes).map_err(|error| not_utf8(&path, &error))?;
    Ok((path, text))
}

/// Somebody else's inventory is a file of theirs, and no link to one of ours.
fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    if !operator::distrusts() {
        return std::fs::read(path);
    }
    match path.symlink_metadata()?.is_symlink() {
        true => Err(io::Error::other("it is a symbolic link, which --untrusted does not follow")),
        false => file::read(path),
    }
}

/// Says where a text ceases to be one.
fn not_utf8(path: &Path, error: &std::string::FromUtf8Error) -> Failure {
    let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
    let line = 1 + good.iter().filter(|byte| **byte == b'\n').count();
    let text = format!("the inventory {} is not UTF-8: see line {line}", path.display());
    Failure::new(Exit::BadDocument, text).hint("Save it as UTF-8, the only encoding that is read.")
}

/// Takes a text for the inventory at `path`, which need not be there yet.
pub fn parse(path: PathBuf, text: String, keys: &KeyArgs, color: bool) -> Outcome<Inventory> {
    parse_with(path, text, keys, color, daedal_inventory::load)
}

/// How a text becomes a cluster.
type Load = fn(&[Source], &dyn Files) -> Result<Loaded, daedal_inventory::Diagnostics>;

fn parse_with(path: PathBuf, text: String, keys: &KeyArgs, color: bool, load: Load) -> Outcome<Inventory> {
    let folder = path.parent().map(Path::to_owned).unwrap_or_default();
    let settings = operator::settings()?;
    let policy = operator::distrusts().then(|| Policy::new(settings.untrusted));
    let beside = Beside {
        folder: &folder,
        // What is encrypted is nothing to put into a patch of somebody else.
        keys: if policy.is_some() { Keyring::given("", "--untrusted") } else { keys.ring() },
        allow_outside: settings.allow_outside && policy.is_none(),
        policy: policy.as_ref(),
    };
    let source = Source { name: path.display().to_string(), text };
    let loaded = load(&[source], &beside);
    if let Some(policy) = &policy {
        loaded.iter().for_each(|loaded| policy.look(&loaded.cluster, &folder));
        policy.verdict(&path)?;
    }
    match loaded {
        Ok(loaded) => Ok(Inventory { loaded, path, folder }),
        Err(found) => {
            let exit = if found.only_lacks_secrets() { Exit::MissingSecret } else { Exit::BadDocument };
            let mut failure = Failure::new(exit, found.to_string());
            failure.causes = found.iter().map(one_line).collect();
            failure.findings = Some(Box::new(serde_json::json!(found)));
            let texts: Vec<String> = found.iter().map(|d| render(d, color)).collect();
            failure.rendered = Some(format!("{}\n{found}\n", texts.join("\n")));
            Err(failure)
        }
    }
}

/// What the inventory refers to: files beside it, and the environment.
struct Beside<'a> {
    folder: &'a Path,
    keys: Keyring,
    allow_outside: bool,
    policy: Option<&'a Policy>,
}

impl Beside<'_> {
    fn locate(&self, named: &Path) -> io::Result<PathBuf> {
        file::locate(self.folder, named, self.allow_outside)
    }
}

impl Files for Beside<'_> {
    fn read(&self, path: &Path) -> io::Result<String> {
        let bytes = file::read(&self.locate(path)?)?;
        // A key is asked for by the name that the inventory has.
        let text = self.keys.open(&self.folder.join(path), bytes).map_err(io::Error::other)?;
        String::from_utf8(text.expose().to_vec())
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(self.locate(folder)?)? {
            let entry = entry?;
            if entry.path().is_file() {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        Ok(names)
    }

    fn variable(&self, name: &str) -> Option<String> {
        let allowed = self.policy.is_none_or(|policy| policy.variable(name));
        std::env::var(name).ok().filter(|_| allowed)
    }
}

/// Judges the machine configs that the inventory makes, before anything is done; gives what deserves a second look.
pub fn vet(cluster: &Cluster, path: &Path) -> Outcome<Vec<SecondLook>> {
    daedal_engine::vet(cluster).map_err(|error| {
        let mut failure = Failure::from_error(Exit::BadDocument, &error);
        failure.message = format!("{}: {}", path.display(), failure.message);
        let failure = failure.advise(error.fix().as_ref());
        failure.hint("Nothing was done. Change the patch or the setting; `daedal check` verifies it.")
    })
}

/// What deserves a second look, as a line for people.
pub fn mind(look: &SecondLook) -> String {
    format!("warning: {} (node {})", look.text, look.nodes.join(", "))
}

/// A finding with the line it points at.
pub fn render(diagnostic: &Diagnostic, color: bool) -> String {
    let theme = if color { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
    let mut text = String::new();
    let handler =
        GraphicalReportHandler::new_themed(theme).with_width(crate::console::width()).with_links(false);
    if handler.render_report(&mut text, diagnostic).is_err() {
        return one_line(diagnostic);
    }
    text
}

/// A finding as `file:line:column: message (help)`.
pub fn one_line(diagnostic: &Diagnostic) -> String {
    let place = diagnostic
        .place
        .as_ref()
        .map(|p| format!("{}:{}:{}: ", p.file, p.line, p.column))
        .unwrap_or_default();
    let help = diagnostic.help.as_ref().map(|h| format!(" ({h})")).unwrap_or_default();
    format!("{place}{}{help}", diagnostic.message)
}
