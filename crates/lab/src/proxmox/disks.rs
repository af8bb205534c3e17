//! Making, importing and freeing disks, and what a VM's hardware looks like from inside.

use super::blob::Blob;
use super::fail::Fail;
use super::property::{Nic, Properties, parse_size, print_size};
use super::state::{Config, State, Storage, Vm, Volume};
use super::tasks::{Job, Stop};
use super::vmconfig;
use crate::{Disk, Firmware, Hardware};

/// Size of the UEFI variable store.
const EFI_SIZE: u64 = 540_672;
/// Size of a TPM state.
const TPM_SIZE: u64 = 4 << 20;

/// What a drive parameter asks for.
pub(super) enum Wish {
    /// `STORE:GiB`.
    New { storage: String, gib: f64 },
    /// `STORE:0,import-from=VOLID`.
    Import { storage: String, source: String },
    /// `STORE:cloudinit`.
    CloudInit { storage: String },
    /// An existing volume, or no medium.
    Existing,
}

impl Wish {
    pub(super) fn of(option: &str, value: &str) -> Result<Self, Fail> {
        let drive = Properties::parse(value);
        let file = drive.bare.clone().or_else(|| drive.keyed.get("file").cloned()).unwrap_or_default();
        let special = || {
            Fail::parameter(
                option,
                "'import-from' requires special syntax - use <storage ID>:0,import-from=<source>",
            )
        };
        let Some((storage, rest)) = file.split_once(':') else {
            return if drive.get("import-from").is_some() { Err(special()) } else { Ok(Self::Existing) };
        };
        let storage = storage.to_owned();
        match (rest.parse::<f64>(), drive.get("import-from")) {
            (Ok(0.0), Some(source)) => Ok(Self::Import { storage, source: source.into() }),
            (_, Some(_)) => Err(special()),
            (Ok(gib), None) => Ok(Self::New { storage, gib }),
            _ if rest == "cloudinit" => Ok(Self::CloudInit { storage }),
            _ => Ok(Self::Existing),
        }
    }
}

impl State {
    /// The first free `vm-N-disk-M` name on a storage.
    fn free_disk_name(&self, host: &str, storage: &str, vmid: u32, format: &str) -> Result<String, Fail> {
        let path = self.storages.get(storage).is_some_and(Storage::has_path);
        let store = self.store(host, storage)?;
        let taken = |number: usize| {
            ["vm", "base"].iter().any(|kind| {
                let stem = format!("{kind}-{vmid}-disk-{number}");
                if path {
                    ["raw", "qcow2", "vmdk"]
                        .iter()
                        .any(|ending| store.volumes.contains_key(&format!("{vmid}/{stem}.{ending}")))
                } else {
                    store.volumes.contains_key(&stem)
                }
            }) || store.volumes.iter().filter(|(_, volume)| volume.parent.is_some()).any(|(name, _)| {
                let last = name.rsplit('/').next().unwrap_or(name);
                last.split('.').next() == Some(format!("vm-{vmid}-disk-{number}").as_str())
            })
        };
        let number = (0..).find(|number| !taken(*number)).unwrap_or_default();
        Ok(if path {
            format!("{vmid}/vm-{vmid}-disk-{number}.{format}")
        } else {
            format!("vm-{vmid}-disk-{number}")
        })
    }

    /// Makes a volume for a VM and returns its volid.
    pub(super) fn allocate(
        &mut self,
        host: &str,
        storage: &str,
        vmid: u32,
        format: &str,
        size: u64,
        bytes: Blob,
    ) -> Result<String, Fail> {
        let definition = self.storages.get(storage).ok_or_else(|| Fail::no_storage(storage))?;
        let format = if definition.has_path() { format } else { "raw" };
        let (thick, size) = (definition.is_thick(), definition.rounded(size));
        let name = self.free_disk_name(host, storage, vmid, format)?;
        let identity = self.rng.uuid();
        let created = self.now;
        let store = self.store_mut(host, storage)?;
        let used = if thick { size } else { (bytes.bytes().len() as u64).min(size) };
        if used > store.available() {
            return Err(Fail::internal(format!(
                "lvcreate 'pve/{name}' error: insufficient free space on storage '{storage}'"
            )));
        }
        let volume = Volume {
            content: "images".into(),
            format: format.into(),
            size,
            used,
            vmid: Some(vmid),
            parent: None,
            created,
            bytes,
            identity,
        };
        store.volumes.insert(name.clone(), volume);
        Ok(format!("{storage}:{name}"))
    }

    /// The drive for cloud-init has a name of its own.
    fn name_cloudinit(&mut self, host: &str, volid: &str, vmid: u32) -> Result<String, Fail> {
        let (storage, name) = volid.split_once(':').unwrap_or_default();
        let stem = format!("vm-{vmid}-cloudinit");
        let new = match name.rsplit_once('.') {
            Some((_, ending)) => format!("{vmid}/{stem}.{ending}"),
            None => stem,
        };
        let volume = self.remove_volume(host, volid);
        let store = self.store_mut(host, storage)?;
        if store.volumes.contains_key(&new) {
            return Err(Fail::internal(format!("disk image '{new}' already exists")));
        }
        store.volumes.extend(volume.map(|volume| (new.clone(), volume)));
        Ok(format!("{storage}:{new}"))
    }

    /// Where a volume lies on its host, for messages.
    pub(super) fn volume_path(&self, storage: &str, name: &str) -> String {
        match self.storages.get(storage).map(|known| known.kind.as_str()) {
            Some("lvmthin") => return format!("/dev/pve/{name}"),
            Some("lvm") => return format!("/dev/{storage}/{name}"),
            Some("zfspool") => {
                return format!("/dev/zvol/{storage}/{}", name.rsplit('/').next().unwrap_or(name));
            }
            _ => {}
        }
        let root = if storage == "local" { "/var/lib/vz".to_owned() } else { format!("/mnt/pve/{storage}") };
        match name.split_once('/') {
            Some(("iso", file)) => format!("{root}/template/iso/{file}"),
            Some(("import", file)) => format!("{root}/import/{file}"),
            Some(("snippets", file)) => format!("{root}/snippets/{file}"),
            _ => format!("{root}/images/{name}"),
        }
    }

    /// What the software inside a VM sees at power-on.
    pub(super) fn hardware(&self, vmid: u32, vm: &Vm) -> Option<Hardware> {
        let config = &vm.config;
        let uuid =
            config.get("smbios1").and_then(|text| Properties::parse(text).take("uuid")).unwrap_or_default();
        let mut nics: Vec<(u32, String)> = config
            .iter()
            .filter_map(|(name, value)| match vmconfig::indexed(name) {
                ("net", Some(index)) => Nic::parse(value).and_then(|nic| nic.mac).map(|mac| (index, mac)),
                _ => None,
            })
            .collect();
        nics.sort();
        Some(Hardware {
            vmid,
            name: vm.name(vmid),
            host: vm.host.clone(),
            uuid,
            machine: self.hosts.get(&vm.host).map(|host| host.machine.clone()).unwrap_or_default(),
            macs: nics.into_iter().map(|(_, mac)| mac).collect(),
            cores: vmconfig::cpus(config),
            memory: vmconfig::memory_bytes(config),
            disk: self.system_disk(vm),
            cdroms: self.cdroms(vm),
            agent: vmconfig::agent_enabled(config),
            firmware: self.firmware(vm),
        })
    }

    /// What starts a VM, and whose keys it has.
    fn firmware(&self, vm: &Vm) -> Firmware {
        if vm.config.get("bios").is_none_or(|bios| bios != "ovmf") {
            return Firmware::Bios;
        }
        let drive = vm.config.get("efidisk0").map(|value| Properties::parse(value));
        let foreign_keys = drive.is_some_and(|mut drive| {
            drive
                .take("pre-enrolled-keys")
                .is_some_and(|flag| matches!(flag.as_str(), "1" | "yes" | "on" | "true"))
        });
        let volid = vm.config.get("efidisk0").and_then(|value| vmconfig::drive_volume(value));
        let volume = volid.and_then(|volid| self.volume(&vm.host, &volid));
        let variables = volume.map(|volume| volume.identity.clone()).unwrap_or_default();
        Firmware::Uefi { variables, foreign_keys }
    }

    /// The first disk in boot order, or else the first disk.
    fn system_disk(&self, vm: &Vm) -> Option<Disk> {
        let is_disk = |name: &str, value: &str| {
            !matches!(vmconfig::indexed(name).0, "efidisk" | "tpmstate") && !vmconfig::is_cdrom(value)
        };
        let ordered = vmconfig::boot_order(&vm.config)
            .into_iter()
            .filter_map(|name| vm.config.get(&name).map(|value| (name.clone(), value.clone())));
        let (_, value) = ordered
            .chain(vmconfig::drives(&vm.config))
            .find(|(name, value)| vmconfig::is_drive(name) && is_disk(name, value))?;
        let volume = self.volume(&vm.host, &vmconfig::drive_volume(&value)?)?;
        Some(Disk {
            identity: volume.identity.clone(),
            image: volume.bytes.bytes().to_vec(),
            size: volume.size,
        })
    }

    /// Contents of the ISOs in the CD drives.
    pub(super) fn cdroms(&self, vm: &Vm) -> Vec<Vec<u8>> {
        vmconfig::drives(&vm.config)
            .into_iter()
            .filter(|(_, value)| vmconfig::is_cdrom(value))
            .filter_map(|(_, value)| vmconfig::drive_volume(&value))
            .filter_map(|volid| {
                let volume = self.volume(&vm.host, &volid)?;
                match volid.contains("-cloudinit") {
                    true => super::cloudinit::iso(&vm.config, self.snippet(vm)),
                    false => Some(volume.bytes.bytes().to_vec()),
                }
            })
            .collect()
    }

    /// What the snippet of a VM says, which Proxmox puts on its cloud-init drive in the place of its own.
    fn snippet(&self, vm: &Vm) -> Option<String> {
        let volume = self.volume(&vm.host, vmconfig::snippet(&vm.config)?)?;
        Some(String::from_utf8_lossy(volume.bytes.bytes()).into_owned())
    }

    /// Moves a VM and its local disks to another host.
    pub(super) fn migrate(&mut self, vmid: u32, target: &str) -> bool {
        let Some(vm) = self.vms.get(&vmid) else { return false };
        if !self.hosts.contains_key(target) {
            return false;
        }
        let source = vm.host.clone();
        let volids: Vec<_> = vmconfig::drives(&vm.config)
            .iter()
            .filter_map(|(_, value)| vmconfig::drive_volume(value))
            .collect();
        for volid in volids {
            let Some((storage, name)) = volid.split_once(':') else { continue };
            if self.storages.get(storage).is_none_or(|storage| storage.shared) {
                continue;
            }
            let Some(volume) = self.volume(&source, &volid).cloned() else { continue };
            if let Ok(store) = self.store_mut(target, storage) {
                store.volumes.insert(name.to_owned(), volume);
                self.remove_volume(&source, &volid);
            }
        }
        if let Some(vm) = self.vms.get_mut(&vmid) {
            vm.host = target.to_owned();
        }
        true
    }
}

/// Makes the disks that a configuration asks for, with the time that takes. On failure the volumes made so far are in
/// `made`, for the caller to free.
pub(super) async fn create_disks(
    job: &Job,
    vmid: u32,
    wanted: &Config,
    made: &mut Vec<String>,
) -> Result<Config, Stop> {
    let mut result = Config::new();
    for (option, value) in vmconfig::drives(wanted) {
        let wish = Wish::of(&option, &value)?;
        let mut drive = Properties::parse(&value);
        drive.take("file");
        let created = match wish {
            Wish::Existing => {
                result.insert(option.clone(), existing_drive(job, &option, &value)?);
                continue;
            }
            Wish::CloudInit { storage } => {
                let _lock = job.until(job.dc.lock_storage(&job.host, &storage)).await??;
                job.pass(job.dc.allocate_time(&job.host, &storage)).await?;
                drive.set("media", "cdrom");
                job.dc.with(|state| {
                    let made =
                        state.allocate(&job.host, &storage, vmid, "qcow2", TPM_SIZE, Blob::default())?;
                    state.name_cloudinit(&job.host, &made, vmid)
                })?
            }
            Wish::New { storage, gib } => {
                let (size, default) = match vmconfig::indexed(&option).0 {
                    "efidisk" => (EFI_SIZE, "raw"),
                    "tpmstate" => (TPM_SIZE, "raw"),
                    _ => ((gib * f64::from(1u32 << 30)) as u64, "raw"),
                };
                let format = drive.take("format").unwrap_or_else(|| default.into());
                let _lock = job.until(job.dc.lock_storage(&job.host, &storage)).await??;
                job.pass(job.dc.allocate_time(&job.host, &storage)).await?;
                job.dc
                    .with(|state| state.allocate(&job.host, &storage, vmid, &format, size, Blob::default()))?
            }
            Wish::Import { storage, source } => {
                drive.take("import-from");
                import(job, vmid, &storage, &source, drive.take("format")).await?
            }
        };
        made.push(created.clone());
        let size = job.dc.with(|state| shown_size(state, &job.host, &created));
        drive.bare = Some(created);
        if let Some(size) = size {
            drive.set("size", print_size(size));
        }
        job.log(format!("{option}: successfully created disk '{}'", drive.print()));
        result.insert(option, drive.print());
    }
    Ok(result)
}

async fn import(
    job: &Job,
    vmid: u32,
    storage: &str,
    source: &str,
    format: Option<String>,
) -> Result<String, Stop> {
    let found = job.dc.with(|state| state.volume(&job.host, source).cloned());
    let Some(volume) = found else {
        let (store, name) = source.split_once(':').unwrap_or(("", source));
        let path = job.dc.with(|state| state.volume_path(store, name));
        return Err(Stop::error(format!("failed to stat '{path}'")));
    };
    job.log(format!("create full clone of drive ({source})"));
    let size = volume.disk_size();
    let format = format.unwrap_or_else(|| volume.format.clone());
    let volid = {
        let _lock = job.until(job.dc.lock_storage(&job.host, storage)).await??;
        job.pass(job.dc.allocate_time(&job.host, storage)).await?;
        job.dc.with(|state| state.allocate(&job.host, storage, vmid, &format, size, volume.bytes.clone()))?
    };
    job.log(format!("allocated target volume '{volid}'"));
    let copied = copy_time(job, size);
    if let Err(stop) = job.pass(copied).await {
        job.dc.with(|state| state.remove_volume(&job.host, &volid));
        return Err(stop);
    }
    let mib = size as f64 / f64::from(1u32 << 20);
    job.log(format!("transferred {mib:.1} MiB of {mib:.1} MiB (100.00%)"));
    Ok(volid)
}

/// How long copying so many bytes of virtual disk takes.
pub(super) fn copy_time(job: &Job, size: u64) -> std::time::Duration {
    job.dc.durations().copy_gib.mul_f64(size as f64 / f64::from(1u32 << 30))
}

/// A drive that names a volume or no medium: gains `size`, keys sorted.
pub(super) fn existing_drive(job: &Job, option: &str, value: &str) -> Result<String, Fail> {
    job.dc.with(|state| normal_drive(state, &job.host, option, value))
}

/// The stored form of a drive that names a volume or no medium.
pub(super) fn normal_drive(state: &State, host: &str, option: &str, value: &str) -> Result<String, Fail> {
    let mut drive = Properties::parse(value);
    if drive.bare.is_none() {
        drive.bare = drive.take("file");
    }
    let Some(volid) = drive.bare.clone().filter(|file| file.contains(':')) else { return Ok(drive.print()) };
    let (storage, name) = volid.split_once(':').unwrap_or_default();
    state.store_key(host, storage)?;
    match state.volume(host, &volid) {
        Some(_) => {
            if let Some(size) = shown_size(state, host, &volid) {
                drive.set("size", print_size(size));
            }
        }
        // Proxmox only warns about a medium that is not there; the next start fails.
        None if vmconfig::is_cdrom(value) => {
            drive.take("size");
        }
        None => {
            let path = state.volume_path(storage, name);
            return Err(Fail::internal(format!(
                "can't use {option}: volume '{volid}' does not exist ({path})"
            )));
        }
    }
    Ok(drive.print())
}

/// The size of a volume where a VM's configuration tells it.
fn shown_size(state: &State, host: &str, volid: &str) -> Option<u64> {
    let (id, _) = volid.split_once(':')?;
    let silent = vmconfig::is_cloudinit(volid) && !state.storages.get(id)?.tells_cloudinit_size();
    state.volume(host, volid).filter(|_| !silent).map(|volume| volume.size)
}

/// The size that a drive's value tells.
pub(super) fn drive_size(value: &str) -> u64 {
    Properties::parse(value).get("size").and_then(parse_size).unwrap_or(0)
}
