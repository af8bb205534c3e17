//! Writing YAML that readers of every YAML version understand alike: what could be mistaken is quoted.

use std::net::IpAddr;

use yaml_serde::Value;

/// Writes a document in block style.
pub(crate) fn to_string(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Mapping(fields) if !fields.is_empty() => write_mapping(fields, 0, &mut out),
        Value::Sequence(items) if !items.is_empty() => write_sequence(items, 0, &mut out),
        other => {
            write_scalar(other, 0, &mut out);
            out.push('\n');
        }
    }
    out
}

fn indent(depth: usize, out: &mut String) {
    for _ in 0..depth {
        out.push_str("  ");
    }
}

fn write_mapping(fields: &yaml_serde::Mapping, depth: usize, out: &mut String) {
    for (index, (key, value)) in fields.iter().enumerate() {
        // The first key of a mapping in a list stands behind the dash.
        if index > 0 || out.is_empty() || out.ends_with('\n') {
            indent(depth, out);
        }
        write_scalar(key, depth, out);
        out.push(':');
        match value {
            Value::Mapping(inner) if !inner.is_empty() => {
                out.push('\n');
                write_mapping(inner, depth + 1, out);
            }
            Value::Sequence(items) if !items.is_empty() => {
                out.push('\n');
                write_sequence(items, depth + 1, out);
            }
            scalar => {
                out.push(' ');
                write_scalar(scalar, depth + 1, out);
                out.push('\n');
            }
        }
    }
}

fn write_sequence(items: &[Value], depth: usize, out: &mut String) {
    for item in items {
        indent(depth, out);
        out.push_str("- ");
        match item {
            Value::Mapping(fields) if !fields.is_empty() => write_mapping(fields, depth + 1, out),
            Value::Sequence(inner) if !inner.is_empty() => {
                out.truncate(out.len() - 1);
                out.push('\n');
                write_sequence(inner, depth + 1, out);
            }
            scalar => {
                write_scalar(scalar, depth + 1, out);
                out.push('\n');
            }
        }
    }
}

fn write_scalar(value: &Value, depth: usize, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => out.push_str(&number.to_string()),
        Value::String(text) if is_plain(text) => out.push_str(text),
        // A document that is nothing but a text has no indentation, which a block needs.
        Value::String(text) if depth > 0 && is_block(text) => write_block(text, depth, out),
        Value::String(text) => write_quoted(text, out),
        Value::Sequence(items) if items.is_empty() => out.push_str("[]"),
        Value::Mapping(fields) if fields.is_empty() => out.push_str("{}"),
        // Collections as keys and tags do not occur in machine configs; flow style would still be right for them.
        Value::Sequence(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                write_flow(item, out);
            }
            out.push(']');
        }
        Value::Mapping(fields) => {
            out.push('{');
            for (index, (key, item)) in fields.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                write_flow(key, out);
                out.push_str(": ");
                write_flow(item, out);
            }
            out.push('}');
        }
        Value::Tagged(tagged) => write_scalar(&tagged.value, depth, out),
    }
}

fn write_flow(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => write_quoted(text, out),
        other => write_scalar(other, 0, out),
    }
}

/// Whether a text can stand without quotes and nobody takes it for anything but a text.
fn is_plain(text: &str) -> bool {
    let first_is_harmless =
        text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric() || b"/._".contains(&byte));
    let all_printable = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if !first_is_harmless
        || !all_printable
        || text.ends_with([' ', ':'])
        || text.contains(": ")
        || text.contains(" #")
    {
        return false;
    }
    const WORDS: [&str; 10] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "~"];
    if WORDS.iter().any(|word| text.eq_ignore_ascii_case(word)) {
        return false;
    }
    if text.parse::<IpAddr>().is_ok() {
        return true;
    }
    // Numbers in any base, floats, infinities, times of day, dates.
    let number_like = text.bytes().all(|byte| byte.is_ascii_hexdigit() || b".xXoO_+-:".contains(&byte))
        && text.bytes().next().is_some_and(|byte| byte.is_ascii_digit() || byte == b'.');
    let lower = text.to_ascii_lowercase();
    !number_like && !matches!(lower.as_str(), ".inf" | ".nan" | "." | "...") && !is_timestamp(text)
}

fn is_timestamp(text: &str) -> bool {
    text.len() > 8 && text.as_bytes()[..4].iter().all(u8::is_ascii_digit) && text.as_bytes()[4] == b'-'
}

/// Whether a text reads better as a literal block, and survives it.
fn is_block(text: &str) -> bool {
    let body = match text.strip_suffix('\n') {
        Some(body) => body,
        None => return false,
    };
    body.contains('\n')
        && !body.ends_with('\n')
        && !body.starts_with([' ', '\n'])
        && body.chars().all(|c| {
            c == '\n' || (!c.is_control() && !matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}'))
        })
        && body.lines().all(|line| !line.ends_with(' '))
}

fn write_block(text: &str, depth: usize, out: &mut String) {
    out.push('|');
    for line in text.trim_end_matches('\n').split('\n') {
        out.push('\n');
        if !line.is_empty() {
            indent(depth, out);
            out.push_str(line);
        }
    }
}

/// JSON's quoting is YAML's too.
fn write_quoted(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}') => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scalars() -> impl Strategy<Value = Value> {
        prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            "[a-z0-9 :#\\n'\"{}\\[\\]|>*&!%@`,?.-]{0,20}".prop_map(Value::from),
            "[0-9a-fxo._+:-]{1,8}".prop_map(Value::from),
            "(off|Off|NO|y|null|~|true|1e3|0x10|1_000|12:30|\\.inf|2001-01-01|10\\.0\\.0\\.1|a: b|- a|# a)"
                .prop_map(Value::from),
        ]
    }

    fn values() -> impl Strategy<Value = Value> {
        scalars().prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Sequence),
                prop::collection::vec(("[a-z.$/-]{1,8}|on|1|[ :a]{1,4}", inner), 0..5).prop_map(|fields| {
                    Value::Mapping(fields.into_iter().map(|(key, value)| (Value::from(key), value)).collect())
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(value in values()) {
            let text = to_string(&value);
            let back: Value = yaml_serde::from_str(&text).map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
            prop_assert_eq!(back, value, "{}", text);
        }
    }

    #[test]
    fn a_document_that_is_a_text_of_several_lines_is_read_back() {
        let value = Value::from(",\n*\n");
        assert_eq!(yaml_serde::from_str::<Value>(&to_string(&value)).unwrap(), value);
    }

    #[test]
    fn only_what_could_be_mistaken_is_quoted() {
        for plain in [
            "v1.35.0",
            "10.0.0.0/8",
            "10.0.0.1",
            "/dev/sda",
            "a == \"b\"",
            "https://x:6443",
            "abc=",
            "fd00::1",
        ] {
            assert_eq!(to_string(&plain.into()), format!("{plain}\n"));
        }
        for mistaken in
            ["off", "NO", "1.5", "0x1f", "12:30:45", "1e5", "null", "", "- a", "2001-01-01", "0b1", "1_0"]
        {
            assert_eq!(to_string(&mistaken.into()), format!("\"{mistaken}\"\n"));
        }
        assert_eq!(to_string(&yaml_serde::from_str("a: \"x\\n y\\n\"").unwrap()), "a: |\n  x\n   y\n");
    }
}
