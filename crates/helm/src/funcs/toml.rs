//! TOML as Helm writes and reads it.

use std::collections::BTreeMap;

use crate::strconv;
use crate::value::{MAX_NESTING, Value};

/// A map as TOML; a message in its place when it cannot be written, as in Helm.
pub(super) fn to_toml(value: &Value) -> String {
    let mut writer = Writer { out: String::new() };
    let result = match value {
        Value::Map(_) => writer.table(&[], value, 0),
        Value::Nil | Value::NilInterface => {
            Err("toml: cannot encode an anonymous field that is not a struct".to_owned())
        }
        other => Err(format!("toml: top-level values must be Go maps or structs, not {}", other.kind_name())),
    };
    match result {
        Ok(()) => writer.out,
        Err(message) => message,
    }
}

struct Writer {
    out: String,
}

fn is_table(value: &Value) -> bool {
    matches!(value, Value::Map(_))
}

fn is_table_array(value: &Value) -> bool {
    matches!(value, Value::List(l) if !l.items.is_empty() && l.items.iter().all(is_table))
}

fn bare(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

fn shown_key(key: &str) -> String {
    if bare(key) { key.to_owned() } else { quoted(key) }
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c < ' ' || c == '\x7f' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

impl Writer {
    fn newline(&mut self) {
        if !self.out.is_empty() {
            self.out.push('\n');
        }
    }

    fn table(&mut self, path: &[String], value: &Value, depth: usize) -> Result<(), String> {
        if depth > MAX_NESTING {
            return Err("toml: values nest too deep".to_owned());
        }
        let Value::Map(map) = value else { return Ok(()) };
        let entries: Vec<(String, Value)> =
            map.entries.borrow().iter().map(|(k, v)| (k.text().into_owned(), v.clone())).collect();
        let indent = "  ".repeat(path.len());
        for (key, value) in &entries {
            if value.is_nil() || is_table(value) || is_table_array(value) {
                continue;
            }
            self.out.push_str(&format!("{indent}{} = ", shown_key(key)));
            self.element(value, depth + 1)?;
            self.newline();
        }
        for (key, value) in &entries {
            let mut inner = path.to_vec();
            inner.push(shown_key(key));
            let header_indent = "  ".repeat(path.len());
            if is_table(value) {
                if path.is_empty() {
                    self.newline();
                }
                self.out.push_str(&format!("{header_indent}[{}]", inner.join(".")));
                self.newline();
                self.table(&inner, value, depth + 1)?;
            } else if let Value::List(list) = value
                && is_table_array(value)
            {
                for item in &list.items {
                    self.newline();
                    self.out.push_str(&format!("{header_indent}[[{}]]", inner.join(".")));
                    self.newline();
                    self.table(&inner, item, depth + 1)?;
                }
            }
        }
        Ok(())
    }

    fn element(&mut self, value: &Value, depth: usize) -> Result<(), String> {
        if depth > MAX_NESTING {
            return Err("toml: values nest too deep".to_owned());
        }
        match value {
            Value::Str(s) => self.out.push_str(&quoted(&s.text())),
            Value::Bool(b) => self.out.push_str(&b.to_string()),
            Value::Int(i) | Value::Int64(i) => self.out.push_str(&i.to_string()),
            Value::Uint8(u) => self.out.push_str(&u.to_string()),
            Value::Uint64(u) => self.out.push_str(&u.to_string()),
            Value::Float(f) => {
                let text = strconv::format_g(*f, None);
                self.out.push_str(&match text.as_str() {
                    "NaN" => "nan".to_owned(),
                    "+Inf" => "inf".to_owned(),
                    "-Inf" => "-inf".to_owned(),
                    t if t.contains(['.', 'e']) => text,
                    _ => text + ".0",
                });
            }
            Value::Time(t) => self.out.push_str(&t.format("2006-01-02T15:04:05.999999999Z07:00")),
            Value::List(list) => {
                self.out.push('[');
                for (i, item) in list.items.iter().enumerate() {
                    if i > 0 {
                        self.out.push_str(", ");
                    }
                    if item.is_nil() {
                        return Err("toml: cannot encode array with nil element".to_owned());
                    }
                    self.element(item, depth + 1)?;
                }
                self.out.push(']');
            }
            Value::Map(map) => {
                let entries = map.entries.borrow();
                self.out.push('{');
                for (i, (key, item)) in entries.iter().enumerate() {
                    if i > 0 {
                        self.out.push_str(", ");
                    }
                    self.out.push_str(&format!("{} = ", shown_key(&key.text())));
                    self.element(item, depth + 1)?;
                }
                self.out.push('}');
            }
            other => return Err(format!("unexpected type: {}", other.type_name())),
        }
        Ok(())
    }
}

/// A TOML document as a map; the reason under `Error` when it is none.
pub(super) fn from_toml(text: &str) -> Value {
    match text.parse::<::toml::Table>() {
        Ok(table) => Value::map(table.iter().map(|(k, v)| (k.as_str().into(), from_value(v))).collect()),
        Err(error) => Value::map(BTreeMap::from([(
            "Error".into(),
            Value::string(format!("toml: {}", error.message())),
        )])),
    }
}

fn from_value(value: &::toml::Value) -> Value {
    match value {
        ::toml::Value::String(s) => Value::string(s.as_str()),
        ::toml::Value::Integer(i) => Value::Int64(*i),
        ::toml::Value::Float(f) => Value::Float(*f),
        ::toml::Value::Boolean(b) => Value::Bool(*b),
        ::toml::Value::Datetime(d) => {
            let text = d.to_string();
            let parsed = ["2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05", "2006-01-02"]
                .iter()
                .find_map(|layout| crate::time::parse(layout, &text).ok());
            match parsed {
                Some(time) => Value::Time(std::rc::Rc::new(time)),
                None => Value::string(text),
            }
        }
        ::toml::Value::Array(items) => Value::list(items.iter().map(from_value).collect()),
        ::toml::Value::Table(table) => {
            Value::map(table.iter().map(|(k, v)| (k.as_str().into(), from_value(v))).collect())
        }
    }
}
