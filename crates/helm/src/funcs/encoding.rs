//! Base 64, base 32 and checksums.

use base64::Engine as _;
use sha1::Digest as _;

use super::{Entry, Type, bytes, fixed};
use crate::value::Value;

pub(super) fn functions() -> Vec<Entry> {
    use Type::Str;
    vec![
        fixed("b64enc", &[Str], |_, args| {
            Ok(Value::string(base64::engine::general_purpose::STANDARD.encode(bytes(args, 0))))
        }),
        fixed("b64dec", &[Str], |_, args| {
            Ok(Value::string(base64_decode(bytes(args, 0)).unwrap_or_else(String::into_bytes)))
        }),
        fixed("b32enc", &[Str], |_, args| Ok(Value::string(base32_encode(bytes(args, 0))))),
        fixed("b32dec", &[Str], |_, args| {
            Ok(Value::string(base32_decode(bytes(args, 0)).unwrap_or_else(String::into_bytes)))
        }),
        fixed("sha1sum", &[Str], |_, args| {
            Ok(Value::string(hex::encode(sha1::Sha1::digest(bytes(args, 0)))))
        }),
        fixed("sha256sum", &[Str], |_, args| {
            Ok(Value::string(hex::encode(sha2::Sha256::digest(bytes(args, 0)))))
        }),
        fixed("sha512sum", &[Str], |_, args| {
            Ok(Value::string(hex::encode(sha2::Sha512::digest(bytes(args, 0)))))
        }),
        fixed("adler32sum", &[Str], |_, args| Ok(Value::string(adler32(bytes(args, 0)).to_string()))),
    ]
}

/// `base64.StdEncoding.DecodeString`, which passes over line breaks; the error is Go's.
pub(super) fn base64_decode(input: &[u8]) -> Result<Vec<u8>, String> {
    let compact: Vec<u8> = input.iter().copied().filter(|b| !matches!(b, b'\n' | b'\r')).collect();
    let engine = base64::engine::GeneralPurpose::new(
        &base64::alphabet::STANDARD,
        base64::engine::GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
    );
    engine.decode(&compact).map_err(|_| {
        let alphabet = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/');
        let good = input.iter().take_while(|b| alphabet(b) || matches!(b, b'\n' | b'\r')).count();
        let at = if good == input.len() { input.len() - compact.len() % 4 } else { good };
        format!("illegal base64 data at input byte {at}")
    })
}

const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

fn base32_encode(input: &[u8]) -> String {
    let mut out = String::new();
    for chunk in input.chunks(5) {
        let mut block = [0u8; 8];
        block[3..3 + chunk.len()].copy_from_slice(chunk);
        let bits = u64::from_be_bytes(block);
        let used = (chunk.len() * 8).div_ceil(5);
        for i in 0..8 {
            let symbol = (bits >> (35 - 5 * i)) & 31;
            out.push(if i < used { char::from(BASE32[usize::try_from(symbol).unwrap_or(0)]) } else { '=' });
        }
    }
    out
}

/// `base32.StdEncoding.DecodeString`; the error is Go's.
fn base32_decode(input: &[u8]) -> Result<Vec<u8>, String> {
    let illegal = |at: usize| format!("illegal base32 data at input byte {at}");
    let compact: Vec<u8> = input.iter().copied().filter(|b| !matches!(b, b'\n' | b'\r')).collect();
    let mut out = Vec::new();
    for (block, chunk) in compact.chunks(8).enumerate() {
        let start = block * 8;
        let is_last = start + 8 >= compact.len();
        let (mut bits, mut symbols) = (0u64, 0);
        for (i, byte) in chunk.iter().enumerate() {
            if *byte == b'=' && i >= 2 && is_last {
                if chunk.len() < 8 {
                    return Err(illegal(compact.len()));
                }
                if let Some(bad) = chunk[i + 1..].iter().position(|b| *b != b'=') {
                    return Err(illegal(start + i + bad));
                }
                if matches!(i, 3 | 6) {
                    return Err(illegal(start + i));
                }
                break;
            }
            let value = BASE32.iter().position(|b| b == byte).ok_or_else(|| illegal(start + i))?;
            bits |= u64::try_from(value).unwrap_or(0) << (35 - 5 * i);
            symbols = i + 1;
        }
        if symbols == chunk.len() && symbols < 8 {
            return Err(illegal(compact.len() - symbols));
        }
        out.extend_from_slice(&bits.to_be_bytes()[3..3 + symbols * 5 / 8]);
    }
    Ok(out)
}

fn adler32(input: &[u8]) -> u32 {
    let (mut a, mut b) = (1u32, 0u32);
    for byte in input {
        a = (a + u32::from(*byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    b << 16 | a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_round_trip() {
        for text in ["", "f", "fo", "foo", "foob", "fooba", "foobar"] {
            assert_eq!(base32_decode(base32_encode(text.as_bytes()).as_bytes()).unwrap(), text.as_bytes());
        }
        assert_eq!(base32_encode(b"foob"), "MZXW6YQ=");
        assert_eq!(adler32(b"Wikipedia"), 0x11E6_0398);
        assert_eq!(base64_decode(b"a*b").unwrap_err(), "illegal base64 data at input byte 1");
    }
}
