//! Go's textual forms of numbers: `strconv` and `encoding/json`.

use std::borrow::Cow;

/// Decimal digits and the exponent of the first one, from Rust's shortest or rounded scientific form.
fn scientific(f: f64, precision: Option<usize>) -> (bool, String, i32) {
    let text = match precision {
        Some(p) => format!("{:.*e}", p, f.abs()),
        None => format!("{:e}", f.abs()),
    };
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    (f.is_sign_negative(), mantissa.replace('.', ""), exponent.parse().unwrap_or(0))
}

fn special(f: f64) -> Option<&'static str> {
    if f.is_nan() {
        Some("NaN")
    } else if f == f64::INFINITY {
        Some("+Inf")
    } else if f == f64::NEG_INFINITY {
        Some("-Inf")
    } else {
        None
    }
}

fn write_exponent(out: &mut String, digits: &str, exponent: i32) {
    out.push_str(&digits[..1]);
    if digits.len() > 1 {
        out.push('.');
        out.push_str(&digits[1..]);
    }
    out.push_str(&format!("e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs()));
}

/// `strconv.FormatFloat(f, 'e', precision, 64)`; no precision means the shortest that reads back the same.
pub fn format_e(f: f64, precision: Option<usize>) -> String {
    if let Some(text) = special(f) {
        return text.to_owned();
    }
    let (negative, digits, exponent) = scientific(f, precision);
    let mut out = String::new();
    if negative {
        out.push('-');
    }
    write_exponent(&mut out, &digits, exponent);
    out
}

/// `strconv.FormatFloat(f, 'f', precision, 64)`.
pub fn format_f(f: f64, precision: Option<usize>) -> String {
    if let Some(text) = special(f) {
        return text.to_owned();
    }
    match precision {
        Some(p) => format!("{f:.p$}"),
        None => format!("{f}"),
    }
}

/// `strconv.FormatFloat(f, 'g', precision, 64)`.
pub fn format_g(f: f64, precision: Option<usize>) -> String {
    if let Some(text) = special(f) {
        return text.to_owned();
    }
    let (negative, mut digits, exponent) = scientific(f, precision.map(|p| p.max(1) - 1));
    let keep = digits.trim_end_matches('0').len().max(1);
    digits.truncate(keep);
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let threshold = match precision {
        None => 6,
        Some(p) => {
            let p = i32::try_from(p.max(1)).unwrap_or(i32::MAX);
            if p > count && count > exponent { count } else { p }
        }
    };
    let mut out = String::new();
    if negative {
        out.push('-');
    }
    if exponent < -4 || exponent >= threshold {
        write_exponent(&mut out, &digits, exponent);
        return out;
    }
    place_point(&mut out, &digits, exponent);
    out
}

/// Mantissa and exponent of a finite float, the mantissa with its hidden bit.
fn parts(f: f64) -> (u64, i32) {
    let bits = f.to_bits();
    let exponent = i32::try_from((bits >> 52) & 0x7ff).unwrap_or(0);
    let mantissa = bits & ((1 << 52) - 1);
    if exponent == 0 { (mantissa, -1022) } else { (mantissa | 1 << 52, exponent - 1023) }
}

/// `strconv.FormatFloat(f, 'b', -1, 64)`: mantissa and binary exponent in decimal.
pub fn format_b(f: f64) -> String {
    if let Some(text) = special(f) {
        return text.to_owned();
    }
    let (mantissa, exponent) = parts(f);
    format!("{}{mantissa}p{:+}", if f.is_sign_negative() { "-" } else { "" }, exponent - 52)
}

/// `strconv.FormatFloat(f, 'x', precision, 64)`.
pub fn format_x(f: f64, precision: Option<usize>, upper: bool) -> String {
    if let Some(text) = special(f) {
        return text.to_owned();
    }
    let (mut mantissa, mut exponent) = parts(f);
    if mantissa == 0 {
        exponent = 0;
    }
    // The leading 1 goes to bit 60.
    mantissa <<= 60 - 52;
    while mantissa != 0 && mantissa & (1 << 60) == 0 {
        mantissa <<= 1;
        exponent -= 1;
    }
    if let Some(precision) = precision.filter(|p| *p < 15) {
        let shift = precision * 4;
        let extra = (mantissa << shift) & ((1 << 60) - 1);
        mantissa >>= 60 - shift;
        if extra | (mantissa & 1) > 1 << 59 {
            mantissa += 1;
        }
        mantissa <<= 60 - shift;
        if mantissa & (1 << 61) != 0 {
            mantissa >>= 1;
            exponent += 1;
        }
    }
    let mut out = format!("{}0x{}", if f.is_sign_negative() { "-" } else { "" }, mantissa >> 60 & 1);
    mantissa <<= 4;
    let mut digits = String::new();
    while precision.map_or(mantissa != 0, |p| digits.len() < p) {
        digits.push_str(&format!("{:x}", mantissa >> 60 & 15));
        mantissa <<= 4;
    }
    if !digits.is_empty() {
        out.push('.');
        out.push_str(&digits);
    }
    out.push_str(&format!("p{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs()));
    if upper { out.to_ascii_uppercase() } else { out }
}

fn place_point(out: &mut String, digits: &str, exponent: i32) {
    if exponent < 0 {
        out.push_str("0.");
        out.extend(std::iter::repeat_n('0', usize::try_from(-exponent - 1).unwrap_or(0)));
        out.push_str(digits);
        return;
    }
    let whole = usize::try_from(exponent).unwrap_or(0) + 1;
    if digits.len() <= whole {
        out.push_str(digits);
        out.extend(std::iter::repeat_n('0', whole - digits.len()));
    } else {
        out.push_str(&digits[..whole]);
        out.push('.');
        out.push_str(&digits[whole..]);
    }
}

/// A float as `encoding/json` writes it.
pub fn format_json(f: f64) -> String {
    let magnitude = f.abs();
    if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        let text = format_e(f, None);
        // e-09 is written e-9
        match text.len().checked_sub(4) {
            Some(at) if text.get(at..at + 3) == Some("e-0") => {
                format!("{}{}", &text[..at + 2], &text[at + 3..])
            }
            _ => text,
        }
    } else {
        format_f(f, None)
    }
}

/// `strconv.ParseInt(text, 0, 64)` and `ParseUint`: prefixes `0x`, `0o`, `0b`, `0`, and `_` between digits.
pub fn parse_int_base0(text: &str) -> Option<i64> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let magnitude = parse_uint_base0(digits)?;
    if negative {
        if magnitude == 1 << 63 { Some(i64::MIN) } else { i64::try_from(magnitude).ok().map(|m| -m) }
    } else {
        i64::try_from(magnitude).ok()
    }
}

/// `strconv.ParseUint(text, 0, 64)`.
pub fn parse_uint_base0(text: &str) -> Option<u64> {
    if !text.bytes().next()?.is_ascii_digit() {
        return None;
    }
    let lower: Cow<'_, str> = if text.bytes().any(|b| b.is_ascii_uppercase()) {
        text.to_ascii_lowercase().into()
    } else {
        text.into()
    };
    let (radix, digits) = if let Some(d) = lower.strip_prefix("0x") {
        (16, d)
    } else if let Some(d) = lower.strip_prefix("0b") {
        (2, d)
    } else if let Some(d) = lower.strip_prefix("0o") {
        (8, d)
    } else if lower.len() > 1 && lower.starts_with('0') {
        (8, &lower[1..])
    } else {
        (10, &*lower)
    };
    if digits.contains('_') {
        let whole = if radix == 10 { digits } else { digits.strip_prefix('_').unwrap_or(digits) };
        let prefixed = radix != 10;
        if whole.is_empty()
            || whole.starts_with('_')
            || whole.ends_with('_')
            || whole.contains("__")
            || (!prefixed && radix == 10 && !underscores_allowed(text))
        {
            return None;
        }
        return u64::from_str_radix(&whole.replace('_', ""), radix).ok();
    }
    if digits.starts_with(['+', '-']) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}

fn underscores_allowed(text: &str) -> bool {
    text.bytes().next().is_some_and(|b| b.is_ascii_digit())
}

/// `strconv.ParseFloat(text, 64)` for decimal forms.
pub fn parse_float(text: &str) -> Option<f64> {
    let body = text.trim_start_matches(['+', '-']);
    if text.len() - body.len() > 1 {
        return None;
    }
    let lower = body.to_ascii_lowercase();
    match lower.as_str() {
        "inf" | "infinity" => {
            return Some(if text.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY });
        }
        "nan" => return (text.len() == body.len()).then_some(f64::NAN),
        _ => {}
    }
    if let Some(digits) = lower.strip_prefix("0x") {
        return parse_hex_float(digits).map(|f| if text.starts_with('-') { -f } else { f });
    }
    if !body.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-')) {
        return None;
    }
    let parsed: f64 = text.parse().ok()?;
    parsed.is_finite().then_some(parsed)
}

fn parse_hex_float(text: &str) -> Option<f64> {
    let (mantissa, exponent) = text.split_once('p')?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let value = u64::from_str_radix(&digits, 16).ok()?;
    let exponent: i32 = exponent.parse().ok()?;
    let shift = exponent.checked_sub(4 * i32::try_from(fraction.len()).ok()?)?;
    Some(value as f64 * 2f64.powi(shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_go_prints_them() {
        assert_eq!(format_g(1_000_000.0, None), "1e+06");
        assert_eq!(format_g(100_000.0, None), "100000");
        assert_eq!(format_g(0.0001, None), "0.0001");
        assert_eq!(format_g(0.00001, None), "1e-05");
        assert_eq!(format_g(1_234_567.5, None), "1.2345675e+06");
        assert_eq!(format_g(3.0, Some(3)), "3");
        assert_eq!(format_g(1234.5, Some(2)), "1.2e+03");
        assert_eq!(format_e(12345.678, Some(2)), "1.23e+04");
        assert_eq!(format_json(1e21), "1e+21");
        assert_eq!(format_json(1e-7), "1e-7");
        assert_eq!(format_json(1_000_000.0), "1000000");
    }

    #[test]
    fn integers_with_prefixes() {
        assert_eq!(parse_int_base0("0x1F"), Some(31));
        assert_eq!(parse_int_base0("-0b11"), Some(-3));
        assert_eq!(parse_int_base0("017"), Some(15));
        assert_eq!(parse_int_base0("1_000"), Some(1000));
        assert_eq!(parse_int_base0("08"), None);
    }
}
