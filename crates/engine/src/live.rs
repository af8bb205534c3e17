//! `check --live`: what can be proven against the real Proxmox before anything is created.

mod factory;
mod quorum;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use daedal_dial::Target;
use daedal_inventory::{Cluster, Node, Reach, TlsTrust};
use daedal_planner::{
    CLONE_FULL, Command, Fix, Level, NoRoom, Ownership, Plan, PlanError, UnusableHost, World,
    lacks_linked_clones, leftovers, plan_apply, storage_warnings, storages_needed, without_import,
};
use daedal_proxmox::{Client, Permissions, imports_disk_images, permitted, release};
use futures::future::join_all;
use serde::Serialize;

pub use self::factory::NotInFactory;
use crate::engine::Engine;
use crate::error::{Error, chain};
use crate::observe::{UnobservedList, architectures};
use crate::privileges::{Scope, vnet_zones};

/// Everything that was checked, in order.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LiveReport {
    /// One entry per check.
    pub checks: Vec<Check>,
    /// Why nothing could be looked at, where that is so.
    #[serde(skip)]
    pub blocked: Option<Error>,
}

/// One check and how it went.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// What was checked, such as `storage local on atlas`.
    pub what: String,
    /// How it went.
    pub verdict: CheckVerdict,
    /// What was found, in a sentence.
    pub found: String,
    /// The exact command or edit that mends it.
    pub fix: Option<Fix>,
    /// Whether an apply may succeed although it could not be checked.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
}

/// How a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum CheckVerdict {
    /// As it should be.
    Good,
    /// Works, but deserves a look.
    Warning,
    /// An apply would fail on it.
    Bad,
    /// Could not be checked.
    Unknown,
}

impl LiveReport {
    /// Whether nothing stands in the way of an apply: no check failed, and all that an apply needs could be checked.
    pub fn passed(&self) -> bool {
        let unknown = |check: &Check| check.verdict == CheckVerdict::Unknown && !check.optional;
        self.count(CheckVerdict::Bad) == 0 && !self.checks.iter().any(unknown)
    }

    /// How many checks went that way.
    pub fn count(&self, verdict: CheckVerdict) -> usize {
        self.checks.iter().filter(|check| check.verdict == verdict).count()
    }

    fn add(
        &mut self,
        verdict: CheckVerdict,
        what: impl Into<String>,
        found: impl Into<String>,
        fix: Option<impl Into<Fix>>,
    ) {
        let (what, found, fix) = (what.into(), found.into(), fix.map(Into::into));
        self.checks.push(Check { what, verdict, found, fix, optional: false });
    }

    /// Something that could not be checked, and that an apply may do without.
    fn unasked(&mut self, what: impl Into<String>, found: impl Into<String>, fix: Option<Fix>) {
        let (what, found) = (what.into(), found.into());
        let check = Check { what, verdict: CheckVerdict::Unknown, found, fix, optional: true };
        self.checks.push(check);
    }

    fn good(&mut self, what: impl Into<String>, found: impl Into<String>) {
        self.add(CheckVerdict::Good, what, found, None::<Fix>);
    }
}

impl Engine {
    /// Checks everything an apply depends on and changes nothing.
    pub async fn live_checks(&self, cluster: &Cluster) -> LiveReport {
        let mut report = LiveReport::default();
        let proxmox = &self.parts.proxmox;
        let mut world = match self.observe(cluster).await {
            Ok(world) => world,
            Err(error) => {
                let what = format!("Proxmox at {}", cluster.proxmox.endpoint);
                report.add(CheckVerdict::Bad, what, chain(&error), error.fix());
                report.blocked = Some(error);
                return report;
            }
        };
        let unobserved = UnobservedList::default();
        architectures(proxmox, cluster, &mut world.hosts, &unobserved).await;
        world.unobserved.extend(unobserved.take());
        let plan = plan_apply(cluster, &self.images(cluster), &world);
        version(&mut report, cluster, &world.proxmox_version, &plan);
        privileges(&mut report, cluster, proxmox, &world.proxmox_version).await;
        pool(&mut report, cluster, proxmox).await;
        // Only a name that is not known raises the question which are.
        let all_known = cluster.proxmox.hosts.iter().all(|host| world.hosts.contains_key(&host.name));
        let known = match if all_known { Ok(Vec::new()) } else { proxmox.resources().await } {
            Ok(rows) => rows.into_iter().filter(|row| row.kind == "node").map(|row| row.node).collect(),
            Err(_) => BTreeSet::new(),
        };
        hosts(&mut report, cluster, &world, &known);
        living(&mut report, cluster, &world);
        planned(&mut report, cluster, &world, plan);
        self.factory(&mut report, cluster).await;
        self.addresses(&mut report, cluster, &world).await;
        self.clocks(&mut report, &world).await;
        quorum::look(&mut report, proxmox).await;
        for unobserved in &world.unobserved {
            report.add(
                CheckVerdict::Unknown,
                unobserved.what.to_string(),
                &unobserved.why,
                unobserved.fix.clone(),
            );
        }
        report
    }

    /// Whether the addresses of nodes that are still to be made are free.
    async fn addresses(&self, report: &mut LiveReport, cluster: &Cluster, world: &World) {
        let free: Vec<&Node> =
            cluster.nodes.iter().filter(|node| !world.guests.contains_key(&node.vmid)).collect();
        let mut addresses: Vec<(String, String)> =
            free.iter().filter_map(|node| Some((node.name.clone(), node.ip()?.to_string()))).collect();
        if free.len() == cluster.nodes.len()
            && let Some(vip) = cluster.network.vip
        {
            addresses.push(("the virtual address".to_owned(), vip.to_string()));
        }
        let count = addresses.len();
        let answers = join_all(addresses.into_iter().map(|(who, address)| async move {
            let tries = [50_000, 6443, 22].map(|port| self.answers(&cluster.reach, address.clone(), port));
            let open = join_all(tries).await.into_iter().flatten().next();
            (who, address, open)
        }))
        .await;
        let mut taken = 0;
        for (who, address, open) in answers {
            let Some(port) = open else { continue };
            taken += 1;
            report.add(
                CheckVerdict::Bad,
                format!("address {address}"),
                format!("something answers there on port {port}, but {who} does not exist yet"),
                Some("choose another address, or find out what uses this one".to_owned()),
            );
        }
        if taken == 0 && count > 0 {
            report.good("addresses", format!("nothing answers on the {count} that new nodes will use"));
        }
    }

    /// Whether the hosts' clocks, which the VMs begin with, agree with ours, which dates the certificates.
    async fn clocks(&self, report: &mut LiveReport, world: &World) {
        let asked = world.hosts.iter().filter(|(_, view)| view.online).map(|(name, _)| async move {
            let told = self.parts.proxmox.node_time(name).await;
            (name, told, self.parts.clock.now().as_second())
        });
        let asked = join_all(asked).await;
        let mut right = !asked.is_empty();
        for (name, told, here) in asked {
            let what = format!("clock of {name}");
            match told {
                Ok(there) if (there - here).abs() <= CLOCK_SLACK => {}
                Ok(there) => {
                    right = false;
                    let way = if there > here { "ahead of" } else { "behind" };
                    let found = format!(
                        "it is {} s {way} this machine's. New nodes may refuse certificates until they reach a time \
                         server",
                        (there - here).abs()
                    );
                    let fix = format!("on {name}: chronyc makestep   (and here, if this machine's is wrong)");
                    report.add(CheckVerdict::Warning, what, found, Some(fix));
                }
                Err(error) => {
                    right = false;
                    report.add(CheckVerdict::Unknown, what, chain(&error), None::<Fix>);
                }
            }
        }
        if right {
            report.good("clocks", format!("within {CLOCK_SLACK} s of this machine's"));
        }
    }

    /// The port, if something is there that takes or refuses a connection.
    async fn answers(&self, reach: &Reach, address: String, port: u16) -> Option<u16> {
        let target = Target::new(address, port);
        let dialled =
            tokio::time::timeout(Duration::from_secs(1), self.parts.routes.nodes.dial(&target)).await;
        match dialled {
            Ok(Ok(_)) => Some(port),
            Ok(Err(error)) if proves_a_host(reach, &error) => Some(port),
            _ => None,
        }
    }
}

/// Seconds by which clocks may differ before it is worth a word.
const CLOCK_SLACK: i64 = 30;

/// Room for an image and the nodes' config media, where the image's size is not known yet.
const IMAGE_ROOM: u64 = 4 << 30;

/// Only a host that is up refuses a connection; but a proxy says the same of an address where nothing is.
fn proves_a_host(reach: &Reach, error: &std::io::Error) -> bool {
    *reach == Reach::Direct && error.kind() == std::io::ErrorKind::ConnectionRefused
}

fn version(report: &mut LiveReport, cluster: &Cluster, version: &str, plan: &Result<Plan, PlanError>) {
    let what = format!("Proxmox at {}", cluster.proxmox.endpoint);
    let (major, _) = release(version).unwrap_or_default();
    if major >= 8 && (imports_disk_images(version) || !cluster.boot.imports()) {
        report.good(what, format!("version {version}, the token is accepted"));
    } else if major < 8 {
        let found = format!("version {version} is too old; 8.0 or newer is needed");
        report.add(CheckVerdict::Bad, what, found, Some("upgrade Proxmox VE".to_owned()));
    } else {
        let found = format!("version {version} cannot import disk images; 8.4 or newer is needed");
        let fix = format!("upgrade Proxmox VE, or {}", without_import(cluster));
        // Nodes that are there already stay without it.
        match plan {
            Err(PlanError::NoImport { .. }) => report.add(CheckVerdict::Bad, what, found, Some(fix)),
            _ => report.add(CheckVerdict::Warning, what, format!("{found} for new nodes"), Some(fix)),
        }
    }
    if cluster.proxmox.tls == TlsTrust::Insecure {
        report.add(
            CheckVerdict::Warning,
            "TLS",
            "the certificate of Proxmox is not verified (`insecure: true`)",
            Some("pin it: `tls: {fingerprint: …}`".to_owned()),
        );
    }
}

/// What the plan would say: room, and whatever keeps a node from being made.
fn planned(report: &mut LiveReport, cluster: &Cluster, world: &World, plan: Result<Plan, PlanError>) {
    let plan = match plan {
        Ok(plan) => plan,
        // Said with the version.
        Err(PlanError::NoImport { .. }) => return taken_vmids(report, cluster, world),
        Err(PlanError::NoRoom(room)) if room.is_unusable() => {
            no_host(report, &room);
            return taken_vmids(report, cluster, world);
        }
        Err(error) => {
            let what = if matches!(error, PlanError::NoRoom(_)) { "capacity" } else { "plan" };
            report.add(CheckVerdict::Bad, what, chain(&error), error.fix());
            return taken_vmids(report, cluster, world);
        }
    };
    report.good("capacity", "every new node fits on a host");
    for note in plan.notes.into_iter().filter(|note| note.level == Level::Problem) {
        report.add(CheckVerdict::Bad, note.about, note.text, note.fix);
    }
}

/// Why no host can take the new nodes, host by host, unless that was told with the hosts already.
fn no_host(report: &mut LiveReport, room: &NoRoom) {
    let found = format!("{}: {}", room.headline(), room.homeless.join(", "));
    let mut untold = Vec::new();
    for UnusableHost { host, why, fix } in &room.unusable {
        let of_host = |what: &str| what == format!("host {host}") || what.ends_with(&format!(" on {host}"));
        let told = |check: &Check| check.verdict == CheckVerdict::Bad && of_host(&check.what);
        if !report.checks.iter().any(told) {
            untold.push((format!("new nodes on {host}"), why.clone(), fix.clone()));
        }
    }
    report.add(CheckVerdict::Bad, "new nodes", found, None::<Fix>);
    for (what, why, fix) in untold {
        report.add(CheckVerdict::Bad, what, why, fix);
    }
}

/// VMIDs on which somebody else's guest sits, for when no plan says so.
fn taken_vmids(report: &mut LiveReport, cluster: &Cluster, world: &World) {
    for node in &cluster.nodes {
        let Some(guest) = world.guests.get(&node.vmid) else { continue };
        if matches!(guest.ownership, Ownership::Foreign | Ownership::LookAlike { .. }) {
            report.add(
                CheckVerdict::Bad,
                format!("VMID {}", node.vmid),
                format!("it is taken by `{}` on {}, which is not node {}", guest.name, guest.host, node.name),
                Some(format!("give node {} or its pool another VMID", node.name)),
            );
        }
    }
}

/// What the token may do, as Proxmox itself works it out for each path.
async fn privileges(report: &mut LiveReport, cluster: &Cluster, proxmox: &Client, version: &str) {
    let token = proxmox.token_id();
    let (major, _) = release(version).unwrap_or_default();
    let scope = Scope { zones: vnet_zones(proxmox).await, ..Scope::of(cluster) };
    let grants = scope.grants(major);
    let paths: BTreeSet<&str> = grants.iter().map(|grant| grant.path.as_str()).collect();
    let asked = paths.iter().map(|path| async move { (*path, proxmox.permissions_on(path).await) });
    let mut held: BTreeMap<&str, Permissions> = BTreeMap::new();
    for (path, answer) in join_all(asked).await {
        match answer {
            Ok(permissions) => drop(held.insert(path, permissions)),
            Err(error) => {
                report.add(
                    CheckVerdict::Unknown,
                    format!("privileges on {path}"),
                    chain(&error),
                    None::<Fix>,
                );
            }
        }
    }
    let mut all = held.len() == paths.len();
    for grant in &grants {
        let Some(permissions) = held.get(grant.path.as_str()) else { continue };
        let missing: Vec<&str> = grant
            .privileges
            .iter()
            .copied()
            .filter(|privilege| !permitted(permissions, &grant.path, privilege))
            .collect();
        if missing.is_empty() {
            continue;
        }
        let (verdict, so) = match grant.loss {
            Some(loss) => (CheckVerdict::Warning, format!(", so {loss}")),
            None => (CheckVerdict::Bad, String::new()),
        };
        all &= grant.loss.is_some();
        report.add(
            verdict,
            format!("privileges on {}", grant.path),
            format!("the token {token} lacks {}{so}", missing.join(", ")),
            Some(grant.command(token)),
        );
    }
    if all {
        report.good("privileges", format!("the token {token} has all that are needed"));
    }
}

/// A pool that is missing is found only when the first VM goes into it.
async fn pool(report: &mut LiveReport, cluster: &Cluster, proxmox: &Client) {
    let Some(pool) = &cluster.proxmox.pool else { return };
    let what = format!("pool {pool}");
    match proxmox.pools().await {
        Ok(pools) if pools.iter().any(|known| known.poolid == *pool) => report.good(what, "it exists"),
        Ok(_) => report.add(
            CheckVerdict::Bad,
            what,
            "it does not exist, or the token may not see it",
            Some(format!("pveum pool add {pool}")),
        ),
        Err(error) => report.add(CheckVerdict::Unknown, what, chain(&error), None::<Fix>),
    }
}

/// What a cluster that lives should know of its storages; what cannot be used at all is told with the hosts.
fn living(report: &mut LiveReport, cluster: &Cluster, world: &World) {
    for warning in storage_warnings(cluster, world) {
        let told = report.checks.iter().any(|check| {
            check.verdict == CheckVerdict::Bad && check.what.starts_with(warning.about.as_str())
        });
        if !told {
            report.checks.retain(|check| check.what != warning.about);
            report.add(CheckVerdict::Warning, warning.about, warning.text, Some(warning.fix));
        }
    }
    let left: Vec<String> = leftovers(cluster, world).iter().map(daedal_planner::Leftover::shown).collect();
    if !left.is_empty() {
        let fix = Fix::from("to see them: ")
            .run(Command::VolumesList)
            .words("; to delete them: ")
            .run(Command::VolumesPrune);
        let found = format!("left over, used by no VM: {}", left.join(", "));
        report.add(CheckVerdict::Warning, "volumes", found, Some(fix));
    }
}

fn hosts(report: &mut LiveReport, cluster: &Cluster, world: &World, known: &BTreeSet<String>) {
    let proxmox = &cluster.proxmox;
    for host in &proxmox.hosts {
        let name = &host.name;
        let Some(view) = world.hosts.get(name) else {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let fix = (!known.is_empty()).then(|| format!("hosts that exist: {}", known.join(", ")));
            report.add(CheckVerdict::Bad, format!("host {name}"), "Proxmox has no such host", fix);
            continue;
        };
        if !view.online {
            let fix = format!(
                "bring it back, or remove it from `hosts`; on another host: pvecm status; ping {name}"
            );
            report.add(CheckVerdict::Bad, format!("host {name}"), "it is offline", Some(fix));
            continue;
        }
        report.good(format!("host {name}"), format!("online, {} CPUs, {} GiB", view.cpus, view.memory >> 30));
        for (storage, content) in storages_needed(cluster, world) {
            let what = format!("storage {storage} on {name}");
            let Some(found) = view.storages.get(storage) else {
                let known: Vec<&str> = view.storages.keys().map(String::as_str).collect();
                let fix =
                    (!known.is_empty()).then(|| format!("storages that exist there: {}", known.join(", ")));
                report.add(CheckVerdict::Bad, what, "it does not exist, or the token may not see it", fix);
                continue;
            };
            let missing: Vec<&str> =
                content.into_iter().filter(|kind| !found.content.contains(*kind)).collect();
            let there = |file: &str| world.volumes.iter().any(|v| v.host == *name && v.volid.ends_with(file));
            let room = match &world.image_pins[..] {
                _ if cluster.boot.volume().is_some() => 0,
                [] => IMAGE_ROOM,
                pins => pins.iter().filter(|pin| !there(&pin.file)).map(|pin| pin.size).max().unwrap_or(0),
            };
            if let Some((why, fix)) = found.fault(storage, name) {
                report.add(CheckVerdict::Bad, what, format!("it {why}"), Some(fix));
            } else if let Some(why) = lacks_linked_clones(cluster, storage, &found.kind) {
                report.add(CheckVerdict::Bad, what, why, Some(CLONE_FULL.to_owned()));
            } else if storage == proxmox.images_storage && found.available < room {
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
                    found.content.iter().map(String::as_str).chain(missing.clone()).collect();
                let all: Vec<&str> = all.into_iter().collect();
                report.add(
                    CheckVerdict::Bad,
                    what,
                    format!("it does not take the content type {}", missing.join(" and ")),
                    Some(format!("pvesm set {storage} --content {}", all.join(","))),
                );
            }
        }
        if view.bridges_seen && !view.bridges.contains(&proxmox.bridge) {
            let known: Vec<&str> = view.bridges.iter().map(String::as_str).collect();
            report.add(
                CheckVerdict::Bad,
                format!("bridge {} on {name}", proxmox.bridge),
                "it does not exist there",
                Some(format!("bridges that exist there: {}", known.join(", "))),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::*;

    #[test]
    fn a_refusal_proves_a_host_only_where_nothing_is_between() {
        let refused = Error::from(ErrorKind::ConnectionRefused);
        assert!(proves_a_host(&Reach::Direct, &refused));
        assert!(!proves_a_host(&Reach::Proxy("socks5://127.0.0.1:1080".to_owned()), &refused));
        for silent in [ErrorKind::HostUnreachable, ErrorKind::NetworkUnreachable, ErrorKind::TimedOut] {
            assert!(!proves_a_host(&Reach::Direct, &Error::from(silent)), "{silent}");
        }
    }
}
