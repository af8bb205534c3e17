//! What the services of system extensions are told, and which disk Talos is installed on.

use std::collections::BTreeMap;

use daedal_talos_config::DiskKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Text;
use crate::resolve::size;

/// What the service of a system extension is told, such as Tailscale's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExtensionService {
    /// The service's name.
    #[schemars(example = &"tailscale")]
    pub name: String,
    /// Its environment: texts, or where secret ones are.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, Text>,
    /// Its files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<ServiceFile>,
}

/// A file of an extension's service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServiceFile {
    /// Where the service sees it.
    #[schemars(example = &"/usr/local/etc/service.conf")]
    pub path: String,
    /// What stands in it, or where that is.
    pub content: Text,
}

/// What the disk for Talos must be like; everything that is said must hold. Texts may contain `*`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DiskSelector {
    /// At least so large, such as `20GiB`.
    #[schemars(example = &"20GiB")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_size: Option<String>,
    /// Model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Serial number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// WWID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wwid: Option<String>,
    /// UUID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Bus path, such as `/pci0000:00/*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bus_path: Option<String>,
    /// Kind of disk.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<DiskKind>,
}

impl DiskSelector {
    /// The least size in bytes; it was checked when the inventory was read.
    pub fn min_bytes(&self) -> Option<u64> {
        size::parse(self.min_size.as_deref()?, size::Of::Disk).ok()
    }
}
