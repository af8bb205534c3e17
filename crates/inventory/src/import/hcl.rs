//! Terraform's variable files (`terraform.tfvars`) → a tree with places. Only values: no expressions, as Terraform itself wants them.

use std::iter::Peekable;
use std::str::CharIndices;

use crate::diagnostic::Finding;
use crate::yaml::{Entry, Kind, Node, Span, Value};

/// Deeper nesting than this is refused, so that everything that walks a tree may recurse.
const DEEPEST: usize = 40;
const ESCAPES: &str = "Known are \\n, \\r, \\t, \\\", \\\\ and \\uNNNN; a plain `${` is written `$${`.";

/// A mistake.
type Wrong = Box<Finding>;

fn wrong(span: Span, message: impl Into<String>, help: &str) -> Wrong {
    Box::new(Finding::error("hcl", span, message).help(help))
}

/// The variables that a text sets. Ends at the first mistake, as all after it is a guess.
pub(super) fn parse(text: &str, source: usize) -> Result<Node, Wrong> {
    let mut parser = Parser { text, source, rest: text.char_indices().peekable(), depth: 0 };
    let entries = parser.entries(None)?;
    Ok(Node { span: parser.span(0, text.len()), value: Value::Map(entries) })
}

struct Parser<'a> {
    text: &'a str,
    source: usize,
    rest: Peekable<CharIndices<'a>>,
    depth: usize,
}

impl Parser<'_> {
    fn span(&self, start: usize, end: usize) -> Span {
        Span { source: self.source, start, end }
    }

    fn at(&mut self) -> usize {
        self.rest.peek().map_or(self.text.len(), |(at, _)| *at)
    }

    fn peek(&mut self) -> Option<char> {
        self.rest.peek().map(|(_, c)| *c)
    }

    fn next(&mut self) -> Option<char> {
        self.rest.next().map(|(_, c)| c)
    }

    fn ahead(&mut self, text: &str) -> bool {
        let at = self.at();
        self.text.get(at..).is_some_and(|rest| rest.starts_with(text))
    }

    fn wrong(&mut self, message: &str, help: &str) -> Wrong {
        let at = self.at();
        wrong(self.span(at, at), message, help)
    }

    /// Leaves out blanks and comments; line breaks as well where they say nothing.
    fn skip(&mut self, lines: bool) -> Result<(), Wrong> {
        loop {
            if self.ahead("#") || self.ahead("//") {
                while self.peek().is_some_and(|c| c != '\n') {
                    self.next();
                }
            } else if self.ahead("/*") {
                let start = self.at();
                while !self.ahead("*/") {
                    if self.next().is_none() {
                        let span = self.span(start, start + 2);
                        return Err(wrong(span, "This comment has no end.", "End it with `*/`."));
                    }
                }
                self.next();
                self.next();
            } else if self.peek().is_some_and(|c| c.is_whitespace() && (lines || c != '\n')) {
                self.next();
            } else {
                return Ok(());
            }
        }
    }

    /// `name = value`, up to the end of the text or of the mapping.
    fn entries(&mut self, end: Option<char>) -> Result<Vec<Entry>, Wrong> {
        let mut entries: Vec<Entry> = Vec::new();
        loop {
            self.skip(true)?;
            if self.peek() == end {
                self.next();
                return Ok(entries);
            }
            let (key, key_span) = self.key()?;
            if let Some(first) = entries.iter().find(|entry| entry.key == key) {
                let finding = Finding::error("hcl", key_span, format!("`{key}` is given twice."));
                let finding =
                    finding.help("Keep one of the two.").related(first.key_span, "first given here");
                return Err(Box::new(finding));
            }
            self.skip(false)?;
            if !(self.peek() == Some('=') || (end.is_some() && self.peek() == Some(':'))) {
                return Err(self.wrong("An `=` is missing here.", "Variables are set as `name = value`."));
            }
            self.next();
            self.skip(false)?;
            let value = self.value()?;
            entries.push(Entry { key, key_span, value });
            self.skip(false)?;
            match self.peek() {
                Some(',') if end.is_some() => {
                    self.next();
                }
                None | Some('\n') => {}
                found if found == end => {}
                _ => {
                    let help = "One value to a line, and no expressions: a variable file holds plain values.";
                    return Err(self.wrong("The line goes on after its value.", help));
                }
            }
        }
    }

    fn key(&mut self) -> Result<(String, Span), Wrong> {
        let start = self.at();
        let key = match self.peek() {
            Some('"') => self.string()?,
            Some(c) if c.is_alphabetic() || c == '_' => self.word(),
            Some(c) if c.is_ascii_digit() => self.word(),
            _ => return Err(self.wrong("This is not the name of a variable.", "Write `name = value`.")),
        };
        let end = self.at();
        Ok((key, self.span(start, end)))
    }

    fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(c) = self.peek().filter(|c| c.is_alphanumeric() || matches!(c, '_' | '-')) {
            word.push(c);
            self.next();
        }
        word
    }

    fn value(&mut self) -> Result<Node, Wrong> {
        let start = self.at();
        if self.depth > DEEPEST {
            return Err(self.wrong("This is nested too deeply.", "No variable of a cluster needs it."));
        }
        self.depth += 1;
        let value = match self.peek() {
            Some('"') => Value::Scalar { kind: Kind::Str, text: self.string()? },
            Some('<') if self.ahead("<<") => Value::Scalar { kind: Kind::Str, text: self.heredoc()? },
            Some('[') => {
                self.next();
                Value::Seq(self.items()?)
            }
            Some('{') => {
                self.next();
                Value::Map(self.entries(Some('}'))?)
            }
            Some(c) if c.is_ascii_digit() || c == '-' => self.number(start)?,
            Some(c) if c.is_alphabetic() => self.constant(start)?,
            _ => return Err(self.wrong("A value is missing here.", "Text stands in quotes.")),
        };
        self.depth -= 1;
        let end = self.at();
        Ok(Node { span: self.span(start, end), value })
    }

    fn items(&mut self) -> Result<Vec<Node>, Wrong> {
        let mut items = Vec::new();
        loop {
            self.skip(true)?;
            if self.peek() == Some(']') {
                self.next();
                return Ok(items);
            }
            items.push(self.value()?);
            self.skip(true)?;
            match self.peek() {
                Some(',') => {
                    self.next();
                }
                Some(']') => {}
                _ => return Err(self.wrong("A comma or `]` is missing here.", "Lists are written `[a, b]`.")),
            }
        }
    }

    fn number(&mut self, start: usize) -> Result<Value, Wrong> {
        while self.peek().is_some_and(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+')) {
            self.next();
        }
        let end = self.at();
        let text = self.text.get(start..end).unwrap_or_default();
        if text.parse::<f64>().is_err() {
            let span = self.span(start, end);
            return Err(wrong(span, "This is not a number.", "Put text in quotes."));
        }
        let kind = if text.contains(['.', 'e', 'E']) { Kind::Float } else { Kind::Int };
        Ok(Value::Scalar { kind, text: text.to_owned() })
    }

    fn constant(&mut self, start: usize) -> Result<Value, Wrong> {
        let text = self.word();
        let kind = match text.as_str() {
            "true" | "false" => Kind::Bool,
            "null" => Kind::Null,
            _ => {
                let end = self.at();
                let message = "This is an expression, and a variable file holds only values.";
                let help = "Write the value itself; text stands in quotes.";
                return Err(wrong(self.span(start, end), message, help));
            }
        };
        Ok(Value::Scalar { kind, text })
    }

    fn string(&mut self) -> Result<String, Wrong> {
        let start = self.at();
        self.next();
        let mut text = String::new();
        loop {
            if self.ahead("$${") || self.ahead("%%{") {
                self.next();
            } else if self.ahead("${") || self.ahead("%{") {
                return Err(self.wrong("This is a template, and a variable file holds only values.", ESCAPES));
            }
            match self.next() {
                Some('"') => return Ok(text),
                Some('\\') => text.push(self.escaped()?),
                Some('\n') | None => {
                    let span = self.span(start, start + 1);
                    return Err(wrong(span, "This text has no end.", "End it with `\"`."));
                }
                Some(c) => text.push(c),
            }
        }
    }

    fn escaped(&mut self) -> Result<char, Wrong> {
        let digits = match self.next() {
            Some('n') => return Ok('\n'),
            Some('r') => return Ok('\r'),
            Some('t') => return Ok('\t'),
            Some(c @ ('"' | '\\')) => return Ok(c),
            Some('u') => 4,
            Some('U') => 8,
            _ => return Err(self.wrong("This escape is not known.", ESCAPES)),
        };
        let number: String = (0..digits).filter_map(|_| self.next()).collect();
        u32::from_str_radix(&number, 16)
            .ok()
            .and_then(char::from_u32)
            .ok_or_else(|| self.wrong("This escape is not a letter.", ESCAPES))
    }

    /// `<<NAME` or `<<-NAME`, whose lines go on until one that is the name.
    fn heredoc(&mut self) -> Result<String, Wrong> {
        let start = self.at();
        self.next();
        self.next();
        let is_indented = self.peek() == Some('-');
        if is_indented {
            self.next();
        }
        let name = self.word();
        let mut lines: Vec<String> = Vec::new();
        while self.next().is_some_and(|c| c != '\n') {}
        loop {
            let mut line = String::new();
            while let Some(c) = self.peek().filter(|c| *c != '\n') {
                line.push(c);
                self.next();
            }
            if line.trim() == name {
                break;
            }
            if self.next().is_none() || name.is_empty() {
                let span = self.span(start, start + 2);
                let help = "End it with its name alone on a line.";
                return Err(wrong(span, "This text has no end.", help));
            }
            lines.push(line);
        }
        let blank = |line: &String| line.len() - line.trim_start().len();
        let indent = lines.iter().filter(|line| !line.trim().is_empty()).map(blank).min().unwrap_or(0);
        let cut = if is_indented { indent } else { 0 };
        Ok(lines.iter().map(|line| format!("{}\n", line.get(cut..).unwrap_or(""))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(node: &Node) -> String {
        match &node.value {
            Value::Scalar { kind: Kind::Str, text } => format!("{text:?}"),
            Value::Scalar { text, .. } => text.clone(),
            Value::Seq(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(",")),
            Value::Map(entries) => {
                let all: Vec<String> =
                    entries.iter().map(|e| format!("{}:{}", e.key, shown(&e.value))).collect();
                format!("{{{}}}", all.join(","))
            }
        }
    }

    #[test]
    fn values_of_every_kind() {
        for (text, meant) in [
            ("a = 1\n# x\nb = \"c\" // d\n/* e\n */ f = true", r#"{a:1,b:"c",f:true}"#),
            ("a = [1, \"b\",\n  # c\n  null,\n]", r#"{a:[1,"b",null]}"#),
            ("a = { b = 1, \"c-d\" : -2.5\n e = {} }\n", r#"{a:{b:1,c-d:-2.5,e:{}}}"#),
            (
                "a = <<EOT\n  x\n y ${\nEOT\nb=<<-E\n    x\n      y\n  E\n",
                r#"{a:"  x\n y ${\n",b:"x\n  y\n"}"#,
            ),
            (r#"a = "q\"\\\n\u00e9 $${b}""#, r#"{a:"q\"\\\né ${b}"}"#),
            ("", "{}"),
        ] {
            assert_eq!(
                parse(text, 0).map(|node| shown(&node)).map_err(|e| e.message).as_deref(),
                Ok(meant),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_value_is_told_with_its_place() {
        for (text, at, why) in [
            ("a = var.b\n", 4, "expression"),
            ("a = file(\"x\")", 4, "expression"),
            ("a = \"${b}\"", 5, "template"),
            ("a = 1 + 2", 6, "goes on"),
            ("a 1", 2, "`=` is missing"),
            ("a = \"b\nc", 4, "no end"),
            ("a = [1 2]", 7, "comma"),
            ("a = 1x", 4, "not a number"),
            ("a = 1\na = 2", 6, "twice"),
            ("a = <<E\nb", 4, "no end"),
            ("/* a", 0, "no end"),
            ("a = {", 5, "not the name"),
            ("a =", 3, "missing"),
        ] {
            let finding = parse(text, 0).expect_err(text);
            assert!(finding.message.contains(why), "{text}: {finding:?}");
            assert_eq!(finding.span.map(|span| span.start), Some(at), "{text}");
            assert!(finding.help.is_some());
        }
        assert!(parse(&format!("a = {}", "[".repeat(10_000)), 0).is_err());
    }
}
