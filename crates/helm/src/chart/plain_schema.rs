//! A quick yes for values that fit a schema of the common keywords; everything else is left to the full validator.
//!
//! Compiling a large schema takes far longer than rendering a chart, and nearly every schema in a chart only says which
//! types its values have. Such a schema is read in one pass and walked once. Whatever is not certain to be valid here, be
//! it a keyword, its form or a value, is no verdict.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value as Json};

/// The drafts under which the keywords below mean the same.
const DRAFTS: [&str; 5] =
    ["draft-04/schema", "draft-06/schema", "draft-07/schema", "2019-09/schema", "2020-12/schema"];

/// Whether values certainly fit a schema.
pub(super) fn certainly_fits(schema: &[u8], values: &Map<String, Json>) -> bool {
    serde_json::from_slice::<Schema<'_>>(schema).is_ok_and(|schema| schema.fits_table(values) == Some(true))
}

/// A schema without anything that needs more than a look at the value.
#[derive(Debug, Default)]
struct Schema<'a> {
    types: Option<Types>,
    properties: Vec<(Text<'a>, Schema<'a>)>,
    required: Vec<Text<'a>>,
    additional: Option<Additional<'a>>,
    items: Option<Box<Schema<'a>>>,
    choices: Option<Vec<Json>>,
    any_of: Option<Vec<Schema<'a>>>,
    all_of: Option<Vec<Schema<'a>>>,
    one_of: Option<Vec<Schema<'a>>>,
    not: Option<Box<Schema<'a>>>,
    minimum: Option<f64>,
    maximum: Option<f64>,
    min_length: Option<usize>,
    max_length: Option<usize>,
    min_items: Option<usize>,
    max_items: Option<usize>,
}

#[derive(Debug)]
enum Additional<'a> {
    Any,
    None,
    Fitting(Box<Schema<'a>>),
}

/// Types as a set of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Types(u8);

impl Types {
    const NULL: u8 = 1;
    const BOOLEAN: u8 = 2;
    const INTEGER: u8 = 4;
    const NUMBER: u8 = 8;
    const STRING: u8 = 16;
    const ARRAY: u8 = 32;
    const OBJECT: u8 = 64;

    fn named(name: &str) -> Option<u8> {
        Some(match name {
            "null" => Self::NULL,
            "boolean" => Self::BOOLEAN,
            "integer" => Self::INTEGER,
            "number" => Self::NUMBER,
            "string" => Self::STRING,
            "array" => Self::ARRAY,
            "object" => Self::OBJECT,
            _ => return None,
        })
    }

    fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }
}

/// `Some` is a verdict; `None` means that somebody else has to judge.
type Verdict = Option<bool>;

impl Schema<'_> {
    fn fits(&self, value: &Json) -> Verdict {
        if let Some(types) = self.types
            && !type_fits(types, value)?
        {
            return Some(false);
        }
        if let Some(choices) = &self.choices
            && !choices.iter().any(|choice| same(choice, value))
        {
            return Some(false);
        }
        let own = match value {
            Json::Object(table) => self.table_keywords(table)?,
            Json::Array(items) => self.list_keywords(items)?,
            Json::String(text) => self.text_keywords(text),
            Json::Number(number) => self.number_keywords(number.as_f64()?),
            Json::Null | Json::Bool(_) => true,
        };
        if !own {
            return Some(false);
        }
        self.combined(value)
    }

    /// As [`Schema::fits`], of a table that is no [`Json`] yet.
    fn fits_table(&self, table: &Map<String, Json>) -> Verdict {
        let combines =
            self.any_of.is_some() || self.all_of.is_some() || self.one_of.is_some() || self.not.is_some();
        if combines || self.choices.is_some() {
            return None;
        }
        if self.types.is_some_and(|types| !types.has(Types::OBJECT)) {
            return Some(false);
        }
        self.table_keywords(table)
    }

    fn combined(&self, value: &Json) -> Verdict {
        let count = |schemas: &[Schema<'_>]| {
            schemas.iter().try_fold(0usize, |count, schema| Some(count + usize::from(schema.fits(value)?)))
        };
        if let Some(schemas) = &self.all_of
            && count(schemas)? != schemas.len()
        {
            return Some(false);
        }
        if let Some(schemas) = &self.any_of
            && count(schemas)? == 0
        {
            return Some(false);
        }
        if let Some(schemas) = &self.one_of
            && count(schemas)? != 1
        {
            return Some(false);
        }
        match &self.not {
            Some(schema) => schema.fits(value).map(|fits| !fits),
            None => Some(true),
        }
    }

    fn table_keywords(&self, table: &Map<String, Json>) -> Verdict {
        if !self.required.iter().all(|name| table.contains_key(&*name.0)) {
            return Some(false);
        }
        for (name, schema) in &self.properties {
            if let Some(value) = table.get(&*name.0)
                && !schema.fits(value)?
            {
                return Some(false);
            }
        }
        let unknown = |name: &str| !self.properties.iter().any(|(known, _)| known.0 == name);
        match &self.additional {
            None | Some(Additional::Any) => {}
            Some(Additional::None) => return Some(!table.keys().any(|name| unknown(name))),
            Some(Additional::Fitting(schema)) => {
                for (_, value) in table.iter().filter(|(name, _)| unknown(name)) {
                    if !schema.fits(value)? {
                        return Some(false);
                    }
                }
            }
        }
        Some(true)
    }

    fn list_keywords(&self, items: &[Json]) -> Verdict {
        if self.min_items.is_some_and(|least| items.len() < least)
            || self.max_items.is_some_and(|most| items.len() > most)
        {
            return Some(false);
        }
        if let Some(schema) = &self.items {
            for item in items {
                if !schema.fits(item)? {
                    return Some(false);
                }
            }
        }
        Some(true)
    }

    fn text_keywords(&self, text: &str) -> bool {
        if self.min_length.is_none() && self.max_length.is_none() {
            return true;
        }
        let length = text.chars().count();
        self.min_length.is_none_or(|least| length >= least)
            && self.max_length.is_none_or(|most| length <= most)
    }

    fn number_keywords(&self, number: f64) -> bool {
        self.minimum.is_none_or(|least| number >= least) && self.maximum.is_none_or(|most| number <= most)
    }
}

fn type_fits(types: Types, value: &Json) -> Verdict {
    Some(match value {
        Json::Null => types.has(Types::NULL),
        Json::Bool(_) => types.has(Types::BOOLEAN),
        Json::String(_) => types.has(Types::STRING),
        Json::Array(_) => types.has(Types::ARRAY),
        Json::Object(_) => types.has(Types::OBJECT),
        Json::Number(_) if types.has(Types::NUMBER) => true,
        Json::Number(number) if types.has(Types::INTEGER) => match number.as_f64() {
            // Beyond that drafts differ on what is an integer.
            Some(f) if f.abs() < 9e15 => f.fract() == 0.0,
            _ => return None,
        },
        Json::Number(_) => false,
    })
}

/// Equality under which `1` and `1.0` are the same.
fn same(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(a), Json::Number(b)) => a.as_f64() == b.as_f64(),
        (Json::Array(a), Json::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}

/// Text that is only copied when it has escapes in it.
#[derive(Debug, PartialEq)]
struct Text<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(TextVisitor)
    }
}

impl<'de> Deserialize<'de> for Types {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TypesVisitor;
        impl<'de> Visitor<'de> for TypesVisitor {
            type Value = Types;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a type, or several")
            }

            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Types, E> {
                Types::named(name).map(Types).ok_or_else(|| E::custom("unknown type"))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut names: A) -> Result<Types, A::Error> {
                let mut types = Types(0);
                while let Some(name) = names.next_element::<Text<'de>>()? {
                    match Types::named(&name.0) {
                        Some(bit) if !types.has(bit) => types.0 |= bit,
                        _ => return Err(A::Error::custom("unknown or repeated type")),
                    }
                }
                if types.0 == 0 { Err(A::Error::custom("no type")) } else { Ok(types) }
            }
        }
        deserializer.deserialize_any(TypesVisitor)
    }
}

impl<'de> Deserialize<'de> for Additional<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AdditionalVisitor;
        impl<'de> Visitor<'de> for AdditionalVisitor {
            type Value = Additional<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a boolean or a schema")
            }

            fn visit_bool<E>(self, any: bool) -> Result<Additional<'de>, E> {
                Ok(if any { Additional::Any } else { Additional::None })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Additional<'de>, A::Error> {
                SchemaVisitor.visit_map(map).map(|schema| Additional::Fitting(Box::new(schema)))
            }
        }
        deserializer.deserialize_any(AdditionalVisitor)
    }
}

/// The table under `properties`, in its order.
struct Properties<'a>(Vec<(Text<'a>, Schema<'a>)>);

impl<'de> Deserialize<'de> for Properties<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PropertiesVisitor;
        impl<'de> Visitor<'de> for PropertiesVisitor {
            type Value = Properties<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("schemas by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Properties<'de>, A::Error> {
                let mut properties = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    properties.push(entry);
                }
                Ok(Properties(properties))
            }
        }
        deserializer.deserialize_map(PropertiesVisitor)
    }
}

struct SchemaVisitor;

impl<'de> Deserialize<'de> for Schema<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(SchemaVisitor)
    }
}

impl<'de> Visitor<'de> for SchemaVisitor {
    type Value = Schema<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a schema")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Schema<'de>, A::Error> {
        let mut schema = Schema::default();
        while let Some(keyword) = map.next_key::<Text<'de>>()? {
            match &*keyword.0 {
                "type" => schema.types = Some(map.next_value()?),
                "properties" => schema.properties = map.next_value::<Properties<'de>>()?.0,
                "required" => schema.required = map.next_value()?,
                "additionalProperties" => schema.additional = Some(map.next_value()?),
                "items" => schema.items = Some(map.next_value()?),
                "enum" => schema.choices = Some(some(map.next_value()?)?),
                "anyOf" => schema.any_of = Some(some(map.next_value()?)?),
                "allOf" => schema.all_of = Some(some(map.next_value()?)?),
                "oneOf" => schema.one_of = Some(some(map.next_value()?)?),
                "not" => schema.not = Some(map.next_value()?),
                "minimum" => schema.minimum = Some(map.next_value()?),
                "maximum" => schema.maximum = Some(map.next_value()?),
                "minLength" => schema.min_length = Some(map.next_value()?),
                "maxLength" => schema.max_length = Some(map.next_value()?),
                "minItems" => schema.min_items = Some(map.next_value()?),
                "maxItems" => schema.max_items = Some(map.next_value()?),
                "title" | "description" => drop(map.next_value::<Text<'de>>()?),
                "default" => drop(map.next_value::<IgnoredAny>()?),
                "$schema" => {
                    let draft = map.next_value::<Text<'de>>()?.0;
                    let path = draft.trim_end_matches('#').split_once("://json-schema.org/");
                    let name = path.map(|(_, path)| path.trim_start_matches("draft/"));
                    if !name.is_some_and(|name| DRAFTS.contains(&name)) {
                        return Err(A::Error::custom("another draft"));
                    }
                }
                _ => return Err(A::Error::custom("another keyword")),
            }
        }
        Ok(schema)
    }
}

/// A list that says nothing unless something is in it.
fn some<T, E: serde::de::Error>(items: Vec<T>) -> Result<Vec<T>, E> {
    if items.is_empty() { Err(E::custom("an empty list")) } else { Ok(items) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(schema: &str, values: &str) -> bool {
        certainly_fits(schema.as_bytes(), &serde_json::from_str(values).unwrap())
    }

    #[test]
    fn common_schemas_are_judged() {
        let schema = r#"{
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object", "title": "t",
            "required": ["a"],
            "properties": {
                "a": {"type": ["integer", "null"], "minimum": 1, "maximum": 9},
                "b": {"type": "array", "minItems": 1, "items": {"anyOf": [{"type": "string", "maxLength": 2}, {"type": "object"}]}},
                "c": {"enum": ["x", 1, null]},
                "d": {"type": "object", "properties": {"e": {"type": "boolean"}}, "additionalProperties": false},
                "f": {"type": "object", "additionalProperties": {"type": "number"}},
                "g": {"oneOf": [{"type": "number"}, {"type": "integer"}]},
                "h": {"not": {"type": "string"}},
                "esc\u0061ped": {"allOf": [{"type": "string"}, {"minLength": 1}]}
            }
        }"#;
        for good in [
            r#"{"a": 3.0, "z": 1}"#,
            r#"{"a": null, "b": ["xy", {}], "c": 1.0, "d": {"e": true}, "f": {"q": 1}, "g": 1.5, "h": 0}"#,
            r#"{"a": 1, "escaped": "x"}"#,
        ] {
            assert!(fits(schema, good), "{good}");
        }
        for bad in [
            "{}",
            r#"{"a": 1.5}"#,
            r#"{"a": 10}"#,
            r#"{"a": 1, "b": []}"#,
            r#"{"a": 1, "b": ["xyz"]}"#,
            r#"{"a": 1, "c": "y"}"#,
            r#"{"a": 1, "d": {"z": 1}}"#,
            r#"{"a": 1, "f": {"q": "1"}}"#,
            r#"{"a": 1, "g": 1}"#,
            r#"{"a": 1, "h": ""}"#,
            r#"{"a": 1, "escaped": ""}"#,
        ] {
            assert!(!fits(schema, bad), "{bad}");
        }
    }

    #[test]
    fn what_it_does_not_know_for_certain_is_left_to_others() {
        for schema in [
            r##"{"$ref": "#/definitions/a"}"##,
            r#"{"properties": {"never": {"pattern": "("}}}"#,
            r#"{"properties": {"never": true}}"#,
            r#"{"type": "string or so"}"#,
            r#"{"type": []}"#,
            r#"{"required": "a"}"#,
            r#"{"items": [{}]}"#,
            r#"{"minLength": -1}"#,
            r#"{"anyOf": []}"#,
            r#"{"$schema": "http://example.com/mine"}"#,
            r#"{"type": "object""#,
            "true",
        ] {
            assert!(!fits(schema, "{}"), "{schema}");
        }
    }
}
