//! A VM's configuration: what is asked for at creation, and what is read back.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::{
    lenient::{as_text, split_list},
    params::{Params, Properties, parse_size},
};

/// A VM to create, with everything in one call. What is none or empty is left to Proxmox's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreateVm {
    /// VMID.
    pub vmid: u32,
    /// A DNS name: no underscore.
    pub name: String,
    /// vCPUs.
    pub cores: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Minimum memory in MiB; `Some(0)` turns ballooning off.
    pub balloon_mib: Option<u64>,
    /// CPU model, such as `host` or `x86-64-v2-AES`.
    pub cpu: Option<String>,
    /// Such as `q35`.
    pub machine: Option<String>,
    /// `seabios` or `ovmf`.
    pub bios: Option<String>,
    /// Such as `l26`.
    pub ostype: Option<String>,
    /// Such as `virtio-scsi-single`.
    pub scsihw: Option<String>,
    /// Guest agent option.
    pub agent: bool,
    /// Start with the host.
    pub on_boot: bool,
    /// Refuse to be destroyed.
    pub protection: bool,
    /// A serial console on a socket.
    pub serial_console: bool,
    /// Tags. Under a token that holds its rights through a pool only, set them afterwards instead.
    pub tags: Vec<String>,
    /// Free text; Proxmox strips white space at its end.
    pub description: Option<String>,
    /// SMBIOS uuid.
    pub smbios_uuid: Option<String>,
    /// Disks by slot, such as `scsi0`.
    pub disks: BTreeMap<String, NewDisk>,
    /// EFI variables on this storage, without enrolled keys unless `efi_keys`.
    pub efi_storage: Option<String>,
    /// Enrol Microsoft's keys.
    pub efi_keys: bool,
    /// TPM state on this storage.
    pub tpm_storage: Option<String>,
    /// CD drives by slot, such as `ide2`: a volume id, or none for an empty drive.
    pub cdroms: BTreeMap<String, Option<String>>,
    /// NICs, `net0` first.
    pub nics: Vec<Nic>,
    /// Slots to boot from, in order; each must exist.
    pub boot_order: Vec<String>,
    /// Resource pool.
    pub pool: Option<String>,
    /// Anything else, as Proxmox names it.
    pub extra: BTreeMap<String, String>,
}

/// A disk to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDisk {
    /// Storage it goes to.
    pub storage: String,
    /// What is on it.
    pub source: DiskSource,
    /// Pass discards on.
    pub discard: bool,
    /// Present it as a solid state disk.
    pub ssd: bool,
    /// An I/O thread of its own.
    pub iothread: bool,
    /// Anything else (`cache`, `format`, `backup` …).
    pub options: BTreeMap<String, String>,
}

/// What is on a new disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskSource {
    /// Nothing; this many GiB.
    Blank {
        /// Size in GiB.
        gib: u64,
    },
    /// A copy of a volume (`local:import/x.qcow2`), of the volume's size.
    Import {
        /// Volume id.
        volid: String,
    },
}

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
}

impl CreateVm {
    /// The parameters of `POST /nodes/N/qemu`.
    pub fn params(&self) -> Params {
        let mut params = Params::new();
        params.set("vmid", self.vmid).set("name", &self.name);
        params.set("cores", self.cores).set("memory", self.memory_mib);
        params.set_some("balloon", self.balloon_mib);
        params.set_some("cpu", self.cpu.as_ref()).set_some("machine", self.machine.as_ref());
        params.set_some("bios", self.bios.as_ref()).set_some("ostype", self.ostype.as_ref());
        params.set_some("scsihw", self.scsihw.as_ref());
        if self.agent {
            params.set("agent", "enabled=1");
        }
        if self.on_boot {
            params.flag("onboot", true);
        }
        if self.protection {
            params.flag("protection", true);
        }
        if self.serial_console {
            params.set("serial0", "socket");
        }
        if !self.tags.is_empty() {
            params.set("tags", self.tags.join(";"));
        }
        params.set_some("description", self.description.as_ref());
        params.set_some("smbios1", self.smbios_uuid.as_ref().map(|uuid| format!("uuid={uuid}")));
        if let Some(storage) = &self.efi_storage {
            let keys = u8::from(self.efi_keys);
            params.set("efidisk0", format!("{storage}:1,efitype=4m,pre-enrolled-keys={keys}"));
        }
        if let Some(storage) = &self.tpm_storage {
            params.set("tpmstate0", format!("{storage}:1,version=v2.0"));
        }
        for (slot, disk) in &self.disks {
            params.set(slot, disk.property_string());
        }
        for (slot, volid) in &self.cdroms {
            params.set(slot, cdrom(volid.as_deref()));
        }
        for (index, nic) in self.nics.iter().enumerate() {
            params.set(format!("net{index}"), nic.property_string());
        }
        if !self.boot_order.is_empty() {
            params.set("boot", format!("order={}", self.boot_order.join(";")));
        }
        params.set_some("pool", self.pool.as_ref());
        for (name, value) in &self.extra {
            params.set(name, value);
        }
        params
    }
}

impl NewDisk {
    /// A copy of a volume, with discard, SSD and I/O thread on.
    pub fn import(storage: impl Into<String>, volid: impl Into<String>) -> Self {
        Self::of(storage, DiskSource::Import { volid: volid.into() })
    }

    /// An empty disk, with discard, SSD and I/O thread on.
    pub fn blank(storage: impl Into<String>, gib: u64) -> Self {
        Self::of(storage, DiskSource::Blank { gib })
    }

    fn of(storage: impl Into<String>, source: DiskSource) -> Self {
        let storage = storage.into();
        Self { storage, source, discard: true, ssd: true, iothread: true, options: BTreeMap::new() }
    }

    fn property_string(&self) -> String {
        let mut text = match &self.source {
            DiskSource::Blank { gib } => format!("{}:{gib}", self.storage),
            DiskSource::Import { volid } => format!("{}:0,import-from={volid}", self.storage),
        };
        for (set, option) in
            [(self.discard, ",discard=on"), (self.iothread, ",iothread=1"), (self.ssd, ",ssd=1")]
        {
            if set {
                text.push_str(option);
            }
        }
        for (key, value) in &self.options {
            text.push_str(&format!(",{key}={value}"));
        }
        text
    }
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
    fn everything_goes_in_one_call() {
        let vm = CreateVm {
            vmid: 300,
            name: "cp-1".into(),
            cores: 4,
            memory_mib: 8192,
            cpu: Some("host".into()),
            machine: Some("q35".into()),
            scsihw: Some("virtio-scsi-single".into()),
            agent: true,
            serial_console: true,
            tags: vec!["home".into(), "talos".into()],
            description: Some("line one\nline two = ; & ü".into()),
            smbios_uuid: Some("41b7746b-10c4-403c-8a6e-7df91ae79e70".into()),
            disks: [("scsi0".into(), NewDisk::import("local-lvm", "local:import/talos.qcow2"))].into(),
            cdroms: [("ide2".into(), Some("local:iso/seed.iso".into()))].into(),
            nics: vec![Nic { vlan: Some(20), ..Nic::virtio("BC:24:11:00:09:00", "vmbr0") }],
            boot_order: vec!["scsi0".into()],
            ..CreateVm::default()
        };
        let params = vm.params();
        assert_eq!(
            params.get("scsi0"),
            Some("local-lvm:0,import-from=local:import/talos.qcow2,discard=on,iothread=1,ssd=1")
        );
        assert_eq!(params.get("net0"), Some("virtio=BC:24:11:00:09:00,bridge=vmbr0,tag=20"));
        assert_eq!(params.get("ide2"), Some("local:iso/seed.iso,media=cdrom"));
        assert_eq!(params.get("boot"), Some("order=scsi0"));
        assert_eq!(params.get("smbios1"), Some("uuid=41b7746b-10c4-403c-8a6e-7df91ae79e70"));
        assert_eq!((params.get("onboot"), params.get("pool"), params.get("efidisk0")), (None, None, None));
    }

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
        assert_eq!(config.nics.len(), 2);
        assert_eq!(config.smbios_uuid.as_deref(), Some("41b7746b-10c4-403c-8a6e-7df91ae79e70"));
        assert_eq!(
            (config.tags.join(","), config.boot_order.join(",")),
            ("cp,talos".into(), "scsi0,ide2".into())
        );
    }

    #[test]
    fn a_half_made_vm_shows_its_lock_only() {
        let config = VmConfig::parse(json!({"lock": "create", "digest": "x"}).as_object().unwrap());
        assert_eq!((config.lock.as_deref(), config.name, config.disks.len()), (Some("create"), None, 0));
    }
}
