//! Machine-config patches: read through the caller, and at least valid YAML.

use std::path::Path as FilePath;

use super::Context;
use crate::Source;
use crate::cluster::Patch;
use crate::diagnostic::Finding;
use crate::document;
use crate::path::Path;
use crate::redact;
use crate::yaml;

/// The patches listed under `patches` of the mapping at a path, in order.
pub(crate) fn patches(
    patches: Option<&[document::Patch]>,
    at: &Path<'_>,
    cx: &mut Context<'_>,
) -> Vec<Patch> {
    let at = at.key("patches");
    patches.unwrap_or_default().iter().enumerate().filter_map(|(i, p)| patch(p, &at.index(i), cx)).collect()
}

fn patch(patch: &document::Patch, at: &Path<'_>, cx: &mut Context<'_>) -> Option<Patch> {
    if let Some(file) = &patch.file {
        let text = read(file, &at.key("file"), cx)?;
        return Some(Patch { origin: file.clone(), text });
    }
    let text = patch.inline.as_ref()?;
    let at = at.key("inline");
    if let (_, Some(problem)) = parsed(text, 0) {
        cx.hide(&at);
        let help = "Write it as a block, `inline: |`, with the patch indented below.";
        cx.error("patch", &at, problem.message.replacen("This is", "The patch is", 1), help);
        return None;
    }
    cx.given(&at).then(|| Patch { origin: at.to_string(), text: text.clone() })
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
    cx.masked.extend(redact::suspects(&text, source));
    let span = yaml::Span { source, start: 0, end: 0 };
    cx.findings.push(match problem {
        Some(problem) => {
            Finding::error("patch", problem.span, problem.message).help(problem.help.unwrap_or_default())
        }
        None => Finding::error("patch", span, format!("The patch `{file}` is empty."))
            .help("Remove it from `patches`."),
    });
    cx.sources.push(Source { name: file.to_owned(), text });
    None
}

/// Whether a text holds nothing, and the first thing wrong with it.
fn parsed(text: &str, source: usize) -> (bool, Option<yaml::Problem>) {
    let (documents, problems) = yaml::parse(text, source);
    (documents.iter().all(yaml::Node::is_null), problems.into_iter().next())
}
