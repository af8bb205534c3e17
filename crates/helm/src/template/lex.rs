//! Splits template text into tokens, trimming space around `{{-` and `-}}` on the way.

mod action;

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
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    pub(crate) position: usize,
    /// Its text; that of an error is [`Lexer::message`].
    pub(crate) text: &'a str,
}

impl Token<'_> {
    /// How error messages show a token that is not itself an error.
    pub(crate) fn show(&self) -> String {
        match self.kind {
            Kind::Eof => "EOF".to_owned(),
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
    paren_depth: usize,
    inside_action: bool,
    failure: Option<String>,
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

impl<'a> Lexer<'a> {
    pub(crate) fn new(input: &'a str) -> Self {
        Lexer { input, position: 0, start: 0, paren_depth: 0, inside_action: false, failure: None }
    }

    /// The next token; after an error or the end it is `Eof` for ever.
    pub(crate) fn next_token(&mut self) -> Token<'a> {
        if self.failure.is_some() {
            return Token { kind: Kind::Eof, position: self.start, text: "EOF" };
        }
        loop {
            let step = if self.inside_action { self.inside() } else { self.text() };
            if let Some(token) = step {
                return token;
            }
        }
    }

    /// The whole text.
    pub(crate) fn input(&self) -> &'a str {
        self.input
    }

    /// What an error token complains about.
    pub(crate) fn message(&self) -> &str {
        self.failure.as_deref().unwrap_or_default()
    }

    /// The line of a place in the text, from 1.
    pub(crate) fn line(&self, position: usize) -> usize {
        1 + self.input.as_bytes()[..position.min(self.input.len())].iter().filter(|b| **b == b'\n').count()
    }

    fn rest(&self) -> &'a str {
        &self.input[self.position..]
    }

    fn byte(&self) -> Option<u8> {
        self.input.as_bytes().get(self.position).copied()
    }

    fn peek(&self) -> Option<char> {
        match self.byte()? {
            b if b.is_ascii() => Some(char::from(b)),
            _ => self.rest().chars().next(),
        }
    }

    fn advance(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.position += c.len_utf8();
        Some(c)
    }

    fn take(&mut self, kind: Kind) -> Token<'a> {
        let token = Token { kind, position: self.start, text: &self.input[self.start..self.position] };
        self.start = self.position;
        token
    }

    fn emit(&mut self, kind: Kind) -> Step<'a> {
        Some(self.take(kind))
    }

    /// Skips text that was passed over.
    fn ignore(&mut self) {
        self.start = self.position;
    }

    fn error(&mut self, message: impl Into<String>) -> Step<'a> {
        self.failure = Some(message.into());
        Some(Token { kind: Kind::Error, position: self.start, text: "" })
    }

    /// Where the next action begins, from here.
    fn find_action(&self) -> Option<usize> {
        let rest = self.rest();
        let mut from = 0;
        loop {
            from += rest[from..].find('{')?;
            if rest.as_bytes().get(from + 1) == Some(&b'{') {
                return Some(from);
            }
            from += 1;
        }
    }

    fn text(&mut self) -> Step<'a> {
        let Some(found) = self.find_action() else {
            self.position = self.input.len();
            if self.position > self.start {
                return self.emit(Kind::Text);
            }
            return Some(Token { kind: Kind::Eof, position: self.position, text: "EOF" });
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
        if !matches!(self.byte(), Some(b'}' | b' ' | b'\t' | b'\r' | b'\n')) {
            return (false, false);
        }
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
            let text = if token.kind == Kind::Error { lexer.message() } else { token.text };
            out.push((token.kind, text.to_owned()));
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
