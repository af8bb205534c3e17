//! The first line of every kept file: whose it is, how long its content is, and the content's digest.
//!
//! The line is a comment in YAML, so that a sealed secrets bundle is still what other tools read once it is decrypted.

use sha2::{Digest, Sha256};

const MAGIC: &str = "# daedal-store/v1";

/// Puts the line before the content.
pub(crate) fn seal(cluster: &str, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let mut sealed =
        format!("{MAGIC} cluster={cluster} length={length} sha256={}\n", digest(cluster, content));
    let mut bytes = std::mem::take(&mut sealed).into_bytes();
    bytes.extend_from_slice(content);
    bytes
}

/// A sealed file taken apart.
#[derive(Debug)]
pub(crate) struct Opened<'a> {
    pub(crate) cluster: &'a str,
    pub(crate) content: &'a [u8],
}

/// Checks the line and hands out the content, or says what is wrong.
pub(crate) fn open(bytes: &[u8]) -> Result<Opened<'_>, String> {
    let end = bytes.iter().position(|byte| *byte == b'\n').ok_or("its first line is cut off")?;
    let (line, content) = (&bytes[..end], &bytes[end + 1..]);
    let line = std::str::from_utf8(line).map_err(|_| "its first line is not text")?;
    let rest = line.strip_prefix(MAGIC).ok_or("its first line is not the store's")?;
    let mut fields = rest.split(' ').skip(1);
    let mut field = |name: &str| {
        fields
            .next()
            .and_then(|field| field.strip_prefix(name))
            .ok_or_else(|| format!("its first line has no `{name}`"))
    };
    let cluster = field("cluster=")?;
    let length = field("length=")?;
    let sha256 = field("sha256=")?;
    if fields.next().is_some() || !rest.starts_with(' ') {
        return Err("its first line is not the store's".to_owned());
    }
    if length != content.len().to_string() {
        return Err(format!("it should have {length} bytes of content and has {}", content.len()));
    }
    if sha256 != digest(cluster, content) {
        return Err("its content does not match its digest".to_owned());
    }
    Ok(Opened { cluster, content })
}

fn digest(cluster: &str, content: &[u8]) -> String {
    let mut hash = Sha256::new();
    hash.update(cluster.as_bytes());
    hash.update([0]);
    hash.update(content);
    hex::encode(hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sealed_opens() {
        let sealed = seal("c0ffee", b"a: 1\n");
        let opened = open(&sealed).unwrap();
        assert_eq!((opened.cluster, opened.content), ("c0ffee", &b"a: 1\n"[..]));
    }

    #[test]
    fn truncation_at_every_byte_is_detected() {
        let sealed = seal("c0ffee", b"cluster:\n  id: x\n");
        for length in 0..sealed.len() {
            assert!(open(&sealed[..length]).is_err(), "cut at {length}");
        }
    }

    #[test]
    fn a_flip_of_every_bit_is_detected() {
        let sealed = seal("c0ffee", b"cluster:\n  id: x\n");
        for index in 0..sealed.len() {
            for bit in 0..8 {
                let mut bent = sealed.clone();
                bent[index] ^= 1 << bit;
                assert!(open(&bent).is_err(), "byte {index} bit {bit}");
            }
        }
    }
}
