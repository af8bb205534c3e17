//! MAC addresses: derived from cluster and node name, so that the same inventory gives the same ones forever.

use sha2::{Digest, Sha256};
use uuid::Uuid;

/// First bytes of derived addresses unless said otherwise: the block for private use.
const PRIVATE: u8 = 0x02;

/// Reads `BC:24:11` (or with hyphens): one to five bytes, not of a group address.
pub(crate) fn parse_prefix(text: &str) -> Result<Vec<u8>, String> {
    let bytes = octets(text).filter(|b| (1..=5).contains(&b.len()));
    let Some(bytes) = bytes else {
        return Err(format!("`{text}` is not the beginning of a MAC address."));
    };
    if bytes[0] & 1 == 1 {
        return Err(format!("MAC addresses that begin with `{text}` are for groups, not for machines."));
    }
    Ok(bytes)
}

/// Reads a whole MAC address and writes it as Proxmox does.
pub(crate) fn parse(text: &str) -> Result<String, String> {
    match octets(text).as_deref() {
        Some([0, 0, 0, 0, 0, 0]) => Err(format!("`{text}` is no address of a machine.")),
        Some(bytes @ [first, ..]) if bytes.len() == 6 => {
            if first & 1 == 1 {
                return Err(format!("`{text}` is a group address; a machine's MAC has an even first byte."));
            }
            Ok(shown(bytes))
        }
        _ => Err(format!("`{text}` is not a MAC address.")),
    }
}

/// The address of a node.
pub(crate) fn derive(cluster: &Uuid, node: &str, prefix: Option<&[u8]>) -> String {
    let digest =
        Sha256::new().chain_update(cluster.as_bytes()).chain_update(b"/mac/").chain_update(node).finalize();
    let prefix = prefix.unwrap_or(&[PRIVATE]);
    let bytes: Vec<u8> = prefix.iter().chain(digest.iter()).take(6).copied().collect();
    shown(&bytes)
}

fn shown(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(17);
    for (i, byte) in bytes.iter().enumerate() {
        if i > 0 {
            text.push(':');
        }
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(u32::from(digit), 16).unwrap_or('0').to_ascii_uppercase());
        }
    }
    text
}

fn octets(text: &str) -> Option<Vec<u8>> {
    let separator = if text.contains('-') { '-' } else { ':' };
    let octet = |s: &str| match s.as_bytes() {
        [a, b] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => u8::from_str_radix(s, 16).ok(),
        _ => None,
    };
    text.split(separator).map(octet).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derived_addresses_never_change() {
        let cluster = Uuid::from_u128(7);
        assert_eq!(derive(&cluster, "cp-1", None), derive(&cluster, "cp-1", None));
        assert_ne!(derive(&cluster, "cp-1", None), derive(&cluster, "cp-2", None));
        assert!(derive(&cluster, "cp-1", None).starts_with("02:"));
        assert!(derive(&cluster, "cp-1", Some(&[0xBC, 0x24, 0x11])).starts_with("BC:24:11:"));
        assert_eq!(derive(&cluster, "cp-1", None).len(), 17);
    }

    #[test]
    fn written_addresses() {
        assert_eq!(parse("bc-24-11-00-00-01"), Ok("BC:24:11:00:00:01".to_owned()));
        for wrong in
            ["", "BC:24:11", "01:00:00:00:00:01", "00:00:00:00:00:00", "BC:24:11:0:0:1", "+C:24:11:00:00:01"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_prefix("BC:24:11"), Ok(vec![0xBC, 0x24, 0x11]));
        assert!(parse_prefix("33:33").is_err());
    }
}
