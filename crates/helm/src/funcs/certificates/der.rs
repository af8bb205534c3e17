//! DER and PEM, as much of them as keys and certificates need.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const OID: u8 = 0x06;
pub(super) const UTF8_STRING: u8 = 0x0c;
pub(super) const PRINTABLE_STRING: u8 = 0x13;
pub(super) const UTC_TIME: u8 = 0x17;
pub(super) const GENERALIZED_TIME: u8 = 0x18;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;
pub(super) const TRUE: [u8; 3] = [0x01, 0x01, 0xff];
pub(super) const NULL: [u8; 2] = [0x05, 0x00];

/// An element: tag, length, content.
pub(super) fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    match u8::try_from(content.len()) {
        Ok(short) if short < 0x80 => out.push(short),
        _ => {
            let length = content.len().to_be_bytes();
            let length = &length[length.iter().take_while(|b| **b == 0).count()..];
            // A length of memory has at most eight bytes.
            out.push(0x80 | u8::try_from(length.len()).unwrap_or(8));
            out.extend_from_slice(length);
        }
    }
    out.extend_from_slice(content);
    out
}

/// A sequence of elements.
pub(super) fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    element(SEQUENCE, &parts.concat())
}

/// A number that is not negative, from its big-endian bytes.
pub(super) fn unsigned(bytes: &[u8]) -> Vec<u8> {
    let digits = &bytes[bytes.iter().take_while(|b| **b == 0).count()..];
    let sign: &[u8] = if digits.first().is_none_or(|b| *b >= 0x80) { &[0] } else { &[] };
    element(INTEGER, &[sign, digits].concat())
}

/// Whole bytes as a bit string.
pub(super) fn bits(bytes: &[u8]) -> Vec<u8> {
    element(BIT_STRING, &[&[0], bytes].concat())
}

/// Reads elements one after the other.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    /// The content of the next element, if it has this tag.
    pub(super) fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (found, rest) = self.0.split_first()?;
        let (first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            short @ 0..0x80 => (usize::from(*short), rest),
            long => {
                let (digits, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
                if digits.is_empty() || digits.len() > 4 {
                    return None;
                }
                (digits.iter().fold(0usize, |sum, digit| sum << 8 | usize::from(*digit)), rest)
            }
        };
        let (content, rest) = rest.split_at_checked(length)?;
        if *found != tag {
            return None;
        }
        self.0 = rest;
        Some(content)
    }
}

/// A block of PEM.
pub(super) struct Block {
    pub(super) label: String,
    pub(super) data: Vec<u8>,
}

/// The first block in a text, whatever stands around it.
pub(super) fn first_block(text: &str) -> Option<Block> {
    const LENIENT: GeneralPurpose = GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new());
    let mut rest = text;
    loop {
        rest = &rest[rest.find("-----BEGIN ")? + "-----BEGIN ".len()..];
        let Some((label, after)) = rest.split_once("-----") else { continue };
        let Some((body, _)) = after.split_once(&format!("-----END {label}-----")) else { continue };
        // Headers, such as of encrypted keys, end with an empty line.
        let body = match body.split_once("\n\n") {
            Some((headers, body)) if headers.contains(':') => body,
            _ => body,
        };
        let digits: String = body.split_whitespace().collect();
        if let Ok(data) = LENIENT.decode(digits) {
            return Some(Block { label: label.to_owned(), data });
        }
    }
}

/// A block of PEM as Go writes it.
pub(super) fn pem(label: &str, data: &[u8]) -> String {
    let digits = base64::engine::general_purpose::STANDARD.encode(data);
    let mut out = format!("-----BEGIN {label}-----\n");
    let mut rest = digits.as_str();
    while !rest.is_empty() {
        let (line, more) = rest.split_at(rest.len().min(64));
        out.push_str(line);
        out.push('\n');
        rest = more;
    }
    out.push_str(&format!("-----END {label}-----\n"));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_numbers_are_as_short_as_they_can_be() {
        assert_eq!(element(OCTET_STRING, &[7; 127])[..3], [4, 127, 7]);
        assert_eq!(element(OCTET_STRING, &[7; 128])[..4], [4, 0x81, 128, 7]);
        assert_eq!(element(OCTET_STRING, &[7; 256])[..5], [4, 0x82, 1, 0, 7]);
        assert_eq!(unsigned(&[0, 0, 1]), [2, 1, 1]);
        assert_eq!(unsigned(&[0x80]), [2, 2, 0, 0x80]);
        assert_eq!(unsigned(&[]), [2, 1, 0]);
        let long = element(OCTET_STRING, &[7; 300]);
        let mut reader = Reader(&long);
        assert!(reader.take(INTEGER).is_none());
        assert_eq!(reader.take(OCTET_STRING).map(<[u8]>::len), Some(300));
        for broken in [&[4u8][..], &[4, 2, 0], &[4, 0x80], &[4, 0x85, 0, 0, 0, 0, 1, 0], &[4, 0x82, 1]] {
            assert!(Reader(broken).take(OCTET_STRING).is_none(), "{broken:?}");
        }
    }

    #[test]
    fn a_block_is_found_among_other_text() {
        let text = format!("Bag Attributes\n-----BEGIN X\n{}tail", pem("A KEY", &[9; 100]));
        let block = first_block(&text).unwrap();
        assert_eq!((block.label.as_str(), block.data), ("A KEY", vec![9; 100]));
        assert!(text.lines().all(|line| line.len() <= 64));
        for broken in ["", "-----BEGIN A-----\n", "-----BEGIN A-----\n?\n-----END A-----\n", "-----BEGIN "] {
            assert!(first_block(broken).is_none(), "{broken}");
        }
    }
}
