//! Writes values as YAML, byte for byte as go-yaml does.

mod scalars;

use std::borrow::Cow;

use scalars::analyze;

use super::resolve::{self, Resolved};
use super::sort;
use crate::numbers;

/// Deeper values are not written.
const MAX_NESTING: usize = 1000;

/// What a value is to the writer.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape<'a, T> {
    /// Nothing.
    Null,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A whole number without a sign.
    Uint(u64),
    /// A number with a fraction, or one that looks whole.
    Float(f64),
    /// A text, quoted where it could be mistaken.
    Text(Cow<'a, str>),
    /// A text that stands without quotes, whatever it means.
    Plain(String),
    /// A list.
    Sequence(&'a [T]),
    /// Keys with their values, in any order.
    Mapping(Vec<(String, T)>),
}

/// A value that can be written as YAML.
pub trait Emit: Sized {
    /// What it is in this style.
    fn shape(&self, style: Style) -> Shape<'_, Self>;
}

/// Which of go-yaml's two dialects is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// `sigs.k8s.io/yaml`: go-yaml v2 behind JSON. Lists are not indented under their key, long lines are folded.
    Kubernetes,
    /// `toYamlPretty`: go-yaml v3 with an indentation of two.
    Pretty,
}

/// The YAML text of a value, ending in a newline; `None` when the value cannot be written.
pub fn to_yaml<T: Emit>(value: &T, style: Style) -> Option<Vec<u8>> {
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

    fn node<T: Emit>(&mut self, value: &T, indent: isize, context: Context, depth: usize) -> Option<()> {
        if depth > MAX_NESTING {
            return None;
        }
        match value.shape(self.style) {
            Shape::Null => self.plain("null", indent, context),
            Shape::Bool(b) => self.plain(if b { "true" } else { "false" }, indent, context),
            Shape::Int(i) => self.plain(&i.to_string(), indent, context),
            Shape::Uint(u) => self.plain(&u.to_string(), indent, context),
            Shape::Float(f) => {
                if !f.is_finite() && self.style == Style::Kubernetes {
                    return None;
                }
                self.plain(&self.float(f), indent, context);
            }
            Shape::Text(text) => self.string(&text, indent, context)?,
            Shape::Plain(text) => self.plain(&text, indent, context),
            Shape::Sequence(items) => self.sequence(items, indent, context, depth)?,
            Shape::Mapping(entries) => self.mapping(entries, indent, depth)?,
        }
        Some(())
    }

    /// A float that went through JSON and came back as an integer where it looks like one.
    fn float(&self, f: f64) -> String {
        let text = numbers::format_json(f);
        if self.style == Style::Kubernetes {
            match resolve::untagged(&text, false) {
                Resolved::Int(i) => i.to_string(),
                Resolved::Uint(u) => u.to_string(),
                _ => numbers::format_g(f, None),
            }
        } else {
            match numbers::format_g(f, None).as_str() {
                "+Inf" => ".inf".to_owned(),
                "-Inf" => "-.inf".to_owned(),
                "NaN" => ".nan".to_owned(),
                other => other.to_owned(),
            }
        }
    }

    fn sequence<T: Emit>(
        &mut self,
        items: &[T],
        indent: isize,
        context: Context,
        depth: usize,
    ) -> Option<()> {
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

    fn mapping<T: Emit>(&mut self, mut entries: Vec<(String, T)>, indent: isize, depth: usize) -> Option<()> {
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
