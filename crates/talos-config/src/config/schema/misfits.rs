//! What does not fit the shape of a document: keys, kinds of values, entries that say nothing.

use std::borrow::Cow;

use yaml_serde::Value;

use super::{Field, Shape, all_kinds, of_kind, scalar};

/// What is wrong with the shape of a document: no node can read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// What it is that does not fit.
    pub part: Part,
    /// Dotted path; the kind of a document that is not known.
    pub path: String,
    /// What is wrong, as a sentence without its subject.
    pub message: String,
}

impl Misfit {
    fn new(part: Part, path: &str, message: impl Into<String>) -> Self {
        Self { part, path: path.to_owned(), message: message.into() }
    }
}

/// A part of a document that may not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Its kind, or the version of that.
    Kind,
    /// A key.
    Key,
    /// A value.
    Value,
}

/// What every version that there is knows together.
pub(crate) const ANY_VERSION: u32 = u32::MAX;

/// The version of every kind of document.
const API_VERSION: &str = "v1alpha1";

/// Every key that Talos 1.`minor` does not know and every value of the wrong shape in a document.
pub(crate) fn misfits(document: &Value, kind: &str, minor: u32) -> Vec<Misfit> {
    let mut found = Vec::new();
    if !kind.is_empty() && document.get("apiVersion").and_then(Value::as_str) != Some(API_VERSION) {
        let message = format!("must be `{API_VERSION}`: Talos knows no other");
        found.push(Misfit::new(Part::Kind, "apiVersion", message));
    }
    match of_kind(kind) {
        Some(field) if !kind.is_empty() && field.since > minor => {
            let message = format!("is a kind of document that {}", began(field, minor));
            found.push(Misfit::new(Part::Kind, kind, message));
        }
        Some(field) => look(document, field, minor, &mut String::new(), !kind.is_empty(), &mut found),
        None => {
            let known: Vec<&str> =
                all_kinds().map(|(kind, _)| kind).filter(|kind| !kind.is_empty()).collect();
            let message = format!("is not a known kind of document{}", meant(kind, known.into_iter()));
            found.push(Misfit::new(Part::Kind, kind, message));
        }
    }
    found
}

fn began(field: &Field, minor: u32) -> String {
    format!("Talos v1.{minor} does not know; it came with v1.{}", field.since)
}

fn look(
    value: &Value,
    field: &Field,
    minor: u32,
    path: &mut String,
    is_document: bool,
    found: &mut Vec<Misfit>,
) {
    let mut wrong = |message: &str, path: &str| {
        found.push(Misfit::new(Part::Value, path, message));
    };
    match (field.shape, value) {
        (_, Value::Null) | (Shape::Free, Value::Mapping(_)) => {}
        (Shape::Pem | Shape::PemKey, Value::Mapping(fields)) => {
            let known: &[&str] = if field.shape == Shape::Pem { &["crt", "key"] } else { &["key"] };
            for (key, value) in fields {
                let key = spelled(key);
                within(path, &key, |path| look_at_pem(&key, value, known, path, found));
            }
        }
        (Shape::Object, Value::Mapping(fields)) => {
            for (key, child) in fields {
                let key = spelled(key);
                if is_document && matches!(key.as_ref(), "apiVersion" | "kind") {
                    continue;
                }
                within(path, &key, |path| look_at_key(&key, child, field, minor, path, found));
            }
        }
        (Shape::List, Value::Sequence(items)) => {
            for (index, item) in items.iter().enumerate() {
                if let Some(below) = field.child("[]") {
                    within(path, &format!("[{index}]"), |path| look(item, below, minor, path, false, found));
                }
            }
        }
        (Shape::Map | Shape::Arguments, Value::Mapping(entries)) => {
            for (key, child) in entries {
                within(path, &spelled(key), |path| {
                    if !is_name(key) {
                        found.push(Misfit::new(Part::Value, path, NO_NAME));
                    }
                    look_at_entry(child, field, minor, path, found);
                });
            }
        }
        (Shape::List, _) => wrong("must be a list", path),
        (Shape::Pem | Shape::PemKey | Shape::Object | Shape::Map | Shape::Arguments | Shape::Free, _) => {
            wrong("must hold keys", path);
        }
        (_, Value::Mapping(_) | Value::Sequence(_)) => wrong("must be a single value", path),
        (shape, _) => {
            if let Some(message) = scalar::fault(shape, field.format, value, minor) {
                wrong(&message, path);
            }
        }
    }
}

/// Looks one step further down.
fn within(path: &mut String, step: &str, look: impl FnOnce(&mut String)) {
    let before = path.len();
    push(path, step);
    look(path);
    path.truncate(before);
}

fn look_at_pem(key: &str, value: &Value, known: &[&str], path: &str, found: &mut Vec<Misfit>) {
    if known.contains(&key) {
        let message = scalar::pem_fault(value);
        found.extend(message.map(|message| Misfit::new(Part::Value, path, message)));
    } else {
        let message = format!("is not a known key{}", meant(key, known.iter().copied()));
        found.push(Misfit::new(Part::Key, path, message));
    }
}

fn look_at_key(
    key: &str,
    child: &Value,
    field: &Field,
    minor: u32,
    path: &mut String,
    found: &mut Vec<Misfit>,
) {
    let message = match field.child(key) {
        None if key == "$patch" => "can only be `delete`, and only in a patch".to_owned(),
        Some(below) if below.since > minor => format!("is a key that {}", began(below, minor)),
        Some(below) => return look(child, below, minor, path, false, found),
        None => {
            let known = field.children().map(|(key, _)| key);
            format!("is not a known key{}", meant(key, known))
        }
    };
    found.push(Misfit::new(Part::Key, path, message));
}

fn look_at_entry(child: &Value, field: &Field, minor: u32, path: &mut String, found: &mut Vec<Misfit>) {
    if field.shape == Shape::Arguments {
        if !is_argument(child, minor) {
            let list = if minor >= 14 { ", or a list of them" } else { "" };
            found.push(Misfit::new(Part::Value, path, format!("must be a single value{list}")));
        }
    } else if let Some(below) = field.child("*") {
        look(child, below, minor, path, false, found);
    }
}

/// Every entry of a list or map that is nothing where something has to be: Talos refuses it, or breaks at it.
pub(crate) fn empties(document: &Value, kind: &str) -> Vec<Misfit> {
    let mut found = Vec::new();
    if let Some(field) = of_kind(kind) {
        look_for_empties(document, field, &mut String::new(), &mut found);
    }
    found
}

fn look_for_empties(value: &Value, field: &Field, path: &mut String, found: &mut Vec<Misfit>) {
    let entries: Vec<(String, &Value)> = match value {
        Value::Mapping(fields) => {
            fields.iter().filter_map(|(key, value)| Some((key.as_str()?.to_owned(), value))).collect()
        }
        Value::Sequence(items) => {
            items.iter().enumerate().map(|(index, item)| (format!("[{index}]"), item)).collect()
        }
        _ => return,
    };
    for (key, value) in entries {
        let Some(below) = field.child(&key) else { continue };
        let before = path.len();
        push(path, &key);
        if value.is_null() && below.is_optional && matches!(field.shape, Shape::List | Shape::Map) {
            found.push(Misfit::new(Part::Value, path, "says nothing: fill it in, or take it out"));
        }
        look_for_empties(value, below, path, found);
        path.truncate(before);
    }
}

/// A value, or several from v1.14 on: those of v1.13 know lists, but cannot read them.
fn is_argument(argument: &Value, minor: u32) -> bool {
    let is_single = |value: &Value| !value.is_mapping() && !value.is_sequence();
    match argument {
        Value::Sequence(list) => minor >= 14 && list.iter().all(is_single),
        value => is_single(value),
    }
}

/// Of an entry whose name is a list or holds keys.
const NO_NAME: &str = "is no name for an entry";

fn is_name(key: &Value) -> bool {
    !key.is_mapping() && !key.is_sequence()
}

/// A key as it can be shown; one that is no text is none that Talos knows.
fn spelled(key: &Value) -> Cow<'_, str> {
    match key {
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(yaml_serde::to_string(other).unwrap_or_default().trim().to_owned()),
    }
}

fn push(path: &mut String, key: &str) {
    if !path.is_empty() && !key.starts_with('[') {
        path.push('.');
    }
    path.push_str(key);
}

/// `; did you mean …` if something is near.
pub(crate) fn meant<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> String {
    let nearest = known.map(|candidate| (distance(word, candidate), candidate)).min();
    match nearest {
        Some((distance, candidate)) if distance <= 1 + word.len() / 4 => {
            format!("; did you mean `{candidate}`?")
        }
        _ => String::new(),
    }
}

/// Edits from one word to the other, case aside.
pub(super) fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.to_ascii_lowercase(), b.to_ascii_lowercase());
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.chars().enumerate() {
            let change = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}
