//! Writes values as YAML, byte for byte as go-yaml does.

mod scalars;

use scalars::analyze;

use super::resolve::{self, Resolved};
use super::sort;
use crate::strconv;
use crate::value::{MAX_NESTING, Value};

/// Which of go-yaml's two dialects is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// `sigs.k8s.io/yaml`: go-yaml v2 behind JSON. Lists are not indented under their key, long lines are folded.
    Kubernetes,
    /// `toYamlPretty`: go-yaml v3 with an indentation of two.
    Pretty,
}

/// The YAML text of a value, ending in a newline; `None` when the value cannot be written.
pub(crate) fn to_yaml(value: &Value, style: Style) -> Option<Vec<u8>> {
    let mut emitter = Emitter { out: Vec::new(), column: 0, whitespace: true, indention: true, style };
    emitter.node(value, -1, Context::default(), 0)?;
    emitter.write_indent(-1);
    if !emitter.out.ends_with(b"\n") {
        emitter.out.push(b'\n');
    }
    Some(emitter.out)
}

#[derive(Clone, Copy, Default)]
struct Context {
    mapping: bool,
    simple_key: bool,
}

struct Emitter {
    out: Vec<u8>,
    column: usize,
    whitespace: bool,
    indention: bool,
    style: Style,
}

impl Emitter {
    fn put(&mut self, byte: u8) {
        self.out.push(byte);
        self.column += 1;
    }

    fn put_char(&mut self, c: char) {
        self.out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        self.column += 1;
    }

    fn put_break(&mut self) {
        self.out.push(b'\n');
        self.column = 0;
    }

    fn write_indent(&mut self, indent: isize) {
        let indent = usize::try_from(indent).unwrap_or(0);
        if !self.indention || self.column > indent || (self.column == indent && !self.whitespace) {
            self.put_break();
        }
        while self.column < indent {
            self.put(b' ');
        }
        self.whitespace = true;
        self.indention = true;
    }

    fn indicator(&mut self, text: &str, need_space: bool, is_space: bool, is_indention: bool) {
        if need_space && !self.whitespace {
            self.put(b' ');
        }
        for byte in text.bytes() {
            self.put(byte);
        }
        self.whitespace = is_space;
        self.indention = self.indention && is_indention;
    }

    fn node(&mut self, value: &Value, indent: isize, context: Context, depth: usize) -> Option<()> {
        if depth > MAX_NESTING {
            return None;
        }
        match value {
            Value::List(list) if list.nil => self.plain("null", indent, context),
            Value::Map(map) if map.nil.get() => self.plain("null", indent, context),
            Value::List(list) => self.sequence(&list.items, indent, context, depth)?,
            Value::Map(map) => {
                let entries: Vec<(String, Value)> =
                    map.entries.borrow().iter().map(|(k, v)| (k.text().into_owned(), v.clone())).collect();
                self.mapping(entries, indent, depth)?;
            }
            Value::Files(files) => {
                let entries = files.iter().map(|(k, v)| (k.to_owned(), Value::Bytes(v.into()))).collect();
                self.mapping(entries, indent, depth)?;
            }
            Value::Struct(s) => {
                let entries = s
                    .fields
                    .iter()
                    .filter(|f| !(f.omit_empty && f.value.is_empty()))
                    .map(|f| (f.json.to_owned(), f.value.clone()))
                    .collect();
                self.mapping(entries, indent, depth)?;
            }
            Value::Nil | Value::NilInterface => self.plain("null", indent, context),
            Value::Bool(b) => self.plain(if *b { "true" } else { "false" }, indent, context),
            Value::Int(i) | Value::Int64(i) | Value::Duration(i) | Value::Named(_, i, _) => {
                self.plain(&i.to_string(), indent, context);
            }
            Value::Uint8(u) => self.plain(&u.to_string(), indent, context),
            Value::Uint64(u) => self.plain(&u.to_string(), indent, context),
            Value::Float(f) => {
                if !f.is_finite() && self.style == Style::Kubernetes {
                    return None;
                }
                self.plain(&self.float(*f), indent, context);
            }
            Value::Str(s) => self.string(&s.text(), indent, context)?,
            Value::Bytes(b) => {
                use base64::Engine as _;
                let text = base64::engine::general_purpose::STANDARD.encode(b);
                self.string(&text, indent, context)?;
            }
            Value::Time(t) => {
                let text = t.format("2006-01-02T15:04:05.999999999Z07:00");
                // The pretty style knows times; the other gets them as JSON strings.
                match self.style {
                    Style::Pretty => self.plain(&text, indent, context),
                    Style::Kubernetes => self.string(&text, indent, context)?,
                }
            }
            Value::Version(v) => self.string(&v.to_string(), indent, context)?,
        }
        Some(())
    }

    /// A float that went through JSON and came back as an integer where it looks like one.
    fn float(&self, f: f64) -> String {
        let text = strconv::format_json(f);
        if self.style == Style::Kubernetes {
            match resolve::untagged(&text, false) {
                Resolved::Int(i) => i.to_string(),
                Resolved::Uint(u) => u.to_string(),
                _ => strconv::format_g(f, None),
            }
        } else {
            match strconv::format_g(f, None).as_str() {
                "+Inf" => ".inf".to_owned(),
                "-Inf" => "-.inf".to_owned(),
                "NaN" => ".nan".to_owned(),
                other => other.to_owned(),
            }
        }
    }

    fn sequence(&mut self, items: &[Value], indent: isize, context: Context, depth: usize) -> Option<()> {
        if items.is_empty() {
            self.indicator("[", true, true, false);
            self.indicator("]", false, false, false);
            return Some(());
        }
        let indentless = self.style == Style::Kubernetes && context.mapping && !self.indention;
        let inner = if indentless { indent } else { deeper(indent) };
        for item in items {
            self.write_indent(inner);
            self.indicator("-", true, false, true);
            self.node(item, inner, Context::default(), depth + 1)?;
        }
        Some(())
    }

    fn mapping(&mut self, mut entries: Vec<(String, Value)>, indent: isize, depth: usize) -> Option<()> {
        if entries.is_empty() {
            self.indicator("{", true, true, false);
            self.indicator("}", false, false, false);
            return Some(());
        }
        entries.sort_by(|(a, _), (b, _)| sort::compare(a, b));
        let inner = deeper(indent);
        for (key, value) in entries {
            self.write_indent(inner);
            let simple = key.len() <= 128 && !analyze(&key).multiline;
            if simple {
                let context = Context { mapping: true, simple_key: true };
                self.string(&key, inner, context)?;
                self.indicator(":", false, false, false);
            } else {
                self.indicator("?", true, false, true);
                self.string(&key, inner, Context { mapping: true, ..Context::default() })?;
                self.write_indent(inner);
                self.indicator(":", true, false, true);
            }
            self.node(&value, inner, Context { mapping: true, ..Context::default() }, depth + 1)?;
        }
        Some(())
    }
}

fn deeper(indent: isize) -> isize {
    if indent < 0 { 0 } else { indent + 2 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::from_yaml;

    fn round(text: &str) -> String {
        String::from_utf8(to_yaml(&from_yaml(text.as_bytes()).unwrap(), Style::Kubernetes).unwrap()).unwrap()
    }

    #[test]
    fn lists_are_not_indented_under_keys() {
        assert_eq!(
            round("{a: [1, {b: 2, c: [x]}], e: [], f: {}, g: null}"),
            "a:\n- 1\n- b: 2\n  c:\n  - x\ne: []\nf: {}\ng: null\n"
        );
        assert_eq!(round("[[1, 2], [3]]"), "- - 1\n  - 2\n- - 3\n");
    }

    #[test]
    fn strings_are_quoted_only_when_they_must() {
        assert_eq!(
            round(
                r#"["true", "1", "a: b", " x", "a\tb", "", "~", "2024-01-01", "a#b", "a #b", "1:30", "yes", "é😀", "-", "- a", "0x1f", "1e3", "x\u0001"]"#
            ),
            "- \"true\"\n- \"1\"\n- 'a: b'\n- ' x'\n- \"a\\tb\"\n- \"\"\n- \"~\"\n- \"2024-01-01\"\n- a#b\n- 'a #b'\n- \"1:30\"\n- \"yes\"\n- \"é\\U0001F600\"\n- '-'\n- '- a'\n- \"0x1f\"\n- \"1e3\"\n- \"x\\x01\"\n"
        );
    }

    #[test]
    fn multi_line_strings_are_literal_blocks() {
        assert_eq!(
            round("a: \"x\\ny\\n\"\nb: \"x\\ny\"\nc: \" x\\ny\\n\\n\"\nd: \"x \\ny\""),
            "a: |\n  x\n  y\nb: |-\n  x\n  y\nc: |2+\n   x\n  y\n\nd: \"x \\ny\"\n"
        );
    }

    #[test]
    fn long_lines_fold() {
        let long = "word ".repeat(30);
        let text = round(&format!("a: '{}'", long.trim()));
        assert!(text.lines().count() > 1 && text.lines().all(|l| l.len() < 90), "{text}");
        assert_eq!(round(&text), text);
    }
}
