//! The way in: texts → cluster, or everything that is wrong with them.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path as FilePath, PathBuf};

use serde::Deserialize;

use crate::base::Layers;
use crate::check::{self, Checked};
use crate::cluster::Cluster;
use crate::diagnostic::{self, Diagnostic, Diagnostics, Finding};
use crate::document::Document;
use crate::layout::{self, Translated, Words};
use crate::resolve::{self, Context};
use crate::vault::VaultField;
use crate::yaml::{Node, Span, Value};
use crate::{lint, schema};

/// A document's name and text.
#[derive(Clone, Debug)]
pub struct Source {
    /// What diagnostics call it: the file's path as the user gave it.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// Reads the files an inventory refers to, such as patches. The caller's doing, so that this crate touches no disk.
pub trait Files {
    /// The text of a file whose path is as written in the inventory: relative to the inventory's folder.
    fn read(&self, path: &FilePath) -> io::Result<String>;

    /// The text of another inventory that this one is based on, by its path from there.
    fn base(&self, path: &FilePath) -> io::Result<String> {
        self.read(path)
    }

    /// The names of the files in a folder, in any order.
    fn list(&self, folder: &FilePath) -> io::Result<Vec<String>> {
        let _ = folder;
        Err(io::Error::new(io::ErrorKind::Unsupported, "folders cannot be read here"))
    }

    /// The text of a field of a secret in a Vault.
    fn vault(&self, field: &VaultField) -> io::Result<String> {
        let _ = field;
        Err(io::Error::new(io::ErrorKind::Unsupported, "no Vault can be asked here"))
    }

    /// Whether a file is encrypted; none where that cannot be told.
    fn is_encrypted(&self, path: &FilePath) -> Option<bool> {
        let _ = path;
        None
    }

    /// A value in a SOPS file, whose path is as written in the inventory.
    fn sops(&self, file: &FilePath, key: &str) -> io::Result<String> {
        let _ = (file, key);
        Err(io::Error::new(io::ErrorKind::Unsupported, "SOPS files cannot be opened here"))
    }

    /// What a program prints.
    fn command(&self, words: &[String]) -> io::Result<String> {
        let _ = words;
        Err(io::Error::new(io::ErrorKind::Unsupported, "no program can be run here"))
    }

    /// The value of an environment variable that a patch asks for.
    fn variable(&self, name: &str) -> Option<String> {
        let _ = name;
        None
    }
}

impl<F: Fn(&FilePath) -> io::Result<String>> Files for F {
    fn read(&self, path: &FilePath) -> io::Result<String> {
        self(path)
    }
}

/// A usable inventory.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// What it declares.
    pub cluster: Cluster,
    /// What deserves a second look, and every command says.
    pub warnings: Vec<Diagnostic>,
    /// What `daedal check` finds besides: above all what is less safe than it could be.
    pub lint: Vec<Diagnostic>,
    /// Ids of warnings and notes that the inventory accepts.
    pub ignored: Vec<String>,
}

/// Reads an inventory. Either a cluster with nothing left to decide comes out, or all that is wrong, each with its place.
///
/// # Errors
/// Everything found, warnings included, if at least one error is among it.
pub fn load(documents: &[Source], files: &dyn Files) -> Result<Loaded, Diagnostics> {
    read(documents, files, false)
}

/// The same for whoever only looks or removes: secrets that are not where the inventory says are warnings, and
/// [`Cluster::lacks`] names them. No machine config can be made of such a cluster.
///
/// # Errors
/// As [`load`], but for missing secrets.
pub fn load_lacking(documents: &[Source], files: &dyn Files) -> Result<Loaded, Diagnostics> {
    read(documents, files, true)
}

fn read(documents: &[Source], files: &dyn Files, lenient: bool) -> Result<Loaded, Diagnostics> {
    let mut layers = Layers::new(documents, files);
    let Some(Translated { root, words, said }) = whole_document(&mut layers) else {
        let Layers { sources, findings, masked, .. } = layers;
        return Err(Diagnostics::new(diagnostic::finish(findings, &sources, &masked)));
    };
    let Layers { sources, folders, mut findings, mut masked, .. } = layers;
    let Checked { value, findings: found, guessed, masked: secrets } =
        check::check(&root, schema::cached(), &folders, said);
    findings.extend(found);
    masked.extend(secrets);
    let document = match Document::deserialize(value) {
        Ok(document) => document,
        Err(_) => {
            // The check and the types come from one schema, so this is our mistake; tests look for it.
            findings.push(Finding::error(
                "internal",
                root.span,
                "The document fits its schema but not its types.",
            ));
            return Err(Diagnostics::new(diagnostic::finish(findings, &sources, &masked)));
        }
    };
    let mut cx = Context {
        root: &root,
        files,
        sources,
        findings,
        masked,
        guessed,
        read: HashMap::new(),
        inline: HashMap::new(),
        lenient,
        lacks: Vec::new(),
        vault: None,
        has_vault: false,
    };
    let ignored = lint::ignored(&document.spec, &mut cx);
    let cluster = resolve::resolve(&document, &mut cx);
    if let Some(cluster) = &cluster {
        resolve::judge_patches(cluster, &mut cx);
    }
    let failed = cx.failed();
    if cluster.is_none() && !failed {
        cx.findings.push(Finding::error(
            "internal",
            root.span,
            "The document could not be resolved, and nothing says why.",
        ));
    }
    let lint = cluster.as_ref().filter(|_| !failed).map(|cluster| {
        let mut found = lint::lint(&document, cluster, &cx);
        words.translate(&mut found.findings);
        diagnostic::finish(found.findings, &[&cx.sources[..], &found.sources].concat(), &cx.masked)
    });
    words.translate(&mut cx.findings);
    let diagnostics = diagnostic::finish(cx.findings, &cx.sources, &cx.masked);
    match (cluster, lint) {
        (Some(cluster), Some(lint)) => Ok(Loaded { cluster, warnings: diagnostics, lint, ignored }),
        _ => Err(Diagnostics::new(diagnostics)),
    }
}

/// The tree of the one document that declares the cluster, with all that it is based on.
fn whole_document(layers: &mut Layers<'_>) -> Option<Translated> {
    let trees: Vec<Node> = (0..layers.sources.len()).flat_map(|source| layers.parsed(source)).collect();
    let start = Span { source: 0, start: 0, end: 0 };
    let help = "Begin with `apiVersion: daedal.dev/v1alpha1` and `kind: Cluster`.";
    if trees.is_empty() && layers.findings.is_empty() {
        let finding = Finding::error("document", start, "There is no document here.").help(help);
        let nowhere = layers.sources.is_empty();
        layers.findings.push(if nowhere { Finding { span: None, ..finding } } else { finding });
    }
    let root = layers.only(trees)?;
    if !matches!(root.value, Value::Map(_)) {
        let message = "This is not an inventory: it has no keys.";
        layers.findings.push(Finding::error("document", root.span, message).help(help));
        return None;
    }
    if layout::is_one(&root) {
        return layout::translated(&root, layers);
    }
    let own = layers.sources.first().and_then(|source| FilePath::new(&source.name).file_name());
    let mut trail = vec![own.map(PathBuf::from).unwrap_or_default()];
    let root = layers.over_bases(root, &mut trail)?;
    Some(Translated { root, words: Words::default(), said: HashSet::new() })
}
