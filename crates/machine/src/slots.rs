//! Which SCSI slots of a VM hold its declared further disks. Ours are found by their serial; volumes of other owners (a
//! storage plug-in of Kubernetes attaches its own) keep their slots and are nobody's business here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What a SCSI slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Seat {
    /// The declared further disk of this number, counted from 1: its serial says so.
    Ours(usize),
    /// A disk of this VM without a serial of ours: made by hand, or before disks had serials.
    Unmarked,
    /// A volume of another owner, or a CD drive.
    Taken,
}

/// What the SCSI slots of a VM hold, by number; the system disk's is not among them.
pub type Seats = BTreeMap<u32, Seat>;

const SERIAL: &str = "daedal-disk-";

/// The serial of a declared further disk, counted from 1. Guests see it, and Talos can select disks by it.
pub fn disk_serial(number: usize) -> String {
    format!("{SERIAL}{number}")
}

/// What a disk in a slot of a VM is, from its volume id and its serial.
pub fn seat(vmid: u32, volid: &str, serial: Option<&str>) -> Seat {
    if owner(volid) != Some(vmid) {
        return Seat::Taken;
    }
    let number = serial.and_then(|serial| serial.strip_prefix(SERIAL)?.parse().ok());
    number.map_or(Seat::Unmarked, Seat::Ours)
}

/// The VMID that Proxmox counts a volume as part of (`local:300/vm-300-disk-0.raw`, `ceph:vm-9999-pvc-1`), where its name
/// has one.
fn owner(volid: &str) -> Option<u32> {
    let (_, name) = volid.split_once(':')?;
    let name = name.rsplit('/').next()?;
    let rest = name.strip_prefix("vm-").or_else(|| name.strip_prefix("base-"))?;
    rest.split('-').next()?.parse().ok()
}

/// The slots of so many declared further disks: where each is, or the free one that it gets.
pub fn disk_slots(seats: &Seats, count: usize) -> Vec<String> {
    let there = |number: usize| {
        let marked = seats.iter().find(|(_, seat)| **seat == Seat::Ours(number)).map(|(slot, _)| *slot);
        let by_place = u32::try_from(number).ok().filter(|slot| seats.get(slot) == Some(&Seat::Unmarked));
        marked.or(by_place)
    };
    let mut slots: Vec<Option<u32>> = (1..=count).map(there).collect();
    for at in 0..count {
        if slots[at].is_none() {
            let from = u32::try_from(at + 1).unwrap_or(u32::MAX);
            slots[at] = (from..).find(|slot| !seats.contains_key(slot) && !slots.contains(&Some(*slot)));
        }
    }
    slots.into_iter().flatten().map(|slot| format!("scsi{slot}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_disks_of_the_vm_itself_are_ours() {
        for (volid, serial, expected) in [
            ("local-lvm:vm-300-disk-1", Some("daedal-disk-1"), Seat::Ours(1)),
            ("local:300/vm-300-disk-2.qcow2", None, Seat::Unmarked),
            ("local:998/base-998-disk-0.raw/300/vm-300-disk-0.qcow2", None, Seat::Unmarked),
            ("ceph:vm-9999-pvc-1b2c", None, Seat::Taken),
            // A serial alone proves nothing: a volume of ours may have been given away.
            ("ceph:vm-301-disk-1", Some("daedal-disk-1"), Seat::Taken),
            ("san:0.0.1.scsi-36001405", None, Seat::Taken),
            ("/dev/disk/by-id/ata-WD", None, Seat::Taken),
        ] {
            assert_eq!(seat(300, volid, serial), expected, "{volid}");
        }
    }

    #[test]
    fn disks_keep_their_slots_and_new_ones_get_free_ones() {
        let slots = |seats: &[(u32, Seat)], count| disk_slots(&seats.iter().copied().collect(), count);
        assert_eq!(slots(&[], 2), ["scsi1", "scsi2"]);
        assert_eq!(slots(&[(1, Seat::Taken)], 2), ["scsi2", "scsi3"]);
        assert_eq!(slots(&[(1, Seat::Unmarked)], 2), ["scsi1", "scsi2"]);
        let moved = [(1, Seat::Taken), (2, Seat::Ours(1)), (4, Seat::Ours(3))];
        assert_eq!(slots(&moved, 3), ["scsi2", "scsi3", "scsi4"]);
    }
}
