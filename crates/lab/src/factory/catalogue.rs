//! What the factory can build: versions, platforms, official extensions.

use daedal_talos_image::renamed_extension;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The newest patch of each 1.x minor.
const NEWEST: [(u32, u32); 7] = [(8, 4), (9, 6), (10, 9), (11, 6), (12, 11), (13, 9), (14, 1)];

const PLATFORMS: [&str; 14] = [
    "akamai",
    "aws",
    "azure",
    "digital-ocean",
    "equinixMetal",
    "exoscale",
    "gcp",
    "hcloud",
    "metal",
    "nocloud",
    "openstack",
    "oracle",
    "vmware",
    "vultr",
];

/// Name, version, author, description.
const EXTENSIONS: [(&str, &str, &str, &str); 24] = [
    ("siderolabs/amd-ucode", "20251125", "Sidero Labs", "AMD microcode updates."),
    ("siderolabs/amdgpu", "20251125", "Sidero Labs", "AMD GPU firmware and driver."),
    ("siderolabs/btrfs", "v6.17", "Sidero Labs", "Btrfs driver module."),
    ("siderolabs/cloudflared", "2025.11.1", "Sidero Labs", "Cloudflare Tunnel client."),
    ("siderolabs/drbd", "9.2.16", "Sidero Labs", "DRBD kernel modules."),
    ("siderolabs/fuse3", "3.17.4", "Sidero Labs", "FUSE 3 utilities."),
    ("siderolabs/gvisor", "20251110.0", "Sidero Labs", "gVisor container runtime."),
    ("siderolabs/i915", "20251125", "Sidero Labs", "Intel GPU firmware and driver."),
    ("siderolabs/intel-ucode", "20251111", "Sidero Labs", "Intel microcode updates."),
    ("siderolabs/iscsi-tools", "v0.2.0", "Sidero Labs", "iSCSI initiator and tools."),
    ("siderolabs/kata-containers", "3.22.0", "Sidero Labs", "Kata Containers runtime."),
    ("siderolabs/mei", "v6.17", "Sidero Labs", "Intel management engine interface."),
    ("siderolabs/netbird", "0.60.2", "Sidero Labs", "NetBird overlay network."),
    ("siderolabs/nfs-utils", "v0.1.0", "Sidero Labs", "NFS locking daemons."),
    (
        "siderolabs/nvidia-container-toolkit-production",
        "570.195.03",
        "Sidero Labs",
        "NVIDIA container toolkit.",
    ),
    (
        "siderolabs/nvidia-open-gpu-kernel-modules-production",
        "570.195.03",
        "Sidero Labs",
        "NVIDIA open kernel modules.",
    ),
    ("siderolabs/qemu-guest-agent", "10.1.2", "Markus Reiter", "QEMU guest agent."),
    ("siderolabs/spin", "v0.22.0", "Sidero Labs", "Spin container runtime."),
    ("siderolabs/tailscale", "1.90.9", "Andreas Wuerl", "Tailscale daemon."),
    ("siderolabs/thunderbolt", "v6.17", "Sidero Labs", "Thunderbolt driver modules."),
    ("siderolabs/util-linux-tools", "2.41.2", "Sidero Labs", "Tools from util-linux."),
    ("siderolabs/wasmedge", "v0.6.0", "Sidero Labs", "WasmEdge container runtime."),
    ("siderolabs/youki", "0.5.7", "Sidero Labs", "Youki container runtime."),
    ("siderolabs/zfs", "2.4.0", "Sidero Labs", "ZFS kernel modules and tools."),
];

/// Name, image, version.
const OVERLAYS: [(&str, &str, &str); 5] = [
    ("rpi_generic", "siderolabs/sbc-raspberrypi", "v0.1.6"),
    ("rock4cplus", "siderolabs/sbc-rockchip", "v0.1.7"),
    ("turingrk1", "siderolabs/sbc-rockchip", "v0.1.7"),
    ("jetson_nano", "siderolabs/sbc-jetson", "v0.1.5"),
    ("pine64", "siderolabs/sbc-allwinner", "v0.1.5"),
];

/// Whether an overlay is official; the image that it is in is not looked at.
pub(super) fn has_overlay(name: &str) -> bool {
    OVERLAYS.iter().any(|overlay| overlay.0 == name)
}

/// The overlays of a version.
pub(super) fn overlays(version: &str) -> Option<Vec<Value>> {
    let overlay = |(name, image, tag): &(&str, &str, &str)| {
        let digest = hex::encode(Sha256::digest(format!("{image}:{tag}@{version}")));
        json!({"name": name, "image": image, "ref": format!("ghcr.io/{image}:{tag}"), "digest": format!("sha256:{digest}")})
    };
    is_version(version).then(|| OVERLAYS.iter().map(overlay).collect())
}

/// All versions, oldest first.
pub(super) fn versions() -> Vec<String> {
    NEWEST
        .iter()
        .flat_map(|(minor, newest)| (0..=*newest).map(move |patch| format!("v1.{minor}.{patch}")))
        .collect()
}

/// Whether a version can be built.
pub(super) fn is_version(version: &str) -> bool {
    versions().iter().any(|v| v == version)
}

/// Whether a platform can be built for.
pub(super) fn is_platform(platform: &str) -> bool {
    PLATFORMS.contains(&platform)
}

/// Whether an extension is official, by its name or a former one.
pub(super) fn has_extension(name: &str) -> bool {
    let listed = |name: &str| EXTENSIONS.iter().any(|extension| extension.0 == name);
    listed(name) || renamed_extension(name).is_some_and(listed)
}

/// The extensions of a version.
pub(super) fn extensions(version: &str) -> Option<Vec<Value>> {
    is_version(version).then(|| {
        EXTENSIONS
            .iter()
            .map(|(name, tag, author, description)| {
                let digest = hex::encode(Sha256::digest(format!("{name}:{tag}@{version}")));
                json!({
                    "name": name, "ref": format!("ghcr.io/{name}:{tag}"), "digest": format!("sha256:{digest}"),
                    "author": author, "description": description,
                })
            })
            .collect()
    })
}
