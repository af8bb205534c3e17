//! Reads the inventory from disk and turns what is wrong with it into a failure that points at the place.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use daedal_app::USUAL;
use daedal_engine::SecondLook;
use daedal_inventory::{Cluster, Diagnostic, Diagnostics, Files, Loaded, Source, VaultField};
use daedal_store::Keyring;
use miette::{GraphicalReportHandler, GraphicalTheme};

use crate::cli::Target;
use crate::console;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::keys::KeyArgs;
use crate::secrets::lacking;
use crate::untrusted::Policy;
use crate::{advice, clusters, file, operator, program, sops, vaults};

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
    read(&clusters::one(target)?, &target.keys, color)
}

/// The same for a command that makes no machine configs: secrets that the inventory refers to may be missing, which is said.
pub fn of_lacking(target: &Target, color: bool) -> Outcome<Inventory> {
    advice::is_about(target);
    let (path, text) = text_of(&clusters::one(target)?)?;
    let inventory = parse_with(path, text, &target.keys, color, How::Lacking)?;
    for lack in &inventory.loaded.cluster.lacks {
        console::say(&format!("warning: {lack}: machine configs cannot be made or compared without it."));
    }
    Ok(inventory)
}

/// What an inventory declares, without a word about it.
pub fn declared(target: &Target) -> Outcome<Cluster> {
    let (path, text) = text_of(&target.inventory())?;
    Ok(parse_with(path, text, &target.keys, false, How::Quiet)?.loaded.cluster)
}

/// Reads the inventory at `path`; a folder stands for the `cluster.yaml` in it. Encrypted files that it refers to are
/// opened with the key.
pub fn read(path: &Path, keys: &KeyArgs, color: bool) -> Outcome<Inventory> {
    let (path, text) = text_of(path)?;
    parse(path, text, keys, color)
}

/// The same for what uses none of the secrets that it refers to: none is asked for, and none is missed.
pub fn read_apart(path: &Path, keys: &KeyArgs, color: bool) -> Outcome<Inventory> {
    let (path, text) = text_of(path)?;
    parse_with(path, text, keys, color, How::Quiet)
}

fn text_of(path: &Path) -> Outcome<(PathBuf, String)> {
    let path = if path.is_dir() { path.join(USUAL) } else { path.to_owned() };
    let bytes = bytes(&path).map_err(|error| {
        Failure::new(Exit::NoInput, format!("cannot read the inventory {}", path.display()))
            .because(&error)
            .hint("Name it with -f FILE; examples/home/cluster.yaml is one to start from.")
    })?;
    let text = String::from_utf8(bytes).map_err(|error| not_utf8(&path, &error))?;
    Ok((path, text))
}

/// Somebody else's inventory is a file of theirs, and no link to one of ours.
pub fn bytes(path: &Path) -> io::Result<Vec<u8>> {
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
    parse_with(path, text, keys, color, How::Whole)
}

/// How a text becomes a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// With all secrets that it refers to.
    Whole,
    /// Secrets may be missing.
    Lacking,
    /// The same, and nobody is asked for any.
    Quiet,
}

fn parse_with(path: PathBuf, text: String, keys: &KeyArgs, color: bool, how: How) -> Outcome<Inventory> {
    let folder = path.parent().map(Path::to_owned).unwrap_or_default();
    let settings = operator::settings()?;
    let policy = operator::distrusts().then(|| Policy::new(settings.untrusted));
    let beside = Beside {
        folders: RefCell::new(vec![folder.clone()]),
        folder: &folder,
        // What is encrypted is nothing to put into a patch of somebody else.
        keys: if policy.is_some() { Keyring::given("", "--untrusted") } else { keys.ring() },
        allow_outside: settings.allow_outside && policy.is_none(),
        policy: policy.as_ref(),
        quiet: how == How::Quiet,
        asked: RefCell::default(),
    };
    let source = Source { name: path.display().to_string(), text };
    let loaded = match how {
        How::Whole => daedal_inventory::load(&[source], &beside),
        How::Lacking | How::Quiet => daedal_inventory::load_lacking(&[source], &beside),
    };
    if let Some(policy) = &policy {
        loaded.iter().for_each(|loaded| policy.look(&loaded.cluster, &beside.folders.borrow()));
        policy.verdict(&path)?;
    }
    match loaded {
        Ok(loaded) => Ok(Inventory { loaded, path, folder }),
        Err(found) => {
            let what = found.to_string();
            Err(refused(found, &what, color))
        }
    }
}

/// A document that cannot be used, with everything that is wrong with it.
pub fn refused(found: Diagnostics, what: &str, color: bool) -> Failure {
    let exit = if found.only_lacks_secrets() { Exit::MissingSecret } else { Exit::BadDocument };
    let mut failure = Failure::new(exit, what);
    failure.causes = found.iter().map(one_line).collect();
    let texts: Vec<String> = found.iter().map(|d| render(d, color)).collect();
    failure.rendered = Some(format!("{}\n{what}\n", texts.join("\n")));
    failure.findings = Some(Box::new(found));
    failure
}

/// What the inventory refers to: files beside it, and the environment.
struct Beside<'a> {
    folder: &'a Path,
    /// The same, and those of the inventories that it is based on: what these name is in them.
    folders: RefCell<Vec<PathBuf>>,
    keys: Keyring,
    allow_outside: bool,
    policy: Option<&'a Policy>,
    /// Whether nobody wants the secrets: then nobody is asked for any, and no program is run.
    quiet: bool,
    /// What was asked for, or why it was not answered, by where it is: a secret is asked for once.
    asked: RefCell<BTreeMap<Vec<String>, Result<String, String>>>,
}

impl Beside<'_> {
    fn locate(&self, named: &Path) -> io::Result<PathBuf> {
        file::locate(&self.folders.borrow(), named, self.allow_outside)
    }

    fn once(&self, name: Vec<String>, read: impl FnOnce() -> Result<String, String>) -> io::Result<String> {
        if let Some(known) = self.asked.borrow().get(&name) {
            return known.clone().map_err(io::Error::other);
        }
        let read = read();
        self.asked.borrow_mut().insert(name, read.clone());
        read.map_err(io::Error::other)
    }
}

/// A failure in one sentence, without its end.
fn joined(words: &[String]) -> String {
    words.join(": ").trim_end_matches('.').to_owned()
}

impl Files for Beside<'_> {
    fn read(&self, path: &Path) -> io::Result<String> {
        let bytes = file::read(&self.locate(path)?)?;
        // A key is asked for by the name that the inventory has.
        let text = self.keys.open(&self.folder.join(path), bytes).map_err(io::Error::other)?;
        String::from_utf8(text.expose().to_vec())
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    fn base(&self, path: &Path) -> io::Result<String> {
        let bytes = file::read(&file::locate_base(self.folder, path, self.allow_outside)?)?;
        let folder = self.folder.join(path).parent().map(Path::to_owned).unwrap_or_default();
        self.folders.borrow_mut().push(folder);
        String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
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

    fn vault(&self, field: &VaultField) -> io::Result<String> {
        // Somebody else's inventory must not choose what is taken out of a Vault.
        if self.policy.is_some() {
            return Err(io::Error::other("with --untrusted no Vault is asked"));
        }
        if self.quiet {
            return Err(io::Error::other("The secret is not needed here"));
        }
        let name = vec!["vault".to_owned(), field.path.clone(), field.key.clone()];
        self.once(name, || {
            vaults::read(field, "The secret", self.folder, &self.keys)
                .map_err(|failure| joined(&[vec![failure.message], failure.causes, failure.hints].concat()))
        })
    }

    fn sops(&self, file: &Path, key: &str) -> io::Result<String> {
        if self.policy.is_some() {
            return Err(io::Error::other("with --untrusted nothing is decrypted"));
        }
        let path = self.locate(file)?;
        self.once(vec!["sops".to_owned(), path.display().to_string(), key.to_owned()], || {
            sops::value(&path, key, &self.keys)
                .map_err(|failure| joined(&[failure.causes, failure.hints].concat()))
        })
    }

    fn command(&self, words: &[String]) -> io::Result<String> {
        if self.policy.is_some() {
            return Err(io::Error::other("With --untrusted no program is run"));
        }
        if self.quiet {
            return Err(io::Error::other("The secret is not needed here"));
        }
        self.once([&["command".to_owned()], words].concat(), || {
            program::output(words, self.folder).map_err(|failure| {
                let failure = lacking("The secret", failure);
                joined(&[vec![failure.message], failure.causes, failure.hints].concat())
            })
        })
    }

    fn is_encrypted(&self, path: &Path) -> Option<bool> {
        // Of somebody else's inventory only files inside its folder are looked at.
        let path = match self.policy {
            Some(_) => self.locate(path).ok()?,
            None => crate::secrets::resolve(path, self.folder),
        };
        Some(Keyring::is_encrypted(&file::read(&path).ok()?))
    }

    fn variable(&self, name: &str) -> Option<String> {
        let allowed = self.policy.is_none_or(|policy| policy.variable(name));
        std::env::var(name).ok().filter(|_| allowed)
    }
}

/// Judges the machine configs that the inventory makes, before anything is done; gives what deserves a second look.
pub fn vet(cluster: &Cluster, path: &Path) -> Outcome<Vec<SecondLook>> {
    vetted(daedal_engine::vet(cluster), path)
}

/// What came of judging them.
pub fn vetted(
    doubts: Result<Vec<SecondLook>, daedal_engine::Error>,
    path: &Path,
) -> Outcome<Vec<SecondLook>> {
    doubts.map_err(|error| {
        let mut failure = Failure::from_error(Exit::BadDocument, &error);
        failure.message = format!("{}: {}", path.display(), failure.message);
        let failure = failure.advise(error.fix().as_ref());
        failure.hint(format!(
            "Nothing was done. Change the patch or the setting; to verify it: {}",
            advice::here("check")
        ))
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
