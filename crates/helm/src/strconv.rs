//! Go's textual forms of strings and numbers: quoting, unquoting, float formats.

use std::borrow::Cow;
use std::sync::OnceLock;

use regex::Regex;

pub(crate) use daedal_go_yaml::lossy;
pub(crate) use daedal_go_yaml::numbers::*;

/// Whether Go's `unicode.IsPrint` holds.
pub(crate) fn is_print(c: char) -> bool {
    if c.is_ascii() {
        return (' '..='~').contains(&c);
    }
    static PRINTABLE: OnceLock<Option<Regex>> = OnceLock::new();
    PRINTABLE
        .get_or_init(|| Regex::new(r"^[\p{L}\p{M}\p{N}\p{P}\p{S}]$").ok())
        .as_ref()
        .is_some_and(|r| r.is_match(c.encode_utf8(&mut [0; 4])))
}

/// `strconv.Quote` with the given quote character; `ascii` also escapes everything beyond ASCII.
pub(crate) fn quote_with(bytes: &[u8], quote: char, ascii: bool) -> String {
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push(quote);
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            quote_char(&mut out, c, quote, ascii);
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out.push(quote);
    out
}

fn quote_char(out: &mut String, c: char, quote: char, ascii: bool) {
    match c {
        c if c == quote || c == '\\' => {
            out.push('\\');
            out.push(c);
        }
        c if (!ascii || c.is_ascii()) && is_print(c) => out.push(c),
        '\x07' => out.push_str("\\a"),
        '\x08' => out.push_str("\\b"),
        '\x0c' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\x0b' => out.push_str("\\v"),
        c if c < ' ' || c == '\x7f' => out.push_str(&format!("\\x{:02x}", c as u32)),
        c if (c as u32) < 0x10000 => out.push_str(&format!("\\u{:04x}", c as u32)),
        c => out.push_str(&format!("\\U{:08x}", c as u32)),
    }
}

/// `strconv.Quote`.
pub(crate) fn quote(text: &[u8]) -> String {
    quote_with(text, '"', false)
}

/// One step of `strconv.UnquoteChar`: the bytes of the next character and the rest of the input.
pub(crate) fn unquote_char(input: &str, quote: char) -> Option<(Unquoted, &str)> {
    let mut chars = input.chars();
    let c = chars.next()?;
    if c == quote && (quote == '\'' || quote == '"') {
        return None;
    }
    if c != '\\' {
        return Some((Unquoted::Char(c), chars.as_str()));
    }
    let escape = chars.next()?;
    let rest = chars.as_str();
    let simple = |c| Some((Unquoted::Char(c), rest));
    match escape {
        'a' => simple('\x07'),
        'b' => simple('\x08'),
        'f' => simple('\x0c'),
        'n' => simple('\n'),
        'r' => simple('\r'),
        't' => simple('\t'),
        'v' => simple('\x0b'),
        '\\' => simple('\\'),
        '\'' | '"' if escape == quote => simple(escape),
        'x' | 'u' | 'U' => {
            let digits = match escape {
                'x' => 2,
                'u' => 4,
                _ => 8,
            };
            let text = rest.get(..digits)?;
            if !text.bytes().all(|b| b.is_ascii_hexdigit()) {
                return None;
            }
            let number = u32::from_str_radix(text, 16).ok()?;
            let rest = rest.get(digits..)?;
            match escape {
                'x' => Some((Unquoted::Byte(u8::try_from(number).ok()?), rest)),
                _ => Some((Unquoted::Char(char::from_u32(number)?), rest)),
            }
        }
        '0'..='7' => {
            let text = input.get(1..4)?;
            let number = u32::from_str_radix(text, 8).ok()?;
            Some((Unquoted::Byte(u8::try_from(number).ok()?), input.get(4..)?))
        }
        _ => None,
    }
}

/// What an escape stands for.
pub(crate) enum Unquoted {
    Char(char),
    Byte(u8),
}

/// `strconv.Unquote` of a double-quoted or back-quoted Go string literal.
pub(crate) fn unquote(literal: &str) -> Option<Cow<'_, [u8]>> {
    let quote = literal.chars().next()?;
    let inner = literal.strip_prefix(quote)?.strip_suffix(quote)?;
    if quote == '`' {
        if inner.contains('\r') {
            return Some(inner.bytes().filter(|b| *b != b'\r').collect());
        }
        return Some(Cow::Borrowed(inner.as_bytes()));
    }
    if !inner.bytes().any(|b| b == b'\\' || b == b'\n' || char::from(b) == quote) {
        return Some(Cow::Borrowed(inner.as_bytes()));
    }
    let mut out = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while !rest.is_empty() {
        if rest.starts_with('\n') {
            return None;
        }
        let (piece, tail) = unquote_char(rest, quote)?;
        match piece {
            Unquoted::Char(c) => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            Unquoted::Byte(b) => out.push(b),
        }
        rest = tail;
    }
    Some(Cow::Owned(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_quote_and_unquote() {
        assert_eq!(quote("a\"b\n\u{1}é\u{200b}".as_bytes()), "\"a\\\"b\\n\\x01é\\u200b\"");
        assert_eq!(quote(b"\xff"), "\"\\xff\"");
        assert_eq!(unquote("\"a\\tb\\x41\\u00e9\"").unwrap(), "a\tbAé".as_bytes());
        assert_eq!(unquote("`a\\n`").unwrap(), "a\\n".as_bytes());
        assert!(unquote("\"\\q\"").is_none());
    }
}
