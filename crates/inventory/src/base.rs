//! Inventories over their bases: several documents → one tree, in which every value knows the file it stands in.

use std::path::{Component, Path as FilePath, PathBuf};

use crate::diagnostic::Finding;
use crate::load::{Files, Source};
use crate::merge::merge;
use crate::path::first_word;
use crate::yaml::{self, Node, Span, Value};
use crate::{redact, schema};

/// The key that names bases.
const KEY: &str = "base";
/// More bases above each other than this are refused.
const DEEPEST: usize = 16;

/// The texts that one inventory is made of.
pub(crate) struct Layers<'a> {
    pub(crate) files: &'a dyn Files,
    /// The inventory first.
    pub(crate) sources: Vec<Source>,
    /// The folder of each source, relative to the inventory's.
    pub(crate) folders: Vec<PathBuf>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) masked: Vec<Span>,
}

impl<'a> Layers<'a> {
    /// Begins with the inventory itself.
    pub(crate) fn new(documents: &[Source], files: &'a dyn Files) -> Self {
        Self {
            files,
            sources: documents.to_vec(),
            folders: vec![PathBuf::new(); documents.len()],
            findings: Vec::new(),
            masked: Vec::new(),
        }
    }

    /// The documents of a source, and what is wrong with its text.
    pub(crate) fn parsed(&mut self, source: usize) -> Vec<Node> {
        let text = self.sources.get(source).map_or("", |source| source.text.as_str());
        let (found, problems) = yaml::parse(text, source);
        if !problems.is_empty() {
            self.masked.extend(redact::suspects(text, source));
        }
        self.findings.extend(problems.into_iter().map(|p| {
            let finding = Finding::error("yaml", p.span, p.message);
            let finding = p.help.into_iter().fold(finding, Finding::help);
            p.other.into_iter().fold(finding, |f, (span, note)| f.related(span, note))
        }));
        found.into_iter().filter(|node| !node.is_null()).collect()
    }

    /// Adds a text that stands beside the inventory, by its path from there.
    pub(crate) fn add(&mut self, place: &FilePath, text: String) -> usize {
        let inventory = self.sources.first().map_or("", |source| source.name.as_str());
        let shown = FilePath::new(inventory).parent().unwrap_or(FilePath::new("")).join(place);
        self.sources.push(Source { name: tidy(&shown).display().to_string(), text });
        self.folders.push(place.parent().unwrap_or(FilePath::new("")).to_owned());
        self.sources.len() - 1
    }

    /// A document merged over its bases; nothing if one of them cannot be had, which is said.
    pub(crate) fn over_bases(&mut self, node: Node, trail: &mut Vec<PathBuf>) -> Option<Node> {
        let folder = self.folders.get(node.span.source).cloned().unwrap_or_default();
        let mut below: Option<Node> = None;
        for (named, span) in bases(&node) {
            let place = folder.join(&named);
            let base = self.base(&named, &place, span, trail)?;
            below = Some(match below {
                Some(below) => merge(below, base, schema::cached()),
                None => base,
            });
        }
        Some(match below {
            Some(mut below) => {
                // Which bases a base has is its own matter.
                if let Value::Map(entries) = &mut below.value {
                    entries.retain(|entry| entry.key != KEY);
                }
                merge(below, node, schema::cached())
            }
            None => node,
        })
    }

    fn base(&mut self, named: &str, place: &FilePath, span: Span, trail: &mut Vec<PathBuf>) -> Option<Node> {
        let tidied = tidy(place);
        if trail.contains(&tidied) || trail.len() > DEEPEST {
            let message = format!("The base `{named}` leads back to this file, in a circle.");
            let help = "An inventory cannot be based on itself: remove one of the `base` keys.";
            self.findings.push(Finding::error("base", span, message).help(help));
            return None;
        }
        let text = match self.files.base(place) {
            Ok(text) => text,
            Err(error) => {
                let message = format!("The base `{named}` cannot be read: {error}.");
                let help = "The path is relative to the file that names it.";
                self.findings.push(Finding::error("base", span, message).help(help));
                return None;
            }
        };
        if !is_inventory(&text) {
            // Whatever it is, nothing of it is shown.
            let message = format!("The base `{named}` is not an inventory, or a part of one.");
            let help = "A base has `metadata`, `spec` or a `base` of its own at the beginning of a line.";
            self.findings.push(Finding::error("base", span, message).help(help));
            return None;
        }
        let wrong = self.findings.len();
        let source = self.add(place, text);
        let trees = self.parsed(source);
        let root = self.only(trees)?;
        if self.findings.len() > wrong {
            return None;
        }
        trail.push(tidied);
        let merged = self.over_bases(root, trail);
        trail.pop();
        merged
    }

    /// The one document of a file.
    pub(crate) fn only(&mut self, trees: Vec<Node>) -> Option<Node> {
        let mut trees = trees.into_iter();
        let root = trees.next()?;
        for other in trees {
            self.findings.push(
                Finding::error("document", first_word(&other), "There is a second document here.")
                    .help("An inventory is one document; keep another cluster in a file of its own.")
                    .related(first_word(&root), "the first one"),
            );
        }
        Some(root)
    }
}

/// What a document is based on, as written. What is wrong with the key is said by whoever checks the document.
fn bases(node: &Node) -> Vec<(String, Span)> {
    let Some(entry) = node.get(KEY) else { return Vec::new() };
    let items = match &entry.value.value {
        Value::Seq(items) => items.as_slice(),
        _ => std::slice::from_ref(&entry.value),
    };
    let text = |item: &Node| match &item.value {
        Value::Scalar { text, .. } if !item.is_null() => Some((text.clone(), item.span)),
        _ => None,
    };
    items.iter().filter_map(text).collect()
}

/// Whether a text begins to look like an inventory or a part of one.
fn is_inventory(text: &str) -> bool {
    let keys = ["apiVersion:", "kind:", "metadata:", "spec:", "base:"];
    text.lines().any(|line| keys.iter().any(|key| line.starts_with(key)))
}

/// A path without detours, by its words alone.
pub fn tidy(path: &FilePath) -> PathBuf {
    let mut tidy = PathBuf::new();
    for part in path.components() {
        match (part, tidy.components().next_back()) {
            (Component::CurDir, _) => {}
            (Component::ParentDir, Some(Component::Normal(_))) => drop(tidy.pop()),
            (Component::ParentDir, Some(Component::RootDir)) => {}
            _ => tidy.push(part),
        }
    }
    tidy
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detours_are_left_out() {
        for (path, short) in [
            ("envs/prod/../../base.yaml", "base.yaml"),
            ("./a/./b", "a/b"),
            ("../../x", "../../x"),
            ("a/../../x", "../x"),
            ("/a/../b", "/b"),
        ] {
            assert_eq!(tidy(FilePath::new(path)), PathBuf::from(short), "{path}");
        }
    }
}
