//! Writes YAML byte for byte as the Image Factory's library does, for the few shapes that a schematic has.

use crate::scalar::{Style, escaped, is_break, style};

const INDENT: usize = 4;

/// A value to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    /// A string, quoted where it must be.
    Text(String),
    /// A number or boolean, as it is.
    Bare(String),
    /// A list; not empty.
    List(Vec<Node>),
    /// A map in the order given.
    Map(Vec<(String, Node)>),
}

impl Node {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }
}

/// A whole document.
pub(crate) fn document(root: &[(String, Node)]) -> String {
    let mut writer = Writer { out: String::new(), column: 0, after_space: true, in_indentation: true };
    writer.map(root, 0);
    writer.line(0);
    writer.out
}

/// What was written, and where on its line the writer stands.
struct Writer {
    out: String,
    column: usize,
    after_space: bool,
    in_indentation: bool,
}

impl Writer {
    fn put(&mut self, c: char) {
        self.out.push(c);
        self.column += 1;
    }

    fn put_break(&mut self, c: char) {
        self.out.push(c);
        self.column = 0;
        self.in_indentation = true;
    }

    /// Goes to column `indent` of a line on which nothing but indentation stands.
    fn line(&mut self, indent: usize) {
        if !self.in_indentation || self.column > indent || (self.column == indent && !self.after_space) {
            self.put_break('\n');
        }
        while self.column < indent {
            self.put(' ');
        }
        self.after_space = true;
    }

    fn token(&mut self, text: &str, spaced: bool, keeps_indentation: bool) {
        if spaced && !self.after_space {
            self.put(' ');
        }
        for c in text.chars() {
            self.put(c);
        }
        self.after_space = false;
        self.in_indentation &= keeps_indentation;
    }

    fn map(&mut self, entries: &[(String, Node)], indent: usize) {
        for (key, value) in entries {
            self.line(indent);
            self.scalar(key, true, indent);
            self.token(":", false, false);
            self.node(value, indent, false);
        }
    }

    /// Writes a value inside a map or list that stands at `indent`.
    fn node(&mut self, node: &Node, indent: usize, in_list: bool) {
        // What is inside a list stands just behind the dash; everything else on multiples of the indentation.
        let inner = if in_list { indent + 2 } else { (indent + INDENT) / INDENT * INDENT };
        match node {
            Node::Text(text) => self.scalar(text, false, inner),
            Node::Bare(text) => self.token(text, true, false),
            Node::Map(entries) if entries.is_empty() => self.token("{}", true, false),
            Node::Map(entries) => self.map(entries, inner),
            Node::List(items) => {
                for item in items {
                    self.line(inner);
                    self.token("-", true, true);
                    self.node(item, inner, true);
                }
            }
        }
    }

    fn scalar(&mut self, text: &str, is_key: bool, indent: usize) {
        match style(text, is_key) {
            Style::Plain => self.token(text, true, false),
            Style::Double => self.token(&format!("\"{}\"", escaped(text)), true, false),
            Style::Single => self.single(text, indent),
            Style::Literal => self.literal(text, indent),
        }
    }

    /// Only breaks other than `\n` get here; they stand as they are.
    fn single(&mut self, text: &str, indent: usize) {
        self.token("'", true, false);
        let mut after_break = false;
        for c in text.chars() {
            if is_break(c) {
                self.put_break(c);
                after_break = true;
                continue;
            }
            if c != ' ' && after_break {
                self.line(indent);
            }
            if c == '\'' {
                self.put('\'');
            }
            self.put(c);
            if c != ' ' {
                self.in_indentation = false;
                after_break = false;
            }
        }
        self.token("'", false, false);
    }

    fn literal(&mut self, text: &str, indent: usize) {
        self.token("|", true, false);
        if text.starts_with(|c| c == ' ' || is_break(c)) {
            self.token(&INDENT.to_string(), false, false);
        }
        let mut from_end = text.chars().rev();
        match (from_end.next().is_some_and(is_break), from_end.next()) {
            (false, _) => self.token("-", false, false),
            (true, None) => self.token("+", false, false),
            (true, Some(before)) if is_break(before) => self.token("+", false, false),
            _ => {}
        }
        self.after_space = true;
        let mut after_break = true;
        for c in text.chars() {
            if is_break(c) {
                self.put_break(c);
                after_break = true;
                continue;
            }
            if after_break {
                self.line(indent);
            }
            self.put(c);
            self.in_indentation = false;
            after_break = false;
        }
    }
}
