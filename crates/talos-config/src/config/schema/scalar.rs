//! What single values must look like for Talos to read them.

use std::net::{IpAddr, SocketAddr};

use base64::{
    Engine as _, alphabet,
    engine::general_purpose::{GeneralPurpose, PAD},
};
use yaml_serde::Value;

use super::Shape;
use crate::config::url::Url;

/// What a text or a number must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// An IP address, of IPv6 also with a zone.
    Address,
    /// An address with the length of its network's prefix.
    Prefix,
    /// An address with a port.
    Endpoint,
    /// Bytes as hexadecimal digits, with or without colons.
    Hex,
    /// A number of bytes, such as `10GiB`.
    Bytes,
    /// The same, or a part of the whole, such as `50%`.
    Size,
    /// The name or number of a routing table.
    Table,
    /// A port such as 80, or ports such as 8000-8080.
    Ports,
    /// Bytes in base64.
    Base64,
    /// One of these, with the Talos 1.x that began it behind `@` where that matters.
    Words(&'static str),
    /// A number from zero on, of so many bits.
    Unsigned(u32),
    /// A number of so many bits.
    Signed(u32),
}

impl Format {
    /// As the table of fields writes it.
    pub(super) fn read(word: &'static str) -> Option<Self> {
        let bits = |rest: &str| rest.parse().ok();
        Some(match word {
            "address" => Self::Address,
            "prefix" => Self::Prefix,
            "endpoint" => Self::Endpoint,
            "hex" => Self::Hex,
            "bytes" => Self::Bytes,
            "size" => Self::Size,
            "table" => Self::Table,
            "ports" => Self::Ports,
            "base64" => Self::Base64,
            words if words.contains('|') => Self::Words(words),
            number => match number.split_at_checked(1)? {
                ("u", rest) => Self::Unsigned(bits(rest)?),
                ("i", rest) => Self::Signed(bits(rest)?),
                _ => return None,
            },
        })
    }
}

/// A single value as the text that Talos sees.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

/// A single value as Talos reads it: numbers where texts go are texts, words where flags go are flags.
pub(super) fn as_read(shape: Shape, value: &Value) -> Value {
    match (shape, value) {
        (Shape::Text | Shape::Url | Shape::Duration, Value::Number(_) | Value::Bool(_)) => {
            text(value).map_or(Value::Null, Value::String)
        }
        (Shape::Bool, Value::String(word)) => {
            Value::Bool(["y", "yes", "on"].contains(&word.to_ascii_lowercase().as_str()))
        }
        #[expect(clippy::cast_possible_truncation, reason = "Talos cuts off what is behind the point, too")]
        (Shape::Number, Value::Number(number)) if number.as_i64().is_none() && number.as_u64().is_none() => {
            number.as_f64().map_or(Value::Null, |fraction| Value::Number((fraction as i64).into()))
        }
        _ => value.clone(),
    }
}

/// Why Talos 1.`minor` cannot read a single value, as a sentence without its subject.
pub(super) fn fault(shape: Shape, format: Option<Format>, value: &Value, minor: u32) -> Option<String> {
    match (shape, format) {
        (Shape::Bool, _) => (!is_flag(value)).then(|| "must be true or false".into()),
        (Shape::Duration, _) => {
            (!is_duration(value, minor)).then(|| "must be a duration such as 5m30s".into())
        }
        (Shape::Number, Some(format)) => (!is_number(value, format, minor)).then(|| match format {
            Format::Unsigned(bits) if bits < 64 => {
                format!("must be a number from 0 to {}, without quotes", (1_u64 << bits) - 1)
            }
            _ => "must be a number, without quotes".into(),
        }),
        (Shape::Url, _) => match Url::parse(&text(value)?) {
            Err(fault) => Some(fault),
            // Before v1.13, everything before the last colon was the host.
            Ok(url) => (minor >= 13 && url.has_stray_colon())
                .then(|| "has a port that is no number; write IPv6 addresses in brackets".into()),
        },
        (Shape::Text, Some(Format::Ports)) => ports_fault(value, minor),
        (Shape::Text, Some(format)) => text_fault(&text(value)?, format, minor),
        _ => None,
    }
}

/// A number of 16 bits, or two with a hyphen between them; numbers in quotes are none.
fn ports_fault(value: &Value, minor: u32) -> Option<String> {
    let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok();
    let good = match value {
        Value::String(range) => {
            range.split_once('-').is_some_and(|(first, last)| is_port(first) && is_port(last))
        }
        value => is_number(value, Format::Unsigned(16), minor),
    };
    (!good).then(|| "must be a port such as 80, without quotes, or ports such as 8000-8080".into())
}

/// Bytes in base64 as Talos reads them: over several lines, and with whatever the last letter says beyond the last byte.
pub(crate) fn bytes(text: &str) -> Option<Vec<u8>> {
    const ENGINE: GeneralPurpose =
        GeneralPurpose::new(&alphabet::STANDARD, PAD.with_decode_allow_trailing_bits(true));
    ENGINE.decode(text.replace(['\r', '\n'], "")).ok()
}

/// What is wrong with a certificate or key that is in base64.
pub(super) fn pem_fault(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Mapping(_) | Value::Sequence(_) => Some("must be a single value".into()),
        value => text_fault(&text(value)?, Format::Base64, 0),
    }
}

/// Whether it is a number without anything behind its point that fits.
pub(super) fn is_whole_number(value: &Value, format: Format) -> bool {
    is_number(value, format, 13)
}

fn is_flag(value: &Value) -> bool {
    // Besides its own, Talos takes the words of older YAML.
    const WORDS: [&str; 8] = ["y", "yes", "on", "n", "no", "off", "true", "false"];
    match value {
        Value::Bool(_) => true,
        Value::String(word) => WORDS[..6].contains(&word.to_ascii_lowercase().as_str()),
        _ => false,
    }
}

fn is_number(value: &Value, format: Format, minor: u32) -> bool {
    let Value::Number(number) = value else { return false };
    let (least, most) = match format {
        Format::Unsigned(bits) => (0, (1_i128 << bits) - 1),
        Format::Signed(bits) => (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1),
        _ => return true,
    };
    let whole = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    match (whole, number.as_f64()) {
        (Some(whole), _) => (least..=most).contains(&whole),
        // Before v1.13, what is behind the point was cut off.
        #[expect(clippy::cast_precision_loss, reason = "the ends need not be exact for fractions")]
        (None, Some(fraction)) => {
            (least as f64..=most as f64).contains(&fraction) && (minor < 13 || fraction.fract() == 0.0)
        }
        (None, None) => false,
    }
}

fn is_duration(value: &Value, minor: u32) -> bool {
    match value {
        Value::String(text) => duration_nanoseconds(text).is_some(),
        Value::Number(number) => minor >= 13 && number.as_f64() == Some(0.0),
        _ => false,
    }
}

/// A duration as Go writes it, such as `-1h5m` or `1.5s`.
pub(crate) fn duration_nanoseconds(text: &str) -> Option<i64> {
    const UNITS: [(&str, f64); 8] = [
        ("ns", 1.0),
        ("us", 1e3),
        ("µs", 1e3),
        ("μs", 1e3),
        ("ms", 1e6),
        ("h", 3.6e12),
        ("m", 6e10),
        ("s", 1e9),
    ];
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total = 0.0_f64;
    while !rest.is_empty() {
        let length = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
        let (number, behind) = rest.split_at(length);
        if !number.bytes().any(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let (unit, of_unit) = UNITS.iter().find(|(unit, _)| behind.starts_with(unit))?;
        total += number.parse::<f64>().ok()? * of_unit;
        rest = &behind[unit.len()..];
    }
    #[expect(clippy::cast_possible_truncation, reason = "what does not fit is refused before")]
    let whole = (total < 9.223_372_036e18).then_some(total as i64)?;
    Some(if negative { -whole } else { whole })
}

fn text_fault(text: &str, format: Format, minor: u32) -> Option<String> {
    let good = match format {
        // What is empty is not there.
        Format::Address | Format::Prefix | Format::Endpoint | Format::Bytes | Format::Size
            if text.is_empty() =>
        {
            true
        }
        Format::Address => is_address(text),
        Format::Prefix => is_prefix(text),
        Format::Endpoint => text.parse::<SocketAddr>().is_ok(),
        Format::Hex => {
            let digits = text.replace(':', "");
            digits.len().is_multiple_of(2) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        }
        Format::Bytes | Format::Size => return size_fault(text, format == Format::Size, minor),
        Format::Table => {
            let number =
                text.parse::<u8>().is_ok_and(|number| (1..=252).contains(&number) && !text.starts_with('0'));
            number || ["unspec", "default", "main", "local"].contains(&text.to_ascii_lowercase().as_str())
        }
        Format::Base64 => bytes(text).is_some(),
        Format::Words(words) => return word_fault(text, words, minor),
        Format::Ports | Format::Unsigned(_) | Format::Signed(_) => true,
    };
    (!good).then(|| match format {
        Format::Address => "must be an IP address".into(),
        Format::Prefix => "must be an address with its prefix, such as 10.0.0.5/24".into(),
        Format::Endpoint => "must be an address with a port, such as 10.0.0.5:51820".into(),
        Format::Base64 => "must be in base64".into(),
        Format::Hex => "must be bytes in hexadecimal, such as 02:00:00:00:00:01".into(),
        _ => "must be a routing table: a number from 1 to 252, `main`, `local`, `default` or `unspec`".into(),
    })
}

/// Whether a text is an address; of IPv6 a zone may stand behind it.
pub(crate) fn is_address(text: &str) -> bool {
    match text.split_once('%') {
        Some((address, zone)) => !zone.is_empty() && address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => text.parse::<IpAddr>().is_ok(),
    }
}

/// Whether a text is an address with the length of its network's prefix.
pub(crate) fn is_prefix(text: &str) -> bool {
    text.split_once('/').is_some_and(|(address, bits)| {
        let is_short = bits == "0" || !bits.starts_with(['0', '+']);
        is_short && has_prefix(address, bits)
    })
}

/// Like [`is_prefix`], with zeros before the prefix's length.
pub(crate) fn is_network(text: &str) -> bool {
    text.split_once('/').is_some_and(|(address, bits)| !bits.starts_with('+') && has_prefix(address, bits))
}

fn has_prefix(address: &str, bits: &str) -> bool {
    let most = address.parse::<IpAddr>().map(|address| if address.is_ipv4() { 32 } else { 128 });
    most.is_ok_and(|most| bits.parse::<u8>().is_ok_and(|bits| bits <= most))
}

fn word_fault(text: &str, words: &'static str, minor: u32) -> Option<String> {
    let is_exact = words.ends_with("|-");
    if is_exact && text.is_empty() {
        return None;
    }
    let known = words.split('|').filter(|word| !word.is_empty() && *word != "-");
    let mut known = known.map(|word| match word.split_once('@') {
        Some((word, since)) => (word, since.parse().unwrap_or(0)),
        None => (word, 0),
    });
    match known.clone().find(|(word, _)| text == *word || (!is_exact && text.eq_ignore_ascii_case(word))) {
        Some((_, since)) if since <= minor => None,
        Some((word, since)) => {
            Some(format!("`{word}` is a word that Talos v1.{minor} does not know; it came with v1.{since}"))
        }
        None => {
            let all: Vec<&str> =
                known.by_ref().filter(|(_, since)| *since <= minor).map(|(word, _)| word).collect();
            Some(format!("must be one of {}", all.join(", ")))
        }
    }
}

/// A size, and whether it is so much less than the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// So many bytes.
    Bytes { count: u64, negative: bool },
    /// A part of the whole.
    Percent { negative: bool },
}

/// Reads a size; an error says what is wrong with it, as a sentence without its subject.
pub(crate) fn size(text: &str, may_be_part: bool, minor: u32) -> Result<Size, String> {
    const UNITS: [(&str, u64); 7] = [
        ("", 1),
        ("k", 1_000),
        ("m", 1_000_000),
        ("g", 1_000_000_000),
        ("t", 1_000_000_000_000),
        ("p", 1_000_000_000_000_000),
        ("e", 1_000_000_000_000_000_000),
    ];
    let wrong =
        || format!("must be a size such as 10GiB or 500MB{}", if may_be_part { " or 50%" } else { "" });
    // Less than the whole by so much: since v1.13.
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) if minor >= 13 => (true, rest),
        Some(_) => return Err(wrong()),
        None => (false, text),
    };
    if may_be_part && text.contains('%') {
        let part = rest.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
        return match part {
            Some(part) if (0.0..=100.0).contains(&part) || part.is_nan() => Ok(Size::Percent { negative }),
            Some(_) => Err("must be a part of the whole from 0% to 100%".into()),
            None => Err(wrong()),
        };
    }
    let length = rest.bytes().take_while(|byte| byte.is_ascii_digit() || b".,".contains(byte)).count();
    let (number, unit) = rest.split_at(length);
    let number: f64 = number.replace(',', "").parse().map_err(|_| wrong())?;
    let unit = unit.trim().to_lowercase();
    let short = unit.strip_suffix('b').unwrap_or(&unit);
    let (letter, binary) = match short.strip_suffix('i') {
        Some(letter) if !letter.is_empty() => (letter, true),
        _ => (short, false),
    };
    let at = UNITS.iter().position(|(known, _)| *known == letter).ok_or_else(wrong)?;
    let factor = if binary { 1_u64 << (10 * at) } else { UNITS[at].1 };
    #[expect(clippy::cast_precision_loss, reason = "Talos reckons with the same precision")]
    let bytes = number * factor as f64;
    if bytes >= 1.844_674_407_370_955_2e19 {
        return Err("is larger than any disk".into());
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is between zero and the largest"
    )]
    Ok(Size::Bytes { count: bytes as u64, negative })
}

fn size_fault(text: &str, may_be_part: bool, minor: u32) -> Option<String> {
    size(text, may_be_part, minor).err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_talos_reads_them() {
        let bytes = |count| Ok(Size::Bytes { count, negative: false });
        for (text, count) in [
            ("10GiB", 10 << 30),
            ("10 gib", 10 << 30),
            ("10G", 10_000_000_000),
            ("10", 10),
            ("10B", 10),
            ("1,000MB", 1_000_000_000),
            (".5GB", 500_000_000),
            ("0", 0),
            ("2ki", 2048),
        ] {
            assert_eq!(size(text, true, 12), bytes(count), "{text}");
        }
        assert_eq!(size("50%", true, 12), Ok(Size::Percent { negative: false }));
        assert_eq!(size("-5GB", true, 13), Ok(Size::Bytes { count: 5_000_000_000, negative: true }));
        for wrong in ["lots", "10XB", "1e3", "1.2.3GB", "20EiB", "-5GB", "50%", "ib", "10i"] {
            assert!(size(wrong, false, 12).is_err(), "{wrong}");
        }
        for wrong in ["150%", "50 %", "%", "abc%", "-5%"] {
            assert!(size(wrong, true, 12).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, nanoseconds) in [
            ("5m", 300_000_000_000),
            ("1h2m3s", 3_723_000_000_000),
            ("1.5h", 5_400_000_000_000),
            ("0", 0),
            ("5us", 5_000),
            (".5s", 500_000_000),
            ("-1s", -1_000_000_000),
        ] {
            assert_eq!(duration_nanoseconds(text), Some(nanoseconds), "{text}");
        }
        for wrong in ["", "5", "5d", "1e3s", "5 m", "s", "9999999h", "-"] {
            assert_eq!(duration_nanoseconds(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn single_values_are_taken_as_talos_takes_them() {
        let fault = |shape, format, text: &str, minor| {
            super::fault(shape, format, &yaml_serde::from_str(text).unwrap(), minor).is_some()
        };
        let mtu = Some(Format::Unsigned(32));
        for (text, minor, refused) in [
            ("1500", 14, false),
            ("1500.0", 14, false),
            ("1500.5", 13, true),
            ("1500.5", 12, false),
            ("'1500'", 14, true),
            ("-1", 12, true),
            ("4294967296", 12, true),
            ("true", 12, true),
        ] {
            assert_eq!(fault(Shape::Number, mtu, text, minor), refused, "{text} {minor}");
        }
        for (text, refused) in
            [("yes", false), ("'off'", false), ("true", false), ("'true'", true), ("1", true)]
        {
            assert_eq!(fault(Shape::Bool, None, text, 14), refused, "{text}");
        }
        assert!(fault(Shape::Duration, None, "0", 12) && !fault(Shape::Duration, None, "0", 13));
        let words = Some(Format::Words("xfs|btrfs@14"));
        assert!(!fault(Shape::Text, words, "XFS", 12) && fault(Shape::Text, words, "btrfs", 13));
        for (format, text, refused) in [
            (Format::Address, "10.0.0.1", false),
            (Format::Address, "'fe80::1%eth0'", false),
            (Format::Address, "10", true),
            (Format::Address, "''", false),
            (Format::Prefix, "10.0.0.1/24", false),
            (Format::Prefix, "10.0.0.1", true),
            (Format::Prefix, "10.0.0.1/024", true),
            (Format::Table, "252", false),
            (Format::Table, "253", true),
            (Format::Table, "Main", false),
            (Format::Hex, "'02:00:5e'", false),
            (Format::Hex, "'02:0'", true),
        ] {
            assert_eq!(fault(Shape::Text, Some(format), text, 12), refused, "{text}");
        }
    }
}
