//! What patches say that deserves a second look. Their values are never quoted: they may be secrets.

use super::Lint;
use crate::Source;
use crate::cluster::Cluster;
use crate::resolve::Context;
use crate::yaml::{self, Node, Span, Value};

/// Looks through every patch; whether one of them declares the ingress firewall.
pub(super) fn patches(cluster: &Cluster, cx: &Context<'_>, lint: &mut Lint<'_>) -> bool {
    let mut files: Vec<(&String, &String)> =
        cx.read.iter().filter_map(|(name, text)| Some((name, text.as_ref()?))).collect();
    files.sort();
    for (name, text) in files {
        let source = lint.texts + lint.sources.len();
        let before = lint.findings.len();
        look(text, source, None, lint);
        if lint.findings.len() > before {
            lint.sources.push(Source { name: name.clone(), text: text.clone() });
        }
    }
    let mut inline: Vec<(&String, &(Span, String))> = cx.inline.iter().collect();
    inline.sort_by_key(|(_, (span, _))| *span);
    for (_, (span, text)) in inline {
        look(text, span.source, Some(*span), lint);
    }
    let all = cluster.patches.iter().chain(cluster.nodes.iter().flat_map(|node| &node.patches));
    all.into_iter().any(|patch| {
        let (documents, _) = yaml::parse(&patch.text, 0);
        documents.iter().any(|document| scalar(document, &["kind"]) == Some("NetworkDefaultActionConfig"))
    })
}

/// Looks through one text. Where it is part of another, everything is at its place there.
fn look(text: &str, source: usize, place: Option<Span>, lint: &mut Lint<'_>) {
    let (documents, problems) = yaml::parse(text, source);
    if !problems.is_empty() {
        return;
    }
    for document in &documents {
        if scalar(document, &["machine", "features", "rbac"]) == Some("false") {
            let at = find(document, &["machine", "features", "rbac"]).map_or(document.span, |node| node.span);
            let message = "The patch turns off role-based access control of the Talos API.";
            lint.found_in_patch("rbac-off", place.unwrap_or(at), message);
        }
        images(document, &mut |at, key| {
            let message = format!("The patch names an image without a fixed version (`{key}`).");
            lint.found_in_patch("moving-reference", place.unwrap_or(at), message);
        });
    }
}

/// Calls for every `image` whose tag is `latest` or missing.
fn images(node: &Node, found: &mut impl FnMut(Span, &str)) {
    match &node.value {
        Value::Scalar { .. } => {}
        Value::Seq(items) => items.iter().for_each(|item| images(item, found)),
        Value::Map(entries) => {
            for entry in entries {
                if let ("image", Value::Scalar { text, .. }) = (entry.key.as_str(), &entry.value.value)
                    && moves(text)
                {
                    found(entry.value.span, &entry.key);
                }
                images(&entry.value, found);
            }
        }
    }
}

/// Whether an image may be another one tomorrow.
fn moves(image: &str) -> bool {
    // A name without a registry and a path, such as the path of a disk image, is another matter, and so is a variable.
    if image.is_empty() || image.contains("${") || image.contains('@') || !image.contains('/') {
        return false;
    }
    match image.rsplit('/').next().and_then(|last| last.split_once(':')) {
        Some((_, tag)) => tag == "latest",
        None => !image.starts_with(['/', '.']),
    }
}

fn find<'n>(node: &'n Node, path: &[&str]) -> Option<&'n Node> {
    path.iter().try_fold(node, |node, key| node.get(key).map(|entry| &entry.value))
}

fn scalar<'n>(node: &'n Node, path: &[&str]) -> Option<&'n str> {
    match &find(node, path)?.value {
        Value::Scalar { text, .. } => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_without_a_fixed_version_are_found() {
        for (image, is) in [
            ("ghcr.io/siderolabs/installer:latest", true),
            ("registry.lan:5000/team/app", true),
            ("ghcr.io/siderolabs/installer:v1.12.0", false),
            ("ghcr.io/siderolabs/installer@sha256:abc", false),
            ("registry.lan:5000/app:${talos.version}", false),
            ("/dev/sda", false),
            ("busybox", false),
        ] {
            assert_eq!(moves(image), is, "{image}");
        }
    }
}
