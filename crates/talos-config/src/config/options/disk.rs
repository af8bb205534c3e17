//! Disks: where Talos goes, what is encrypted, volumes of one's own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::secret::Secret;

/// Where Talos is installed and what from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Install {
    /// Device, such as `/dev/sda`. Needed where an installer runs, not with disk images.
    pub disk: Option<String>,
    /// What the disk must be like, instead of its name.
    pub disk_selector: Option<DiskSelector>,
    /// Installer image; upgrades use it too.
    pub image: Option<String>,
}

/// What a disk must be like; everything that is said must hold. Texts may contain `*`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskSelector {
    /// At least so many bytes.
    pub min_size: Option<u64>,
    /// Model.
    pub model: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// Modalias.
    pub modalias: Option<String>,
    /// UUID.
    pub uuid: Option<String>,
    /// WWID.
    pub wwid: Option<String>,
    /// Kind of disk.
    pub kind: Option<DiskKind>,
    /// Bus path, such as `/pci0000:00/*`.
    pub bus_path: Option<String>,
}

/// Kind of disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DiskKind {
    /// Solid state.
    Ssd,
    /// Rotating.
    Hdd,
    /// NVMe.
    Nvme,
    /// SD card.
    Sd,
}

impl DiskKind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Ssd => "ssd",
            Self::Hdd => "hdd",
            Self::Nvme => "nvme",
            Self::Sd => "sd",
        }
    }
}

/// How a volume is encrypted (LUKS2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encryption {
    /// Keys, any of which opens it. Slots are given by order.
    pub keys: Vec<EncryptionKey>,
    /// Cipher, if not the default.
    pub cipher: Option<String>,
    /// Key size in bits, if not the default.
    pub key_size: Option<u32>,
    /// Block size in bytes, if not the default.
    pub block_size: Option<u32>,
    /// Options such as `no_read_workqueue`.
    pub options: Vec<String>,
}

/// What opens an encrypted volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EncryptionKey {
    /// A passphrase that stands in the config.
    Static(Secret),
    /// Derived from the node's own UUID: against lost disks, not lost machines.
    NodeId,
    /// Kept by a service that speaks Sidero's KMS protocol.
    Kms(String),
    /// Sealed by the machine's TPM.
    Tpm {
        /// Whether to refuse to seal while secure boot is off.
        check_secure_boot: bool,
    },
}

/// A volume of one's own, mounted at `/var/mnt/<name>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserVolume {
    /// Its name: letters, digits and hyphens.
    pub name: String,
    /// Which disk it is on, as an expression such as `disk.transport == "nvme"` or `!system_disk`.
    pub disk: String,
    /// Smallest size, such as `10GiB`.
    pub min_size: Option<String>,
    /// Largest size, such as `100GiB`.
    pub max_size: Option<String>,
    /// Whether it takes what is free.
    pub grow: Option<bool>,
    /// File system: `xfs` (the default) or `ext4`.
    pub filesystem: Option<String>,
    /// Encryption.
    pub encryption: Option<Encryption>,
}

impl UserVolume {
    /// A volume on the disks that an expression selects.
    pub fn new(name: impl Into<String>, disk: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            disk: disk.into(),
            min_size: None,
            max_size: None,
            grow: None,
            filesystem: None,
            encryption: None,
        }
    }
}
