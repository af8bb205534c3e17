//! What a machine finds in its CD drives: a cidata volume, or installation media.

use std::io::Read as _;

use super::iso9660;
use crate::image::SystemImage;

/// The files of a cidata volume.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cidata {
    pub(crate) user_data: Option<Vec<u8>>,
    pub(crate) meta_data: Option<String>,
    pub(crate) network_config: Option<String>,
}

/// The first cidata volume in the drives.
pub(crate) fn cidata(cdroms: &[Vec<u8>]) -> Option<Cidata> {
    let volumes = cdroms.iter().filter_map(|bytes| iso9660::read(bytes));
    let volume = volumes.into_iter().find(|v| matches!(v.label.as_str(), "cidata" | "CIDATA"))?.files;
    let text = |bytes: &Vec<u8>| String::from_utf8(bytes.clone()).ok();
    Some(Cidata {
        user_data: volume.get("user-data").cloned().filter(|b| !b.is_empty()),
        meta_data: volume.get("meta-data").and_then(text),
        network_config: volume.get("network-config").and_then(text),
    })
}

/// The first installation medium in the drives.
pub(crate) fn installer(cdroms: &[Vec<u8>]) -> Option<SystemImage> {
    cdroms.iter().find_map(|bytes| SystemImage::decode(bytes))
}

impl Cidata {
    /// The machine configuration in user-data: unpacked, and none when it is meant for another system.
    pub(crate) fn machine_config(&self) -> Option<Result<String, String>> {
        let bytes = self.user_data.as_ref()?;
        let bytes = if bytes.starts_with(&[0x1f, 0x8b]) {
            let mut out = Vec::new();
            match flate2::read::GzDecoder::new(bytes.as_slice()).read_to_end(&mut out) {
                Ok(_) => out,
                Err(error) => return Some(Err(format!("failed to unpack user-data: {error}"))),
            }
        } else {
            bytes.clone()
        };
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => return Some(Err(format!("user-data is not text: {error}"))),
        };
        match text.lines().next().unwrap_or_default().trim_end() {
            "#cloud-config" => None,
            "#include" => Some(Err("failed to fetch #include: no such host in the lab".into())),
            _ => Some(Ok(text)),
        }
    }

    /// The hostname in meta-data.
    pub(crate) fn hostname(&self) -> Option<String> {
        let meta: serde_json::Value = yaml_serde::from_str(self.meta_data.as_deref()?).ok()?;
        ["hostname", "local-hostname"]
            .iter()
            .find_map(|key| meta.get(key)?.as_str().filter(|h| !h.is_empty()).map(str::to_owned))
    }
}
