//! JSON as Go's `encoding/json` writes and reads it.

mod read;

use crate::strconv;
use crate::value::{MAX_NESTING, Value};

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
                files.iter().map(|(k, v)| (k, Value::Bytes(v.into()))).collect();
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
    read::read(text)
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
    fn complaints_are_those_of_go() {
        for (text, complaint) in [
            ("", "unexpected end of JSON input"),
            ("[1 2]", "invalid character '2' after array element"),
            ("{a}", "invalid character 'a' looking for beginning of object key string"),
            ("{\"a\" 1}", "invalid character '1' after object key"),
            ("truE", "invalid character 'E' in literal true (expecting 'e')"),
            ("1.x", "invalid character 'x' after decimal point in numeric literal"),
            ("\"\\q\"", "invalid character 'q' in string escape code"),
            ("1 2", "invalid character '2' after top-level value"),
        ] {
            assert_eq!(from_json(text.as_bytes()).unwrap_err(), complaint);
        }
        let value = from_json(br#"{"a": [1.5e1, "\u00e9\ud83d\ude00", null]}"#).unwrap();
        assert_eq!(to_json(&value).unwrap(), "{\"a\":[15,\"é😀\",null]}".as_bytes());
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
