//! Options of a VM between our values and the words of Proxmox.

use daedal_machine::size::asked_size;
use daedal_machine::slots::Seat;
use daedal_machine::vm::{Card, Disk, Options, Value};
use daedal_proxmox::{NewDisk, Nic, VmConfig};

use super::seats;

/// A value as Proxmox takes it. A disk is one that is to be made.
pub(crate) fn sent(value: &Value) -> String {
    match value {
        Value::Count(count) => count.to_string(),
        Value::Memory(bytes) => (bytes >> 20).to_string(),
        Value::Flag(on) => u8::from(*on).to_string(),
        Value::Disk(disk) => new_disk(disk).property_string(),
        Value::Card(card) => nic(card).property_string(),
        Value::Text(_) | Value::Words(_) | Value::Properties(_) | Value::Mark { .. } => value.to_string(),
    }
}

/// An empty disk that is to be made.
pub(crate) fn new_disk(disk: &Disk) -> NewDisk {
    let mut new = NewDisk::blank(&disk.storage, disk.size >> 30);
    if let Some(serial) = &disk.serial {
        new.options.insert("serial".to_owned(), serial.clone());
    }
    new
}

/// A card for Proxmox.
pub(crate) fn nic(card: &Card) -> Nic {
    let Card { model, mac, bridge, vlan, mtu, firewall, others } = card.clone();
    Nic { model, mac: Some(mac), bridge, vlan, mtu, firewall, others }
}

fn card(nic: &Nic) -> Card {
    let Nic { model, mac, bridge, vlan, mtu, firewall, others } = nic.clone();
    Card { model, mac: mac.unwrap_or_default(), bridge, vlan, mtu, firewall, others }
}

/// The options of a VM that are compared. Volumes of other owners are left out.
pub(crate) fn seen(vmid: u32, config: &VmConfig) -> Options {
    let raw = |option: &str| config.raw.get(option).map(String::as_str);
    let mut options = Options::new();
    let mut set = |option: &str, value: Value| options.insert(option.to_owned(), value);
    set("name", Value::text(config.name.as_deref().unwrap_or_default()));
    set("cores", Value::Count(config.vcpus()));
    set("memory", Value::Memory(config.memory_mib << 20));
    set("tags", Value::Words(config.tags.clone()));
    set("onboot", Value::Flag(config.on_boot));
    set("protection", Value::Flag(config.protection));
    let cpu = raw("cpu").unwrap_or("kvm64").split(',').next().unwrap_or_default();
    set("cpu", Value::text(cpu.strip_prefix("cputype=").unwrap_or(cpu)));
    // Proxmox may write the version of the chipset as well.
    let machine = raw("machine").unwrap_or_default();
    let chipset = ["q35", "virt"].into_iter().find(|chipset| machine.contains(chipset));
    set("machine", Value::text(chipset.unwrap_or("pc")));
    set("bios", Value::text(raw("bios").unwrap_or("seabios")));
    if config.disks.contains_key("tpmstate0") {
        set("tpmstate0", Value::Flag(true));
    }
    for (option, value) in &config.raw {
        match option.as_str() {
            "serial0" => drop(set(option, Value::text(value))),
            "numa" if value == "1" => drop(set(option, Value::Flag(true))),
            "watchdog" | "startup" => drop(set(option, Value::properties(value))),
            other if other.starts_with("hostpci") => drop(set(option, Value::properties(value))),
            _ => {}
        }
    }
    for (number, seat) in seats(vmid, config) {
        let slot = format!("scsi{number}");
        let Some(disk) = config.disks.get(&slot).filter(|_| seat != Seat::Taken) else { continue };
        let (storage, serial) = (disk.storage().to_owned(), disk.options.get("serial").cloned());
        set(&slot, Value::Disk(Disk { storage, size: disk.size.map_or(0, asked_size), serial }));
    }
    for (slot, nic) in &config.nics {
        set(slot, Value::Card(card(nic)));
    }
    options
}
