//! Sprig's dictionaries.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::{Entry, Type, fixed, strval, take, variadic};
use crate::semver::Version;
use crate::template::exec::{Exec, FuncError, FuncResult};
use crate::value::{List, MAX_NESTING, Map, Str, Value};

pub(super) fn functions() -> Vec<Entry> {
    use Type::{Any, Map as Dict, Str as Text};
    vec![
        variadic("dict", &[], Any, dict),
        fixed("get", &[Dict, Text], |_, args| {
            Ok(map(args, 0)?.get(super::bytes(args, 1)).unwrap_or_else(|| Value::string("")))
        }),
        fixed("set", &[Dict, Text, Any], |_, args| {
            let target = map(args, 0)?;
            if target.nil.get() {
                return Err("assignment to entry in nil map".into());
            }
            target.insert(super::bytes(args, 1).into(), take(args, 2));
            Ok(Value::Map(target))
        }),
        fixed("unset", &[Dict, Text], |_, args| {
            map(args, 0)?.entries.borrow_mut().remove(super::bytes(args, 1));
            Ok(take(args, 0))
        }),
        fixed("hasKey", &[Dict, Text], |_, args| {
            Ok(Value::Bool(map(args, 0)?.entries.borrow().contains_key(super::bytes(args, 1))))
        }),
        variadic("pluck", &[Text], Dict, |_, args| {
            let key = super::bytes(args, 0);
            let mut found = Vec::new();
            for i in 1..args.len() {
                found.extend(map(args, i)?.get(key));
            }
            Ok(Value::list(found))
        }),
        variadic("keys", &[], Dict, |_, args| {
            let mut keys = Vec::new();
            for i in 0..args.len() {
                keys.extend(map(args, i)?.entries.borrow().keys().cloned());
            }
            Ok(Value::strings(keys))
        }),
        fixed("values", &[Dict], |_, args| {
            Ok(Value::list(map(args, 0)?.entries.borrow().values().cloned().collect()))
        }),
        variadic("pick", &[Dict], Text, |_, args| {
            let source = map(args, 0)?;
            let mut picked = BTreeMap::new();
            for i in 1..args.len() {
                if let Some(value) = source.get(super::bytes(args, i)) {
                    picked.insert(super::bytes(args, i).into(), value);
                }
            }
            Ok(Value::map(picked))
        }),
        variadic("omit", &[Dict], Text, |_, args| {
            let mut rest: BTreeMap<Str, Value> = map(args, 0)?.entries.borrow().clone();
            for i in 1..args.len() {
                rest.remove(super::bytes(args, i));
            }
            Ok(Value::map(rest))
        }),
        variadic("merge", &[Dict], Dict, |_, args| {
            Ok(merge_all(args, false).unwrap_or_else(|_| Value::string("")))
        }),
        variadic("mustMerge", &[Dict], Dict, |_, args| merge_all(args, false)),
        variadic("mergeOverwrite", &[Dict], Dict, |_, args| {
            Ok(merge_all(args, true).unwrap_or_else(|_| Value::string("")))
        }),
        variadic("mustMergeOverwrite", &[Dict], Dict, |_, args| merge_all(args, true)),
        fixed("deepCopy", &[Any], |_, args| copied(&args[0])),
        fixed("mustDeepCopy", &[Any], |_, args| copied(&args[0])),
        variadic("dig", &[], Any, dig),
    ]
}

fn map(args: &[Value], index: usize) -> Result<Rc<Map>, FuncError> {
    match args.get(index) {
        Some(Value::Map(map)) => Ok(map.clone()),
        _ => Err("expected a dictionary".into()),
    }
}

fn dict(_: &mut Exec<'_>, args: &mut [Value]) -> FuncResult {
    let mut entries = BTreeMap::new();
    for pair in args.chunks(2) {
        let value = pair.get(1).cloned().unwrap_or_else(|| Value::string(""));
        entries.insert(strval(&pair[0]), value);
    }
    Ok(Value::map(entries))
}

fn merge_all(args: &mut [Value], overwrite: bool) -> FuncResult {
    let mut target = map(args, 0)?;
    for i in 1..args.len() {
        let source = map(args, i)?;
        if target.nil.get() && !source.nil.get() {
            let Value::Map(fresh) = Value::map(BTreeMap::new()) else { continue };
            target = fresh;
        }
        merge(&target, &source, overwrite, 0)?;
    }
    Ok(Value::Map(target))
}

/// Merges as mergo does: absent and empty entries are filled, maps are merged; overwriting replaces the rest.
fn merge(target: &Rc<Map>, source: &Rc<Map>, overwrite: bool, depth: usize) -> Result<(), String> {
    if Rc::ptr_eq(target, source) {
        return Ok(());
    }
    if depth > MAX_NESTING {
        return Err("values nest too deep to merge".to_owned());
    }
    let entries: Vec<(Str, Value)> =
        source.entries.borrow().iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    for (key, value) in entries {
        let existing = target.get(key.as_bytes());
        if value.is_nil() {
            if overwrite {
                target.insert(key, value);
            }
            continue;
        }
        match (&value, &existing) {
            (Value::Map(_), Some(Value::Version(version))) if !overwrite && !version.by_value => {
                return Err("src and dst must be of same type".to_owned());
            }
            (Value::Map(source), Some(Value::Map(inner))) => merge(inner, source, overwrite, depth + 1)?,
            (Value::List(_) | Value::Bytes(_), _) if overwrite => {
                target.insert(key.clone(), value.clone());
            }
            _ => {}
        }
        let filled = existing.as_ref().is_some_and(|e| !is_empty(e));
        if filled {
            let keep = match (&value, &existing) {
                (Value::List(_) | Value::Bytes(_), _) => true,
                (Value::Map(_), Some(Value::Map(_))) => true,
                _ => !overwrite,
            };
            if keep {
                continue;
            }
        }
        if overwrite || !filled {
            // An empty map that was just merged into stays the map it is.
            if let (Value::Map(_), Some(Value::Map(inner))) = (&value, &existing)
                && inner.len() > 0
            {
                continue;
            }
            target.insert(key, value);
        }
    }
    Ok(())
}

fn is_empty(value: &Value) -> bool {
    value.is_empty()
}

fn copied(value: &Value) -> FuncResult {
    if value.is_nil() {
        return Err("reflect: call of reflect.Value.Type on zero Value".into());
    }
    Ok(deep_copy(value, 0)?)
}

fn deep_copy(value: &Value, depth: usize) -> Result<Value, String> {
    if depth > MAX_NESTING {
        return Err("values nest too deep to copy".to_owned());
    }
    Ok(match value {
        Value::List(list) => Value::List(Rc::new(List {
            kind: list.kind,
            nil: list.nil,
            items: list.items.iter().map(|i| deep_copy(i, depth + 1)).collect::<Result<_, _>>()?,
        })),
        Value::Map(map) => {
            let mut copied = BTreeMap::new();
            for (key, value) in map.entries.borrow().iter() {
                copied.insert(key.clone(), deep_copy(value, depth + 1)?);
            }
            let copy = Value::map_of(map.kind, copied);
            if let Value::Map(copy) = &copy {
                copy.nil.set(map.nil.get());
            }
            copy
        }
        // Its fields are private, so the copy stays empty.
        Value::Version(v) => Value::Version(Rc::new(Version::empty(v.by_value))),
        other => other.clone(),
    })
}

fn dig(_: &mut Exec<'_>, args: &mut [Value]) -> FuncResult {
    if args.len() < 3 {
        return Err("dig needs at least three arguments".into());
    }
    let conversion = |value: &Value, wanted: &str| -> FuncError {
        let found = if value.is_nil() { "nil".into() } else { value.type_name() };
        format!("interface conversion: interface {{}} is {found}, not {wanted}").into()
    };
    let last = args.len() - 1;
    let Some(Value::Map(start)) = args.get(last).filter(|v| Type::Map.accepts(v)).cloned() else {
        return Err(conversion(&args[last], "map[string]interface {}"));
    };
    if start.kind != crate::value::MapKind::Any {
        return Err(conversion(&args[last], "map[string]interface {}"));
    }
    for key in &args[..last - 1] {
        if !matches!(key, Value::Str(_)) {
            return Err(conversion(key, "string"));
        }
    }
    let mut current = start;
    for index in 0..last - 1 {
        let Some(step) = current.get(super::bytes(args, index)) else { return Ok(take(args, last - 1)) };
        if index == last - 2 {
            return Ok(step);
        }
        match &step {
            Value::Map(next) if next.kind == crate::value::MapKind::Any => current = next.clone(),
            other => return Err(conversion(other, "map[string]interface {}")),
        }
    }
    Ok(take(args, last - 1))
}
