//! What a plan of one purpose relies on, where that is little: whose the guests are, and what Proxmox keeps to guard them.

use std::collections::{BTreeMap, BTreeSet};

use daedal_inventory::Cluster;
use daedal_planner::guards::IP_SET;
use daedal_planner::{
    Aspect, AvailabilityView, BackupStorage, BackupView, FirewallView, FirewallsView, Judge, Ownership,
    Purpose, Unobserved, VmRule, World,
};
use daedal_proxmox::{Client, ClusterObject, FirewallRule, Resource, release};
use futures::stream::{self, StreamExt};

use super::{UnobservedList, guests, hosts};
use crate::engine::{Engine, secrets_id};
use crate::error::{Error, ErrorKind, chain};

impl Engine {
    /// Looks at what a plan of this purpose relies on. That a plan to guard VMs cannot be made without reading what guards them
    /// makes a refusal there an error.
    pub async fn observe_for(&self, cluster: &Cluster, purpose: Purpose) -> Result<World, Error> {
        let proxmox = &self.parts.proxmox;
        match purpose {
            Purpose::Firewall => {
                let (mut world, _) = self.look_at_guests(cluster).await?;
                world.firewalls = Some(self.firewalls(&world).await);
                Ok(world)
            }
            Purpose::Ha => {
                let (mut world, resources) = self.look_at_guests(cluster).await?;
                world.availability = Some(availability(proxmox, &world.proxmox_version, &resources).await?);
                Ok(world)
            }
            Purpose::BackupJob => {
                let (mut world, resources) = self.look_at_guests(cluster).await?;
                let jobs = proxmox.kept(ClusterObject::BackupJob).await?;
                world.backups = Some(BackupView { jobs, storages: storages(&resources) });
                Ok(world)
            }
            // Which node's is for `observe_mark` to know.
            Purpose::Mark => Ok(self.look_at_guests(cluster).await?.0),
            Purpose::Apply
            | Purpose::Destroy
            | Purpose::Remove
            | Purpose::PruneTemplates
            | Purpose::PruneVolumes => self.observe_machines(cluster).await,
        }
    }

    /// Adds what Proxmox keeps to guard VMs and what may outlive them. What the token may not read is named: somebody else may have put it there.
    pub async fn look_at_guards(&self, world: &mut World) {
        let proxmox = &self.parts.proxmox;
        let jobs = proxmox.kept(ClusterObject::BackupJob);
        let (availability, jobs) = tokio::join!(availability(proxmox, &world.proxmox_version, &[]), jobs);
        let unseen = |what: Aspect, error: &Error| match error.kind() {
            ErrorKind::Denied => Unobserved::new(what, "the token may not read it (Sys.Audit on /)"),
            _ => Unobserved::new(what, chain(error)),
        };
        match availability {
            Ok(view) => world.availability = Some(view),
            Err(error) => world.unobserved.push(unseen(Aspect::HighAvailability, &error)),
        }
        match jobs {
            Ok(jobs) => world.backups = Some(BackupView { jobs, ..BackupView::default() }),
            Err(error) => world.unobserved.push(unseen(Aspect::BackupJobs, &error.into())),
        }
    }

    /// The firewalls of all VMs that are ours.
    async fn firewalls(&self, world: &World) -> FirewallsView {
        let vms: Vec<(u32, String)> =
            world.ours().map(|(_, guest)| (guest.vmid, guest.host.clone())).collect();
        let looks = vms
            .into_iter()
            .map(|(vmid, host)| async move { (vmid, firewall(&self.parts.proxmox, &host, vmid).await) });
        let looks: Vec<_> = looks.collect();
        let mut looks = stream::iter(looks).buffer_unordered(self.parts.limits.probes);
        let mut all = FirewallsView::default();
        while let Some((vmid, looked)) = looks.next().await {
            match looked {
                Ok(view) => drop(all.seen.insert(vmid, view)),
                Err(error) => drop(all.unread.insert(vmid, chain(&error))),
            }
        }
        all
    }

    /// All guests and whose they are; nothing inside of nodes and storages.
    pub(super) async fn look_at_guests(&self, cluster: &Cluster) -> Result<(World, Vec<Resource>), Error> {
        let (proxmox, unobserved) = (&self.parts.proxmox, UnobservedList::default());
        let secrets = self.stored_secrets().await?;
        let id = secrets.as_ref().map(secrets_id);
        let (version, resources) = tokio::try_join!(proxmox.version(), proxmox.resources())?;
        let judge = Judge::knowing(cluster, id.clone());
        let limits = &self.parts.limits;
        let found = guests::look(proxmox, &judge, cluster, &resources, limits, &unobserved).await;
        let declared = cluster.proxmox.hosts.iter().map(|host| host.name.as_str());
        let holding = found
            .guests
            .values()
            .filter(|guest| matches!(guest.ownership, Ownership::Ours { .. } | Ownership::HalfMade { .. }));
        let seen: BTreeSet<&str> = declared.chain(holding.map(|guest| guest.host.as_str())).collect();
        let world = World {
            proxmox_version: version.version,
            hosts: hosts(&resources, &seen),
            guests: found.guests,
            unlisted_hosts: found.unlisted,
            applied: found.applied,
            known: self.parts.store.generation().await?,
            secrets_stored: secrets.is_some(),
            secrets_id: id,
            unobserved: unobserved.take(),
            ..World::default()
        };
        Ok((world, resources))
    }
}

/// The firewall of a VM.
async fn firewall(proxmox: &Client, host: &str, vmid: u32) -> Result<FirewallView, daedal_proxmox::Error> {
    let (options, rules, sets) = tokio::try_join!(
        proxmox.firewall_options(host, vmid),
        proxmox.firewall_rules(host, vmid),
        proxmox.ipsets(host, vmid)
    )?;
    let members = match sets.iter().any(|name| name == IP_SET) {
        true => Some(proxmox.ipset(host, vmid, IP_SET).await?.into_iter().collect()),
        false => None,
    };
    Ok(FirewallView { options, rules: rules.iter().map(seen_rule).collect(), members })
}

/// A rule as it was read, but for its place.
pub(crate) fn seen_rule(rule: &FirewallRule) -> VmRule {
    let FirewallRule { direction, action, proto, dport, source, comment, enable, .. } = rule.clone();
    VmRule { direction, action, proto, dport, source, comment, enable }
}

/// Everything under high availability, and what keeps it apart in this release.
async fn availability(
    proxmox: &Client,
    version: &str,
    resources: &[Resource],
) -> Result<AvailabilityView, Error> {
    let rules = release(version).is_none_or(|(major, _)| major >= 9);
    let apart = if rules { ClusterObject::HaRule } else { ClusterObject::HaGroup };
    let (apart, managed) = tokio::try_join!(proxmox.kept(apart), proxmox.kept(ClusterObject::HaResource))?;
    let hosts = resources.iter().filter(|row| row.kind == "node").count();
    Ok(AvailabilityView { rules, apart, resources: managed, hosts })
}

/// Every storage that the token may see.
fn storages(resources: &[Resource]) -> BTreeMap<String, BackupStorage> {
    let mut storages = BTreeMap::new();
    for row in resources.iter().filter(|row| row.kind == "storage") {
        storages.entry(row.storage.clone()).or_insert_with(|| BackupStorage {
            host: row.node.clone(),
            content: row.content.iter().cloned().collect(),
        });
    }
    storages
}
