//! Faults of partitions and arrays of disks, of volumes upon them, and of folders of the host.

use yaml_serde::Value;

use super::{Findings, at, expression::About, is_set, text, volumes::lint_selector};
use crate::config::{
    contract::Release,
    document::{DocumentId, MachineConfig},
    schema::{Size, size},
};

impl MachineConfig {
    pub(super) fn lint_storage(&self, release: Release, found: &mut Findings) {
        self.lint_disks(found);
        for kind in ["LVMVolumeGroupConfig", "RAIDArrayConfig"] {
            for document in self.of_kind(kind) {
                let place = DocumentId::of(document).to_string();
                let selector = at(document, "provisioning.volumeSelector.match");
                lint_selector(&place, selector, About::Members, true, release, found);
            }
        }
        for volume in self.of_kind("LVMLogicalVolumeConfig") {
            lint_logical_volume(volume, release, found);
        }
        for volume in self.of_kind("ExternalVolumeConfig") {
            let place = DocumentId::of(volume).to_string();
            if !text(Some(volume), "filesystemType").eq_ignore_ascii_case("virtiofs") {
                found.error(&place, "needs `filesystemType: virtiofs`, which is the only one there is");
            } else if text(Some(volume), "mount.virtiofs.tag").is_empty() {
                found.error(&place, "needs a `mount.virtiofs.tag`");
            }
        }
    }

    /// Only the last partition of a disk can take what is left.
    fn lint_disks(&self, found: &mut Findings) {
        let disks = self.get("machine.disks").and_then(Value::as_sequence);
        for disk in disks.into_iter().flatten() {
            let partitions = disk.get("partitions").and_then(Value::as_sequence).map(Vec::as_slice);
            let Some((_, before)) = partitions.and_then(<[Value]>::split_last) else { continue };
            let is_rest = |partition: &Value| {
                let written = text(Some(partition), "size");
                size(written, false, 0).is_ok_and(|size| matches!(size, Size::Bytes { count: 0, .. }))
                    || written.is_empty()
            };
            if before.iter().any(is_rest) {
                let device = text(Some(disk), "device");
                let message = format!("`{device}` has a partition without `size` that is not its last");
                found.error("machine.disks", &message);
            }
        }
    }
}

fn lint_logical_volume(volume: &Value, release: Release, found: &mut Findings) {
    let place = DocumentId::of(volume).to_string();
    let layout = match text(Some(volume), "type") {
        "" => "linear".to_owned(),
        layout => layout.to_ascii_lowercase(),
    };
    for (key, layouts, least) in [("mirrors", ["raid1", "raid10"], 1), ("stripes", ["raid0", "raid10"], 2)] {
        let Some(count) = volume.get(key).filter(|value| is_set(value)) else { continue };
        if !layouts.contains(&layout.as_str()) {
            found.error(&place, &format!("cannot have `{key}` with the type {layout}"));
        } else if count.as_u64().is_some_and(|count| count < least) {
            found.error(&place, &format!("needs `{key}` of at least {least}"));
        }
    }
    // What cannot be read is told where keys and values are looked at.
    let read = |key: &str| {
        let value = at(volume, &format!("provisioning.{key}"))?;
        let text = value.as_str().filter(|text| !text.is_empty())?;
        size(text, key == "maxSize", release.minor()).ok()
    };
    match (read("minSize"), read("maxSize")) {
        (_, None) => found.error(&place, "needs a `provisioning.maxSize`"),
        (_, Some(Size::Bytes { negative: true, .. } | Size::Percent { negative: true })) => {
            found.error(&place, "needs a `provisioning.maxSize` that is not below zero");
        }
        (Some(Size::Bytes { count: least, .. }), Some(Size::Bytes { count: most, .. })) if least > most => {
            found.error(&place, "has a `minSize` that is more than its `maxSize`");
        }
        _ => {}
    }
}
