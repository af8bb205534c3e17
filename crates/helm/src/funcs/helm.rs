//! Helm's own functions.

use std::collections::BTreeMap;

use super::{Entry, Type, bytes, fixed, take, text};
use crate::json;
use crate::value::{ListKind, MapKind, Value};
use crate::yaml;

/// Marks a message of `fail` or `required`, so that only it is shown.
pub(crate) const WARN_START: &str = "HELM_ERR_START";
/// Ends a marked message.
pub(crate) const WARN_END: &str = "HELM_ERR_END";

/// How `sigs.k8s.io/yaml` introduces what JSON says.
const DECODING: &str = "error unmarshaling JSON: while decoding JSON: ";

pub(super) fn functions() -> Vec<Entry> {
    use Type::{Any, Str};
    vec![
        fixed("include", &[Str, Any], |exec, args| {
            let data = take(args, 1);
            exec.include(&text(args, 0), &data)
        }),
        fixed("tpl", &[Str, Any], |exec, args| {
            let data = take(args, 1);
            let source = take(args, 0);
            exec.tpl(bytes(&[source], 0), &data)
        }),
        fixed("required", &[Str, Any], |_, args| {
            let missing = match &args[1] {
                Value::Str(s) => s.is_empty(),
                other => other.is_nil(),
            };
            if missing {
                return Err(format!("{WARN_START}{}{WARN_END}", text(args, 0)).into());
            }
            Ok(take(args, 1))
        }),
        fixed("fail", &[Str], |_, args| Err(format!("{WARN_START}{}{WARN_END}", text(args, 0)).into())),
        fixed("lookup", &[Str, Str, Str, Str], |exec, args| {
            let [version, kind, namespace, name] = [0, 1, 2, 3].map(|index| text(args, index));
            let found = exec.env.lookup.lookup(&version, &kind, &namespace, &name);
            Ok(found.map_or_else(|| Value::map(BTreeMap::new()), |object| crate::engine::to_value(&object)))
        }),
        fixed("getHostByName", &[Str], |_, _| Ok(Value::string(""))),
        fixed("toYaml", &[Any], |_, args| Ok(Value::string(to_yaml(&args[0], yaml::Style::Kubernetes)))),
        fixed("toYamlPretty", &[Any], |_, args| Ok(Value::string(to_yaml(&args[0], yaml::Style::Pretty)))),
        fixed("fromYaml", &[Str], |_, args| {
            Ok(as_map(yaml::from_yaml(bytes(args, 0)), Value::map(BTreeMap::new()), DECODING))
        }),
        fixed("fromYamlArray", &[Str], |_, args| {
            Ok(as_list(yaml::from_yaml(bytes(args, 0)), Value::list(Vec::new()), DECODING))
        }),
        fixed("toJson", &[Any], |_, args| Ok(Value::string(json::to_json(&args[0]).unwrap_or_default()))),
        fixed("fromJson", &[Str], |_, args| {
            Ok(as_map(json::from_json(bytes(args, 0)), Value::nil_map(MapKind::Any), ""))
        }),
        fixed("fromJsonArray", &[Str], |_, args| {
            Ok(as_list(json::from_json(bytes(args, 0)), Value::nil_list(ListKind::Any), ""))
        }),
        fixed("toToml", &[Any], |_, args| super::toml::to_toml(&args[0])),
        fixed("fromToml", &[Str], |_, args| Ok(super::toml::from_toml(&text(args, 0)))),
    ]
}

/// YAML without its last newline; nothing when the value cannot be written.
pub(crate) fn to_yaml(value: &Value, style: yaml::Style) -> Vec<u8> {
    let mut text = yaml::to_yaml(value, style).unwrap_or_default();
    if text.last() == Some(&b'\n') {
        text.pop();
    }
    text
}

fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "bool",
        Value::Float(_) => "number",
        Value::Str(_) => "string",
        Value::List(_) => "array",
        _ => "object",
    }
}

fn as_map(parsed: Result<Value, String>, null: Value, prefix: &str) -> Value {
    let message = match parsed {
        Ok(map @ Value::Map(_)) => return map,
        Ok(Value::Nil) => return null,
        Ok(other) => format!(
            "{prefix}json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            go_kind(&other)
        ),
        Err(message) => message,
    };
    Value::map(BTreeMap::from([("Error".into(), Value::string(message))]))
}

fn as_list(parsed: Result<Value, String>, null: Value, prefix: &str) -> Value {
    let message = match parsed {
        Ok(list @ Value::List(_)) => return list,
        Ok(Value::Nil) => return null,
        Ok(other) => {
            format!(
                "{prefix}json: cannot unmarshal {} into Go value of type []interface {{}}",
                go_kind(&other)
            )
        }
        Err(message) => message,
    };
    Value::list(vec![Value::string(message)])
}
