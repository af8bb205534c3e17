//! Machine-config patches: read through the caller, and at least valid YAML.

use std::path::Path as FilePath;

use super::{Context, misfit};
use crate::Source;
use crate::cluster::Patch;
use crate::diagnostic::{Finding, MISSING_SECRET};
use crate::document;
use crate::options::Hidden;
use crate::path::Path;
use crate::suggest;
use crate::variables;
use crate::yaml;

/// The patches listed under `patches` of the mapping at a path, in order.
pub(crate) fn patches(
    patches: Option<&[document::Patch]>,
    at: &Path<'_>,
    cx: &mut Context<'_>,
) -> Vec<Patch> {
    let at = at.key("patches");
    let listed = patches.unwrap_or_default().iter().enumerate();
    listed.flat_map(|(i, p)| patch(p, &at.index(i), cx)).collect()
}

fn patch(patch: &document::Patch, at: &Path<'_>, cx: &mut Context<'_>) -> Vec<Patch> {
    let sources = [patch.file.is_some(), patch.folder.is_some(), patch.inline.is_some()];
    if sources.iter().filter(|given| **given).count() != 1 {
        let help = "Write one of `file: …`, `folder: …` and `inline: |`.";
        cx.error("patch", at, "A patch comes from exactly one place.", help);
        return Vec::new();
    }
    let role = patch.role.map(Into::into);
    let made = |origin: String, text: String, at: &Path<'_>, cx: &mut Context<'_>| {
        let (text, from_environment) = with_environment(&origin, &text, at, cx)?;
        Some(Patch { origin, text, role, from_environment })
    };
    if let Some(folder) = &patch.folder {
        let at = at.key("folder");
        let files = list(folder, &at, cx);
        return files
            .into_iter()
            .filter_map(|file| {
                let text = read(&file, &at, cx)?;
                made(file, text, &at, cx)
            })
            .collect();
    }
    if let Some(file) = &patch.file {
        let at = at.key("file");
        let text = read(file, &at, cx);
        return text.and_then(|text| made(file.clone(), text, &at, cx)).into_iter().collect();
    }
    let Some(text) = patch.inline.as_ref() else { return Vec::new() };
    let at = at.key("inline");
    if let (_, Some(problem)) = parsed(text, 0) {
        misfit::unreadable(&at, text, &problem, cx);
        return Vec::new();
    }
    if !cx.given(&at) {
        return Vec::new();
    }
    let origin = at.to_string();
    if let Some(node) = at.find(cx.root) {
        cx.inline.insert(origin.clone(), (node.span, text.clone()));
    }
    made(origin, text.clone(), &at, cx).into_iter().collect()
}

/// Puts in what the environment gives, and refuses names that nobody knows.
fn with_environment(
    origin: &str,
    text: &str,
    at: &Path<'_>,
    cx: &mut Context<'_>,
) -> Option<(String, Vec<Hidden>)> {
    let mut good = true;
    let mut given = Vec::new();
    for name in variables::used(text) {
        let known = match name.strip_prefix("env.") {
            Some(variable) => {
                match cx.files.variable(variable).filter(|value| !value.is_empty()) {
                    Some(value) => given.push(Hidden(value)),
                    None => {
                        let message =
                            format!("The patch {origin} needs the environment variable {variable}.");
                        cx.error(MISSING_SECRET, at, message, format!("Set it: export {variable}=…"));
                        good = false;
                    }
                }
                true
            }
            None => variables::NAMES.contains(&name),
        };
        if !known {
            let near = suggest::nearest(name, &variables::NAMES);
            // What is nowhere near a variable may be part of a secret.
            let (shown, help) = match near {
                Some(near) => (name, format!("Did you mean `${{{near}}}`?")),
                None => ("…", format!("Known are {}, and env.NAME.", variables::NAMES.join(", "))),
            };
            let message = format!("The patch {origin} uses `${{{shown}}}`, which is not a known variable.");
            cx.error("patch", at, message, help);
            good = false;
        }
    }
    let files = cx.files;
    let replaced = || variables::replaced(text, |name| files.variable(name.strip_prefix("env.")?));
    good.then(|| (replaced(), given))
}

/// The patch files of a folder by name, in order.
fn list(folder: &str, at: &Path<'_>, cx: &mut Context<'_>) -> Vec<String> {
    if !cx.given(at) {
        return Vec::new();
    }
    match cx.files.list(FilePath::new(folder)) {
        Ok(mut names) => {
            names.retain(|name| [".yaml", ".yml", ".json"].iter().any(|end| name.ends_with(end)));
            names.sort();
            if names.is_empty() {
                let message = format!("There is no patch in the folder `{folder}`.");
                cx.warn("patch", at, message, "Its files must end in .yaml, .yml or .json.");
            }
            let folder = folder.trim_end_matches('/');
            names.into_iter().map(|name| format!("{folder}/{name}")).collect()
        }
        Err(e) => {
            let message = format!("The folder `{folder}` cannot be read: {e}.");
            cx.error("patch", at, message, "The path is relative to the inventory's folder.");
            Vec::new()
        }
    }
}

fn read(file: &str, at: &Path<'_>, cx: &mut Context<'_>) -> Option<String> {
    if !cx.given(at) {
        return None;
    }
    if let Some(known) = cx.read.get(file) {
        return known.clone();
    }
    let text = match cx.files.read(FilePath::new(file)) {
        Ok(text) => check_file(file, text, cx),
        Err(e) => {
            let message = format!("The patch `{file}` cannot be read: {e}.");
            cx.error("patch", at, message, "The path is relative to the inventory's folder.");
            None
        }
    };
    cx.read.insert(file.to_owned(), text.clone());
    text
}

fn check_file(file: &str, text: String, cx: &mut Context<'_>) -> Option<String> {
    let source = cx.sources.len();
    let (empty, problem) = parsed(&text, source);
    if problem.is_none() && !empty {
        return Some(text);
    }
    // Nobody knows what is a secret in a text that cannot be read: not a word of it is shown.
    let finding = match problem {
        Some(problem) => {
            let line = misfit::line_of(&text, problem.span);
            let message = format!("The patch `{file}` cannot be read: line {line} {}.", problem.unquoted);
            Finding::error("patch", problem.span, message).help(problem.help.unwrap_or_default())
        }
        None => {
            let span = yaml::Span { source, start: 0, end: 0 };
            let message = format!("The patch `{file}` is empty.");
            Finding::error("patch", span, message).help("Remove it from `patches`.")
        }
    };
    cx.findings.push(finding.unquoted());
    cx.sources.push(Source { name: file.to_owned(), text });
    None
}

/// Whether a text holds nothing, and the first thing wrong with it.
fn parsed(text: &str, source: usize) -> (bool, Option<yaml::Problem>) {
    let (documents, problems) = yaml::parse(text, source);
    (documents.iter().all(yaml::Node::is_null), problems.into_iter().next())
}
