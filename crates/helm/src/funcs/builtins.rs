//! The functions Go's template language itself defines.

use std::cmp::Ordering;

use super::{Entry, Type, fixed, variadic};
use crate::printf;
use crate::strconv;
use crate::template::exec::{Exec, FuncResult};
use crate::value::{MapKind, Value};

pub(super) fn functions() -> Vec<Entry> {
    use Type::{Any, Reflect};
    vec![
        // `and` and `or` are evaluated by the executor, which stops at the first decisive argument.
        variadic("and", &[Reflect], Reflect, |_, args| Ok(args.last().cloned().unwrap_or(Value::Nil))),
        variadic("or", &[Reflect], Reflect, |_, args| Ok(args.last().cloned().unwrap_or(Value::Nil))),
        variadic("call", &[Reflect], Reflect, call),
        fixed("not", &[Reflect], |_, args| Ok(Value::Bool(!args[0].truth()))),
        fixed("len", &[Reflect], len),
        variadic("index", &[Reflect], Reflect, index),
        variadic("print", &[], Any, |_, args| Ok(Value::string(printf::sprint(args)))),
        variadic("println", &[], Any, |_, args| Ok(Value::string(printf::sprintln(args)))),
        variadic("printf", &[Type::Str], Any, |_, args| {
            Ok(Value::string(printf::sprintf(super::bytes(args, 0), &args[1..])))
        }),
        variadic("html", &[], Any, |_, args| Ok(Value::string(html(&joined(args))))),
        variadic("js", &[], Any, |_, args| Ok(Value::string(js(&joined(args))))),
        variadic("urlquery", &[], Any, |_, args| Ok(Value::string(super::urls::query_escape(&joined(args))))),
        variadic("eq", &[Reflect], Reflect, |_, args| equal(&args[0], &args[1..]).map(Value::Bool)),
        fixed("ne", &[Reflect, Reflect], |_, args| equal(&args[0], &args[1..]).map(|e| Value::Bool(!e))),
        fixed("lt", &[Reflect, Reflect], |_, args| less(&args[0], &args[1]).map(Value::Bool)),
        fixed("le", &[Reflect, Reflect], |_, args| at_most(&args[0], &args[1]).map(Value::Bool)),
        fixed("gt", &[Reflect, Reflect], |_, args| at_most(&args[0], &args[1]).map(|l| Value::Bool(!l))),
        fixed("ge", &[Reflect, Reflect], |_, args| less(&args[0], &args[1]).map(|l| Value::Bool(!l))),
    ]
}

type Check = Result<bool, crate::template::exec::FuncError>;

fn call(_: &mut Exec<'_>, args: &mut [Value]) -> FuncResult {
    match &args[0] {
        Value::Nil | Value::NilInterface => Err("call of nil".into()),
        other => Err(format!(
            "non-function {} of type {}",
            args.last()
                .map_or_else(String::new, |name| crate::strconv::lossy(&printf::display(name)).into_owned()),
            other.type_name()
        )
        .into()),
    }
}

fn len(_: &mut Exec<'_>, args: &mut [Value]) -> FuncResult {
    let length = match &args[0] {
        Value::Str(s) => s.len(),
        Value::Bytes(b) => b.len(),
        Value::List(l) => l.items.len(),
        Value::Map(m) => m.len(),
        Value::Files(f) => f.len(),
        Value::Nil => return Err("reflect: call of reflect.Value.Type on zero Value".into()),
        Value::NilInterface => return Err("len of nil pointer".into()),
        other => return Err(format!("len of type {}", other.type_name()).into()),
    };
    Ok(Value::Int(i64::try_from(length).unwrap_or(i64::MAX)))
}

fn position(index: &Value, length: usize) -> Result<usize, String> {
    let at = match index {
        Value::Int(i) | Value::Int64(i) | Value::Named(_, i, _) | Value::Duration(i) => *i,
        Value::Uint8(u) => i64::from(*u),
        Value::Uint64(u) => *u as i64,
        Value::Nil | Value::NilInterface => return Err("cannot index slice/array with nil".to_owned()),
        other => return Err(format!("cannot index slice/array with type {}", other.type_name())),
    };
    usize::try_from(at).ok().filter(|at| *at <= length).ok_or_else(|| format!("index out of range: {at}"))
}

fn index(_: &mut Exec<'_>, args: &mut [Value]) -> FuncResult {
    let mut item = args[0].clone().into_argument();
    if item.is_nil() {
        return Err("index of untyped nil".into());
    }
    for index in &args[1..] {
        let key = |index: &Value| match index {
            Value::Str(s) => Ok(s.clone()),
            Value::Nil | Value::NilInterface => Err("value is nil; should be of type string".to_owned()),
            other => Err(format!("value has type {}; should be string", other.type_name())),
        };
        item = match &item {
            Value::NilInterface | Value::Nil => return Err("index of nil pointer".into()),
            Value::List(_) | Value::Bytes(_) => {
                let elements = item.elements().unwrap_or_default();
                let at = position(index, elements.len())?;
                let Some(found) = elements.get(at) else {
                    return Err("reflect: slice index out of range".into());
                };
                if found.is_nil() { Value::NilInterface } else { found.clone() }
            }
            Value::Str(s) => {
                let at = position(index, s.len())?;
                match s.as_bytes().get(at) {
                    Some(byte) => Value::Uint8(*byte),
                    None => return Err("reflect: string index out of range".into()),
                }
            }
            Value::Map(map) => match map.get(key(index)?.as_bytes()) {
                Some(Value::Nil) => Value::NilInterface,
                Some(found) => found,
                None if map.kind == MapKind::Strings => Value::string(""),
                None => Value::NilInterface,
            },
            Value::Files(files) => Value::Bytes(files.get(&key(index)?.text()).unwrap_or_default().into()),
            other => {
                let name = other.type_name();
                return Err(format!("can't index item of type {}", name.trim_start_matches('*')).into());
            }
        };
    }
    Ok(item)
}

#[derive(Clone, Copy, PartialEq)]
enum Basic {
    Bool,
    Int(i64),
    Uint(u64),
    Float,
    Str,
    Other,
}

fn basic(value: &Value) -> Basic {
    match value {
        Value::Bool(_) => Basic::Bool,
        Value::Int(i) | Value::Int64(i) | Value::Duration(i) | Value::Named(_, i, _) => Basic::Int(*i),
        Value::Uint8(u) => Basic::Uint(u64::from(*u)),
        Value::Uint64(u) => Basic::Uint(*u),
        Value::Float(_) => Basic::Float,
        Value::Str(_) => Basic::Str,
        _ => Basic::Other,
    }
}

fn equal(first: &Value, others: &[Value]) -> Check {
    if others.is_empty() {
        return Err("missing argument for comparison".into());
    }
    for other in others {
        if equal_pair(first, other)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn equal_pair(a: &Value, b: &Value) -> Check {
    let incompatible =
        || Err(format!("incompatible types for comparison: {} and {}", a.type_name(), b.type_name()).into());
    Ok(match (basic(a), basic(b)) {
        (Basic::Int(x), Basic::Int(y)) => x == y,
        (Basic::Uint(x), Basic::Uint(y)) => x == y,
        (Basic::Int(x), Basic::Uint(y)) | (Basic::Uint(y), Basic::Int(x)) => u64::try_from(x) == Ok(y),
        (Basic::Bool, Basic::Bool) | (Basic::Float, Basic::Float) | (Basic::Str, Basic::Str) => {
            match (a, b) {
                (Value::Bool(x), Value::Bool(y)) => x == y,
                (Value::Float(x), Value::Float(y)) => x == y,
                (Value::Str(x), Value::Str(y)) => x == y,
                _ => false,
            }
        }
        (Basic::Other, Basic::Other) => return equal_other(a, b),
        _ if a.is_nil() || b.is_nil() => false,
        _ => return incompatible(),
    })
}

fn is_nil(value: &Value) -> bool {
    match value {
        Value::List(l) => l.nil,
        Value::Map(m) => m.nil.get(),
        other => other.is_nil(),
    }
}

fn equal_other(a: &Value, b: &Value) -> Check {
    let display =
        |v: &Value| crate::strconv::lossy(&printf::sprintf(b"%s", std::slice::from_ref(v))).into_owned();
    if a.kind_name() != b.kind_name() && !a.is_nil() && !b.is_nil() {
        return Err(format!(
            "non-comparable types {}: {}, {}: {}",
            display(a),
            a.type_name(),
            b.type_name(),
            display(b)
        )
        .into());
    }
    if is_nil(a) || is_nil(b) {
        return Ok(is_nil(a) == is_nil(b));
    }
    if matches!(b, Value::List(_) | Value::Bytes(_) | Value::Map(_) | Value::Files(_)) {
        return Err(format!("non-comparable type {}: {}", display(b), b.type_name()).into());
    }
    Ok(a.deep_equal(b))
}

fn less(a: &Value, b: &Value) -> Check {
    let invalid = || Err("invalid type for comparison".into());
    match (basic(a), basic(b)) {
        (Basic::Other, _) | (_, Basic::Other) => invalid(),
        (Basic::Int(x), Basic::Int(y)) => Ok(x < y),
        (Basic::Uint(x), Basic::Uint(y)) => Ok(x < y),
        (Basic::Int(x), Basic::Uint(y)) => Ok(u64::try_from(x).map_or(true, |x| x < y)),
        (Basic::Uint(x), Basic::Int(y)) => Ok(u64::try_from(y).is_ok_and(|y| x < y)),
        (Basic::Bool, Basic::Bool) => invalid(),
        (Basic::Float, Basic::Float) => match (a, b) {
            (Value::Float(x), Value::Float(y)) => Ok(x.partial_cmp(y) == Some(Ordering::Less)),
            _ => invalid(),
        },
        (Basic::Str, Basic::Str) => match (a, b) {
            (Value::Str(x), Value::Str(y)) => Ok(x < y),
            _ => invalid(),
        },
        _ => {
            Err(format!("incompatible types for comparison: {} and {}", a.type_name(), b.type_name()).into())
        }
    }
}

fn at_most(a: &Value, b: &Value) -> Check {
    Ok(less(a, b)? || equal_pair(a, b)?)
}

fn joined(args: &[Value]) -> Vec<u8> {
    let shown: Vec<Value> =
        args.iter().map(|a| if a.is_nil() { Value::string("<no value>") } else { a.clone() }).collect();
    printf::sprint(&shown)
}

fn html(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        match byte {
            0 => out.extend_from_slice("\u{fffd}".as_bytes()),
            b'"' => out.extend_from_slice(b"&#34;"),
            b'\'' => out.extend_from_slice(b"&#39;"),
            b'&' => out.extend_from_slice(b"&amp;"),
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            other => out.push(*other),
        }
    }
    out
}

fn js(text: &[u8]) -> String {
    let mut out = String::new();
    for c in crate::strconv::lossy(text).chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\'' => out.push_str("\\'"),
            '"' => out.push_str("\\\""),
            '<' | '>' | '&' | '=' => out.push_str(&format!("\\u{:04X}", c as u32)),
            c if c < ' ' => out.push_str(&format!("\\u{:04X}", c as u32)),
            c if c.is_ascii() || strconv::is_print(c) => out.push(c),
            c => out.push_str(&format!("\\u{:04X}", c as u32)),
        }
    }
    out
}
