//! Snapshots of a VM: its configuration and its disks as they were, to come back to.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::rows;
use crate::proxmox::context::Context;
use crate::proxmox::fail::{Answer, Data, Fail};
use crate::proxmox::schema::{Kind, Rule, opt, req, verify};
use crate::proxmox::state::{Config, State, Vm, Volume};
use crate::proxmox::tasks::{Job, Stop};
use crate::proxmox::vmconfig;

/// What a VM was at one moment.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    config: Config,
    description: String,
    taken: i64,
    parent: Option<String>,
    with_memory: bool,
    /// Its disks by volume id.
    volumes: BTreeMap<String, Volume>,
}

impl Snapshot {
    /// Under which name a disk's inner state is set aside.
    fn aside(identity: &str, name: &str) -> String {
        format!("{identity}@{name}")
    }

    /// The names of all that was set aside for it.
    pub(super) fn identities(&self, name: &str) -> Vec<String> {
        self.volumes.values().map(|volume| Self::aside(&volume.identity, name)).collect()
    }
}

/// The option that names the snapshot which the current state comes from.
const PARENT: &str = "parent";

/// `…/snapshot` and what is below it.
pub(super) fn dispatch(context: &Context, host: &str, vmid: u32, parts: &[&str]) -> Answer {
    match (context.method.as_str(), parts) {
        ("GET", []) => list(context, host, vmid),
        ("POST", []) => create(context, host, vmid),
        ("GET", [name]) => {
            verify(&context.params, &[])?;
            find(context, host, vmid, name)?;
            rows(vec![json!({"cmd": "config"}), json!({"cmd": "rollback"})])
        }
        ("DELETE", [name]) => delete(context, host, vmid, name),
        ("GET", [name, "config"]) => show(context, host, vmid, name),
        ("PUT", [name, "config"]) => describe(context, host, vmid, name),
        ("POST", [name, "rollback"]) => rollback(context, host, vmid, name),
        _ => Err(super::unknown(context)),
    }
}

fn missing(name: &str) -> Fail {
    Fail::internal(format!("snapshot '{name}' does not exist"))
}

fn find(context: &Context, host: &str, vmid: u32, name: &str) -> Result<Snapshot, Fail> {
    context.dc.with(|state| state.vm(host, vmid)?.snapshots.get(name).cloned().ok_or_else(|| missing(name)))
}

fn list(context: &Context, host: &str, vmid: u32) -> Answer {
    context.need(&format!("/vms/{vmid}"), &["VM.Audit"])?;
    verify(&context.params, &[])?;
    context.dc.with(|state| {
        let vm = state.vm(host, vmid)?;
        let row = |(name, snapshot): (&String, &Snapshot)| {
            let mut row = json!({
                "name": name,
                "description": snapshot.description,
                "snaptime": snapshot.taken,
                "vmstate": u8::from(snapshot.with_memory),
            });
            if let Some(parent) = &snapshot.parent {
                row[PARENT] = parent.as_str().into();
            }
            row
        };
        let mut all: Vec<Value> = vm.snapshots.iter().map(row).collect();
        let mut current = json!({
            "name": "current",
            "description": "You are here!",
            "digest": vm.digest(),
            "running": u8::from(vm.running.is_some()),
        });
        if let Some(parent) = vm.config.get(PARENT) {
            current[PARENT] = parent.as_str().into();
        }
        all.push(current);
        rows(all)
    })
}

/// A name as Proxmox takes it for a snapshot.
fn good_name(name: &str) -> Result<(), Fail> {
    let letters = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let right =
        name.len() >= 2 && name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(letters);
    match (right, name.len()) {
        (false, _) => {
            Err(Fail::parameter("snapname", format!("invalid format - invalid configuration ID '{name}'\n")))
        }
        (true, 41..) => Err(Fail::parameter("snapname", "value may only be 40 characters long")),
        (true, _) => Ok(()),
    }
}

fn create(context: &Context, host: &str, vmid: u32) -> Answer {
    const RULES: &[Rule] =
        &[req("snapname", Kind::Text), opt("description", Kind::Text), opt("vmstate", Kind::Bool)];
    context.need(&format!("/vms/{vmid}"), &["VM.Snapshot"])?;
    verify(&context.params, RULES)?;
    let name = context.param("snapname").unwrap_or_default().to_owned();
    good_name(&name)?;
    if matches!(name.to_ascii_lowercase().as_str(), "current" | "pending") {
        return Err(Fail::internal(format!("unable to use snapshot name '{name}' (reserved name)")));
    }
    let description = context.param("description").unwrap_or_default().to_owned();
    let memory = context.flag("vmstate");
    context.fork(host, "qmsnapshot", &vmid.to_string(), move |job| async move {
        let _lock = job.until(job.dc.lock_guest(vmid, job.dc.durations().long_lock)).await??;
        job.dc.with(|state| {
            let vm = state.vm(&job.host, vmid)?;
            vm.check_lock()?;
            if vm.is_template() {
                return Err(Fail::internal("you can't take a snapshot if it's a template"));
            }
            if vm.snapshots.contains_key(&name) {
                return Err(Fail::internal(format!("snapshot name '{name}' already used")));
            }
            if !possible(state, &job.host, vm) {
                return Err(Fail::internal("snapshot feature is not available"));
            }
            state.vm_mut(&job.host, vmid)?.config.insert("lock".into(), "snapshot".into());
            Ok(())
        })?;
        let _held = Held { job: &job, vmid };
        job.pass(job.dc.durations().allocate).await?;
        let kept = job.dc.with(|state| take(state, &job.host, vmid, &name, description, memory))?;
        for identity in kept {
            job.dc.guests().set_aside(&identity, &Snapshot::aside(&identity, &name));
        }
        Ok(())
    })
}

/// Takes the lock off again, however the work ends.
struct Held<'a> {
    job: &'a Job,
    vmid: u32,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.job.dc.with(|state| {
            if let Some(vm) = state.vms.get_mut(&self.vmid) {
                vm.config.remove("lock");
            }
        });
    }
}

/// The disks of a VM.
fn disks(config: &Config) -> Vec<String> {
    let drives = vmconfig::drives(config).into_iter().filter(|(_, value)| !vmconfig::is_cdrom(value));
    drives.filter_map(|(_, value)| vmconfig::drive_volume(&value)).collect()
}

/// Whether every disk is on a storage, and in a format, that knows snapshots.
fn possible(state: &State, host: &str, vm: &Vm) -> bool {
    disks(&vm.config).iter().all(|volid| {
        let kind = volid.split_once(':').and_then(|(storage, _)| state.storages.get(storage));
        let kind = kind.map_or("", |storage| storage.kind.as_str());
        match kind {
            "dir" | "nfs" | "cifs" => {
                state.volume(host, volid).is_some_and(|volume| volume.format == "qcow2")
            }
            "lvm" | "iscsi" => false,
            _ => true,
        }
    })
}

/// Keeps the state of a VM; returns the identities of its disks.
fn take(
    state: &mut State,
    host: &str,
    vmid: u32,
    name: &str,
    description: String,
    memory: bool,
) -> Result<Vec<String>, Fail> {
    let taken = state.now;
    let vm = state.vm(host, vmid)?.clone();
    let mut config = vm.config.clone();
    config.remove("lock");
    let parent = config.remove(PARENT);
    let volumes: BTreeMap<String, Volume> = disks(&config)
        .into_iter()
        .filter_map(|volid| Some((volid.clone(), state.volume(host, &volid)?.clone())))
        .collect();
    let identities = volumes.values().map(|volume| volume.identity.clone()).collect();
    let with_memory = memory && vm.running.is_some();
    let snapshot = Snapshot { config, description, taken, parent, with_memory, volumes };
    let vm = state.vm_mut(host, vmid)?;
    vm.snapshots.insert(name.to_owned(), snapshot);
    vm.config.insert(PARENT.into(), name.to_owned());
    Ok(identities)
}

fn show(context: &Context, host: &str, vmid: u32, name: &str) -> Answer {
    context.need(&format!("/vms/{vmid}"), &["VM.Snapshot", "VM.Snapshot.Rollback", "VM.Audit"])?;
    verify(&context.params, &[])?;
    let snapshot = find(context, host, vmid, name)?;
    let mut shown = vmconfig::to_json(&snapshot.config);
    shown.insert("snaptime".into(), snapshot.taken.into());
    if !snapshot.description.is_empty() {
        shown.insert("description".into(), snapshot.description.into());
    }
    if let Some(parent) = snapshot.parent {
        shown.insert(PARENT.into(), parent.into());
    }
    Ok(Data::from(Value::Object(shown)))
}

/// The configuration that a snapshot keeps.
pub(super) fn config_of(vm: &Vm, name: &str) -> Result<Config, Fail> {
    vm.snapshots.get(name).map(|snapshot| snapshot.config.clone()).ok_or_else(|| missing(name))
}

fn describe(context: &Context, host: &str, vmid: u32, name: &str) -> Answer {
    context.need(&format!("/vms/{vmid}"), &["VM.Snapshot"])?;
    verify(&context.params, &[opt("description", Kind::Text)])?;
    context.dc.with(|state| {
        let snapshot = state.vm_mut(host, vmid)?.snapshots.get_mut(name).ok_or_else(|| missing(name))?;
        if let Some(text) = context.param("description") {
            text.clone_into(&mut snapshot.description);
        }
        Data::null()
    })
}

fn delete(context: &Context, host: &str, vmid: u32, name: &str) -> Answer {
    context.need(&format!("/vms/{vmid}"), &["VM.Snapshot"])?;
    verify(&context.params, &[opt("force", Kind::Bool)])?;
    let name = name.to_owned();
    context.fork(host, "qmdelsnapshot", &vmid.to_string(), move |job| async move {
        let _lock = job.until(job.dc.lock_guest(vmid, job.dc.durations().long_lock)).await??;
        prepare(&job, vmid, &name, "snapshot-delete", "you can't delete a snapshot if vm is a template")?;
        let _held = Held { job: &job, vmid };
        job.pass(job.dc.durations().delete).await?;
        let gone = job.dc.with(|state| {
            let vm = state.vm_mut(&job.host, vmid)?;
            let gone = vm.snapshots.remove(&name).ok_or_else(|| missing(&name))?;
            // Whatever came from it comes from its parent now.
            for other in vm.snapshots.values_mut().filter(|other| other.parent.as_ref() == Some(&name)) {
                other.parent.clone_from(&gone.parent);
            }
            if vm.config.get(PARENT) == Some(&name) {
                match &gone.parent {
                    Some(parent) => vm.config.insert(PARENT.into(), parent.clone()),
                    None => vm.config.remove(PARENT),
                };
            }
            Ok::<_, Fail>(gone)
        })?;
        for identity in gone.identities(&name) {
            job.dc.guests().forget(&identity);
        }
        Ok(())
    })
}

fn prepare(job: &Job, vmid: u32, name: &str, lock: &str, template: &str) -> Result<(), Stop> {
    job.dc.with(|state| {
        let vm = state.vm_mut(&job.host, vmid)?;
        if vm.is_template() {
            return Err(Fail::internal(template));
        }
        if !vm.snapshots.contains_key(name) {
            return Err(missing(name));
        }
        vm.check_lock()?;
        vm.config.insert("lock".into(), lock.into());
        Ok(())
    })?;
    Ok(())
}

fn rollback(context: &Context, host: &str, vmid: u32, name: &str) -> Answer {
    context.need(&format!("/vms/{vmid}"), &["VM.Snapshot", "VM.Snapshot.Rollback"])?;
    verify(&context.params, &[opt("start", Kind::Bool)])?;
    let (name, start, who) = (name.to_owned(), context.flag("start"), context.who.clone());
    context.fork(host, "qmrollback", &vmid.to_string(), move |job| async move {
        let memory = {
            let _lock = job.until(job.dc.lock_guest(vmid, job.dc.durations().long_lock)).await??;
            prepare(&job, vmid, &name, "rollback", "you can't rollback if vm is a template")?;
            let _held = Held { job: &job, vmid };
            if job.dc.with(|state| state.vm(&job.host, vmid).map(|vm| vm.running.is_some()))? {
                job.pass(job.dc.durations().stop).await?;
                super::power::power_off(&job.dc, vmid);
            }
            job.pass(job.dc.durations().allocate).await?;
            let back = job.dc.with(|state| bring_back(state, &job.host, vmid, &name))?;
            for volume in back.volumes.values() {
                job.dc.guests().set_aside(&Snapshot::aside(&volume.identity, &name), &volume.identity);
            }
            back.with_memory
        };
        if start || memory {
            super::power::fork_start(&job.dc, &job.host, vmid, &who, None)?;
        }
        Ok(())
    })
}

fn bring_back(state: &mut State, host: &str, vmid: u32, name: &str) -> Result<Snapshot, Fail> {
    let snapshot = state.vm(host, vmid)?.snapshots.get(name).cloned().ok_or_else(|| missing(name))?;
    for (volid, volume) in &snapshot.volumes {
        let (storage, file) = volid.split_once(':').unwrap_or_default();
        state.store_mut(host, storage)?.volumes.insert(file.to_owned(), volume.clone());
    }
    let vm = state.vm_mut(host, vmid)?;
    vm.pending.clear();
    vm.config = snapshot.config.clone();
    vm.config.insert(PARENT.into(), name.to_owned());
    vm.config.insert("lock".into(), "rollback".into());
    Ok(snapshot)
}
