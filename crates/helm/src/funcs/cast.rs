//! Loose conversions to numbers, where nothing is an error and what cannot be read is zero.

use crate::strconv;
use crate::value::Value;

/// Go's conversion of a float to `int64`, which overflows to the smallest integer on the usual hardware.
pub(super) fn float_to_int(f: f64) -> i64 {
    if f.is_nan() || !(-9.223_372_036_854_776e18..9.223_372_036_854_776e18).contains(&f) {
        i64::MIN
    } else {
        f as i64
    }
}

/// Drops `.000` at the end of a number.
fn trim_zero_decimal(text: &str) -> &str {
    let trimmed = text.trim_end_matches('0');
    match trimmed.strip_suffix('.') {
        Some(whole) if trimmed.len() < text.len() => whole,
        _ => text,
    }
}

/// `cast.ToInt64`.
pub(super) fn to_int(value: &Value) -> i64 {
    match value {
        Value::Int(i) | Value::Int64(i) | Value::Named(_, i, _) => *i,
        Value::Uint8(u) => i64::from(*u),
        Value::Uint64(u) => *u as i64,
        Value::Float(f) => float_to_int(*f),
        Value::Bool(b) => i64::from(*b),
        Value::Str(s) => strconv::parse_int_base0(trim_zero_decimal(&s.text())).unwrap_or(0),
        _ => 0,
    }
}

/// `cast.ToFloat64`.
pub(super) fn to_float(value: &Value) -> f64 {
    match value {
        Value::Int(i) | Value::Int64(i) | Value::Named(_, i, _) => *i as f64,
        Value::Uint8(u) => f64::from(*u),
        Value::Uint64(u) => *u as f64,
        Value::Float(f) => *f,
        Value::Bool(b) => f64::from(u8::from(*b)),
        Value::Str(s) => strconv::parse_float(&s.text().replace('_', "")).unwrap_or(0.0),
        _ => 0.0,
    }
}
