//! What an image was when it was first seen.

use serde::{Deserialize, Serialize};

/// Size and digest of one image file, and the size of the disk inside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pin {
    /// File name on the storage.
    pub file: String,
    /// Bytes.
    pub size: u64,
    /// Lower-case hex SHA-256.
    pub sha256: String,
    /// Bytes of the disk that it holds, where that was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_size: Option<u64>,
}
