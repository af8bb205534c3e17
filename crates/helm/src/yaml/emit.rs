//! Writes values as YAML, byte for byte as go-yaml does.

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

const WIDTH: usize = 80;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scalar {
    Plain,
    Single,
    Double,
    Literal,
}

/// What characters of a scalar allow.
struct Analysis {
    multiline: bool,
    block_plain: bool,
    single: bool,
    block: bool,
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

    fn plain(&mut self, text: &str, indent: isize, context: Context) {
        self.write_plain(text, scalar_indent(indent), !context.simple_key);
    }

    fn string(&mut self, text: &str, indent: isize, context: Context) -> Option<()> {
        // On the way through JSON control characters below space are escaped, and the others refused by its reader.
        if self.style == Style::Kubernetes && !text.chars().all(|c| c < ' ' || super::parse::is_allowed(c)) {
            return None;
        }
        let analysis = analyze(text);
        let resolved = resolve::untagged(text, true);
        let means_string = match self.style {
            Style::Kubernetes => resolved == Resolved::String && !resolve::is_base60(text),
            Style::Pretty => {
                (resolved == Resolved::String
                    || matches!(resolved, Resolved::Bool(_)) && !is_yaml12_word(text))
                    && !resolve::is_base60(text)
                    && !is_old_bool(text)
            }
        };
        let mut style = if text.contains('\n') {
            Scalar::Literal
        } else if means_string {
            Scalar::Plain
        } else {
            Scalar::Double
        };
        if context.simple_key && analysis.multiline {
            style = Scalar::Double;
        }
        if style == Scalar::Plain && (!analysis.block_plain || text.is_empty() && context.simple_key) {
            style = Scalar::Single;
        }
        if style == Scalar::Single && !analysis.single {
            style = Scalar::Double;
        }
        if style == Scalar::Literal && (!analysis.block || context.simple_key) {
            style = Scalar::Double;
        }
        let inner = scalar_indent(indent);
        let breaks = !context.simple_key;
        match style {
            Scalar::Plain => self.write_plain(text, inner, breaks),
            Scalar::Single => self.write_single(text, inner, breaks),
            Scalar::Double => self.write_double(text, inner, breaks),
            Scalar::Literal => self.write_literal(text, inner),
        }
        Some(())
    }

    fn folds(&self, breaks: bool) -> bool {
        breaks && self.column > WIDTH && self.style == Style::Kubernetes
    }

    fn write_plain(&mut self, text: &str, indent: isize, breaks: bool) {
        if !self.whitespace {
            self.put(b' ');
        }
        let mut spaces = false;
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            if c == ' ' {
                if !spaces && self.folds(breaks) && chars.peek() != Some(&' ') {
                    self.write_indent(indent);
                } else {
                    self.put(b' ');
                }
                spaces = true;
            } else {
                self.put_char(c);
                self.indention = false;
                spaces = false;
            }
        }
        self.whitespace = false;
        self.indention = false;
    }

    fn write_single(&mut self, text: &str, indent: isize, breaks: bool) {
        self.indicator("'", true, false, false);
        let mut spaces = false;
        let mut newline = false;
        let last = text.len().saturating_sub(1);
        let mut chars = text.char_indices().peekable();
        while let Some((i, c)) = chars.next() {
            if c == ' ' {
                let next_is_space = chars.peek().is_some_and(|(_, n)| *n == ' ');
                if !spaces && self.folds(breaks) && i > 0 && i < last && !next_is_space {
                    self.write_indent(indent);
                } else {
                    self.put(b' ');
                }
                spaces = true;
            } else if is_break(c) {
                if !newline && c == '\n' {
                    self.put_break();
                }
                self.write_break(c);
                self.indention = true;
                newline = true;
            } else {
                if newline {
                    self.write_indent(indent);
                }
                if c == '\'' {
                    self.put(b'\'');
                }
                self.put_char(c);
                self.indention = false;
                spaces = false;
                newline = false;
            }
        }
        self.indicator("'", false, false, false);
        self.whitespace = false;
        self.indention = false;
    }

    fn write_break(&mut self, c: char) {
        if c == '\n' {
            self.put_break();
        } else {
            self.out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            self.column = 0;
        }
    }

    fn write_double(&mut self, text: &str, indent: isize, breaks: bool) {
        self.indicator("\"", true, false, false);
        let mut spaces = false;
        let last = text.len().saturating_sub(1);
        let mut chars = text.char_indices().peekable();
        while let Some((i, c)) = chars.next() {
            if !is_printable(c, self.style) || is_break(c) || c == '"' || c == '\\' || c == '\u{feff}' {
                self.put(b'\\');
                let short = match c {
                    '\0' => '0',
                    '\x07' => 'a',
                    '\x08' => 'b',
                    '\t' => 't',
                    '\n' => 'n',
                    '\x0b' => 'v',
                    '\x0c' => 'f',
                    '\r' => 'r',
                    '\x1b' => 'e',
                    '"' => '"',
                    '\\' => '\\',
                    '\u{85}' => 'N',
                    '\u{a0}' => '_',
                    '\u{2028}' => 'L',
                    '\u{2029}' => 'P',
                    _ => '\0',
                };
                if short != '\0' {
                    self.put_char(short);
                } else {
                    let code = c as u32;
                    let text = match code {
                        0..=0xFF => format!("x{code:02X}"),
                        0x100..=0xFFFF => format!("u{code:04X}"),
                        _ => format!("U{code:08X}"),
                    };
                    for byte in text.bytes() {
                        self.put(byte);
                    }
                }
                spaces = false;
            } else if c == ' ' {
                if !spaces && self.folds(breaks) && i > 0 && i < last {
                    self.write_indent(indent);
                    if chars.peek().is_some_and(|(_, n)| *n == ' ') {
                        self.put(b'\\');
                    }
                } else {
                    self.put(b' ');
                }
                spaces = true;
            } else {
                self.put_char(c);
                spaces = false;
            }
        }
        self.indicator("\"", false, false, false);
        self.whitespace = false;
        self.indention = false;
    }

    fn write_literal(&mut self, text: &str, indent: isize) {
        self.indicator("|", true, false, false);
        let first = text.chars().next();
        if first.is_some_and(|c| c == ' ' || is_break(c)) {
            self.indicator("2", false, false, false);
        }
        let mut reversed = text.chars().rev();
        match reversed.next() {
            Some(c) if is_break(c) => match reversed.next() {
                Some(c) if !is_break(c) => {}
                _ => self.indicator("+", false, false, false),
            },
            _ => self.indicator("-", false, false, false),
        }
        self.put_break();
        self.indention = true;
        self.whitespace = true;
        let mut newline = true;
        for c in text.chars() {
            if is_break(c) {
                self.write_break(c);
                self.indention = true;
                newline = true;
            } else {
                if newline {
                    self.write_indent(indent);
                }
                self.put_char(c);
                self.indention = false;
                newline = false;
            }
        }
    }
}

fn deeper(indent: isize) -> isize {
    if indent < 0 { 0 } else { indent + 2 }
}

/// Where the further lines of a scalar go; at the top they are indented too.
fn scalar_indent(indent: isize) -> isize {
    if indent < 0 { 2 } else { indent + 2 }
}

/// Words that YAML 1.1 reads as booleans and YAML 1.2 does not; go-yaml v3 quotes them for old readers.
fn is_old_bool(text: &str) -> bool {
    matches!(
        text,
        "y" | "Y"
            | "yes"
            | "Yes"
            | "YES"
            | "on"
            | "On"
            | "ON"
            | "n"
            | "N"
            | "no"
            | "No"
            | "NO"
            | "off"
            | "Off"
            | "OFF"
    )
}

fn is_yaml12_word(text: &str) -> bool {
    matches!(text, "true" | "True" | "TRUE" | "false" | "False" | "FALSE")
}

fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn is_printable(c: char, style: Style) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}') && c != '\u{feff}'
        || style == Style::Pretty && c >= '\u{10000}'
}

fn analyze(text: &str) -> Analysis {
    if text.is_empty() {
        return Analysis { multiline: false, block_plain: true, single: true, block: false };
    }
    let mut block_indicators = text.starts_with("---") || text.starts_with("...");
    let (mut line_breaks, mut special) = (false, false);
    let (mut leading_space, mut leading_break, mut trailing_space, mut trailing_break) =
        (false, false, false, false);
    let (mut break_space, mut space_break) = (false, false);
    let (mut previous_space, mut previous_break) = (false, false);
    let mut after_space = true;
    let mut chars = text.chars().peekable();
    let mut first = true;
    while let Some(c) = chars.next() {
        let next = chars.peek().copied();
        let before_space = next.is_none_or(|n| n == ' ' || n == '\t');
        if first {
            match c {
                '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@'
                | '`' => {
                    block_indicators = true;
                }
                '?' | ':' | '-' if before_space => block_indicators = true,
                _ => {}
            }
        } else {
            match c {
                ':' if before_space => block_indicators = true,
                '#' if after_space => block_indicators = true,
                _ => {}
            }
        }
        if !is_printable(c, Style::Kubernetes) {
            special = true;
        }
        if c == ' ' {
            leading_space |= first;
            trailing_space |= next.is_none();
            break_space |= previous_break;
            previous_space = true;
            previous_break = false;
        } else if is_break(c) {
            line_breaks = true;
            leading_break |= first;
            trailing_break |= next.is_none();
            space_break |= previous_space;
            previous_space = false;
            previous_break = true;
        } else {
            previous_space = false;
            previous_break = false;
        }
        after_space = c == ' ' || c == '\t' || is_break(c);
        first = false;
    }
    let edges = leading_space || leading_break || trailing_space || trailing_break;
    Analysis {
        multiline: line_breaks,
        block_plain: !(edges || break_space || space_break || special || line_breaks || block_indicators),
        single: !(break_space || space_break || special),
        block: !(trailing_space || space_break || special),
    }
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
