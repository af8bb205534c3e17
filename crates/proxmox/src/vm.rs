//! A VM's configuration: what is read back, and what is changed.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::{
    lenient::{as_text, split_list},
    params::{Params, Properties, parse_size},
};

/// A network card. Without MAC Proxmox invents one, at every update anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nic {
    /// Such as `virtio`.
    pub model: String,
    /// MAC.
    pub mac: Option<String>,
    /// Bridge.
    pub bridge: String,
    /// VLAN tag.
    pub vlan: Option<u16>,
    /// MTU; 1 means the bridge's.
    pub mtu: Option<u32>,
    /// Whether the Proxmox firewall filters it.
    pub firewall: bool,
    /// Whatever else is set on it (`queues`, `rate`, `trunks` …), kept as it is.
    pub others: BTreeMap<String, String>,
}

impl Nic {
    /// A virtio card on a bridge.
    pub fn virtio(mac: impl Into<String>, bridge: impl Into<String>) -> Self {
        Self {
            model: "virtio".into(),
            mac: Some(mac.into()),
            bridge: bridge.into(),
            vlan: None,
            mtu: None,
            firewall: false,
            others: BTreeMap::new(),
        }
    }

    /// As Proxmox writes it, `virtio=BC:24:…,bridge=vmbr0`.
    pub fn property_string(&self) -> String {
        let mut text = self.model.clone();
        if let Some(mac) = &self.mac {
            text.push_str(&format!("={mac}"));
        }
        text.push_str(&format!(",bridge={}", self.bridge));
        if let Some(vlan) = self.vlan {
            text.push_str(&format!(",tag={vlan}"));
        }
        if let Some(mtu) = self.mtu {
            text.push_str(&format!(",mtu={mtu}"));
        }
        if self.firewall {
            text.push_str(",firewall=1");
        }
        for (key, value) in &self.others {
            text.push_str(&format!(",{key}={value}"));
        }
        text
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = Properties::parse(text);
        let (model, mac) = match parts.head.take().or_else(|| parts.rest.remove("model")) {
            Some(model) => (model, parts.rest.remove("macaddr")),
            None => {
                let is_mac = |value: &str| value.len() == 17 && value.matches(':').count() == 5;
                let key = parts.rest.iter().find(|(_, value)| is_mac(value)).map(|(key, _)| key.clone())?;
                let mac = parts.rest.remove(&key);
                (key, mac)
            }
        };
        Some(Self {
            model,
            mac: mac.map(|mac| mac.to_ascii_uppercase()),
            bridge: parts.get("bridge").unwrap_or_default().to_owned(),
            vlan: parts.get("tag").and_then(|tag| tag.parse().ok()),
            mtu: parts.get("mtu").and_then(|mtu| mtu.parse().ok()),
            firewall: parts.flag("firewall"),
            others: {
                parts.rest.retain(|key, _| !["bridge", "tag", "mtu", "firewall"].contains(&key.as_str()));
                parts.rest
            },
        })
    }
}

/// The value of a CD drive with a volume, or empty (`none,media=cdrom`, which ejects a running VM's media at once).
pub fn cdrom(volid: Option<&str>) -> String {
    format!("{},media=cdrom", volid.unwrap_or("none"))
}

/// Changes for `PUT …/config`. Give the digest that was read, and a change in between is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpdateVm {
    /// Options to set.
    pub set: BTreeMap<String, String>,
    /// Options to remove.
    pub delete: Vec<String>,
    /// Digest of the config that the change is based on.
    pub digest: Option<String>,
}

impl UpdateVm {
    /// No change yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets an option.
    #[expect(clippy::needless_pass_by_value, reason = "texts and numbers are given alike")]
    pub fn set(mut self, option: impl Into<String>, value: impl ToString) -> Self {
        self.set.insert(option.into(), value.to_string());
        self
    }

    /// Removes an option.
    pub fn delete(mut self, option: impl Into<String>) -> Self {
        self.delete.push(option.into());
        self
    }

    /// Bases the change on a digest.
    pub fn digest(mut self, digest: impl Into<String>) -> Self {
        self.digest = Some(digest.into());
        self
    }

    pub(crate) fn params(&self) -> Params {
        let mut params = Params::new();
        for (option, value) in &self.set {
            params.set(option, value);
        }
        if !self.delete.is_empty() {
            params.set("delete", self.delete.join(","));
        }
        params.set_some("digest", self.digest.as_ref());
        params
    }
}

/// A VM's configuration as read back, parsed. While Proxmox creates the VM, only `lock` is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VmConfig {
    /// Name; none while it is being created.
    pub name: Option<String>,
    /// Cores per socket.
    pub cores: u32,
    /// Sockets.
    pub sockets: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Lock (`create`, `backup` …).
    pub lock: Option<String>,
    /// Free text.
    pub description: Option<String>,
    /// Tags, sorted.
    pub tags: Vec<String>,
    /// SMBIOS uuid, lower-case.
    pub smbios_uuid: Option<String>,
    /// Starts with the host.
    pub on_boot: bool,
    /// Is a template.
    pub template: bool,
    /// Refuses to be destroyed.
    pub protection: bool,
    /// Disks by slot, EFI and TPM disks and `unusedN` included; CD drives are not.
    pub disks: BTreeMap<String, DiskConfig>,
    /// CD drives by slot; an empty drive has no volume.
    pub cdroms: BTreeMap<String, Option<String>>,
    /// NICs by slot.
    pub nics: BTreeMap<String, Nic>,
    /// Slots it boots from, in order.
    pub boot_order: Vec<String>,
    /// Proxmox's digest of the file, for optimistic updates.
    pub digest: String,
    /// Every option as text.
    pub raw: BTreeMap<String, String>,
    /// The config that the VM runs with, where something waits for its next start and that was asked for.
    pub runs: Option<Box<VmConfig>>,
}

/// A disk as read back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskConfig {
    /// Volume id.
    pub volid: String,
    /// Bytes, where the config says.
    pub size: Option<u64>,
    /// Every other option.
    pub options: BTreeMap<String, String>,
}

impl DiskConfig {
    /// The storage it is on.
    pub fn storage(&self) -> &str {
        self.volid.split(':').next().unwrap_or_default()
    }
}

impl VmConfig {
    /// Reads the `data` of `GET …/config`.
    pub fn parse(data: &Map<String, Value>) -> Self {
        let raw: BTreeMap<String, String> =
            data.iter().filter_map(|(key, value)| Some((key.clone(), as_text(value)?))).collect();
        let get = |key: &str| raw.get(key).map(String::as_str);
        let number = |key: &str| get(key).and_then(|text| text.parse::<u32>().ok());
        let flag = |key: &str| get(key).is_some_and(|text| text == "1");
        let mut config = Self {
            name: get("name").map(str::to_owned),
            cores: number("cores").unwrap_or(1),
            sockets: number("sockets").unwrap_or(1),
            memory_mib: get("memory").map_or(512, memory),
            lock: get("lock").map(str::to_owned),
            description: get("description").map(str::to_owned),
            tags: get("tags").map(split_list).unwrap_or_default(),
            smbios_uuid: get("smbios1")
                .and_then(|text| Properties::parse(text).rest.remove("uuid"))
                .map(|uuid| uuid.to_ascii_lowercase()),
            on_boot: flag("onboot"),
            template: flag("template"),
            protection: flag("protection"),
            boot_order: get("boot")
                .and_then(|text| Properties::parse(text).rest.remove("order"))
                .map(|order| split_list(&order))
                .unwrap_or_default(),
            digest: get("digest").unwrap_or_default().to_owned(),
            ..Self::default()
        };
        config.tags.sort();
        config.tags.dedup();
        for (slot, value) in &raw {
            if is_slot(slot, "net") {
                if let Some(nic) = Nic::parse(value) {
                    config.nics.insert(slot.clone(), nic);
                }
            } else if DISK_SLOTS.iter().any(|kind| is_slot(slot, kind)) {
                config.add_drive(slot, value);
            }
        }
        config.raw = raw;
        config
    }

    /// Reads the `data` of `GET …/pending`: the config with what waits for the next start in it, and beside it the one
    /// without.
    pub fn parse_pending(rows: &[Map<String, Value>]) -> Self {
        let (mut next, mut now) = (Map::new(), Map::new());
        let mut waits = false;
        for row in rows {
            let Some(key) = row.get("key").and_then(as_text) else { continue };
            if let Some(value) = row.get("value") {
                now.insert(key.clone(), value.clone());
            }
            let deleted = row.get("delete").and_then(as_text).is_some_and(|text| text != "0");
            waits |= deleted || row.contains_key("pending");
            if let Some(value) = row.get("pending").or_else(|| row.get("value")).filter(|_| !deleted) {
                next.insert(key, value.clone());
            }
        }
        let runs = waits.then(|| Box::new(Self::parse(&now)));
        Self { runs, ..Self::parse(&next) }
    }

    /// Options whose value waits for the next start, where that was asked for.
    pub fn pending(&self) -> impl Iterator<Item = &str> {
        let runs = self.runs.as_ref().map(|runs| &runs.raw);
        let keys: std::collections::BTreeSet<&String> =
            runs.into_iter().flat_map(|runs| runs.keys().chain(self.raw.keys())).collect();
        keys.into_iter()
            .filter(move |key| runs.is_some_and(|runs| runs.get(*key) != self.raw.get(*key)))
            .map(String::as_str)
    }

    fn add_drive(&mut self, slot: &str, value: &str) {
        let mut parts = Properties::parse(value);
        let volid = parts.head.take().or_else(|| parts.rest.remove("file")).unwrap_or_default();
        if parts.get("media") == Some("cdrom") {
            self.cdroms.insert(slot.to_owned(), (volid != "none").then_some(volid));
        } else {
            let size = parts.rest.remove("size").and_then(|size| parse_size(&size));
            self.disks.insert(slot.to_owned(), DiskConfig { volid, size, options: parts.rest });
        }
    }

    /// vCPUs in all.
    pub fn vcpus(&self) -> u32 {
        self.cores.saturating_mul(self.sockets)
    }
}

const DISK_SLOTS: [&str; 7] = ["scsi", "virtio", "sata", "ide", "efidisk", "tpmstate", "unused"];

fn is_slot(key: &str, kind: &str) -> bool {
    key.strip_prefix(kind)
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

fn memory(text: &str) -> u64 {
    text.parse().ok().or_else(|| Properties::parse(text).get("current")?.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_config_is_read_back_by_meaning() {
        let data = json!({
            "agent": "enabled=1", "boot": "order=scsi0;ide2", "cores": 2, "sockets": "2", "digest": "72f9",
            "efidisk0": "local:900/vm-900-disk-0.raw,efitype=4m,pre-enrolled-keys=0,size=528K",
            "ide2": "local:iso/seed.iso,media=cdrom,size=374K", "ide0": "none,media=cdrom", "memory": "512",
            "name": "cp-1", "net0": "virtio=bc:24:11:00:09:00,bridge=vmbr0,firewall=1,tag=20",
            "net1": "model=e1000,macaddr=BC:24:11:00:09:01,bridge=vmbr1", "onboot": 1,
            "scsi0": "local:900/vm-900-disk-1.qcow2,discard=on,iothread=1,size=64M,ssd=1", "scsihw": "virtio-scsi-single",
            "smbios1": "uuid=41B7746B-10c4-403c-8a6e-7df91ae79e70,base64=1", "tags": "talos;cp",
            "unused0": "data:900/vm-900-disk-0.raw", "netx": "no"
        });
        let config = VmConfig::parse(data.as_object().unwrap());
        assert_eq!((config.vcpus(), config.memory_mib, config.on_boot), (4, 512, true));
        assert_eq!(config.disks.keys().collect::<Vec<_>>(), ["efidisk0", "scsi0", "unused0"]);
        let disk = &config.disks["scsi0"];
        assert_eq!((disk.size, disk.storage()), (Some(64 << 20), "local"));
        assert_eq!(config.cdroms["ide2"].as_deref(), Some("local:iso/seed.iso"));
        assert_eq!(config.cdroms["ide0"], None);
        let nic = &config.nics["net0"];
        assert_eq!((nic.mac.as_deref(), nic.vlan, nic.firewall), (Some("BC:24:11:00:09:00"), Some(20), true));
        assert_eq!(config.nics["net1"].model, "e1000");
        let rich = "virtio=BC:24:11:00:09:00,bridge=vmbr0,tag=20,firewall=1,link_down=1,queues=4,trunks=5;6";
        assert_eq!(Nic::parse(rich).unwrap().property_string(), rich);
        assert_eq!(config.nics.len(), 2);
        assert_eq!(config.smbios_uuid.as_deref(), Some("41b7746b-10c4-403c-8a6e-7df91ae79e70"));
        assert_eq!(
            (config.tags.join(","), config.boot_order.join(",")),
            ("cp,talos".into(), "scsi0,ide2".into())
        );
    }

    #[test]
    fn what_runs_and_what_waits_are_told_apart() {
        let rows = json!([
            {"key": "digest", "value": "c124"}, {"key": "memory", "value": "512", "pending": "768"},
            {"key": "cores", "value": 2}, {"key": "watchdog", "pending": "model=i6300esb,action=reset"},
            {"key": "serial0", "value": "socket", "delete": 1}, {"key": "name", "value": "cp-1"}
        ]);
        let rows: Vec<_> =
            rows.as_array().unwrap().iter().map(|row| row.as_object().unwrap().clone()).collect();
        let config = VmConfig::parse_pending(&rows);
        assert_eq!((config.memory_mib, config.cores, config.digest.as_str()), (768, 2, "c124"));
        assert_eq!(config.pending().collect::<Vec<_>>(), ["memory", "serial0", "watchdog"]);
        let runs = config.runs.unwrap();
        assert_eq!((runs.memory_mib, runs.raw.get("serial0").map(String::as_str)), (512, Some("socket")));
        let quiet = VmConfig::parse_pending(&rows[2..3]);
        assert!(quiet.runs.is_none() && quiet.pending().next().is_none());
    }

    #[test]
    fn a_half_made_vm_shows_its_lock_only() {
        let config = VmConfig::parse(json!({"lock": "create", "digest": "x"}).as_object().unwrap());
        assert_eq!((config.lock.as_deref(), config.name, config.disks.len()), (Some("create"), None, 0));
    }
}
