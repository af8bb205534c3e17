//! What a server-side apply of an object would change, without asking the server.
//!
//! Compared is what the object says: fields that it leaves to others or to defaults make no difference, and neither does another
//! way to write the same. A field that was applied before and is no longer said is a change, too. Where this finds a change that there is none,
//! because a server knows more, a dry run finds out.

mod keys;
mod owned;
mod quantity;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use sha2::Digest as _;

use crate::inputs::Seed;
use crate::kinds;
use crate::marks::DIGEST;

/// A field that differs. Texts are for people: what is in a Secret is replaced by marks, which tell only whether two are the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldChange {
    /// Its path, such as `spec.template.spec.containers[agent].image`.
    pub path: String,
    /// What it is; none if it is not there.
    pub from: Option<String>,
    /// What it will be; none if it goes.
    pub to: Option<String>,
}

/// The fields that would change if this object were applied over that one. The same seed gives the same marks.
pub fn differences(want: &Value, live: &Value, seed: &Seed) -> Vec<FieldChange> {
    let api_version = want["apiVersion"].as_str().unwrap_or_default();
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let mut compared = Compared {
        kind: want["kind"].as_str().unwrap_or_default(),
        own: kinds::is_own_group(group),
        aggregated: !want["aggregationRule"].is_null(),
        is_secret: group.is_empty() && want["kind"] == "Secret",
        seed,
        path: Vec::new(),
        changes: Vec::new(),
    };
    compared.value(want, Some(live));
    owned::removed(want, live, &mut compared);
    compared.changes
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    /// An element by its keys, as they are shown.
    Element(String),
    Index(usize),
}

struct Compared<'a> {
    kind: &'a str,
    /// Whether the kind is Kubernetes' own, whose fields have known types.
    own: bool,
    aggregated: bool,
    is_secret: bool,
    seed: &'a Seed,
    path: Vec<Step>,
    changes: Vec<FieldChange>,
}

impl Compared<'_> {
    fn value(&mut self, want: &Value, live: Option<&Value>) {
        let live = live.filter(|live| !live.is_null());
        match (want, live) {
            (Value::Null, _) => {}
            _ if self.is_ignored(want) => {}
            (Value::Object(want), Some(Value::Object(live))) => self.map(want, live),
            (Value::Array(items), Some(Value::Array(found))) => self.list(want, items, found),
            (_, Some(live)) => {
                if !self.same(want, live) {
                    self.changed(Some(live), Some(want));
                }
            }
            (_, None) => {
                if !self.says_nothing(want) {
                    self.changed(None, Some(want));
                }
            }
        }
    }

    fn map(&mut self, want: &Map<String, Value>, live: &Map<String, Value>) {
        for (key, value) in want {
            self.path.push(Step::Field(key.clone()));
            self.value(value, live.get(key));
            self.path.pop();
        }
    }

    fn list(&mut self, want: &Value, items: &[Value], found: &[Value]) {
        let Some(keys) = self.own.then(|| keys::of(self.kind, self.fields().as_slice(), items)).flatten()
        else {
            return self.atomic(want, items, found);
        };
        for item in items {
            let name = keys::shown(item, keys);
            let other = found.iter().find(|other| keys::same(item, other, keys));
            self.path.push(Step::Element(name));
            self.value(item, other);
            self.path.pop();
        }
        // A server puts elements into the order of who applies them.
        let are_here =
            |among: &[Value], item: &&Value| among.iter().any(|other| keys::same(item, other, keys));
        let wanted: Vec<&Value> = items.iter().filter(|item| are_here(found, item)).collect();
        let there: Vec<&Value> = found.iter().filter(|item| are_here(items, item)).collect();
        if wanted.iter().zip(&there).any(|(a, b)| !keys::same(a, b, keys)) {
            let names = |items: &[&Value]| {
                let names: Vec<String> = items.iter().map(|item| keys::shown(item, keys)).collect();
                Some(names.join(", "))
            };
            let path = shown_path(&self.path);
            self.changes.push(FieldChange { path, from: names(&there), to: names(&wanted) });
        }
    }

    /// A list that belongs to one manager as a whole.
    fn atomic(&mut self, want: &Value, items: &[Value], found: &[Value]) {
        if items.len() != found.len() {
            let found = Value::Array(found.to_vec());
            return self.changed(Some(&found), Some(want));
        }
        for (index, (item, other)) in items.iter().zip(found).enumerate() {
            self.path.push(Step::Index(index));
            self.value(item, Some(other));
            self.path.pop();
        }
    }

    /// Whether two scalars, or what is of different types, mean the same here.
    fn same(&self, want: &Value, live: &Value) -> bool {
        match (want, live) {
            (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
            (Value::String(a), Value::String(b)) if a == b => true,
            (Value::String(a), Value::String(b)) if self.is_secret_data() => {
                STANDARD.decode(a.split_whitespace().collect::<String>()).ok() == STANDARD.decode(b).ok()
            }
            (Value::String(_) | Value::Number(_), Value::String(_) | Value::Number(_)) => {
                let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                let (want, live) = (text(want), text(live));
                want == live || self.is_quantity() && quantity::same(&want, &live)
            }
            _ => want == live,
        }
    }

    /// Whether the API server keeps nothing of a value of Kubernetes' own kinds.
    fn says_nothing(&self, want: &Value) -> bool {
        /// Maps of texts and quantities: an empty one is not kept, but an empty text in one is.
        const MAPS: &[&str] = &[
            "annotations",
            "binaryData",
            "capacity",
            "data",
            "hard",
            "labels",
            "limits",
            "matchLabels",
            "nodeSelector",
            "parameters",
            "requests",
            "selector",
        ];
        let is_map = |field: Option<&&str>| field.is_some_and(|field| MAPS.contains(field));
        let fields = self.fields();
        match want {
            Value::Null => true,
            _ if !self.own => false,
            // Whether an empty structure is there makes a difference, as in the selectors of a network policy.
            Value::Object(entries) => entries.is_empty() && is_map(fields.last()),
            Value::Array(items) => items.is_empty(),
            Value::String(text) => text.is_empty() && !is_map(fields.iter().rev().nth(1)),
            Value::Bool(b) => !b,
            Value::Number(number) => number.as_f64() == Some(0.0),
        }
    }

    /// Whether others fill this field after we have applied it, or a cluster says it.
    fn is_ignored(&self, want: &Value) -> bool {
        // Definitions have tens of thousands of fields, nearly all of them deeper than what is ignored.
        let is_bundle = matches!(self.path.last(), Some(Step::Field(name)) if name == "caBundle");
        if self.path.len() > 3 && !is_bundle {
            return false;
        }
        let fields = self.fields();
        match (self.kind, fields.as_slice()) {
            (_, ["apiVersion" | "kind" | "status"]) => true,
            (
                _,
                [
                    "metadata",
                    "creationTimestamp" | "generation" | "managedFields" | "resourceVersion" | "uid",
                ],
            ) => true,
            (_, ["metadata", "annotations", key]) => *key == DIGEST,
            ("ClusterRole", ["rules"]) => self.aggregated,
            ("CustomResourceDefinition", [.., "clientConfig", "caBundle"]) => true,
            (_, [.., "clientConfig", "caBundle"] | ["spec", "caBundle"]) if self.own => {
                matches!(want.as_str(), Some("" | "Cg=="))
            }
            _ => false,
        }
    }

    fn is_quantity(&self) -> bool {
        const TABLES: &[&str] = &[
            "requests",
            "limits",
            "capacity",
            "hard",
            "default",
            "defaultRequest",
            "max",
            "min",
            "podFixed",
        ];
        const FIELDS: &[&str] = &["sizeLimit", "divisor", "averageValue"];
        match self.fields().as_slice() {
            [.., table, _] if TABLES.contains(table) => true,
            [.., "target", "value"] => true,
            [.., field] => FIELDS.contains(field),
            [] => false,
        }
    }

    fn is_secret_data(&self) -> bool {
        self.is_secret && matches!(self.fields().as_slice(), ["data" | "stringData", ..])
    }

    /// The names of the fields on the way here.
    fn fields(&self) -> Vec<&str> {
        let names = self.path.iter().filter_map(|step| match step {
            Step::Field(name) => Some(name.as_str()),
            Step::Element(_) | Step::Index(_) => None,
        });
        names.collect()
    }

    fn changed(&mut self, from: Option<&Value>, to: Option<&Value>) {
        if self.is_secret
            && self.path.len() <= 1
            && matches!(self.fields().as_slice(), ["data" | "stringData"])
        {
            return self.secrets_changed(from, to);
        }
        let shown = |value: &Value| match (self.is_secret_data(), value) {
            (true, value) => self.mark(value),
            (false, Value::String(text)) => text.clone(),
            (false, value) => value.to_string(),
        };
        let change = FieldChange { path: shown_path(&self.path), from: from.map(shown), to: to.map(shown) };
        self.changes.push(change);
    }

    /// All entries of a Secret, each by its own.
    fn secrets_changed(&mut self, from: Option<&Value>, to: Option<&Value>) {
        let mut keys: Vec<&String> =
            [from, to].into_iter().flatten().filter_map(Value::as_object).flat_map(Map::keys).collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            self.path.push(Step::Field(key.clone()));
            self.changed(from.and_then(|v| v.get(key)), to.and_then(|v| v.get(key)));
            self.path.pop();
        }
    }

    fn mark(&self, value: &Value) -> String {
        let mut hash = self.seed.hash("mark");
        hash.update(value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        let digest = hex::encode(hash.finalize());
        format!("[secret {}]", digest.get(..8).unwrap_or_default())
    }
}

fn shown_path(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        let dot = if text.is_empty() { "" } else { "." };
        // Writing to a string cannot fail.
        let _ = match step {
            Step::Field(name) if name.is_empty() || name.contains(['.', '[', '"']) => {
                write!(text, "{dot}\"{name}\"")
            }
            Step::Field(name) => write!(text, "{dot}{name}"),
            Step::Element(name) => write!(text, "[{name}]"),
            Step::Index(index) => write!(text, "[{index}]"),
        };
    }
    text
}
