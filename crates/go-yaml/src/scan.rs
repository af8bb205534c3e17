//! Splits YAML text into tokens: the classic YAML 1.1 scanner with its indentation and simple-key bookkeeping.

mod reader;
mod scalars;

use std::borrow::Cow;
use std::collections::VecDeque;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    StreamEnd,
    VersionDirective,
    /// Its handle and prefix are a [`Payload::Pair`].
    TagDirective,
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias,
    Anchor,
    /// Its handle and suffix are a [`Payload::Pair`].
    Tag,
    /// Text without quotes, which may mean a number or a word.
    PlainScalar,
    /// Quoted or block text.
    Scalar,
}

/// What a token carries.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Payload<'a> {
    #[default]
    Nothing,
    /// A scalar's or an anchor's text; part of the document wherever it stands there as it is.
    Text(Cow<'a, [u8]>),
    Pair(Box<(String, String)>),
}

impl<'a> Payload<'a> {
    pub(super) fn into_text(self) -> Cow<'a, [u8]> {
        match self {
            Payload::Text(text) => text,
            _ => Cow::Borrowed(&[]),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Token<'a> {
    pub(super) kind: TokenKind,
    pub(super) line: usize,
    pub(super) payload: Payload<'a>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    index: usize,
    line: usize,
    column: isize,
}

#[derive(Clone, Copy, Debug, Default)]
struct SimpleKey {
    possible: bool,
    required: bool,
    token: usize,
    mark: Mark,
}

/// Collections within collections: far beyond real documents, and within a small thread's stack.
const MAX_DEPTH: usize = 250;

/// Produces tokens on demand.
pub(super) struct Scanner<'a> {
    text: &'a [u8],
    /// Nothing but printable ASCII is in the text, in lines that end with a line feed.
    plain: bool,
    position: usize,
    mark: Mark,
    tokens: VecDeque<Token<'a>>,
    /// The first token is known to be the next one.
    settled: bool,
    parsed: usize,
    ended: bool,
    indent: isize,
    indents: Vec<isize>,
    simple_key_allowed: bool,
    simple_keys: Vec<SimpleKey>,
    flow_level: usize,
}

type Result<T> = std::result::Result<T, String>;

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a [u8], plain: bool) -> Self {
        Scanner {
            text,
            plain,
            position: 0,
            mark: Mark::default(),
            tokens: VecDeque::new(),
            settled: false,
            parsed: 0,
            ended: false,
            indent: -1,
            indents: Vec::new(),
            simple_key_allowed: true,
            simple_keys: vec![SimpleKey::default()],
            flow_level: 0,
        }
    }

    pub(super) fn peek(&mut self) -> Result<&Token<'a>> {
        if !self.settled {
            self.fetch_more()?;
            self.settled = true;
        }
        self.tokens.front().ok_or_else(|| "unexpected end of tokens".to_owned())
    }

    /// Passes the token that was seen last, and returns what it carries.
    pub(super) fn take_token(&mut self) -> Payload<'a> {
        match self.tokens.front() {
            Some(token) if token.kind != TokenKind::StreamEnd => {
                self.parsed += 1;
                self.settled = false;
                self.tokens.pop_front().map(|token| token.payload).unwrap_or_default()
            }
            _ => Payload::Nothing,
        }
    }

    pub(super) fn skip_token(&mut self) {
        self.take_token();
    }

    fn fetch_more(&mut self) -> Result<()> {
        loop {
            if let Some(head) = self.tokens.front() {
                if head.kind == TokenKind::StreamEnd {
                    return Ok(());
                }
                // The head may still turn out to be a simple key, which puts a token before it.
                let parsed = self.parsed;
                let Some(index) = self.simple_keys.iter().position(|k| k.possible && k.token == parsed)
                else {
                    return Ok(());
                };
                if !self.simple_key_valid(index)? {
                    return Ok(());
                }
            }
            if self.ended {
                return Ok(());
            }
            self.fetch_next()?;
        }
    }

    fn error<T>(&self, line: usize, problem: &str) -> Result<T> {
        // A line is only named when it is not the first, and scanner errors count from one.
        Err(if line == 0 { problem.to_owned() } else { format!("line {}: {problem}", line + 1) })
    }

    fn fail<T>(&self, problem: &str) -> Result<T> {
        self.error(self.mark.line, problem)
    }

    fn push(&mut self, kind: TokenKind, line: usize) {
        self.push_with(kind, line, Payload::Nothing);
    }

    fn push_with(&mut self, kind: TokenKind, line: usize, payload: Payload<'a>) {
        self.tokens.push_back(Token { kind, line, payload });
    }

    fn fetch_next(&mut self) -> Result<()> {
        self.skip_to_token();
        self.unroll_indent(self.mark.column);
        if self.is_end() {
            return self.stream_end();
        }
        let c = self.at(0);
        if self.mark.column == 0 {
            if c == b'%' {
                return self.directive();
            }
            for (text, kind) in [(b"---", TokenKind::DocumentStart), (b"...", TokenKind::DocumentEnd)] {
                if self.document_indicator(text) {
                    return self.document(kind);
                }
            }
        }
        match c {
            b'[' => self.flow_start(TokenKind::FlowSequenceStart),
            b'{' => self.flow_start(TokenKind::FlowMappingStart),
            b']' => self.flow_end(TokenKind::FlowSequenceEnd),
            b'}' => self.flow_end(TokenKind::FlowMappingEnd),
            b',' => self.flow_entry(),
            b'-' if self.is_blankz(1) => self.block_entry(),
            b'?' if self.flow_level > 0 || self.is_blankz(1) => self.key(),
            b':' if self.flow_level > 0 || self.is_blankz(1) => self.value(),
            b'*' | b'&' => self.anchor(c == b'*'),
            b'!' => self.tag(),
            b'|' if self.flow_level == 0 => self.block_scalar(true),
            b'>' if self.flow_level == 0 => self.block_scalar(false),
            b'\'' => self.quoted_scalar(true),
            b'"' => self.quoted_scalar(false),
            b'-' if !self.is_blank_at(1) => self.plain_scalar(),
            b'?' | b':' if self.flow_level == 0 && !self.is_blankz(1) => self.plain_scalar(),
            b'-' | b'?' | b':' | b'#' | b'|' | b'>' | b'%' | b'@' | b'`' | b'\t' => {
                self.fail("found character that cannot start any token")
            }
            _ => self.plain_scalar(),
        }
    }

    fn document_indicator(&self, text: &[u8; 3]) -> bool {
        self.mark.column == 0 && self.text[self.position..].starts_with(text) && self.is_blankz(3)
    }

    fn simple_key_valid(&mut self, index: usize) -> Result<bool> {
        let key = self.simple_keys[index];
        if !key.possible {
            return Ok(false);
        }
        if key.mark.line < self.mark.line || key.mark.index + 1024 < self.mark.index {
            if key.required {
                return self.error(self.mark.line, "could not find expected ':'");
            }
            self.simple_keys[index].possible = false;
            return Ok(false);
        }
        Ok(true)
    }

    fn save_simple_key(&mut self) -> Result<()> {
        if self.simple_key_allowed {
            let required = self.flow_level == 0 && self.indent == self.mark.column;
            let token = self.parsed + self.tokens.len();
            self.remove_simple_key()?;
            if let Some(last) = self.simple_keys.last_mut() {
                *last = SimpleKey { possible: true, required, token, mark: self.mark };
            }
        }
        Ok(())
    }

    fn remove_simple_key(&mut self) -> Result<()> {
        let line = self.mark.line;
        if let Some(key) = self.simple_keys.last_mut()
            && key.possible
        {
            if key.required {
                return self.error(line, "could not find expected ':'");
            }
            key.possible = false;
        }
        Ok(())
    }

    fn roll_indent(&mut self, column: isize, at: Option<usize>, kind: TokenKind, line: usize) -> Result<()> {
        if self.flow_level == 0 && self.indent < column {
            self.indents.push(self.indent);
            self.indent = column;
            if self.indents.len() > MAX_DEPTH {
                return self.fail("exceeded max depth of 250");
            }
            let token = Token { kind, line, payload: Payload::Nothing };
            match at {
                Some(number) => self.tokens.insert(number - self.parsed, token),
                None => self.tokens.push_back(token),
            }
        }
        Ok(())
    }

    fn unroll_indent(&mut self, column: isize) {
        if self.flow_level > 0 {
            return;
        }
        while self.indent > column {
            self.push(TokenKind::BlockEnd, self.mark.line);
            self.indent = self.indents.pop().unwrap_or(-1);
        }
    }

    fn stream_end(&mut self) -> Result<()> {
        if self.mark.column != 0 {
            self.mark.column = 0;
            self.mark.line += 1;
        }
        self.unroll_indent(-1);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        self.ended = true;
        self.push(TokenKind::StreamEnd, self.mark.line);
        Ok(())
    }

    fn document(&mut self, kind: TokenKind) -> Result<()> {
        self.unroll_indent(-1);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        let line = self.mark.line;
        for _ in 0..3 {
            self.skip();
        }
        self.push(kind, line);
        Ok(())
    }

    fn directive(&mut self) -> Result<()> {
        self.unroll_indent(-1);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        let line = self.mark.line;
        let start = self.position;
        self.pass(self.rest_of_line());
        let text = crate::lossy(&self.text[start..self.position]).into_owned();
        let body = text.split(" #").next().unwrap_or_default();
        let words: Vec<&str> = body.split_ascii_whitespace().collect();
        let (kind, payload) = match words.as_slice() {
            ["%YAML", version] if version.split_once('.').is_some() => {
                (TokenKind::VersionDirective, Payload::Nothing)
            }
            ["%TAG", handle, prefix] => (
                TokenKind::TagDirective,
                Payload::Pair(Box::new(((*handle).to_owned(), (*prefix).to_owned()))),
            ),
            _ => return self.error(line, "found unknown directive name"),
        };
        if self.is_break_at(0) {
            self.skip_line();
        }
        self.push_with(kind, line, payload);
        Ok(())
    }

    fn flow_start(&mut self, kind: TokenKind) -> Result<()> {
        self.save_simple_key()?;
        self.simple_keys.push(SimpleKey::default());
        self.flow_level += 1;
        if self.flow_level > MAX_DEPTH {
            return self.fail("exceeded max depth of 250");
        }
        self.simple_key_allowed = true;
        self.indicator(kind);
        Ok(())
    }

    fn flow_end(&mut self, kind: TokenKind) -> Result<()> {
        self.remove_simple_key()?;
        if self.flow_level > 0 {
            self.flow_level -= 1;
            self.simple_keys.pop();
        }
        self.simple_key_allowed = false;
        self.indicator(kind);
        Ok(())
    }

    fn indicator(&mut self, kind: TokenKind) {
        let line = self.mark.line;
        self.skip();
        self.push(kind, line);
    }

    fn flow_entry(&mut self) -> Result<()> {
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        self.indicator(TokenKind::FlowEntry);
        Ok(())
    }

    fn block_entry(&mut self) -> Result<()> {
        if self.flow_level == 0 {
            if !self.simple_key_allowed {
                return self.fail("block sequence entries are not allowed in this context");
            }
            self.roll_indent(self.mark.column, None, TokenKind::BlockSequenceStart, self.mark.line)?;
        }
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        self.indicator(TokenKind::BlockEntry);
        Ok(())
    }

    fn key(&mut self) -> Result<()> {
        if self.flow_level == 0 {
            if !self.simple_key_allowed {
                return self.fail("mapping keys are not allowed in this context");
            }
            self.roll_indent(self.mark.column, None, TokenKind::BlockMappingStart, self.mark.line)?;
        }
        self.remove_simple_key()?;
        self.simple_key_allowed = self.flow_level == 0;
        self.indicator(TokenKind::Key);
        Ok(())
    }

    fn value(&mut self) -> Result<()> {
        let last = self.simple_keys.len() - 1;
        if self.simple_key_valid(last)? {
            let key = self.simple_keys[last];
            let token = Token { kind: TokenKind::Key, line: key.mark.line, payload: Payload::Nothing };
            self.tokens.insert(key.token - self.parsed, token);
            self.roll_indent(key.mark.column, Some(key.token), TokenKind::BlockMappingStart, key.mark.line)?;
            self.simple_keys[last].possible = false;
            self.simple_key_allowed = false;
        } else {
            if self.flow_level == 0 {
                if !self.simple_key_allowed {
                    return self.fail("mapping values are not allowed in this context");
                }
                self.roll_indent(self.mark.column, None, TokenKind::BlockMappingStart, self.mark.line)?;
            }
            self.simple_key_allowed = self.flow_level == 0;
        }
        self.indicator(TokenKind::Value);
        Ok(())
    }

    fn anchor(&mut self, alias: bool) -> Result<()> {
        self.save_simple_key()?;
        self.simple_key_allowed = false;
        let line = self.mark.line;
        self.skip();
        let start = self.position;
        while self.at(0).is_ascii_alphanumeric() || matches!(self.at(0), b'_' | b'-') {
            self.skip();
        }
        let name = &self.text[start..self.position];
        let ends =
            self.is_blankz(0) || matches!(self.at(0), b'?' | b':' | b',' | b']' | b'}' | b'%' | b'@' | b'`');
        if name.is_empty() || !ends {
            return self.fail("did not find expected alphabetic or numeric character");
        }
        let kind = if alias { TokenKind::Alias } else { TokenKind::Anchor };
        self.push_with(kind, line, Payload::Text(Cow::Borrowed(name)));
        Ok(())
    }

    fn tag(&mut self) -> Result<()> {
        self.save_simple_key()?;
        self.simple_key_allowed = false;
        let line = self.mark.line;
        let start = self.position;
        while !(self.is_blankz(0) || self.flow_level > 0 && self.at(0) == b',') {
            self.skip();
        }
        let text = crate::lossy(&self.text[start..self.position]).into_owned();
        let (handle, suffix) = if let Some(uri) = text.strip_prefix("!<").and_then(|t| t.strip_suffix('>')) {
            (String::new(), uri.to_owned())
        } else if let Some(rest) = text.strip_prefix("!!") {
            ("!!".to_owned(), rest.to_owned())
        } else {
            match text[1..].split_once('!') {
                Some((name, suffix)) => (format!("!{name}!"), suffix.to_owned()),
                None if text.len() == 1 => (String::new(), "!".to_owned()),
                None => ("!".to_owned(), text[1..].to_owned()),
            }
        };
        if suffix.is_empty() {
            return self.error(line, "did not find expected tag URI");
        }
        self.push_with(TokenKind::Tag, line, Payload::Pair(Box::new((handle, suffix))));
        Ok(())
    }

    fn skip_to_token(&mut self) {
        loop {
            if self.mark.column == 0 && self.text[self.position..].starts_with(b"\xEF\xBB\xBF") {
                self.skip();
            }
            while self.at(0) == b' '
                || ((self.flow_level > 0 || !self.simple_key_allowed) && self.at(0) == b'\t')
            {
                self.skip();
            }
            self.skip_comment();
            if !self.is_break_at(0) {
                return;
            }
            self.skip_line();
            if self.flow_level == 0 {
                self.simple_key_allowed = true;
            }
        }
    }
}
