//! The words of an expression.

/// A word, an operator or a value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Name(String),
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    /// An operator or a bracket.
    Sign(&'static str),
}

/// Longer ones first, so that `<=` is not read as `<`.
const SIGNS: [&str; 25] = [
    "&&", "||", "==", "!=", "<=", ">=", "<", ">", "!", "+", "-", "*", "/", "%", "?", ":", ".", ",", "(", ")",
    "[", "]", "{", "}", "=",
];

/// What an expression consists of.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut found = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', '\r', '\u{c}']);
        if let Some(comment) = rest.strip_prefix("//") {
            rest = comment.split_once('\n').map_or("", |(_, after)| after);
            continue;
        }
        let Some(first) = rest.chars().next() else { return Ok(found) };
        let (token, length) = if let Some((token, length)) = literal(rest)? {
            (token, length)
        } else if first.is_ascii_alphabetic() || first == '_' {
            let length =
                rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
            (Token::Name(rest[..length].to_owned()), length)
        } else if first.is_ascii_digit()
            || (first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit()))
        {
            number(rest)?
        } else {
            let sign = SIGNS.into_iter().find(|sign| rest.starts_with(sign) && *sign != "=");
            let sign = sign.ok_or_else(|| format!("`{first}` has no meaning here"))?;
            (Token::Sign(sign), sign.len())
        };
        found.push(token);
        rest = &rest[length..];
    }
}

/// A quoted text or bytes, with its prefixes, and how long it is.
fn literal(rest: &str) -> Result<Option<(Token, usize)>, String> {
    let prefix = rest.bytes().take_while(|byte| b"rRbB".contains(byte)).count();
    let (marks, body) = rest.split_at(prefix.min(2));
    let Some(quote) = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| body.starts_with(quote)) else {
        return Ok(None);
    };
    let (raw, bytes) = (marks.contains(['r', 'R']), marks.contains(['b', 'B']));
    let inner = &body[quote.len()..];
    let mut at = 0;
    while let Some(next) = inner[at..].chars().next() {
        if inner[at..].starts_with(quote) {
            let token = if bytes { Token::Bytes } else { Token::Text };
            return Ok(Some((token, marks.len() + quote.len() + at + quote.len())));
        }
        match next {
            '\\' if !raw => at += escape(&inner[at..])?,
            '\\' if inner[at + 1..].chars().next().is_some() => {
                at += 1 + inner[at + 1..].chars().next().map_or(0, char::len_utf8);
            }
            '\n' | '\r' if quote.len() == 1 => break,
            _ => at += next.len_utf8(),
        }
    }
    Err("a quoted text has no end".into())
}

/// How long an escape such as `\n` or `\u0041` is.
fn escape(text: &str) -> Result<usize, String> {
    let mut letters = text[1..].chars();
    let letter = letters.next().unwrap_or(' ');
    let (digits, octal) = match letter {
        'a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '\\' | '?' | '"' | '\'' | '`' => return Ok(2),
        'x' | 'X' => (2, false),
        'u' => (4, false),
        'U' => (8, false),
        '0'..='3' => (2, true),
        _ => return Err(format!("`\\{letter}` is not an escape; write `\\\\` for a backslash")),
    };
    let good = |c: char| if octal { c.is_digit(8) } else { c.is_ascii_hexdigit() };
    if letters.clone().take(digits).filter(|c| good(*c)).count() < digits {
        return Err(format!("`\\{letter}` needs {digits} digits behind it"));
    }
    Ok(2 + digits)
}

fn number(rest: &str) -> Result<(Token, usize), String> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let hex = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X"));
    let hex = hex.map(|rest| &rest[..rest.bytes().take_while(u8::is_ascii_hexdigit).count()]);
    let hex = hex.filter(|digits| !digits.is_empty());
    let (mut length, mut double) = (hex.map_or_else(|| digits(rest), |hex| 2 + hex.len()), false);
    let number = &rest[..length];
    if hex.is_none() {
        if rest[length..].starts_with('.') && digits(&rest[length + 1..]) > 0 {
            length += 1 + digits(&rest[length + 1..]);
            double = true;
        }
        if let Some(exponent) = rest[length..].strip_prefix(['e', 'E']) {
            let sign = usize::from(exponent.starts_with(['+', '-']));
            let count = digits(&exponent[sign..]);
            if count > 0 {
                length += 1 + sign + count;
                double = true;
            }
        }
    }
    if double {
        return Ok((Token::Double, length));
    }
    let value = match hex {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => number.parse::<u64>(),
    };
    let unsigned = rest[length..].starts_with(['u', 'U']);
    match value {
        Ok(_) if unsigned => Ok((Token::Uint, length + 1)),
        // One more than the largest is the smallest, once its sign is before it.
        Ok(value) if value <= 1 << 63 => Ok((Token::Int, length)),
        _ => Err(format!("`{number}` is too large a number")),
    }
}
