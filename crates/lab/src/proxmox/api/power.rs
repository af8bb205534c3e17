//! Power: start, stop, shutdown, reboot, reset.

use std::time::Duration;

use super::config::vlan_problem;
use crate::faults::TaskFault;
use crate::proxmox::Datacenter;
use crate::proxmox::access::Who;
use crate::proxmox::context::Context;
use crate::proxmox::fail::{Answer, Data, Fail};
use crate::proxmox::property::Nic;
use crate::proxmox::schema::{Kind, Rule, opt, verify};
use crate::proxmox::state::{Running, State, Vm};
use crate::proxmox::tasks::{Job, Stop};
use crate::proxmox::vmconfig;

fn checked(context: &Context, vmid: u32, rules: &[Rule]) -> Result<(), Fail> {
    context.need(&format!("/vms/{vmid}"), &["VM.PowerMgmt"])?;
    verify(&context.params, rules)?;
    if context.flag("skiplock") && !context.who.is_root() {
        return Err(Fail::parameter("skiplock", "Only root may use this option."));
    }
    Ok(())
}

/// How long it takes until the HA manager acts.
const HA_ROUND: Duration = Duration::from_secs(10);

const TIMEOUT: Rule = opt("timeout", Kind::Int(0, i64::MAX));
const SKIPLOCK: Rule = opt("skiplock", Kind::Bool);

/// `POST …/status/start`
pub(super) fn start(context: &Context, host: &str, vmid: u32) -> Answer {
    checked(
        context,
        vmid,
        &[
            TIMEOUT,
            SKIPLOCK,
            opt("machine", Kind::Text),
            opt("force-cpu", Kind::Text),
            opt("migratedfrom", Kind::Text),
            opt("migration_network", Kind::Text),
            opt("migration_type", Kind::OneOf(&["secure", "insecure"])),
            opt("nets-host-mtu", Kind::Text),
            opt("stateuri", Kind::Text),
            opt("targetstorage", Kind::Text),
            opt("with-conntrack-state", Kind::Bool),
        ],
    )?;
    if context.dc.with(|state| state.objects.manages(vmid)) {
        return ask_manager(context, host, vmid, "hastart", "start", "started");
    }
    let upid = fork_start(&context.dc, host, vmid, &context.who, context.fault.clone())?;
    Ok(Data::from(serde_json::Value::String(upid)))
}

/// A VM under high availability is started and stopped by the manager; the task only tells it to, and ends before.
fn ask_manager(
    context: &Context,
    host: &str,
    vmid: u32,
    kind: &str,
    what: &'static str,
    wanted: &'static str,
) -> Answer {
    context.fork(host, kind, &vmid.to_string(), move |job| async move {
        job.log(format!("Requesting HA {what} for VM {vmid}"));
        job.dc.with(|state| state.objects.want(vmid, wanted));
        manage(&job.dc, vmid);
        Ok(())
    })
}

/// The manager's next round: it makes a VM what its resource asks for.
pub(super) fn manage(dc: &Datacenter, vmid: u32) {
    let dc = dc.clone();
    tokio::spawn(async move {
        dc.pace().pass(HA_ROUND).await;
        let (wanted, vm) = dc.with(|state| {
            let vm = state.vms.get(&vmid).map(|vm| (vm.host.clone(), vm.running.is_some()));
            (state.objects.wanted(vmid).map(str::to_owned), vm)
        });
        match (wanted.as_deref(), vm) {
            (Some("started" | "enabled"), Some((host, false))) => {
                // It acts as root on the VM's host, with a task of its own; one that fails is tried again, by its own rules.
                if let Err(error) = fork_start(&dc, &host, vmid, &Who::parse("root@pam"), None) {
                    tracing::debug!(vmid, ?error, "lab: the HA manager could not start a VM");
                }
            }
            (Some("stopped" | "disabled"), Some((_, true))) => power_off(&dc, vmid),
            _ => {}
        }
    });
}

/// Starts the task that starts a VM.
pub(super) fn fork_start(
    datacenter: &Datacenter,
    host: &str,
    vmid: u32,
    who: &Who,
    fault: Option<TaskFault>,
) -> Result<String, Fail> {
    datacenter.fork(host, "qmstart", &vmid.to_string(), who, fault, |job| async move {
        let _lock = job.until(job.dc.lock_guest(vmid, job.dc.durations().long_lock)).await??;
        run_start(&job, vmid).await
    })
}

async fn run_start(job: &Job, vmid: u32) -> Result<(), Stop> {
    job.dc.with(|state| {
        let vm = state.vm_mut(&job.host, vmid)?;
        vm.check_lock()?;
        if vm.is_template() {
            return Err(Fail::internal("you can't start a vm if it's a template"));
        }
        if vm.running.is_some() {
            return Err(Fail::internal(format!("VM {vmid} already running")));
        }
        vm.apply_pending();
        let vm = vm.clone();
        let (cpus, most) =
            (vmconfig::cpus(&vm.config), state.hosts.get(&job.host).map_or(0, |host| host.cpus));
        if cpus > most {
            return Err(Fail::internal(format!("MAX {most} vcpus allowed per VM on this node")));
        }
        check_devices(state, &job.host, &vm)
    })?;
    job.pass(job.dc.durations().start).await?;
    let hardware = job.dc.with(|state| {
        let pid = state.pid(&job.host);
        let since = state.now;
        let vm = state.vm_mut(&job.host, vmid)?;
        vm.running = Some(Running { since, pid, inhabited: true });
        let vm = vm.clone();
        Ok::<_, Fail>(state.hardware(vmid, &vm))
    })?;
    if let Some(hardware) = hardware {
        job.dc.guests().power_on(hardware);
    }
    Ok(())
}

/// What QEMU would not find: media, disks, bridges.
fn check_devices(state: &State, host: &str, vm: &Vm) -> Result<(), Fail> {
    for (_, value) in vmconfig::drives(&vm.config) {
        if let Some(volid) = vmconfig::drive_volume(&value)
            && state.volume(host, &volid).is_none()
        {
            return Err(Fail::internal(format!("volume '{volid}' does not exist")));
        }
    }
    let has_drive = vmconfig::drives(&vm.config).iter().any(|(_, value)| vmconfig::is_cloudinit(value));
    if let Some(volid) = vmconfig::snippet(&vm.config).filter(|_| has_drive)
        && state.volume(host, volid).is_none()
    {
        return Err(Fail::internal(format!("volume '{volid}' does not exist")));
    }
    for (name, value) in &vm.config {
        let mapping = value.split(',').find_map(|part| part.strip_prefix("mapping="));
        if let (("hostpci", Some(_)), Some(mapping)) = (vmconfig::indexed(name), mapping)
            && !state.objects.maps(mapping, host)
        {
            return Err(Fail::internal(format!("PCI device mapping not found for '{mapping}'")));
        }
    }
    let known = state.hosts.get(host).ok_or_else(Fail::forbidden_bare)?;
    check_architecture(known.is_arm(), vm)?;
    for (name, value) in &vm.config {
        if matches!(vmconfig::indexed(name), ("net", Some(_)))
            && let Some(nic) = Nic::parse(value)
            && let Some(bridge) = nic.bridge()
            && !known.bridges().any(|(_, known)| known == bridge)
        {
            return Err(Fail::internal(format!("bridge '{bridge}' does not exist")));
        }
        if matches!(vmconfig::indexed(name), ("net", Some(_)))
            && let Some(problem) = vlan_problem(&known.portless, value)
        {
            return Err(Fail::internal(problem));
        }
    }
    Ok(())
}

/// What QEMU would not start on a host's processors.
fn check_architecture(arm: bool, vm: &Vm) -> Result<(), Fail> {
    let option = |name: &str| vm.config.get(name).map(String::as_str);
    let first = |value: &str| {
        let head = value.split(',').next().unwrap_or_default();
        head.split_once('=').map_or(head, |(_, value)| value).to_owned()
    };
    let machine = first(option("machine").unwrap_or(if arm { "virt" } else { "pc" }));
    let emulator = if arm { "qemu-system-aarch64" } else { "qemu-system-x86_64" };
    let says = |what: String| Err(Fail::internal(format!("QEMU exited with code 1: {emulator}: {what}")));
    if machine.starts_with("virt") != arm {
        return says(format!("unsupported machine type: '{machine}'"));
    }
    if !arm {
        return Ok(());
    }
    if vm.config.keys().any(|name| matches!(vmconfig::indexed(name), ("ide", Some(_)))) {
        return Err(Fail::internal("aarch64 cannot use IDE devices"));
    }
    match option("cpu").map(first) {
        Some(model) if !matches!(model.as_str(), "host" | "max") => {
            says(format!("unable to find CPU model '{model}'"))
        }
        _ => Ok(()),
    }
}

/// Pulls the plug of a running VM.
pub(super) fn power_off(dc: &Datacenter, vmid: u32) {
    let inhabited = dc.with(|state| {
        let vm = state.vms.get_mut(&vmid)?;
        let running = vm.running.take()?;
        vm.apply_pending();
        Some(running.inhabited)
    });
    if inhabited == Some(true) {
        dc.guests().power_off(vmid);
    }
}

/// `POST …/status/stop`
pub(super) fn stop(context: &Context, host: &str, vmid: u32) -> Answer {
    checked(
        context,
        vmid,
        &[
            TIMEOUT,
            SKIPLOCK,
            opt("keepActive", Kind::Bool),
            opt("overrule-shutdown", Kind::Bool),
            opt("migratedfrom", Kind::Text),
        ],
    )?;
    if context.dc.with(|state| state.objects.manages(vmid)) {
        return ask_manager(context, host, vmid, "hastop", "stop", "stopped");
    }
    context.fork(host, "qmstop", &vmid.to_string(), |job| async move {
        let _lock = job.until(job.dc.lock_guest(vmid, job.dc.durations().long_lock)).await??;
        let running = job.dc.with(|state| {
            let vm = state.vm(&job.host, vmid)?;
            vm.check_lock()?;
            Ok::<_, Fail>(vm.running.is_some())
        })?;
        if running {
            job.pass(job.dc.durations().stop).await?;
            power_off(&job.dc, vmid);
        }
        Ok(())
    })
}

/// Asks the guest to end; false when it did not in time.
async fn ask_to_end(job: &Job, vmid: u32, timeout: Duration) -> Result<bool, Stop> {
    let inhabited = job.dc.with(|state| {
        state.vms.get(&vmid).and_then(|vm| vm.running.as_ref()).is_some_and(|run| run.inhabited)
    });
    let guests = job.dc.guests().clone();
    let pace = job.dc.pace();
    job.until(async move {
        let ended = async {
            if inhabited && guests.shut_down(vmid).await {
                return;
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            biased;
            () = ended => true,
            () = pace.pass(pace.patience(timeout)) => false,
        }
    })
    .await
}

/// `POST …/status/shutdown`
pub(super) fn shutdown(context: &Context, host: &str, vmid: u32) -> Answer {
    checked(
        context,
        vmid,
        &[TIMEOUT, SKIPLOCK, opt("forceStop", Kind::Bool), opt("keepActive", Kind::Bool)],
    )?;
    if context.dc.with(|state| state.objects.manages(vmid)) {
        return ask_manager(context, host, vmid, "hastop", "stop", "stopped");
    }
    let timeout = Duration::from_secs(context.number("timeout").unwrap_or(180));
    let force = context.flag("forceStop");
    context.fork(host, "qmshutdown", &vmid.to_string(), move |job| async move {
        let _lock = job.until(job.dc.lock_guest(vmid, job.dc.durations().long_lock)).await??;
        let running = job.dc.with(|state| {
            let vm = state.vm(&job.host, vmid)?;
            vm.check_lock()?;
            Ok::<_, Fail>(vm.running.is_some())
        })?;
        if !running {
            return Ok(());
        }
        if ask_to_end(&job, vmid, timeout).await? {
            power_off(&job.dc, vmid);
        } else if force {
            job.log("VM still running - terminating now with SIGTERM");
            power_off(&job.dc, vmid);
        } else {
            return Err(Stop::error("VM quit/powerdown failed - got timeout"));
        }
        Ok(())
    })
}

fn running(context: &Context, host: &str, vmid: u32) -> Result<(), Fail> {
    let running = context.dc.with(|state| state.vm(host, vmid).map(|vm| vm.running.is_some()))?;
    if running { Ok(()) } else { Err(Fail::internal(format!("VM {vmid} not running"))) }
}

/// `POST …/status/reboot`
pub(super) fn reboot(context: &Context, host: &str, vmid: u32) -> Answer {
    checked(context, vmid, &[TIMEOUT])?;
    running(context, host, vmid)?;
    let timeout = Duration::from_secs(context.number("timeout").unwrap_or(180));
    context.fork(host, "qmreboot", &vmid.to_string(), move |job| async move {
        let _lock = job.until(job.dc.lock_guest(vmid, job.dc.durations().long_lock)).await??;
        job.log("requesting reboot of VM");
        if !ask_to_end(&job, vmid, timeout).await? {
            return Err(Stop::error("VM quit/powerdown failed - got timeout"));
        }
        power_off(&job.dc, vmid);
        run_start(&job, vmid).await
    })
}

/// `POST …/status/reset`
pub(super) fn reset(context: &Context, host: &str, vmid: u32) -> Answer {
    checked(context, vmid, &[SKIPLOCK])?;
    running(context, host, vmid)?;
    context.fork(host, "qmreset", &vmid.to_string(), move |job| async move {
        let _lock = job.until(job.dc.lock_guest(vmid, job.dc.durations().long_lock)).await??;
        let hardware = job.dc.with(|state| {
            let vm = state.vm(&job.host, vmid)?.clone();
            vm.check_lock()?;
            let inhabited = vm.running.as_ref().is_some_and(|running| running.inhabited);
            Ok::<_, Fail>(state.hardware(vmid, &vm).filter(|_| inhabited))
        })?;
        if let Some(hardware) = hardware {
            job.dc.guests().power_off(vmid);
            job.dc.guests().power_on(hardware);
        }
        Ok(())
    })
}
