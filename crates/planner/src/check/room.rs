//! Room: what the plan starts must fit beside what runs.

use std::collections::{HashMap, HashSet};

use super::{Checker, Rule};
use crate::plan::{Action, Purpose};
use crate::world::Ownership;

#[derive(Clone, Copy, Debug, Default)]
struct Load {
    cores: u64,
    memory: u64,
    disk: u64,
}

impl Checker<'_> {
    /// Counts anew, from the plan's own steps, what every host that gets more would carry.
    pub(super) fn room(&mut self) {
        if self.plan.purpose != Purpose::Apply {
            return;
        }
        let mut others: HashMap<&str, Load> = HashMap::new();
        let mut ours: HashMap<&str, Load> = HashMap::new();
        let mut new_disk: HashMap<&str, u64> = HashMap::new();
        let mut loaded: HashSet<&str> = HashSet::new();
        let mut largest: HashMap<&str, u32> = HashMap::new();
        let started: HashSet<u32> = self
            .plan
            .steps
            .iter()
            .filter_map(|step| match step.action {
                Action::StartVm { vmid } => Some(vmid),
                _ => None,
            })
            .collect();
        for guest in self.world.guests.values() {
            let node = match &guest.ownership {
                Ownership::Ours { node, .. } | Ownership::HalfMade { node, .. } => {
                    Some(self.nodes.get(node.as_str()))
                }
                _ => None,
            };
            let declared =
                node.flatten().filter(|node| node.vmid == guest.vmid && started.contains(&guest.vmid));
            let load = if node.is_some() { &mut ours } else { &mut others }.entry(&guest.host).or_default();
            match declared {
                Some(node) => {
                    load.cores += u64::from(node.cores);
                    load.memory += node.memory;
                    let most = largest.entry(&guest.host).or_default();
                    *most = node.cores.max(*most);
                    loaded.insert(&guest.host);
                }
                None if guest.running && !guest.template => {
                    load.cores += u64::from(guest.cores);
                    load.memory += guest.memory;
                }
                None => {}
            }
            if node.is_some() {
                load.disk += guest.disk_in_all(&self.cluster.proxmox.disks_storage);
            }
        }
        for step in &self.plan.steps {
            let (Some(host), Some(node)) =
                (step.host.as_deref(), step.node.as_deref().and_then(|name| self.nodes.get(name)))
            else {
                continue;
            };
            match &step.action {
                Action::CreateVm { .. } => {
                    let load = ours.entry(host).or_default();
                    load.cores += u64::from(node.cores);
                    load.memory += node.memory;
                    let disk = node.disk_in_all(&self.cluster.proxmox.disks_storage);
                    load.disk += disk;
                    *new_disk.entry(host).or_default() += disk;
                    let most = largest.entry(host).or_default();
                    *most = node.cores.max(*most);
                    loaded.insert(host);
                }
                Action::GrowDisk { vmid, size } => {
                    if let Some(guest) = self.world.guests.get(vmid) {
                        let has = guest.system_disk();
                        ours.entry(host).or_default().disk += size.saturating_sub(has);
                        *new_disk.entry(host).or_default() += size.saturating_sub(has);
                        loaded.insert(host);
                    }
                }
                Action::UpdateVm { changes, .. } => {
                    let storage = &self.cluster.proxmox.disks_storage;
                    let more: u64 = changes.iter().map(|change| change.added(storage)).sum();
                    if more > 0 {
                        ours.entry(host).or_default().disk += more;
                        *new_disk.entry(host).or_default() += more;
                        loaded.insert(host);
                    }
                }
                _ => {}
            }
        }
        let proxmox = &self.cluster.proxmox;
        let mut short = Vec::new();
        let mut hosts: Vec<&str> = loaded.into_iter().collect();
        hosts.sort_unstable();
        let shared_disk: u64 = new_disk.values().sum();
        for name in hosts {
            let Some(view) = self.world.hosts.get(name) else { continue };
            let (others, ours) =
                (others.get(name).copied().unwrap_or_default(), ours.get(name).copied().unwrap_or_default());
            let cores = (f64::from(view.cpus) * proxmox.cpu_overcommit).floor();
            if (others.cores + ours.cores) as f64 > cores {
                short.push(format!("{name} has {cores} vCPU to give, not {}.", others.cores + ours.cores));
            }
            if let Some(most) = largest.get(name).filter(|most| **most > view.cpus) {
                short.push(format!("{name} has {} CPUs, and starts no VM with {most} vCPU.", view.cpus));
            }
            if others.memory + ours.memory > view.memory.saturating_sub(proxmox.memory_reserve) {
                short.push(format!("{name} has not enough memory for what would run there."));
            }
            if let Some(storage) = view.storages.get(&proxmox.disks_storage) {
                let new = if storage.shared { shared_disk } else { new_disk.get(name).copied().unwrap_or(0) };
                let used = storage.total.saturating_sub(storage.available);
                if new > storage.to_promise(proxmox.disk_overcommit).saturating_sub(used) {
                    short.push(format!(
                        "{} on {name} has not enough room for the disks.",
                        proxmox.disks_storage
                    ));
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
        }
        for text in short {
            self.find(Rule::Room, None, text);
        }
    }
}
