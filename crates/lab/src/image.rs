//! The lab's disk images: small files in the real formats whose last bytes say what system they hold.
//!
//! A qcow2 image has a true version-3 header (so its virtual size can be read as from any other), followed by a JSON
//! trailer. The trailer is what the simulated machine boots.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Closes every lab image, after the trailer's length.
const MAGIC: &[u8; 8] = b"LABIMAGE";
/// 4 KiB clusters keep the file at a few KiB.
const CLUSTER_BITS: u32 = 12;
const SECTOR: usize = 512;
/// Size of the disk inside a Talos disk image, unless it was made larger.
pub(crate) const DISK_SIZE: u64 = 1246 * 1024 * 1024;

/// What system a disk or ISO image holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemImage {
    /// Talos version with `v`.
    pub version: String,
    /// Schematic id.
    pub schematic: String,
    /// Platform, such as `nocloud` or `metal`.
    pub platform: String,
    /// Architecture, such as `amd64`.
    pub arch: String,
    /// Official extensions, such as `siderolabs/qemu-guest-agent`.
    pub extensions: Vec<String>,
    /// Extra kernel arguments.
    #[serde(default)]
    pub kernel_args: Vec<String>,
    /// Whether this is installation media rather than an installed disk.
    #[serde(default)]
    pub installer: bool,
    /// Whether it is signed for secure boot.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub secure_boot: bool,
    /// Initial META values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub meta: BTreeMap<u8, String>,
}

/// A file format the Image Factory gives out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A qcow2 disk.
    Qcow2,
    /// A raw disk.
    Raw,
    /// Bootable installation media.
    Iso,
}

impl SystemImage {
    /// The bytes of this system as a file. The same system always gives the same bytes.
    pub fn encode(&self, format: Format) -> Vec<u8> {
        self.encode_sized(format, DISK_SIZE)
    }

    /// The same with a disk of this size inside, where the format tells one.
    pub fn encode_sized(&self, format: Format, disk_size: u64) -> Vec<u8> {
        let mut bytes = match format {
            Format::Qcow2 => qcow2(disk_size),
            Format::Raw => mbr(),
            Format::Iso => iso(),
        };
        bytes.extend(self.payload());
        // The trailer is plain data without maps: it always serialises.
        let trailer = serde_json::to_vec(self).unwrap_or_default();
        if format == Format::Raw {
            // The file is the disk: whole sectors, and no larger than what is in it.
            let whole = (bytes.len() + trailer.len() + 8 + MAGIC.len()).next_multiple_of(SECTOR);
            bytes.resize(whole - trailer.len() - 8 - MAGIC.len(), 0);
        }
        bytes.extend_from_slice(&trailer);
        bytes.extend_from_slice(&(trailer.len() as u64).to_be_bytes());
        bytes.extend_from_slice(MAGIC);
        bytes
    }

    /// Reads the trailer of an image; none when the file is cut short or is no lab image.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_suffix(MAGIC)?;
        let (rest, length) = rest.split_last_chunk::<8>()?;
        let length = usize::try_from(u64::from_be_bytes(*length)).ok()?;
        let start = rest.len().checked_sub(length)?;
        serde_json::from_slice(&rest[start..]).ok()
    }

    /// Bytes that stand for the system itself, so that two systems differ in more than their trailer.
    fn payload(&self) -> Vec<u8> {
        let mut seed = Sha256::digest(format!(
            "{}/{}/{}{}",
            self.schematic,
            self.version,
            self.platform,
            if self.secure_boot { "/signed" } else { "" }
        ));
        let mut out = Vec::with_capacity(1024);
        while out.len() < 1024 {
            out.extend_from_slice(&seed);
            seed = Sha256::digest(seed);
        }
        out
    }

    /// The schematic's extension names without the publisher.
    pub fn has_extension(&self, name: &str) -> bool {
        self.extensions.iter().any(|e| e == name || e.rsplit('/').next() == Some(name))
    }
}

/// The virtual size of a qcow2 file.
pub fn virtual_size(bytes: &[u8]) -> Option<u64> {
    let header = bytes.first_chunk::<32>()?;
    if &header[..4] != b"QFI\xfb" {
        return None;
    }
    header[24..32].try_into().ok().map(u64::from_be_bytes)
}

fn qcow2(size: u64) -> Vec<u8> {
    let cluster = 1u64 << CLUSTER_BITS;
    let per_l2 = cluster / 8 * cluster;
    let l1_entries = size.div_ceil(per_l2);
    let l1_clusters = (l1_entries * 8).div_ceil(cluster);
    let mut h = Vec::with_capacity(112);
    h.extend_from_slice(b"QFI\xfb");
    h.extend_from_slice(&3u32.to_be_bytes());
    h.extend_from_slice(&0u64.to_be_bytes()); // backing file offset
    h.extend_from_slice(&0u32.to_be_bytes()); // backing file name length
    h.extend_from_slice(&CLUSTER_BITS.to_be_bytes());
    h.extend_from_slice(&size.to_be_bytes());
    h.extend_from_slice(&0u32.to_be_bytes()); // no encryption
    h.extend_from_slice(&(l1_entries as u32).to_be_bytes());
    h.extend_from_slice(&(3 * cluster).to_be_bytes()); // L1 table
    h.extend_from_slice(&cluster.to_be_bytes()); // refcount table
    h.extend_from_slice(&1u32.to_be_bytes());
    h.extend_from_slice(&0u32.to_be_bytes()); // snapshots
    h.extend_from_slice(&0u64.to_be_bytes());
    h.extend_from_slice(&[0; 24]); // feature bits
    h.extend_from_slice(&4u32.to_be_bytes()); // 16-bit refcounts
    h.extend_from_slice(&104u32.to_be_bytes());
    h.extend_from_slice(&[0; 8]); // end of header extensions
    let used = 3 + l1_clusters;
    let mut file = vec![0; (used * cluster) as usize];
    file[..h.len()].copy_from_slice(&h);
    let table = cluster as usize;
    file[table..table + 8].copy_from_slice(&(2 * cluster).to_be_bytes());
    for index in 0..used as usize {
        let at = 2 * table + 2 * index;
        file[at..at + 2].copy_from_slice(&1u16.to_be_bytes());
    }
    file
}

fn mbr() -> Vec<u8> {
    let mut sector = vec![0; SECTOR];
    sector[510] = 0x55;
    sector[511] = 0xaa;
    sector
}

/// A volume descriptor set with the label of Talos' installation media, and no files.
fn iso() -> Vec<u8> {
    let mut file = vec![0; 18 * 2048];
    let primary = 16 * 2048;
    file[primary] = 1;
    file[primary + 1..primary + 6].copy_from_slice(b"CD001");
    file[primary + 6] = 1;
    let label = b"TALOS                           ";
    file[primary + 40..primary + 72].copy_from_slice(label);
    let end = 17 * 2048;
    file[end] = 255;
    file[end + 1..end + 6].copy_from_slice(b"CD001");
    file[end + 6] = 1;
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image() -> SystemImage {
        SystemImage {
            version: "v1.12.0".into(),
            schematic: "ab".repeat(32),
            platform: "nocloud".into(),
            arch: "amd64".into(),
            extensions: vec!["siderolabs/qemu-guest-agent".into()],
            kernel_args: vec![],
            installer: false,
            secure_boot: false,
            meta: BTreeMap::new(),
        }
    }

    #[test]
    fn a_qcow2_says_its_size_and_its_system() {
        let bytes = image().encode(Format::Qcow2);
        assert_eq!(virtual_size(&bytes), Some(1_306_525_696));
        assert_eq!(SystemImage::decode(&bytes), Some(image()));
        assert!(bytes.len() < 32 * 1024);
        assert_eq!(bytes, image().encode(Format::Qcow2));
        assert!(image().has_extension("qemu-guest-agent"));
    }

    #[test]
    fn a_raw_image_is_a_small_disk_with_its_system() {
        let bytes = image().encode(Format::Raw);
        assert_eq!((bytes.len() % SECTOR, &bytes[510..512]), (0, &[0x55, 0xaa][..]));
        assert_eq!(SystemImage::decode(&bytes), Some(image()));
    }

    #[test]
    fn a_cut_image_holds_no_system() {
        let bytes = image().encode(Format::Qcow2);
        assert_eq!(SystemImage::decode(&bytes[..bytes.len() - 9]), None);
        assert_eq!(SystemImage::decode(b"not found"), None);
    }
}
