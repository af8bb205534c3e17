//! What kinds are made of: which fields they have, and how lists and maps in them are merged. Built-in kinds are as Kubernetes
//! describes them, custom ones as their definitions do.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::resources::Resource;
use super::store::{Key, Store};

/// The built-in kinds with their types, and the fields of all types: `name:type`. A type is a scalar (`s`, `i`, `n`, `b`), anything
/// (`*`), an object (`@Name`), a map (`{type}`) or a list (`[type]`); with `!` it is replaced as a whole, a list with `=` is a set, and one
/// with `(keys)` is merged item by item.
const BUILT_IN: &str = include_str!("schema.txt");

/// What a value may be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shape {
    Any,
    Text,
    Integer,
    Number,
    Flag,
    /// An object with its fields, and whether it is replaced as a whole.
    Object(Arc<Fields>, bool),
    /// A map of such values, and whether it is replaced as a whole.
    Map(Arc<Shape>, bool),
    List(Arc<Shape>, Merge),
}

/// The fields of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Fields {
    known: HashMap<String, Shape>,
    /// Whether there may be others.
    open: bool,
}

/// How a list becomes another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Merge {
    Whole,
    Set,
    Keyed(Vec<String>),
}

static ANY: Shape = Shape::Any;

impl Shape {
    /// What a field may be.
    pub(crate) fn field(&self, name: &str) -> &Self {
        match self {
            Self::Object(fields, _) => fields.known.get(name).unwrap_or(&ANY),
            Self::Map(value, _) => value,
            _ => &ANY,
        }
    }

    /// What an item of a list may be.
    pub(crate) fn item(&self) -> &Self {
        match self {
            Self::List(item, _) => item,
            _ => &ANY,
        }
    }

    /// Whether a map or object is replaced as a whole.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self, Self::Object(_, true) | Self::Map(_, true))
    }

    /// How a list of this shape is merged.
    pub(crate) fn merge(&self) -> &Merge {
        match self {
            Self::List(_, merge) => merge,
            _ => &Merge::Whole,
        }
    }

    /// The fields of a value that are in no description, as `spec.containers[0].imag`.
    pub(crate) fn unknown(&self, value: &Value) -> Vec<String> {
        let mut found = Vec::new();
        self.walk(value, "", &mut found);
        found
    }

    fn walk(&self, value: &Value, at: &str, found: &mut Vec<String>) {
        match (self, value) {
            (Self::Object(fields, _), Value::Object(object)) => {
                for (name, inner) in object {
                    let at = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
                    match fields.known.get(name) {
                        Some(shape) => shape.walk(inner, &at, found),
                        None if fields.open => {}
                        None => found.push(at),
                    }
                }
            }
            (Self::Map(shape, _), Value::Object(object)) => {
                object.iter().for_each(|(name, inner)| shape.walk(inner, &format!("{at}.{name}"), found));
            }
            (Self::List(shape, _), Value::Array(items)) => {
                items.iter().enumerate().for_each(|(n, item)| shape.walk(item, &format!("{at}[{n}]"), found));
            }
            _ => {}
        }
    }

    /// The first value of another type than it may have: where, what it is, what it should be.
    pub(crate) fn misfit(&self, value: &Value, at: &str) -> Option<(String, &'static str, &'static str)> {
        let wanted = match (self, value) {
            (_, Value::Null) | (Self::Any, _) => return None,
            (Self::Text, Value::String(_))
            | (Self::Flag, Value::Bool(_))
            | (Self::Number, Value::Number(_)) => {
                return None;
            }
            (Self::Integer, Value::Number(number)) if !number.is_f64() => return None,
            (Self::Object(..) | Self::Map(..), Value::Object(object)) => {
                return object.iter().find_map(|(name, inner)| {
                    let at = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
                    self.field(name).misfit(inner, &at)
                });
            }
            (Self::List(shape, _), Value::Array(items)) => {
                return items.iter().find_map(|item| shape.misfit(item, at));
            }
            (Self::Text, _) => "string",
            (Self::Flag, _) => "bool",
            (Self::Integer, _) => "int32",
            (Self::Number, _) => "float64",
            (Self::Object(..) | Self::Map(..), _) => "object",
            (Self::List(..), _) => "array",
        };
        let is = match value {
            Value::String(_) => "string",
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::Array(_) => "array",
            Value::Object(_) | Value::Null => "object",
        };
        Some((at.to_owned(), is, wanted))
    }

    /// Takes away what is in no description.
    pub(crate) fn prune(&self, value: &mut Value) {
        match (self, value) {
            (Self::Object(fields, _), Value::Object(object)) => {
                object.retain(|name, _| fields.open || fields.known.contains_key(name));
                for (name, inner) in object {
                    if let Some(shape) = fields.known.get(name) {
                        shape.prune(inner);
                    }
                }
            }
            (Self::Map(shape, _), Value::Object(object)) => {
                object.iter_mut().for_each(|(_, inner)| shape.prune(inner));
            }
            (Self::List(shape, _), Value::Array(items)) => {
                items.iter_mut().for_each(|item| shape.prune(item));
            }
            _ => {}
        }
    }
}

/// The shape of a resource's objects.
pub(crate) fn of(store: &Store, resource: &Resource) -> Shape {
    if !resource.custom {
        return built_in(&resource.group, &resource.version, &resource.kind);
    }
    let name = format!("{}.{}", resource.plural, resource.group);
    let definition = store.get(&Key::new("apiextensions.k8s.io/customresourcedefinitions", "", &name));
    let Some(definition) = definition else { return Shape::Any };
    let versions = definition["spec"]["versions"].as_array();
    let version = versions.into_iter().flatten().find(|version| version["name"] == *resource.version);
    let schema = version.map_or(&Value::Null, |version| &version["schema"]["openAPIV3Schema"]);
    let Shape::Object(fields, _) = described(schema) else { return Shape::Any };
    let mut fields = Fields::clone(&fields);
    fields.known.insert("apiVersion".into(), Shape::Text);
    fields.known.insert("kind".into(), Shape::Text);
    fields.known.insert("metadata".into(), built_in("", "v1", "ConfigMap").field("metadata").clone());
    Shape::Object(Arc::new(fields), false)
}

/// The shape of a built-in kind.
pub(crate) fn built_in(group: &str, version: &str, kind: &str) -> Shape {
    static ALL: OnceLock<HashMap<String, Shape>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let lines =
            BUILT_IN.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(' '));
        let (kinds, types): (Vec<_>, Vec<_>) = lines.partition(|(name, _)| name.contains('/'));
        let types: HashMap<&str, &str> = types.into_iter().collect();
        let mut made = HashMap::new();
        kinds.into_iter().map(|(name, shape)| (name.to_owned(), read(shape, &types, &mut made))).collect()
    });
    let group = if group.is_empty() { "core" } else { group };
    all.get(&format!("{group}/{version}/{kind}")).cloned().unwrap_or(Shape::Any)
}

/// Reads one type.
fn read<'a>(
    text: &'a str,
    types: &HashMap<&'a str, &'a str>,
    made: &mut HashMap<&'a str, Arc<Fields>>,
) -> Shape {
    let (bare, whole) = text.strip_suffix('!').map_or((text, false), |bare| (bare, true));
    if let Some(name) = bare.strip_prefix('@') {
        if let Some(fields) = made.get(name) {
            return Shape::Object(fields.clone(), whole);
        }
        let listed = types.get(name).copied().unwrap_or_default();
        let fields = listed.split(' ').filter_map(|field| field.split_once(':'));
        let known = fields.map(|(field, shape)| (field.to_owned(), read(shape, types, made))).collect();
        let fields = Arc::new(Fields { known, open: false });
        made.insert(name, fields.clone());
        return Shape::Object(fields, whole);
    }
    if let Some(value) = bare.strip_prefix('{').and_then(|bare| bare.strip_suffix('}')) {
        return Shape::Map(Arc::new(read(value, types, made)), whole);
    }
    if bare.starts_with('[') {
        let end = bare.rfind(']').unwrap_or(bare.len() - 1);
        let (item, how) = (&bare[1..end], &bare[end + 1..]);
        let merge = match how {
            "" => Merge::Whole,
            "=" => Merge::Set,
            keys => Merge::Keyed(keys.trim_matches(['(', ')']).split(',').map(str::to_owned).collect()),
        };
        return Shape::List(Arc::new(read(item, types, made)), merge);
    }
    match bare {
        "s" => Shape::Text,
        "i" => Shape::Integer,
        "n" => Shape::Number,
        "b" => Shape::Flag,
        _ => Shape::Any,
    }
}

/// The shape that a definition's schema describes.
fn described(schema: &Value) -> Shape {
    let open = schema["x-kubernetes-preserve-unknown-fields"] == true
        || schema["x-kubernetes-embedded-resource"] == true;
    let whole = schema["x-kubernetes-map-type"] == "atomic";
    if schema["x-kubernetes-int-or-string"] == true {
        return Shape::Any;
    }
    match schema["type"].as_str() {
        Some("object") => {
            let more = &schema["additionalProperties"];
            match schema["properties"].as_object() {
                None if more.is_object() => Shape::Map(Arc::new(described(more)), whole),
                None if open || *more == true => Shape::Any,
                fields => {
                    let fields = fields.into_iter().flatten();
                    let known = fields.map(|(name, inner)| (name.clone(), described(inner))).collect();
                    Shape::Object(Arc::new(Fields { known, open }), whole)
                }
            }
        }
        Some("array") => {
            let keys = || {
                let keys = schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
                keys.filter_map(Value::as_str).map(str::to_owned).collect()
            };
            let merge = match schema["x-kubernetes-list-type"].as_str() {
                Some("map") => Merge::Keyed(keys()),
                Some("set") => Merge::Set,
                _ => Merge::Whole,
            };
            Shape::List(Arc::new(described(&schema["items"])), merge)
        }
        Some("string") => Shape::Text,
        Some("integer") => Shape::Integer,
        Some("number") => Shape::Number,
        Some("boolean") => Shape::Flag,
        _ => Shape::Any,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_built_in_kind_is_described() {
        for resource in super::super::resources::all(&Store::new("test")) {
            let shape = built_in(&resource.group, &resource.version, &resource.kind);
            assert!(
                matches!(shape, Shape::Object(..)),
                "{}/{} {}",
                resource.group,
                resource.version,
                resource.kind
            );
            assert!(
                matches!(shape.field("metadata").field("finalizers").merge(), Merge::Set),
                "{}",
                resource.kind
            );
        }
    }

    #[test]
    fn fields_that_nobody_knows_are_found_and_taken_away() {
        let shape = built_in("apps", "v1", "Deployment");
        let mut object = json!({"metadata": {"labels": {"any": "x"}}, "spec": {"replica": 1, "template": {"spec": {
            "containers": [{"name": "c", "imag": "x", "resources": {"limits": {"cpu": "1"}}}]}}}});
        assert_eq!(shape.unknown(&object), ["spec.replica", "spec.template.spec.containers[0].imag"]);
        shape.prune(&mut object);
        assert_eq!(shape.unknown(&object), Vec::<String>::new());
        assert_eq!(object["metadata"]["labels"]["any"], "x");
        let wrong = json!({"spec": {"replicas": "3"}});
        assert_eq!(shape.misfit(&wrong, ""), Some(("spec.replicas".into(), "string", "int32")));
        assert_eq!(shape.misfit(&object, ""), None);
    }

    #[test]
    fn a_definition_describes_as_much() {
        let schema = json!({"type": "object", "properties": {
            "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                      "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }});
        let shape = described(&schema);
        let object = json!({"ports": [{"name": "a", "x": 1}], "free": {"y": 1}, "z": 1});
        assert_eq!(shape.unknown(&object), ["ports[0].x", "z"]);
        assert_eq!(*shape.field("ports").merge(), Merge::Keyed(vec!["name".into()]));
    }
}
