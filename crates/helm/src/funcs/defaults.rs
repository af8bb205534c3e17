//! Sprig's defaults, choices and JSON.

use super::{Entry, Type, fixed, take, variadic};
use crate::json;
use crate::value::Value;

pub(super) fn functions() -> Vec<Entry> {
    use Type::{Any, Bool, Str};
    vec![
        variadic("default", &[Any], Any, |_, args| {
            let given = args.len() > 1 && !args[1].is_empty();
            Ok(take(args, usize::from(given)))
        }),
        fixed("empty", &[Any], |_, args| Ok(Value::Bool(args[0].is_empty()))),
        variadic("coalesce", &[], Any, |_, args| {
            Ok(args.iter().find(|a| !a.is_empty()).cloned().unwrap_or(Value::Nil))
        }),
        variadic("all", &[], Any, |_, args| Ok(Value::Bool(!args.iter().any(Value::is_empty)))),
        variadic("any", &[], Any, |_, args| Ok(Value::Bool(args.iter().any(|a| !a.is_empty())))),
        fixed("ternary", &[Any, Any, Bool], |_, args| {
            let first = matches!(args[2], Value::Bool(true));
            Ok(take(args, usize::from(!first)))
        }),
        fixed("mustFromJson", &[Str], |_, args| Ok(json::from_json(super::bytes(args, 0))?)),
        fixed("mustToJson", &[Any], |_, args| Ok(Value::string(json::to_json(&args[0])?))),
        fixed("toPrettyJson", &[Any], |_, args| {
            Ok(Value::string(json::to_pretty_json(&args[0]).unwrap_or_default()))
        }),
        fixed("mustToPrettyJson", &[Any], |_, args| Ok(Value::string(json::to_pretty_json(&args[0])?))),
        fixed("toRawJson", &[Any], |_, args| Ok(Value::string(json::to_raw_json(&args[0])?))),
        fixed("mustToRawJson", &[Any], |_, args| Ok(Value::string(json::to_raw_json(&args[0])?))),
        fixed("hello", &[], |_, _| Ok(Value::string("Hello!"))),
    ]
}
