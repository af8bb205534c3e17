//! What writer and reader of ISO 9660 images share.

use std::collections::BTreeMap;

/// Size of a block, and of every structure but directories.
pub(super) const BLOCK: usize = 2048;
/// Where volume descriptors begin.
pub(super) const FIRST_DESCRIPTOR: usize = 16;
/// Every descriptor says it.
pub(super) const MAGIC: &[u8; 5] = b"CD001";
/// Descriptor types.
pub(super) const PRIMARY: u8 = 1;
pub(super) const SUPPLEMENTARY: u8 = 2;
pub(super) const TERMINATOR: u8 = 255;
/// Says that names are Joliet's (UCS-2, level 3).
pub(super) const JOLIET: &[u8; 3] = b"%/E";
/// Offset of the root directory's record in a descriptor.
pub(super) const ROOT_RECORD: usize = 156;
/// Length of a directory record without its name.
pub(super) const RECORD: usize = 33;

/// The label and the files in the root directory of an ISO 9660 image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Iso {
    /// The volume's label.
    pub label: String,
    /// Contents by name: Rock Ridge names if there are any, else Joliet's, else plain ones.
    pub files: BTreeMap<String, Vec<u8>>,
}
