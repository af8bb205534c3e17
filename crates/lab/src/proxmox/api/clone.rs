//! Cloning a VM, linked or full.

use crate::proxmox::blob::Blob;
use crate::proxmox::context::Context;
use crate::proxmox::disks::copy_time;
use crate::proxmox::fail::{Answer, Fail};
use crate::proxmox::kinds::LinkedClone;
use crate::proxmox::property::{Nic, Properties};
use crate::proxmox::schema::{Kind, NAME, STORAGE, VMID, opt, req, verify};
use crate::proxmox::state::{Config, State, Vm, Volume};
use crate::proxmox::tasks::{Job, Stop};
use crate::proxmox::vmconfig;

/// `POST …/clone`
pub(super) async fn start(context: &Context, host: &str, vmid: u32) -> Answer {
    context.need(&format!("/vms/{vmid}"), &["VM.Clone"])?;
    verify(
        &context.params,
        &[
            req("newid", VMID),
            opt("name", NAME),
            opt("description", Kind::Text),
            opt("pool", Kind::Text),
            opt("snapname", Kind::Text),
            opt("storage", STORAGE),
            opt("format", Kind::OneOf(&["raw", "qcow2", "vmdk"])),
            opt("full", Kind::Bool),
            opt("target", Kind::Text),
            opt("bwlimit", Kind::Int(0, i64::MAX)),
        ],
    )?;
    let newid = super::vmid(context.param("newid").unwrap_or_default())?;
    let pool = context.param("pool").map(str::to_owned);
    if let Some(pool) = &pool
        && !context.dc.with(|state| state.pools.contains_key(pool))
    {
        return Err(Fail::new(403, format!("Permission check failed (pool '{pool}' does not exist)")));
    }
    context.need_vm(newid, pool.as_deref(), &["VM.Allocate"])?;
    let target = context.param("target").unwrap_or(host).to_owned();
    if !context.dc.with(|state| state.hosts.contains_key(&target)) {
        return Err(Fail::internal(format!("no such cluster node '{target}'")));
    }
    let durations = context.dc.durations();
    let (running, template) =
        context.dc.with(|state| state.vm(host, vmid).map(|vm| (vm.running.is_some(), vm.is_template())))?;
    let full = context.param("full").map_or(!template, |value| value == "1");
    if !full {
        can_link(context, template)?;
    }
    let lock = if running {
        context.dc.lock_guest(vmid, durations.short_lock).await?
    } else {
        context.dc.share_guest(vmid, durations.short_lock).await?
    };
    let storage = context.param("storage").map(str::to_owned);
    let order = context.dc.with(|state| {
        let source = state.vm(host, vmid)?.clone();
        source.check_lock()?;
        if state.vms.contains_key(&newid) {
            return Err(Fail::internal(format!("unable to create VM {newid}: config file already exists")));
        }
        check_storages(state, context, host, &target, &source, storage.as_deref())?;
        if !full {
            check_links(state, &source)?;
        }
        check_nics(state, context, &source)?;
        let config = Config::from([
            ("lock".to_owned(), "clone".to_owned()),
            ("description".to_owned(), " qmclone temporary file".to_owned()),
        ]);
        let vm = Vm::new(host, config);
        state.vms.insert(newid, vm);
        Ok(Order {
            vmid,
            newid,
            name: context.param("name").map(str::to_owned),
            description: context.param("description").map(str::to_owned),
            pool: pool.clone(),
            storage: storage.clone(),
            format: context.param("format").map(str::to_owned),
            full,
            target: target.clone(),
            source,
        })
    })?;
    // The source's lock is held by the worker until it is done.
    context.fork(host, "qmclone", &vmid.to_string(), |job| async move {
        let _lock = lock;
        order.run(job).await
    })
}

/// What a linked clone does not take, and what there is none of.
fn can_link(context: &Context, template: bool) -> Result<(), Fail> {
    if let Some(name) = ["storage", "format"].into_iter().find(|name| context.param(name).is_some()) {
        return Err(Fail::internal(format!("parameter '{name}' not allowed for linked clones")));
    }
    match template {
        true => Ok(()),
        false => Err(Fail::internal("Linked clone feature is not supported for non-template VMs")),
    }
}

fn check_storages(
    state: &State,
    context: &Context,
    host: &str,
    target: &str,
    source: &Vm,
    wanted: Option<&str>,
) -> Result<(), Fail> {
    for (_, value) in vmconfig::drives(&source.config) {
        if vmconfig::is_cdrom(&value) {
            continue;
        }
        let Some(volid) = vmconfig::drive_volume(&value) else { continue };
        let own = volid.split(':').next().unwrap_or_default();
        let id = wanted.unwrap_or(own);
        let path = format!("/storage/{id}");
        if !state.privileges(&context.who, &path).has("Datastore.AllocateSpace") {
            return Err(Fail::forbidden(&path, "Datastore.AllocateSpace"));
        }
        state.store_key(target, id)?;
        if target != host && state.storages.get(own).is_some_and(|storage| !storage.shared) {
            return Err(Fail::internal(format!("can't clone VM to node '{target}' (VM uses local storage)")));
        }
    }
    Ok(())
}

/// Every disk must be on a storage that has linked clones.
fn check_links(state: &State, source: &Vm) -> Result<(), Fail> {
    for (option, value) in vmconfig::drives(&source.config) {
        let Some(volid) = vmconfig::drive_volume(&value).filter(|_| !vmconfig::is_cdrom(&value)) else {
            continue;
        };
        let storage = volid.split(':').next().and_then(|id| state.storages.get(id));
        if storage.is_some_and(|storage| storage.linked_clone() == LinkedClone::Refused) {
            return Err(Fail::internal(format!(
                "Linked clone feature is not supported for '{volid}' ({option})"
            )));
        }
    }
    Ok(())
}

fn check_nics(state: &State, context: &Context, source: &Vm) -> Result<(), Fail> {
    for (name, value) in &source.config {
        if matches!(vmconfig::indexed(name), ("net", Some(_)))
            && let Some(nic) = Nic::parse(value)
            && let Some(bridge) = nic.bridge()
        {
            let path = state.bridge_path(bridge);
            if !state.privileges(&context.who, &path).has("SDN.Use") {
                return Err(Fail::forbidden(&path, "SDN.Use"));
            }
        }
    }
    Ok(())
}

struct Order {
    vmid: u32,
    newid: u32,
    name: Option<String>,
    description: Option<String>,
    pool: Option<String>,
    storage: Option<String>,
    format: Option<String>,
    full: bool,
    target: String,
    source: Vm,
}

impl Order {
    async fn run(self, job: Job) -> Result<(), Stop> {
        job.log(format!("creating a clone of VM {} with ID {}", self.vmid, self.newid));
        let mut made = Vec::new();
        match self.build(&job, &mut made).await {
            Ok(()) => {}
            Err(Stop::Killed) => return Err(Stop::Killed),
            Err(stop) => {
                job.dc.with(|state| {
                    made.iter().for_each(|volid| drop(state.remove_volume(&job.host, volid)));
                    state.vms.remove(&self.newid);
                });
                return Err(stop.prefixed("clone failed: "));
            }
        }
        job.dc.with(|state| {
            if let Some(vm) = state.vms.get_mut(&self.newid) {
                vm.config.remove("lock");
                vm.host.clone_from(&self.target);
            }
            if let Some(pool) = &self.pool {
                state.pool_of.insert(self.newid, pool.clone());
            }
        });
        Ok(())
    }

    async fn build(&self, job: &Job, made: &mut Vec<String>) -> Result<(), Stop> {
        let mut config = self.new_config(job);
        job.pass(job.dc.durations().create).await?;
        for (option, value) in vmconfig::drives(&self.source.config) {
            if vmconfig::is_cdrom(&value) {
                continue;
            }
            let Some(volid) = vmconfig::drive_volume(&value) else { continue };
            let new = self.copy(job, &option, &volid).await?;
            made.push(new.clone());
            let identity = |volid: &str| {
                job.dc.with(|state| state.volume(&job.host, volid).map(|volume| volume.identity.clone()))
            };
            if let (Some(from), Some(to)) = (identity(&volid), identity(&new)) {
                job.dc.guests().copied(&from, &to);
            }
            let mut drive = Properties::parse(&value);
            drive.bare = Some(new);
            config.insert(option, drive.print());
            // From the first disk on the clone shows what it is going to be.
            job.dc.with(|state| {
                if let Some(vm) = state.vms.get_mut(&self.newid) {
                    vm.config.clone_from(&config);
                }
            });
            job.checkpoint()?;
        }
        job.dc.with(|state| {
            if let Some(vm) = state.vms.get_mut(&self.newid) {
                vm.config = config;
            }
        });
        Ok(())
    }

    /// Everything is inherited but name, MACs, uuid and the template mark.
    fn new_config(&self, job: &Job) -> Config {
        job.dc.with(|state| {
            let mut config = self.source.config.clone();
            config.retain(|name, _| !name.starts_with("unused"));
            for name in ["template", "parent", "snaptime"] {
                config.remove(name);
            }
            config.insert("lock".into(), "clone".into());
            let name =
                self.name.clone().unwrap_or_else(|| format!("Copy-of-VM-{}", self.source.name(self.vmid)));
            config.insert("name".into(), name);
            if let Some(text) = &self.description {
                config.insert("description".into(), text.trim_end().to_owned());
            }
            let nets: Vec<String> =
                config.keys().filter(|name| vmconfig::indexed(name).0 == "net").cloned().collect();
            for net in nets {
                if let Some(mut nic) = config.get(&net).and_then(|value| Nic::parse(value)) {
                    nic.mac = Some(state.rng.mac());
                    config.insert(net, nic.print());
                }
            }
            let mut smbios = config.get("smbios1").map(|text| Properties::parse(text)).unwrap_or_default();
            smbios.set("uuid", state.rng.uuid());
            config.insert("smbios1".into(), smbios.print());
            config.insert("vmgenid".into(), state.rng.uuid());
            config
        })
    }

    async fn copy(&self, job: &Job, option: &str, volid: &str) -> Result<String, Stop> {
        let source = job
            .dc
            .with(|state| state.volume(&job.host, volid).cloned())
            .ok_or_else(|| Stop::error(format!("volume '{volid}' does not exist")))?;
        let (own, name) = volid.split_once(':').unwrap_or_default();
        if self.full {
            job.log(format!("create full clone of drive {option} ({volid})"));
            let storage = self.storage.as_deref().unwrap_or(own);
            let format = self.format.clone().unwrap_or_else(|| source.format.clone());
            let new = {
                let _lock = job.until(job.dc.lock_storage(&job.host, storage)).await??;
                job.pass(job.dc.allocate_time(&job.host, storage)).await?;
                let bytes = source.bytes.clone();
                job.dc.with(|state| {
                    state.allocate(&job.host, storage, self.newid, &format, source.size, bytes)
                })?
            };
            if let Err(stop) = job.pass(copy_time(job, source.size)).await {
                job.dc.with(|state| state.remove_volume(&job.host, &new));
                return Err(stop);
            }
            return Ok(new);
        }
        job.log(format!("create linked clone of drive {option} ({volid})"));
        let _lock = job.until(job.dc.lock_storage(&job.host, own)).await??;
        job.pass(job.dc.allocate_time(&job.host, own)).await?;
        Ok(job.dc.with(|state| self.link(state, &job.host, own, name, &source))?)
    }

    /// A linked clone's name contains its base's, except on a thin pool.
    fn link(
        &self,
        state: &mut State,
        host: &str,
        own: &str,
        base: &str,
        source: &Volume,
    ) -> Result<String, Fail> {
        let plain = state.allocate(host, own, self.newid, "qcow2", source.size, Blob::default())?;
        let Some(mut volume) = state.remove_volume(host, &plain) else {
            return Err(Fail::internal(format!("volume '{plain}' does not exist")));
        };
        volume.bytes = source.bytes.clone();
        let (_, own_name) = plain.split_once(':').unwrap_or_default();
        let named = state.storages.get(own).is_some_and(|own| own.linked_clone() == LinkedClone::Named);
        let name = match named {
            true => format!("{base}/{own_name}"),
            false => own_name.to_owned(),
        };
        volume.parent = named.then(|| base.to_owned());
        state.store_mut(host, own)?.volumes.insert(name.clone(), volume);
        Ok(format!("{own}:{name}"))
    }
}
