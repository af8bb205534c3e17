//! Reads JSON, with the complaints of Go's `encoding/json`, which templates can see.

use std::collections::BTreeMap;

use crate::value::{MAX_NESTING, Str, Value};

type Result<T> = std::result::Result<T, String>;

/// One JSON text.
pub(super) fn read(text: &[u8]) -> Result<Value> {
    let mut reader = Reader { text, at: 0 };
    reader.space();
    let value = reader.value(0)?;
    reader.space();
    match reader.peek() {
        None => Ok(value),
        Some(_) => reader.unexpected("after top-level value"),
    }
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

/// A byte as Go's messages show it.
fn shown(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        other => {
            let quoted = crate::strconv::quote(char::from(other).to_string().as_bytes());
            format!("'{}'", &quoted[1..quoted.len() - 1])
        }
    }
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn unexpected<T>(&self, context: &str) -> Result<T> {
        match self.peek() {
            None => Err("unexpected end of JSON input".to_owned()),
            Some(byte) => Err(format!("invalid character {} {context}", shown(byte))),
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value> {
        if depth > MAX_NESTING {
            return Err("exceeded max depth".to_owned());
        }
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string().map(Value::string),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Nil),
            _ => self.unexpected("looking for beginning of value"),
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value> {
        for expected in word.bytes() {
            if self.peek() != Some(expected) {
                let expecting = shown(expected);
                return self.unexpected(&format!("in literal {word} (expecting {expecting})"));
            }
            self.at += 1;
        }
        Ok(value)
    }

    fn digits(&mut self, context: &str) -> Result<()> {
        if !self.peek().is_some_and(|b| b.is_ascii_digit()) {
            return self.unexpected(context);
        }
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<Value> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits("in numeric literal")?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        let text = crate::strconv::lossy(&self.text[start..self.at]);
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Value::Float(number)),
            _ => Err(format!("json: cannot unmarshal number {text} into Go value of type float64")),
        }
    }

    fn string(&mut self) -> Result<Str> {
        self.at += 1;
        let mut out = Vec::new();
        loop {
            match self.peek() {
                None => return Err("unexpected end of JSON input".to_owned()),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(crate::strconv::lossy(&out).as_ref().into());
                }
                Some(b'\\') => {
                    self.at += 1;
                    self.escape(&mut out)?;
                }
                Some(byte) if byte < b' ' => return self.unexpected("in string literal"),
                Some(byte) => {
                    out.push(byte);
                    self.at += 1;
                }
            }
        }
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let byte = match self.peek() {
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(same @ (b'\\' | b'/' | b'"')) => same,
            Some(b'u') => {
                self.at += 1;
                let first = self.hex()?;
                // A pair of surrogates is one character; a lone one is none.
                if (0xD800..0xDC00).contains(&first) && self.text[self.at..].starts_with(b"\\u") {
                    let back = self.at;
                    self.at += 2;
                    let second = self.hex()?;
                    if (0xDC00..0xE000).contains(&second) {
                        let code = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
                        push(out, code);
                        return Ok(());
                    }
                    self.at = back;
                }
                push(out, first);
                return Ok(());
            }
            _ => return self.unexpected("in string escape code"),
        };
        out.push(byte);
        self.at += 1;
        Ok(())
    }

    fn hex(&mut self) -> Result<u32> {
        let mut code = 0;
        for _ in 0..4 {
            match self.peek().and_then(|b| char::from(b).to_digit(16)) {
                Some(digit) => code = code * 16 + digit,
                None => return self.unexpected("in \\u hexadecimal character escape"),
            }
            self.at += 1;
        }
        Ok(code)
    }

    fn array(&mut self, depth: usize) -> Result<Value> {
        self.at += 1;
        let mut items = Vec::new();
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::list(items));
        }
        loop {
            self.space();
            items.push(self.value(depth + 1)?);
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Value::list(items));
                }
                _ => return self.unexpected("after array element"),
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value> {
        self.at += 1;
        let mut entries: BTreeMap<Str, Value> = BTreeMap::new();
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::map(entries));
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return self.unexpected("looking for beginning of object key string");
            }
            let key = self.string()?;
            self.space();
            if self.peek() != Some(b':') {
                return self.unexpected("after object key");
            }
            self.at += 1;
            self.space();
            let value = self.value(depth + 1)?;
            entries.insert(key, value);
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Value::map(entries));
                }
                _ => return self.unexpected("after object key:value pair"),
            }
        }
    }
}

fn push(out: &mut Vec<u8>, code: u32) {
    let c = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}
