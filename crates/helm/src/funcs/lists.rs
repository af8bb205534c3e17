//! Sprig's lists.

use super::cast::to_int;
use super::{Entry, Type, fixed, int, strval, take, variadic};
use crate::template::exec::{Exec, FuncError, FuncResult};
use crate::value::{ListKind, Str, Value};

pub(super) fn functions() -> Vec<Entry> {
    use Type::{Any, Int, Str as Text};
    let mut table = vec![
        variadic("list", &[], Any, |_, args| Ok(Value::list(args.to_vec()))),
        variadic("tuple", &[], Any, |_, args| Ok(Value::list(args.to_vec()))),
        variadic("concat", &[], Any, concat),
        fixed("join", &[Text, Any], |_, args| {
            let parts = strings(&args[1]);
            let parts: Vec<&[u8]> = parts.iter().map(Str::as_bytes).collect();
            Ok(Value::string(parts.join(super::bytes(args, 0))))
        }),
        fixed("sortAlpha", &[Any], |_, args| {
            let mut parts = match &args[0] {
                list @ (Value::List(_) | Value::Bytes(_)) => strings(list),
                other => vec![strval(other)],
            };
            parts.sort();
            Ok(Value::strings(parts))
        }),
        fixed("toStrings", &[Any], |_, args| Ok(Value::strings(strings(&args[0])))),
        fixed("until", &[Int], |exec, args| {
            let count = int(args, 0);
            range(exec, 0, count, if count < 0 { -1 } else { 1 })
        }),
        fixed("untilStep", &[Int, Int, Int], |exec, args| {
            range(exec, int(args, 0), int(args, 1), int(args, 2))
        }),
        variadic("seq", &[], Int, seq),
    ];
    type Run = fn(&mut Exec<'_>, &mut [Value]) -> FuncResult;
    let pairs: [(&'static str, &'static str, &'static [Type], Run); 11] = [
        ("append", "mustAppend", &[Any, Any], append),
        ("push", "mustPush", &[Any, Any], append),
        ("prepend", "mustPrepend", &[Any, Any], prepend),
        ("first", "mustFirst", &[Any], |_, args| {
            Ok(elements(&args[0], "find first on")?.first().cloned().unwrap_or(Value::Nil))
        }),
        ("last", "mustLast", &[Any], |_, args| {
            Ok(elements(&args[0], "find last on")?.last().cloned().unwrap_or(Value::Nil))
        }),
        ("rest", "mustRest", &[Any], |_, args| {
            let all = elements(&args[0], "find rest on")?;
            Ok(if all.is_empty() { Value::nil_list(ListKind::Any) } else { Value::list(all[1..].to_vec()) })
        }),
        ("initial", "mustInitial", &[Any], |_, args| {
            let all = elements(&args[0], "find initial on")?;
            Ok(match all.split_last() {
                Some((_, initial)) => Value::list(initial.to_vec()),
                None => Value::nil_list(ListKind::Any),
            })
        }),
        ("reverse", "mustReverse", &[Any], |_, args| {
            Ok(Value::list(elements(&args[0], "find reverse on")?.into_iter().rev().collect()))
        }),
        ("compact", "mustCompact", &[Any], |_, args| {
            Ok(Value::list(elements(&args[0], "compact on")?.into_iter().filter(|v| !v.is_empty()).collect()))
        }),
        ("uniq", "mustUniq", &[Any], |_, args| {
            let mut seen: Vec<Value> = Vec::new();
            for item in elements(&args[0], "find uniq on")? {
                if !seen.iter().any(|s| s.deep_equal(&item)) {
                    seen.push(item);
                }
            }
            Ok(Value::list(seen))
        }),
        ("chunk", "mustChunk", &[Int, Any], chunk),
    ];
    for (name, must, params, run) in pairs {
        table.push(fixed(name, params, run));
        table.push(fixed(must, params, run));
    }
    for name in ["has", "mustHas"] {
        table.push(fixed(name, &[Any, Any], |_, args| {
            if args[1].is_nil() {
                return Ok(Value::Bool(false));
            }
            let all = elements(&args[1], "find has on")?;
            Ok(Value::Bool(all.iter().any(|item| item.deep_equal(&args[0]))))
        }));
    }
    for name in ["without", "mustWithout"] {
        table.push(variadic(name, &[Any], Any, |_, args| {
            let all = elements(&args[0], "find without on")?;
            let omit = &args[1..];
            Ok(Value::list(all.into_iter().filter(|i| !omit.iter().any(|o| o.deep_equal(i))).collect()))
        }));
    }
    for name in ["slice", "mustSlice"] {
        table.push(variadic(name, &[Any], Any, slice));
    }
    table
}

/// The elements of a list argument; what Sprig says when it is none.
fn elements(value: &Value, operation: &str) -> Result<Vec<Value>, FuncError> {
    match value.elements() {
        Some(items) => Ok(items.into_owned()),
        None if value.is_nil() => {
            Err("runtime error: invalid memory address or nil pointer dereference".into())
        }
        None => Err(format!("Cannot {operation} type {}", value.kind_name()).into()),
    }
}

/// Sprig's `strslice`: any value as a list of strings, without its nils.
pub(super) fn strings(value: &Value) -> Vec<Str> {
    match value.elements() {
        Some(items) => items.iter().filter(|i| !i.is_nil()).map(strval).collect(),
        None if value.is_nil() => Vec::new(),
        None => vec![strval(value)],
    }
}

fn append(_: &mut Exec<'_>, args: &mut [Value]) -> FuncResult {
    let mut items = elements(&args[0], "push on")?;
    items.push(take(args, 1));
    Ok(Value::list(items))
}

fn prepend(_: &mut Exec<'_>, args: &mut [Value]) -> FuncResult {
    let mut items = elements(&args[0], "prepend on")?;
    items.insert(0, take(args, 1));
    Ok(Value::list(items))
}

fn concat(_: &mut Exec<'_>, args: &mut [Value]) -> FuncResult {
    let mut all = Vec::new();
    for list in args.iter() {
        match list.elements() {
            Some(items) => all.extend(items.iter().cloned()),
            None if list.is_nil() => {
                return Err("runtime error: invalid memory address or nil pointer dereference".into());
            }
            None => return Err(format!("Cannot concat type {} as list", list.kind_name()).into()),
        }
    }
    Ok(if all.is_empty() { Value::nil_list(ListKind::Any) } else { Value::list(all) })
}

fn chunk(_: &mut Exec<'_>, args: &mut [Value]) -> FuncResult {
    let size = int(args, 0);
    let items = elements(&args[1], "chunk")?;
    let Some(size) = usize::try_from(size).ok().filter(|s| *s > 0) else {
        // Go divides all the same, which now and then comes to something.
        let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
        return match length {
            1 if size < -1 => Ok(Value::list_of(ListKind::Lists, vec![Value::list(items)])),
            2.. if size < 0 && length - 1 <= size.saturating_neg() => {
                Ok(Value::list_of(ListKind::Lists, Vec::new()))
            }
            _ => Err("runtime error: makeslice: len out of range".into()),
        };
    };
    let chunks = items.chunks(size).map(|c| Value::list(c.to_vec())).collect();
    Ok(Value::list_of(ListKind::Lists, chunks))
}

fn slice(_: &mut Exec<'_>, args: &mut [Value]) -> FuncResult {
    let list = &args[0];
    let Some(items) = list.elements() else {
        if list.is_nil() {
            return Err("runtime error: invalid memory address or nil pointer dereference".into());
        }
        return Err(format!("list should be type of slice or array but {}", list.kind_name()).into());
    };
    if items.is_empty() {
        return Ok(Value::Nil);
    }
    let length = items.len();
    let bound = |value: &Value| usize::try_from(to_int(value)).ok().filter(|v| *v <= length);
    let start = args.get(1).map_or(Some(0), bound);
    let end = args.get(2).map_or(Some(length), bound);
    match (start, end) {
        (Some(start), Some(end)) if start <= end => match list {
            Value::List(l) => Ok(Value::list_of(l.kind, items[start..end].to_vec())),
            Value::Bytes(b) => Ok(Value::Bytes(b[start..end].into())),
            _ => Ok(Value::Nil),
        },
        _ => Err("reflect.Value.Slice: slice index out of bounds".into()),
    }
}

fn numbers(exec: &Exec<'_>, start: i64, stop: i64, step: i64) -> Result<Vec<i64>, FuncError> {
    let forward = stop >= start;
    if forward && step <= 0 || !forward && step >= 0 {
        return Ok(Vec::new());
    }
    let count =
        (i128::from(stop) - i128::from(start)).unsigned_abs().div_ceil(i128::from(step).unsigned_abs());
    let limit = exec.env.limits.list;
    let Some(count) = usize::try_from(count).ok().filter(|c| *c <= limit) else {
        return Err(format!("a list of {count} numbers is too long").into());
    };
    Ok((0..count).map(|i| start + i64::try_from(i).unwrap_or(0) * step).collect())
}

fn range(exec: &Exec<'_>, start: i64, stop: i64, step: i64) -> FuncResult {
    let items = numbers(exec, start, stop, step)?.into_iter().map(Value::Int).collect();
    Ok(Value::list_of(ListKind::Ints, items))
}

fn seq(exec: &mut Exec<'_>, args: &mut [Value]) -> FuncResult {
    let given: Vec<i64> = (0..args.len()).map(|i| int(args, i)).collect();
    let numbers = match given.as_slice() {
        [end] => {
            let step = if *end < 1 { -1 } else { 1 };
            numbers(exec, 1, end.saturating_add(step), step)?
        }
        [start, end] => {
            let step = if end < start { -1 } else { 1 };
            numbers(exec, *start, end.saturating_add(step), step)?
        }
        [start, step, end] => {
            let towards = if end < start { -1 } else { 1 };
            if towards == -1 && *step > 0 {
                return Ok(Value::string(""));
            }
            numbers(exec, *start, end.saturating_add(towards), *step)?
        }
        _ => return Ok(Value::string("")),
    };
    let words: Vec<String> = numbers.iter().map(i64::to_string).collect();
    Ok(Value::string(words.join(" ")))
}
