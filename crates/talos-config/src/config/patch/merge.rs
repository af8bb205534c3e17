//! How the value of a patch meets the one that is there.

use yaml_serde::{Mapping, Value};

use super::fault;
use crate::{
    Result,
    config::schema::{self, Field, Rule, Shape},
};

/// Merges a document into another of the same identity.
pub(super) fn document(left: &mut Value, right: &Value, kind: &str, is_split: bool) -> Result<()> {
    let mut merge = Merge { is_split, path: Vec::new() };
    merge.values(left, right, schema::of_kind(kind))
}

struct Merge {
    /// Whether Kubernetes is in documents of its own.
    is_split: bool,
    path: Vec<String>,
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
        _ => false,
    }
}

/// `0s`, `0h0m0s` and the like.
fn is_zero_duration(value: &Value) -> bool {
    match value {
        Value::String(text) => !text.bytes().any(|byte| (b'1'..=b'9').contains(&byte)),
        other => is_zero(other),
    }
}

/// Whether two scalars of free form are of one type.
fn same_type(left: &Value, right: &Value) -> bool {
    let integer = |value: &Value| value.is_i64() || value.is_u64();
    match (left, right) {
        (Value::Number(_), Value::Number(_)) => integer(left) == integer(right),
        _ => std::mem::discriminant(left) == std::mem::discriminant(right),
    }
}

impl Merge {
    fn values(&mut self, left: &mut Value, right: &Value, field: Option<&Field>) -> Result<()> {
        if right.is_null() {
            return Ok(());
        }
        let rule = field.map_or(Rule::Usual, |field| field.rule);
        let shape = field.map_or(Shape::Free, |field| field.shape);
        let replaced = rule == Rule::Replace || (rule == Rule::ReplaceIfSplit && self.is_split);
        let says_nothing = shape == Shape::Free && right.as_mapping().is_some_and(Mapping::is_empty);
        if replaced && says_nothing {
            return Ok(());
        }
        if left.is_null() || replaced {
            *left = right.clone();
            return Ok(());
        }
        if matches!(shape, Shape::Pem | Shape::PemKey) {
            *left = pem(right);
            return Ok(());
        }
        match (&mut *left, right) {
            (Value::Mapping(left), Value::Mapping(right)) => self.maps(left, right, field),
            (Value::Sequence(left), Value::Sequence(right)) => self.lists(left, right, field),
            (Value::Mapping(_) | Value::Sequence(_), _) | (_, Value::Mapping(_) | Value::Sequence(_)) => {
                Err(self.another_type())
            }
            (left, right) if shape == Shape::Free && !same_type(left, right) => Err(self.another_type()),
            (Value::String(left), Value::String(right)) if shape == Shape::Url => {
                *left = url(left, right);
                Ok(())
            }
            (left, right) => {
                let ignored = match (rule, shape) {
                    (Rule::TakeZero, _) => false,
                    (Rule::ZeroIs(zero), _) => right.as_str() == Some(zero),
                    (_, Shape::Duration) => is_zero_duration(right),
                    _ => is_zero(right),
                };
                if !ignored {
                    *left = right.clone();
                }
                Ok(())
            }
        }
    }

    fn another_type(&self) -> crate::Error {
        fault(&format!("`{}` is of another type in the config", super::shown(&self.path)))
    }

    fn maps(&mut self, left: &mut Mapping, right: &Mapping, field: Option<&Field>) -> Result<()> {
        let shape = field.map_or(Shape::Free, |field| field.shape);
        for (key, value) in right {
            let name = key.as_str().unwrap_or_default();
            let below = match shape {
                Shape::Free => None,
                _ => field.and_then(|field| field.child(name)),
            };
            match left.get_mut(key) {
                // What is said of a key without a value stays as it is.
                Some(_) if value.is_null() => {}
                Some(existing) if shape != Shape::Arguments => {
                    self.path.push(name.to_owned());
                    self.values(existing, value, below)?;
                    self.path.pop();
                }
                // A field that is not said is not there, but an entry without a value is one.
                None if value.is_null() && shape == Shape::Object => {}
                None if value.is_null() && shape != Shape::Free => {
                    left.insert(key.clone(), nothing(below));
                }
                None if below.is_some_and(|below| below.rule.is_keyed()) => {
                    // Elements of one key become one even where there was nothing before.
                    let mut list = Value::Sequence(Vec::new());
                    self.values(&mut list, value, below)?;
                    left.insert(key.clone(), list);
                }
                _ => {
                    left.insert(key.clone(), value.clone());
                }
            }
        }
        if let Some(field) = field.filter(|field| field.shape == Shape::Object && field.unsets) {
            unset(left, right, field);
        }
        Ok(())
    }

    fn lists(&mut self, left: &mut Vec<Value>, right: &[Value], field: Option<&Field>) -> Result<()> {
        let rule = field.map_or(Rule::Usual, |field| field.rule);
        let element = field.filter(|field| field.shape == Shape::List).and_then(|field| field.child("[]"));
        let before = left.len();
        for item in right {
            let text = |value: &Value, key: &str| value.get(key).filter(|value| !is_zero(value)).cloned();
            let same = |existing: &&mut Value| match rule {
                Rule::MergeByKey(key) => text(existing, key) == text(item, key),
                Rule::MergeInterfaces => match text(item, "interface") {
                    Some(name) => existing.get("interface") == Some(&name),
                    None => item
                        .get("deviceSelector")
                        .is_some_and(|selector| existing.get("deviceSelector") == Some(selector)),
                },
                _ => false,
            };
            if let Rule::ReplaceByKey(key) = rule {
                // Only what was there before is replaced, the last of equals.
                let place = left[..before].iter().rposition(|there| text(there, key) == text(item, key));
                match place {
                    Some(place) => left[place] = item.clone(),
                    None => left.push(item.clone()),
                }
                continue;
            }
            match left.iter_mut().find(same) {
                Some(existing) => {
                    self.path.push("[]".into());
                    self.values(existing, item, element)?;
                    self.path.pop();
                }
                None => left.push(item.clone()),
            }
        }
        Ok(())
    }
}

/// What Talos reads where an entry has no value.
fn nothing(entry: Option<&Field>) -> Value {
    match entry {
        Some(entry) if entry.shape != Shape::Text => Value::Null,
        _ => Value::String(String::new()),
    }
}

/// Takes away what the right side leaves out, where leaving out means unsetting.
fn unset(left: &mut Mapping, right: &Mapping, field: &Field) {
    let nothing = Mapping::new();
    for (key, below) in field.children().filter(|(_, below)| below.unsets) {
        let said = right.get(key).filter(|value| !value.is_null());
        if below.rule == Rule::TakeAbsent {
            if said.is_none_or(is_zero) {
                left.shift_remove(key);
            }
        } else if said.is_none()
            && below.shape == Shape::Object
            && !below.is_optional
            && let Some(Value::Mapping(inner)) = left.get_mut(key)
        {
            unset(inner, &nothing, below);
        }
    }
}

/// A certificate and key are one value: the part that is not said is empty.
fn pem(right: &Value) -> Value {
    let mut pair = right.clone();
    if let Value::Mapping(fields) = &mut pair {
        for part in ["crt", "key"] {
            if fields.get(part).is_some_and(Value::is_null) {
                fields.shift_remove(part);
            }
        }
    }
    pair
}

/// Talos merges addresses part by part: scheme, host, path, query and fragment that are not said stay.
fn url(left: &str, right: &str) -> String {
    if right.is_empty() {
        return left.to_owned();
    }
    // `host:port` is taken for a scheme with something behind it, beside which nothing else counts.
    if crate::config::url::Url::parse(right).is_ok_and(|url| url.is_opaque) {
        return right.to_owned();
    }
    let (left, right) = (Url::of(left), Url::of(right));
    let part = |right: &'_ str, left: &'_ str| -> String {
        if right.is_empty() { left.to_owned() } else { right.to_owned() }
    };
    let mut text = String::new();
    let scheme = part(right.scheme, left.scheme);
    if !scheme.is_empty() {
        text += &format!("{scheme}://");
    }
    text += &part(right.authority, left.authority);
    text += &part(right.path, left.path);
    for (mark, value) in [('?', part(right.query, left.query)), ('#', part(right.fragment, left.fragment))] {
        if !value.is_empty() {
            text.push(mark);
            text += &value;
        }
    }
    text
}

struct Url<'a> {
    scheme: &'a str,
    authority: &'a str,
    path: &'a str,
    query: &'a str,
    fragment: &'a str,
}

impl<'a> Url<'a> {
    fn of(text: &'a str) -> Self {
        let (text, fragment) = text.split_once('#').unwrap_or((text, ""));
        let (text, query) = text.split_once('?').unwrap_or((text, ""));
        let scheme = text.split_once("://").filter(|(scheme, _)| !scheme.contains('/'));
        let (scheme, rest) = scheme.unwrap_or(("", text));
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None if scheme.is_empty() => ("", rest),
            None => (rest, ""),
        };
        Self { scheme, authority, path, query, fragment }
    }
}
