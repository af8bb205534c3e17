//! Decides what an unquoted scalar means: YAML 1.1's words and numbers, as go-yaml v2 reads them.

use std::sync::OnceLock;

use regex::Regex;

use crate::numbers;
use crate::timestamp::is_timestamp;

/// What a scalar turned out to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Resolved {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    Timestamp,
    Binary,
    String,
}

impl Resolved {
    fn short_tag(self) -> &'static str {
        match self {
            Resolved::Null => "!!null",
            Resolved::Bool(_) => "!!bool",
            Resolved::Int(_) | Resolved::Uint(_) => "!!int",
            Resolved::Float(_) => "!!float",
            Resolved::Timestamp => "!!timestamp",
            Resolved::Binary => "!!binary",
            Resolved::String => "!!str",
        }
    }
}

const PREFIX: &str = "tag:yaml.org,2002:";

/// Resolves a scalar under an explicit tag, or under none.
pub(super) fn resolve(tag: &str, text: &str) -> Result<Resolved, String> {
    let short = tag.strip_prefix(PREFIX);
    match short {
        None if !tag.is_empty() => return Ok(Resolved::String),
        Some("binary") => return Ok(Resolved::Binary),
        Some("str") => return Ok(Resolved::String),
        Some("bool" | "int" | "float" | "null" | "timestamp") | None => {}
        Some(_) => return Ok(Resolved::String),
    }
    let timestamps = tag.is_empty() || short == Some("timestamp");
    let resolved = untagged(text, timestamps);
    let Some(short) = short else { return Ok(resolved) };
    match (short, resolved) {
        ("float", Resolved::Int(i)) => Ok(Resolved::Float(i as f64)),
        _ if resolved.short_tag() == format!("!!{short}") => Ok(resolved),
        _ => Err(format!("cannot decode {} `{text}` as a !!{short}", resolved.short_tag())),
    }
}

fn word(text: &str) -> Option<Resolved> {
    Some(match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Resolved::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Resolved::Bool(false)
        }
        "" | "~" | "null" | "Null" | "NULL" => Resolved::Null,
        ".nan" | ".NaN" | ".NAN" => Resolved::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Resolved::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Resolved::Float(f64::NEG_INFINITY),
        _ => return None,
    })
}

/// What plain text means.
pub(super) fn untagged(text: &str, timestamps: bool) -> Resolved {
    let first = text.bytes().next();
    let number = match first {
        None => return Resolved::Null,
        Some(b'+' | b'-' | b'0'..=b'9') => true,
        Some(b'.') => false,
        Some(b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~') => {
            return word(text).unwrap_or(Resolved::String);
        }
        // Also `<<`, which only the place of a key makes a merge.
        Some(_) => return Resolved::String,
    };
    if let Some(found) = word(text) {
        return found;
    }
    if !number {
        return numbers::parse_float(text).map_or(Resolved::String, Resolved::Float);
    }
    if timestamps && is_timestamp(text) {
        return Resolved::Timestamp;
    }
    let plain: std::borrow::Cow<'_, str> =
        if text.contains('_') { text.replace('_', "").into() } else { text.into() };
    if let Some(i) = numbers::parse_int_base0(&plain) {
        return Resolved::Int(i);
    }
    if let Some(u) = numbers::parse_uint_base0(&plain) {
        return Resolved::Uint(u);
    }
    if is_yaml_float(&plain)
        && let Some(f) = numbers::parse_float(&plain)
    {
        return Resolved::Float(f);
    }
    if let Some(digits) = plain.strip_prefix("0b") {
        if let Ok(i) = i64::from_str_radix(digits, 2) {
            return Resolved::Int(i);
        }
    } else if let Some(digits) = plain.strip_prefix("-0b")
        && let Ok(i) = i64::from_str_radix(&format!("-{digits}"), 2)
    {
        return Resolved::Int(i);
    }
    Resolved::String
}

fn is_yaml_float(text: &str) -> bool {
    let body = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match body.find(['e', 'E']) {
        Some(at) => (&body[..at], Some(&body[at + 1..])),
        None => (body, None),
    };
    let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
    let mantissa_ok = match mantissa.split_once('.') {
        Some(("", fraction)) => digits(fraction),
        Some((whole, fraction)) => digits(whole) && (fraction.is_empty() || digits(fraction)),
        None => digits(mantissa),
    };
    mantissa_ok && exponent.is_none_or(|e| digits(e.strip_prefix(['-', '+']).unwrap_or(e)))
}

/// Text that old parsers would read as a base 60 number, and so must be quoted.
pub(super) fn is_base60(text: &str) -> bool {
    if !text.starts_with(['+', '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']) || !text.contains(':')
    {
        return false;
    }
    static PATTERN: OnceLock<Option<Regex>> = OnceLock::new();
    PATTERN
        .get_or_init(|| Regex::new(r"^[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?$").ok())
        .as_ref()
        .is_some_and(|r| r.is_match(text))
}
