//! Faults of volumes: where they go, how large they are, what opens them; and of the disk to install to.

use std::collections::HashSet;

use yaml_serde::Value;

use super::{Findings, at, expression, expression::About, is_set, items, text};
use crate::config::{
    contract::Release,
    document::{DocumentId, MachineConfig},
    schema::{Size, duration_nanoseconds, size},
};

/// Volumes that Talos has by itself, and the Talos 1.x from which on they can be configured.
const SYSTEM_VOLUMES: [(&str, u32); 7] = [
    ("EPHEMERAL", 8),
    ("IMAGECACHE", 9),
    ("STATE", 11),
    ("ETCD", 14),
    ("CRI", 14),
    ("KUBELET", 14),
    ("LOG", 14),
];

/// What a kind of volume is asked for.
#[derive(Clone, Copy)]
struct Asks {
    disk: bool,
    size: bool,
}

impl MachineConfig {
    pub(super) fn lint_volumes(&self, release: Release, found: &mut Findings) {
        for document in self.of_kind("VolumeConfig") {
            lint_system_volume(document, release, found);
        }
        for kind in ["UserVolumeConfig", "RawVolumeConfig", "SwapVolumeConfig"] {
            for document in self.of_kind(kind) {
                lint_own_volume(document, kind, release, found);
            }
        }
        for document in self.of_kind("ExistingVolumeConfig") {
            let place = DocumentId::of(document).to_string();
            let selector = at(document, "discovery.volumeSelector.match");
            lint_selector(&place, selector, About::Volumes, true, release, found);
            lint_intervals(document, &place, found);
        }
        for document in self.of_kind("UnattendedInstallConfig") {
            let selector = at(document, "provisioning.diskSelector.match");
            lint_selector("UnattendedInstallConfig", selector, About::Disks, true, release, found);
        }
        for document in self.of_kind("OOMConfig") {
            for (key, about) in [
                ("triggerExpression", About::MemoryShortage),
                ("cgroupRankingExpression", About::MemoryRanking),
            ] {
                lint_selector("OOMConfig", document.get(key), about, false, release, found);
            }
        }
        for part in ["state", "ephemeral"] {
            let path = format!("machine.systemDiskEncryption.{part}");
            if let Some(encryption) = self.get(&path).filter(|value| is_set(value)) {
                lint_keys(encryption, &path, found);
            }
        }
        if let Some(selector) = self.get("machine.install.diskSelector").filter(|value| is_set(value)) {
            lint_install_selector(selector, found);
        }
    }
}

fn lint_install_selector(selector: &Value, found: &mut Findings) {
    let place = "machine.install.diskSelector";
    if let Some(condition) = selector.get("size").and_then(Value::as_str).map(str::trim) {
        let signs = [">=", "<=", "==", ">", "<"];
        let amount = signs.iter().find_map(|sign| condition.strip_prefix(sign)).unwrap_or(condition);
        if size(amount.trim(), false, 0).is_err() {
            found.error(place, "needs a `size` such as 100GB or `>= 100GB`");
        }
    }
    if !["", "ssd", "hdd", "nvme", "sd"].contains(&text(Some(selector), "type")) {
        found.error(place, "needs a `type` that is one of ssd, hdd, nvme, sd");
    }
    if !text(Some(selector), "name").is_empty() {
        found.error(place, "cannot ask for a `name` any more; use another field");
    }
}

fn lint_system_volume(document: &Value, release: Release, found: &mut Findings) {
    let id = DocumentId::of(document);
    let place = id.to_string();
    let mut known = SYSTEM_VOLUMES.iter().filter(|(_, since)| *since <= release.minor());
    if !known.clone().any(|(name, _)| *name == id.name) {
        let names: Vec<&str> = known.by_ref().map(|(name, _)| *name).collect();
        let later = SYSTEM_VOLUMES.iter().find(|(name, _)| *name == id.name);
        let later = later.map(|(_, since)| format!("; this one came with v1.{since}")).unwrap_or_default();
        let message = format!("needs the name of a volume of Talos itself: {}{later}", names.join(", "));
        found.error(&place, &message);
        return;
    }
    let provisioning = document.get("provisioning").filter(|value| is_filled(value));
    let mount = document.get("mount").filter(|value| is_filled(value));
    match id.name.as_str() {
        "STATE" => {
            if provisioning.is_some() {
                found.error(&place, "cannot be placed or sized: Talos does that itself");
            }
            if items(document, "encryption.keys")
                .any(|key| at(key, "lockToState").and_then(Value::as_bool) == Some(true))
            {
                found.error(&place, "cannot have a key that is locked to itself");
            }
            if mount.is_some() && release.minor() >= 14 {
                found.error(&place, "cannot be told how it is mounted");
            }
        }
        "IMAGECACHE" if release.minor() >= 14 => {
            if mount.is_some() {
                found.error(&place, "cannot be told how it is mounted");
            }
            if has_filesystem(document) {
                found.error(&place, "cannot be told about its file system");
            }
        }
        "ETCD" | "CRI" | "KUBELET" | "LOG" if mount.is_some() && provisioning.is_none() => {
            found.error(&place, "can be told how it is mounted only where it gets a disk of its own");
        }
        _ => {}
    }
    lint_provisioning(document, &place, Asks { disk: false, size: true }, release, found);
    lint_encryption(document, &place, found);
    lint_intervals(document, &place, found);
}

fn lint_own_volume(document: &Value, kind: &str, release: Release, found: &mut Findings) {
    let place = DocumentId::of(document).to_string();
    let volume_type = match text(Some(document), "volumeType") {
        "" => "partition".into(),
        word => word.to_ascii_lowercase(),
    };
    if kind == "UserVolumeConfig" && volume_type == "directory" {
        if has_filesystem(document) {
            found.error(&place, "is a directory, which has no `filesystem`");
        }
        for part in ["provisioning", "encryption"] {
            let value = document.get(part).filter(|value| is_filled(value));
            let nothing = |value: &&Value| part != "encryption" || is_encrypted(value);
            if value.filter(nothing).is_some() {
                found.error(&place, &format!("is a directory, which has no `{part}`"));
            }
        }
        let refused = |key: &str| key == "disableAccessTime" || release.minor() < 14;
        for key in ["disableAccessTime", "secure"].into_iter().filter(|key| refused(key)) {
            if at(document, &format!("mount.{key}")).is_some_and(is_set) {
                found.error(&place, &format!("is a directory, which has no `mount.{key}`"));
            }
        }
    } else {
        let size = volume_type != "disk" || kind != "UserVolumeConfig";
        lint_provisioning(document, &place, Asks { disk: true, size }, release, found);
        lint_encryption(document, &place, found);
        lint_filesystem(document, &place, found);
    }
    lint_intervals(document, &place, found);
}

fn lint_filesystem(document: &Value, place: &str, found: &mut Findings) {
    let filesystem = document.get("filesystem");
    let is_xfs = matches!(text(filesystem, "type").to_ascii_lowercase().as_str(), "" | "none" | "xfs");
    let quota = at(document, "filesystem.projectQuotaSupport").and_then(Value::as_bool) == Some(true);
    if !is_xfs && (quota || at(document, "filesystem.xfs").is_some_and(is_set)) {
        found.error(place, "asks for what only the file system xfs has");
    }
}

fn lint_provisioning(document: &Value, place: &str, asks: Asks, release: Release, found: &mut Findings) {
    let selector = at(document, "provisioning.diskSelector.match");
    lint_selector(place, selector, About::Disks, asks.disk, release, found);
    // What cannot be read is told where keys and values are looked at.
    let read = |key: &str| match at(document, &format!("provisioning.{key}")) {
        None | Some(Value::Null) => None,
        Some(Value::Number(number)) => size(&number.to_string(), key == "maxSize", release.minor()).ok(),
        Some(value) => value
            .as_str()
            .filter(|text| !text.is_empty())
            .and_then(|t| size(t, key == "maxSize", release.minor()).ok()),
    };
    let written = |key: &str| {
        at(document, &format!("provisioning.{key}"))
            .is_some_and(|value| is_set(value) && value.as_str() != Some(""))
    };
    if !asks.size {
        if written("minSize") || written("maxSize") || at(document, "provisioning.grow").is_some_and(is_set) {
            found.error(place, "is a whole disk, which has no `minSize`, `maxSize` or `grow`");
        }
        return;
    }
    if asks.disk && !written("minSize") && !written("maxSize") {
        found.error(place, "needs a size: set `minSize`, `maxSize` or both");
    }
    match (read("minSize"), read("maxSize")) {
        (Some(Size::Bytes { negative: true, .. }), _) => {
            found.error(place, "has a `minSize` below zero");
        }
        (Some(Size::Bytes { count: least, .. }), Some(Size::Bytes { count: most, negative: false }))
            if least > most =>
        {
            found.error(place, "has a `minSize` that is more than its `maxSize`");
        }
        _ => {}
    }
}

/// Judges an expression; `needed` says whether there has to be one.
pub(super) fn lint_selector(
    place: &str,
    selector: Option<&Value>,
    about: About,
    needed: bool,
    release: Release,
    found: &mut Findings,
) {
    match selector.and_then(Value::as_str).filter(|text| !text.is_empty()) {
        Some(text) => {
            if let Some(fault) = expression::fault(text, about, release.minor()) {
                found.error(place, &format!("has an expression that selects nothing: {fault} (in `{text}`)"));
            }
        }
        None if needed => found.error(place, "needs an expression that selects what it is on"),
        None => {}
    }
}

/// Whether there is something in it that counts.
pub(super) fn is_filled(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Mapping(fields) => fields.values().any(is_filled),
        Value::Sequence(list) => !list.is_empty(),
        Value::String(text) => !text.is_empty(),
        _ => true,
    }
}

/// Whether something is said of the file system, if only `xfs: {}`.
fn has_filesystem(document: &Value) -> bool {
    document.get("filesystem").is_some_and(is_filled) || at(document, "filesystem.xfs").is_some_and(is_set)
}

fn is_encrypted(encryption: &Value) -> bool {
    let provider = text(Some(encryption), "provider");
    !(provider.is_empty() || provider.eq_ignore_ascii_case("none"))
        || items(encryption, "keys").next().is_some()
}

fn lint_encryption(document: &Value, place: &str, found: &mut Findings) {
    let Some(encryption) = document.get("encryption").filter(|value| is_encrypted(value)) else { return };
    if !text(Some(encryption), "provider").eq_ignore_ascii_case("luks2") {
        found.error(place, "is encrypted without saying by what; set `provider: luks2`");
    }
    lint_keys(encryption, place, found);
}

fn lint_keys(encryption: &Value, place: &str, found: &mut Findings) {
    if items(encryption, "keys").next().is_none() {
        found.error(place, "is encrypted without a key");
    }
    let mut slots = HashSet::new();
    for key in items(encryption, "keys") {
        let slot = key.get("slot").and_then(Value::as_i64).unwrap_or_default();
        if !slots.insert(slot) {
            found.error(place, &format!("has two keys in slot {slot}"));
        }
        if !["static", "nodeID", "kms", "tpm"].iter().any(|kind| key.get(kind).is_some_and(is_set)) {
            found.error(
                place,
                &format!("has a key in slot {slot} that is neither static, nodeID, kms nor tpm"),
            );
        }
        let passphrase = key.get("static").filter(|value| is_set(value));
        if passphrase.is_some_and(|value| text(Some(value), "passphrase").is_empty()) {
            found.error(place, &format!("has no passphrase in slot {slot}"));
        }
        for register in items(key, "tpm.options.pcrs").filter_map(Value::as_i64) {
            if !(0..=23).contains(&register) {
                found.error(place, &format!("seals by register {register} of the TPM; there are 0 to 23"));
            }
        }
        let kms = key.get("kms").filter(|value| is_set(value)).map(|kms| text(Some(kms), "endpoint"));
        if kms.is_some_and(|endpoint| !endpoint.starts_with("https://") && !endpoint.starts_with("grpc://")) {
            found.warning(
                place,
                "asks a key service whose address begins neither with https:// nor with grpc://",
            );
        }
    }
}

fn lint_intervals(document: &Value, place: &str, found: &mut Findings) {
    let interval = |path: &str| at(document, path).and_then(Value::as_str).and_then(duration_nanoseconds);
    if interval("trim.interval").is_some_and(|interval| interval < 0) {
        found.error(place, "is trimmed at an interval below zero");
    }
    if interval("scrub.interval").is_some_and(|interval| interval != 0 && interval < 10_000_000_000) {
        found.error(place, "is scrubbed at an interval of less than ten seconds");
    }
}
