//! A VM's options as they are declared and as they are seen, as values that compare, and what differs between the two.
//!
//! [`declared`] is the only place that says what the inventory asks of an existing VM; [`differences`] compares it with what is
//! set and with what the VM runs with. A [`Change`] carries the very value that is sent.

mod value;

use std::collections::{BTreeMap, BTreeSet};

use daedal_inventory::hardware::{Chipset, Firmware};
use daedal_inventory::{Cluster, Node};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use value::{Card, Disk, Value};

use crate::names;
use crate::slots::{Seats, disk_serial, disk_slots};

/// Options of a VM by the names that Proxmox has for them.
pub type Options = BTreeMap<String, Value>;

/// The NIC that carries the node's address.
pub const FIRST_NIC: &str = "net0";

/// One changed option.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// Proxmox option name (`cores`, `memory`, `net0`, `tags` …).
    pub option: String,
    /// What it is; none if it is not set.
    pub from: Option<Value>,
    /// What it is set to; none if it is taken away.
    pub to: Option<Value>,
    /// Whether it only takes effect at the next start.
    pub needs_restart: bool,
}

impl Change {
    /// Both values in words, told apart.
    pub fn words(&self) -> (String, String) {
        value::words(self.from.as_ref(), self.to.as_ref())
    }

    /// Bytes by which it adds to a storage, if it is one of a further disk.
    pub fn added(&self, storage: &str) -> u64 {
        match is_further(&self.option, "scsi") {
            true => bytes_on(self.to.as_ref(), storage).saturating_sub(bytes_on(self.from.as_ref(), storage)),
            false => 0,
        }
    }
}

/// A VM's options as the inventory says them, with the disks in the slots that they have or get. The system disk is not among
/// them: it grows by a step of its own.
pub fn declared(cluster: &Cluster, node: &Node, seats: &Seats) -> Options {
    let hardware = &node.hardware;
    let mut options = plain_options(cluster, node);
    let mut set = |option: &str, value: Value| options.insert(option.to_owned(), value);
    set("name", Value::text(&node.name));
    set("cores", Value::Count(node.cores));
    set("memory", Value::Memory(node.memory));
    set("tags", Value::Words(names::tags(cluster, node)));
    set("onboot", Value::Flag(true));
    set("protection", Value::Flag(cluster.protect));
    let arch = cluster.talos.arch;
    set("cpu", Value::text(hardware.processor(arch)));
    set("machine", Value::text(hardware.chipset(arch).name()));
    let ovmf = hardware.firmware.unwrap_or_default() == Firmware::Ovmf;
    set("bios", Value::text(if ovmf { "ovmf" } else { "seabios" }));
    if hardware.serial_console.unwrap_or(true) {
        set("serial0", Value::text("socket"));
    }
    if hardware.tpm == Some(true) {
        set("tpmstate0", Value::Flag(true));
    }
    for (slot, disk) in further_disks(cluster, node, seats) {
        set(&slot, Value::Disk(disk));
    }
    for (i, card) in cards(cluster, node).into_iter().enumerate() {
        set(&format!("net{i}"), Value::Card(card));
    }
    options
}

/// Options that are the same for a template and its clones.
pub fn plain_options(cluster: &Cluster, node: &Node) -> Options {
    let (hardware, mut options) = (&node.hardware, Options::new());
    let mut set = |option: String, value: Value| options.insert(option, value);
    if hardware.numa == Some(true) {
        set("numa".to_owned(), Value::Flag(true));
    }
    if hardware.watchdog == Some(true) {
        set("watchdog".to_owned(), Value::properties("model=i6300esb,action=reset"));
    }
    let order = hardware.start_order.map(|order| format!("order={order}"));
    let delay = hardware.start_delay.map(|delay| format!("up={delay}"));
    if order.is_some() || delay.is_some() {
        let words: Vec<String> = order.into_iter().chain(delay).collect();
        set("startup".to_owned(), Value::properties(&words.join(",")));
    }
    let express = if hardware.chipset(cluster.talos.arch) == Chipset::I440fx { "" } else { ",pcie=1" };
    for (i, mapping) in hardware.pci.iter().enumerate() {
        set(format!("hostpci{i}"), Value::properties(&format!("mapping={mapping}{express}")));
    }
    options
}

/// The disks besides the system disk, in the slots that they have or get.
pub fn further_disks(cluster: &Cluster, node: &Node, seats: &Seats) -> Vec<(String, Disk)> {
    let slots = disk_slots(seats, node.disks.len());
    let disks = node.disks.iter().enumerate().map(|(i, disk)| Disk {
        storage: disk.storage.as_ref().unwrap_or(&cluster.proxmox.disks_storage).clone(),
        size: disk.size,
        serial: Some(disk_serial(i + 1)),
    });
    slots.into_iter().zip(disks).collect()
}

/// All network cards, the first one first.
pub fn cards(cluster: &Cluster, node: &Node) -> Vec<Card> {
    let first = Card {
        vlan: cluster.proxmox.vlan,
        mtu: cluster.network.mtu.map(u32::from),
        ..Card::virtio(&node.mac, &cluster.proxmox.bridge)
    };
    let more = node.nics.iter().map(|more| Card {
        vlan: more.vlan,
        mtu: more.mtu.map(u32::from),
        ..Card::virtio(&more.mac, &more.bridge)
    });
    std::iter::once(first).chain(more).collect()
}

/// Bytes of the disks on a storage, the system disk aside.
pub fn further_bytes(options: &Options, storage: &str) -> u64 {
    let disks = options.iter().filter(|(option, _)| is_further(option, "scsi"));
    disks.map(|(_, value)| bytes_on(Some(value), storage)).sum()
}

/// What a disk takes of a storage.
fn bytes_on(value: Option<&Value>, storage: &str) -> u64 {
    match value {
        Some(Value::Disk(disk)) if disk.storage == storage => disk.size,
        _ => 0,
    }
}

/// Whether an option such as `scsi1` is of that kind and not the first.
fn is_further(option: &str, kind: &str) -> bool {
    option.strip_prefix(kind).and_then(|number| number.parse::<u32>().ok()).is_some_and(|number| number > 0)
}

/// Whether an update may change an option.
pub fn updatable(option: &str) -> bool {
    takes_effect_at_once(option)
        || matches!(option, "cores" | "memory" | "cpu" | "numa" | "watchdog" | "serial0")
        || option.starts_with("hostpci")
}

/// Whether a running VM takes a change of this option. A card that could not be plugged in is tried again, a disk waits.
fn takes_effect_at_once(option: &str) -> bool {
    matches!(option, "name" | "tags" | "onboot" | "protection" | "startup" | FIRST_NIC)
        || is_further(option, "scsi")
        || is_further(option, "net")
}

/// An option that differs and is left as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// What would be changed.
    pub change: Change,
    /// Why it is not.
    pub why: WhyHeld,
}

/// Why an option of a VM is left as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum WhyHeld {
    /// The chipset decides where devices are.
    DevicesWouldMove,
    /// The system was installed for the other firmware.
    OtherFirmware,
    /// What is sealed in a TPM is lost with it.
    SealedInTpm,
    /// A disk with data is never taken away.
    DiskHoldsData,
    /// A disk only grows, on the storage where it is.
    DiskOnlyGrows,
    /// Nothing may change it.
    Fixed,
}

/// What differs.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// What is changed.
    pub changes: Vec<Change>,
    /// What is left, with the reason.
    pub held: Vec<Held>,
    /// What Proxmox has taken as declared, and the VM gets at its next start.
    pub waiting: Vec<Change>,
}

/// Compares what is declared with what is set, and with what the VM runs with where that is something else.
pub fn differences(declared: &Options, seen: &Options, runs: Option<&Options>, running: bool) -> Differences {
    let mut found = Differences::default();
    // A config that was not read says nothing.
    if seen.is_empty() {
        return found;
    }
    let runs = runs.filter(|_| running).unwrap_or(seen);
    let options: BTreeSet<&String> = declared.keys().chain(seen.keys()).chain(runs.keys()).collect();
    for option in options {
        let (wanted, is, has) = (declared.get(option), seen.get(option), runs.get(option));
        let (set, live) = (alike(wanted, is), alike(wanted, has));
        if set && live {
            continue;
        }
        let change = |needs_restart: bool| Change {
            option: option.clone(),
            from: has.cloned(),
            to: wanted.map(|wanted| wanted.over(is)),
            needs_restart,
        };
        if set && !option.starts_with("net") {
            found.waiting.push(change(true));
            continue;
        }
        match why_held(option, wanted, is) {
            Some(why) => found.held.push(Held { change: change(false), why }),
            None => found.changes.push(change(running && !takes_effect_at_once(option) && !live)),
        }
    }
    found
}

/// Whether two values are the same as far as the inventory decides.
pub fn alike(wanted: Option<&Value>, seen: Option<&Value>) -> bool {
    match (wanted, seen) {
        (Some(wanted), Some(seen)) => wanted.alike(seen),
        (None, None) => true,
        _ => false,
    }
}

fn why_held(option: &str, wanted: Option<&Value>, is: Option<&Value>) -> Option<WhyHeld> {
    match (option, wanted, is) {
        ("machine", ..) => Some(WhyHeld::DevicesWouldMove),
        ("bios", ..) => Some(WhyHeld::OtherFirmware),
        ("tpmstate0", ..) => Some(WhyHeld::SealedInTpm),
        (disk, None, _) if disk.starts_with("scsi") => Some(WhyHeld::DiskHoldsData),
        (_, Some(Value::Disk(wanted)), Some(Value::Disk(is))) => {
            let grows = wanted.storage == is.storage && wanted.size >= is.size;
            (!grows).then_some(WhyHeld::DiskOnlyGrows)
        }
        (option, ..) if !updatable(option) => Some(WhyHeld::Fixed),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
