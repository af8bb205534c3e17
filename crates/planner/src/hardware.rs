//! A VM's hardware as it is declared and as it is seen, in the same words, so that the two can be compared.

use std::collections::{BTreeMap, BTreeSet};

use daedal_inventory::hardware::{Chipset, Firmware};
use daedal_inventory::{Cluster, Node};

use crate::plan::Change;
use crate::size;
use crate::slots::{Seats, disk_slots};

/// Options of a VM in words that compare.
pub type HardwareView = BTreeMap<String, String>;

/// A VM's hardware as the inventory says it, with the disks in the slots that they have or get.
pub fn declared_hardware(cluster: &Cluster, node: &Node, seats: &Seats) -> HardwareView {
    let hardware = &node.hardware;
    let mut view = HardwareView::new();
    let mut set = |option: &str, value: String| view.insert(option.to_owned(), value);
    let arch = cluster.talos.arch;
    set("cpu", hardware.processor(arch).to_owned());
    set("machine", hardware.chipset(arch).name().to_owned());
    let ovmf = hardware.firmware.unwrap_or_default() == Firmware::Ovmf;
    set("bios", if ovmf { "ovmf" } else { "seabios" }.to_owned());
    if hardware.serial_console.unwrap_or(true) {
        set("serial0", "socket".to_owned());
    }
    if hardware.tpm == Some(true) {
        set("tpmstate0", "there".to_owned());
    }
    for (option, value) in plain_options(cluster, node) {
        set(&option, properties(&value));
    }
    for (disk, slot) in node.disks.iter().zip(disk_slots(seats, node.disks.len())) {
        let storage = disk.storage.as_ref().unwrap_or(&cluster.proxmox.disks_storage);
        set(&slot, disk_words(storage, disk.size));
    }
    for (i, nic) in node.nics.iter().enumerate() {
        set(&format!("net{}", i + 1), card_words(&nic.mac, &nic.bridge, nic.vlan));
    }
    view
}

/// Options that are written just as they are sent.
pub fn plain_options(cluster: &Cluster, node: &Node) -> BTreeMap<String, String> {
    let (hardware, mut options) = (&node.hardware, BTreeMap::new());
    let mut set = |option: &str, value: String| options.insert(option.to_owned(), value);
    if hardware.numa == Some(true) {
        set("numa", "1".to_owned());
    }
    if hardware.watchdog == Some(true) {
        set("watchdog", "model=i6300esb,action=reset".to_owned());
    }
    let order = hardware.start_order.map(|order| format!("order={order}"));
    let delay = hardware.start_delay.map(|delay| format!("up={delay}"));
    if order.is_some() || delay.is_some() {
        set("startup", order.into_iter().chain(delay).collect::<Vec<_>>().join(","));
    }
    let express = if hardware.chipset(cluster.talos.arch) == Chipset::I440fx { "" } else { ",pcie=1" };
    for (i, mapping) in hardware.pci.iter().enumerate() {
        set(&format!("hostpci{i}"), format!("mapping={mapping}{express}"));
    }
    options
}

/// A disk in words that compare.
pub fn disk_words(storage: &str, bytes: u64) -> String {
    format!("{} on {storage}", size::show(bytes))
}

/// A network card in words that compare.
pub fn card_words(mac: &str, bridge: &str, vlan: Option<u16>) -> String {
    match vlan {
        Some(vlan) => format!("{mac} on {bridge}, VLAN {vlan}"),
        None => format!("{mac} on {bridge}"),
    }
}

/// A list of properties in one order.
pub fn properties(value: &str) -> String {
    let mut parts: Vec<&str> = value.split(',').collect();
    parts.sort_unstable();
    parts.join(",")
}

/// The number of an option such as `scsi1`, if it is of that kind and not the first.
fn further(option: &str, kind: &str) -> bool {
    option.strip_prefix(kind).and_then(|number| number.parse::<u32>().ok()).is_some_and(|number| number > 0)
}

/// Whether an update may change an option of the hardware.
pub(crate) fn updatable(option: &str) -> bool {
    matches!(option, "cpu" | "numa" | "watchdog" | "serial0" | "startup")
        || option.starts_with("hostpci")
        || further(option, "scsi")
        || further(option, "net")
}

/// An option of the hardware that differs and is left as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) option: String,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) why: &'static str,
}

/// What of the hardware differs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Differences {
    /// What is changed.
    pub(crate) changes: Vec<Change>,
    /// What is left, with the reason.
    pub(crate) held: Vec<Held>,
    /// What Proxmox has taken as declared, and the VM gets at its next start.
    pub(crate) waiting: Vec<Change>,
}

/// Whether a running VM takes a change of this option. A card that could not be plugged in is tried again, a disk waits.
fn hot_plugs(option: &str) -> bool {
    option == "startup" || option.starts_with("scsi") || option.starts_with("net")
}

/// Compares what is declared with what is set, and with what the VM runs with where that is something else.
pub(crate) fn differences(
    declared: &HardwareView,
    seen: &HardwareView,
    runs: Option<&HardwareView>,
    running: bool,
) -> Differences {
    let mut found = Differences::default();
    // A config that was not read says nothing.
    if seen.is_empty() {
        return found;
    }
    let runs = runs.filter(|_| running).unwrap_or(seen);
    let options: BTreeSet<&String> = declared.keys().chain(seen.keys()).chain(runs.keys()).collect();
    for option in options {
        let (wanted, is, has) = (declared.get(option), seen.get(option), runs.get(option));
        if wanted == is && wanted == has {
            continue;
        }
        let words = |value: Option<&String>| value.map_or("none", String::as_str).to_owned();
        let (from, to) = (words(has), words(wanted));
        if wanted == is && !option.starts_with("net") {
            found.waiting.push(Change { option: option.clone(), from, to, needs_restart: true });
            continue;
        }
        let why = match (option.as_str(), wanted, is) {
            ("machine", ..) => Some("its devices would move to other places"),
            ("bios", ..) => Some("its system was installed for the other one"),
            ("tpmstate0", ..) => Some("what is sealed in a TPM does not outlive it"),
            (disk, None, _) if disk.starts_with("scsi") => Some("a disk with data is never taken away"),
            (disk, Some(wanted), Some(is))
                if disk.starts_with("scsi") && wanted != is && !grows(is, wanted) =>
            {
                Some("disks only grow, and stay where they are")
            }
            (option, ..) if !updatable(option) => Some("no update may change it"),
            _ => None,
        };
        match why {
            Some(why) => found.held.push(Held { option: option.clone(), from, to, why }),
            None => {
                let needs_restart = running && !hot_plugs(option) && wanted != has;
                found.changes.push(Change { option: option.clone(), from, to, needs_restart });
            }
        }
    }
    found
}

/// Whether a disk becomes larger on the storage where it is.
fn grows(is: &str, wanted: &str) -> bool {
    let (is, wanted) = (read_disk(is), read_disk(wanted));
    matches!((is, wanted), (Some((old, at)), Some((new, to))) if at == to && new > old)
}

/// The bytes and the storage of what [`disk_words`] says.
fn read_disk(words: &str) -> Option<(u64, &str)> {
    let (bytes, storage) = words.split_once(" on ")?;
    Some((size::read(bytes)?, storage))
}

/// Bytes by which a change adds to a storage, if it is one of a disk.
pub(crate) fn added(change: &Change, storage: &str) -> u64 {
    match further(&change.option, "scsi") {
        true => bytes_on(&change.to, storage).saturating_sub(bytes_on(&change.from, storage)),
        false => 0,
    }
}

/// What a disk takes of a storage.
fn bytes_on(words: &str, storage: &str) -> u64 {
    read_disk(words).filter(|(_, on)| *on == storage).map_or(0, |(bytes, _)| bytes)
}

/// Bytes of the disks on a storage, the system disk aside.
pub(crate) fn further_disks(view: &HardwareView, storage: &str) -> u64 {
    let disks = view.iter().filter(|(option, _)| further(option, "scsi"));
    disks.map(|(_, words)| bytes_on(words, storage)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(options: &[(&str, &str)]) -> HardwareView {
        options.iter().map(|(option, value)| ((*option).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn what_can_change_changes_and_the_rest_is_told_with_the_reason() {
        let seen = view(&[
            ("cpu", "host"),
            ("machine", "q35"),
            ("net1", "02:00:00:00:00:01 on vmbr1"),
            ("scsi1", "10 GiB on fast"),
            ("scsi2", "10 GiB on fast"),
            ("scsi3", "10 GiB on fast"),
            ("startup", "order=1"),
        ]);
        let declared = view(&[
            ("cpu", "x86-64-v3"),
            ("machine", "pc"),
            ("numa", "1"),
            ("scsi1", "20 GiB on fast"),
            ("scsi2", "5 GiB on fast"),
            ("startup", "order=2"),
            ("tpmstate0", "there"),
        ]);
        let Differences { changes, held, .. } = differences(&declared, &seen, None, true);
        let told: Vec<(&str, &str, bool)> =
            changes.iter().map(|one| (one.option.as_str(), one.to.as_str(), one.needs_restart)).collect();
        assert_eq!(
            told,
            [
                ("cpu", "x86-64-v3", true),
                ("net1", "none", false),
                ("numa", "1", true),
                ("scsi1", "20 GiB on fast", false),
                ("startup", "order=2", false),
            ]
        );
        let held: Vec<_> = held
            .iter()
            .map(|one| (one.option.as_str(), one.from.as_str(), one.to.as_str(), one.why))
            .collect();
        assert_eq!(
            held,
            [
                ("machine", "q35", "pc", "its devices would move to other places"),
                ("scsi2", "10 GiB on fast", "5 GiB on fast", "disks only grow, and stay where they are"),
                ("scsi3", "10 GiB on fast", "none", "a disk with data is never taken away"),
                ("tpmstate0", "none", "there", "what is sealed in a TPM does not outlive it"),
            ]
        );
        assert_eq!(differences(&declared, &HardwareView::new(), None, true), Differences::default());
    }

    #[test]
    fn what_waits_for_the_next_start_is_told_from_what_is_to_be_changed() {
        let declared =
            view(&[("cpu", "host"), ("net1", "02:00:00:00:00:01 on vmbr1, VLAN 7"), ("numa", "1")]);
        let runs = view(&[("cpu", "x86-64-v3"), ("net1", "02:00:00:00:00:01 on vmbr1")]);
        let set = view(&[("cpu", "host"), ("net1", "02:00:00:00:00:01 on vmbr1, VLAN 7")]);
        let found = differences(&declared, &set, Some(&runs), true);
        let options = |changes: &[Change]| -> Vec<(String, String, bool)> {
            changes.iter().map(|one| (one.option.clone(), one.from.clone(), one.needs_restart)).collect()
        };
        // A card that could not be hot-plugged is tried again; what never can be waits.
        let card = ("net1".to_owned(), "02:00:00:00:00:01 on vmbr1".to_owned(), false);
        assert_eq!(options(&found.changes), [card, ("numa".to_owned(), "none".to_owned(), true)]);
        assert_eq!(options(&found.waiting), [("cpu".to_owned(), "x86-64-v3".to_owned(), true)]);
        // What somebody set otherwise, and never took effect, is set back without a restart.
        let found = differences(&runs, &set, Some(&runs), true);
        assert!(found.waiting.is_empty() && found.changes.iter().all(|one| !one.needs_restart), "{found:?}");
    }
}
