//! What is between the delimiters: words, constants, operators.

use super::{Kind, Lexer, Step, has_right_trim, is_alphanumeric, is_space};

impl<'a> Lexer<'a> {
    pub(super) fn inside(&mut self) -> Step<'a> {
        if self.at_right_delimiter().0 {
            if self.paren_depth == 0 {
                return self.right_delimiter();
            }
            return self.error("unclosed left paren");
        }
        let before = self.position;
        let Some(c) = self.advance() else { return self.error("unclosed action") };
        match c {
            c if is_space(c) => {
                self.position = before;
                self.space()
            }
            '=' => self.emit(Kind::Assign),
            ':' => {
                if self.advance() != Some('=') {
                    return self.error("expected :=");
                }
                self.emit(Kind::Declare)
            }
            '|' => self.emit(Kind::Pipe),
            '"' => self.quoted('"', "unterminated quoted string", Kind::String),
            '\'' => self.quoted('\'', "unterminated character constant", Kind::CharConstant),
            '`' => loop {
                match self.advance() {
                    None => return self.error("unterminated raw quoted string"),
                    Some('`') => return self.emit(Kind::RawString),
                    Some(_) => {}
                }
            },
            '$' if self.at_terminator() => self.emit(Kind::Variable),
            '$' => self.field_or_variable(Kind::Variable),
            '.' if !self.rest().is_empty() && !self.rest().starts_with(|c: char| c.is_ascii_digit()) => {
                self.field_or_variable(Kind::Field)
            }
            '.' | '+' | '-' | '0'..='9' => {
                self.position = before;
                self.number()
            }
            c if is_alphanumeric(c) => self.identifier(),
            '(' => {
                self.paren_depth += 1;
                self.emit(Kind::LeftParen)
            }
            ')' => {
                if self.paren_depth == 0 {
                    return self.error("unexpected right paren");
                }
                self.paren_depth -= 1;
                self.emit(Kind::RightParen)
            }
            c if c.is_ascii_graphic() => self.emit(Kind::Char),
            c => self.error(format!("unrecognized character in action: {}", unicode(c))),
        }
    }

    pub(super) fn space(&mut self) -> Step<'a> {
        let mut count = 0;
        while matches!(self.byte(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.position += 1;
            count += 1;
        }
        // The last space may belong to a trimming right delimiter.
        let last = self.position - 1;
        if has_right_trim(&self.input[last..]) && self.input[last + 2..].starts_with("}}") {
            self.position = last;
            if count == 1 {
                return self.right_delimiter();
            }
        }
        self.emit(Kind::Space)
    }

    /// Passes over letters, digits and underscores.
    pub(super) fn word(&mut self) {
        loop {
            let rest = &self.input.as_bytes()[self.position..];
            self.position +=
                rest.iter().position(|b| !(b.is_ascii_alphanumeric() || *b == b'_')).unwrap_or(rest.len());
            // Letters and digits beyond ASCII are rare.
            match self.peek() {
                Some(c) if !c.is_ascii() && is_alphanumeric(c) => self.position += c.len_utf8(),
                _ => return,
            }
        }
    }

    pub(super) fn identifier(&mut self) -> Step<'a> {
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

    pub(super) fn bad_character(&mut self) -> Step<'a> {
        match self.peek() {
            Some(c) => self.error(format!("bad character {}", unicode(c))),
            None => self.error("bad character at end of input"),
        }
    }

    pub(super) fn field_or_variable(&mut self, kind: Kind) -> Step<'a> {
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
        match self.peek() {
            None => true,
            Some(c) => {
                is_space(c) || matches!(c, '.' | ',' | '|' | ':' | ')' | '(') || self.rest().starts_with("}}")
            }
        }
    }

    pub(super) fn quoted(&mut self, quote: char, unterminated: &str, kind: Kind) -> Step<'a> {
        loop {
            match self.advance() {
                Some('\\') => match self.advance() {
                    Some(c) if c != '\n' => {}
                    _ => return self.error(unterminated),
                },
                None | Some('\n') => return self.error(unterminated),
                Some(c) if c == quote => return self.emit(kind),
                Some(_) => {}
            }
        }
    }

    pub(super) fn number(&mut self) -> Step<'a> {
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
        let found = self.peek().is_some_and(|c| valid.contains(c));
        if found {
            self.advance();
        }
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
        if self.peek().is_some_and(is_alphanumeric) {
            self.advance();
            return false;
        }
        true
    }
}

/// A character as Go's `%#U` shows it.
pub(super) fn unicode(c: char) -> String {
    if crate::strconv::is_print(c) {
        format!("U+{:04X} '{c}'", c as u32)
    } else {
        format!("U+{:04X}", c as u32)
    }
}
