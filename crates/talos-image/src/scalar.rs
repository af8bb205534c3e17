//! How the Image Factory's YAML library writes a string: plain, quoted, or as a block.

/// The styles in which a string can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Single,
    Double,
    Literal,
}

/// The style the library chooses. Map keys are never written as blocks.
pub(crate) fn style(text: &str, is_key: bool) -> Style {
    let shape = Shape::of(text);
    let wished = if text.contains('\n') {
        Style::Literal
    } else if reads_as_string(text) && !looks_base_60(text) && !is_old_boolean(text) {
        Style::Plain
    } else {
        Style::Double
    };
    match wished {
        _ if is_key && shape.breaks => Style::Double,
        Style::Literal if is_key || !shape.block => Style::Double,
        Style::Plain if !shape.plain && shape.single => Style::Single,
        Style::Plain if !shape.plain => Style::Double,
        style => style,
    }
}

/// A character that ends a line for the library.
pub(crate) fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// A character that may stand as itself. Nothing beyond the basic multilingual plane may.
fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{fffd}') && c != '\u{feff}'
}

/// Which styles a string allows.
#[allow(clippy::struct_excessive_bools, reason = "four independent verdicts")]
struct Shape {
    plain: bool,
    single: bool,
    block: bool,
    breaks: bool,
}

impl Shape {
    fn of(text: &str) -> Self {
        let chars: Vec<char> = text.chars().collect();
        let (Some(&first), Some(&last)) = (chars.first(), chars.last()) else {
            return Self { plain: true, single: true, block: false, breaks: false };
        };
        let blank = |c: Option<&char>| matches!(c, None | Some(' ' | '\t'));
        let mut indicator = text.starts_with("---") || text.starts_with("...");
        indicator |=
            "#,[]{}&*!|>'\"%@`".contains(first) || (matches!(first, '?' | ':' | '-') && blank(chars.get(1)));
        let pairs = || chars.iter().zip(chars.iter().skip(1));
        indicator |= chars.iter().enumerate().skip(1).any(|(at, &c)| c == ':' && blank(chars.get(at + 1)));
        indicator |= pairs()
            .any(|(&before, &c)| c == '#' && (matches!(before, ' ' | '\t' | '\0') || is_break(before)));
        let breaks = chars.iter().any(|&c| is_break(c));
        let space_then_break = pairs().any(|(&before, &c)| before == ' ' && is_break(c));
        let break_then_space = pairs().any(|(&before, &c)| is_break(before) && c == ' ');
        let tab = chars.contains(&'\t');
        let special = chars.iter().any(|&c| c != '\t' && !is_printable(c));
        let padded = first == ' ' || last == ' ';
        Self {
            plain: !(padded || breaks || tab || special || indicator),
            single: !(space_then_break || break_then_space || tab || special),
            block: !(last == ' ' || space_then_break || special),
            breaks,
        }
    }
}

/// The body of a double-quoted string, escaped.
pub(crate) fn escaped(text: &str) -> String {
    // The library takes a byte order mark at the start of a string for one at every place.
    let all = text.starts_with('\u{feff}');
    let mut out = String::with_capacity(text.len() + 2);
    for c in text.chars() {
        if !all && is_printable(c) && !is_break(c) && !matches!(c, '"' | '\\') {
            out.push(c);
            continue;
        }
        let short = match c {
            '\0' => '0',
            '\u{7}' => 'a',
            '\u{8}' => 'b',
            '\t' => 't',
            '\n' => 'n',
            '\u{b}' => 'v',
            '\u{c}' => 'f',
            '\r' => 'r',
            '\u{1b}' => 'e',
            '"' => '"',
            '\\' => '\\',
            '\u{85}' => 'N',
            '\u{a0}' => '_',
            '\u{2028}' => 'L',
            '\u{2029}' => 'P',
            _ => {
                let code = u32::from(c);
                out.push_str(&match code {
                    0..=0xff => format!("\\x{code:02X}"),
                    0x100..=0xffff => format!("\\u{code:04X}"),
                    _ => format!("\\U{code:08X}"),
                });
                continue;
            }
        };
        out.push('\\');
        out.push(short);
    }
    out
}

/// Whether an unquoted text would be read back as a string, not as null, boolean, number or time.
fn reads_as_string(text: &str) -> bool {
    let Some(first) = text.bytes().next() else { return false };
    match first {
        b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~' => !is_word(text),
        b'.' => !is_word(text) && !is_dotted_float(text),
        b'+' | b'-' | b'0'..=b'9' => {
            !is_word(text) && !is_timestamp(text) && !is_number(&text.replace('_', ""))
        }
        _ => true,
    }
}

fn is_word(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    matches!(text, "true" | "True" | "TRUE" | "false" | "False" | "FALSE" | "~" | "null" | "Null" | "NULL")
        || matches!(text, ".nan" | ".NaN" | ".NAN")
        || matches!(unsigned, ".inf" | ".Inf" | ".INF")
}

fn is_old_boolean(text: &str) -> bool {
    matches!(
        text,
        "y" | "Y"
            | "yes"
            | "Yes"
            | "YES"
            | "on"
            | "On"
            | "ON"
            | "n"
            | "N"
            | "no"
            | "No"
            | "NO"
            | "off"
            | "Off"
            | "OFF"
    )
}

/// `1:30`, `-20:59.5`: numbers to the base 60 in YAML 1.1.
fn looks_base_60(text: &str) -> bool {
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    let mut parts = text.split(':');
    let head = parts.next().unwrap_or_default();
    let mut rest: Vec<&str> = parts.collect();
    let Some(last) = rest.pop() else { return false };
    let last = match last.split_once('.') {
        Some((last, fraction)) if digits(fraction) => last,
        Some(_) => return false,
        None => last,
    };
    let sixty = |part: &str| match part.as_bytes() {
        [one] => one.is_ascii_digit(),
        [ten, one] => (b'0'..=b'5').contains(ten) && one.is_ascii_digit(),
        _ => false,
    };
    head.starts_with(|c: char| c.is_ascii_digit())
        && digits(head)
        && rest.into_iter().chain([last]).all(sixty)
}

/// A decimal float, given that it does not overflow (an overflowing one is read as a string).
fn fits_float(text: &str) -> bool {
    text.parse::<f64>().is_ok_and(f64::is_finite)
}

fn is_float(text: &str) -> bool {
    let body = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let (mantissa, exponent) = match body.find(['e', 'E']) {
        Some(at) => (&body[..at], Some(&body[at + 1..])),
        None => (body, None),
    };
    let exponent_fits = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mantissa_fits = digits(whole) && digits(fraction) && !(whole.is_empty() && fraction.is_empty());
    mantissa_fits && exponent_fits && fits_float(text)
}

/// Texts that start with a dot may have underscores between digits.
fn is_dotted_float(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    let separated = bytes
        .iter()
        .enumerate()
        .all(|(at, &b)| b != b'_' || (digit(at.checked_sub(1)) && digit(Some(at + 1))));
    separated && is_float(&text.replace('_', ""))
}

/// Integers in all the bases that the library reads, and floats.
fn is_number(text: &str) -> bool {
    let (negative, body) = match text.strip_prefix('-') {
        Some(body) => (true, body),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let signed = body.len() < text.len();
    let based = |digits: &str, base: u32| {
        let plain = !digits.is_empty() && digits.bytes().all(|b| char::from(b).is_digit(base));
        plain && u64::from_str_radix(digits, base).is_ok_and(|n| fits_integer(n, negative, signed))
    };
    if let Some((prefix, digits)) = body.split_at_checked(2) {
        let base = match prefix {
            "0x" | "0X" => 16,
            "0b" | "0B" => 2,
            "0o" | "0O" => 8,
            _ => 0,
        };
        if base != 0 && based(digits, base) {
            return true;
        }
        // The library's own reading of 0b and 0o takes a sign after the prefix as well.
        if !signed
            && matches!(prefix, "0b" | "0o")
            && let Some(digits) = digits.strip_prefix(['+', '-'])
        {
            let negative = body[2..].starts_with('-');
            return !digits.is_empty()
                && digits.bytes().all(|b| char::from(b).is_digit(base))
                && u64::from_str_radix(digits, base).is_ok_and(|n| fits_integer(n, negative, true));
        }
    }
    is_float(text)
}

fn fits_integer(magnitude: u64, negative: bool, signed: bool) -> bool {
    const MOST: u64 = i64::MAX as u64;
    match (negative, signed) {
        (true, _) => magnitude <= MOST + 1,
        (false, true) => magnitude <= MOST,
        (false, false) => true,
    }
}

/// Dates, and times in three spellings; fields of one or two digits.
fn is_timestamp(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.iter().take_while(|b| b.is_ascii_digit()).count() != 4 || bytes.get(4) != Some(&b'-') {
        return false;
    }
    let Ok(year) = text[..4].parse::<u32>() else { return false };
    let mut rest = &text[5..];
    let mut field = |after: &str| {
        let width = rest.bytes().take(2).take_while(u8::is_ascii_digit).count();
        let number: u32 = rest[..width].parse().ok()?;
        rest = rest[width..].strip_prefix(after)?;
        Some((number, rest))
    };
    let Some((month, _)) = field("-") else { return false };
    let Some((day, tail)) = field("") else { return false };
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    if day < 1 || day > days {
        return false;
    }
    if tail.is_empty() {
        return true;
    }
    let zoned = tail.starts_with(['T', 't']);
    if !zoned && !tail.starts_with(' ') {
        return false;
    }
    rest = if zoned { &tail[1..] } else { tail.trim_start_matches(' ') };
    time_follows(rest, zoned)
}

fn time_follows(text: &str, zoned: bool) -> bool {
    let mut rest = text;
    for (most, after) in [(23, ":"), (59, ":"), (59, "")] {
        let width = rest.bytes().take(2).take_while(u8::is_ascii_digit).count();
        let Ok(number) = rest[..width].parse::<u32>() else { return false };
        let Some(tail) = rest[width..].strip_prefix(after) else { return false };
        if number > most {
            return false;
        }
        rest = tail;
    }
    if let Some(fraction) = rest.strip_prefix(['.', ',']) {
        let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 {
            rest = &fraction[digits..];
        }
    }
    if !zoned {
        return rest.is_empty();
    }
    if rest == "Z" {
        return true;
    }
    let bytes = rest.as_bytes();
    let two = |at: usize| rest.get(at..at + 2).and_then(|digits| digits.parse::<u32>().ok());
    bytes.len() == 6
        && matches!(bytes[0], b'+' | b'-')
        && bytes[3] == b':'
        && bytes[1..3].iter().chain(&bytes[4..6]).all(u8::is_ascii_digit)
        && two(1).is_some_and(|hours| hours <= 24)
        && two(4).is_some_and(|minutes| minutes <= 60)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_string_gets_its_style() {
        for text in [
            "siderolabs/qemu-guest-agent",
            "net.ifnames=0",
            "-console",
            "console=ttyS0,115200",
            "a: b".split(':').next().unwrap(),
            "ünïcode",
            "0x",
            "0b2",
            "1e999",
            "2024-13-01",
            "1:60",
            "truely",
            "<<",
            "nullx",
            "1.2.3",
            "=",
            "a#b",
            "a:b",
        ] {
            assert_eq!(style(text, false), Style::Plain, "{text}");
        }
        for text in
            ["a: b", "a #b", "- x", "-", "?", "[x]", "{}", "'x'", "\"x\"", " x", "x ", "@x", "a:", "--- x"]
        {
            assert_eq!(style(text, false), Style::Single, "{text}");
        }
        for text in [
            "",
            "true",
            "~",
            "null",
            "yes",
            "N",
            "12",
            "-0b101",
            "0o17",
            "0x1F",
            "1_000",
            "1.5e3",
            ".5",
            ".inf",
            "+.INF",
            "1:30",
            "-20:59.5",
            "2024-02-29",
            "2024-1-2T3:4:5Z",
            "2024-01-02 03:04:05.5",
            "a\tb",
            "a\rb",
            "😀",
            "x\u{feff}",
            "\u{7f}",
        ] {
            assert_eq!(style(text, false), Style::Double, "{text:?}");
        }
        for text in ["a\nb", "a\n", "\n", "  a\nb", "a\n b", "a\tb\n"] {
            assert_eq!(style(text, false), Style::Literal, "{text:?}");
            assert_eq!(style(text, true), Style::Double, "{text:?}");
        }
        for text in ["a \nb", "a\nb ", "a\r\nb"] {
            assert_eq!(style(text, false), Style::Double, "{text:?}");
        }
    }

    #[test]
    fn escapes_are_the_librarys() {
        assert_eq!(escaped("a\"\\\n\t\u{1}é😀\u{a0}"), "a\\\"\\\\\\n\\t\\x01é\\U0001F600\u{a0}");
        assert_eq!(escaped("\u{feff}a é"), "\\uFEFF\\x61\\x20\\xE9");
    }

    proptest! {
        #[test]
        fn any_string_has_a_style(text in "(?s).{0,30}", key: bool) {
            let _ = style(&text, key);
            let _ = escaped(&text);
        }

        #[test]
        fn any_time_like_text_is_judged(text in "[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}[Tt ]{0,2}[0-9:.,+Z-]{0,16}") {
            let _ = style(&text, false);
        }
    }
}
