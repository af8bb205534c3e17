//! The way in: texts → cluster, or everything that is wrong with them.

use std::collections::HashMap;
use std::io;
use std::path::Path as FilePath;

use serde::Deserialize;

use crate::check::{self, Checked};
use crate::cluster::Cluster;
use crate::diagnostic::{self, Diagnostic, Diagnostics, Finding};
use crate::document::Document;
use crate::resolve::{self, Context};
use crate::yaml::{self, Node, Span, Value};
use crate::{redact, schema};

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

    /// The names of the files in a folder, in any order.
    fn list(&self, folder: &FilePath) -> io::Result<Vec<String>> {
        let _ = folder;
        Err(io::Error::new(io::ErrorKind::Unsupported, "folders cannot be read here"))
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
    /// What deserves a second look.
    pub warnings: Vec<Diagnostic>,
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
    let mut findings = Vec::new();
    let mut masked = Vec::new();
    let mut trees = Vec::new();
    for (i, source) in documents.iter().enumerate() {
        let (found, problems) = yaml::parse(&source.text, i);
        if !problems.is_empty() {
            masked.extend(redact::suspects(&source.text, i));
        }
        findings.extend(problems.into_iter().map(|p| {
            let finding = Finding::error("yaml", p.span, p.message);
            let finding = p.help.into_iter().fold(finding, Finding::help);
            p.other.into_iter().fold(finding, |f, (span, note)| f.related(span, note))
        }));
        trees.extend(found.into_iter().filter(|n| !n.is_null()));
    }
    let Some(root) = the_document(&trees, documents, &mut findings) else {
        return Err(Diagnostics::new(diagnostic::finish(findings, documents, &masked)));
    };
    let Checked { value, findings: found, guessed, masked: secrets } = check::check(root, schema::cached());
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
            return Err(Diagnostics::new(diagnostic::finish(findings, documents, &masked)));
        }
    };
    let mut cx = Context {
        root,
        files,
        sources: documents.to_vec(),
        findings,
        masked,
        guessed,
        read: HashMap::new(),
        inline: HashMap::new(),
        lenient,
        lacks: Vec::new(),
    };
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
    let diagnostics = diagnostic::finish(cx.findings, &cx.sources, &cx.masked);
    match cluster {
        Some(cluster) if !failed => Ok(Loaded { cluster, warnings: diagnostics }),
        _ => Err(Diagnostics::new(diagnostics)),
    }
}

/// The one document that declares the cluster.
fn the_document<'t>(trees: &'t [Node], sources: &[Source], findings: &mut Vec<Finding>) -> Option<&'t Node> {
    let start = Span { source: 0, start: 0, end: 0 };
    let Some((root, more)) = trees.split_first() else {
        if findings.is_empty() {
            let help = "Begin with `apiVersion: daedal.dev/v1alpha1` and `kind: Cluster`.";
            let finding = Finding::error("document", start, "There is no document here.").help(help);
            findings.push(if sources.is_empty() { Finding { span: None, ..finding } } else { finding });
        }
        return None;
    };
    for other in more {
        findings.push(
            Finding::error("document", crate::path::first_word(other), "There is a second document here.")
                .help("An inventory is one document; keep another cluster in a file of its own.")
                .related(crate::path::first_word(root), "the first one"),
        );
    }
    if !matches!(root.value, Value::Map(_)) {
        let help = "Begin with `apiVersion: daedal.dev/v1alpha1` and `kind: Cluster`.";
        findings.push(
            Finding::error("document", root.span, "This is not an inventory: it has no keys.").help(help),
        );
        return None;
    }
    Some(root)
}
