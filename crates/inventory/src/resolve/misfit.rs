//! What a node could not read of a patch, pointed at where the patch is written.

use std::collections::{BTreeSet, HashSet};

use daedal_talos_config::{Contract, Patch as TalosPatch, PatchFault, is_word};

use super::Context;
use crate::cluster::{Cluster, Patch};
use crate::diagnostic::Finding;
use crate::load::Source;
use crate::path::{Path, first_word};
use crate::redact;
use crate::variables;
use crate::yaml::{self, Entry, Node, Span, Value};

/// Judges every patch with the facts of a node in it, as Talos of the declared version reads it.
pub(crate) fn judge_patches(cluster: &Cluster, cx: &mut Context<'_>) {
    // A version without a contract is refused for what it is.
    let Ok(contract) = Contract::of(&cluster.talos.version.to_string()) else { return };
    let shared =
        cluster.nodes.first().into_iter().flat_map(|node| cluster.patches.iter().map(move |p| (p, node)));
    let own = cluster.nodes.iter().flat_map(|node| node.patches.iter().map(move |patch| (patch, node)));
    // A pool's patch is that of each of its nodes: what is wrong with it for one is said once.
    let mut wrong = HashSet::new();
    for (patch, node) in shared.chain(own) {
        if wrong.contains(patch.origin.as_str()) {
            continue;
        }
        let faults = TalosPatch::faults(&patch.text_for(cluster, node), contract);
        if faults.is_empty() {
            continue;
        }
        wrong.insert(patch.origin.as_str());
        let written = Written::of(patch, cx);
        // What shows without the environment's values quotes none of them.
        let public = patch.secret_texts().next().map(|_| {
            let plain = Patch { text: written.text.clone(), ..patch.clone() };
            TalosPatch::faults(&plain.text_for(cluster, node), contract)
        });
        for fault in faults {
            let is_public = public.as_ref().is_none_or(|public| public.contains(&fault));
            cx.findings.push(written.finding(&patch.origin, fault, is_public));
        }
    }
}

/// Says what is wrong with a patch inside the inventory that is no YAML: by its line alone, as nobody knows what is a secret there.
pub(crate) fn unreadable(at: &Path<'_>, text: &str, problem: &yaml::Problem, cx: &mut Context<'_>) {
    cx.hide(at);
    let span = at.find(cx.root).filter(|_| cx.given(at)).map(|node| node.span);
    let place = span.map(|span| Place::block(&cx.sources, span, text));
    let Some(place @ Place::Block { .. }) = place else {
        let help = "Write it as a block, `inline: |`, with the patch indented below.";
        return cx.error("patch", at, format!("The patch {}.", problem.unquoted), help);
    };
    let there = place.span(problem.span);
    let whole = cx.sources.get(there.source).map_or("", |source| source.text.as_str());
    let message =
        format!("The patch {at} cannot be read: line {} {}.", line_of(whole, there), problem.unquoted);
    let finding = Finding::error("patch", there, message).unquoted();
    cx.findings.push(problem.help.into_iter().fold(finding, Finding::help));
}

/// The number of the line in which something begins.
pub(super) fn line_of(text: &str, span: Span) -> usize {
    1 + text.bytes().take(span.start).filter(|byte| *byte == b'\n').count()
}

/// A patch as it is written, before anything is put in.
struct Written {
    text: String,
    documents: Vec<Node>,
    place: Place,
}

/// Where a patch's text stands among the sources.
enum Place {
    /// It is a source.
    File(usize),
    /// Its lines are those of a source from a line on, indented. By byte: where each begins in the patch, and there.
    Block { source: usize, lines: Vec<(usize, usize)> },
    /// Somewhere in there, quoted or folded.
    Within(Span),
}

impl Written {
    /// Finds a patch, and hides all of it that may be a secret.
    fn of(patch: &Patch, cx: &mut Context<'_>) -> Self {
        let (text, place) = match cx.inline.get(&patch.origin) {
            Some((span, text)) => {
                let place = Place::block(&cx.sources, *span, text);
                if matches!(place, Place::Block { .. }) {
                    // Hidden as a whole so far; now the keys that Talos knows can be seen.
                    cx.masked.retain(|masked| masked != span);
                }
                (text.clone(), place)
            }
            None => {
                let text = cx.read.get(&patch.origin).cloned().flatten().unwrap_or_default();
                let source = Source { name: patch.origin.clone(), text: text.clone() };
                cx.sources.push(source);
                (text, Place::File(cx.sources.len() - 1))
            }
        };
        let documents = yaml::parse(&text, 0).0;
        let hidden = redact::values(&text, &documents, &is_word);
        cx.masked.extend(hidden.into_iter().map(|span| place.span(span)));
        let documents = documents.into_iter().filter(|node| !says_nothing(node)).collect();
        Self { text, documents, place }
    }

    /// A finding about a fault; what may quote the environment is told without its words.
    fn finding(&self, origin: &str, fault: PatchFault, is_public: bool) -> Finding {
        let at = self.documents.get(fault.document);
        let at = at.map(|document| locate(document, &fault.path, first_word(document)));
        let at = at.unwrap_or(Span { source: 0, start: 0, end: 0 });
        let said = if is_public { fault.message } else { self.of_the_environment() };
        let end = if said.ends_with(['?', '.']) { "" } else { "." };
        let message = format!("The patch {origin} cannot be used: {said}{end}");
        Finding::error("patch", self.place.span(at), message)
    }

    fn of_the_environment(&self) -> String {
        let names: BTreeSet<&str> =
            variables::used(&self.text).filter(|name| name.starts_with("env.")).collect();
        let names: Vec<&str> = names.into_iter().collect();
        format!("what ${{{}}} puts in does not fit", names.join("} or ${"))
    }
}

fn says_nothing(node: &Node) -> bool {
    node.is_null() || matches!(&node.value, Value::Map(entries) if entries.is_empty())
}

impl Place {
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
