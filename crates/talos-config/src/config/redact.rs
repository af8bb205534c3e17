//! What of a config people may see: the same documents, with marks in the place of secrets.
//!
//! The table of fields says what is secret. What it does not know is hidden; in free forms, arguments and maps the names tell;
//! and in what is left, users and queries of URLs, private keys and whatever is assigned to a telling name are hidden too.

mod given;
mod quoted;
#[cfg(test)]
mod tests;
mod words;

use std::collections::HashSet;

use base64::{Engine, engine::general_purpose::STANDARD};
use sha2::{Digest, Sha256};
use yaml_serde::Value;

use super::compare::{hex, scalar};
use super::schema::{self, Field, Shape, Sight};
use crate::secret::Secret;

/// Makes the marks that stand for secrets: the same for the same text, and telling nothing else.
#[derive(Debug)]
pub struct Marks<'a> {
    key: &'a Secret,
    given: Vec<Secret>,
}

impl<'a> Marks<'a> {
    /// Marks made with a key, which keeps short secrets from being guessed by trying.
    pub fn new(key: &'a Secret) -> Self {
        Self { key, given: Vec::new() }
    }

    /// Hides these texts too, wherever they stand, and what stands in the same place of the other config.
    #[must_use]
    pub fn hiding<'t>(mut self, texts: impl IntoIterator<Item = &'t str>) -> Self {
        self.given.extend(texts.into_iter().flat_map(given::forms));
        self
    }

    fn mark(&self, what: &str, text: &str) -> String {
        let mut hash = Sha256::new();
        hash.update(self.key.expose().as_bytes());
        hash.update([0]);
        hash.update(text.as_bytes());
        format!("[{what} {}]", &hex(&hash.finalize())[..8])
    }

    fn secret(&self, text: &str) -> String {
        self.mark("secret", text)
    }

    /// A key of a map, or the name of a document.
    pub(super) fn name(&self, text: &str) -> String {
        match given::stands_in(&self.given, text) {
            true => self.secret(text),
            false => words::masked(text, &|secret| self.secret(secret)),
        }
    }
}

/// How a value is looked at, which comes from where it stands.
#[derive(Clone, Copy)]
enum View {
    /// As the table says.
    Table(&'static Field),
    /// Below a field of free form, where names tell.
    Free,
    /// Below a telling name in a free form: only what else has a name is shown by it.
    Telling,
    /// Variables, headers or data: by name, as pairs of `name` and `value`, or as `NAME=value`.
    Carrier,
    /// An element of those.
    Assigned,
    Hidden,
    Plain,
}

impl View {
    fn of(field: &'static Field) -> Self {
        match (field.sight, field.shape) {
            (Sight::Secret, _) => Self::Hidden,
            (Sight::Assigned, _) => Self::Assigned,
            (Sight::Plain, _) => Self::Plain,
            (Sight::Usual, Shape::Free | Shape::Arguments) => Self::Free,
            (Sight::Usual, _) => Self::Table(field),
        }
    }

    /// How the value of a key is looked at.
    fn of_key(self, key: &str) -> Self {
        match self {
            Self::Table(field) => match field.shape {
                Shape::Pem | Shape::PemKey if key == "crt" => Self::Free,
                Shape::Object => field.child(key).map_or(Self::Hidden, Self::of),
                Shape::Map => match field.child(key) {
                    // The key is the user's own word, which may tell what the table cannot know.
                    Some(below) if below.shape == Shape::Text && below.sight == Sight::Usual => {
                        if words::tells(key) {
                            Self::Hidden
                        } else {
                            Self::of(below)
                        }
                    }
                    below => below.map_or(Self::Hidden, Self::of),
                },
                _ => Self::Hidden,
            },
            Self::Free if words::carries(key) => Self::Carrier,
            Self::Free if words::tells(key) => Self::Telling,
            Self::Free => Self::Free,
            Self::Telling | Self::Assigned => match key {
                "name" | "namespace" | "secretName" => Self::Plain,
                "valueFrom" => Self::Free,
                _ => Self::Hidden,
            },
            Self::Carrier | Self::Hidden => Self::Hidden,
            Self::Plain => Self::Plain,
        }
    }

    /// How an element of a list is looked at.
    fn of_element(self) -> Self {
        match self {
            Self::Table(field) if field.shape == Shape::List => {
                field.child("[]").map_or(Self::Hidden, Self::of)
            }
            Self::Table(_) => Self::Hidden,
            Self::Carrier => Self::Assigned,
            other => other,
        }
    }
}

/// Where a value stands: the kind of its document, and the path with `[]` for every index.
type Place = (String, Vec<String>);

/// Redacts the documents of configs that are compared with each other.
pub(super) struct Redaction<'a> {
    marks: &'a Marks<'a>,
    /// Where texts stand, in any of the configs, that were given to be hidden.
    hidden: HashSet<Place>,
}

impl<'a> Redaction<'a> {
    pub(super) fn new<'d>(
        marks: &'a Marks<'a>,
        documents: impl Iterator<Item = (&'d str, &'d Value)>,
    ) -> Self {
        let mut redaction = Self { marks, hidden: HashSet::new() };
        if !marks.given.is_empty() {
            for (kind, document) in documents {
                redaction.find_given(&mut (kind.to_owned(), Vec::new()), document);
            }
        }
        redaction
    }

    fn find_given(&mut self, place: &mut Place, value: &Value) {
        match value {
            Value::Mapping(fields) => {
                for (key, value) in fields {
                    place.1.push(scalar(key));
                    self.find_given(place, value);
                    place.1.pop();
                }
            }
            Value::Sequence(items) => {
                place.1.push("[]".to_owned());
                for item in items {
                    self.find_given(place, item);
                }
                place.1.pop();
            }
            Value::Tagged(tagged) => self.find_given(place, &tagged.value),
            leaf if given::stands_in(&self.marks.given, &scalar(leaf)) => {
                self.hidden.insert(place.clone());
            }
            _ => {}
        }
    }

    /// A document as it may be shown: the same fields and elements, with marks for secrets.
    pub(super) fn document(&self, kind: &str, document: &Value) -> Value {
        let root = schema::of_kind(kind).map_or(View::Hidden, View::Table);
        let Value::Mapping(fields) = document else {
            return self.value(&mut (kind.to_owned(), Vec::new()), document, root);
        };
        let of_field = |(key, value): (&Value, &Value)| {
            let name = scalar(key);
            let identity = !kind.is_empty() && ["apiVersion", "kind", "name"].contains(&name.as_str());
            let view = if identity { View::Free } else { root.of_key(&name) };
            (key.clone(), self.value(&mut (kind.to_owned(), vec![name]), value, view))
        };
        Value::Mapping(fields.iter().map(of_field).collect())
    }

    fn value(&self, place: &mut Place, value: &Value, view: View) -> Value {
        match value {
            Value::Mapping(fields) => {
                let mut shown = yaml_serde::Mapping::new();
                for (key, value) in fields {
                    let name = scalar(key);
                    let view = view.of_key(&name);
                    place.1.push(name);
                    shown.insert(key.clone(), self.value(place, value, view));
                    place.1.pop();
                }
                Value::Mapping(shown)
            }
            Value::Sequence(items) => {
                place.1.push("[]".to_owned());
                let mut shown = Vec::with_capacity(items.len());
                let mut follows_flag = false;
                for item in items {
                    let view = if follows_flag { View::Hidden } else { view.of_element() };
                    shown.push(self.value(place, item, view));
                    follows_flag = item.as_str().is_some_and(words::is_telling_flag);
                }
                place.1.pop();
                Value::Sequence(shown)
            }
            Value::Tagged(tagged) => self.value(place, &tagged.value, view),
            // Whether something is there, or on, is no secret.
            Value::Null | Value::Bool(_) if !self.hidden.contains(place) => value.clone(),
            Value::Number(_) if self.is_shown(place, view) => value.clone(),
            leaf => Value::String(self.text(place, &scalar(leaf), view)),
        }
    }

    fn is_shown(&self, place: &Place, view: View) -> bool {
        !self.hidden.contains(place) && matches!(view, View::Table(_) | View::Free | View::Plain)
    }

    fn text(&self, place: &Place, text: &str, view: View) -> String {
        if self.hidden.contains(place) {
            return self.marks.secret(text);
        }
        if let (View::Assigned, Some((name, value))) = (view, text.split_once('=')) {
            return format!("{name}={}", self.marks.secret(value));
        }
        if !self.is_shown(place, view) {
            return self.marks.secret(text);
        }
        let decoded = STANDARD.decode(text).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let says =
            |words: &str| text.contains(words) || decoded.as_ref().is_some_and(|text| text.contains(words));
        if says("PRIVATE KEY") {
            return self.marks.secret(text);
        }
        if says("BEGIN CERTIFICATE") {
            return self.marks.mark("certificate", text);
        }
        match view {
            View::Plain => text.to_owned(),
            // Something else stands where the table has fields or a list.
            View::Table(field) if is_branch(field) => self.marks.secret(text),
            // A whole file in a free form may hold anything.
            View::Free if text.contains('\n') => self.marks.secret(text),
            _ => words::masked(text, &|secret| self.marks.secret(secret)),
        }
    }
}

fn is_branch(field: &Field) -> bool {
    matches!(field.shape, Shape::Object | Shape::List | Shape::Map | Shape::Pem | Shape::PemKey)
}
