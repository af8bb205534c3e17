//! Extensions that were renamed: a factory builds them under their former names, which are on none of its lists.

const RENAMED: [(&str, &str); 11] = [
    ("siderolabs/amdgpu-firmware", "siderolabs/amdgpu"),
    ("siderolabs/gasket", "siderolabs/gasket-driver"),
    ("siderolabs/i915-ucode", "siderolabs/i915"),
    ("siderolabs/nonfree-kmod-nvidia", "siderolabs/nonfree-kmod-nvidia-lts"),
    ("siderolabs/nvidia-container-toolkit", "siderolabs/nvidia-container-toolkit-lts"),
    ("siderolabs/nvidia-fabricmanager", "siderolabs/nvidia-fabric-manager-lts"),
    ("siderolabs/nvidia-open-gpu-kernel-modules", "siderolabs/nvidia-open-gpu-kernel-modules-lts"),
    ("siderolabs/talos-vmtoolsd", "siderolabs/vmtoolsd-guest-agent"),
    ("siderolabs/usb-modem", "siderolabs/usb-modem-drivers"),
    ("siderolabs/v4l-uvc", "siderolabs/v4l-uvc-drivers"),
    ("siderolabs/xe-guest-utilities", "siderolabs/xen-guest-agent"),
];

/// What a factory takes for an extension that is not on its list; none if it knows no other name for it.
pub fn renamed_extension(name: &str) -> Option<&'static str> {
    RENAMED.iter().find(|(former, _)| *former == name).map(|(_, now)| *now)
}
