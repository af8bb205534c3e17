//! A document's tree against the schema: every unknown key, wrong type and missing value, with its place.
//!
//! Understands the part of JSON Schema that the document's types produce (a test holds it to that) and returns a value that
//! always fits those types: what is wrong is left out or stood in for, and its path remembered, so that later checks can go
//! on with the rest and keep quiet about what was never said.

use std::collections::HashSet;

use serde_json::{Map, Number, Value as Json};

use crate::diagnostic::Finding;
use crate::path::{Path, first_word};
use crate::suggest::{listed, nearest};
use crate::yaml::{Entry, Kind, Node, Span, Value};

/// Keys that are part of the design but not of this version: better said plainly than called unknown.
const NOT_YET: &[(&str, &str)] = &[
    (
        "spec.addons",
        "Add-ons are not installed by this version yet; install them with kubectl or helm once the cluster is up.",
    ),
    ("spec.reach.ssh", "Reaching nodes through SSH is not supported yet; use `direct` or a `proxy`."),
    ("spec.network.dhcp", "DHCP is not supported yet; give the nodes static addresses."),
    ("spec.proxmox.token.secret.sops", "SOPS is not supported yet; use `env` or `file`."),
    ("spec.proxmox.token.secret.vault", "Vault is not supported yet; use `env` or `file`."),
    ("spec.pools.disks", "Extra disks are not supported yet; a node has one system disk, `disk`."),
];

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

/// Checks a tree against the document's schema.
pub(crate) fn check(root: &Node, schema: &Json) -> Checked {
    let mut checker = Checker { schema, findings: Vec::new(), guessed: HashSet::new(), masked: Vec::new() };
    let value = checker.value(root, schema, &Path::Root, first_word(root));
    let value = value.unwrap_or_else(|| checker.stand_in(schema, &Path::Root));
    Checked { value, findings: checker.findings, guessed: checker.guessed, masked: checker.masked }
}

struct Checker<'s> {
    schema: &'s Json,
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

    /// The schemas a value may fit, without "or null".
    fn choices(&self, schema: &'s Json) -> Vec<&'s Json> {
        let schema = self.deref(schema);
        match schema.get("anyOf").and_then(Json::as_array) {
            Some(any) => any.iter().flat_map(|s| self.choices(s)).filter(|s| types(s) != ["null"]).collect(),
            None => vec![schema],
        }
    }

    /// The value as the types want it, or nothing if it is wrong, which is then already said. `at` is where to point when
    /// the value itself is too large to point at.
    fn value(&mut self, node: &Node, schema: &'s Json, path: &Path<'_>, at: Span) -> Option<Json> {
        let choices = self.choices(schema);
        let Some(schema) = choices.iter().copied().find(|s| fits(node, &types(s))) else {
            if choices.iter().any(|s| s.get("writeOnly").is_some()) {
                self.literal_secret(node, path, at);
            } else {
                let wanted: Vec<&str> =
                    choices.iter().flat_map(|s| types(s)).filter(|t| *t != "null").collect();
                self.wrong_type(node, &wanted, path, at);
            }
            return None;
        };
        match &node.value {
            Value::Scalar { kind, text } => self.scalar(*kind, text, schema, path, node.span),
            Value::Seq(items) => Some(self.list(items, schema, path)),
            Value::Map(entries) => self.mapping(entries, schema, path, at),
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

    fn mapping(&mut self, entries: &[Entry], schema: &'s Json, path: &Path<'_>, at: Span) -> Option<Json> {
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
        self.exactly_one(entries, schema, path, at).then_some(Json::Object(map))
    }

    /// Says so if a mapping that takes one key of several has none or too many.
    fn exactly_one(&mut self, entries: &[Entry], schema: &'s Json, path: &Path<'_>, at: Span) -> bool {
        let Some(known) = schema.get("properties").and_then(Json::as_object) else { return true };
        if schema.get("maxProperties").is_none() {
            return true;
        }
        let keys = listed(known.keys().map(|k| format!("`{k}`")), "or");
        let given: Vec<&Entry> =
            entries.iter().filter(|e| known.contains_key(&e.key) && !e.value.is_null()).collect();
        match given.as_slice() {
            [_] => true,
            [] => {
                // An unknown key alone is said already, with the nearest known one.
                if entries.iter().all(|e| known.contains_key(&e.key)) {
                    self.findings.push(Finding::error("one-of", at, format!("`{path}` is empty.")).help(
                        format!("Give one of {keys}, or leave `{}` out if it is optional.", last(path)),
                    ));
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
        let types = types(schema);
        match kind {
            Kind::Bool => Some(Json::Bool(text.eq_ignore_ascii_case("true"))),
            // Text as written, also where it reads like a number: `+10` is not 10.
            Kind::Str | Kind::Int | Kind::Float if types.contains(&"string") => {
                Some(Json::String(text.to_owned()))
            }
            Kind::Int | Kind::Float => self.number(text, schema, &types, path, span),
            Kind::Null | Kind::Str => None,
        }
    }

    fn number(
        &mut self,
        text: &str,
        schema: &'s Json,
        types: &[&str],
        path: &Path<'_>,
        span: Span,
    ) -> Option<Json> {
        let (low, high) = bounds(schema);
        let value = if types.contains(&"integer") {
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
        if let Some((_, why)) = NOT_YET.iter().find(|(kind, _)| *kind == path.kind()) {
            self.findings.push(
                Finding::error("not-yet", entry.key_span, format!("`{path}` is not supported yet."))
                    .help(*why),
            );
            return;
        }
        let keys: Vec<&str> = known.into_iter().flat_map(|k| k.keys().map(String::as_str)).collect();
        let help = match nearest(&entry.key, &keys) {
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

    fn wrong_type(&mut self, node: &Node, wanted: &[&str], path: &Path<'_>, at: Span) {
        let names = listed(wanted.iter().map(|t| type_name(t).to_owned()), "or");
        let (span, found, text) = match &node.value {
            Value::Scalar { kind, text } => (node.span, kind_name(*kind), text.as_str()),
            Value::Seq(_) => (at, "a list", ""),
            Value::Map(_) => (at, "a mapping", ""),
        };
        let mut finding =
            Finding::error("wrong-type", span, format!("`{path}` must be {names}, but this is {found}."));
        let scalar = matches!(node.value, Value::Scalar { .. });
        if path.any_step(&|p| matches!(p, Path::Key(_, key) if looks_secret(key))) {
            self.mask(node);
        } else if wanted.contains(&"string") && scalar {
            finding = finding.help(format!("Put it in quotes: \"{text}\"."));
        } else if wanted == ["array"] && scalar {
            finding = finding.help(format!("Write it as a list: [{text}]."));
        } else if wanted == ["boolean"] && scalar {
            finding = finding.help("Only `true` and `false` are truth values in YAML 1.2.");
        } else if wanted == ["integer"] && integer(text).is_some() {
            finding = finding.help("Remove the quotes.");
        }
        self.findings.push(finding);
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

    fn fill(&self, schema: &'s Json) -> Json {
        let Some(schema) = self.choices(schema).into_iter().next() else { return Json::Null };
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

fn last(path: &Path<'_>) -> String {
    match path {
        Path::Key(_, key) => (*key).to_owned(),
        other => other.to_string(),
    }
}

/// The types a schema allows. Constants are text.
fn types(schema: &Json) -> Vec<&str> {
    match schema.get("type") {
        Some(Json::String(one)) => vec![one],
        Some(Json::Array(many)) => many.iter().filter_map(Json::as_str).collect(),
        _ if schema.get("oneOf").is_some() => vec!["string"],
        _ => Vec::new(),
    }
}

fn fits(node: &Node, types: &[&str]) -> bool {
    let any = |names: &[&str]| names.iter().any(|n| types.contains(n));
    match &node.value {
        Value::Scalar { kind: Kind::Null, .. } => false,
        Value::Scalar { kind: Kind::Bool, .. } => any(&["boolean"]),
        Value::Scalar { kind: Kind::Int, .. } => any(&["integer", "number"]),
        // `1.5` is fine where both text and whole numbers are: what it means is for the reader of that value to say.
        Value::Scalar { kind: Kind::Float, .. } => {
            any(&["number"]) || (any(&["string"]) && any(&["integer"]))
        }
        Value::Scalar { kind: Kind::Str, .. } => any(&["string"]),
        Value::Seq(_) => any(&["array"]),
        Value::Map(_) => any(&["object"]),
    }
}

/// The texts a schema allows, if it names them.
fn constants(schema: &Json) -> Vec<&str> {
    schema
        .get("oneOf")
        .and_then(Json::as_array)
        .into_iter()
        .flatten()
        .filter_map(|c| c.get("const")?.as_str())
        .collect()
}

fn example(schema: &Json) -> Option<String> {
    match schema.get("examples")?.get(0)? {
        Json::String(text) => Some(text.clone()),
        Json::Object(map) => {
            let pairs: Vec<String> =
                map.iter().filter_map(|(k, v)| Some(format!("{k}: {}", v.as_str()?))).collect();
            Some(format!("{{{}}}", pairs.join(", ")))
        }
        other => Some(other.to_string()),
    }
}

fn bounds(schema: &Json) -> (Option<f64>, Option<f64>) {
    let of_type = match schema.get("format").and_then(Json::as_str) {
        Some("uint8") => Some(f64::from(u8::MAX)),
        Some("uint16") => Some(f64::from(u16::MAX)),
        Some("uint32") => Some(f64::from(u32::MAX)),
        _ => None,
    };
    let number = |key: &str| schema.get(key).and_then(Json::as_f64);
    (number("minimum"), number("maximum").or(of_type))
}

fn in_bounds(value: f64, low: Option<f64>, high: Option<f64>) -> bool {
    low.is_none_or(|l| value >= l) && high.is_none_or(|h| value <= h)
}

fn integer(text: &str) -> Option<i128> {
    if let Some(hex) = text.strip_prefix("0x") {
        return i128::from_str_radix(hex, 16).ok();
    }
    if let Some(octal) = text.strip_prefix("0o") {
        return i128::from_str_radix(octal, 8).ok();
    }
    text.parse().ok()
}

fn type_name(name: &str) -> &'static str {
    match name {
        "object" => "a mapping",
        "array" => "a list",
        "string" => "text",
        "integer" => "a whole number",
        "number" => "a number",
        "boolean" => "true or false",
        _ => "something else",
    }
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Null => "empty",
        Kind::Bool => "true or false",
        Kind::Int => "a whole number",
        Kind::Float => "a number",
        Kind::Str => "text",
    }
}
