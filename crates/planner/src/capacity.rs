//! How much room each host has, counted the way the plan text says.
//!
//! vCPU and memory: no VM may have more vCPUs than its host has CPUs, whatever the overcommit. Every running guest counts in
//! full, ours count as declared; stopped guests of others and templates
//! count nothing, because they take nothing until someone starts them. Disk: what the storage reports as used, or what
//! all disks there may grow to if that is more (thin storage fills up later), plus every new disk in full. Others' disks
//! count as far as they can be listed; `diskOvercommit` says how much may be promised.
//! A declared capacity bounds what this cluster takes; what the host really has bounds it as well.

mod usable;

use std::collections::HashMap;

use daedal_inventory::{Capacity, Cluster, Host, Node};
use daedal_machine::vm;

use crate::error::{Resource, UnusableHost};
use crate::plan::{Budget, HostBudget, PlannedNode};
use crate::survey::{State, Survey};
use crate::world::{DiskView, GuestView, HostView, Ownership, World};

pub use usable::{CLONE_FULL, lacks_linked_clones, storages_needed};
use usable::{judge_host, lacks_volume, room_for_image};

/// What a node takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Need {
    pub(crate) memory: u64,
    pub(crate) cores: u64,
    pub(crate) disk: u64,
}

impl Need {
    /// What a guest takes of its host's processors and memory: nothing while it is off.
    fn awake(guest: &GuestView) -> Self {
        match guest.running {
            true => Self { cores: u64::from(guest.cores), memory: guest.memory, disk: 0 },
            false => Self::default(),
        }
    }

    pub(crate) fn get(&self, resource: Resource) -> u64 {
        match resource {
            Resource::Cores | Resource::CoresOfOne => self.cores,
            Resource::Memory => self.memory,
            Resource::Disk => self.disk,
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.memory += other.memory;
        self.cores += other.cores;
        self.disk += other.disk;
    }

    fn minus(self, other: Self) -> Self {
        Self {
            memory: self.memory.saturating_sub(other.memory),
            cores: self.cores.saturating_sub(other.cores),
            disk: self.disk.saturating_sub(other.disk),
        }
    }

    /// The smaller of both in every resource.
    pub(crate) fn min(self, other: Self) -> Self {
        Self {
            memory: self.memory.min(other.memory),
            cores: self.cores.min(other.cores),
            disk: self.disk.min(other.disk),
        }
    }
}

/// Every resource.
pub(crate) const RESOURCES: [Resource; 3] = [Resource::Cores, Resource::Memory, Resource::Disk];

/// One host's room.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    pub(crate) host: String,
    /// Why it cannot take new nodes; none if it can.
    pub(crate) unusable: Option<UnusableHost>,
    /// Whether the host is declared, so that nodes may be placed on it.
    pub(crate) declared: bool,
    /// Logical CPUs: Proxmox starts no VM that has more.
    cpus: u64,
    /// What there is, as far as this cluster may use it.
    total: Need,
    /// Taken before the plan.
    before: Need,
    /// Taken by what this plan adds.
    added: Need,
    /// Index of the disk pool; hosts on one shared storage have the same.
    pool: usize,
    /// What this cluster may still take of the disks storage here by declaration.
    disk_cap: Option<u64>,
    /// vCPU and memory of stopped guests of others.
    pub(crate) asleep: Need,
    /// How many of them there are.
    pub(crate) sleepers: usize,
}

/// One disks storage.
#[derive(Clone, Copy, Debug, Default)]
struct Pool {
    total: u64,
    before: u64,
    added: u64,
}

/// The names of nodes by their hosts, in order.
pub(crate) fn by_host<'n>(nodes: impl IntoIterator<Item = &'n PlannedNode>) -> HashMap<&'n str, Vec<String>> {
    let mut on_host: HashMap<&str, Vec<String>> = HashMap::new();
    for node in nodes {
        if let Some(host) = &node.host {
            on_host.entry(host).or_default().push(node.name.clone());
        }
    }
    on_host
}

/// All hosts' room.
#[derive(Clone, Debug)]
pub(crate) struct Rooms {
    pub(crate) rooms: Vec<Room>,
    pools: Vec<Pool>,
    index: HashMap<String, usize>,
    /// Where the system disks are.
    storage: String,
}

impl Rooms {
    /// Counts what is there. Declared hosts come first, in declared order; then others that hold VMs of ours.
    pub(crate) fn count(cluster: &Cluster, world: &World, survey: &Survey<'_>) -> Self {
        let mut rooms = Self {
            rooms: Vec::new(),
            pools: Vec::new(),
            index: HashMap::new(),
            storage: cluster.proxmox.disks_storage.clone(),
        };
        let mut shared_pool = None;
        for host in &cluster.proxmox.hosts {
            rooms.open(cluster, world, &host.name, Some(host), &mut shared_pool);
        }
        let elsewhere = survey.nodes.iter().filter_map(super::survey::NodeSurvey::host);
        let undeclared = survey.undeclared.iter().map(|guest| guest.host.as_str());
        for host in elsewhere.chain(undeclared) {
            if world.hosts.contains_key(host) && !rooms.index.contains_key(host) {
                rooms.open(cluster, world, host, None, &mut shared_pool);
            }
        }
        rooms.count_guests(cluster, world);
        rooms
    }

    fn open(
        &mut self,
        cluster: &Cluster,
        world: &World,
        name: &str,
        declared: Option<&Host>,
        shared_pool: &mut Option<usize>,
    ) {
        let nowhere = HostView::default();
        let view = world.hosts.get(name);
        let unusable = judge_host(cluster, world, name)
            .or_else(|| lacks_volume(cluster, world, name))
            .or_else(|| view.and_then(|view| room_for_image(cluster, world, name, view)))
            .map(|(why, fix)| UnusableHost { host: name.to_owned(), why, fix });
        let view = view.unwrap_or(&nowhere);
        let storage = view.storages.get(&cluster.proxmox.disks_storage).cloned().unwrap_or_default();
        let new_pool = Pool {
            total: storage.to_promise(cluster.proxmox.disk_overcommit),
            before: storage.total.saturating_sub(storage.available),
            added: 0,
        };
        let pool = match (storage.shared, *shared_pool) {
            (true, Some(pool)) => pool,
            (shared, _) => {
                self.pools.push(new_pool);
                let pool = self.pools.len() - 1;
                if shared {
                    *shared_pool = Some(pool);
                }
                pool
            }
        };
        self.index.insert(name.to_owned(), self.rooms.len());
        self.rooms.push(Room {
            host: name.to_owned(),
            unusable,
            declared: declared.is_some(),
            cpus: u64::from(view.cpus),
            total: Need {
                cores: (f64::from(view.cpus) * cluster.proxmox.cpu_overcommit.max(0.0)).floor() as u64,
                memory: view.memory.saturating_sub(cluster.proxmox.memory_reserve),
                disk: 0,
            },
            before: Need::default(),
            added: Need::default(),
            pool,
            disk_cap: declared.and_then(|host| host.capacity.as_ref()).and_then(|capacity| capacity.disk),
            asleep: Need::default(),
            sleepers: 0,
        });
    }

    /// Counts guests, then lets declared capacities bound what is ours.
    fn count_guests(&mut self, cluster: &Cluster, world: &World) {
        let mut ours = vec![Need::default(); self.rooms.len()];
        let mut ours_in_pool = vec![0u64; self.pools.len()];
        let mut others_at_most = vec![0u64; self.pools.len()];
        for guest in world.guests.values() {
            let Some(&at) = self.index.get(&guest.host) else { continue };
            let room = &mut self.rooms[at];
            let takes = Need { cores: u64::from(guest.cores), memory: guest.memory, disk: guest.disk };
            let awake = if guest.running && !guest.template { takes } else { Need::default() };
            room.before.cores += awake.cores;
            room.before.memory += awake.memory;
            if matches!(guest.ownership, Ownership::Ours { .. } | Ownership::HalfMade { .. }) {
                let disk = guest.disk_in_all(&self.storage);
                ours[at].add(Need { disk, ..awake });
                ours_in_pool[room.pool] += disk;
                continue;
            }
            others_at_most[room.pool] += guest.disk;
            if !guest.running && !guest.template {
                room.asleep.add(takes);
                room.sleepers += 1;
            }
        }
        let promised = self.promised_to_others(cluster, world);
        for (at, pool) in self.pools.iter_mut().enumerate() {
            // Less is taken than we were promised: what is taken there grows with what is written, and what others hold of
            // it is theirs besides all that we may come to take.
            if let (used, ours) = (pool.before, ours_in_pool[at])
                && used < ours
            {
                pool.before = ours + used.min(others_at_most[at]);
            }
            pool.before = pool.before.max(ours_in_pool[at] + promised[at]);
        }
        for host in &cluster.proxmox.hosts {
            let (Some(&at), Some(Capacity { cores, memory, disk })) =
                (self.index.get(&host.name), &host.capacity)
            else {
                continue;
            };
            let (room, ours) = (&mut self.rooms[at], ours[at]);
            let foreign = room.before.minus(ours);
            // What the cluster may take besides the others, in the same count as the real total.
            if let Some(cores) = cores {
                room.total.cores = room.total.cores.min(u64::from(*cores) + foreign.cores);
            }
            if let Some(memory) = memory {
                room.total.memory = room.total.memory.min(memory + foreign.memory);
            }
            room.disk_cap = disk.map(|cap| cap.saturating_sub(ours.disk));
        }
    }

    /// What guests of others may write in each pool, as far as it could be listed. A base is never written again.
    fn promised_to_others(&self, cluster: &Cluster, world: &World) -> Vec<u64> {
        let mut promised = vec![0u64; self.pools.len()];
        let mut counted = vec![false; self.pools.len()];
        let ours = |vmid: u32| {
            let guest = world.guests.get(&vmid).map(|guest| &guest.ownership);
            matches!(
                guest,
                Some(Ownership::Ours { .. } | Ownership::HalfMade { .. } | Ownership::Template { .. })
            )
        };
        for list in world.disks.iter().filter(|list| list.storage == cluster.proxmox.disks_storage) {
            let Some(pool) = self.at(&list.host).map(|at| self.rooms[at].pool) else { continue };
            // Hosts that share a storage list the same.
            if std::mem::replace(&mut counted[pool], true) {
                continue;
            }
            let is_base = |disk: &&DiskView| disk.volid.contains("base-") && !disk.volid.contains("/vm-");
            let others = list.disks.iter().filter(|disk| !ours(disk.vmid) && !is_base(disk));
            promised[pool] = others.map(|disk| disk.size).sum();
        }
        promised
    }

    /// Where a host is in [`Rooms::rooms`].
    pub(crate) fn at(&self, host: &str) -> Option<usize> {
        self.index.get(host).copied()
    }

    /// What is free for this cluster on a host.
    pub(crate) fn free(&self, at: usize) -> Need {
        let (room, pool) = (&self.rooms[at], &self.pools[self.rooms[at].pool]);
        let disk = pool.total.saturating_sub(pool.before + pool.added);
        let cap = room.disk_cap.map_or(u64::MAX, |cap| cap.saturating_sub(room.added.disk));
        Need { disk: disk.min(cap), ..room.total.minus(room.before).minus(room.added) }
    }

    /// The most vCPUs that one VM on a host can have, if a node wants more.
    pub(crate) fn too_many_cores(&self, at: usize, need: Need) -> Option<u64> {
        let cpus = self.rooms[at].cpus;
        (need.cores > cpus).then_some(cpus)
    }

    /// Whether a node fits.
    pub(crate) fn fits(&self, at: usize, need: Need) -> bool {
        let free = self.free(at);
        self.too_many_cores(at, need).is_none()
            && need.cores <= free.cores
            && need.memory <= free.memory
            && need.disk <= free.disk
    }

    /// Takes room.
    pub(crate) fn take(&mut self, at: usize, need: Need) {
        self.rooms[at].added.add(need);
        let pool = self.rooms[at].pool;
        self.pools[pool].added += need.disk;
    }

    /// Gives back what a VM took that goes away.
    pub(crate) fn release(&mut self, guest: &GuestView) {
        let Some(at) = self.at(&guest.host) else { return };
        let need = Need { disk: guest.disk_in_all(&self.storage), ..Need::awake(guest) };
        let pool = self.rooms[at].pool;
        self.rooms[at].before = self.rooms[at].before.minus(need);
        self.pools[pool].before = self.pools[pool].before.saturating_sub(need.disk);
    }

    /// What an existing node will take beyond what it takes now.
    pub(crate) fn growth(&self, cluster: &Cluster, node: &Node, state: &State<'_>) -> Need {
        let (guest, disk) = match state {
            // Its further disks are made with it, and not all is known of it yet.
            State::Creating { guest, .. } => (guest, node.disk.saturating_sub(guest.disk)),
            State::Present(present) => {
                let (guest, config) = (&present.guest, &present.config);
                let declared = vm::declared(cluster, node, &config.seats);
                let changes = vm::differences(&declared, &config.options, None, guest.running).changes;
                let further: u64 = changes.iter().map(|change| change.added(&self.storage)).sum();
                (guest, node.disk.saturating_sub(config.disk) + further)
            }
            State::Absent | State::Blocked { .. } => return Need::default(),
        };
        Need { disk, ..self.need(node).minus(Need::awake(guest)) }
    }

    /// What a node that is to be made will take.
    pub(crate) fn need(&self, node: &Node) -> Need {
        Need { memory: node.memory, cores: u64::from(node.cores), disk: node.disk_in_all(&self.storage) }
    }

    /// The table of the plan. `before` is the count before the plan was made.
    pub(crate) fn budgets(&self, before: &Self, nodes: &HashMap<&str, Vec<String>>) -> Vec<HostBudget> {
        let budget = |total, before, after| Budget { total, before, after };
        self.rooms
            .iter()
            .zip(&before.rooms)
            .map(|(room, old)| {
                let (pool, old_pool) = (&self.pools[room.pool], &before.pools[old.pool]);
                let disk_after = pool.before + pool.added;
                let cap = old.disk_cap.map_or(u64::MAX, |cap| cap.saturating_add(old_pool.before));
                HostBudget {
                    host: room.host.clone(),
                    cores: budget(room.total.cores, old.before.cores, room.before.cores + room.added.cores),
                    memory: budget(
                        room.total.memory,
                        old.before.memory,
                        room.before.memory + room.added.memory,
                    ),
                    disk: budget(pool.total.min(cap), old_pool.before, disk_after),
                    nodes: nodes.get(room.host.as_str()).cloned().unwrap_or_default(),
                }
            })
            .collect()
    }
}
