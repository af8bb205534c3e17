//! A document's tree against the schema: every unknown key, wrong type and missing value, with its place.
//!
//! Understands the part of JSON Schema that the document's types produce (a test holds it to that) and returns a value that
//! always fits those types: what is wrong is left out or stood in for, and its path remembered, so that later checks can go
//! on with the rest and keep quiet about what was never said.

mod keyword;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::rc::Rc;

use serde_json::{Map, Number, Value as Json};

use keyword::{
    allows, alternatives, bounds, constants, example, fits, in_bounds, integer, is_free, kind_name, plain,
    type_name, types,
};

use crate::diagnostic::Finding;
use crate::path::{Path, first_word};
use crate::suggest::{listed, nearest};
use crate::yaml::{Entry, Kind, Node, Span, Value};

/// Keys that are part of the design but not of this version: better said plainly than called unknown.
const NOT_YET: &[NotYet] = &[
    NotYet {
        key: "spec.network.dhcp",
        instead: "Give the nodes static addresses.",
        replaces: &["cidr", "gateway"],
    },
    NotYet { key: "spec.pools.disks", instead: "A node has one system disk, `disk`.", replaces: &[] },
];

struct NotYet {
    /// Where it would stand.
    key: &'static str,
    /// What to do today.
    instead: &'static str,
    /// Keys beside it that it makes unnecessary, so that their absence is no mistake of its own.
    replaces: &'static [&'static str],
}

/// What came of a check.
pub(crate) struct Checked {
    /// Fits the document's types, whatever was wrong.
    pub(crate) value: Json,
    /// What was wrong.
    pub(crate) findings: Vec<Finding>,
    /// Paths of values that were left out or stood in for.
    pub(crate) guessed: HashSet<String>,
    /// Bytes that may be secrets and must not be shown.
    pub(crate) masked: Vec<Span>,
}

/// Checks a tree against the document's schema. Paths in it are those of the sources' folders, and come out as seen from the
/// inventory's. Of some it was said before that they are missing.
pub(crate) fn check<'s>(
    root: &Node,
    schema: &'s Json,
    folders: &'s [PathBuf],
    said: HashSet<String>,
) -> Checked {
    let mut checker = Checker {
        schema,
        folders,
        choices: HashMap::new(),
        findings: Vec::new(),
        guessed: said,
        masked: Vec::new(),
    };
    let value = checker.value(root, schema, &Path::Root, first_word(root));
    let value = value.unwrap_or_else(|| checker.stand_in(schema, &Path::Root));
    Checked { value, findings: checker.findings, guessed: checker.guessed, masked: checker.masked }
}

struct Checker<'s> {
    schema: &'s Json,
    folders: &'s [PathBuf],
    choices: HashMap<*const Json, Rc<[&'s Json]>>,
    findings: Vec<Finding>,
    guessed: HashSet<String>,
    masked: Vec<Span>,
}

impl<'s> Checker<'s> {
    /// Follows references to the schema they name.
    fn deref(&self, mut schema: &'s Json) -> &'s Json {
        while let Some(target) =
            schema.get("$ref").and_then(Json::as_str).and_then(|r| self.schema.pointer(r.strip_prefix('#')?))
        {
            schema = target;
        }
        schema
    }

    /// The schemas a value may fit, without "or null". Worked out once per schema: a large inventory asks for each of
    /// them tens of thousands of times.
    fn choices(&mut self, schema: &'s Json) -> Rc<[&'s Json]> {
        let key = std::ptr::from_ref(schema);
        if let Some(known) = self.choices.get(&key) {
            return Rc::clone(known);
        }
        let target = self.deref(schema);
        let choices: Rc<[&'s Json]> = match target.get("anyOf").and_then(Json::as_array) {
            Some(any) => {
                let all: Vec<&Json> = any.iter().flat_map(|s| self.choices(s).to_vec()).collect();
                all.into_iter().filter(|s| types(s) != ["null"]).collect()
            }
            None => Rc::new([target]),
        };
        self.choices.insert(key, Rc::clone(&choices));
        choices
    }

    /// The value as the types want it, or nothing if it is wrong, which is then already said. `at` is where to point when
    /// the value itself is too large to point at.
    fn value(&mut self, node: &Node, schema: &'s Json, path: &Path<'_>, at: Span) -> Option<Json> {
        let choices = self.choices(schema);
        let optional = schema.get("anyOf").is_some();
        let Some(schema) = choices.iter().copied().find(|s| fits(node, s)) else {
            if choices.iter().any(|s| s.get("writeOnly").is_some() && types(s).contains(&"object")) {
                self.literal_secret(node, path, at);
            } else {
                self.wrong_type(node, &choices, path, at);
            }
            return None;
        };
        match &node.value {
            Value::Scalar { kind, text } => self.scalar(*kind, text, schema, path, node.span),
            Value::Seq(items) => Some(self.list(items, schema, path)),
            Value::Map(_) if is_free(schema) => Some(self.free(node)),
            Value::Map(entries) => {
                let map = self.mapping(entries, schema, path, at);
                self.exactly_one(entries, schema, optional, path, at).then_some(map)
            }
        }
    }

    /// A value that may be anything, as it is written.
    fn free(&mut self, node: &Node) -> Json {
        match &node.value {
            Value::Scalar { kind, text } => plain(*kind, text),
            Value::Seq(items) => Json::Array(items.iter().map(|item| self.free(item)).collect()),
            Value::Map(entries) => {
                let mut map = Map::new();
                for entry in entries {
                    if looks_secret(&entry.key) {
                        self.mask(&entry.value);
                    }
                    map.insert(entry.key.clone(), self.free(&entry.value));
                }
                Json::Object(map)
            }
        }
    }

    fn list(&mut self, items: &[Node], schema: &'s Json, path: &Path<'_>) -> Json {
        let Some(element) = schema.get("items") else { return Json::Array(Vec::new()) };
        let mut list = Vec::with_capacity(items.len());
        for (i, item) in items.iter().enumerate() {
            let path = path.index(i);
            let value = self.value(item, element, &path, first_word(item));
            // A list keeps its length, or all places after this one would be wrong.
            list.push(value.unwrap_or_else(|| self.stand_in(element, &path)));
        }
        Json::Array(list)
    }

    fn mapping(&mut self, entries: &[Entry], schema: &'s Json, path: &Path<'_>, at: Span) -> Json {
        let known = schema.get("properties").and_then(Json::as_object);
        let others = schema.get("additionalProperties").filter(|a| a.is_object());
        let mut map = Map::new();
        for entry in entries {
            let path = path.key(&entry.key);
            let Some(property) = known.and_then(|k| k.get(&entry.key)).or(others) else {
                self.unknown_key(entry, known, &path);
                if schema.get("writeOnly").is_some() || looks_secret(&entry.key) {
                    self.mask(&entry.value);
                }
                continue;
            };
            if entry.value.is_null() && others.is_none() {
                continue;
            }
            if property.get("writeOnly").is_some() {
                self.mask(&entry.value);
            }
            match self.value(&entry.value, property, &path, entry.key_span) {
                // The last of two equal keys wins; that there are two is already said.
                Some(value) => drop(map.insert(entry.key.clone(), value)),
                None => drop(self.guessed.insert(path.to_string())),
            }
        }
        for key in
            schema.get("required").and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str)
        {
            if !map.contains_key(key)
                && let Some(property) = known.and_then(|k| k.get(key))
            {
                let path_of_key = path.key(key);
                if !self.guessed.contains(&path_of_key.to_string()) {
                    self.missing(key, property, entries, path, at);
                }
                let value = self.stand_in(property, &path_of_key);
                map.insert(key.to_owned(), value);
            }
        }
        Json::Object(map)
    }

    /// Says so if a mapping that takes one key of several has none or too many.
    fn exactly_one(
        &mut self,
        entries: &[Entry],
        schema: &'s Json,
        optional: bool,
        path: &Path<'_>,
        at: Span,
    ) -> bool {
        let Some(known) = schema.get("properties").and_then(Json::as_object) else { return true };
        let Some(choices) = alternatives(schema, known) else { return true };
        let keys = listed(choices.iter().map(|k| format!("`{k}`")), "or");
        let given: Vec<&Entry> =
            entries.iter().filter(|e| choices.contains(&e.key.as_str()) && !e.value.is_null()).collect();
        match given.as_slice() {
            [_] => true,
            [] => {
                // An unknown key alone is said already, with the nearest known one.
                if entries.iter().all(|e| known.contains_key(&e.key)) {
                    let or = if optional { ", or leave it out" } else { "" };
                    let help = format!("Give one of {keys}{or}.");
                    let empty = entries.iter().all(|e| e.value.is_null());
                    let what = if empty { "is empty" } else { "is incomplete" };
                    self.findings.push(Finding::error("one-of", at, format!("`{path}` {what}.")).help(help));
                }
                false
            }
            [first, second, ..] => {
                let both = listed(given.iter().map(|e| format!("`{}`", e.key)), "and");
                self.findings.push(
                    Finding::error(
                        "one-of",
                        second.key_span,
                        format!("`{path}` has {both}, but takes only one of {keys}."),
                    )
                    .help("Keep the one you mean.")
                    .related(first.key_span, "the other one"),
                );
                false
            }
        }
    }

    fn scalar(
        &mut self,
        kind: Kind,
        text: &str,
        schema: &'s Json,
        path: &Path<'_>,
        span: Span,
    ) -> Option<Json> {
        let allowed = constants(schema);
        if !allowed.is_empty() {
            if allowed.contains(&text) {
                return Some(Json::String(text.to_owned()));
            }
            let help = match nearest(text, &allowed) {
                Some(near) => format!("Did you mean `{near}`?"),
                None => format!("It can be {}.", listed(allowed.iter().map(|a| format!("`{a}`")), "or")),
            };
            self.findings.push(
                Finding::error("unknown-value", span, format!("`{path}` cannot be `{text}`.")).help(help),
            );
            return None;
        }
        match kind {
            Kind::Bool => Some(Json::Bool(text.eq_ignore_ascii_case("true"))),
            // Text as written, also where it reads like a number: `+10` is not 10.
            Kind::Str | Kind::Int | Kind::Float if allows(schema, "string") => {
                let is_path = match schema.get("format").and_then(Json::as_str) {
                    Some("path") => !text.contains("://"),
                    Some("chart") => is_chart_path(text),
                    _ => false,
                };
                Some(Json::String(if is_path { self.placed(text, span) } else { text.to_owned() }))
            }
            Kind::Int | Kind::Float => self.number(text, schema, path, span),
            Kind::Null | Kind::Str => None,
        }
    }

    /// A path as seen from the inventory's folder.
    fn placed(&self, text: &str, span: Span) -> String {
        match self.folders.get(span.source) {
            Some(folder) if !text.is_empty() && !text.starts_with('~') => {
                folder.join(text).to_string_lossy().into_owned()
            }
            _ => text.to_owned(),
        }
    }

    fn number(&mut self, text: &str, schema: &'s Json, path: &Path<'_>, span: Span) -> Option<Json> {
        let (low, high) = bounds(schema);
        let value = if allows(schema, "integer") {
            integer(text).filter(|n| in_bounds(*n as f64, low, high)).map(|n| match u64::try_from(n) {
                Ok(n) => Number::from(n),
                Err(_) => Number::from(i64::try_from(n).unwrap_or(i64::MIN)),
            })
        } else {
            let value = integer(text).map(|n| n as f64).or_else(|| text.parse().ok());
            value.filter(|n| in_bounds(*n, low, high)).and_then(Number::from_f64)
        };
        if value.is_none() {
            let range = match (low, high) {
                (Some(low), Some(high)) => format!("from {low} to {high}"),
                (Some(low), None) => format!("of at least {low}"),
                (None, Some(high)) => format!("of at most {high}"),
                (None, None) => "that a computer can hold".to_owned(),
            };
            self.findings.push(
                Finding::error("out-of-range", span, format!("`{path}` cannot be {text}."))
                    .help(format!("It is a number {range}.")),
            );
        }
        value.map(Json::Number)
    }

    fn unknown_key(&mut self, entry: &Entry, known: Option<&Map<String, Json>>, path: &Path<'_>) {
        if let (Some(not_yet), Path::Key(parent, _)) = (NOT_YET.iter().find(|n| n.key == path.kind()), path) {
            let message = format!("`{path}` is not supported yet.");
            self.findings.push(Finding::error("not-yet", entry.key_span, message).help(not_yet.instead));
            self.guessed.extend(not_yet.replaces.iter().map(|key| parent.key(key).to_string()));
            return;
        }
        let keys: Vec<&str> = known.into_iter().flat_map(|k| k.keys().map(String::as_str)).collect();
        let near = nearest(&entry.key, &keys);
        if let (Some(near), Path::Key(parent, _)) = (near, path) {
            // Its value was probably given, under this name: not a word about its absence.
            self.guessed.insert(parent.key(near).to_string());
        }
        let help = match near {
            Some(near) => format!("Did you mean `{near}`?"),
            None => format!("The keys here are {}.", listed(keys.iter().map(|k| format!("`{k}`")), "and")),
        };
        let owner = match path {
            Path::Key(parent, _) => parent.to_string(),
            _ => path.to_string(),
        };
        self.findings.push(
            Finding::error(
                "unknown-key",
                entry.key_span,
                format!("`{}` is not a key of {}.", entry.key, quoted(&owner)),
            )
            .help(help),
        );
    }

    fn missing(&mut self, key: &str, property: &'s Json, entries: &[Entry], path: &Path<'_>, at: Span) {
        let empty = entries.iter().find(|e| e.key == key);
        let example = self.choices(property).iter().find_map(|s| example(s)).or_else(|| example(property));
        let about = property.get("description").and_then(Json::as_str).map(|d| d.replace('\n', " "));
        let help = match (example, about) {
            (Some(example), Some(about)) if about.contains(&example) => about,
            (Some(example), Some(about)) => format!("{about} For example `{key}: {example}`."),
            (Some(example), None) => format!("For example `{key}: {example}`."),
            (None, Some(about)) => about,
            (None, None) => format!("Add `{key}`."),
        };
        let finding = match empty {
            Some(entry) => {
                Finding::error("missing", entry.key_span, format!("`{}` is empty.", path.key(key)))
            }
            None => {
                Finding::error("missing", at, format!("`{key}` is missing in {}.", quoted(&path.to_string())))
            }
        };
        self.findings.push(finding.help(help));
    }

    fn wrong_type(&mut self, node: &Node, choices: &[&'s Json], path: &Path<'_>, at: Span) {
        let wanted: Vec<&str> = choices.iter().flat_map(|s| types(s)).filter(|t| *t != "null").collect();
        let names = listed(wanted.iter().map(|t| type_name(t).to_owned()), "or");
        let (span, found, text) = match &node.value {
            Value::Scalar { kind, text } => (node.span, kind_name(*kind), Some(text.as_str())),
            Value::Seq(_) => (at, "a list", None),
            Value::Map(_) => (at, "a mapping", None),
        };
        let secret = path.any_step(&|p| matches!(p, Path::Key(_, key) if looks_secret(key)));
        if secret {
            self.mask(node);
        }
        let keys = choices.iter().find_map(|s| s.get("properties")?.as_object());
        let version = matches!(path, Path::Key(_, key) if *key == "version");
        let help = match (wanted.as_slice(), text.filter(|_| !secret)) {
            // YAML reads 1.10 as the number 1.1, so quotes alone would not help.
            (_, Some(text)) if version && text.split('.').count() == 2 => {
                format!("Write the exact version with a `v`: v{text}.0, or the newest patch of v{text}.")
            }
            // A size is no size in quotes either.
            (_, Some(text))
                if integer(text).is_some()
                    && choices.iter().find_map(|s| example(s)).is_some_and(|size| size.ends_with("GiB")) =>
            {
                format!("Say which unit you mean, for example `{text}GiB`.")
            }
            (wanted, Some(text)) if wanted.contains(&"string") => format!("Put it in quotes: \"{text}\"."),
            (["array"], Some(text)) => format!("Write it as a list: [{text}]."),
            (["array"], None) => {
                "Write it as a list: `[a, b]`, or each entry on a line of its own after `- `.".to_owned()
            }
            (["boolean"], _) => "Only `true` and `false` are truth values in YAML 1.2.".to_owned(),
            (["integer"], Some(text)) if integer(text).is_some() => "Remove the quotes.".to_owned(),
            (wanted, _) => match keys.filter(|_| wanted.contains(&"object")) {
                Some(keys) => {
                    format!("Its keys are {}.", listed(keys.keys().map(|k| format!("`{k}`")), "and"))
                }
                None => format!("Write {names}."),
            },
        };
        let message = format!("`{path}` must be {names}, but this is {found}.");
        self.findings.push(Finding::error("wrong-type", span, message).help(help));
    }

    fn literal_secret(&mut self, node: &Node, path: &Path<'_>, at: Span) {
        self.mask(node);
        let span = if matches!(node.value, Value::Scalar { .. }) { node.span } else { at };
        self.findings.push(
            Finding::error("literal-secret", span, format!("`{path}` must say where the secret is, not what it is.")).help(
                "An inventory is shared and kept in version control. Put the secret into an environment variable \
                 (`secret: {env: PROXMOX_TOKEN_SECRET}`) or a file (`secret: {file: token.secret}`), and make a new one, \
                 as this one may have been seen.",
            ),
        );
    }

    fn mask(&mut self, node: &Node) {
        match &node.value {
            Value::Scalar { .. } => self.masked.push(node.span),
            Value::Seq(items) => items.iter().for_each(|n| self.mask(n)),
            Value::Map(entries) => entries.iter().for_each(|e| self.mask(&e.value)),
        }
    }

    /// A value that fits the schema, to go on with.
    fn stand_in(&mut self, schema: &'s Json, path: &Path<'_>) -> Json {
        self.guessed.insert(path.to_string());
        self.fill(schema)
    }

    fn fill(&mut self, schema: &'s Json) -> Json {
        let Some(schema) = self.choices(schema).first().copied() else { return Json::Null };
        if let Some(example) = schema.get("examples").and_then(|e| e.get(0)) {
            return example.clone();
        }
        if let Some(first) = constants(schema).first() {
            return Json::from(*first);
        }
        match types(schema).first().copied() {
            Some("object") => {
                let known = schema.get("properties").and_then(Json::as_object);
                let required = schema.get("required").and_then(Json::as_array).into_iter().flatten();
                let fields = required.filter_map(|k| {
                    let key = k.as_str()?;
                    Some((key.to_owned(), self.fill(known?.get(key)?)))
                });
                Json::Object(fields.collect())
            }
            Some("array") => Json::Array(Vec::new()),
            Some("boolean") => Json::Bool(false),
            Some("integer" | "number") => Json::from(bounds(schema).0.unwrap_or(1.0) as u64),
            Some("string") => Json::from("x"),
            _ => Json::Null,
        }
    }
}

/// Whether a chart is a folder or an archive beside the inventory, and not the name or address of one.
pub(crate) fn is_chart_path(chart: &str) -> bool {
    !chart.contains("://") && (chart.contains('/') || chart.ends_with(".tgz"))
}

/// Whether a schema is of a mapping that takes exactly one key of several.
pub(crate) fn takes_one(schema: &Json) -> bool {
    let known = schema.get("properties").and_then(Json::as_object);
    known.is_some_and(|known| alternatives(schema, known).is_some())
}

/// Whether a key's name suggests that its value is not to be shown.
pub(crate) fn looks_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    ["secret", "passw", "token", "credential", "privatekey", "private_key", "apikey", "authkey"]
        .iter()
        .any(|w| key.contains(w))
}

fn quoted(owner: &str) -> String {
    if owner == "the document" { owner.to_owned() } else { format!("`{owner}`") }
}

#[cfg(test)]
mod tests;
