//! Splits template text into tokens, trimming space around `{{-` and `-}}` on the way.

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Error,
    Bool,
    Char,
    CharConstant,
    Complex,
    Assign,
    Declare,
    Eof,
    Field,
    Identifier,
    LeftDelim,
    LeftParen,
    Number,
    Pipe,
    RawString,
    RightDelim,
    RightParen,
    Space,
    String,
    Text,
    Variable,
    Block,
    Break,
    Continue,
    Dot,
    Define,
    Else,
    End,
    If,
    Nil,
    Range,
    Template,
    With,
}

impl Kind {
    fn is_keyword(self) -> bool {
        matches!(
            self,
            Kind::Block
                | Kind::Break
                | Kind::Continue
                | Kind::Dot
                | Kind::Define
                | Kind::Else
                | Kind::End
                | Kind::If
                | Kind::Nil
                | Kind::Range
                | Kind::Template
                | Kind::With
        )
    }
}

/// A token with its place in the text.
#[derive(Clone, Debug)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    pub(crate) position: usize,
    pub(crate) text: std::borrow::Cow<'a, str>,
    pub(crate) line: usize,
}

impl Token<'_> {
    /// How error messages show the token.
    pub(crate) fn show(&self) -> String {
        match self.kind {
            Kind::Eof => "EOF".to_owned(),
            Kind::Error => self.text.to_string(),
            kind if kind.is_keyword() => format!("<{}>", self.text),
            _ if self.text.len() > 10 => {
                let head: String = self.text.chars().take(10).collect();
                format!("{}...", crate::strconv::quote(head.as_bytes()))
            }
            _ => crate::strconv::quote(self.text.as_bytes()),
        }
    }
}

/// The scanner over one template text.
pub(crate) struct Lexer<'a> {
    input: &'a str,
    position: usize,
    start: usize,
    line: usize,
    start_line: usize,
    paren_depth: usize,
    inside_action: bool,
    failed: bool,
}

type Step<'a> = Option<Token<'a>>;

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn is_alphanumeric(c: char) -> bool {
    c == '_' || c.is_alphabetic() || c.is_ascii_digit() || (!c.is_ascii() && c.is_numeric())
}

fn has_left_trim(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 2 && bytes[0] == b'-' && is_space(char::from(bytes[1]))
}

fn has_right_trim(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 2 && is_space(char::from(bytes[0])) && bytes[1] == b'-'
}

fn newlines(text: &str) -> usize {
    text.bytes().filter(|b| *b == b'\n').count()
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(input: &'a str) -> Self {
        Lexer {
            input,
            position: 0,
            start: 0,
            line: 1,
            start_line: 1,
            paren_depth: 0,
            inside_action: false,
            failed: false,
        }
    }

    /// The next token; after an error or the end it is `Eof` for ever.
    pub(crate) fn next_token(&mut self) -> Token<'a> {
        if self.failed {
            return Token {
                kind: Kind::Eof,
                position: self.position,
                text: "EOF".into(),
                line: self.start_line,
            };
        }
        loop {
            let step = if self.inside_action { self.inside() } else { self.text() };
            if let Some(token) = step {
                return token;
            }
        }
    }

    fn rest(&self) -> &'a str {
        &self.input[self.position..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn advance(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.position += c.len_utf8();
        if c == '\n' {
            self.line += 1;
        }
        Some(c)
    }

    fn take(&mut self, kind: Kind) -> Token<'a> {
        let token = Token {
            kind,
            position: self.start,
            text: self.input[self.start..self.position].into(),
            line: self.start_line,
        };
        self.start = self.position;
        self.start_line = self.line;
        token
    }

    fn emit(&mut self, kind: Kind) -> Step<'a> {
        Some(self.take(kind))
    }

    /// Skips text that was passed over without counting its lines.
    fn ignore(&mut self) {
        self.line += newlines(&self.input[self.start..self.position]);
        self.start = self.position;
        self.start_line = self.line;
    }

    fn error(&mut self, message: impl Into<String>) -> Step<'a> {
        self.failed = true;
        Some(Token {
            kind: Kind::Error,
            position: self.start,
            text: message.into().into(),
            line: self.start_line,
        })
    }

    fn text(&mut self) -> Step<'a> {
        let Some(found) = self.rest().find("{{") else {
            self.position = self.input.len();
            if self.position > self.start {
                self.line += newlines(&self.input[self.start..self.position]);
                return self.emit(Kind::Text);
            }
            return Some(Token {
                kind: Kind::Eof,
                position: self.position,
                text: "EOF".into(),
                line: self.start_line,
            });
        };
        if found > 0 {
            self.position += found;
            let before = &self.input[self.start..self.position];
            let trim = if has_left_trim(&self.input[self.position + 2..]) {
                before.len() - before.trim_end_matches(is_space).len()
            } else {
                0
            };
            self.position -= trim;
            self.line += newlines(&self.input[self.start..self.position]);
            let token = self.take(Kind::Text);
            self.position += trim;
            self.ignore();
            if !token.text.is_empty() {
                return Some(token);
            }
        }
        self.left_delimiter()
    }

    fn left_delimiter(&mut self) -> Step<'a> {
        self.position += 2;
        let marker = if has_left_trim(self.rest()) { 2 } else { 0 };
        if self.input[self.position + marker..].starts_with("/*") {
            self.position += marker;
            self.ignore();
            return self.comment();
        }
        let token = self.take(Kind::LeftDelim);
        self.inside_action = true;
        self.position += marker;
        self.ignore();
        self.paren_depth = 0;
        Some(token)
    }

    fn comment(&mut self) -> Step<'a> {
        self.position += 2;
        let Some(end) = self.rest().find("*/") else { return self.error("unclosed comment") };
        self.position += end + 2;
        let (delimiter, trim) = self.at_right_delimiter();
        if !delimiter {
            return self.error("comment ends before closing delimiter");
        }
        self.close_delimiter(trim);
        None
    }

    fn close_delimiter(&mut self, trim: bool) {
        self.position += if trim { 4 } else { 2 };
        if trim {
            let rest = self.rest();
            self.position += rest.len() - rest.trim_start_matches(is_space).len();
        }
        self.ignore();
    }

    fn at_right_delimiter(&self) -> (bool, bool) {
        let rest = self.rest();
        if has_right_trim(rest) && rest[2..].starts_with("}}") {
            return (true, true);
        }
        (rest.starts_with("}}"), false)
    }

    fn right_delimiter(&mut self) -> Step<'a> {
        let (_, trim) = self.at_right_delimiter();
        if trim {
            self.position += 2;
            self.ignore();
        }
        self.position += 2;
        let token = self.take(Kind::RightDelim);
        if trim {
            let rest = self.rest();
            self.position += rest.len() - rest.trim_start_matches(is_space).len();
            self.ignore();
        }
        self.inside_action = false;
        Some(token)
    }

    fn inside(&mut self) -> Step<'a> {
        if self.at_right_delimiter().0 {
            if self.paren_depth == 0 {
                return self.right_delimiter();
            }
            return self.error("unclosed left paren");
        }
        let before = (self.position, self.line);
        let Some(c) = self.advance() else { return self.error("unclosed action") };
        match c {
            c if is_space(c) => {
                (self.position, self.line) = before;
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
                (self.position, self.line) = before;
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

    fn space(&mut self) -> Step<'a> {
        let mut count = 0;
        while self.peek().is_some_and(is_space) {
            self.advance();
            count += 1;
        }
        // The last space may belong to a trimming right delimiter.
        let last = self.position - 1;
        if has_right_trim(&self.input[last..]) && self.input[last + 2..].starts_with("}}") {
            if self.input.as_bytes()[last] == b'\n' {
                self.line -= 1;
            }
            self.position = last;
            if count == 1 {
                return self.right_delimiter();
            }
        }
        self.emit(Kind::Space)
    }

    fn identifier(&mut self) -> Step<'a> {
        while self.peek().is_some_and(is_alphanumeric) {
            self.advance();
        }
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

    fn bad_character(&mut self) -> Step<'a> {
        match self.peek() {
            Some(c) => self.error(format!("bad character {}", unicode(c))),
            None => self.error("bad character at end of input"),
        }
    }

    fn field_or_variable(&mut self, kind: Kind) -> Step<'a> {
        if self.at_terminator() {
            return self.emit(if kind == Kind::Variable { Kind::Variable } else { Kind::Dot });
        }
        while self.peek().is_some_and(is_alphanumeric) {
            self.advance();
        }
        if !self.at_terminator() {
            return self.bad_character();
        }
        self.emit(kind)
    }

    fn at_terminator(&self) -> bool {
        match self.peek() {
            None => true,
            Some(c) => {
                is_space(c) || matches!(c, '.' | ',' | '|' | ':' | ')' | '(') || self.rest().starts_with("}}")
            }
        }
    }

    fn quoted(&mut self, quote: char, unterminated: &str, kind: Kind) -> Step<'a> {
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

    fn number(&mut self) -> Step<'a> {
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

    fn accept(&mut self, valid: &str) -> bool {
        let found = self.peek().is_some_and(|c| valid.contains(c));
        if found {
            self.advance();
        }
        found
    }

    fn accept_run(&mut self, valid: &str) {
        while self.accept(valid) {}
    }

    fn scan_number(&mut self) -> bool {
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
fn unicode(c: char) -> String {
    if crate::strconv::is_print(c) {
        format!("U+{:04X} '{c}'", c as u32)
    } else {
        format!("U+{:04X}", c as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<(Kind, String)> {
        let mut lexer = Lexer::new(text);
        let mut out = Vec::new();
        loop {
            let token = lexer.next_token();
            if token.kind == Kind::Eof {
                return out;
            }
            out.push((token.kind, token.text.to_string()));
        }
    }

    #[test]
    fn trim_markers_eat_space() {
        let tokens = kinds("a  {{- 1 -}}\n b");
        let texts: Vec<&str> =
            tokens.iter().filter(|(k, _)| *k == Kind::Text).map(|(_, t)| t.as_str()).collect();
        assert_eq!(texts, ["a", "b"]);
        assert_eq!(kinds("{{-3}}")[1], (Kind::Number, "-3".to_owned()));
    }

    #[test]
    fn errors_end_the_stream() {
        assert_eq!(kinds("{{ \"a }}").last().unwrap().0, Kind::Error);
        assert_eq!(kinds("{{ (1 }}").last().unwrap().1, "unclosed left paren");
        assert_eq!(kinds("{{/* a").last().unwrap().1, "unclosed comment");
    }
}
