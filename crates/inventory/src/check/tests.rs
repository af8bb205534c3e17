//! The schema is understood whole, and documents that lack things still read.

use std::collections::{BTreeSet, HashSet};

use serde::Deserialize;

use super::*;
use crate::document::Document;
use crate::schema;

/// What the checker acts on; the rest is for people, or left to the resolver (`pattern`), which says it better.
const UNDERSTOOD: [&str; 15] = [
    "$ref",
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "anyOf",
    "oneOf",
    "const",
    "minimum",
    "maximum",
    "minProperties",
    "maxProperties",
    "format",
    "writeOnly",
];
const FOR_PEOPLE: [&str; 6] = ["$schema", "$defs", "title", "description", "examples", "pattern"];
const FORMATS: [&str; 5] = ["uint16", "uint32", "double", "path", "chart"];

fn collect(schema: &Json, words: &mut BTreeSet<String>) {
    let Some(map) = schema.as_object() else { return };
    for (word, inner) in map {
        words.insert(word.clone());
        match word.as_str() {
            "properties" | "$defs" => {
                inner.as_object().into_iter().flatten().for_each(|(_, s)| collect(s, words));
            }
            "anyOf" | "oneOf" => inner.as_array().into_iter().flatten().for_each(|s| collect(s, words)),
            "items" | "additionalProperties" => collect(inner, words),
            "format" => assert!(FORMATS.contains(&inner.as_str().unwrap_or("")), "{inner}"),
            _ => {}
        }
    }
}

#[test]
fn every_word_of_the_schema_is_understood() {
    let mut words = BTreeSet::new();
    collect(schema::cached(), &mut words);
    let known: BTreeSet<&str> = UNDERSTOOD.iter().chain(&FOR_PEOPLE).copied().collect();
    let unknown: Vec<&String> = words.iter().filter(|w| !known.contains(w.as_str())).collect();
    assert!(unknown.is_empty(), "the checker does not know {unknown:?}");
}

#[test]
fn every_mapping_refuses_unknown_keys() {
    for (name, schema) in schema::cached()["$defs"].as_object().expect("definitions") {
        if schema["type"] == "object" {
            assert_eq!(schema["additionalProperties"], Json::Bool(false), "{name}");
        }
    }
}

#[test]
fn a_document_without_anything_still_reads() {
    let (documents, _) = crate::yaml::parse("{}", 0);
    let checked = check(&documents[0], schema::cached(), &[], HashSet::new());
    assert!(!checked.findings.is_empty());
    Document::deserialize(checked.value).expect("stand-ins fit the types");
}
