//! A VM to create: everything that goes in the one call.

use std::collections::BTreeMap;

use crate::{
    params::Params,
    vm::{Nic, cdrom},
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
    /// Whether it is started when it is made, by a task of its own: the create ends well even if the start does not.
    pub start: bool,
    /// Resource pool.
    pub pool: Option<String>,
    /// Anything else, as Proxmox names it.
    pub extra: BTreeMap<String, String>,
}

/// A VM to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloneVm {
    /// VMID of the clone.
    pub newid: u32,
    /// Its name.
    pub name: String,
    /// Its description, instead of the source's.
    pub description: Option<String>,
    /// A full copy; otherwise linked, which only templates allow.
    pub full: bool,
    /// Storage of a full copy, if another than the source's.
    pub storage: Option<String>,
    /// Node it goes to, if another than the source's; disks must be shared then.
    pub target: Option<String>,
    /// Resource pool.
    pub pool: Option<String>,
}

impl CloneVm {
    /// The parameters of `POST …/clone`.
    pub fn params(&self) -> Params {
        let mut params = Params::new();
        params.set("newid", self.newid).set("name", &self.name);
        params.set_some("description", self.description.as_ref());
        params.flag("full", self.full);
        params.set_some("storage", self.storage.as_ref()).set_some("target", self.target.as_ref());
        params.set_some("pool", self.pool.as_ref());
        params
    }
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
        if self.start {
            params.set("start", 1);
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

    /// As Proxmox writes it, `local-lvm:32,discard=on`.
    pub fn property_string(&self) -> String {
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

#[cfg(test)]
mod tests {
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
}
