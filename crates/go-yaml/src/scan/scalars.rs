//! Scalars: plain, quoted and block text.

use std::borrow::Cow;

use super::{Payload, Result, Scanner, TokenKind};

impl Scanner<'_> {
    pub(super) fn block_scalar(&mut self, literal: bool) -> Result<()> {
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
        self.skip_comment();
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
            let line_length = self.rest_of_line();
            value.extend_from_slice(&self.text[self.position..self.position + line_length]);
            self.pass(line_length);
            self.read_line(&mut leading_break);
            self.block_scalar_breaks(&mut indent, &mut trailing)?;
        }
        if chomping != -1 {
            value.extend_from_slice(&leading_break);
        }
        if chomping == 1 {
            value.extend_from_slice(&trailing);
        }
        self.push_with(TokenKind::Scalar, line, Payload::Text(Cow::Owned(value)));
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

    pub(super) fn quoted_scalar(&mut self, single: bool) -> Result<()> {
        self.save_simple_key()?;
        self.simple_key_allowed = false;
        let line = self.mark.line;
        let quote = if single { b'\'' } else { b'"' };
        self.skip();
        if let Some(length) = self.quoted_as_it_is(quote) {
            let value = &self.text[self.position..self.position + length];
            self.pass(length + 1);
            self.push_with(TokenKind::Scalar, line, Payload::Text(Cow::Borrowed(value)));
            return Ok(());
        }
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
        self.push_with(TokenKind::Scalar, line, Payload::Text(Cow::Owned(value)));
        Ok(())
    }

    /// The length of a quoted scalar that ends on its line and has nothing in it that means something else.
    fn quoted_as_it_is(&self, quote: u8) -> Option<usize> {
        let rest = &self.text[self.position..];
        let length = rest.iter().position(|b| {
            *b == quote || matches!(b, b'\n' | b'\r' | 0xC2 | 0xE2) || *b == b'\\' && quote == b'"'
        })?;
        // A single quote within single quotes is written twice.
        let ends = rest[length] == quote && !(quote == b'\'' && rest.get(length + 1) == Some(&quote));
        ends.then_some(length)
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

    pub(super) fn plain_scalar(&mut self) -> Result<()> {
        self.save_simple_key()?;
        self.simple_key_allowed = false;
        let line = self.mark.line;
        let indent = self.indent + 1;
        // As long as the scalar is on one line it is a part of the document.
        let start = self.position;
        let mut end = start;
        let mut folded: Option<Vec<u8>> = None;
        let (mut first_break, mut breaks) = (Vec::new(), Vec::new());
        let mut spaces = 0..0;
        let mut leading_blanks = false;
        loop {
            if self.document_indicator(b"---") || self.document_indicator(b"...") || self.at(0) == b'#' {
                break;
            }
            let word = self.plain_word();
            if word > 0 {
                let text = &self.text[self.position..self.position + word];
                if leading_blanks {
                    let value = folded.get_or_insert_with(|| self.text[start..end].to_vec());
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
                    value.extend_from_slice(text);
                } else if let Some(value) = &mut folded {
                    value.extend_from_slice(&self.text[spaces.clone()]);
                    value.extend_from_slice(text);
                }
                self.pass(word);
                end = self.position;
                spaces = end..end;
            }
            if !self.is_blank_at(0) && !self.is_break_at(0) {
                break;
            }
            while self.is_blank_at(0) || self.is_break_at(0) {
                if self.is_blank_at(0) {
                    if leading_blanks && self.mark.column < indent && self.at(0) == b'\t' {
                        return self.fail("found a tab character that violates indentation");
                    }
                    self.skip();
                    if !leading_blanks {
                        spaces.end = self.position;
                    }
                } else if leading_blanks {
                    self.read_line(&mut breaks);
                } else {
                    spaces = 0..0;
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
        let value = match folded {
            Some(value) => Cow::Owned(value),
            None => Cow::Borrowed(&self.text[start..end]),
        };
        self.push_with(TokenKind::PlainScalar, line, Payload::Text(value));
        Ok(())
    }

    /// The length of the word that comes next in a plain scalar.
    fn plain_word(&self) -> usize {
        let mut length = 0;
        loop {
            match self.at(length) {
                b' ' | b'\t' | b'\n' | b'\r' => break,
                b':' if self.is_blankz(length + 1) => break,
                b',' | b'?' | b'[' | b']' | b'{' | b'}' if self.flow_level > 0 => break,
                0 | 0xC2 | 0xE2 if self.is_breakz(length) => break,
                _ => length += 1,
            }
        }
        length
    }
}
