//! `check --live`: what can be proven against the real Proxmox before anything is created.

mod factory;
mod hosts;
mod quorum;
mod subject;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use daedal_dial::Target;
use daedal_inventory::{Cluster, Node, Reach, TlsTrust};
use daedal_planner::{
    Fix, Level, NoRoom, Ownership, Plan, PlanError, UnusableHost, World, plan_apply, without_import,
};
use daedal_proxmox::{Client, Permissions, imports_disk_images, permitted, release};
use daedal_words::Told as _;
use futures::future::join_all;
use serde::Serialize;

pub use self::factory::NotInFactory;
pub use self::subject::CheckSubject;
use crate::account_script::granting;
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
    /// What was checked; in JSON its words, such as `storage local on atlas`.
    pub what: CheckSubject,
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
        what: CheckSubject,
        found: impl Into<String>,
        fix: Option<impl Into<Fix>>,
    ) {
        let (found, fix) = (found.into(), fix.map(Into::into));
        self.checks.push(Check { what, verdict, found, fix, optional: false });
    }

    /// Something that could not be checked, and that an apply may do without.
    fn unasked(&mut self, what: CheckSubject, found: impl Into<String>, fix: Option<Fix>) {
        let found = found.into();
        let check = Check { what, verdict: CheckVerdict::Unknown, found, fix, optional: true };
        self.checks.push(check);
    }

    fn good(&mut self, what: CheckSubject, found: impl Into<String>) {
        self.add(CheckVerdict::Good, what, found, None::<Fix>);
    }
}

impl Engine {
    /// Checks everything an apply depends on and changes nothing.
    pub async fn live_checks(&self, cluster: &Cluster) -> LiveReport {
        let mut report = LiveReport::default();
        let proxmox = &self.parts.proxmox;
        let mut world = match self.observe_machines(cluster).await {
            Ok(world) => world,
            Err(error) => {
                let what = CheckSubject::Proxmox(cluster.proxmox.endpoint.clone());
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
        hosts::look(&mut report, cluster, &world, &known);
        hosts::living(&mut report, cluster, &world);
        planned(&mut report, cluster, &world, plan);
        self.factory(&mut report, cluster).await;
        self.addresses(&mut report, cluster, &world).await;
        self.clocks(&mut report, &world).await;
        quorum::look(&mut report, proxmox).await;
        for unobserved in &world.unobserved {
            report.add(
                CheckVerdict::Unknown,
                CheckSubject::Unobserved(unobserved.what.clone()),
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
                CheckSubject::Addresses(Some(address)),
                format!("something answers there on port {port}, but {who} does not exist yet"),
                Some("choose another address, or find out what uses this one".to_owned()),
            );
        }
        if taken == 0 && count > 0 {
            report.good(
                CheckSubject::Addresses(None),
                format!("nothing answers on the {count} that new nodes will use"),
            );
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
            let what = CheckSubject::Clocks(Some(name.clone()));
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
            report.good(CheckSubject::Clocks(None), format!("within {CLOCK_SLACK} s of this machine's"));
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

/// Only a host that is up refuses a connection; but a proxy says the same of an address where nothing is.
fn proves_a_host(reach: &Reach, error: &std::io::Error) -> bool {
    *reach == Reach::Direct && error.kind() == std::io::ErrorKind::ConnectionRefused
}

fn version(report: &mut LiveReport, cluster: &Cluster, version: &str, plan: &Result<Plan, PlanError>) {
    let what = CheckSubject::Proxmox(cluster.proxmox.endpoint.clone());
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
            CheckSubject::Tls,
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
            let what = match error {
                PlanError::NoRoom(_) => CheckSubject::Capacity,
                _ => CheckSubject::Plan,
            };
            report.add(CheckVerdict::Bad, what, chain(&error), error.fix());
            return taken_vmids(report, cluster, world);
        }
    };
    report.good(CheckSubject::Capacity, "every new node fits on a host");
    for note in plan.notes.into_iter().filter(|note| note.level == Level::Problem) {
        let (found, fix) = (note.text(), note.fix());
        report.add(CheckVerdict::Bad, CheckSubject::Noted(Box::new(note.advice)), found, fix);
    }
}

/// Why no host can take the new nodes, host by host, unless that was told with the hosts already.
fn no_host(report: &mut LiveReport, room: &NoRoom) {
    let found = format!("{}: {}", room.headline(), room.homeless.join(", "));
    let mut untold = Vec::new();
    for UnusableHost { host, why, fix } in &room.unusable {
        let told = |check: &Check| check.verdict == CheckVerdict::Bad && check.what.host() == Some(host);
        if !report.checks.iter().any(told) {
            untold.push((CheckSubject::NewNodes(Some(host.clone())), why.clone(), fix.clone()));
        }
    }
    report.add(CheckVerdict::Bad, CheckSubject::NewNodes(None), found, None::<Fix>);
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
                CheckSubject::Vmid(node.vmid),
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
                    CheckSubject::Privileges(Some(path.to_owned())),
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
            CheckSubject::Privileges(Some(grant.path.clone())),
            format!("the token {token} lacks {}{so}", missing.join(", ")),
            Some(granting(grant, token)),
        );
    }
    if all {
        report.good(CheckSubject::Privileges(None), format!("the token {token} has all that are needed"));
    }
}

/// A pool that is missing is found only when the first VM goes into it.
async fn pool(report: &mut LiveReport, cluster: &Cluster, proxmox: &Client) {
    let Some(pool) = &cluster.proxmox.pool else { return };
    let what = CheckSubject::Pool(pool.clone());
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
