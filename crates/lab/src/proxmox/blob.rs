//! Bytes of a volume: shared in memory, base64 when the world is saved.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Blob(Arc<Vec<u8>>);

impl Blob {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<Vec<u8>> for Blob {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Arc::new(bytes))
    }
}

impl Serialize for Blob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(self.bytes()))
    }
}

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map(Self::from).map_err(serde::de::Error::custom)
    }
}

/// What a qcow2 header says.
pub(crate) struct Qcow2 {
    pub(crate) size: u64,
    pub(crate) has_backing_file: bool,
}

/// Reads the header of a qcow2 image; none if it is none.
pub(crate) fn qcow2(bytes: &[u8]) -> Option<Qcow2> {
    let word = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_be_bytes);
    if bytes.get(..4)? != b"QFI\xfb" || bytes.len() < 72 {
        return None;
    }
    Some(Qcow2 { size: word(24)?, has_backing_file: word(8)? != 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_tells_the_virtual_size() {
        let mut image = b"QFI\xfb\0\0\0\x03".to_vec();
        image.resize(104, 0);
        image[24..32].copy_from_slice(&(8u64 << 30).to_be_bytes());
        let header = qcow2(&image).unwrap();
        assert_eq!(header.size, 8 << 30);
        assert!(!header.has_backing_file);
        assert!(qcow2(b"<html>..").is_none());
    }
}
