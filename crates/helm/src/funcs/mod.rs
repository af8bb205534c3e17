//! The functions templates can call: Go's builtins, Sprig's, and Helm's own.

mod builtins;
mod casing;
mod cast;
mod certificates;
pub(crate) mod cost;
mod crypto;
mod dates;
mod decimal;
mod defaults;
mod dicts;
mod encoding;
mod helm;
mod lists;
mod math;
mod paths;
mod reflection;
mod regexes;
mod strings;
mod toml;
mod urls;
mod versions;

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::OnceLock;

use cost::Cost;

use crate::template::exec::{Exec, FuncResult};
use crate::value::{ListKind, MapKind, Value};

/// The type of a parameter, as Go declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Any,
    /// `reflect.Value`: anything, with a nil interface still told from no value.
    Reflect,
    Bool,
    Int,
    Uint32,
    Float,
    Str,
    Map,
    List,
    Time,
    Duration,
    Certificate,
    Version,
}

impl Type {
    pub(crate) fn go_name(self) -> &'static str {
        match self {
            Type::Any => "interface {}",
            Type::Reflect => "reflect.Value",
            Type::Bool => "bool",
            Type::Int => "int",
            Type::Uint32 => "uint32",
            Type::Float => "float64",
            Type::Str => "string",
            Type::Map => "map[string]interface {}",
            Type::List => "[]interface {}",
            Type::Time => "time.Time",
            Type::Duration => "time.Duration",
            Type::Certificate => "sprig.certificate",
            Type::Version => "*semver.Version",
        }
    }

    /// What a nil becomes under this type, when it may be nil at all.
    pub(crate) fn nil(self) -> Option<Value> {
        match self {
            Type::Any | Type::Reflect => Some(Value::Nil),
            Type::Map => Some(Value::nil_map(MapKind::Any)),
            Type::List => Some(Value::nil_list(ListKind::Any)),
            _ => None,
        }
    }

    /// Whether a value that is not nil may be passed.
    pub(crate) fn accepts(self, value: &Value) -> bool {
        match (self, value) {
            (Type::Any | Type::Reflect, _) => true,
            (Type::Bool, Value::Bool(_))
            | (Type::Int, Value::Int(_))
            | (Type::Float, Value::Float(_))
            | (Type::Str, Value::Str(_))
            | (Type::Time, Value::Time(_))
            | (Type::Duration, Value::Duration(_)) => true,
            (Type::Version, Value::Version(v)) => !v.by_value,
            (Type::Map, Value::Map(m)) => m.kind != MapKind::Strings,
            (Type::List, Value::List(l)) => l.kind == ListKind::Any,
            (Type::Certificate, Value::Struct(s)) => s.type_name == "sprig.certificate",
            _ => false,
        }
    }
}

/// Parameter types: fixed ones, and that of any further ones.
#[derive(Debug)]
pub(crate) struct Signature {
    pub(crate) params: &'static [Type],
    pub(crate) variadic: Option<Type>,
}

/// A function templates can call.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) signature: Signature,
    pub(crate) cost: Cost,
    pub(crate) run: fn(&mut Exec<'_>, &mut [Value]) -> FuncResult,
}

type Entry = Function;

/// A function with exactly these parameters.
const fn fixed(
    name: &'static str,
    params: &'static [Type],
    run: fn(&mut Exec<'_>, &mut [Value]) -> FuncResult,
) -> Entry {
    Function { name, signature: Signature { params, variadic: None }, cost: Cost::Length, run }
}

/// A function with these parameters and any number more of one type.
const fn variadic(
    name: &'static str,
    params: &'static [Type],
    rest: Type,
    run: fn(&mut Exec<'_>, &mut [Value]) -> FuncResult,
) -> Entry {
    Function { name, signature: Signature { params, variadic: Some(rest) }, cost: Cost::Length, run }
}

/// The function of a name.
pub(crate) fn find(name: &str) -> Option<&'static Function> {
    static TABLE: OnceLock<HashMap<&'static str, Function, BuildHasherDefault<NameHasher>>> = OnceLock::new();
    TABLE
        .get_or_init(|| {
            let mut table = HashMap::default();
            table.reserve(300);
            // Later groups replace what earlier ones define: Sprig shadows builtins, Helm shadows Sprig.
            for group in [
                builtins::functions,
                casing::functions,
                crypto::functions,
                certificates::functions,
                dates::functions,
                defaults::functions,
                dicts::functions,
                encoding::functions,
                lists::functions,
                math::functions,
                paths::functions,
                reflection::functions,
                regexes::functions,
                strings::functions,
                urls::functions,
                versions::functions,
                helm::functions,
            ] {
                table.extend(group().into_iter().map(|mut function| {
                    function.cost = cost::of(function.name);
                    (function.name, function)
                }));
            }
            table
        })
        .get(name)
}

/// FNV-1a: the names in the table are short and our own, so that nobody can make them collide.
struct NameHasher(u64);

impl Default for NameHasher {
    fn default() -> Self {
        NameHasher(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for NameHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Text of an argument the signature promises to be a string.
fn text(args: &[Value], index: usize) -> String {
    match args.get(index) {
        Some(Value::Str(s)) => s.text().into_owned(),
        _ => String::new(),
    }
}

/// Bytes of an argument the signature promises to be a string.
fn bytes(args: &[Value], index: usize) -> &[u8] {
    match args.get(index) {
        Some(Value::Str(s)) => s.as_bytes(),
        _ => &[],
    }
}

/// An argument the signature promises to be an `int`.
fn int(args: &[Value], index: usize) -> i64 {
    match args.get(index) {
        Some(Value::Int(i) | Value::Int64(i)) => *i,
        _ => 0,
    }
}

/// Takes an argument out of the list.
fn take(args: &mut [Value], index: usize) -> Value {
    args.get_mut(index).map_or(Value::Nil, |v| std::mem::replace(v, Value::Nil))
}

/// Sprig's `strval`: how any value becomes a string.
fn strval(value: &Value) -> crate::value::Str {
    match value {
        Value::Str(s) => s.clone(),
        Value::Bytes(b) => (**b).into(),
        other => match crate::printf::stringer(other) {
            Some(text) => text.into(),
            None => crate::printf::display(other).into(),
        },
    }
}

/// A value as `toYaml` writes it.
pub(crate) fn helm_yaml(value: &Value) -> Vec<u8> {
    helm::to_yaml(value, crate::yaml::Style::Kubernetes)
}

/// The last element of a path.
pub(crate) fn path_base(path: &str) -> String {
    paths::base(path)
}

/// The marks around messages of `fail` and `required`.
pub(crate) const WARNING: (&str, &str) = (helm::WARN_START, helm::WARN_END);

/// `url.QueryEscape`.
pub(crate) fn query_escape(input: &[u8]) -> String {
    urls::query_escape(input)
}
