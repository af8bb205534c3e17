//! The hosts' part of the live checks: whether they are there, with the storages and the bridge that are declared.

use std::collections::BTreeSet;

use daedal_inventory::{Cluster, Host};
use daedal_planner::{
    CLONE_FULL, Command, Fix, HostView, StorageView, World, lacks_linked_clones, leftovers, storage_warnings,
    storages_needed,
};
use daedal_words::{remedy, sentence};

use super::{Check, CheckSubject, CheckVerdict, LiveReport};

/// Room for an image and the nodes' config media, where the image's size is not known yet.
const IMAGE_ROOM: u64 = 4 << 30;

/// Every declared host; `known` are those that exist.
pub(super) fn look(report: &mut LiveReport, cluster: &Cluster, world: &World, known: &BTreeSet<String>) {
    for host in &cluster.proxmox.hosts {
        let name = &host.name;
        let what = CheckSubject::Host(name.clone());
        let Some(view) = world.hosts.get(name) else {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let fix = (!known.is_empty()).then(|| format!("hosts that exist: {}", known.join(", ")));
            report.add(CheckVerdict::Bad, what, "Proxmox has no such host", fix);
            continue;
        };
        if !view.online {
            let fix = format!(
                "bring it back, or remove it from `hosts`; on another host: pvecm status; ping {name}"
            );
            report.add(CheckVerdict::Bad, what, "it is offline", Some(fix));
            continue;
        }
        report.good(what, format!("online, {} CPUs, {} GiB", view.cpus, view.memory >> 30));
        for (storage, content) in storages_needed(cluster, world) {
            match view.storages.get(storage) {
                Some(found) => {
                    let needed = Needed { cluster, world, host, storage, content };
                    needed.look(report, found);
                }
                None => unknown_storage(report, view, storage, name),
            }
        }
        bridge(report, view, &cluster.proxmox.bridge, name);
    }
}

fn unknown_storage(report: &mut LiveReport, view: &HostView, storage: &str, host: &str) {
    let known: Vec<&str> = view.storages.keys().map(String::as_str).collect();
    let fix = (!known.is_empty()).then(|| format!("storages that exist there: {}", known.join(", ")));
    let what = CheckSubject::storage(storage, host);
    report.add(CheckVerdict::Bad, what, "it does not exist, or the token may not see it", fix);
}

fn bridge(report: &mut LiveReport, view: &HostView, bridge: &str, host: &str) {
    if !view.bridges_seen || view.bridges.contains(bridge) {
        return;
    }
    let known: Vec<&str> = view.bridges.iter().map(String::as_str).collect();
    let what = CheckSubject::Bridge { bridge: bridge.to_owned(), host: host.to_owned() };
    let fix = format!("bridges that exist there: {}", known.join(", "));
    report.add(CheckVerdict::Bad, what, "it does not exist there", Some(fix));
}

/// A storage of a host, and what it is needed for.
struct Needed<'a> {
    cluster: &'a Cluster,
    world: &'a World,
    host: &'a Host,
    storage: &'a str,
    content: Vec<&'static str>,
}

impl Needed<'_> {
    fn look(self, report: &mut LiveReport, found: &StorageView) {
        let room = self.room();
        let Self { cluster, storage, host, content, .. } = self;
        let (what, name) = (CheckSubject::storage(storage, &host.name), &host.name);
        let missing: Vec<&str> = content.into_iter().filter(|kind| !found.content.contains(*kind)).collect();
        if let Some(fault) = found.fault() {
            let fix = fault.fix(&found.kind, storage, name);
            report.add(CheckVerdict::Bad, what, format!("it {fault}"), Some(fix));
        } else if let Some(why) = lacks_linked_clones(cluster, storage, &found.kind) {
            report.add(CheckVerdict::Bad, what, why, Some(CLONE_FULL.to_owned()));
        } else if storage == cluster.proxmox.images_storage && found.available < room {
            report.add(
                CheckVerdict::Bad,
                what,
                format!(
                    "it has {} MiB free, and an image takes up to {} MiB",
                    found.available >> 20,
                    room >> 20
                ),
                Some(format!("make room on {name}: pvesm list {storage}; pvesm free VOLUME")),
            );
        } else if missing.is_empty() {
            report.good(what, format!("{} GiB free", found.available >> 30));
        } else {
            let all: BTreeSet<&str> =
                found.content.iter().map(String::as_str).chain(missing.iter().copied()).collect();
            let all: Vec<&str> = all.into_iter().collect();
            report.add(
                CheckVerdict::Bad,
                what,
                format!("it does not take the content type {}", missing.join(" and ")),
                Some(format!("pvesm set {storage} --content {}", all.join(","))),
            );
        }
    }

    /// Bytes that images still take there.
    fn room(&self) -> u64 {
        let Self { cluster, world, host, .. } = self;
        let there = |file: &str| world.volumes.iter().any(|v| v.host == host.name && v.volid.ends_with(file));
        match &world.image_pins[..] {
            _ if cluster.boot.volume().is_some() => 0,
            [] => IMAGE_ROOM,
            pins => pins.iter().filter(|pin| !there(&pin.file)).map(|pin| pin.size).max().unwrap_or(0),
        }
    }
}

/// What a cluster that lives should know of its storages; what cannot be used at all is told with the hosts.
pub(super) fn living(report: &mut LiveReport, cluster: &Cluster, world: &World) {
    for warning in storage_warnings(cluster, world) {
        let Some(used) = warning.storage() else { continue };
        let (storage, host) = (&used.storage, (!used.shared).then_some(used.host.as_str()));
        let told = |check: &Check| check.verdict == CheckVerdict::Bad && check.what.is_storage(storage, host);
        if !report.checks.iter().any(told) {
            report.checks.retain(|check| !check.what.is_storage(storage, host));
            let what = CheckSubject::Storage { storage: storage.clone(), host: host.map(str::to_owned) };
            report.add(CheckVerdict::Warning, what, sentence(&warning), remedy(&warning));
        }
    }
    let left: Vec<String> = leftovers(cluster, world).iter().map(|one| one.shown().to_string()).collect();
    if !left.is_empty() {
        let fix = Fix::from("to see them: ")
            .run(Command::VolumesList)
            .words("; to delete them: ")
            .run(Command::VolumesPrune);
        let found = format!("left over, used by no VM: {}", left.join(", "));
        report.add(CheckVerdict::Warning, CheckSubject::Volumes, found, Some(fix));
    }
}
