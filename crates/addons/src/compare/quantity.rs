//! Quantities of Kubernetes, such as `500m` and `1Gi`, which the API server writes its own way.

/// Whether two texts are the same quantity.
pub(super) fn same(a: &str, b: &str) -> bool {
    matches!((nanos(a), nanos(b)), (Some(a), Some(b)) if a == b)
}

/// A quantity in billionths; what is finer is rounded up, as the API server does.
fn nanos(text: &str) -> Option<i128> {
    let text = text.trim();
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let (factor, exponent) = suffix_of(suffix)?;
    // In billionths, with the digits of the fraction still to be taken away.
    let exponent = exponent + 9 - i32::try_from(fraction.len()).ok()?;
    let value = digits.checked_mul(factor)?;
    let value = match u32::try_from(exponent) {
        Ok(exponent) => value.checked_mul(10_i128.checked_pow(exponent)?)?,
        Err(_) => {
            let divisor = 10_i128.checked_pow(exponent.unsigned_abs())?;
            value.checked_add(divisor - 1)? / divisor
        }
    };
    Some(if negative { -value } else { value })
}

/// What a suffix stands for: a factor and a power of ten.
fn suffix_of(suffix: &str) -> Option<(i128, i32)> {
    Some(match suffix {
        "" => (1, 0),
        "n" => (1, -9),
        "u" => (1, -6),
        "m" => (1, -3),
        "k" => (1, 3),
        "M" => (1, 6),
        "G" => (1, 9),
        "T" => (1, 12),
        "P" => (1, 15),
        "E" => (1, 18),
        "Ki" => (1 << 10, 0),
        "Mi" => (1 << 20, 0),
        "Gi" => (1 << 30, 0),
        "Ti" => (1 << 40, 0),
        "Pi" => (1 << 50, 0),
        "Ei" => (1 << 60, 0),
        other => {
            let exponent = other.strip_prefix(['e', 'E'])?;
            let exponent: i32 = exponent.parse().ok()?;
            if exponent.abs() > 18 {
                return None;
            }
            (1, exponent)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_compared_by_what_they_are() {
        for (a, b) in [
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1024Mi", "1Gi"),
            ("1e3", "1k"),
            ("1.5Gi", "1536Mi"),
            ("100n", "0.0000001"),
            ("-1", "-1000m"),
            ("0", "0Gi"),
            ("9Ei", "9216Pi"),
        ] {
            assert!(same(a, b), "{a} {b}");
        }
        for (a, b) in
            [("1G", "1Gi"), ("1", "2"), ("1m", "1"), ("x", "x1"), ("", ""), ("1.2.3", "1.2.3"), ("1Q", "1Q")]
        {
            assert!(!same(a, b), "{a} {b}");
        }
    }
}
