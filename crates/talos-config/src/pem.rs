//! PEM blocks by label, since Talos uses labels that common readers do not know.

use base64::{Engine, engine::general_purpose::STANDARD};
use zeroize::Zeroizing;

/// Writes one block with 64 columns and a trailing newline.
pub(crate) fn encode(label: &str, der: &[u8]) -> String {
    let body = Zeroizing::new(STANDARD.encode(der));
    let mut text = String::with_capacity(body.len() + body.len() / 64 + 2 * label.len() + 40);
    text.push_str(&format!("-----BEGIN {label}-----\n"));
    let mut rest = body.as_str();
    while !rest.is_empty() {
        let (line, tail) = rest.split_at(rest.len().min(64));
        text.push_str(line);
        text.push('\n');
        rest = tail;
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}

/// The label and content of the first block, or `None` if there is no well-formed block.
pub(crate) fn decode(text: &str) -> Option<(&str, Zeroizing<Vec<u8>>)> {
    let start = text.find("-----BEGIN ")? + "-----BEGIN ".len();
    let label_end = start + text[start..].find("-----")?;
    let label = &text[start..label_end];
    let body = &text[label_end + 5..];
    let end = body.find(&format!("-----END {label}-----"))?;
    let packed: Zeroizing<String> =
        Zeroizing::new(body[..end].chars().filter(|c| !c.is_ascii_whitespace()).collect());
    Some((label, Zeroizing::new(STANDARD.decode(packed.as_bytes()).ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survives_a_round_trip_at_every_length() {
        for length in 0..200_u8 {
            let content: Vec<u8> = (0..length).collect();
            let text = encode("ED25519 PRIVATE KEY", &content);
            assert!(text.lines().all(|line| line.len() <= 64));
            let (label, back) = decode(&text).expect("own output");
            assert_eq!((label, back.as_slice()), ("ED25519 PRIVATE KEY", content.as_slice()));
        }
    }

    #[test]
    fn refuses_broken_blocks() {
        for broken in ["", "hello", "-----BEGIN A-----\nAAAA\n", "-----BEGIN A-----\n!!!!\n-----END A-----\n"]
        {
            assert!(decode(broken).is_none(), "{broken}");
        }
    }
}
