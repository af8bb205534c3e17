//! What a scalar of YAML means to go-yaml v3, which decides the types of values that are not encrypted.

use daedal_go_yaml::{is_timestamp, numbers};

use crate::value::{Kind, Value};

/// What an unquoted scalar means. None if it is a number that sops refuses, as it fits no signed integer of 64 bits.
pub(crate) fn plain(text: &str) -> Option<Value> {
    let kind = match text {
        "" | "~" | "null" | "Null" | "NULL" => return Some(Value::new(Kind::Null, "")),
        "true" | "True" | "TRUE" => return Some(Value::new(Kind::Bool, "True")),
        "false" | "False" | "FALSE" => return Some(Value::new(Kind::Bool, "False")),
        ".nan" | ".NaN" | ".NAN" => return Some(Value::new(Kind::Float, "NaN")),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => {
            return Some(Value::new(Kind::Float, "+Inf"));
        }
        "-.inf" | "-.Inf" | "-.INF" => return Some(Value::new(Kind::Float, "-Inf")),
        _ => Kind::Str,
    };
    let float = |f: f64| Value::new(Kind::Float, numbers::format_f(f, None));
    match text.as_bytes().first() {
        Some(b'.') => Some(numbers::parse_float(text).map_or_else(|| Value::text(text), float)),
        Some(b'+' | b'-' | b'0'..=b'9') => {
            if is_timestamp(text) {
                return Some(Value::new(Kind::Time, timestamp(text)));
            }
            let digits = text.replace('_', "");
            if let Some(int) = integer(&digits) {
                return Some(Value::new(Kind::Int, int.to_string()));
            }
            if numbers::parse_uint_base0(&digits).is_some() {
                return None;
            }
            let number = if is_float(&digits) { numbers::parse_float(&digits) } else { None };
            Some(number.map_or_else(|| Value::text(text), float))
        }
        _ => Some(Value::new(kind, text)),
    }
}

fn integer(digits: &str) -> Option<i64> {
    if let Some(int) = numbers::parse_int_base0(digits) {
        return Some(int);
    }
    let (sign, magnitude) = match digits.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", digits),
    };
    let binary = magnitude.strip_prefix("0b").map(|rest| (rest, 2));
    let (rest, radix) = binary.or(magnitude.strip_prefix("0o").map(|rest| (rest, 8)))?;
    i64::from_str_radix(&format!("{sign}{rest}"), radix).ok()
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_float(text: &str) -> bool {
    let body = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match body.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (body, None),
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let mantissa_is = match mantissa.split_once('.') {
        Some(("", fraction)) => digits(fraction),
        Some((whole, fraction)) => digits(whole) && (fraction.is_empty() || digits(fraction)),
        None => digits(mantissa),
    };
    mantissa_is && exponent.is_none_or(|text| digits(text.strip_prefix(['-', '+']).unwrap_or(text)))
}

/// A time as Go writes it (RFC 3339 with as many digits of the second as it needs).
fn timestamp(text: &str) -> String {
    let (date, time) = match text.find(['T', 't', ' ']) {
        Some(at) => (&text[..at], text[at + 1..].trim_start()),
        None => (text, "0:0:0"),
    };
    let zone = time.find(['Z', '+', '-']).unwrap_or(time.len());
    let (clock, zone) = time.split_at(zone);
    let (clock, fraction) = clock.split_once(['.', ',']).unwrap_or((clock, ""));
    let padded = |text: &str, separator: char| {
        let parts = text.split(separator).map(|part| format!("{part:0>2}"));
        parts.collect::<Vec<_>>().join(&separator.to_string())
    };
    let fraction = fraction.get(..9).unwrap_or(fraction).trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    let zone = if matches!(zone, "" | "+00:00" | "-00:00") { "Z" } else { zone };
    format!("{}T{}{point}{fraction}{zone}", padded(date, '-'), padded(clock, ':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_mean_what_they_mean_to_go() {
        for (text, kind, means) in [
            ("yes", Kind::Str, "yes"),
            ("off", Kind::Str, "off"),
            ("true", Kind::Bool, "True"),
            ("FALSE", Kind::Bool, "False"),
            ("~", Kind::Null, ""),
            ("0x1F", Kind::Int, "31"),
            ("0o17", Kind::Int, "15"),
            ("017", Kind::Int, "15"),
            ("-0b11", Kind::Int, "-3"),
            ("1_000", Kind::Int, "1000"),
            ("+7", Kind::Int, "7"),
            ("1.50", Kind::Float, "1.5"),
            ("1e3", Kind::Float, "1000"),
            ("1e21", Kind::Float, "1000000000000000000000"),
            (".5", Kind::Float, "0.5"),
            ("-.inf", Kind::Float, "-Inf"),
            ("10.0.0.1", Kind::Str, "10.0.0.1"),
            ("1:30", Kind::Str, "1:30"),
            ("08", Kind::Float, "8"),
            ("2026-11-17", Kind::Time, "2026-11-17T00:00:00Z"),
            ("2026-1-7 3:04:05.500", Kind::Time, "2026-01-07T03:04:05.5Z"),
            ("2026-11-17T12:00:00+02:00", Kind::Time, "2026-11-17T12:00:00+02:00"),
            ("2026-11-17t12:00:00-00:00", Kind::Time, "2026-11-17T12:00:00Z"),
            ("2026-13-17", Kind::Str, "2026-13-17"),
            ("-", Kind::Str, "-"),
            ("<<", Kind::Str, "<<"),
        ] {
            assert_eq!(plain(text), Some(Value::new(kind, means)), "{text}");
        }
        assert_eq!(plain("18446744073709551615"), None);
    }
}
