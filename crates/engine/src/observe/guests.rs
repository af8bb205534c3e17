//! Every guest of the Proxmox cluster, and whose it is.

use std::collections::{BTreeMap, BTreeSet};

use daedal_inventory::Cluster;
use daedal_planner::names::is_template_name;
use daedal_planner::{
    Aspect, FoundMark, Generation, GuestView, Identity, Judge, Mark, Ownership, VmConfig, asked_size,
};
use daedal_proxmox::{Client, Resource, TaskFilter, TaskRow, VmConfig as RawConfig, VmRow};
use futures::future::join_all;
use futures::stream::{self, StreamExt};

use crate::error::chain;
use crate::limits::Limits;
use crate::machine::{self, Drives, SYSTEM_DISK};
use crate::observe::unseen::{self, Owner};
use crate::observe::{UnobservedList, clones};

/// What was found of the guests.
pub(crate) struct Found {
    pub(crate) guests: BTreeMap<u32, GuestView>,
    /// Hosts that did not list theirs.
    pub(crate) unlisted: BTreeSet<String>,
    /// The generations that the marks on our VMs name.
    pub(crate) applied: Vec<Generation>,
}

/// Looks at all guests; reads the config of those that could be ours. Also names the hosts that did not list theirs.
pub(crate) async fn look(
    proxmox: &Client,
    judge: &Judge<'_>,
    cluster: &Cluster,
    resources: &[Resource],
    limits: &Limits,
    unobserved: &UnobservedList,
) -> Found {
    let ours = Candidates::of(cluster);
    let Listed { mut guests, containers, online, asked, unheard } =
        list(proxmox, cluster, &ours, resources, unobserved).await;
    let candidates: Vec<(u32, String)> = guests
        .values()
        .filter(|guest| !containers.contains(&guest.vmid))
        .filter(|guest| ours.could_be(guest.vmid, &guest.name, &guest.tags))
        .map(|guest| (guest.vmid, guest.host.clone()))
        .collect();
    let looked: Vec<(u32, Ownership, Option<RawConfig>)> = stream::iter(candidates)
        .map(|(vmid, host)| {
            let heard = online.contains(host.as_str()) && !unheard.contains(host.as_str());
            async move {
                if !heard {
                    let why = format!("host {host} does not answer");
                    return (vmid, Ownership::Unreadable { why }, None);
                }
                let read = match proxmox.vm_config_pending(&host, vmid).await {
                    Ok(config) => whose(proxmox, judge, cluster, &host, vmid, config).await,
                    Err(error) => Err(error),
                };
                match read {
                    Ok((ownership, config)) => (vmid, ownership, Some(config)),
                    Err(error) => (vmid, Ownership::Unreadable { why: chain(&error) }, None),
                }
            }
        })
        .buffer_unordered(limits.probes)
        .collect()
        .await;
    let mut applied: Vec<Generation> = Vec::new();
    for (vmid, ownership, config) in looked {
        let Some(guest) = guests.get_mut(&vmid) else { continue };
        let mark = config.as_ref().and_then(mark).filter(|_| matches!(ownership, Ownership::Ours { .. }));
        applied.extend(mark.and_then(|mark| mark.applied()));
        if let Ownership::Unreadable { why } = &ownership {
            unobserved.say(Aspect::Vm { vmid, host: Some(guest.host.clone()) }, why.clone());
        }
        guest.ownership = ownership;
        if let Some(config) = config {
            guest.lock.clone_from(&config.lock);
            guest.tags.clone_from(&config.tags);
            guest.smbios = smbios(&config);
            if let Some(name) = &config.name {
                guest.name.clone_from(name);
            }
            guest.config = Some(compared(vmid, &config, machine::drives(cluster)));
        }
    }
    let heard: Vec<&str> = asked.iter().copied().filter(|host| !unheard.contains(host)).collect();
    let unlisted = unseen::vmids(cluster).filter(|(vmid, _)| !guests.contains_key(vmid));
    for guest in unseen::look(proxmox, cluster, &heard, unlisted, unobserved).await {
        guests.insert(guest.vmid, guest);
    }
    applied.sort_by(|a, b| (a.number, &a.at, &a.by).cmp(&(b.number, &b.at, &b.by)));
    applied.dedup();
    Found { guests, unlisted: unheard.into_iter().map(str::to_owned).collect(), applied }
}

/// By what a guest of the cluster may be known before its config was read.
struct Candidates<'a> {
    tag: String,
    vmids: BTreeSet<u32>,
    names: BTreeSet<&'a str>,
}

impl<'a> Candidates<'a> {
    fn of(cluster: &'a Cluster) -> Self {
        let templates = cluster.templates().map(|(vmid, ..)| vmid);
        Self {
            tag: format!("daedal-{}", cluster.name),
            vmids: cluster.nodes.iter().map(|node| node.vmid).chain(templates).collect(),
            names: cluster.nodes.iter().map(|node| node.name.as_str()).collect(),
        }
    }

    fn could_be(&self, vmid: u32, name: &str, tags: &[String]) -> bool {
        self.vmids.contains(&vmid)
            || self.names.contains(name)
            || tags.contains(&self.tag)
            || is_template_name(name)
    }
}

/// What the lists tell.
struct Listed<'a> {
    guests: BTreeMap<u32, GuestView>,
    /// A container on our VMID is in the way like any guest, but has no VM's config to read.
    containers: BTreeSet<u32>,
    online: BTreeSet<&'a str>,
    /// The hosts that were asked for their VMs.
    asked: Vec<&'a str>,
    /// Those of them that did not answer.
    unheard: BTreeSet<&'a str>,
}

/// Lists all guests. The list of everything lags: identity and power state come from the nodes themselves. Asked are the
/// declared hosts and wherever else something that could be ours is.
async fn list<'a>(
    proxmox: &Client,
    cluster: &'a Cluster,
    ours: &Candidates<'_>,
    resources: &'a [Resource],
    unobserved: &UnobservedList,
) -> Listed<'a> {
    let rows: Vec<&Resource> =
        resources.iter().filter(|row| matches!(row.kind.as_str(), "qemu" | "lxc")).collect();
    let containers: BTreeSet<u32> =
        rows.iter().filter(|row| row.kind == "lxc").filter_map(|row| row.vmid).collect();
    let mut guests: BTreeMap<u32, GuestView> = BTreeMap::new();
    for row in &rows {
        let Some(vmid) = row.vmid else { continue };
        guests.insert(vmid, from_resource(vmid, row));
    }
    let online: BTreeSet<&str> = resources
        .iter()
        .filter(|row| row.kind == "node" && row.status == "online")
        .map(|row| row.node.as_str())
        .collect();
    let declared = cluster.proxmox.hosts.iter().map(|host| host.name.as_str());
    let elsewhere = rows
        .iter()
        .filter(|row| row.vmid.is_some_and(|vmid| ours.could_be(vmid, &row.name, &row.tags)))
        .map(|row| row.node.as_str());
    let wanted: BTreeSet<&str> = declared.chain(elsewhere).collect();
    for host in wanted.difference(&online) {
        unobserved.say(Aspect::Host(host.to_string()), "it is offline or unknown");
    }
    let asked: Vec<&str> = wanted.intersection(&online).copied().collect();
    let lists = join_all(asked.iter().map(|host| proxmox.vms(host))).await;
    let mut unheard = BTreeSet::new();
    for (host, list) in asked.iter().zip(lists) {
        match list {
            Ok(rows) => {
                // What the node does not have is gone, whatever the lagging list says.
                let here: BTreeSet<u32> = rows.iter().map(|row| row.vmid).collect();
                guests.retain(|vmid, guest| {
                    guest.host != *host || containers.contains(vmid) || here.contains(vmid)
                });
                for row in &rows {
                    guests.insert(row.vmid, from_row(host, row, guests.get(&row.vmid)));
                }
            }
            Err(error) => {
                unheard.insert(*host);
                unobserved.add(Aspect::Guests(host.to_string()), &error);
            }
        }
    }
    Listed { guests, containers, online, asked, unheard }
}

/// The one mark in a VM's notes.
fn mark(config: &RawConfig) -> Option<Mark> {
    match Mark::find(config.description.as_deref().unwrap_or_default()) {
        FoundMark::One(mark) => Some(mark),
        FoundMark::None | FoundMark::Damaged => None,
    }
}

/// Whose a VM is, from its config and, while that shows nothing but `lock: create`, from its tasks. Also returns the
/// config that was judged: a later one, if the create ended meanwhile.
pub(crate) async fn whose(
    proxmox: &Client,
    judge: &Judge<'_>,
    cluster: &Cluster,
    host: &str,
    vmid: u32,
    config: RawConfig,
) -> Result<(Ownership, RawConfig), daedal_proxmox::Error> {
    if config.lock.as_deref() == Some("clone") {
        return whose_clone(proxmox, judge, cluster, host, vmid, config).await;
    }
    if !is_bare(&config) {
        return Ok((judged(judge, vmid, &config), config));
    }
    let Some((_, owner)) = unseen::vmids(cluster).find(|(of, _)| *of == vmid) else {
        return Ok((Ownership::Foreign, config));
    };
    let task = maker(proxmox, host, vmid).await?.filter(|task| by_us_and_unfinished(proxmox, task));
    let running = task.as_ref().is_some_and(TaskRow::running);
    let ownership = match (owner, task) {
        (_, None) => Ownership::Foreign,
        (Owner::Template(role), Some(_)) => Ownership::unmade_template(role, !running),
        (Owner::Node(node), Some(task)) => Ownership::HalfMade {
            node: node.name.clone(),
            task_running: running,
            upid: task.upid.to_string(),
        },
    };
    if running {
        return Ok((ownership, config));
    }
    // The create may have ended between the two looks, and a whole VM must not be called stuck: only a config read
    // after the end of its task tells.
    let config = proxmox.vm_config_pending(host, vmid).await?;
    if is_bare(&config) { Ok((ownership, config)) } else { Ok((judged(judge, vmid, &config), config)) }
}

/// Whose a VM is that is being cloned, or whose clone died: at first nothing on it tells, and the task carries the
/// number of its template.
async fn whose_clone(
    proxmox: &Client,
    judge: &Judge<'_>,
    cluster: &Cluster,
    host: &str,
    vmid: u32,
    config: RawConfig,
) -> Result<(Ownership, RawConfig), daedal_proxmox::Error> {
    let Some(node) = cluster.nodes.iter().find(|node| node.vmid == vmid) else {
        return Ok((judged(judge, vmid, &config), config));
    };
    let marked = matches!(judged(judge, vmid, &config), Ownership::HalfMade { .. });
    let tasks = clones::remembered(proxmox, host).await?;
    let unfinished = clones::unfinished(proxmox, cluster, node.role, &tasks);
    if let Some(task) = unfinished.filter(|task| task.running()) {
        let (node, upid) = (node.name.clone(), task.upid.to_string());
        return Ok((Ownership::HalfMade { node, task_running: true, upid }, config));
    }
    // It may have ended between the two looks.
    let config = proxmox.vm_config_pending(host, vmid).await?;
    if config.lock.as_deref() != Some("clone") {
        return Ok((judged(judge, vmid, &config), config));
    }
    let dead = Ownership::HalfMade { node: node.name.clone(), task_running: false, upid: String::new() };
    Ok((if marked || unfinished.is_some() { dead } else { Ownership::Foreign }, config))
}

/// The newest task that made a VM of this number out of nothing or out of a backup: both leave it bare meanwhile.
pub(crate) async fn maker(
    proxmox: &Client,
    host: &str,
    vmid: u32,
) -> Result<Option<TaskRow>, daedal_proxmox::Error> {
    let filter = TaskFilter { vmid: Some(vmid), limit: Some(500), ..TaskFilter::default() };
    let makes = |task: &TaskRow| {
        matches!(task.upid.kind(), "qmcreate" | "qmrestore") && task.upid.vmid() == Some(vmid)
    };
    Ok(proxmox.tasks(host, &filter).await?.into_iter().find(makes))
}

/// Whether our token started the task, and it runs or died: one that ended took its VM away or made it whole, so that a
/// bare one is somebody else's.
pub(crate) fn by_us_and_unfinished(proxmox: &Client, task: &TaskRow) -> bool {
    task.upid.kind() == "qmcreate"
        && task.upid.user() == proxmox.token_id()
        && (task.running() || clones::died(task))
}

/// Whether a config shows nothing but that its VM is being created.
pub(crate) fn is_bare(config: &RawConfig) -> bool {
    config.lock.as_deref() == Some("create") && config.description.is_none()
}

/// Mark, VMID and SMBIOS uuid as the config has them.
pub(crate) fn judged(judge: &Judge<'_>, vmid: u32, config: &RawConfig) -> Ownership {
    judge.judge(&Identity {
        vmid,
        name: config.name.as_deref().unwrap_or_default(),
        description: config.description.as_deref().unwrap_or_default(),
        smbios: smbios(config),
        tags: &config.tags,
    })
}

fn smbios(config: &RawConfig) -> Option<uuid::Uuid> {
    config.smbios_uuid.as_deref().and_then(|uuid| uuid.parse().ok())
}

/// The parts of a config that are compared, and what of them the running VM has otherwise.
fn compared(vmid: u32, config: &RawConfig, drives: Drives) -> VmConfig {
    let mark = mark(config);
    VmConfig {
        options: machine::seen(vmid, config),
        disk: config.disks.get(SYSTEM_DISK).and_then(|disk| disk.size).map_or(0, asked_size),
        media: (machine::snippet(config).map(str::to_owned))
            .or_else(|| config.cdroms.get(drives.media).cloned().flatten()),
        iso: config.cdroms.get(drives.boot).cloned().flatten(),
        base: config.disks.get(SYSTEM_DISK).and_then(|disk| base(&disk.volid)),
        waiting: mark.as_ref().is_some_and(|mark| mark.waiting),
        unsigned: mark.as_ref().is_some_and(|mark| mark.secrets.is_none()),
        protected_by_us: mark.is_some_and(|mark| mark.protected),
        seats: machine::seats(vmid, config),
        runs: config.runs.as_deref().map(|runs| Box::new(compared(vmid, runs, drives))),
        volumes: volumes(config),
        snapshots: config.raw.contains_key("parent"),
    }
}

/// Every volume that a config names, or the running VM still has.
fn volumes(config: &RawConfig) -> BTreeSet<String> {
    let disks = config.disks.values().map(|disk| disk.volid.clone());
    let unused = config.raw.iter().filter(|(option, _)| option.starts_with("unused"));
    let unused = unused.map(|(_, value)| value.split(',').next().unwrap_or_default().to_owned());
    let runs = config.runs.as_deref().map(volumes).unwrap_or_default();
    disks.chain(config.cdroms.values().flatten().cloned()).chain(unused).chain(runs).collect()
}

/// The template a disk is linked to, where its name tells (`local:998/base-998-disk-0.qcow2/300/vm-300-disk-0.qcow2`).
fn base(volid: &str) -> Option<u32> {
    let (_, rest) = volid.split_once("base-")?;
    // A template's own disk is a base as well.
    let linked = rest.contains("/vm-");
    rest.split('-').next().filter(|_| linked)?.parse().ok()
}

fn from_resource(vmid: u32, row: &Resource) -> GuestView {
    GuestView {
        vmid,
        host: row.node.clone(),
        name: row.name.clone(),
        template: row.template,
        running: row.status == "running",
        cores: row.maxcpu,
        memory: row.maxmem,
        disk: row.maxdisk,
        lock: row.lock.clone(),
        unseen: false,
        tags: sorted(&row.tags),
        smbios: None,
        ownership: Ownership::Foreign,
        config: None,
    }
}

fn from_row(host: &str, row: &VmRow, listed: Option<&GuestView>) -> GuestView {
    GuestView {
        vmid: row.vmid,
        host: host.to_owned(),
        name: row.name.clone(),
        template: row.template,
        running: row.running(),
        cores: row.cpus,
        memory: row.maxmem,
        disk: row.maxdisk,
        lock: row.lock.clone(),
        unseen: false,
        tags: if row.tags.is_empty() {
            listed.map(|l| l.tags.clone()).unwrap_or_default()
        } else {
            sorted(&row.tags)
        },
        smbios: None,
        ownership: Ownership::Foreign,
        config: None,
    }
}

fn sorted(tags: &[String]) -> Vec<String> {
    let mut tags = tags.to_vec();
    tags.sort();
    tags
}
