//! The words and types of the language, and what operators make of them.

use std::fmt;

use super::fields::Known;

/// What a part of an expression is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Type {
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Null,
    Duration,
    Timestamp,
    List(&'static Type),
    /// Of such keys such values.
    Map(&'static Type, &'static Type),
    /// Something that may be missing.
    Optional(&'static Type),
    Fields(&'static [Known]),
    /// Anything, for all that is known here.
    Dynamic,
}
use Type::{
    Bool, Bytes, Double, Duration, Dynamic, Fields, Int, List, Map, Null, Optional, Text, Timestamp, Uint,
};

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Bool => "true or false",
            Int => "a number",
            Uint => "an unsigned number",
            Double => "a fraction",
            Text => "a text",
            Bytes => "bytes",
            Null => "nothing",
            Duration => "a duration",
            Timestamp => "a time",
            List(_) => "a list",
            Map(..) => "a map",
            Optional(_) => "what may be missing",
            Fields(_) => "a set of fields",
            Dynamic => "anything",
        })
    }
}

/// Words that the language keeps for itself.
pub(super) const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];
/// Names of types, which are values too, and of the packages in which further ones are.
pub(super) const TYPES: [&str; 14] = [
    "int",
    "uint",
    "double",
    "bool",
    "string",
    "bytes",
    "list",
    "map",
    "null_type",
    "type",
    "google",
    "talos",
    "optional",
    "optional_type",
];
/// Functions, and how many values each takes.
pub(super) const FUNCTIONS: [(&str, usize); 16] = [
    ("size", 1),
    ("int", 1),
    ("uint", 1),
    ("double", 1),
    ("string", 1),
    ("bytes", 1),
    ("bool", 1),
    ("duration", 1),
    ("timestamp", 1),
    ("dyn", 1),
    ("type", 1),
    ("matches", 2),
    ("glob", 2),
    ("mac", 1),
    ("multiply_qos_vectors", 2),
    ("has", 1),
];
/// Functions behind a dot.
pub(super) const METHODS: [&str; 31] = [
    "contains",
    "startsWith",
    "endsWith",
    "matches",
    "size",
    "all",
    "exists",
    "exists_one",
    "existsOne",
    "map",
    "filter",
    "hasValue",
    "value",
    "or",
    "orValue",
    "optMap",
    "optFlatMap",
    "of",
    "none",
    "ofNonZeroValue",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getFullYear",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getSeconds",
    "first",
];

/// The type of which both are, as far as they are the same.
pub(super) fn joined(a: Type, b: Type) -> Option<Type> {
    match (a, b) {
        (Dynamic, _) | (_, Dynamic) => Some(Dynamic),
        (Null, Fields(_) | Duration | Timestamp) => Some(b),
        (Fields(_) | Duration | Timestamp, Null) => Some(a),
        (Map(k, v), Map(l, w)) => (joined(*k, *l).is_some() && joined(*v, *w).is_some()).then_some(a),
        (Optional(x), Optional(y)) => joined(*x, *y).map(|_| if *x == Dynamic { b } else { a }),
        (List(x), List(y)) => (joined(*x, *y).is_some()).then_some(if *x == Dynamic { a } else { b }),
        _ => (a == b).then_some(a),
    }
}

/// A type that others are made of, as far as it is a simple one.
pub(super) fn part(of: Type) -> &'static Type {
    match of {
        Bool => &Bool,
        Int => &Int,
        Uint => &Uint,
        Double => &Double,
        Text => &Text,
        Bytes => &Bytes,
        _ => &Dynamic,
    }
}

/// What an operator makes of two values.
pub(super) fn between(left: Type, sign: &str, right: Type) -> Option<Type> {
    let same = joined(left, right);
    match (sign, same) {
        ("&&" | "||", _) => (joined(left, Bool).is_some() && joined(right, Bool).is_some()).then_some(Bool),
        ("==" | "!=", _) => same.map(|_| Bool),
        ("in", _) => match right {
            List(element) => joined(left, *element).map(|_| Bool),
            Map(key, _) => joined(left, *key).map(|_| Bool),
            Dynamic => Some(Bool),
            _ => None,
        },
        ("<" | "<=" | ">" | ">=", Some(List(_) | Map(..) | Optional(_) | Fields(_) | Null)) => None,
        ("<" | "<=" | ">" | ">=", same) => same.map(|_| Bool),
        ("+", Some(Int | Uint | Double | Text | Bytes | List(_) | Duration | Dynamic)) => same,
        ("-", Some(Int | Uint | Double | Duration | Dynamic)) => same,
        ("-", Some(Timestamp)) => Some(Duration),
        ("*" | "/", Some(Int | Uint | Double | Dynamic)) | ("%", Some(Int | Uint | Dynamic)) => same,
        ("+" | "-", None) if left == Timestamp && right == Duration => Some(Timestamp),
        ("+", None) if left == Duration && right == Timestamp => Some(Timestamp),
        _ => None,
    }
}
