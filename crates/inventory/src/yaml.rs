//! YAML text → a tree in which every key and value knows where it stands.
//!
//! Written over the parser's events rather than serde, because a serde error stops at the first mistake and a user wants
//! to see them all. Values keep their text as written: `+10` and `010` mean something else as an address than as a number.

use std::borrow::Cow;
use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Tag};

/// Deeper nesting than this is refused, so that everything that walks a tree may recurse.
const MAX_DEPTH: usize = 48;
/// More values than this after aliases are expanded are refused: a few lines of aliases can ask for billions.
const MAX_VALUES: usize = 500_000;

/// A range of bytes in one of the sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Span {
    pub(crate) source: usize,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// A value with its place.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) span: Span,
    pub(crate) value: Value,
}

/// What a value is.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Scalar { kind: Kind, text: String },
    Seq(Vec<Node>),
    Map(Vec<Entry>),
}

/// What a scalar means by the YAML 1.2 core schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Null,
    Bool,
    Int,
    Float,
    Str,
}

/// A key and its value.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_span: Span,
    pub(crate) value: Node,
}

/// What is wrong with the text itself.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) span: Span,
    pub(crate) message: String,
    /// The same of the line it is in, without a word of it.
    pub(crate) unquoted: &'static str,
    pub(crate) help: Option<&'static str>,
    /// Where the other half of the trouble is, and what it is.
    pub(crate) other: Option<(Span, &'static str)>,
}

impl Node {
    /// The value of a key, if this is a mapping that has it.
    pub(crate) fn get(&self, key: &str) -> Option<&Entry> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|e| e.key == key),
            _ => None,
        }
    }

    /// The element of a list.
    pub(crate) fn item(&self, index: usize) -> Option<&Node> {
        match &self.value {
            Value::Seq(items) => items.get(index),
            _ => None,
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self.value, Value::Scalar { kind: Kind::Null, .. })
    }

    /// Number of values in it and how deep they nest.
    fn extent(&self) -> (usize, usize) {
        let fold = |(count, depth): (usize, usize), node: &Node| {
            let (c, d) = node.extent();
            (count + c, depth.max(d + 1))
        };
        match &self.value {
            Value::Scalar { .. } => (1, 1),
            Value::Seq(items) => items.iter().fold((1, 1), fold),
            Value::Map(entries) => entries.iter().map(|e| &e.value).fold((1, 1), fold),
        }
    }
}

/// Reads every document of a text. What is readable is returned even when something is wrong, so that later checks can
/// say more about it; a text that does not parse ends at the first mistake, as all after it is a guess.
pub(crate) fn parse(text: &str, source: usize) -> (Vec<Node>, Vec<Problem>) {
    let mut builder = Builder::new(text, source);
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let step = match event {
            Ok((event, span)) => builder.event(event, span.start, span.end),
            Err(e) => Err(builder.syntax(*e.marker(), e.info())),
        };
        if let Err(problem) = step {
            builder.problems.push(problem);
            break;
        }
    }
    (builder.documents, builder.problems)
}

enum Frame {
    Seq {
        start: usize,
        anchor: usize,
        items: Vec<Node>,
    },
    Map {
        start: usize,
        anchor: usize,
        entries: Vec<Entry>,
        seen: HashMap<String, Span>,
        key: Option<(String, Span)>,
    },
}

struct Builder<'a> {
    text: &'a str,
    source: usize,
    /// Byte offset of every character, when they differ.
    bytes: Option<Vec<usize>>,
    stack: Vec<Frame>,
    anchors: HashMap<usize, Node>,
    values: usize,
    documents: Vec<Node>,
    problems: Vec<Problem>,
}

impl<'a> Builder<'a> {
    fn new(text: &'a str, source: usize) -> Self {
        let bytes = (!text.is_ascii()).then(|| text.char_indices().map(|(i, _)| i).collect());
        Self {
            text,
            source,
            bytes,
            stack: Vec::new(),
            anchors: HashMap::new(),
            values: 0,
            documents: Vec::new(),
            problems: Vec::new(),
        }
    }

    fn offset(&self, marker: Marker) -> usize {
        match &self.bytes {
            Some(bytes) => bytes.get(marker.index()).copied().unwrap_or(self.text.len()),
            None => marker.index().min(self.text.len()),
        }
    }

    fn span(&self, start: usize, end: usize) -> Span {
        Span { source: self.source, start, end: end.max(start) }
    }

    fn syntax(&self, marker: Marker, info: &str) -> Problem {
        let at = self.offset(marker);
        if info.contains("recursion limit") {
            return self.too_deep(at);
        }
        let help = if info.contains("tab") {
            "YAML is indented with spaces, never with tabs."
        } else {
            "Look for a missing colon, quote or bracket here or just above, and at the indentation."
        };
        let message = format!("This is not valid YAML: {info}.");
        self.problem(self.span(at, at), &message, "is not valid YAML", help)
    }

    fn too_deep(&self, at: usize) -> Problem {
        let help = "No part of an inventory needs it.";
        self.problem(self.span(at, at), "This is nested too deeply.", "is nested too deeply", help)
    }

    fn problem(&self, span: Span, message: &str, unquoted: &'static str, help: &'static str) -> Problem {
        Problem { span, message: message.to_owned(), unquoted, help: Some(help), other: None }
    }

    fn event(&mut self, event: Event<'_>, start: Marker, end: Marker) -> Result<(), Problem> {
        let (start, end) = (self.offset(start), self.offset(end));
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let span = self.span(start, end);
                let kind = self.kind(&text, style, tag.as_deref(), span);
                let node = Node { span, value: Value::Scalar { kind, text: text.into_owned() } };
                self.add(node, anchor)
            }
            Event::SequenceStart(anchor, tag) => {
                self.container(tag.as_ref(), start)?;
                self.stack.push(Frame::Seq { start, anchor, items: Vec::new() });
                Ok(())
            }
            Event::MappingStart(anchor, tag) => {
                self.container(tag.as_ref(), start)?;
                self.stack.push(Frame::Map {
                    start,
                    anchor,
                    entries: Vec::new(),
                    seen: HashMap::new(),
                    key: None,
                });
                Ok(())
            }
            Event::SequenceEnd | Event::MappingEnd => match self.stack.pop() {
                Some(Frame::Seq { start, anchor, items }) => {
                    let node = Node { span: self.span(start, end), value: Value::Seq(items) };
                    self.add(node, anchor)
                }
                Some(Frame::Map { start, anchor, entries, .. }) => {
                    let span = self.span(start, end);
                    let entries = self.merge(entries);
                    self.add(Node { span, value: Value::Map(entries) }, anchor)
                }
                None => Ok(()),
            },
            Event::Alias(anchor) => {
                let span = self.span(start, end);
                let Some(node) = self.anchors.get(&anchor) else {
                    return Err(self.problem(
                        span,
                        "This alias stands inside the very value it names.",
                        "has an alias inside the value it names",
                        "Write the value out instead.",
                    ));
                };
                let (values, depth) = node.extent();
                if self.values + values > MAX_VALUES || self.stack.len() + depth > MAX_DEPTH {
                    return Err(self.problem(
                        span,
                        "With its aliases written out, this document is far too large.",
                        "makes the document far too large by an alias",
                        "Use fewer aliases.",
                    ));
                }
                self.values += values;
                let node = node.clone();
                self.add(node, 0)
            }
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => Ok(()),
        }
    }

    fn container(&mut self, tag: Option<&Cow<'_, Tag>>, start: usize) -> Result<(), Problem> {
        let span = self.span(start, start);
        if self.stack.len() >= MAX_DEPTH {
            return Err(self.too_deep(start));
        }
        if let Some(tag) = tag
            && !(tag.is_yaml_core_schema() && matches!(tag.suffix.as_str(), "map" | "seq"))
        {
            self.unknown_tag(tag, span);
        }
        Ok(())
    }

    fn unknown_tag(&mut self, tag: &Tag, span: Span) {
        let problem = Problem {
            span,
            message: format!("The YAML tag `{tag}` has no meaning here."),
            unquoted: "has a YAML tag, which has no meaning here",
            help: Some("Remove it."),
            other: None,
        };
        self.problems.push(problem);
    }

    fn kind(&mut self, text: &str, style: ScalarStyle, tag: Option<&Tag>, span: Span) -> Kind {
        if let Some(tag) = tag {
            if tag.is_yaml_core_schema() && tag.suffix == "str" {
                return Kind::Str;
            }
            if !(tag.is_yaml_core_schema()
                && matches!(tag.suffix.as_str(), "int" | "float" | "bool" | "null"))
            {
                self.unknown_tag(tag, span);
                return Kind::Str;
            }
        }
        if style == ScalarStyle::Plain { plain_kind(text) } else { Kind::Str }
    }

    fn add(&mut self, node: Node, anchor: usize) -> Result<(), Problem> {
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err(self.problem(
                node.span,
                "This document is far too large.",
                "is where the document becomes far too large",
                "Split it into several clusters.",
            ));
        }
        if anchor > 0 {
            self.values += node.extent().0;
            self.anchors.insert(anchor, node.clone());
        }
        match self.stack.last_mut() {
            None => self.documents.push(node),
            Some(Frame::Seq { items, .. }) => items.push(node),
            Some(Frame::Map { entries, seen, key, .. }) => match key.take() {
                Some((name, key_span)) => entries.push(Entry { key: name, key_span, value: node }),
                None => match node.value {
                    Value::Scalar { text, .. } => {
                        if let Some(first) = first_of(&text, entries, seen) {
                            self.problems.push(Problem {
                                span: node.span,
                                message: format!("The key `{text}` is given twice."),
                                unquoted: "repeats a key",
                                help: Some("Keep one of the two."),
                                other: Some((first, "first given here")),
                            });
                        }
                        *key = Some((text, node.span));
                    }
                    _ => {
                        let span = node.span;
                        return Err(self.problem(
                            span,
                            "A key must be plain text.",
                            "has a key that is not plain text",
                            "Write the key as a word.",
                        ));
                    }
                },
            },
        }
        Ok(())
    }

    /// Fills in what `<<` brings: keys of the named mappings that are not given here.
    fn merge(&mut self, entries: Vec<Entry>) -> Vec<Entry> {
        if !entries.iter().any(|e| e.key == "<<") {
            return entries;
        }
        let (merges, mut own): (Vec<_>, Vec<_>) = entries.into_iter().partition(|e| e.key == "<<");
        for merge in merges {
            let sources = match merge.value.value {
                Value::Seq(items) => items,
                value => vec![Node { span: merge.value.span, value }],
            };
            for source in sources {
                let Value::Map(brought) = source.value else {
                    let problem = self.problem(
                        merge.key_span,
                        "`<<` needs a mapping, or a list of mappings.",
                        "has a `<<` without a mapping",
                        "Name one by its anchor, as in `<<: *defaults`.",
                    );
                    self.problems.push(problem);
                    continue;
                };
                for entry in brought {
                    if !own.iter().any(|e| e.key == entry.key) {
                        own.push(entry);
                    }
                }
            }
        }
        own
    }
}

/// Where a key of a mapping was given before. Small mappings, which is nearly all, are searched; large ones are indexed, as
/// somebody may pin ten thousand nodes.
fn first_of(key: &str, entries: &[Entry], index: &mut HashMap<String, Span>) -> Option<Span> {
    const SMALL: usize = 16;
    if entries.len() < SMALL {
        return entries.iter().find(|e| e.key == key).map(|e| e.key_span);
    }
    let from = if index.is_empty() { 0 } else { entries.len() - 1 };
    for entry in entries.iter().skip(from) {
        index.entry(entry.key.clone()).or_insert(entry.key_span);
    }
    index.get(key).copied()
}

/// The core schema's reading of an unquoted scalar.
pub(crate) fn plain_kind(text: &str) -> Kind {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Kind::Null,
        "true" | "True" | "TRUE" | "false" | "False" | "FALSE" => Kind::Bool,
        ".nan" | ".NaN" | ".NAN" => Kind::Float,
        _ => number_kind(text).unwrap_or(Kind::Str),
    }
}

fn number_kind(text: &str) -> Option<Kind> {
    let all = |s: &str, ok: fn(&u8) -> bool| !s.is_empty() && s.as_bytes().iter().all(ok);
    if let Some(hex) = text.strip_prefix("0x") {
        return all(hex, u8::is_ascii_hexdigit).then_some(Kind::Int);
    }
    if let Some(octal) = text.strip_prefix("0o") {
        return all(octal, |b| matches!(b, b'0'..=b'7')).then_some(Kind::Int);
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if all(unsigned, u8::is_ascii_digit) {
        return Some(Kind::Int);
    }
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") {
        return Some(Kind::Float);
    }
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((m, e)) => (m, Some(e.strip_prefix(['+', '-']).unwrap_or(e))),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let exponent_ok = exponent.is_none_or(|e| all(e, u8::is_ascii_digit));
    (all(&digits, u8::is_ascii_digit) && exponent_ok).then_some(Kind::Float)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Node {
        let (documents, problems) = parse(text, 0);
        assert!(problems.is_empty(), "{problems:?}");
        documents.into_iter().next().expect("one document")
    }

    fn shown<'a>(text: &'a str, node: &Node) -> &'a str {
        &text[node.span.start..node.span.end]
    }

    #[test]
    fn values_know_their_bytes_even_after_wide_characters() {
        let text = "# größe: ü\nname: \"ä\"\nlist: [a, +10, 0x1F]\n";
        let root = one(text);
        assert_eq!(shown(text, &root.get("name").expect("name").value), "\"ä\"");
        let list = &root.get("list").expect("list").value;
        assert_eq!(shown(text, list.item(1).expect("item")), "+10");
        assert!(matches!(&list.item(2).expect("item").value, Value::Scalar { kind: Kind::Int, .. }));
    }

    #[test]
    fn core_schema_kinds() {
        for (text, kind) in [
            ("~", Kind::Null),
            ("true", Kind::Bool),
            ("yes", Kind::Str),
            ("010", Kind::Int),
            ("-3", Kind::Int),
            ("1.5", Kind::Float),
            ("1e3", Kind::Float),
            (".inf", Kind::Float),
            ("v1.2", Kind::Str),
            ("10.0.0.1", Kind::Str),
            ("e", Kind::Str),
            (".", Kind::Str),
        ] {
            assert_eq!(plain_kind(text), kind, "{text}");
        }
    }

    #[test]
    fn merge_brings_only_what_is_missing() {
        let root = one("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\n");
        let b = &root.get("b").expect("b").value;
        let text = |k: &str| match &b.get(k).expect("key").value.value {
            Value::Scalar { text, .. } => text.clone(),
            other => format!("{other:?}"),
        };
        assert_eq!((text("x"), text("y")), ("1".into(), "3".into()));
    }

    #[test]
    fn a_key_given_twice_is_found_in_mappings_of_any_size() {
        for size in [1, 2, 15, 16, 17, 18, 40] {
            for twice in 0..size {
                let text: String = (0..size).chain([twice]).map(|n| format!("k{n}: 1\n")).collect();
                let (_, problems) = parse(&text, 0);
                assert_eq!(problems.len(), 1, "{twice} of {size}");
                assert_eq!(
                    problems[0].other.map(|(s, _)| &text[s.start..s.end]),
                    Some(format!("k{twice}").as_str())
                );
            }
        }
    }

    #[test]
    fn a_bomb_of_aliases_is_refused() {
        let mut text = String::from("a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n");
        for n in 1..12 {
            let item = format!("*a{}", n - 1);
            text += &format!("a{n}: &a{n} [{}]\n", vec![item; 10].join(", "));
        }
        let (_, problems) = parse(&text, 0);
        assert_eq!(problems.len(), 1);
        assert!(problems[0].message.contains("far too large"));
    }

    #[test]
    fn deep_nesting_is_refused_not_overflowed() {
        let (_, problems) = parse(&"[".repeat(100_000), 0);
        assert!(problems[0].message.contains("nested"), "{problems:?}");
    }
}
