//! Where and how the metadata stand in each format.

use std::ops::Range;

use serde_json::{Map, Value as Json};

use crate::error::Error;
use crate::file::Format;
use crate::metadata::{self, Metadata};
use crate::render;
use crate::tree::{Document, Edits, METADATA, PREFIX, Tree};
use crate::value::Value;
use crate::yaml::column;

const MAP: &str = "__map_";
const LIST: &str = "__list_";

/// The metadata of a file, if it has any.
pub(crate) fn read(format: Format, tree: &Tree) -> Result<Option<Metadata>, Error> {
    let Some(root) = tree.documents.first().map(|document| &document.root) else { return Ok(None) };
    let raw = match format {
        Format::Dotenv => {
            let items = root.content.branch().map_or(&[][..], |branch| &branch.items);
            let flat = items.iter().filter_map(|item| {
                let key = item.key.as_deref()?.strip_prefix(PREFIX)?;
                Some((key, item.node.text()?))
            });
            unflatten(flat)
        }
        _ => root.get(METADATA).map(|item| metadata::to_json(&item.node)),
    };
    match raw {
        None => Ok(None),
        Some(Json::Object(raw)) => Metadata::of(raw).map(Some),
        Some(_) => Err(Error::Metadata { key: METADATA.to_owned(), why: "is not a mapping".to_owned() }),
    }
}

/// Writes the metadata at the end of a document.
pub(crate) fn insert(
    format: Format,
    text: &str,
    document: &Document,
    raw: &Map<String, Json>,
    edits: &mut Edits,
) {
    let root = &document.root;
    let branch = root.content.branch();
    let flow = branch.is_some_and(|branch| branch.flow);
    let newline = |end: usize| if end == 0 || text[..end].ends_with('\n') { "" } else { "\n" };
    match format {
        Format::Dotenv => {
            let mut flat = Vec::new();
            flatten(String::new(), &Json::Object(raw.clone()), &mut flat);
            flat.sort();
            let lines = flat.iter().map(|(key, value)| format!("{PREFIX}{key}={value}\n"));
            edits.replace(
                document.end..document.end,
                newline(document.end).to_owned() + &lines.collect::<String>(),
            );
        }
        Format::Yaml if !flow => {
            let mut out = newline(document.end).to_owned();
            out.push_str("sops:\n");
            yaml_map(raw, 4, &mut out);
            edits.replace(document.end..document.end, out);
        }
        _ => {
            let end = root.span.end.saturating_sub(1);
            let last = branch.and_then(|branch| branch.items.last());
            let before = text.get(..end).unwrap_or_default().trim_end();
            match last {
                // Behind the last value, as that is written.
                Some(item) if format != Format::Yaml => {
                    let lead = lead(text, item.start);
                    let unit = lead.rsplit('\n').next().unwrap_or_default();
                    let at = item.node.span.end;
                    let written = pretty(
                        &Json::Object(raw.clone()),
                        if lead.contains('\n') { Some(unit) } else { None },
                        1,
                    );
                    edits.replace(at..at, format!(",{lead}\"sops\": {written}"));
                }
                Some(_) => {
                    let comma = if before.ends_with(',') { "" } else { ", " };
                    let written = pretty(&Json::Object(raw.clone()), None, 0);
                    edits.replace(end..end, format!("{comma}\"sops\": {written}"));
                }
                None => {
                    let written = pretty(&Json::Object(raw.clone()), Some("\t"), 1);
                    edits.replace(root.span.clone(), format!("{{\n\t\"sops\": {written}\n}}"));
                }
            }
        }
    }
}

/// Takes the metadata out of a document.
pub(crate) fn remove(format: Format, text: &str, document: &Document, edits: &mut Edits) {
    let Some(branch) = document.root.content.branch() else { return };
    let items = &branch.items;
    for (index, item) in items.iter().enumerate() {
        let key = item.key.as_deref().unwrap_or_default();
        let next = items.get(index + 1);
        let span: Range<usize> = match format {
            Format::Dotenv if key.starts_with(PREFIX) => item.start..(item.node.span.end + 1).min(text.len()),
            Format::Dotenv => continue,
            _ if key != METADATA => continue,
            _ if branch.flow => match (index.checked_sub(1).and_then(|before| items.get(before)), next) {
                (Some(before), _) => before.node.span.end..item.node.span.end,
                (None, Some(next)) => item.start..next.start,
                (None, None) => item.start..item.node.span.end,
            },
            _ => {
                item.start - column(text, item.start)
                    ..next.map_or(document.end, |next| next.start - column(text, next.start))
            }
        };
        let alone = format == Format::Yaml && !branch.flow && items.len() == 1;
        edits.replace(span, if alone { "{}\n" } else { "" });
    }
}

/// What is written between the item before and this one.
fn lead(text: &str, start: usize) -> &str {
    let before = text.get(..start).unwrap_or_default();
    &before[before.trim_end().len()..]
}

/// JSON on lines with this unit of indentation, or on one line.
fn pretty(value: &Json, unit: Option<&str>, depth: usize) -> String {
    let Some(unit) = unit else { return value.to_string() };
    let line = |depth: usize| format!("\n{}", unit.repeat(depth));
    let (open, close, inner): (_, _, Vec<String>) = match value {
        Json::Object(map) if !map.is_empty() => {
            let pair = |(key, value): (&String, &Json)| {
                format!("{}: {}", Json::from(key.as_str()), pretty(value, Some(unit), depth + 1))
            };
            ('{', '}', map.iter().map(pair).collect())
        }
        Json::Array(list) if !list.is_empty() => {
            ('[', ']', list.iter().map(|value| pretty(value, Some(unit), depth + 1)).collect())
        }
        other => return other.to_string(),
    };
    let lead = line(depth + 1);
    format!("{open}{lead}{}{}{close}", inner.join(&format!(",{lead}")), line(depth))
}

fn yaml_map(map: &Map<String, Json>, indent: usize, out: &mut String) {
    for (key, value) in map {
        out.extend(std::iter::repeat_n(' ', indent));
        yaml_pair(key, value, indent, indent + 4, out);
    }
}

/// A key with its value; what goes below it is indented so far.
fn yaml_pair(key: &str, value: &Json, indent: usize, below: usize, out: &mut String) {
    out.push_str(&render::yaml(&Value::text(key), false));
    match value {
        Json::Object(map) if !map.is_empty() => {
            out.push_str(":\n");
            yaml_map(map, indent + 4, out);
        }
        Json::Array(list) if !list.is_empty() => {
            out.push_str(":\n");
            yaml_list(list, below, out);
        }
        Json::String(text) => {
            let value = Value::text(text);
            let written = match text.starts_with("ENC[") {
                true => text.clone(),
                false => render::lines(&value, below).unwrap_or_else(|| render::yaml(&value, false)),
            };
            out.push_str(&format!(": {written}\n"));
        }
        other => out.push_str(&format!(": {other}\n")),
    }
}

fn yaml_list(list: &[Json], indent: usize, out: &mut String) {
    for value in list {
        out.extend(std::iter::repeat_n(' ', indent));
        out.push_str("- ");
        match value {
            Json::Object(map) if !map.is_empty() => {
                for (number, (key, value)) in map.iter().enumerate() {
                    if number > 0 {
                        out.extend(std::iter::repeat_n(' ', indent + 2));
                    }
                    yaml_pair(key, value, indent + 2, indent + 4, out);
                }
            }
            Json::String(text) => out.push_str(&format!("{}\n", render::yaml(&Value::text(text), false))),
            other => out.push_str(&format!("{other}\n")),
        }
    }
}

fn flatten(prefix: String, value: &Json, out: &mut Vec<(String, String)>) {
    match value {
        Json::Object(map) => {
            for (key, value) in map {
                let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}{MAP}{key}") };
                flatten(name, value, out);
            }
        }
        Json::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                flatten(format!("{prefix}{LIST}{index}"), value, out);
            }
        }
        Json::Null => {}
        Json::String(text) => out.push((prefix, text.replace('\n', "\\n"))),
        other => out.push((prefix, other.to_string())),
    }
}

/// More elements than this are in no list of metadata.
const MOST: usize = 10_000;

fn unflatten<'a>(flat: impl Iterator<Item = (&'a str, &'a str)>) -> Option<Json> {
    let mut root = Json::Null;
    for (name, text) in flat {
        let mut at = &mut root;
        let mut rest = format!("{MAP}{name}");
        while !rest.is_empty() {
            let (list, body) = match rest.strip_prefix(LIST) {
                Some(body) => (true, body),
                None => (false, rest.strip_prefix(MAP).unwrap_or(&rest)),
            };
            let end = [body.find(MAP), body.find(LIST)].into_iter().flatten().min().unwrap_or(body.len());
            let (step, after) = body.split_at(end);
            at = if list {
                let index: usize = step.parse().ok().filter(|index| *index < MOST)?;
                if !at.is_array() {
                    *at = Json::Array(Vec::new());
                }
                let items = at.as_array_mut()?;
                if items.len() <= index {
                    items.resize(index + 1, Json::Null);
                }
                &mut items[index]
            } else {
                if !at.is_object() {
                    *at = Json::Object(Map::new());
                }
                at.as_object_mut()?.entry(step).or_insert(Json::Null)
            };
            rest = after.to_owned();
        }
        *at = match (name, text) {
            ("mac_only_encrypted", text) => Json::Bool(text == "true"),
            ("shamir_threshold", text) => serde_json::from_str(text).unwrap_or_else(|_| Json::from(text)),
            _ => Json::from(text),
        };
    }
    root.is_object().then_some(root)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_in_lines_read_back() {
        let raw = serde_json::json!({
            "age": [{"recipient": "age1x", "enc": "a\nb\n"}, {"recipient": "age1y", "enc": "c"}],
            "key_groups": [{"age": [{"enc": "d"}]}],
            "mac_only_encrypted": true,
            "shamir_threshold": 2,
            "version": "3.11.0",
        });
        let mut flat = Vec::new();
        flatten(String::new(), &raw, &mut flat);
        assert!(flat.contains(&("age__list_1__map_recipient".to_owned(), "age1y".to_owned())), "{flat:?}");
        let read: Vec<_> = flat.iter().map(|(key, text)| (key.clone(), text.replace("\\n", "\n"))).collect();
        let back = unflatten(read.iter().map(|(key, text)| (key.as_str(), text.as_str()))).unwrap();
        assert_eq!(back, raw);
        assert_eq!(unflatten([("age__list_99999999", "x")].into_iter()), None);
    }
}
