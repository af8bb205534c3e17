//! What is between the delimiters: words, constants, operators.

use super::{Kind, Lexer, Step, is_alphanumeric, is_space};

impl Lexer<'_> {
    pub(super) fn inside(&mut self) -> Step {
        let Some(byte) = self.byte() else { return self.error("unclosed action") };
        if (byte == b'}' || is_space(byte)) && self.at_right_delimiter().0 {
            if self.paren_depth == 0 {
                return self.right_delimiter();
            }
            return self.error("unclosed left paren");
        }
        if is_space(byte) {
            return self.space();
        }
        self.position += 1;
        match byte {
            b'.' if self.byte().is_some_and(|b| !b.is_ascii_digit()) => self.field_or_variable(Kind::Field),
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => self.identifier(),
            b'$' => self.field_or_variable(Kind::Variable),
            b'"' => self.quoted(b'"', "unterminated quoted string", Kind::String),
            b'.' | b'+' | b'-' | b'0'..=b'9' => {
                self.position -= 1;
                self.number()
            }
            b'(' => {
                self.paren_depth += 1;
                self.emit(Kind::LeftParen)
            }
            b')' => {
                if self.paren_depth == 0 {
                    return self.error("unexpected right paren");
                }
                self.paren_depth -= 1;
                self.emit(Kind::RightParen)
            }
            b'|' => self.emit(Kind::Pipe),
            b'=' => self.emit(Kind::Assign),
            b':' => {
                if self.byte() != Some(b'=') {
                    return self.error("expected :=");
                }
                self.position += 1;
                self.emit(Kind::Declare)
            }
            b'\'' => self.quoted(b'\'', "unterminated character constant", Kind::CharConstant),
            b'`' => match self.rest().iter().position(|b| *b == b'`') {
                None => self.error("unterminated raw quoted string"),
                Some(length) => {
                    self.position += length + 1;
                    self.emit(Kind::RawString)
                }
            },
            byte if byte.is_ascii_graphic() => self.emit(Kind::Char),
            _ => {
                self.position -= 1;
                let c = self.peek().unwrap_or(char::REPLACEMENT_CHARACTER);
                self.position += c.len_utf8();
                if is_alphanumeric(c) {
                    return self.identifier();
                }
                self.error(format!("unrecognized character in action: {}", unicode(c)))
            }
        }
    }

    pub(super) fn space(&mut self) -> Step {
        let count = super::leading_space(self.rest());
        // The last space may belong to a trimming right delimiter.
        self.position += count - 1;
        if self.at_right_delimiter().1 {
            if count == 1 {
                return self.right_delimiter();
            }
        } else {
            self.position += 1;
        }
        self.emit(Kind::Space)
    }

    /// Passes over letters, digits and underscores.
    pub(super) fn word(&mut self) {
        loop {
            let rest = self.rest();
            self.position += rest.iter().position(|b| !IS_WORD[usize::from(*b)]).unwrap_or(rest.len());
            // Letters and digits beyond ASCII are rare.
            match self.peek() {
                Some(c) if !c.is_ascii() && is_alphanumeric(c) => self.position += c.len_utf8(),
                _ => return,
            }
        }
    }

    pub(super) fn identifier(&mut self) -> Step {
        self.word();
        if !self.at_terminator() {
            return self.bad_character();
        }
        let kind = match &self.input[self.start..self.position] {
            "block" => Kind::Block,
            "break" => Kind::Break,
            "continue" => Kind::Continue,
            "define" => Kind::Define,
            "else" => Kind::Else,
            "end" => Kind::End,
            "if" => Kind::If,
            "range" => Kind::Range,
            "nil" => Kind::Nil,
            "template" => Kind::Template,
            "with" => Kind::With,
            "true" | "false" => Kind::Bool,
            _ => Kind::Identifier,
        };
        self.emit(kind)
    }

    pub(super) fn bad_character(&mut self) -> Step {
        match self.peek() {
            Some(c) => self.error(format!("bad character {}", unicode(c))),
            None => self.error("bad character at end of input"),
        }
    }

    pub(super) fn field_or_variable(&mut self, kind: Kind) -> Step {
        if self.at_terminator() {
            return self.emit(if kind == Kind::Variable { Kind::Variable } else { Kind::Dot });
        }
        self.word();
        if !self.at_terminator() {
            return self.bad_character();
        }
        self.emit(kind)
    }

    pub(super) fn at_terminator(&self) -> bool {
        match self.rest() {
            [] | [b' ' | b'\t' | b'\r' | b'\n' | b'.' | b',' | b'|' | b':' | b')' | b'(', ..] => true,
            rest => rest.starts_with(b"}}"),
        }
    }

    pub(super) fn quoted(&mut self, quote: u8, unterminated: &str, kind: Kind) -> Step {
        loop {
            let Some(length) = self.rest().iter().position(|b| *b == quote || matches!(b, b'\\' | b'\n'))
            else {
                return self.error(unterminated);
            };
            self.position += length + 1;
            match self.input.as_bytes()[self.position - 1] {
                // What is escaped may be a longer character, none of whose bytes is special.
                b'\\' if self.byte().is_some_and(|b| b != b'\n') => self.position += 1,
                byte if byte == quote => return self.emit(kind),
                _ => return self.error(unterminated),
            }
        }
    }

    pub(super) fn number(&mut self) -> Step {
        let bad = |lexer: &mut Self| {
            let text = crate::strconv::quote(&lexer.input.as_bytes()[lexer.start..lexer.position]);
            lexer.error(format!("bad number syntax: {text}"))
        };
        if !self.scan_number() {
            return bad(self);
        }
        if matches!(self.peek(), Some('+' | '-')) {
            if !self.scan_number() || !self.input[..self.position].ends_with('i') {
                return bad(self);
            }
            return self.emit(Kind::Complex);
        }
        self.emit(Kind::Number)
    }

    pub(super) fn accept(&mut self, valid: &str) -> bool {
        let found = self.byte().is_some_and(|b| valid.as_bytes().contains(&b));
        self.position += usize::from(found);
        found
    }

    pub(super) fn accept_run(&mut self, valid: &str) {
        while self.accept(valid) {}
    }

    pub(super) fn scan_number(&mut self) -> bool {
        self.accept("+-");
        let mut digits = "0123456789_";
        if self.accept("0") {
            if self.accept("xX") {
                digits = "0123456789abcdefABCDEF_";
            } else if self.accept("oO") {
                digits = "01234567_";
            } else if self.accept("bB") {
                digits = "01_";
            }
        }
        self.accept_run(digits);
        if self.accept(".") {
            self.accept_run(digits);
        }
        if digits.len() == 11 && self.accept("eE") || digits.len() == 23 && self.accept("pP") {
            self.accept("+-");
            self.accept_run("0123456789_");
        }
        self.accept("i");
        match self.peek() {
            Some(c) if is_alphanumeric(c) => {
                self.position += c.len_utf8();
                false
            }
            _ => true,
        }
    }
}

/// The letters, digits and underscores of ASCII.
static IS_WORD: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0u8;
    while byte < 128 {
        table[byte as usize] = byte == b'_' || byte.is_ascii_alphanumeric();
        byte += 1;
    }
    table
};

/// A character as Go's `%#U` shows it.
pub(super) fn unicode(c: char) -> String {
    if crate::strconv::is_print(c) {
        format!("U+{:04X} '{c}'", c as u32)
    } else {
        format!("U+{:04X}", c as u32)
    }
}
