//! What a storage's type decides: how sizes are rounded, how volumes are named, which clones there are, what a list tells.

use serde_json::{Value, json};

use super::state::{Storage, Volume};

const MIB: u64 = 1 << 20;
/// LVM allocates whole extents, of this size unless the volume group was made with another.
const EXTENT: u64 = 4 * MIB;

/// What a linked clone is on a storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkedClone {
    /// Its name contains its base's, which cannot go before it.
    Named,
    /// A thin snapshot with a name of its own; nothing tells its base, which can go at any time.
    Independent,
    /// There is none.
    Refused,
}

impl Storage {
    /// Whether volumes are files in a directory.
    pub(crate) fn has_path(&self) -> bool {
        matches!(self.kind.as_str(), "dir" | "nfs" | "cifs" | "cephfs")
    }

    fn is_lvm(&self) -> bool {
        matches!(self.kind.as_str(), "lvm" | "lvmthin")
    }

    /// Whether a volume takes all its space at once.
    pub(crate) fn is_thick(&self) -> bool {
        self.kind == "lvm"
    }

    /// The size of a volume of which so much was asked.
    pub(crate) fn rounded(&self, size: u64) -> u64 {
        match self.kind.as_str() {
            "lvm" | "lvmthin" => size.next_multiple_of(EXTENT),
            "zfspool" | "rbd" => size.next_multiple_of(MIB),
            _ => size,
        }
    }

    /// What linked clones are here.
    pub(crate) fn linked_clone(&self) -> LinkedClone {
        match self.kind.as_str() {
            "lvmthin" => LinkedClone::Independent,
            "lvm" => LinkedClone::Refused,
            _ => LinkedClone::Named,
        }
    }

    /// What a volume is called once its VM is a template. A thick logical volume cannot be a base and keeps its name.
    pub(crate) fn base_name(&self, vmid: u32, name: &str) -> String {
        match self.is_thick() {
            true => name.to_owned(),
            false => name.replace(&format!("vm-{vmid}-"), &format!("base-{vmid}-")),
        }
    }

    /// Whether the size of a cloud-init drive stands in the VM's configuration.
    pub(crate) fn tells_cloudinit_size(&self) -> bool {
        self.has_path()
    }

    /// A volume as the content list of this storage tells it.
    pub(crate) fn content_row(&self, id: &str, name: &str, volume: &Volume) -> Value {
        let mut row = json!({
            "volid": format!("{id}:{name}"),
            "content": volume.content,
            "format": volume.format,
            "size": volume.size,
        });
        if self.is_lvm() {
            // As `lvs` prints it.
            row["ctime"] = volume.created.to_string().into();
        } else if self.has_path() {
            row["ctime"] = volume.created.into();
        }
        if let Some(vmid) = volume.vmid {
            row["vmid"] = vmid.into();
            match self.kind.as_str() {
                "lvm" | "lvmthin" => {}
                "zfspool" | "rbd" => {
                    if let Some(parent) = &volume.parent {
                        row["parent"] = format!("{parent}@__base__").into();
                    }
                }
                _ => {
                    row["used"] = volume.used.into();
                    row["parent"] = volume.parent.as_ref().map(|parent| format!("../{parent}")).into();
                }
            }
        }
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: &str) -> Storage {
        Storage {
            kind: kind.into(),
            content: vec!["images".into()],
            shared: false,
            hosts: Default::default(),
            disabled: false,
        }
    }

    #[test]
    fn every_type_rounds_in_its_own_way() {
        let efi = 528 << 10;
        let image = (10 << 30) + MIB;
        for (kind, efi_size, image_size) in [
            ("dir", efi, image),
            ("zfspool", MIB, image),
            ("lvm", 4 * MIB, 10244 * MIB),
            ("lvmthin", 4 * MIB, 10244 * MIB),
        ] {
            assert_eq!((of(kind).rounded(efi), of(kind).rounded(image)), (efi_size, image_size), "{kind}");
        }
    }

    #[test]
    fn a_thick_volume_is_no_base() {
        assert_eq!(of("lvm").base_name(998, "vm-998-disk-0"), "vm-998-disk-0");
        assert_eq!(of("lvmthin").base_name(998, "vm-998-disk-0"), "base-998-disk-0");
        assert_eq!(of("dir").base_name(998, "998/vm-998-disk-0.raw"), "998/base-998-disk-0.raw");
    }
}
