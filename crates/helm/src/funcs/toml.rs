//! TOML as Helm writes and reads it.

use std::collections::BTreeMap;

use crate::strconv;
use crate::template::exec::FuncResult;
use crate::value::{MAX_NESTING, Value};

/// A value as TOML; a message in its place when it cannot be written, as in Helm.
pub(super) fn to_toml(value: &Value) -> FuncResult {
    if value.is_nil() {
        return Err("reflect: call of reflect.Value.Type on zero Value".into());
    }
    let mut writer = Writer { out: String::new() };
    Ok(Value::string(match writer.value(&[], value, 0) {
        Ok(()) => writer.out,
        Err(message) => message,
    }))
}

struct Writer {
    out: String,
}

/// Go's nil: nothing, or a map or slice that is.
fn is_nil(value: &Value) -> bool {
    match value {
        Value::List(list) => list.nil,
        Value::Map(map) => map.nil.get(),
        other => other.is_nil(),
    }
}

fn is_table(value: &Value) -> bool {
    matches!(value, Value::Map(_) | Value::Files(_) | Value::Struct(_))
}

/// Whether a list is written as an array of tables. No list, here or in lists inside, may have a nil.
fn is_table_array(value: &Value) -> Result<bool, String> {
    let Some(items) = value.elements().filter(|items| !items.is_empty()) else { return Ok(false) };
    let mut all = true;
    for item in items.iter() {
        if is_nil(item) {
            return Err("toml: cannot encode array with nil element".to_owned());
        }
        is_table_array(item)?;
        all &= is_table(item);
    }
    Ok(all)
}

/// The entries of a table: sorted keys of a map, fields of a structure in their order.
fn entries(value: &Value) -> Vec<(String, Value)> {
    match value {
        Value::Map(map) => {
            map.entries.borrow().iter().map(|(k, v)| (k.text().into_owned(), v.clone())).collect()
        }
        Value::Files(files) => {
            files.iter().map(|(name, data)| (name.to_owned(), Value::Bytes(data.into()))).collect()
        }
        Value::Struct(s) => s.fields.iter().map(|f| (f.name.to_owned(), f.value.clone())).collect(),
        _ => Vec::new(),
    }
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

    /// A value under a path of keys, which are already as they are shown.
    fn value(&mut self, path: &[String], value: &Value, depth: usize) -> Result<(), String> {
        if depth > MAX_NESTING {
            return Err("toml: values nest too deep".to_owned());
        }
        let indent = "  ".repeat(path.len().saturating_sub(1));
        if is_table(value) {
            if path.len() == 1 {
                self.newline();
            }
            if !path.is_empty() {
                self.out.push_str(&format!("{indent}[{}]", path.join(".")));
                self.newline();
            }
            return self.table(path, value, depth);
        }
        if is_table_array(value)? {
            if path.is_empty() {
                return Err("toml: top-level values must be Go maps or structs".to_owned());
            }
            for item in value.elements().unwrap_or_default().iter() {
                self.newline();
                self.out.push_str(&format!("{indent}[[{}]]", path.join(".")));
                self.newline();
                self.table(path, item, depth)?;
            }
            return Ok(());
        }
        if let Some(key) = path.last() {
            self.out.push_str(&format!("{indent}{key} = "));
            self.element(value, depth)?;
            self.newline();
            return Ok(());
        }
        self.element(value, depth)
    }

    fn table(&mut self, path: &[String], value: &Value, depth: usize) -> Result<(), String> {
        for entry in ordered(value)? {
            let mut inner = path.to_vec();
            inner.push(shown_key(&entry.key));
            self.value(&inner, &entry.value, depth + 1)?;
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
            Value::Int(i) | Value::Int64(i) | Value::Named(_, i, _) => self.out.push_str(&i.to_string()),
            Value::Uint8(u) => self.out.push_str(&u.to_string()),
            Value::Uint64(u) => self.out.push_str(&u.to_string()),
            Value::Float(f) => {
                let text = strconv::format_f(*f, None);
                self.out.push_str(&match text.as_str() {
                    "NaN" => "nan".to_owned(),
                    "+Inf" => "inf".to_owned(),
                    "-Inf" => "-inf".to_owned(),
                    t if t.contains('.') => text,
                    _ => text + ".0",
                });
            }
            Value::Time(t) => self.out.push_str(&t.format("2006-01-02T15:04:05.999999999Z07:00")),
            Value::Duration(d) => self.out.push_str(&quoted(&crate::time::format_duration(*d))),
            Value::Version(v) => self.out.push_str(&quoted(&v.to_string())),
            Value::List(_) | Value::Bytes(_) => {
                is_table_array(value)?;
                self.out.push('[');
                for (i, item) in value.elements().unwrap_or_default().iter().enumerate() {
                    if i > 0 {
                        self.out.push_str(", ");
                    }
                    self.element(item, depth + 1)?;
                }
                self.out.push(']');
            }
            Value::Map(_) | Value::Files(_) | Value::Struct(_) => {
                self.out.push('{');
                for entry in ordered(value)? {
                    self.out.push_str(&format!("{} = ", shown_key(&entry.key)));
                    self.element(&entry.value, depth + 1)?;
                    if entry.comma {
                        self.out.push_str(", ");
                    }
                }
                self.out.push('}');
            }
            Value::Nil | Value::NilInterface => {
                return Err("toml: cannot encode array with nil element".to_owned());
            }
        }
        Ok(())
    }
}

/// One entry of a table that is written.
struct Written {
    key: String,
    value: Value,
    /// A comma follows it on one line: Go's encoder counts the nils it leaves out.
    comma: bool,
}

/// What of a table is written, plain values before tables.
fn ordered(value: &Value) -> Result<Vec<Written>, String> {
    let (mut direct, mut tables) = (Vec::new(), Vec::new());
    for entry in entries(value) {
        if !is_nil(&entry.1) && (is_table_array(&entry.1)? || is_table(&entry.1)) {
            tables.push(entry);
        } else {
            direct.push(entry);
        }
    }
    let (last_direct, some_tables) = (direct.len(), !tables.is_empty());
    let all = direct.len() + tables.len();
    let comma = |i: usize| if i < last_direct { some_tables || i + 1 < last_direct } else { i + 1 < all };
    Ok(direct
        .into_iter()
        .chain(tables)
        .enumerate()
        .filter(|(_, (_, value))| !is_nil(value))
        .map(|(i, (key, value))| Written { key, value, comma: comma(i) })
        .collect())
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
