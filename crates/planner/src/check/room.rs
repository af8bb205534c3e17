//! Room: what the plan starts must fit beside what runs.

use std::collections::{BTreeMap, HashSet};

use daedal_inventory::Node;

use super::{Checker, Rule};
use crate::plan::{Action, Purpose, Step};
use crate::world::{GuestView, Ownership};

#[derive(Clone, Copy, Debug, Default)]
struct Load {
    cores: u64,
    memory: u64,
    disk: u64,
}

/// What a host would carry.
#[derive(Clone, Copy, Debug, Default)]
struct HostLoad {
    others: Load,
    ours: Load,
    /// Bytes of disk that the plan adds.
    new_disk: u64,
    /// Most vCPUs of a VM that the plan starts.
    largest: u32,
    /// Whether the plan adds anything.
    gets_more: bool,
}

impl HostLoad {
    /// A VM that the plan starts.
    fn start(&mut self, node: &Node) {
        self.ours.cores += u64::from(node.cores);
        self.ours.memory += node.memory;
        self.largest = self.largest.max(node.cores);
        self.gets_more = true;
    }

    /// Disk that the plan adds.
    fn grow(&mut self, bytes: u64) {
        self.ours.disk += bytes;
        self.new_disk += bytes;
        self.gets_more = true;
    }
}

type Loads<'a> = BTreeMap<&'a str, HostLoad>;

impl<'a> Checker<'a> {
    /// Counts again, from the plan's own steps, what every host that gets more would carry.
    pub(super) fn room(&mut self) {
        if self.plan.purpose != Purpose::Apply {
            return;
        }
        let started = |step: &Step| match step.action {
            Action::StartVm { vmid } => Some(vmid),
            _ => None,
        };
        let started: HashSet<u32> = self.plan.steps.iter().filter_map(started).collect();
        let mut loads = Loads::new();
        for guest in self.world.guests.values() {
            self.guest_load(guest, started.contains(&guest.vmid), loads.entry(&guest.host).or_default());
        }
        for step in &self.plan.steps {
            self.step_load(step, &mut loads);
        }
        let shared_disk = loads.values().map(|load| load.new_disk).sum();
        let loaded = loads.iter().filter(|(_, load)| load.gets_more);
        let short: Vec<String> =
            loaded.flat_map(|(host, load)| self.shortages(host, load, shared_disk)).collect();
        for text in short {
            self.find(Rule::Room, None, text);
        }
    }

    /// What a guest takes; one of ours that the plan starts, as declared.
    fn guest_load(&self, guest: &GuestView, started: bool, load: &mut HostLoad) {
        let node = match &guest.ownership {
            Ownership::Ours { node, .. } | Ownership::HalfMade { node, .. } => {
                Some(self.nodes.get(node.as_str()))
            }
            _ => None,
        };
        let declared = node.flatten().filter(|node| node.vmid == guest.vmid && started);
        let whose = if node.is_some() { &mut load.ours } else { &mut load.others };
        if node.is_some() {
            whose.disk += guest.disk_in_all(&self.cluster.proxmox.disks_storage);
        }
        match declared {
            Some(node) => load.start(node),
            None if guest.running && !guest.template => {
                whose.cores += u64::from(guest.cores);
                whose.memory += guest.memory;
            }
            None => {}
        }
    }

    /// What a step adds to its host.
    fn step_load(&self, step: &'a Step, loads: &mut Loads<'a>) {
        let node = step.node.as_deref().and_then(|name| self.nodes.get(name));
        let (Some(host), Some(node)) = (step.host.as_deref(), node) else { return };
        let storage = &self.cluster.proxmox.disks_storage;
        match &step.action {
            Action::CreateVm { .. } => {
                let load = loads.entry(host).or_default();
                load.start(node);
                load.grow(node.disk_in_all(storage));
            }
            Action::GrowDisk { vmid, size } => {
                if let Some(guest) = self.world.guests.get(vmid) {
                    loads.entry(host).or_default().grow(size.saturating_sub(guest.system_disk()));
                }
            }
            Action::UpdateVm { changes, .. } => {
                let more: u64 = changes.iter().map(|change| change.added(storage)).sum();
                if more > 0 {
                    loads.entry(host).or_default().grow(more);
                }
            }
            _ => {}
        }
    }

    /// What a host lacks for what it would carry.
    fn shortages(&self, name: &str, load: &HostLoad, shared_disk: u64) -> Vec<String> {
        let Some(view) = self.world.hosts.get(name) else { return Vec::new() };
        let (proxmox, HostLoad { others, ours, .. }) = (&self.cluster.proxmox, load);
        let mut short = Vec::new();
        let cores = (f64::from(view.cpus) * proxmox.cpu_overcommit).floor();
        if (others.cores + ours.cores) as f64 > cores {
            short.push(format!("{name} has {cores} vCPU to give, not {}.", others.cores + ours.cores));
        }
        if load.largest > view.cpus {
            let (has, most) = (view.cpus, load.largest);
            short.push(format!("{name} has {has} CPUs, and starts no VM with {most} vCPU."));
        }
        if others.memory + ours.memory > view.memory.saturating_sub(proxmox.memory_reserve) {
            short.push(format!("{name} has not enough memory for what would run there."));
        }
        if let Some(storage) = view.storages.get(&proxmox.disks_storage) {
            let new = if storage.shared { shared_disk } else { load.new_disk };
            let used = storage.total.saturating_sub(storage.available);
            if new > storage.to_promise(proxmox.disk_overcommit).saturating_sub(used) {
                short.push(format!("{} on {name} has not enough room for the disks.", proxmox.disks_storage));
            }
        }
        let declared = proxmox.hosts.iter().find(|host| host.name == name);
        if let Some(capacity) = declared.and_then(|host| host.capacity.as_ref())
            && (capacity.cores.is_some_and(|cap| ours.cores > u64::from(cap))
                || capacity.memory.is_some_and(|cap| ours.memory > cap)
                || capacity.disk.is_some_and(|cap| ours.disk > cap))
        {
            short.push(format!("This cluster would take more of {name} than its declared capacity."));
        }
        short
    }
}
