//! A VM's configuration: reading it with and without pending changes, and changing it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::create::{check_boot_order, check_bridges, check_drives, check_options, give_macs};
use super::rows;
use crate::proxmox::context::Context;
use crate::proxmox::disks::{create_disks, normal_drive};
use crate::proxmox::fail::{Answer, Data, Fail};
use crate::proxmox::property::{Properties, normal_tags};
use crate::proxmox::schema::{Kind, STORAGE, opt, verify, verify_with};
use crate::proxmox::state::{Config, State};
use crate::proxmox::tasks::{Job, Stop};
use crate::proxmox::vmconfig;

/// `GET …/config`
pub(super) fn show(context: &Context, host: &str, vmid: u32) -> Answer {
    context.need(&format!("/vms/{vmid}"), &["VM.Audit"])?;
    verify(&context.params, &[opt("current", Kind::Bool), opt("snapshot", Kind::Text)])?;
    context.dc.with(|state| {
        let vm = state.vm(host, vmid)?;
        let config = match context.param("snapshot") {
            Some(name) => super::snapshot::config_of(vm, name)?,
            None if context.flag("current") => vm.config.clone(),
            None => vm.wanted(),
        };
        let mut shown = vmconfig::to_json(&config);
        shown.insert("digest".into(), vm.digest().into());
        Ok(Data::from(Value::Object(shown)))
    })
}

/// `GET …/pending`
pub(super) fn pending(context: &Context, host: &str, vmid: u32) -> Answer {
    context.need(&format!("/vms/{vmid}"), &["VM.Audit"])?;
    context.dc.with(|state| {
        let vm = state.vm(host, vmid)?;
        let mut shown = vec![json!({ "key": "digest", "value": vm.digest() })];
        for (key, value) in &vm.config {
            let mut row = json!({ "key": key, "value": vmconfig::typed(key, value) });
            match vm.pending.get(key) {
                Some(Some(new)) => row["pending"] = vmconfig::typed(key, new),
                Some(None) => row["delete"] = 1.into(),
                None => {}
            }
            shown.push(row);
        }
        for (key, value) in vm.pending.iter().filter(|(key, _)| !vm.config.contains_key(*key)) {
            if let Some(new) = value {
                shown.push(json!({ "key": key, "pending": vmconfig::typed(key, new) }));
            }
        }
        rows(shown)
    })
}

/// A checked change.
struct Change {
    vmid: u32,
    set: Config,
    delete: Vec<String>,
    revert: Vec<String>,
    digest: Option<String>,
}

const ANY_CONFIG: &[&str] = &[
    "VM.Config.Disk",
    "VM.Config.CDROM",
    "VM.Config.CPU",
    "VM.Config.Memory",
    "VM.Config.Network",
    "VM.Config.HWType",
    "VM.Config.Options",
    "VM.Config.Cloudinit",
];

fn list(text: Option<&str>) -> Vec<String> {
    let parts = text.unwrap_or_default().split([',', ';', ' ', '\0']);
    parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn checked(context: &Context, host: &str, vmid: u32) -> Result<Change, Fail> {
    context.need(&format!("/vms/{vmid}"), ANY_CONFIG)?;
    let rules = [
        opt("delete", Kind::Text),
        opt("revert", Kind::Text),
        opt("digest", Kind::Text),
        opt("force", Kind::Bool),
        opt("skiplock", Kind::Bool),
        opt("background_delay", Kind::Int(1, 30)),
        opt("import-working-storage", STORAGE),
    ];
    verify_with(&context.params, &rules, vmconfig::option_kind)?;
    if context.flag("skiplock") && !context.who.is_root() {
        return Err(Fail::parameter("skiplock", "Only root may use this option."));
    }
    let mut set: Config = context
        .params
        .iter()
        .filter(|(name, _)| vmconfig::option_kind(name).is_some())
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let delete = list(context.param("delete"));
    let revert = list(context.param("revert"));
    if set.is_empty() && delete.is_empty() && revert.is_empty() {
        return Err(Fail::internal("no options specified"));
    }
    for (parameter, names) in [("delete", &delete), ("revert", &revert)] {
        for name in names {
            if vmconfig::option_kind(name).is_none() {
                return Err(Fail::parameter(parameter, format!("unknown option '{name}'")));
            }
            if set.contains_key(name) {
                let text = format!("you can't use '-{name}' and -{parameter} {name}' at the same time");
                return Err(Fail::parameter(parameter, text));
            }
        }
    }
    context.dc.with(|state| state.vm(host, vmid).map(|_| ()))?;
    check_options(context, vmid, None, delete.iter().chain(&revert), false)?;
    check_options(context, vmid, None, set.keys(), false)?;
    check_drives(context, host, &set)?;
    check_bridges(context, &set)?;
    give_macs(context, &mut set)?;
    if let Some(tags) = set.get_mut("tags") {
        *tags = normal_tags(tags);
    }
    if let Some(text) = set.get_mut("description") {
        *text = text.trim_end().to_owned();
    }
    Ok(Change { vmid, set, delete, revert, digest: context.param("digest").map(str::to_owned) })
}

/// `PUT …/config`
pub(super) async fn put(context: &Context, host: &str, vmid: u32) -> Answer {
    let change = checked(context, host, vmid)?;
    let job = Job::inline(&context.dc, host, &context.who);
    match change.run(job).await {
        Ok(problems) if problems.is_empty() => Data::null(),
        Ok(problems) => Err(Fail::parameters(problems.into_iter().collect())),
        Err(Stop::Error(text)) => Err(Fail::internal(text)),
        Err(Stop::Killed) => Err(Fail::internal("unexpected status")),
    }
}

/// `POST …/config`
pub(super) fn post(context: &Context, host: &str, vmid: u32) -> Answer {
    let change = checked(context, host, vmid)?;
    context.fork(host, "qmconfig", &vmid.to_string(), |job| async move {
        match change.run(job).await?.into_iter().next() {
            None => Ok(()),
            Some((option, problem)) => Err(Stop::error(format!("{option}: {problem}"))),
        }
    })
}

impl Change {
    /// Says which options could not be hot-plugged. They stay pending.
    async fn run(self, job: Job) -> Result<BTreeMap<String, String>, Stop> {
        let vmid = self.vmid;
        let _lock = job.until(job.dc.lock_guest(vmid, job.dc.durations().long_lock)).await??;
        job.dc.with(|state| {
            let vm = state.vm(&job.host, vmid)?;
            if self.digest.as_ref().is_some_and(|digest| *digest != vm.digest()) {
                return Err(Fail::internal("checksum mismatch (file change by other user?)"));
            }
            vm.check_lock()?;
            let mut merged = vm.wanted();
            merged.extend(self.set.clone());
            for name in &self.delete {
                merged.remove(name);
            }
            if self.set.contains_key("boot") { check_boot_order(&merged) } else { Ok(()) }
        })?;
        let mut made = Vec::new();
        let mut set = self.set.clone();
        let new_disks: Config = self
            .set
            .iter()
            .filter(|(name, _)| vmconfig::is_drive(name))
            .map(|(n, v)| (n.clone(), v.clone()))
            .collect();
        match create_disks(&job, vmid, &new_disks, &mut made).await {
            Ok(created) => set.extend(created),
            Err(Stop::Killed) => return Err(Stop::Killed),
            Err(stop) => {
                job.dc
                    .with(|state| made.iter().for_each(|volid| drop(state.remove_volume(&job.host, volid))));
                return Err(stop);
            }
        }
        job.checkpoint()?;
        let after = job.dc.with(|state| self.apply(state, &job.host, set))?;
        let problems = after.problems;
        for identity in after.forgotten {
            job.dc.guests().forget(&identity);
        }
        if let Some(cdroms) = after.media {
            job.dc.guests().media_changed(vmid, cdroms);
        }
        Ok(problems)
    }

    fn apply(&self, state: &mut State, host: &str, set: Config) -> Result<After, Fail> {
        let mut after = After::default();
        let running = state.vm(host, self.vmid)?.running.is_some();
        for name in &self.revert {
            state.vm_mut(host, self.vmid)?.pending.remove(name);
        }
        for name in &self.delete {
            self.delete_option(state, host, name, running, &mut after)?;
        }
        for (name, value) in set {
            self.set_option(state, host, name, value, running, &mut after)?;
        }
        if after.media_touched && running {
            let vm = state.vm(host, self.vmid)?;
            if vm.running.as_ref().is_some_and(|running| running.inhabited) {
                after.media = Some(state.cdroms(vm));
            }
        }
        Ok(after)
    }

    fn delete_option(
        &self,
        state: &mut State,
        host: &str,
        name: &str,
        running: bool,
        after: &mut After,
    ) -> Result<(), Fail> {
        let vm = state.vm_mut(host, self.vmid)?;
        vm.pending.remove(name);
        let Some(value) = vm.config.get(name).cloned() else { return Ok(()) };
        if vm.config.get("protection").is_some_and(|flag| flag == "1") {
            let what = match name.starts_with("unused") {
                true => Some(format!("unused disk '{value}'")),
                false => vmconfig::is_drive(name).then(|| format!("drive '{name}'")),
            };
            if let Some(what) = what {
                return Err(Fail::internal(format!("can't remove {what} - protection mode enabled")));
            }
        }
        if name.starts_with("unused") {
            vm.config.remove(name);
            if let Some(volume) =
                vmconfig::drive_volume(&value).and_then(|volid| state.remove_volume(host, &volid))
            {
                after.forgotten.push(volume.identity);
            }
            return Ok(());
        }
        if vmconfig::is_drive(name) {
            let order: Vec<String> =
                vmconfig::boot_order(&vm.config).into_iter().filter(|one| one != name).collect();
            let boot = format!("order={}", order.join(";"));
            let had = vmconfig::boot_order(&vm.config).iter().any(|one| one == name);
            if running && vmconfig::is_cdrom(&value) {
                vm.pending.insert(name.into(), None);
                if had {
                    vm.pending.insert("boot".into(), Some(boot));
                }
                return Ok(());
            }
            vm.config.remove(name);
            if had {
                vm.config.insert("boot".into(), boot);
            }
            if !vmconfig::is_cdrom(&value) {
                keep_as_unused(&mut vm.config, &value);
            }
            return Ok(());
        }
        if running && !hot_plugs(&vm.config, name) {
            vm.pending.insert(name.into(), None);
        } else {
            vm.config.remove(name);
        }
        Ok(())
    }

    fn set_option(
        &self,
        state: &mut State,
        host: &str,
        name: String,
        value: String,
        running: bool,
        after: &mut After,
    ) -> Result<(), Fail> {
        let value = if vmconfig::is_drive(&name) { normal_drive(state, host, &name, &value)? } else { value };
        let vm = state.vm_mut(host, self.vmid)?;
        if vmconfig::is_drive(&name) {
            let cdrom = vmconfig::is_cdrom(&value);
            match vm.config.get(&name).cloned() {
                Some(old)
                    if !vmconfig::is_cdrom(&old)
                        && vmconfig::drive_volume(&old) != vmconfig::drive_volume(&value) =>
                {
                    keep_as_unused(&mut vm.config, &old);
                }
                // The drive for cloud-init is of no use to anybody once it is taken out.
                Some(old)
                    if vmconfig::is_cloudinit(&old)
                        && vmconfig::drive_volume(&old) != vmconfig::drive_volume(&value) =>
                {
                    let volid = vmconfig::drive_volume(&old).unwrap_or_default();
                    drop(state.remove_volume(host, &volid));
                }
                _ => {}
            }
            let vm = state.vm_mut(host, self.vmid)?;
            // Whatever is put into a CD drive, or taken out, makes it one to boot from.
            if cdrom && vm.config.contains_key("boot") {
                let mut order = vmconfig::boot_order(&vm.wanted());
                if !order.contains(&name) {
                    order.push(name.clone());
                    let boot = format!("order={}", order.join(";"));
                    match running {
                        true => drop(vm.pending.insert("boot".into(), Some(boot))),
                        false => drop(vm.config.insert("boot".into(), boot)),
                    }
                }
            }
            if running && !cdrom && !hot_plugs(&vm.config, &name) {
                vm.pending.insert(name, Some(value));
                return Ok(());
            }
            after.media_touched |= cdrom;
            vm.pending.remove(&name);
            vm.config.insert(name, value);
            return Ok(());
        }
        if name == "description" && value.is_empty() || name == "tags" && value.is_empty() {
            vm.config.remove(&name);
            return Ok(());
        }
        let portless = state.hosts.get(host).map(|host| host.portless.clone()).unwrap_or_default();
        let vm = state.vm_mut(host, self.vmid)?;
        let problem = running.then(|| hot_plug_problem(&portless, &name, &value)).flatten();
        if running && (problem.is_some() || !hot_plugs(&vm.config, &name)) {
            if let Some(problem) = problem {
                after.problems.insert(name.clone(), format!("hotplug problem - {problem}\n"));
            }
            if vm.config.get(&name) == Some(&value) {
                vm.pending.remove(&name);
            } else {
                vm.pending.insert(name, Some(value));
            }
        } else {
            vm.pending.remove(&name);
            vm.config.insert(name, value);
        }
        Ok(())
    }
}

/// What must be told to the guests once the state is written.
#[derive(Default)]
struct After {
    media_touched: bool,
    media: Option<Vec<Vec<u8>>>,
    forgotten: Vec<String>,
    /// Options that could not be hot-plugged, and why.
    problems: BTreeMap<String, String>,
}

/// Whether a running VM takes an option at once: always, or because its `hotplug` setting says so.
fn hot_plugs(config: &Config, name: &str) -> bool {
    let features = match config.get("hotplug").map_or("1", String::as_str) {
        "1" => "network,disk,usb",
        features => features,
    };
    let plugs = |feature: &str| features.split(',').any(|one| one == feature);
    match (vmconfig::indexed(name), name) {
        (("net", Some(_)), _) => plugs("network"),
        (("usb", Some(_)), _) => plugs("usb"),
        (("scsi" | "virtio", Some(_)), _) => plugs("disk"),
        (_, "memory") => plugs("memory"),
        (_, "vcpus") => plugs("cpu"),
        (
            _,
            "name" | "description" | "tags" | "onboot" | "protection" | "startup" | "shares"
            | "vmstatestorage" | "hookscript" | "lock" | "migrate_downtime" | "migrate_speed" | "cpulimit"
            | "cpuunits" | "cicustom" | "cipassword" | "citype" | "ciupgrade" | "ciuser" | "nameserver"
            | "searchdomain" | "sshkeys",
        )
        | (("ipconfig", Some(_)), _) => true,
        _ => false,
    }
}

/// Why an option cannot be hot-plugged, in Proxmox's words.
fn hot_plug_problem(portless: &BTreeSet<String>, name: &str, value: &str) -> Option<String> {
    let card = matches!(vmconfig::indexed(name), ("net", Some(_)));
    card.then(|| vlan_problem(portless, value)).flatten()
}

/// Why a network card cannot be plugged in: a VLAN needs a way out of the host.
pub(super) fn vlan_problem(portless: &BTreeSet<String>, value: &str) -> Option<String> {
    let properties = Properties::parse(value);
    let bridge = properties.get("bridge").filter(|bridge| portless.contains(*bridge))?;
    properties.get("tag")?;
    Some(format!("no physical interface on bridge '{bridge}'"))
}

fn keep_as_unused(config: &mut Config, value: &str) {
    let Some(volid) = vmconfig::drive_volume(value) else { return };
    let free = (0..).map(|index| format!("unused{index}")).find(|name| !config.contains_key(name));
    if let Some(name) = free {
        config.insert(name, volid);
    }
}
