//! Scalars: which style a text needs, and how it is written in it.

use super::super::resolve::{self, Resolved};
use super::{Context, Emitter, Style};

const WIDTH: usize = 80;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scalar {
    Plain,
    Single,
    Double,
    Literal,
}

/// What characters of a scalar allow.
pub(super) struct Analysis {
    pub(super) multiline: bool,
    block_plain: bool,
    single: bool,
    block: bool,
}

impl Emitter {
    pub(super) fn plain(&mut self, text: &str, indent: isize, context: Context) {
        self.write_plain(text, scalar_indent(indent), !context.simple_key);
    }

    pub(super) fn string(&mut self, text: &str, indent: isize, context: Context) -> Option<()> {
        // On the way through JSON control characters below space are escaped, and the others refused by its reader.
        if self.style == Style::Kubernetes
            && !is_simple(text)
            && !text.chars().all(|c| c < ' ' || super::super::parse::is_allowed(c))
        {
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

    pub(super) fn folds(&self, breaks: bool) -> bool {
        breaks && self.column > WIDTH && self.style == Style::Kubernetes
    }

    pub(super) fn write_plain(&mut self, text: &str, indent: isize, breaks: bool) {
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

    pub(super) fn write_single(&mut self, text: &str, indent: isize, breaks: bool) {
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

    pub(super) fn write_break(&mut self, c: char) {
        if c == '\n' {
            self.put_break();
        } else {
            self.out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            self.column = 0;
        }
    }

    pub(super) fn write_double(&mut self, text: &str, indent: isize, breaks: bool) {
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

    /// The body of a literal that is ASCII, a line at a time.
    fn write_lines(&mut self, text: &str, indent: isize) {
        for line in text.split_inclusive('\n') {
            let content = line.strip_suffix('\n').unwrap_or(line);
            if !content.is_empty() {
                self.write_indent(indent);
                self.out.extend_from_slice(content.as_bytes());
                self.column += content.len();
                self.indention = false;
            }
            if content.len() < line.len() {
                self.put_break();
                self.indention = true;
            }
        }
    }

    pub(super) fn write_literal(&mut self, text: &str, indent: isize) {
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
        if is_simple(text) && !text.contains('\r') {
            return self.write_lines(text, indent);
        }
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

/// Whether all of a text is ASCII that needs no escape but where it controls something.
fn is_simple(text: &str) -> bool {
    text.as_bytes().chunks(64).all(|block| block.iter().fold(true, |ok, b| ok & (*b < 0x7F)))
}

/// Where the further lines of a scalar go; at the top they are indented too.
pub(super) fn scalar_indent(indent: isize) -> isize {
    if indent < 0 { 2 } else { indent + 2 }
}

/// Words that YAML 1.1 reads as booleans and YAML 1.2 does not; go-yaml v3 quotes them for old readers.
pub(super) fn is_old_bool(text: &str) -> bool {
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

pub(super) fn is_yaml12_word(text: &str) -> bool {
    matches!(text, "true" | "True" | "TRUE" | "false" | "False" | "FALSE")
}

pub(super) fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

pub(super) fn is_printable(c: char, style: Style) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}') && c != '\u{feff}'
        || style == Style::Pretty && c >= '\u{10000}'
}

pub(super) fn analyze(text: &str) -> Analysis {
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
