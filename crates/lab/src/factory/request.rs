//! A posted schematic: YAML or JSON, with nothing in it that the factory does not know.

use std::collections::BTreeMap;

use daedal_talos_image::{MetaValue, Overlay, OverlayOption, Schematic, SecureBoot};
use serde::Deserialize;

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Posted {
    owner: Option<String>,
    overlay: PostedOverlay,
    customization: Customization,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct PostedOverlay {
    image: String,
    name: String,
    options: BTreeMap<String, OptionValue>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OptionValue {
    Flag(bool),
    Integer(i64),
    Text(String),
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Customization {
    embedded_machine_configuration: Option<String>,
    extra_kernel_args: Vec<String>,
    meta: Vec<PostedMeta>,
    system_extensions: Extensions,
    bootloader: Option<String>,
    secureboot: PostedSecureBoot,
    disk_image: DiskImage,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PostedMeta {
    key: u8,
    value: String,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Extensions {
    official_extensions: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct PostedSecureBoot {
    enroll_keys: Option<String>,
    include_well_known_certificates: bool,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct DiskImage {
    sector_size: Option<u32>,
}

/// Reads a posted schematic; an error is what the factory answers.
pub(super) fn parse(body: &[u8]) -> Result<Schematic, String> {
    let text = std::str::from_utf8(body).map_err(|e| format!("error parsing schematic: {e}"))?;
    let posted: Posted = if text.trim().is_empty() {
        Posted::default()
    } else {
        yaml_serde::from_str(text).map_err(|e| format!("error parsing schematic: {e}"))?
    };
    if posted.owner.is_some() {
        return Err("schematic owner requires authentication".into());
    }
    if posted.customization.embedded_machine_configuration.is_some() {
        // It would hold secrets; nothing in the lab may ever send one.
        return Err("embedded machine configurations are not accepted by the lab's factory".into());
    }
    let overlay = (!posted.overlay.image.is_empty() || !posted.overlay.name.is_empty()).then(|| Overlay {
        image: posted.overlay.image,
        name: posted.overlay.name,
        options: posted
            .overlay
            .options
            .into_iter()
            .map(|(key, value)| {
                let value = match value {
                    OptionValue::Flag(flag) => OverlayOption::Flag(flag),
                    OptionValue::Integer(number) => OverlayOption::Integer(number),
                    OptionValue::Text(text) => OverlayOption::Text(text),
                };
                (key, value)
            })
            .collect(),
    });
    let custom = posted.customization;
    Ok(Schematic {
        overlay,
        kernel_args: custom.extra_kernel_args,
        meta: custom.meta.into_iter().map(|m| MetaValue { key: m.key, value: m.value }).collect(),
        extensions: custom.system_extensions.official_extensions,
        bootloader: custom.bootloader,
        secure_boot: SecureBoot {
            enroll_keys: custom.secureboot.enroll_keys,
            well_known_certificates: custom.secureboot.include_well_known_certificates,
        },
        sector_size: custom.disk_image.sector_size,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_schematics_get_their_known_ids() {
        let empty = parse(b"customization: {}\n").unwrap();
        assert_eq!(empty.id(), "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba");
        let agent = parse(b"{\"customization\": {\"systemExtensions\": {\"officialExtensions\": [\"siderolabs/qemu-guest-agent\"]}}}").unwrap();
        assert_eq!(agent.id(), "ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515");
    }

    #[test]
    fn unknown_fields_are_refused() {
        assert!(parse(b"customisation: {}\n").is_err());
        assert!(parse(b"customization: {extensions: []}\n").is_err());
    }
}
