//! What a node could not read of a patch, pointed at where the patch is written.

use std::collections::HashSet;

use super::Context;
use crate::check::looks_secret;
use crate::cluster::{Cluster, Patch};
use crate::diagnostic::Finding;
use crate::load::{PatchFault, Source};
use crate::path::first_word;
use crate::redact;
use crate::yaml::{self, Entry, Kind, Node, Span, Value};

/// Lets the caller, who knows Talos, judge every patch with the facts of a node in it.
pub(crate) fn judge_patches(cluster: &Cluster, cx: &mut Context<'_>) {
    let shared =
        cluster.nodes.first().into_iter().flat_map(|node| cluster.patches.iter().map(move |p| (p, node)));
    let own = cluster.nodes.iter().flat_map(|node| node.patches.iter().map(move |patch| (patch, node)));
    // A pool's patch is that of each of its nodes: what is wrong with it is said once.
    let talos = cluster.talos.version.to_string();
    let mut said = HashSet::new();
    for (patch, node) in shared.chain(own) {
        for fault in cx.files.patch_faults(&patch.text_for(cluster, node), &talos) {
            if said.insert((patch.origin.clone(), fault.clone())) {
                let finding = found(patch, &fault, cx);
                cx.findings.push(finding);
            }
        }
    }
}

fn found(patch: &Patch, fault: &PatchFault, cx: &mut Context<'_>) -> Finding {
    let (written, text) = match cx.inline.get(&patch.origin) {
        Some((span, text)) => (Written::block(&cx.sources, *span, text), text.clone()),
        None => {
            let text = cx.read.get(&patch.origin).cloned().flatten().unwrap_or_default();
            (Written::file(&mut cx.sources, &patch.origin, &text), text)
        }
    };
    let documents: Vec<Node> =
        yaml::parse(&text, 0).0.into_iter().filter(|node| !says_nothing(node)).collect();
    if let (Written::Block { .. }, Some((span, _))) = (&written, cx.inline.get(&patch.origin)) {
        // Hidden as a whole so far; now its keys can be seen.
        cx.masked.retain(|masked| masked != span);
    }
    let mut hidden = redact::suspects(&text, 0);
    documents
        .iter()
        .for_each(|document| hide(document, matches!(document.value, Value::Seq(_)), &mut hidden));
    cx.masked.extend(hidden.into_iter().map(|span| written.span(span)));
    let at =
        documents.get(fault.document).map(|document| locate(document, &fault.path, first_word(document)));
    let at = at.unwrap_or(Span { source: 0, start: 0, end: 0 });
    let end = if fault.message.ends_with(['?', '.']) { "" } else { "." };
    // A key, too, may come from the environment.
    let said = patch.secret_texts().fold(fault.message.clone(), |said, secret| said.replace(secret, "***"));
    let message = format!("The patch {} cannot be used: {said}{end}", patch.origin);
    Finding::error("patch", written.span(at), message)
}

fn says_nothing(node: &Node) -> bool {
    node.is_null() || matches!(&node.value, Value::Map(entries) if entries.is_empty())
}

/// Where a patch's text stands among the sources.
enum Written {
    /// It is a source.
    File(usize),
    /// Its lines are those of a source from a line on, indented. By byte: where each begins in the patch, and there.
    Block { source: usize, lines: Vec<(usize, usize)> },
    /// Somewhere in there, quoted or folded.
    Within(Span),
}

impl Written {
    fn file(sources: &mut Vec<Source>, name: &str, text: &str) -> Self {
        let known = sources.iter().position(|source| source.name == name && source.text == text);
        Self::File(known.unwrap_or_else(|| {
            sources.push(Source { name: name.to_owned(), text: text.to_owned() });
            sources.len() - 1
        }))
    }

    /// Finds the lines of a block in the text it stands in.
    fn block(sources: &[Source], span: Span, text: &str) -> Self {
        let whole = sources.get(span.source).map_or("", |source| source.text.as_str());
        let above = whole.get(..span.start).map_or(0, |before| before.matches('\n').count());
        let (there, here) = (lines(whole), lines(text));
        // A block's span may begin at its sign, or at its first line that is not empty.
        let empty = here.iter().take_while(|(_, length)| *length == 0).count();
        for first in above.saturating_sub(empty)..=above + 1 {
            let mut starts = Vec::with_capacity(here.len());
            let fits = here.iter().zip(there.iter().skip(first)).all(|((start, length), (at, all))| {
                let Some(indent) = all.checked_sub(*length) else { return false };
                starts.push((*start, at + indent));
                let same = whole.get(at + indent..at + all) == text.get(*start..start + length);
                same && whole.get(*at..at + indent).is_some_and(|indent| indent.trim().is_empty())
            });
            if fits && starts.len() == here.len() {
                return Self::Block { source: span.source, lines: starts };
            }
        }
        Self::Within(span)
    }

    /// A span of the patch's text as one of the source.
    fn span(&self, span: Span) -> Span {
        match self {
            Self::File(source) => Span { source: *source, ..span },
            Self::Block { source, lines } => {
                let moved = |at: usize| {
                    let line = lines.partition_point(|(start, _)| *start <= at).saturating_sub(1);
                    lines.get(line).map_or(at, |(start, there)| there + (at - start))
                };
                Span { source: *source, start: moved(span.start), end: moved(span.end) }
            }
            Self::Within(whole) => *whole,
        }
    }
}

/// Where each line begins, and how long it is without what is empty at its end.
fn lines(text: &str) -> Vec<(usize, usize)> {
    let mut at = 0;
    let of = |line: &str| {
        let start = at;
        at += line.len();
        (start, line.trim_end().len())
    };
    text.split_inclusive('\n').map(of).collect()
}

/// Adds the values that may be secret: all texts but those that say what a document or an operation is.
fn hide(node: &Node, is_operations: bool, hidden: &mut Vec<Span>) {
    match &node.value {
        Value::Scalar { kind: Kind::Null | Kind::Bool | Kind::Int, .. } => {}
        Value::Scalar { .. } => hidden.push(node.span),
        Value::Seq(items) => items.iter().for_each(|item| hide(item, is_operations, hidden)),
        Value::Map(entries) => {
            for Entry { key, value, .. } in entries {
                let plain: &[&str] =
                    if is_operations { &["op", "path", "from"] } else { &["apiVersion", "kind"] };
                if looks_secret(key) {
                    hidden.push(value.span);
                } else if !plain.contains(&key.as_str()) {
                    hide(value, false, hidden);
                }
            }
        }
    }
}

/// What a dotted path leads to, or as far as it goes. Names of entries may have dots in them.
fn locate(node: &Node, path: &str, holder: Span) -> Span {
    let path = path.strip_prefix('.').unwrap_or(path);
    if path.is_empty() {
        return first_word(node);
    }
    let below =
        |key: &str| path.strip_prefix(key).filter(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
    match &node.value {
        Value::Map(entries) => {
            let ways = entries.iter().filter_map(|entry| Some((entry, below(&entry.key)?)));
            match ways.max_by_key(|(entry, _)| entry.key.len()) {
                Some((entry, "")) => whole(entry),
                Some((entry, rest)) => locate(&entry.value, rest, whole(entry)),
                None => holder,
            }
        }
        Value::Seq(items) => {
            let (index, rest) =
                path.strip_prefix('[').and_then(|path| path.split_once(']')).unwrap_or_default();
            let item = index.parse().ok().and_then(|index: usize| items.get(index));
            item.map_or(holder, |item| locate(item, rest, first_word(item)))
        }
        Value::Scalar { .. } => holder,
    }
}

/// The key, and its value if that is a single one.
fn whole(entry: &Entry) -> Span {
    let end = match entry.value.value {
        Value::Scalar { .. } => entry.value.span.end.max(entry.key_span.end),
        _ => entry.key_span.end,
    };
    Span { end, ..entry.key_span }
}
