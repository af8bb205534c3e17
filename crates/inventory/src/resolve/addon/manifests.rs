//! Manifests of add-ons: read through the caller, and at least objects of Kubernetes.

use std::path::Path as FilePath;

use super::source::inside;
use crate::Source;
use crate::addon::{AddonText, ManifestSource};
use crate::diagnostic::Finding;
use crate::document::{Manifests, ManifestsFrom, ManifestsPath};
use crate::path::{Path, first_word};
use crate::resolve::Context;
use crate::resolve::link::link;
use crate::yaml::{self, Node, Span, Value};

const ENDINGS: [&str; 3] = [".yaml", ".yml", ".json"];

/// The manifests under `manifests` of an add-on, in order.
pub(super) fn manifests(
    list: Option<&[Manifests]>,
    at: &Path<'_>,
    cx: &mut Context<'_>,
) -> Vec<ManifestSource> {
    let at = at.key("manifests");
    let mut found = Vec::new();
    for (i, one) in list.unwrap_or_default().iter().enumerate() {
        let at = at.index(i);
        match one {
            Manifests::Path(ManifestsPath(path)) if path.contains("://") => {
                let help = "Write `{url: …, sha256: …}` with what `curl -sL URL | sha256sum` prints.";
                if link(path, &["https", "http"], help, &at, cx).is_some() {
                    let message = "What a server gives may be another tomorrow: the manifest has no SHA-256.";
                    cx.error("addon", &at, message, help);
                }
            }
            Manifests::Path(ManifestsPath(path)) => found.extend(beside(path, &at, cx)),
            Manifests::From(from) => found.extend(elsewhere(from, &at, cx)),
        }
    }
    found
}

/// Manifests that come with a chart: only those that were read already.
pub(super) fn besides(own: Vec<ManifestSource>, at: &Path<'_>, cx: &mut Context<'_>) -> Vec<AddonText> {
    let mut texts = Vec::new();
    for source in own {
        match source {
            ManifestSource::Text(text) => texts.push(text),
            ManifestSource::Url { .. } => {
                let help = "Make the manifests an add-on of their own, and name it under `after`.";
                cx.error(
                    "addon",
                    &at.key("manifests"),
                    "Manifests on a server cannot be added to a chart.",
                    help,
                );
            }
        }
    }
    texts
}

fn elsewhere(from: &ManifestsFrom, at: &Path<'_>, cx: &mut Context<'_>) -> Option<ManifestSource> {
    match from {
        ManifestsFrom { url: Some(url), sha256: Some(digest), inline: None } => {
            let url_at = at.key("url");
            let help = "Write for example `https://example.org/crds.yaml`.";
            let link = link(url, &["https", "http"], help, &url_at, cx);
            let digest = digest.trim().to_ascii_lowercase();
            let fits = hex::decode(&digest).is_ok_and(|bytes| bytes.len() == 32);
            let checked = if fits {
                Ok(digest)
            } else {
                let help = "It is 64 hexadecimal digits, as `sha256sum` prints them.".to_owned();
                Err((format!("`{digest}` is not a SHA-256."), help))
            };
            let sha256 = cx.take("digest", &at.key("sha256"), checked)?;
            link.map(|_| ManifestSource::Url { url: url.clone(), sha256 })
        }
        ManifestsFrom { url: Some(url), sha256: None, inline: None } => {
            if cx.given(&at.key("sha256")) {
                let help = "Add `sha256:` with what `curl -sL URL | sha256sum` prints.";
                let message = format!("The manifest {url} has no SHA-256: it may be another tomorrow.");
                cx.error("addon", &at.key("url"), message, help);
            }
            None
        }
        ManifestsFrom { url: None, sha256: None, inline: Some(text) } => {
            let at = at.key("inline");
            let span = at.find(cx.root).map(|node| node.span).filter(|_| cx.given(&at))?;
            let origin = at.to_string();
            let wrong = wrong(text, &origin)
                .map(|(_, message, help)| Finding::error("addon", span, message).help(help).unquoted());
            match wrong {
                Some(finding) => {
                    cx.findings.push(finding);
                    None
                }
                None => Some(ManifestSource::Text(AddonText { origin, text: text.clone() })),
            }
        }
        _ => {
            let help = "Write `{url: …, sha256: …}`, `{inline: |}`, or the path of a file or folder.";
            cx.error("addon", at, "A manifest comes from exactly one place.", help);
            None
        }
    }
}

/// A file, or all of a folder.
fn beside(path: &str, at: &Path<'_>, cx: &mut Context<'_>) -> Vec<ManifestSource> {
    if !cx.given(at) || inside(at, cx).is_none() {
        return Vec::new();
    }
    let files = if ENDINGS.iter().any(|end| path.ends_with(end)) {
        vec![path.to_owned()]
    } else {
        folder(path, at, cx)
    };
    files.into_iter().filter_map(|file| read(&file, at, cx)).collect()
}

fn folder(path: &str, at: &Path<'_>, cx: &mut Context<'_>) -> Vec<String> {
    let folder = path.trim_end_matches('/');
    match cx.files.list(FilePath::new(folder)) {
        Ok(mut names) => {
            names.retain(|name| ENDINGS.iter().any(|end| name.ends_with(end)));
            names.sort();
            if names.is_empty() {
                let message = format!("There is no manifest in the folder `{folder}`.");
                cx.error("addon", at, message, "Its files must end in .yaml, .yml or .json.");
            }
            names.into_iter().map(|name| format!("{folder}/{name}")).collect()
        }
        Err(error) => {
            let message = format!("The folder `{folder}` cannot be read: {error}.");
            cx.error("addon", at, message, "The path is relative to the file that names it.");
            Vec::new()
        }
    }
}

fn read(file: &str, at: &Path<'_>, cx: &mut Context<'_>) -> Option<ManifestSource> {
    let text = match cx.files.read(FilePath::new(file)) {
        Ok(text) => text,
        Err(error) => {
            let message = format!("The manifest `{file}` cannot be read: {error}.");
            cx.error("addon", at, message, "The path is relative to the file that names it.");
            return None;
        }
    };
    match wrong(&text, file) {
        Some((span, message, help)) => {
            let span = Span { source: cx.sources.len(), ..span };
            cx.findings.push(Finding::error("addon", span, message).help(help).unquoted());
            cx.sources.push(Source { name: file.to_owned(), text });
            None
        }
        None => Some(ManifestSource::Text(AddonText { origin: file.to_owned(), text })),
    }
}

/// The first thing that is wrong with a text of manifests: where, what, and what to do. Nothing of it is quoted: it may hold secrets.
fn wrong(text: &str, origin: &str) -> Option<(Span, String, String)> {
    let start = Span { source: 0, start: 0, end: 0 };
    let (documents, problems) = yaml::parse(text, 0);
    let line = |span: Span| 1 + text.bytes().take(span.start).filter(|byte| *byte == b'\n').count();
    if let Some(problem) = problems.into_iter().next() {
        let message = format!(
            "The manifest {origin} cannot be read: line {} {}.",
            line(problem.span),
            problem.unquoted
        );
        return Some((problem.span, message, problem.help.unwrap_or_default().to_owned()));
    }
    let objects: Vec<&Node> = documents.iter().filter(|node| !node.is_null()).collect();
    if objects.is_empty() {
        let message = format!("The manifest {origin} is empty.");
        return Some((start, message, "Remove it, or put objects into it.".to_owned()));
    }
    objects.into_iter().find_map(|object| {
        let text = |key: &str| match object.get(key).map(|entry| &entry.value.value) {
            Some(Value::Scalar { text, .. }) => !text.is_empty(),
            _ => false,
        };
        let named = object.get("metadata").is_some_and(|entry| entry.value.get("name").is_some());
        let missing = match (text("apiVersion"), text("kind"), named) {
            (false, ..) => "`apiVersion`",
            (_, false, _) => "`kind`",
            (true, true, false) if !is_list(object) => "`metadata.name`",
            _ => return None,
        };
        let span = first_word(object);
        let message = format!("The object in line {} of {origin} has no {missing}.", line(span));
        Some((
            span,
            message,
            "A manifest is one or more objects of Kubernetes, with `---` between them.".to_owned(),
        ))
    })
}

/// Whether an object is a list of others.
fn is_list(object: &Node) -> bool {
    object.get("items").is_some_and(|entry| matches!(entry.value.value, Value::Seq(_)))
}
