//! JSON as Go's `encoding/json` writes and reads it.

use std::collections::BTreeMap;

use crate::strconv;
use crate::value::{MAX_NESTING, Str, Value};

/// Why a value cannot be written, or a text not read.
pub(crate) type JsonError = String;

#[derive(Clone, Copy)]
struct Format {
    html: bool,
    indent: bool,
}

/// `json.Marshal`.
pub(crate) fn to_json(value: &Value) -> Result<Vec<u8>, JsonError> {
    write(value, Format { html: true, indent: false })
}

/// `json.Encoder` without HTML escaping.
pub(crate) fn to_raw_json(value: &Value) -> Result<Vec<u8>, JsonError> {
    write(value, Format { html: false, indent: false })
}

/// `json.MarshalIndent` with two spaces.
pub(crate) fn to_pretty_json(value: &Value) -> Result<Vec<u8>, JsonError> {
    write(value, Format { html: true, indent: true })
}

fn write(value: &Value, format: Format) -> Result<Vec<u8>, JsonError> {
    let mut out = Vec::new();
    write_value(&mut out, value, format, 0)?;
    Ok(out)
}

fn newline(out: &mut Vec<u8>, format: Format, depth: usize) {
    if format.indent {
        out.push(b'\n');
        out.extend(std::iter::repeat_n(b' ', depth * 2));
    }
}

fn write_value(out: &mut Vec<u8>, value: &Value, format: Format, depth: usize) -> Result<(), JsonError> {
    if depth > MAX_NESTING {
        return Err("json: unsupported value: encountered a cycle".to_owned());
    }
    match value {
        Value::Nil | Value::NilInterface => out.extend_from_slice(b"null"),
        Value::Bool(b) => out.extend_from_slice(if *b { b"true" } else { b"false" }),
        Value::Int(i) | Value::Int64(i) | Value::Duration(i) | Value::Named(_, i, _) => {
            out.extend_from_slice(i.to_string().as_bytes());
        }
        Value::Uint8(u) => out.extend_from_slice(u.to_string().as_bytes()),
        Value::Uint64(u) => out.extend_from_slice(u.to_string().as_bytes()),
        Value::Float(f) if !f.is_finite() => {
            return Err(format!("json: unsupported value: {}", strconv::format_g(*f, None)));
        }
        Value::Float(f) => out.extend_from_slice(strconv::format_json(*f).as_bytes()),
        Value::Str(s) => write_string(out, s.as_bytes(), format.html),
        Value::Bytes(b) => {
            use base64::Engine as _;
            write_string(out, base64::engine::general_purpose::STANDARD.encode(b).as_bytes(), format.html);
        }
        Value::Time(t) => {
            write_string(out, t.format("2006-01-02T15:04:05.999999999Z07:00").as_bytes(), format.html);
        }
        Value::Version(v) => write_string(out, v.to_string().as_bytes(), format.html),
        Value::List(l) if l.nil => out.extend_from_slice(b"null"),
        Value::Map(m) if m.nil.get() => out.extend_from_slice(b"null"),
        Value::List(l) => {
            out.push(b'[');
            for (i, item) in l.items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                newline(out, format, depth + 1);
                write_value(out, item, format, depth + 1)?;
            }
            if !l.items.is_empty() {
                newline(out, format, depth);
            }
            out.push(b']');
        }
        Value::Map(m) => {
            let entries = m.entries.borrow();
            write_object(out, entries.iter().map(|(k, v)| (k.as_bytes(), v)), format, depth)?;
        }
        Value::Files(files) => {
            let entries: Vec<(&str, Value)> =
                files.iter().map(|(k, v)| (&**k, Value::Bytes(v.clone()))).collect();
            write_object(out, entries.iter().map(|(k, v)| (k.as_bytes(), v)), format, depth)?;
        }
        Value::Struct(s) => {
            let fields = s.fields.iter().filter(|f| !(f.omit_empty && f.value.is_empty()));
            write_object(out, fields.map(|f| (f.json.as_bytes(), &f.value)), format, depth)?;
        }
    }
    Ok(())
}

fn write_object<'a>(
    out: &mut Vec<u8>,
    entries: impl Iterator<Item = (&'a [u8], &'a Value)>,
    format: Format,
    depth: usize,
) -> Result<(), JsonError> {
    out.push(b'{');
    let mut any = false;
    for (key, value) in entries {
        if any {
            out.push(b',');
        }
        any = true;
        newline(out, format, depth + 1);
        write_string(out, key, format.html);
        out.push(b':');
        if format.indent {
            out.push(b' ');
        }
        write_value(out, value, format, depth + 1)?;
    }
    if any {
        newline(out, format, depth);
    }
    out.push(b'}');
    Ok(())
}

fn write_string(out: &mut Vec<u8>, bytes: &[u8], html: bool) {
    out.push(b'"');
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' => out.extend_from_slice(b"\\\""),
                '\\' => out.extend_from_slice(b"\\\\"),
                '\x08' => out.extend_from_slice(b"\\b"),
                '\x0c' => out.extend_from_slice(b"\\f"),
                '\n' => out.extend_from_slice(b"\\n"),
                '\r' => out.extend_from_slice(b"\\r"),
                '\t' => out.extend_from_slice(b"\\t"),
                '<' | '>' | '&' if html => out.extend_from_slice(format!("\\u{:04x}", c as u32).as_bytes()),
                c if c < ' ' || c == '\u{2028}' || c == '\u{2029}' => {
                    out.extend_from_slice(format!("\\u{:04x}", c as u32).as_bytes());
                }
                c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        for _ in chunk.invalid() {
            out.extend_from_slice(b"\\ufffd");
        }
    }
    out.push(b'"');
}

/// `json.Unmarshal` into an empty interface: numbers are floats, objects are maps.
pub(crate) fn from_json(text: &[u8]) -> Result<Value, JsonError> {
    let parsed: serde_json::Value = serde_json::from_slice(text).map_err(|e| json_message(text, &e))?;
    Ok(from_serde(&parsed))
}

/// Go's words for the commonest mistakes; the rest keeps the parser's.
fn json_message(text: &[u8], error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".to_owned();
    }
    let offset = text
        .split_inclusive(|b| *b == b'\n')
        .take(error.line().saturating_sub(1))
        .map(<[u8]>::len)
        .sum::<usize>()
        + error.column().saturating_sub(1);
    match text.get(offset).map(|b| char::from(*b)) {
        Some(c) => format!("invalid character '{c}' looking for beginning of value"),
        None => error.to_string(),
    }
}

/// A template value from a `serde_json` one.
pub(crate) fn from_serde(value: &serde_json::Value) -> Value {
    match value {
        serde_json::Value::Null => Value::Nil,
        serde_json::Value::Bool(b) => Value::Bool(*b),
        serde_json::Value::Number(n) => Value::Float(n.as_f64().unwrap_or(0.0)),
        serde_json::Value::String(s) => Value::string(s.as_str()),
        serde_json::Value::Array(items) => Value::list(items.iter().map(from_serde).collect()),
        serde_json::Value::Object(entries) => {
            let map: BTreeMap<Str, Value> =
                entries.iter().map(|(k, v)| (Str::from(k.as_str()), from_serde(v))).collect();
            Value::map(map)
        }
    }
}

/// A `serde_json` value from a template one, for schema validation.
pub(crate) fn to_serde(value: &Value) -> serde_json::Value {
    match to_json(value) {
        Ok(text) => serde_json::from_slice(&text).unwrap_or(serde_json::Value::Null),
        Err(_) => serde_json::Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn html_is_escaped_unless_raw() {
        let value = Value::list(vec![Value::string("<a&\u{1}"), Value::Float(1e6), Value::Nil]);
        assert_eq!(to_json(&value).unwrap(), b"[\"\\u003ca\\u0026\\u0001\",1000000,null]");
        assert_eq!(to_raw_json(&value).unwrap(), b"[\"<a&\\u0001\",1000000,null]");
        assert_eq!(to_pretty_json(&Value::list(vec![Value::Int(1)])).unwrap(), b"[\n  1\n]");
    }

    #[test]
    fn cycles_are_errors() {
        let map = std::rc::Rc::new(crate::value::Map {
            kind: crate::value::MapKind::Any,
            nil: false.into(),
            entries: Default::default(),
        });
        map.insert("self".into(), Value::Map(map.clone()));
        assert!(to_json(&Value::Map(map.clone())).is_err());
        map.entries.borrow_mut().clear();
    }
}
