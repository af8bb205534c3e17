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
pub(crate) struct Token {
    pub(crate) kind: Kind,
    /// Texts are never larger than what a chart's file or a template's output may be.
    pub(crate) position: u32,
    end: u32,
}

impl Token {
    pub(crate) fn new(kind: Kind, position: usize, end: usize) -> Self {
        let place = |position: usize| u32::try_from(position).unwrap_or(u32::MAX);
        Token { kind, position: place(position), end: place(end) }
    }

    pub(crate) fn len(&self) -> usize {
        (self.end - self.position) as usize
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

type Step = Option<Token>;

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// How much space a text begins with.
fn leading_space(text: &[u8]) -> usize {
    text.iter().position(|b| !is_space(*b)).unwrap_or(text.len())
}

fn is_alphanumeric(c: char) -> bool {
    c == '_' || c.is_alphabetic() || c.is_ascii_digit() || (!c.is_ascii() && c.is_numeric())
}

fn has_left_trim(text: &[u8]) -> bool {
    matches!(text, [b'-', space, ..] if is_space(*space))
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(input: &'a str) -> Self {
        Lexer { input, position: 0, start: 0, paren_depth: 0, inside_action: false, failure: None }
    }

    /// The next token; after an error or the end it is `Eof` for ever.
    pub(crate) fn next_token(&mut self) -> Token {
        if self.failure.is_some() {
            return Token::new(Kind::Eof, self.start, self.start);
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

    /// The text of a token; that of an error is [`Lexer::message`].
    pub(crate) fn text_of(&self, token: Token) -> &'a str {
        self.input.get(token.position as usize..token.end as usize).unwrap_or_default()
    }

    /// How error messages show a token that is not itself an error.
    pub(crate) fn show(&self, token: Token) -> String {
        let text = self.text_of(token);
        match token.kind {
            Kind::Eof => "EOF".to_owned(),
            kind if kind.is_keyword() => format!("<{text}>"),
            _ if text.len() > 10 => {
                let head: String = text.chars().take(10).collect();
                format!("{}...", crate::strconv::quote(head.as_bytes()))
            }
            _ => crate::strconv::quote(text.as_bytes()),
        }
    }

    /// What an error token complains about.
    pub(crate) fn message(&self) -> &str {
        self.failure.as_deref().unwrap_or_default()
    }

    /// The line of a place in the text, from 1.
    pub(crate) fn line(&self, position: u32) -> usize {
        1 + self.input.as_bytes()[..(position as usize).min(self.input.len())]
            .iter()
            .filter(|b| **b == b'\n')
            .count()
    }

    fn rest(&self) -> &'a [u8] {
        &self.input.as_bytes()[self.position..]
    }

    fn byte(&self) -> Option<u8> {
        self.input.as_bytes().get(self.position).copied()
    }

    fn peek(&self) -> Option<char> {
        match self.byte()? {
            b if b.is_ascii() => Some(char::from(b)),
            _ => self.input[self.position..].chars().next(),
        }
    }

    fn take(&mut self, kind: Kind) -> Token {
        let token = Token::new(kind, self.start, self.position);
        self.start = self.position;
        token
    }

    fn emit(&mut self, kind: Kind) -> Step {
        Some(self.take(kind))
    }

    /// Skips text that was passed over.
    fn ignore(&mut self) {
        self.start = self.position;
    }

    fn error(&mut self, message: impl Into<String>) -> Step {
        self.failure = Some(message.into());
        Some(Token::new(Kind::Error, self.start, self.start))
    }

    /// Where the next action begins, from here.
    fn find_action(&self) -> Option<usize> {
        let rest = self.rest();
        let mut from = 0;
        loop {
            from += memchr::memchr(b'{', &rest[from..])?;
            if rest.get(from + 1) == Some(&b'{') {
                return Some(from);
            }
            from += 1;
        }
    }

    fn text(&mut self) -> Step {
        let Some(found) = self.find_action() else {
            self.position = self.input.len();
            if self.position > self.start {
                return self.emit(Kind::Text);
            }
            return Some(Token::new(Kind::Eof, self.position, self.position));
        };
        if found > 0 {
            self.position += found;
            let before = &self.input.as_bytes()[self.start..self.position];
            let trim = if has_left_trim(&self.rest()[2..]) {
                before.iter().rev().position(|b| !is_space(*b)).unwrap_or(before.len())
            } else {
                0
            };
            self.position -= trim;
            let token = self.take(Kind::Text);
            self.position += trim;
            self.ignore();
            if token.len() > 0 {
                return Some(token);
            }
        }
        self.left_delimiter()
    }

    fn left_delimiter(&mut self) -> Step {
        self.position += 2;
        let marker = if has_left_trim(self.rest()) { 2 } else { 0 };
        if self.rest()[marker..].starts_with(b"/*") {
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

    fn comment(&mut self) -> Step {
        self.position += 2;
        let Some(end) = self.input[self.position..].find("*/") else { return self.error("unclosed comment") };
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
            self.position += leading_space(self.rest());
        }
        self.ignore();
    }

    /// Whether a right delimiter comes next, and whether it trims.
    fn at_right_delimiter(&self) -> (bool, bool) {
        match self.rest() {
            [b'}', b'}', ..] => (true, false),
            [space, b'-', b'}', b'}', ..] if is_space(*space) => (true, true),
            _ => (false, false),
        }
    }

    fn right_delimiter(&mut self) -> Step {
        let (_, trim) = self.at_right_delimiter();
        if trim {
            self.position += 2;
            self.ignore();
        }
        self.position += 2;
        let token = self.take(Kind::RightDelim);
        if trim {
            self.position += leading_space(self.rest());
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
            let text = if token.kind == Kind::Error { lexer.message() } else { lexer.text_of(token) };
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
