//! Installation, encryption and volumes, for every version.

use serde_json::{Map, Value as Json, json};

use crate::config::{
    contract::Contract,
    options::{DiskKind, DiskSelector, Encryption, EncryptionKey, Install, NodeOptions, UserVolume},
};

/// `machine.install`, as before Talos 1.14.
pub(super) fn install_in_machine(contract: &Contract, install: &Install) -> Json {
    let mut fields = Map::new();
    if let Some(disk) = &install.disk {
        fields.insert("disk".into(), disk.as_str().into());
    }
    if let Some(selector) = &install.disk_selector {
        fields.insert("diskSelector".into(), selector_fields(selector));
    }
    if let Some(image) = &install.image {
        fields.insert("image".into(), image.as_str().into());
    }
    fields.insert("wipe".into(), false.into());
    if contract.grub_uses_uki_cmdline {
        fields.insert("grubUseUKICmdline".into(), true.into());
    }
    fields.into()
}

/// What `UnattendedInstallConfig` says; `None` if there is no disk to install to.
pub(super) fn install_document(install: &Install) -> Option<Map<String, Json>> {
    let expression = match (&install.disk_selector, &install.disk) {
        (Some(selector), _) => selector_expression(selector),
        (None, Some(disk)) => format!("disk.dev_path == {}", quoted(disk)),
        (None, None) => return None,
    };
    let mut installer = Map::new();
    if let Some(image) = &install.image {
        installer.insert("image".into(), image.as_str().into());
    }
    let mut fields = Map::new();
    fields.insert("installer".into(), installer.into());
    fields.insert("provisioning".into(), json!({"diskSelector": {"match": expression}, "wipe": false}));
    Some(fields)
}

fn texts(selector: &DiskSelector) -> [(&'static str, Option<&String>); 5] {
    [
        ("uuid", selector.uuid.as_ref()),
        ("wwid", selector.wwid.as_ref()),
        ("model", selector.model.as_ref()),
        ("serial", selector.serial.as_ref()),
        ("modalias", selector.modalias.as_ref()),
    ]
}

fn selector_fields(selector: &DiskSelector) -> Json {
    let mut fields = Map::new();
    if let Some(bytes) = selector.min_size {
        fields.insert("size".into(), format!(">= {bytes}").into());
    }
    for (key, text) in texts(selector) {
        if let Some(text) = text {
            fields.insert(key.into(), text.as_str().into());
        }
    }
    if let Some(kind) = selector.kind {
        fields.insert("type".into(), kind.as_str().into());
    }
    if let Some(path) = &selector.bus_path {
        fields.insert("busPath".into(), path.as_str().into());
    }
    fields.into()
}

/// The same as an expression over `disk`, in the order and with the guards of Talos' own translation: what is not
/// plugged in at all (a mapped device), cannot be written, or is an optical drive, is no disk to install to.
fn selector_expression(selector: &DiskSelector) -> String {
    let mut terms = Vec::new();
    if let Some(bytes) = selector.min_size {
        terms.push(format!("disk.size >= {bytes}u"));
    }
    let glob = |pattern: &str, field: &str| format!("glob({}, disk.{field})", quoted(pattern));
    for (field, text) in texts(selector) {
        terms.extend(text.map(|text| glob(text, field)));
    }
    terms.push("disk.transport != \"\"".into());
    match selector.kind {
        Some(DiskKind::Hdd) => terms.push("disk.rotational".into()),
        Some(DiskKind::Ssd) => terms.push("!disk.rotational".into()),
        Some(DiskKind::Nvme) => terms.push("disk.transport == \"nvme\"".into()),
        Some(DiskKind::Sd) => terms.push("disk.transport == \"mmc\"".into()),
        None => {}
    }
    terms.extend(selector.bus_path.as_ref().map(|path| glob(path, "bus_path")));
    terms.extend(["!disk.readonly".into(), "!disk.cdrom".into()]);
    terms.join(" && ")
}

/// As a literal of the expression language.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn encryption(encryption: &Encryption) -> Json {
    let keys: Vec<Json> = encryption
        .keys
        .iter()
        .enumerate()
        .map(|(slot, key)| {
            let (name, value) = match key {
                EncryptionKey::Static(passphrase) => ("static", json!({"passphrase": passphrase.expose()})),
                EncryptionKey::NodeId => ("nodeID", json!({})),
                EncryptionKey::Kms(endpoint) => ("kms", json!({"endpoint": endpoint})),
                EncryptionKey::Tpm { check_secure_boot: true } => {
                    ("tpm", json!({"checkSecurebootStatusOnEnroll": true}))
                }
                EncryptionKey::Tpm { check_secure_boot: false } => ("tpm", json!({})),
            };
            json!({"slot": slot, name: value})
        })
        .collect();
    let mut fields = Map::new();
    fields.insert("provider".into(), "luks2".into());
    fields.insert("keys".into(), keys.into());
    if let Some(cipher) = &encryption.cipher {
        fields.insert("cipher".into(), cipher.as_str().into());
    }
    if let Some(bits) = encryption.key_size {
        fields.insert("keySize".into(), bits.into());
    }
    if let Some(bytes) = encryption.block_size {
        fields.insert("blockSize".into(), bytes.into());
    }
    if !encryption.options.is_empty() {
        fields.insert("options".into(), json!(encryption.options));
    }
    fields.into()
}

/// `machine.systemDiskEncryption`, as before Talos 1.11; `None` if nothing is encrypted.
pub(super) fn encryption_in_machine(node: &NodeOptions) -> Option<Json> {
    let mut fields = Map::new();
    if let Some(state) = &node.encrypt_state {
        fields.insert("state".into(), encryption(state));
    }
    if let Some(ephemeral) = &node.encrypt_ephemeral {
        fields.insert("ephemeral".into(), encryption(ephemeral));
    }
    (!fields.is_empty()).then(|| fields.into())
}

/// Volume documents: kind, name, fields.
pub(super) fn documents(
    contract: &Contract,
    node: &NodeOptions,
) -> Vec<(&'static str, String, Map<String, Json>)> {
    let mut documents = Vec::new();
    if contract.has_volume_encryption {
        for (name, asked) in [("STATE", &node.encrypt_state), ("EPHEMERAL", &node.encrypt_ephemeral)] {
            let mut fields = Map::new();
            if let Some(asked) = asked {
                fields.insert("encryption".into(), encryption(asked));
            }
            if contract.is_split && name == "EPHEMERAL" {
                fields.insert("mount".into(), json!({"secure": true}));
            }
            if !fields.is_empty() {
                documents.push(("VolumeConfig", name.to_owned(), fields));
            }
        }
    }
    for volume in &node.user_volumes {
        documents.push(("UserVolumeConfig", volume.name.clone(), user_volume(volume)));
    }
    documents
}

fn user_volume(volume: &UserVolume) -> Map<String, Json> {
    let mut provisioning = Map::new();
    provisioning.insert("diskSelector".into(), json!({"match": volume.disk}));
    if let Some(grow) = volume.grow {
        provisioning.insert("grow".into(), grow.into());
    }
    if let Some(size) = &volume.min_size {
        provisioning.insert("minSize".into(), size.as_str().into());
    }
    if let Some(size) = &volume.max_size {
        provisioning.insert("maxSize".into(), size.as_str().into());
    }
    let mut fields = Map::new();
    fields.insert("provisioning".into(), provisioning.into());
    if let Some(kind) = &volume.filesystem {
        fields.insert("filesystem".into(), json!({"type": kind}));
    }
    if let Some(asked) = &volume.encryption {
        fields.insert("encryption".into(), encryption(asked));
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_never_finds_what_is_no_disk_to_install_to() {
        let ssd = DiskSelector { kind: Some(DiskKind::Ssd), ..DiskSelector::default() };
        assert_eq!(
            selector_expression(&ssd),
            "disk.transport != \"\" && !disk.rotational && !disk.readonly && !disk.cdrom"
        );
        let named = DiskSelector {
            serial: Some("a\"b*".into()),
            bus_path: Some("/pci*".into()),
            ..DiskSelector::default()
        };
        assert_eq!(
            selector_expression(&named),
            "glob(\"a\\\"b*\", disk.serial) && disk.transport != \"\" && glob(\"/pci*\", disk.bus_path) && \
             !disk.readonly && !disk.cdrom"
        );
    }
}
