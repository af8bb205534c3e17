//! Splits YAML text into tokens: the classic YAML 1.1 scanner with its indentation and simple-key bookkeeping.

use std::collections::VecDeque;

/// What a token is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TokenKind {
    StreamEnd,
    VersionDirective,
    TagDirective(String, String),
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
    Alias(String),
    Anchor(String),
    Tag(String, String),
    Scalar { value: Vec<u8>, plain: bool },
}

#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) line: usize,
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
    position: usize,
    mark: Mark,
    tokens: VecDeque<Token>,
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
    pub(super) fn new(text: &'a [u8]) -> Self {
        Scanner {
            text,
            position: 0,
            mark: Mark::default(),
            tokens: VecDeque::new(),
            parsed: 0,
            ended: false,
            indent: -1,
            indents: Vec::new(),
            simple_key_allowed: true,
            simple_keys: vec![SimpleKey::default()],
            flow_level: 0,
        }
    }

    pub(super) fn peek(&mut self) -> Result<&Token> {
        self.fetch_more()?;
        self.tokens.front().ok_or_else(|| "unexpected end of tokens".to_owned())
    }

    pub(super) fn skip_token(&mut self) {
        if let Some(token) = self.tokens.front()
            && token.kind == TokenKind::StreamEnd
        {
            return;
        }
        self.parsed += 1;
        self.tokens.pop_front();
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

    fn at(&self, offset: usize) -> u8 {
        self.text.get(self.position + offset).copied().unwrap_or(0)
    }

    fn is_break_at(&self, offset: usize) -> bool {
        match self.at(offset) {
            b'\n' | b'\r' => true,
            0xC2 => self.at(offset + 1) == 0x85,
            0xE2 => self.at(offset + 1) == 0x80 && matches!(self.at(offset + 2), 0xA8 | 0xA9),
            _ => false,
        }
    }

    fn is_end(&self) -> bool {
        self.position >= self.text.len()
    }

    fn is_end_at(&self, offset: usize) -> bool {
        self.position + offset >= self.text.len()
    }

    fn is_blank_at(&self, offset: usize) -> bool {
        matches!(self.at(offset), b' ' | b'\t')
    }

    fn is_breakz(&self, offset: usize) -> bool {
        self.is_end_at(offset) || self.is_break_at(offset)
    }

    fn is_blankz(&self, offset: usize) -> bool {
        self.is_blank_at(offset) || self.is_breakz(offset)
    }

    fn width(&self) -> usize {
        match self.at(0) {
            0..=0x7F => 1,
            0x80..=0xDF => 2,
            0xE0..=0xEF => 3,
            _ => 4,
        }
    }

    fn skip(&mut self) {
        self.position += self.width();
        self.mark.index += 1;
        self.mark.column += 1;
    }

    fn read(&mut self, out: &mut Vec<u8>) {
        let width = self.width();
        let end = (self.position + width).min(self.text.len());
        out.extend_from_slice(&self.text[self.position..end]);
        self.skip();
    }

    fn skip_line(&mut self) {
        let mut dropped = Vec::new();
        self.read_line(&mut dropped);
    }

    fn read_line(&mut self, out: &mut Vec<u8>) {
        let width = match self.at(0) {
            b'\r' if self.at(1) == b'\n' => {
                out.push(b'\n');
                2
            }
            b'\r' | b'\n' => {
                out.push(b'\n');
                1
            }
            0xC2 => {
                out.push(b'\n');
                2
            }
            0xE2 => {
                out.extend_from_slice(&self.text[self.position..(self.position + 3).min(self.text.len())]);
                3
            }
            _ => return,
        };
        self.position += width;
        self.mark.index += 1;
        self.mark.column = 0;
        self.mark.line += 1;
    }

    fn error<T>(&self, line: usize, problem: &str) -> Result<T> {
        // A line is only named when it is not the first, and scanner errors count from one.
        Err(if line == 0 { problem.to_owned() } else { format!("line {}: {problem}", line + 1) })
    }

    fn fail<T>(&self, problem: &str) -> Result<T> {
        self.error(self.mark.line, problem)
    }

    fn push(&mut self, kind: TokenKind, line: usize) {
        self.tokens.push_back(Token { kind, line });
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
            let token = Token { kind, line };
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
        while !self.is_breakz(0) {
            self.skip();
        }
        let text = String::from_utf8_lossy(&self.text[start..self.position]).into_owned();
        let body = text.split(" #").next().unwrap_or_default();
        let words: Vec<&str> = body.split_ascii_whitespace().collect();
        let kind = match words.as_slice() {
            ["%YAML", version] if version.split_once('.').is_some() => TokenKind::VersionDirective,
            ["%TAG", handle, prefix] => TokenKind::TagDirective((*handle).to_owned(), (*prefix).to_owned()),
            _ => return self.error(line, "found unknown directive name"),
        };
        if self.is_break_at(0) {
            self.skip_line();
        }
        self.push(kind, line);
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
            let token = Token { kind: TokenKind::Key, line: key.mark.line };
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
        let name = String::from_utf8_lossy(&self.text[start..self.position]).into_owned();
        let ends =
            self.is_blankz(0) || matches!(self.at(0), b'?' | b':' | b',' | b']' | b'}' | b'%' | b'@' | b'`');
        if name.is_empty() || !ends {
            return self.fail("did not find expected alphabetic or numeric character");
        }
        self.push(if alias { TokenKind::Alias(name) } else { TokenKind::Anchor(name) }, line);
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
        let text = String::from_utf8_lossy(&self.text[start..self.position]).into_owned();
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
        self.push(TokenKind::Tag(handle, suffix), line);
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
            if self.at(0) == b'#' {
                while !self.is_breakz(0) {
                    self.skip();
                }
            }
            if !self.is_break_at(0) {
                return;
            }
            self.skip_line();
            if self.flow_level == 0 {
                self.simple_key_allowed = true;
            }
        }
    }

    fn block_scalar(&mut self, literal: bool) -> Result<()> {
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        let line = self.mark.line;
        self.skip();
        let (mut chomping, mut increment) = (0, 0isize);
        for _ in 0..2 {
            match self.at(0) {
                b'+' if chomping == 0 => chomping = 1,
                b'-' if chomping == 0 => chomping = -1,
                b'0' if increment == 0 => {
                    return self.error(line, "found an indentation indicator equal to 0");
                }
                digit @ b'1'..=b'9' if increment == 0 => increment = isize::from(digit - b'0'),
                _ => break,
            }
            self.skip();
        }
        while self.is_blank_at(0) {
            self.skip();
        }
        if self.at(0) == b'#' {
            while !self.is_breakz(0) {
                self.skip();
            }
        }
        if !self.is_breakz(0) {
            return self.fail("did not find expected comment or line break");
        }
        if self.is_break_at(0) {
            self.skip_line();
        }
        let mut indent = if increment > 0 { self.indent.max(0) + increment } else { 0 };
        let mut value = Vec::new();
        let mut leading_break = Vec::new();
        let mut trailing = Vec::new();
        self.block_scalar_breaks(&mut indent, &mut trailing)?;
        let mut leading_blank = false;
        while self.mark.column == indent && !self.is_end() {
            let trailing_blank = self.is_blank_at(0);
            if !literal && !leading_blank && !trailing_blank && leading_break.first() == Some(&b'\n') {
                if trailing.is_empty() {
                    value.push(b' ');
                }
            } else {
                value.extend_from_slice(&leading_break);
            }
            leading_break.clear();
            value.append(&mut trailing);
            leading_blank = self.is_blank_at(0);
            while !self.is_breakz(0) {
                self.read(&mut value);
            }
            self.read_line(&mut leading_break);
            self.block_scalar_breaks(&mut indent, &mut trailing)?;
        }
        if chomping != -1 {
            value.extend_from_slice(&leading_break);
        }
        if chomping == 1 {
            value.extend_from_slice(&trailing);
        }
        self.push(TokenKind::Scalar { value, plain: false }, line);
        Ok(())
    }

    fn block_scalar_breaks(&mut self, indent: &mut isize, breaks: &mut Vec<u8>) -> Result<()> {
        let mut deepest = 0;
        loop {
            while (*indent == 0 || self.mark.column < *indent) && self.at(0) == b' ' {
                self.skip();
            }
            deepest = deepest.max(self.mark.column);
            if (*indent == 0 || self.mark.column < *indent) && self.at(0) == b'\t' {
                return self.fail("found a tab character where an indentation space is expected");
            }
            if !self.is_break_at(0) {
                break;
            }
            self.read_line(breaks);
        }
        if *indent == 0 {
            *indent = deepest.max(self.indent + 1).max(1);
        }
        Ok(())
    }

    fn quoted_scalar(&mut self, single: bool) -> Result<()> {
        self.save_simple_key()?;
        self.simple_key_allowed = false;
        let line = self.mark.line;
        let quote = if single { b'\'' } else { b'"' };
        self.skip();
        let mut value = Vec::new();
        loop {
            if self.document_indicator(b"---") || self.document_indicator(b"...") {
                return self.fail("found unexpected document indicator");
            }
            if self.is_end() {
                return self.fail("found unexpected end of stream");
            }
            let mut leading_blanks = false;
            while !self.is_blankz(0) {
                let c = self.at(0);
                if single && c == b'\'' && self.at(1) == b'\'' {
                    value.push(b'\'');
                    self.skip();
                    self.skip();
                } else if c == quote {
                    break;
                } else if !single && c == b'\\' && self.is_break_at(1) {
                    self.skip();
                    self.skip_line();
                    leading_blanks = true;
                    break;
                } else if !single && c == b'\\' {
                    self.escape(&mut value)?;
                } else {
                    self.read(&mut value);
                }
            }
            if self.at(0) == quote && !self.is_end() {
                break;
            }
            self.fold(&mut value, leading_blanks);
        }
        self.skip();
        self.push(TokenKind::Scalar { value, plain: false }, line);
        Ok(())
    }

    /// Joins the white space within a quoted scalar: spaces stay, a break becomes a space, more breaks stay.
    fn fold(&mut self, value: &mut Vec<u8>, mut leading_blanks: bool) {
        let (mut spaces, mut first_break, mut breaks) = (Vec::new(), Vec::new(), Vec::new());
        while self.is_blank_at(0) || self.is_break_at(0) {
            if self.is_blank_at(0) {
                if leading_blanks {
                    self.skip();
                } else {
                    self.read(&mut spaces);
                }
            } else if leading_blanks {
                self.read_line(&mut breaks);
            } else {
                spaces.clear();
                self.read_line(&mut first_break);
                leading_blanks = true;
            }
        }
        if !leading_blanks {
            value.append(&mut spaces);
        } else if first_break.first() == Some(&b'\n') {
            if breaks.is_empty() {
                value.push(b' ');
            }
            value.append(&mut breaks);
        } else {
            value.append(&mut first_break);
            value.append(&mut breaks);
        }
    }

    fn escape(&mut self, value: &mut Vec<u8>) -> Result<()> {
        let mut digits = 0;
        match self.at(1) {
            b'0' => value.push(0),
            b'a' => value.push(7),
            b'b' => value.push(8),
            b't' | b'\t' => value.push(9),
            b'n' => value.push(10),
            b'v' => value.push(11),
            b'f' => value.push(12),
            b'r' => value.push(13),
            b'e' => value.push(27),
            c @ (b' ' | b'"' | b'\'' | b'\\') => value.push(c),
            b'N' => value.extend_from_slice("\u{85}".as_bytes()),
            b'_' => value.extend_from_slice("\u{a0}".as_bytes()),
            b'L' => value.extend_from_slice("\u{2028}".as_bytes()),
            b'P' => value.extend_from_slice("\u{2029}".as_bytes()),
            b'x' => digits = 2,
            b'u' => digits = 4,
            b'U' => digits = 8,
            _ => return self.fail("found unknown escape character"),
        }
        self.skip();
        self.skip();
        if digits > 0 {
            let text = self.text.get(self.position..self.position + digits).unwrap_or_default();
            let code = std::str::from_utf8(text)
                .ok()
                .filter(|t| t.len() == digits && t.bytes().all(|b| b.is_ascii_hexdigit()))
                .and_then(|t| u32::from_str_radix(t, 16).ok());
            let Some(code) = code else { return self.fail("did not find expected hexdecimal number") };
            let Some(c) = char::from_u32(code) else {
                return self.fail("found invalid Unicode character escape code");
            };
            value.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            for _ in 0..digits {
                self.skip();
            }
        }
        Ok(())
    }

    fn plain_scalar(&mut self) -> Result<()> {
        self.save_simple_key()?;
        self.simple_key_allowed = false;
        let line = self.mark.line;
        let indent = self.indent + 1;
        let mut value = Vec::new();
        let (mut spaces, mut first_break, mut breaks) = (Vec::new(), Vec::new(), Vec::new());
        let mut leading_blanks = false;
        loop {
            if self.document_indicator(b"---") || self.document_indicator(b"...") || self.at(0) == b'#' {
                break;
            }
            while !self.is_blankz(0) {
                let c = self.at(0);
                if c == b':' && self.is_blankz(1)
                    || self.flow_level > 0 && matches!(c, b',' | b'?' | b'[' | b']' | b'{' | b'}')
                {
                    break;
                }
                if leading_blanks {
                    if first_break.first() == Some(&b'\n') {
                        if breaks.is_empty() {
                            value.push(b' ');
                        }
                    } else {
                        value.append(&mut first_break);
                    }
                    value.append(&mut breaks);
                    first_break.clear();
                    leading_blanks = false;
                } else {
                    value.append(&mut spaces);
                }
                self.read(&mut value);
            }
            if !self.is_blank_at(0) && !self.is_break_at(0) {
                break;
            }
            while self.is_blank_at(0) || self.is_break_at(0) {
                if self.is_blank_at(0) {
                    if leading_blanks && self.mark.column < indent && self.at(0) == b'\t' {
                        return self.fail("found a tab character that violates indentation");
                    }
                    if leading_blanks {
                        self.skip();
                    } else {
                        self.read(&mut spaces);
                    }
                } else if leading_blanks {
                    self.read_line(&mut breaks);
                } else {
                    spaces.clear();
                    self.read_line(&mut first_break);
                    leading_blanks = true;
                }
            }
            if self.flow_level == 0 && self.mark.column < indent {
                break;
            }
        }
        if leading_blanks {
            self.simple_key_allowed = true;
        }
        self.push(TokenKind::Scalar { value, plain: true }, line);
        Ok(())
    }
}
