//! Making a VM: checks before the worker, the worker, and what is left when it fails.

use crate::proxmox::context::Context;
use crate::proxmox::disks::{Wish, create_disks};
use crate::proxmox::fail::{Answer, Fail};
use crate::proxmox::property::{Nic, normal_tags};
use crate::proxmox::schema::{Kind, STORAGE, VMID, opt, req, verify_with};
use crate::proxmox::state::{Config, Host, Vm};
use crate::proxmox::tasks::{Job, Stop};
use crate::proxmox::vmconfig;

/// `POST /nodes/{node}/qemu`
pub(super) async fn start(context: &Context, host: &str) -> Answer {
    let rules = [
        req("vmid", VMID),
        opt("pool", Kind::Text),
        opt("start", Kind::Bool),
        opt("storage", STORAGE),
        opt("force", Kind::Bool),
        opt("unique", Kind::Bool),
        opt("archive", Kind::Text),
        opt("bwlimit", Kind::Int(0, i64::MAX)),
        opt("ha-managed", Kind::Bool),
        opt("live-restore", Kind::Bool),
        opt("import-working-storage", STORAGE),
        opt("skiplock", Kind::Bool),
    ];
    verify_with(&context.params, &rules, vmconfig::option_kind)?;
    let vmid = super::vmid(context.param("vmid").unwrap_or_default())?;
    let pool = context.param("pool").map(str::to_owned);
    if let Some(pool) = &pool
        && !context.dc.with(|state| state.pools.contains_key(pool))
    {
        return Err(Fail::new(403, format!("Permission check failed (pool '{pool}' does not exist)")));
    }
    if context.flag("ha-managed") {
        context.need("/", &["Sys.Console"])?;
    }
    if context.flag("start") {
        context.need_vm(vmid, pool.as_deref(), &["VM.PowerMgmt"])?;
    }
    let allowed = context.may(&format!("/vms/{vmid}"), "VM.Allocate")
        || pool.as_ref().is_some_and(|pool| context.may(&format!("/pool/{pool}"), "VM.Allocate"));
    if !allowed {
        return Err(Fail::forbidden_bare());
    }
    let mut wanted: Config = context
        .params
        .iter()
        .filter(|(name, _)| vmconfig::option_kind(name).is_some())
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    check_drives(context, host, &wanted)?;
    check_options(context, vmid, pool.as_deref(), wanted.keys().filter(|name| *name != "tags"), true)?;
    check_bridges(context, &wanted)?;
    give_macs(context, &mut wanted)?;
    check_boot_order(&wanted)?;

    let lock = context.dc.lock_guest(vmid, context.dc.durations().short_lock).await;
    let lock =
        lock.map_err(|fail| Fail::internal(format!("unable to create VM {vmid} - {}", fail.reason)))?;
    context.dc.with(|state| {
        if let Some(vm) = state.vms.get(&vmid) {
            return Err(Fail::internal(format!(
                "unable to create VM {vmid} - VM {vmid} already exists on node '{}'",
                vm.host
            )));
        }
        let config = Config::from([("lock".to_owned(), "create".to_owned())]);
        let vm = Vm::new(host, config);
        state.vms.insert(vmid, vm);
        Ok(())
    })?;
    drop(lock);
    let order = Order { vmid, wanted, pool, start: context.flag("start") };
    context.fork(host, "qmcreate", &vmid.to_string(), |job| order.run(job))
}

/// Storages must exist, be allowed and fit; the same rules for create and config.
pub(super) fn check_drives(context: &Context, host: &str, wanted: &Config) -> Result<(), Fail> {
    for (option, value) in vmconfig::drives(wanted) {
        let wish = Wish::of(&option, &value)?;
        match &wish {
            Wish::New { storage, .. } | Wish::Import { storage, .. } | Wish::CloudInit { storage } => {
                context.need(&format!("/storage/{storage}"), &["Datastore.AllocateSpace"])?;
                context.dc.with(|state| {
                    state.store_key(host, storage)?;
                    let holds = state.storages.get(storage).is_some_and(|storage| storage.holds("images"));
                    if holds {
                        Ok(())
                    } else {
                        Err(Fail::parameter(
                            "storage",
                            format!("storage '{storage}' does not support vm images"),
                        ))
                    }
                })?;
            }
            Wish::Existing => {
                if let Some(volid) = vmconfig::drive_volume(&value) {
                    check_volume_access(context, host, &volid)?;
                }
            }
        }
        if let Wish::Import { source, .. } = &wish {
            check_import_source(context, host, &option, source)?;
        }
    }
    Ok(())
}

fn check_volume_access(context: &Context, host: &str, volid: &str) -> Result<(), Fail> {
    let (storage, name) = volid.split_once(':').unwrap_or_default();
    context.dc.with(|state| state.store_key(host, storage).map(|_| ()))?;
    if name.starts_with("iso/") || name.starts_with("import/") || name.starts_with("vztmpl/") {
        context.need(&format!("/storage/{storage}"), &["Datastore.AllocateSpace", "Datastore.Audit"])
    } else {
        context.need(&format!("/storage/{storage}"), &["Datastore.Allocate"])
    }
}

fn check_import_source(context: &Context, host: &str, option: &str, source: &str) -> Result<(), Fail> {
    let Some((storage, name)) = source.split_once(':') else {
        if source.starts_with('/') && context.who.is_root() {
            return Ok(());
        }
        return Err(Fail::internal("Only root can pass arbitrary filesystem paths."));
    };
    context.dc.with(|state| state.store_key(host, storage).map(|_| ()))?;
    let kind = match name.split_once('/') {
        Some(("iso", _)) => "iso",
        Some(("import", _)) => "import",
        Some(("vztmpl", _)) => "vztmpl",
        _ => "images",
    };
    match kind {
        "import" => check_volume_access(context, host, source),
        "images" => {
            let owner = context.dc.with(|state| state.volume(host, source).and_then(|volume| volume.vmid));
            match owner {
                Some(vmid) => context.need(&format!("/vms/{vmid}"), &["VM.Clone"]),
                None => Ok(()),
            }
        }
        kind => {
            let text = format!("{source} has wrong type '{kind}' - needs to be 'images' or 'import'");
            Err(Fail::parameter(option, text))
        }
    }
}

/// One privilege per class of option; some options only for root.
pub(super) fn check_options<'a>(
    context: &Context,
    vmid: u32,
    pool: Option<&str>,
    names: impl Iterator<Item = &'a String>,
    creating: bool,
) -> Result<(), Fail> {
    for name in names {
        if vmconfig::is_drive(name) {
            let value = context.param(name).unwrap_or_default();
            let cloud_init = vmconfig::is_cloudinit(value);
            if !cloud_init && !vmconfig::is_cdrom(value) {
                context.need_vm(vmid, pool, &["VM.Config.Disk"])?;
            } else if !creating {
                if cloud_init {
                    context.need_vm(vmid, pool, &["VM.Config.Cloudinit"])?;
                }
                context.need_vm(vmid, pool, &["VM.Config.CDROM"])?;
            }
            continue;
        }
        let any_of = vmconfig::option_privileges(name, &context.who).map_err(Fail::internal)?;
        if !any_of.is_empty() {
            context.need_vm(vmid, pool, any_of)?;
        }
        if name == "startup" {
            context.need("/", &["Sys.Modify"])?;
        }
        let value = context.param(name).unwrap_or_default();
        let mapping = value.split(',').find_map(|part| part.strip_prefix("mapping="));
        if let Some(mapping) = mapping.filter(|_| name.starts_with("hostpci")) {
            context.need(&format!("/mapping/pci/{mapping}"), &["Mapping.Use"])?;
        }
        let raw_device = name.starts_with("serial") && value != "socket" && !value.is_empty()
            || name.starts_with("hostpci") && !value.contains("mapping=") && !value.is_empty();
        if raw_device && !context.who.is_root() {
            return Err(Fail::internal(format!("only root can set '{name}' config for real devices")));
        }
    }
    Ok(())
}

/// `SDN.Use` on every bridge that is named, with its VLAN.
pub(super) fn check_bridges(context: &Context, wanted: &Config) -> Result<(), Fail> {
    for (name, value) in wanted {
        if !matches!(vmconfig::indexed(name), ("net", Some(_))) {
            continue;
        }
        let Some(nic) = Nic::parse(value) else { continue };
        if let Some(bridge) = nic.bridge() {
            let mut path = context.dc.with(|state| state.bridge_path(bridge));
            if let Some(tag) = nic.rest.get("tag") {
                path = format!("{path}/{tag}");
            }
            context.need(&path, &["SDN.Use"])?;
        }
    }
    Ok(())
}

/// A NIC without a MAC gets a new one, on every call that omits it.
pub(super) fn give_macs(context: &Context, wanted: &mut Config) -> Result<(), Fail> {
    for (name, value) in wanted.iter_mut() {
        if matches!(vmconfig::indexed(name), ("net", Some(_))) {
            let mut nic = Nic::parse(value)
                .ok_or_else(|| Fail::parameter(name, format!("unable to parse network options '{value}'")))?;
            if nic.mac.is_none() {
                nic.mac = Some(context.dc.with(|state| state.rng.mac()));
            }
            *value = nic.print();
        }
    }
    Ok(())
}

pub(super) fn check_boot_order(config: &Config) -> Result<(), Fail> {
    for device in vmconfig::boot_order(config) {
        let device_like = vmconfig::is_drive(&device) || vmconfig::indexed(&device).1.is_some();
        if device_like && !config.contains_key(&device) {
            return Err(Fail::internal(format!("invalid bootorder: device '{device}' does not exist'")));
        }
    }
    Ok(())
}

struct Order {
    vmid: u32,
    wanted: Config,
    pool: Option<String>,
    start: bool,
}

impl Order {
    async fn run(self, job: Job) -> Result<(), Stop> {
        let vmid = self.vmid;
        let prefix = format!("unable to create VM {vmid} - ");
        let lock = job.until(job.dc.lock_guest(vmid, job.dc.durations().short_lock)).await;
        let lock = match lock {
            Ok(Ok(lock)) => lock,
            Ok(Err(fail)) => return self.give_up(&job, Vec::new(), Stop::from(fail).prefixed(&prefix)),
            Err(stop) => return self.give_up(&job, Vec::new(), stop.prefixed(&prefix)),
        };
        let mut made = Vec::new();
        let built = self.build(&job, &mut made).await;
        match built {
            Ok(config) => {
                job.dc.with(|state| {
                    if let Some(vm) = state.vms.get_mut(&vmid) {
                        vm.config = config;
                    }
                    if let Some(pool) = &self.pool {
                        state.pool_of.insert(vmid, pool.clone());
                    }
                });
            }
            Err(Stop::Killed) => return Err(Stop::Killed),
            Err(stop) => return self.give_up(&job, made, stop.prefixed(&prefix)),
        }
        drop(lock);
        if self.start {
            job.log("Execute autostart");
            // A start that fails is its own task's failure; this one stays OK.
            let started = super::power::fork_start(&job.dc, &job.host, vmid, &job.who, None);
            if let Err(fail) = started {
                job.warn(&fail.reason);
            }
        }
        Ok(())
    }

    async fn build(&self, job: &Job, made: &mut Vec<String>) -> Result<Config, Stop> {
        let disks = create_disks(job, self.vmid, &self.wanted, made).await?;
        job.checkpoint()?;
        if job.storage_times_out() && !made.is_empty() {
            let left = made.remove(0);
            let (storage, name) = left.split_once(':').unwrap_or_default();
            let path = job.dc.with(|state| state.volume_path(storage, name));
            return Err(Stop::error(format!(
                "command '/sbin/lvs --separator : --noheadings --units b --unbuffered --nosuffix --options lv_size {path}' \
                 failed: got timeout"
            )));
        }
        job.pass(job.dc.durations().create).await?;
        let mut config = self.wanted.clone();
        config.extend(disks);
        if let Some(tags) = config.get("tags").cloned() {
            // Here the pool that the VM is going to be in does not count.
            let path = format!("/vms/{}", self.vmid);
            let may = job.dc.with(|state| state.privileges(&job.who, &path)).has("VM.Config.Options");
            if !may {
                return Err(Fail::forbidden(&path, "VM.Config.Options").into());
            }
            config.insert("tags".into(), normal_tags(&tags));
        }
        finish_config(job, &mut config);
        Ok(config)
    }

    /// Frees what was made and takes the config away.
    fn give_up(&self, job: &Job, made: Vec<String>, stop: Stop) -> Result<(), Stop> {
        job.dc.with(|state| {
            for volid in made {
                state.remove_volume(&job.host, &volid);
            }
            state.vms.remove(&self.vmid);
        });
        Err(stop)
    }
}

/// What Proxmox adds on its own.
fn finish_config(job: &Job, config: &mut Config) {
    job.dc.with(|state| {
        if let Some(text) = config.get("description") {
            let trimmed = text.trim_end().to_owned();
            if trimmed.is_empty() {
                config.remove("description");
            } else {
                config.insert("description".into(), trimmed);
            }
        }
        if !config.contains_key("boot") {
            let all = vmconfig::drives(config);
            let first = all.iter().find(|(name, value)| {
                !name.starts_with("efidisk") && !name.starts_with("tpm") && !vmconfig::is_cdrom(value)
            });
            let cdrom = all.iter().find(|(_, value)| vmconfig::is_cdrom(value));
            let net = config.keys().find(|name| vmconfig::indexed(name).0 == "net").cloned();
            let order: Vec<String> =
                [first.map(|d| d.0.clone()), cdrom.map(|d| d.0.clone()), net].into_iter().flatten().collect();
            config.insert("boot".into(), format!("order={}", order.join(";")));
        }
        if !config.contains_key("smbios1") {
            config.insert("smbios1".into(), format!("uuid={}", state.rng.uuid()));
        }
        let arm = state.hosts.get(&job.host).is_some_and(Host::is_arm);
        if !arm && config.get("vmgenid").is_none_or(|value| value == "1") {
            config.insert("vmgenid".into(), state.rng.uuid());
        }
        config.insert("meta".into(), format!("creation-qemu=10.1.2,ctime={}", state.now));
    });
}
