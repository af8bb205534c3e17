//! The words of JSON Schema that the document's types use, and what they mean for a value.

use serde_json::{Map, Number, Value as Json};

use crate::yaml::{Kind, Node, Value};

/// The types a schema allows. Constants are text.
pub(crate) fn types(schema: &Json) -> Vec<&str> {
    match schema.get("type") {
        Some(Json::String(one)) => vec![one],
        Some(Json::Array(many)) => many.iter().filter_map(Json::as_str).collect(),
        _ if schema.get("oneOf").is_some() => vec!["string"],
        _ => Vec::new(),
    }
}

/// Whether a schema allows a type.
pub(crate) fn allows(schema: &Json, name: &str) -> bool {
    match schema.get("type") {
        Some(Json::String(one)) => one == name,
        Some(Json::Array(many)) => many.iter().any(|t| t == name),
        _ => name == "string" && schema.get("oneOf").is_some(),
    }
}

/// Whether a value is of a type that a schema allows.
pub(crate) fn fits(node: &Node, schema: &Json) -> bool {
    let any = |names: &[&str]| names.iter().any(|n| allows(schema, n));
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
pub(crate) fn constants(schema: &Json) -> Vec<&str> {
    schema
        .get("oneOf")
        .and_then(Json::as_array)
        .into_iter()
        .flatten()
        .filter_map(|c| c.get("const")?.as_str())
        .collect()
}

/// Whether a mapping may hold anything.
pub(crate) fn is_free(schema: &Json) -> bool {
    schema.get("additionalProperties") == Some(&Json::Bool(true))
}

/// A single value that may be of any type.
pub(crate) fn plain(kind: Kind, text: &str) -> Json {
    let number = || match integer(text) {
        Some(whole) => {
            u64::try_from(whole).map(Number::from).or_else(|_| i64::try_from(whole).map(Number::from)).ok()
        }
        None => text.parse().ok().and_then(Number::from_f64),
    };
    match kind {
        Kind::Null => Json::Null,
        Kind::Bool => Json::Bool(text.eq_ignore_ascii_case("true")),
        Kind::Int | Kind::Float => number().map_or_else(|| Json::from(text), Json::Number),
        Kind::Str => Json::from(text),
    }
}

/// The keys of which a mapping takes exactly one, if it does.
pub(crate) fn alternatives<'s>(schema: &'s Json, known: &'s Map<String, Json>) -> Option<Vec<&'s str>> {
    if schema.get("maxProperties").is_some() {
        return Some(known.keys().map(String::as_str).collect());
    }
    let each = schema.get("oneOf")?.as_array()?.iter();
    let keys: Vec<&str> = each.filter_map(|choice| choice.get("required")?.get(0)?.as_str()).collect();
    (!keys.is_empty()).then_some(keys)
}

pub(crate) fn example(schema: &Json) -> Option<String> {
    let Some(example) = schema.get("examples").and_then(|e| e.get(0)) else {
        return constants(schema).first().map(|c| (*c).to_owned());
    };
    match example {
        Json::String(text) => Some(text.clone()),
        Json::Object(map) => {
            let pairs: Vec<String> =
                map.iter().filter_map(|(k, v)| Some(format!("{k}: {}", v.as_str()?))).collect();
            Some(format!("{{{}}}", pairs.join(", ")))
        }
        other => Some(other.to_string()),
    }
}

pub(crate) fn bounds(schema: &Json) -> (Option<f64>, Option<f64>) {
    let of_type = match schema.get("format").and_then(Json::as_str) {
        Some("uint8") => Some(f64::from(u8::MAX)),
        Some("uint16") => Some(f64::from(u16::MAX)),
        Some("uint32") => Some(f64::from(u32::MAX)),
        _ => None,
    };
    let number = |key: &str| schema.get(key).and_then(Json::as_f64);
    (number("minimum"), number("maximum").or(of_type))
}

pub(crate) fn in_bounds(value: f64, low: Option<f64>, high: Option<f64>) -> bool {
    low.is_none_or(|l| value >= l) && high.is_none_or(|h| value <= h)
}

pub(crate) fn integer(text: &str) -> Option<i128> {
    if let Some(hex) = text.strip_prefix("0x") {
        return i128::from_str_radix(hex, 16).ok();
    }
    if let Some(octal) = text.strip_prefix("0o") {
        return i128::from_str_radix(octal, 8).ok();
    }
    text.parse().ok()
}

pub(crate) fn type_name(name: &str) -> &'static str {
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

pub(crate) fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Null => "empty",
        Kind::Bool => "true or false",
        Kind::Int => "a whole number",
        Kind::Float => "a number",
        Kind::Str => "text",
    }
}
