//! What a machine's firmware lets boot: anything, or only what the keys in it have signed.

use std::collections::BTreeSet;

use super::version_at_least;
use crate::image::SystemImage;
use crate::machine::Firmware;

/// What becomes of a system that the firmware found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It boots; whether its signature was checked.
    Boots { secure: bool },
    /// Its boot loader puts its keys into the firmware and starts the machine again.
    Enrolls,
    /// It does not boot, and this is what the console says.
    Refused(&'static str),
}

/// Judges a system. `enrolled` are the EFI disks that hold the keys of Talos.
pub(super) fn judge(firmware: &Firmware, image: &SystemImage, enrolled: &BTreeSet<String>) -> Verdict {
    const DENIED: &str = "BdsDxe: failed to load Boot0001: Access Denied";
    match firmware {
        // What is signed is for UEFI only.
        Firmware::Bios if image.secure_boot => Verdict::Refused("No bootable device."),
        Firmware::Bios => Verdict::Boots { secure: false },
        // Neither kind of image is signed by Microsoft.
        Firmware::Uefi { foreign_keys: true, .. } => Verdict::Refused(DENIED),
        Firmware::Uefi { variables, .. } if enrolled.contains(variables) => match image.secure_boot {
            true => Verdict::Boots { secure: true },
            false => Verdict::Refused(DENIED),
        },
        // In setup mode nothing is checked. Before 1.14 only installation media have their keys with them.
        Firmware::Uefi { variables, .. } => {
            let brings_keys = image.installer || version_at_least(&image.version, 14);
            match image.secure_boot && brings_keys && !variables.is_empty() {
                true => Verdict::Enrolls,
                false => Verdict::Boots { secure: false },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_decide_what_boots() {
        let image = |version: &str, installer: bool, secure_boot: bool| SystemImage {
            version: version.into(),
            schematic: String::new(),
            platform: "nocloud".into(),
            arch: "amd64".into(),
            extensions: Vec::new(),
            kernel_args: Vec::new(),
            installer,
            secure_boot,
            meta: Default::default(),
        };
        let uefi = |foreign_keys: bool| Firmware::Uefi { variables: "efi".into(), foreign_keys };
        let (none, ours) = (BTreeSet::new(), BTreeSet::from(["efi".to_owned()]));
        let (open, checked) = (Verdict::Boots { secure: false }, Verdict::Boots { secure: true });
        let refused = |verdict: Verdict| matches!(verdict, Verdict::Refused(_));
        let (iso, disk, plain) =
            (image("v1.12.0", true, true), image("v1.12.0", false, true), image("v1.12.0", false, false));

        assert_eq!(judge(&Firmware::Bios, &plain, &none), open);
        assert!(refused(judge(&Firmware::Bios, &iso, &none)));
        // Setup mode: an ISO brings its keys, an older disk image does not.
        assert_eq!(judge(&uefi(false), &iso, &none), Verdict::Enrolls);
        assert_eq!(judge(&uefi(false), &disk, &none), open);
        assert_eq!(judge(&uefi(false), &image("v1.14.0", false, true), &none), Verdict::Enrolls);
        assert_eq!(judge(&uefi(false), &plain, &none), open);
        // With keys in it, only what they signed.
        assert_eq!(judge(&uefi(false), &disk, &ours), checked);
        assert!(refused(judge(&uefi(false), &plain, &ours)));
        // With Microsoft's, nothing of Talos.
        assert!([&iso, &disk, &plain].into_iter().all(|image| refused(judge(&uefi(true), image, &none))));
    }
}
