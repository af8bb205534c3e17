//! What an image holds besides Talos, its extensions and kernel arguments: written, resolved and read in one shape.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a board needs besides Talos.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Overlay {
    /// Its image.
    #[schemars(example = &"siderolabs/sbc-raspberrypi")]
    pub image: String,
    /// Its name.
    #[schemars(example = &"rpi_generic")]
    pub name: String,
    /// Its options.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, OverlayOption>,
}

/// The value of an overlay's option.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum OverlayOption {
    /// Yes or no.
    Flag(bool),
    /// A whole number.
    Integer(u32),
    /// A text.
    Text(String),
}

/// Boot loader of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Bootloader {
    /// GRUB.
    Grub,
    /// systemd-boot.
    SdBoot,
    /// Both.
    DualBoot,
}

impl Bootloader {
    /// The Image Factory's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Grub => "grub",
            Self::SdBoot => "sd-boot",
            Self::DualBoot => "dual-boot",
        }
    }
}
