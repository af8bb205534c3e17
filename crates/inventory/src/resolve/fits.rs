//! Machine settings that need hardware or an image: what no VM of the inventory could do is said here.

use std::collections::HashSet;

use super::Context;
use super::node::Draft;
use super::size::{self, GIB};
use crate::boot::Boot;
use crate::diagnostic::{Finding, Severity};
use crate::document;
use crate::options::{EncryptionKey, Machine};
use crate::path::Path;
use crate::yaml::Span;

/// Whether the machine settings of each node can be met by its VM and the image.
pub(crate) fn check(spec: &document::Spec, boot: Option<&Boot>, drafts: &[Draft<'_>], cx: &mut Context<'_>) {
    let mut said = HashSet::new();
    for draft in drafts {
        let machine = &draft.machine;
        let encryption = machine.encryption.iter().flat_map(|e| e.state.iter().chain(&e.ephemeral));
        let of_volumes = machine.user_volumes.iter().flat_map(|v| v.encryption.iter().flatten());
        for (key, place) in
            encryption.map(|key| (key, "encryption")).chain(of_volumes.map(|key| (key, "userVolumes")))
        {
            let Some((message, help)) = sealed_in_vain(key, spec, boot, draft) else { continue };
            let span = point(place, spec, draft, cx);
            if said.insert((span, message)) {
                cx.findings.push(Finding::error("tpm", span, message).help(help));
            }
        }
        let elsewhere = machine.user_volumes.iter().filter(|volume| {
            volume
                .disk
                .as_deref()
                .is_none_or(|disk| disk.split_whitespace().collect::<String>() == "!system_disk")
        });
        let largest = draft.disks.iter().map(|disk| disk.size).max();
        for volume in elsewhere {
            let least = volume.min_size.as_deref().and_then(|text| size::parse(text, size::Of::Memory).ok());
            let message = match (largest, least) {
                (None, _) => "This volume needs a disk besides the system disk, and the VM is given none.",
                (Some(largest), Some(least)) if least >= largest => {
                    "This volume fits no disk that the VM has besides the system disk."
                }
                _ => continue,
            };
            let span = point("userVolumes", spec, draft, cx);
            if said.insert((span, message)) {
                // A little of a disk is taken by the table of its partitions.
                let size =
                    least.map_or_else(|| "100GiB".to_owned(), |least| size::shown((least / GIB + 1) * GIB));
                let help = format!(
                    "Add for example `hardware: {{disks: [{{size: {size}}}]}}` to the pool `{}`; `{}` waits for a disk until then.",
                    draft.pool, volume.name
                );
                let finding = Finding::error("volume", span, message).help(help);
                // The VM may get one from elsewhere: passed through, or attached by hand.
                cx.findings.push(Finding { severity: Severity::Warning, ..finding });
            }
        }
    }
}

/// Why a TPM cannot hold a key of this node, and what would help.
fn sealed_in_vain(
    key: &EncryptionKey,
    spec: &document::Spec,
    boot: Option<&Boot>,
    draft: &Draft<'_>,
) -> Option<(&'static str, &'static str)> {
    let tpm = key.tpm.as_ref()?;
    if draft.hardware.tpm != Some(true) {
        let help = "Say `hardware: {tpm: true}`, or take another key, such as `nodeId: true`.";
        return Some(("The key is kept in a TPM, and the VM has none.", help));
    }
    if spec.talos.secure_boot != Some(true) {
        let help = "Say `talos: {secureBoot: true}`, or take another key, such as `nodeId: true`.";
        return Some(("A TPM keeps keys for signed images only.", help));
    }
    // As with what the plan says of secure boot: disk images bring their keys from Talos 1.14 on.
    let version = spec.talos.version.trim_start_matches('v');
    let brings_keys = boot.is_none_or(Boot::takes_iso)
        || semver::Version::parse(version).is_ok_and(|v| (v.major, v.minor) >= (1, 14));
    if tpm.secure_boot && !brings_keys {
        let help = "Remove `secureBoot` from the key, or use `boot: {from: iso}`, or Talos v1.14.";
        return Some((
            "Nothing is sealed: disk images of Talos before v1.14 do not turn secure boot on.",
            help,
        ));
    }
    None
}

/// Where a node's settings of this key are said: on itself, its pool or the cluster, the nearest first.
fn point(key: &str, spec: &document::Spec, draft: &Draft<'_>, cx: &Context<'_>) -> Span {
    let says = |machine: Option<&Machine>| {
        machine.is_some_and(|m| {
            if key == "encryption" { m.encryption.is_some() } else { !m.user_volumes.is_empty() }
        })
    };
    let root = Path::Root;
    let spec_at = root.key("spec");
    let pools = spec_at.key("pools");
    let pool = pools.index(draft.pool_index);
    let nodes = pool.key("nodes");
    let node = nodes.index(draft.node_index.unwrap_or_default());
    let holder = if says(draft.listed.and_then(|node| node.machine.as_ref())) {
        node
    } else if says(spec.pools.get(draft.pool_index).and_then(|pool| pool.machine.as_ref())) {
        pool
    } else {
        spec_at
    };
    holder.key("machine").key(key).point(cx.root)
}
