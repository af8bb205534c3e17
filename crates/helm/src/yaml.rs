//! YAML as Helm reads and writes it: YAML 1.1 by way of JSON, with go-yaml's rules for what is a number, a word, a quote.

mod emit;

pub(crate) use daedal_go_yaml::{Style, Yaml, coerced_string, parse_document, to_yaml};

use std::collections::BTreeMap;

use crate::value::{MAX_NESTING, Str, Value};

/// Reads the first document into a value as `sigs.k8s.io/yaml` does: keys are strings, numbers are floats.
pub(crate) fn from_yaml(text: &[u8]) -> Result<Value, String> {
    let document = parse_document(text).map_err(|e| format!("error converting YAML to JSON: yaml: {e}"))?;
    json_value(&document, 0).map_err(|e| format!("error converting YAML to JSON: {e}"))
}

/// A JSON-able value from a YAML one.
pub(crate) fn json_value(yaml: &Yaml<'_>, depth: usize) -> Result<Value, String> {
    if depth > MAX_NESTING {
        return Err("exceeded max depth".to_owned());
    }
    Ok(match yaml {
        Yaml::Null => Value::Nil,
        Yaml::Bool(b) => Value::Bool(*b),
        Yaml::Int(i) => Value::Float(*i as f64),
        Yaml::Uint(u) => Value::Float(*u as f64),
        Yaml::Float(f) if !f.is_finite() => {
            return Err(format!("json: unsupported value: {}", crate::strconv::format_g(*f, None)));
        }
        Yaml::Float(f) => Value::Float(*f),
        Yaml::String(s) => Value::string(&**s),
        Yaml::Sequence(items) => {
            Value::list(items.iter().map(|i| json_value(i, depth + 1)).collect::<Result<_, _>>()?)
        }
        Yaml::Mapping(entries) => {
            let mut map = BTreeMap::new();
            for (key, value) in entries {
                map.insert(json_key(key)?, json_value(value, depth + 1)?);
            }
            Value::map(map)
        }
    })
}

fn json_key(key: &Yaml<'_>) -> Result<Str, String> {
    Ok(match key {
        Yaml::String(s) => (**s).into(),
        Yaml::Int(i) => i.to_string().into(),
        Yaml::Bool(b) => b.to_string().into(),
        Yaml::Float(f) => match crate::strconv::format_g(f64::from(*f as f32), None).as_str() {
            "+Inf" => ".inf".into(),
            "-Inf" => "-.inf".into(),
            "NaN" => ".nan".into(),
            _ => format!("{}", *f as f32).into(),
        },
        other => return Err(format!("unsupported map key of type: {}", other.type_name())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    fn read(text: &str) -> String {
        match from_yaml(text.as_bytes()) {
            Ok(value) => String::from_utf8(json::to_json(&value).unwrap()).unwrap(),
            Err(e) => e,
        }
    }

    #[test]
    fn scalars_resolve_by_yaml_1_1() {
        assert_eq!(
            read("[yes, no, on, off, y, ~, null, 0x1F, 010, 1e3, 0o7, 1_000, .5, '1', 1:30]"),
            r#"[true,false,true,false,true,null,null,31,8,1000,7,1000,0.5,"1","1:30"]"#
        );
        assert_eq!(
            read("a: 2024-01-02\nb: 1.2.3\nc: 12e03\n"),
            r#"{"a":"2024-01-02","b":"1.2.3","c":12000}"#
        );
    }

    #[test]
    fn blocks_flow_and_anchors() {
        assert_eq!(
            read("a: &x {k: v}\nb: *x\nc:\n  <<: *x\n  z: 1\n"),
            r#"{"a":{"k":"v"},"b":{"k":"v"},"c":{"k":"v","z":1}}"#
        );
        assert_eq!(
            read("a: |\n  x\n   y\n\nb: >-\n  l1\n  l2\n\n  l3\nc:\n- 1\n- - 2\n"),
            "{\"a\":\"x\\n y\\n\",\"b\":\"l1 l2\\nl3\",\"c\":[1,[2]]}"
        );
        assert_eq!(
            read("a: \"x\\ty\\u00e9 \\\n  z\"\n'q''r': plain\n  more\n"),
            "{\"a\":\"x\\tyé z\",\"q'r\":\"plain more\"}"
        );
        assert_eq!(read("1: a\ntrue: b\n"), r#"{"1":"a","true":"b"}"#);
        assert_eq!(read("a: 1\n---\nb: 2\n"), r#"{"a":1}"#);
        assert_eq!(read(""), "null");
        assert_eq!(read("? a\n: b\n"), r#"{"a":"b"}"#);
        assert_eq!(read("{a: [1, {b}], 'c': , d: e:f}"), r#"{"a":[1,{"b":null}],"c":null,"d":"e:f"}"#);
    }

    #[test]
    fn times_are_those_that_go_parses() {
        const LAYOUTS: [&str; 4] = [
            "2006-1-2T15:4:5.999999999Z07:00",
            "2006-1-2t15:4:5.999999999Z07:00",
            "2006-1-2 15:4:5.999999999",
            "2006-1-2",
        ];
        let dates =
            ["2024-02-29", "2023-02-29", "1900-2-29", "2000-2-29", "2024-4-31", "2024-13-1", "2024-1-0"];
        let more =
            ["2024-1-1", "24-1-1", "02024-1-1", "2024-12-31x", "2024-", "2024-1", "2024/1/1", "", "é-1-1"];
        let times =
            ["", "T1:2:3Z", "t23:59:59.5Z", " 1:2:3", "  24:0:0", " 1:60:0", "T1:2:3", "T1:2:3.Z", " 1:2:3Z"];
        let zones =
            ["T1:2:3+01:00", "T1:2:3,123456789123-9:30", "T1:2:3-99:99", " 1:2:3.5", "T1:2Z", " ", "T"];
        for date in dates.iter().chain(&more) {
            for time in times.iter().chain(&zones) {
                let text = format!("{date}{time}");
                let year = text.bytes().take_while(u8::is_ascii_digit).count();
                let parsed = LAYOUTS.iter().any(|layout| crate::time::parse(layout, &text).is_ok());
                assert_eq!(daedal_go_yaml::is_timestamp(&text), year == 4 && parsed, "{text}");
            }
        }
    }

    #[test]
    fn malformed_documents_say_where() {
        assert_eq!(
            read("a: b: c"),
            "error converting YAML to JSON: yaml: mapping values are not allowed in this context"
        );
        assert_eq!(
            read("a:\n  - b\n c: d\n"),
            "error converting YAML to JSON: yaml: line 2: did not find expected key"
        );
        assert_eq!(read("a: *b"), "error converting YAML to JSON: yaml: unknown anchor 'b' referenced");
        assert_eq!(
            read("a:\n\t- b"),
            "error converting YAML to JSON: yaml: line 2: found character that cannot start any token"
        );
    }
}
