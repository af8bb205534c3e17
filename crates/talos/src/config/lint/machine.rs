//! Faults of a machine's volumes, taints and modules.

use std::collections::HashSet;

use yaml_serde::Value;

use super::Findings;
use crate::config::document::{DocumentId, MachineConfig};

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

impl MachineConfig {
    pub(super) fn lint_machine(&self, found: &mut Findings) {
        let taints = [
            ("machine.nodeTaints", self.get("machine.nodeTaints")),
            ("KubeNodeConfig", self.in_document("KubeNodeConfig", "taints")),
        ];
        for (place, taints) in taints {
            for (key, value) in taints.and_then(Value::as_mapping).into_iter().flatten() {
                let text = value.as_str().unwrap_or_default();
                let effect = text.rsplit_once(':').map_or(text, |(_, effect)| effect);
                if !EFFECTS.contains(&effect) {
                    let key = key.as_str().unwrap_or_default();
                    found.error(place, &format!("the taint `{key}` needs an effect: {}", EFFECTS.join(", ")));
                }
            }
        }
        for document in self.of_kind("KubeNetworkConfig") {
            let count = |key: &str| document.get(key).and_then(Value::as_sequence).map_or(0, Vec::len);
            if count("podSubnets") != count("serviceSubnets") {
                found.error("KubeNetworkConfig", "needs as many service subnets as pod subnets");
            }
        }
        for kind in ["VolumeConfig", "UserVolumeConfig", "RawVolumeConfig", "SwapVolumeConfig"] {
            for document in self.of_kind(kind) {
                lint_encryption(document.get("encryption"), &DocumentId::of(document).to_string(), found);
            }
        }
        for part in ["state", "ephemeral"] {
            let path = format!("machine.systemDiskEncryption.{part}");
            lint_encryption(self.get(&path), &path, found);
        }
        for document in self.of_kind("UserVolumeConfig") {
            let name = document.get("name").and_then(Value::as_str).unwrap_or_default();
            let good = (1..=34).contains(&name.len())
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            if !good {
                let place = DocumentId::of(document).to_string();
                found.error(&place, "needs a name of 1 to 34 letters, digits and hyphens");
            }
        }
    }
}

fn lint_encryption(encryption: Option<&Value>, place: &str, found: &mut Findings) {
    let Some(encryption) = encryption else { return };
    let keys: Vec<&Value> =
        encryption.get("keys").and_then(Value::as_sequence).into_iter().flatten().collect();
    if keys.is_empty() {
        found.error(place, "is encrypted without a key");
    }
    let mut slots = HashSet::new();
    for key in keys {
        let slot = key.get("slot").and_then(Value::as_u64).unwrap_or_default();
        if !slots.insert(slot) {
            found.error(place, &format!("has two keys in slot {slot}"));
        }
        if key
            .get("static")
            .is_some_and(|key| key.get("passphrase").and_then(Value::as_str).is_none_or(str::is_empty))
        {
            found.error(place, &format!("has no passphrase in slot {slot}"));
        }
        let kms = key.get("kms").map(|kms| kms.get("endpoint").and_then(Value::as_str).unwrap_or_default());
        if kms.is_some_and(|endpoint| !endpoint.starts_with("https://") && !endpoint.starts_with("grpc://")) {
            found.warning(
                place,
                "asks a key service whose address begins neither with https:// nor with grpc://",
            );
        }
    }
}
