//! What is done for a cluster's VMs on request: a firewall, high availability, backups. Each is off until it is asked for,
//! and each can be asked for again: what is right already is left alone.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;

use daedal_inventory::{Cluster, Node, Role};
use daedal_planner::{Ownership, World};
use daedal_proxmox::{FirewallRule, Kept, Options, UpdateVm, release};
use futures::future::BoxFuture;

use crate::account::{Ensured, Tally};
use crate::effects::EffectKind;
use crate::engine::{Engine, Parts};
use crate::error::Error;
use crate::machine::FIRST_NIC;

/// The IP set that holds everything of a cluster.
const SET: &str = "cluster";

/// A backup job as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupJob {
    /// Where the backups go: a Proxmox Backup Server, or any storage for backups.
    pub storage: String,
    /// When, as Proxmox writes calendar events (`02:30`, `sun 01:00`).
    pub schedule: String,
    /// How many of the last backups are kept.
    pub keep: u32,
}

/// One of our VMs: its node, its host, and its VMID.
type Ours<'a> = Vec<(&'a Node, String)>;

impl Engine {
    /// The cluster's VMs that are there, each where it is now. Nothing else is ever touched.
    async fn ours<'a>(&self, cluster: &'a Cluster) -> Result<Ours<'a>, Error> {
        let world: World = self.observe(cluster).await?;
        let owned = |node: &&Node| {
            let guest = world.guests.get(&node.vmid);
            guest.filter(|guest| matches!(&guest.ownership, Ownership::Ours { node: name, .. } if *name == node.name))
                .map(|guest| guest.host.clone())
        };
        Ok(cluster.nodes.iter().filter_map(|node| Some((node, owned(&node)?))).collect())
    }

    /// Turns the VMs' firewall on or off. On, a node takes what comes from the cluster itself, the Talos API, on control
    /// planes the Kubernetes API, `ports` besides, and nothing else.
    pub async fn firewall(&self, cluster: &Cluster, on: bool, ports: &[u16]) -> Result<Vec<Ensured>, Error> {
        let mut all = Vec::new();
        for (node, host) in self.ours(cluster).await? {
            let firewall = Firewall { parts: &self.parts, node, host: &host };
            let (turned, counts) = match on {
                true => firewall.guard(cluster, ports).await?,
                false => firewall.unguard().await?,
            };
            let what = format!("firewall of {} (VM {})", node.name, node.vmid);
            let done = match (turned, on) {
                (true, true) => Some("turned on"),
                (true, false) => Some("turned off"),
                (false, _) => (!counts.unchanged()).then_some("changed"),
            };
            all.push(Ensured::new(what, done).counted(counts, if on { "there" } else { "off" }));
        }
        Ok(all)
    }

    /// Puts the control planes under Proxmox's high availability, kept on different hosts; or takes them out.
    pub async fn high_availability(&self, cluster: &Cluster, on: bool) -> Result<Vec<Ensured>, Error> {
        let parts = &self.parts;
        let version = parts.proxmox.version().await?.version;
        let rules = release(&version).is_none_or(|(major, _)| major >= 9);
        let ours: Ours<'_> = self
            .ours(cluster)
            .await?
            .into_iter()
            .filter(|(node, _)| node.role == Role::ControlPlane)
            .collect();
        let mut all = Vec::new();
        let comment = format!("control planes of {}, kept by daedal", cluster.name);
        let resources: Vec<String> = ours.iter().map(|(node, _)| format!("vm:{}", node.vmid)).collect();
        let apart = format!("daedal-{}-apart", cluster.name);
        let rule: Options = [
            ("type", "resource-affinity".to_owned()),
            ("affinity", "negative".to_owned()),
            ("resources", resources.join(",")),
            ("comment", comment.clone()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
        let group = |node: &Node| format!("daedal-{}-{}", cluster.name, node.name);
        // What keeps them apart: a rule, or before there were rules a preferred host for each.
        let apart_by = Shelf::read(parts, if rules { Kept::HaRule } else { Kept::HaGroup }).await?;
        let under = Shelf::read(parts, Kept::HaResource).await?;
        if !on {
            if rules {
                all.push(apart_by.remove(&apart).await?);
            }
            for (node, _) in &ours {
                all.push(under.remove(&format!("vm:{}", node.vmid)).await?);
            }
            if !rules {
                // They carry our name, and outlive their VMs.
                for node in cluster.control_planes() {
                    all.push(apart_by.remove(&group(node)).await?);
                }
            }
            return Ok(all);
        }
        for (node, host) in &ours {
            let mut wanted = Options::from([
                ("state".to_owned(), "started".to_owned()),
                ("comment".to_owned(), comment.clone()),
            ]);
            if !rules {
                let others = cluster.proxmox.hosts.iter().filter(|other| other.name != *host);
                let nodes: Vec<String> = std::iter::once(format!("{host}:2"))
                    .chain(others.map(|other| format!("{}:1", other.name)))
                    .collect();
                let options = Options::from([
                    ("nodes".to_owned(), nodes.join(",")),
                    ("comment".to_owned(), comment.clone()),
                ]);
                all.push(apart_by.ensure(&group(node), &options).await?);
                wanted.insert("group".to_owned(), group(node));
            }
            all.push(under.ensure(&format!("vm:{}", node.vmid), &wanted).await?);
        }
        if rules && resources.len() > 1 {
            all.push(match self.too_many_to_part(resources.len()).await? {
                Some(why) => {
                    let what = format!("{} {apart}", Kept::HaRule.name());
                    Ensured { left_out: Some(why), ..Ensured::new(what, None) }
                }
                None => apart_by.ensure(&apart, &rule).await?,
            });
        }
        Ok(all)
    }

    /// Why so many VMs cannot be kept on different hosts: Proxmox refuses a rule that names more VMs than it has hosts.
    async fn too_many_to_part(&self, vms: usize) -> Result<Option<String>, Error> {
        let rows = self.parts.proxmox.resources().await?;
        let hosts = rows.iter().filter(|row| row.kind == "node").count();
        let them = if hosts == 1 { "1 host".to_owned() } else { format!("{hosts} hosts") };
        Ok((vms > hosts)
            .then(|| format!("{vms} control planes cannot be on different hosts, Proxmox has {them}")))
    }

    /// Makes a job that backs up all VMs of the cluster, or removes it.
    pub async fn backup_job(
        &self,
        cluster: &Cluster,
        job: Option<&BackupJob>,
    ) -> Result<Vec<Ensured>, Error> {
        let id = format!("daedal-{}", cluster.name);
        if let Some(job) = job {
            self.takes_backups(&job.storage).await?;
        }
        let jobs = Shelf::read(&self.parts, Kept::BackupJob).await?;
        let Some(job) = job else { return Ok(vec![jobs.remove(&id).await?]) };
        let vmids: Vec<String> = cluster.nodes.iter().map(|node| node.vmid.to_string()).collect();
        let wanted: Options = [
            ("vmid", vmids.join(",")),
            ("storage", job.storage.clone()),
            ("schedule", job.schedule.clone()),
            ("prune-backups", format!("keep-last={}", job.keep)),
            ("mode", "snapshot".to_owned()),
            ("enabled", "1".to_owned()),
            ("comment", format!("Talos cluster {}, kept by daedal", cluster.name)),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
        Ok(vec![jobs.ensure(&id, &wanted).await?])
    }

    /// Proxmox keeps a job for any storage, and fails every night on one that is not there or takes no backups.
    async fn takes_backups(&self, storage: &str) -> Result<(), Error> {
        let rows = self.parts.proxmox.resources().await?;
        let seen: Vec<_> = rows.iter().filter(|row| row.kind == "storage").collect();
        let refused =
            |why: String, fix: String| Error::NoBackups { storage: storage.to_owned(), why, fix: Some(fix) };
        let Some(row) = seen.iter().find(|row| row.storage == storage) else {
            let takers = seen.iter().filter(|row| row.content.iter().any(|content| content == "backup"));
            let takers: BTreeSet<&str> = takers.map(|row| row.storage.as_str()).collect();
            let known = match takers.is_empty() {
                true => String::new(),
                false => {
                    format!("; storages for backups: {}", takers.into_iter().collect::<Vec<_>>().join(", "))
                }
            };
            let fix = format!(
                "name a storage that exists, or give the token Datastore.Audit on /storage/{storage}{known}"
            );
            return Err(refused("it does not exist, or the token may not see it".to_owned(), fix));
        };
        if row.content.iter().any(|content| content == "backup") {
            return Ok(());
        }
        let content = row.content.join(",");
        let fix = format!("on {}: pvesm set {storage} --content {content},backup", row.node);
        Err(refused(format!("its content types are {content}"), fix))
    }
}

/// All objects of a kind, as they were when they were last read.
struct Shelf<'a> {
    parts: &'a Parts,
    kind: Kept,
    known: BTreeMap<String, Options>,
}

impl<'a> Shelf<'a> {
    async fn read(parts: &'a Parts, kind: Kept) -> Result<Self, Error> {
        Ok(Self { parts, kind, known: parts.proxmox.kept(kind).await? })
    }

    fn change<'c>(
        &'c self,
        id: &str,
        call: impl Future<Output = Result<(), daedal_proxmox::Error>> + Send + 'c,
    ) -> BoxFuture<'c, Result<(), Error>> {
        let kind = match self.kind {
            Kept::HaResource | Kept::HaRule | Kept::HaGroup => EffectKind::SetAvailability,
            Kept::BackupJob => EffectKind::SetBackupJob,
        };
        let what = format!("{} {id}", self.kind.name());
        self.parts.effects.proxmox(kind, what, call)
    }

    async fn ensure(&self, id: &str, wanted: &Options) -> Result<Ensured, Error> {
        let proxmox = &self.parts.proxmox;
        let none = Tally::default();
        let (done, counts) = match self.known.get(id) {
            None => {
                self.change(id, proxmox.create_kept(self.kind, id, wanted)).await?;
                (Some("created"), Tally { created: 1, ..none })
            }
            Some(there) if wanted.iter().any(|(name, value)| there.get(name) != Some(value)) => {
                self.change(id, proxmox.update_kept(self.kind, id, wanted)).await?;
                (Some("changed"), Tally { changed: 1, ..none })
            }
            Some(_) => (None, Tally { left: 1, ..none }),
        };
        Ok(Ensured::new(format!("{} {id}", self.kind.name()), done).counted(counts, "there"))
    }

    async fn remove(&self, id: &str) -> Result<Ensured, Error> {
        let there = self.known.contains_key(id);
        if there {
            self.change(id, self.parts.proxmox.delete_kept(self.kind, id)).await?;
        }
        let counts = Tally { removed: usize::from(there), ..Tally::default() };
        let what = format!("{} {id}", self.kind.name());
        Ok(Ensured::new(what, there.then_some("removed")).counted(counts, "absent"))
    }
}

/// What a node takes from outside, in order.
fn rules(node: &Node, ports: &[u16]) -> Vec<FirewallRule> {
    let accept =
        |proto: Option<&str>, dport: Option<String>, source: Option<String>, comment: &str| FirewallRule {
            pos: None,
            direction: "in".to_owned(),
            action: "ACCEPT".to_owned(),
            proto: proto.map(str::to_owned),
            dport,
            source,
            comment: Some(format!("daedal: {comment}")),
            enable: true,
        };
    let mut rules = vec![
        // etcd, trustd, kubelets, the network of the pods.
        accept(None, None, Some(format!("+{SET}")), "the cluster itself"),
        accept(Some("icmp"), None, None, "ping"),
        accept(Some("tcp"), Some("50000".to_owned()), None, "the Talos API"),
    ];
    if node.role == Role::ControlPlane {
        rules.push(accept(Some("tcp"), Some("6443".to_owned()), None, "the Kubernetes API"));
    }
    for port in ports {
        rules.push(accept(Some("tcp"), Some(port.to_string()), None, "as asked for"));
    }
    rules
}

/// Whether a rule is one of ours: its comment says so.
fn is_mine(rule: &&FirewallRule) -> bool {
    rule.comment.as_ref().is_some_and(|comment| comment.starts_with("daedal: "))
}

/// One object that was there before.
fn one(changed: bool) -> Tally {
    Tally { changed: usize::from(changed), left: usize::from(!changed), ..Tally::default() }
}

/// Addresses of everything in the cluster.
fn members(cluster: &Cluster) -> BTreeSet<String> {
    // Where DHCP gives them any address, they may be anywhere in their network.
    let anywhere = cluster.network.discovered.then(|| cluster.network.cidr.to_string());
    let nodes = cluster.nodes.iter().filter_map(|node| Some(node.ip()?.to_string())).chain(anywhere);
    let vip = cluster.network.vip.map(|vip| vip.to_string());
    let pods = cluster.kubernetes.pod_subnets.iter().map(ToString::to_string);
    nodes.chain(vip).chain(pods).collect()
}

/// The firewall of one VM.
struct Firewall<'a> {
    parts: &'a Parts,
    node: &'a Node,
    host: &'a str,
}

impl Firewall<'_> {
    fn change<'c>(
        &'c self,
        what: impl std::fmt::Display,
        call: impl Future<Output = Result<(), daedal_proxmox::Error>> + Send + 'c,
    ) -> BoxFuture<'c, Result<(), Error>> {
        let what = format!("{what} of VM {} on {}", self.node.vmid, self.host);
        self.parts.effects.proxmox(EffectKind::SetFirewall, what, call)
    }

    /// Turns it on. Whether it was off, and what became of its objects: the set, the rules, the options, the network card.
    async fn guard(&self, cluster: &Cluster, ports: &[u16]) -> Result<(bool, Tally), Error> {
        let (proxmox, host, vmid) = (&self.parts.proxmox, self.host, self.node.vmid);
        let set = self.fill_set(&members(cluster)).await?;
        // Rules of others stay; ours are re-created when they differ.
        let wanted = rules(self.node, ports);
        let known = proxmox.firewall_rules(host, vmid).await?;
        let bare = |rule: &FirewallRule| FirewallRule { pos: None, ..rule.clone() };
        let mut rules = Tally { left: wanted.len(), ..Tally::default() };
        if known.iter().filter(is_mine).map(bare).collect::<Vec<_>>() != wanted {
            // The new ones go first, so that no moment is without them. Proxmox puts each before all others.
            for (pos, rule) in wanted.iter().enumerate().rev() {
                self.change(format!("new rule {pos}"), proxmox.add_firewall_rule(host, vmid, rule)).await?;
            }
            let removed = self.delete_rules(&known, wanted.len() as u64).await?;
            rules = Tally { created: wanted.len(), removed, ..Tally::default() };
        }
        let options: Options = [("enable", "1"), ("policy_in", "DROP"), ("policy_out", "ACCEPT")]
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let there: BTreeMap<String, String> = proxmox.firewall_options(host, vmid).await?;
        let differ = options.iter().any(|(name, value)| there.get(name) != Some(value));
        if differ {
            self.change("the options", proxmox.set_firewall_options(host, vmid, &options)).await?;
        }
        // Last of all: only now does anything filter.
        let turned = self.filtered(true).await?;
        Ok((turned, [set, rules, one(differ), one(turned)].into_iter().sum()))
    }

    /// The IP set with just these addresses.
    async fn fill_set(&self, wanted: &BTreeSet<String>) -> Result<Tally, Error> {
        let (proxmox, host, vmid) = (&self.parts.proxmox, self.host, self.node.vmid);
        let exists = proxmox.ipsets(host, vmid).await?.iter().any(|name| name == SET);
        if !exists {
            self.change("the set", proxmox.create_ipset(host, vmid, SET)).await?;
        }
        let there: BTreeSet<String> = proxmox.ipset(host, vmid, SET).await?.into_iter().collect();
        for cidr in wanted.difference(&there) {
            self.change(cidr, proxmox.add_to_ipset(host, vmid, SET, cidr)).await?;
        }
        for cidr in there.difference(wanted) {
            self.change(cidr, proxmox.take_from_ipset(host, vmid, SET, cidr)).await?;
        }
        Ok(match exists {
            true => one(there != *wanted),
            false => Tally { created: 1, ..Tally::default() },
        })
    }

    /// Turns it off, and takes away what [`Firewall::guard`] made. Whether it was on, and what became of its objects.
    async fn unguard(&self) -> Result<(bool, Tally), Error> {
        let (proxmox, host, vmid) = (&self.parts.proxmox, self.host, self.node.vmid);
        let turned = self.filtered(false).await?;
        let there = proxmox.firewall_options(host, vmid).await?;
        let enabled = there.get("enable").is_some_and(|enable| enable == "1");
        if enabled {
            let options = Options::from([("enable".to_owned(), "0".to_owned())]);
            self.change("the options", proxmox.set_firewall_options(host, vmid, &options)).await?;
        }
        let known = proxmox.firewall_rules(host, vmid).await?;
        let rules = Tally { removed: self.delete_rules(&known, 0).await?, ..Tally::default() };
        let of_set = Some(format!("+{SET}"));
        let used = known.iter().any(|rule| !is_mine(&rule) && rule.source == of_set);
        let mut set = Tally::default();
        if proxmox.ipsets(host, vmid).await?.iter().any(|name| name == SET) {
            set = Tally { removed: usize::from(!used), left: usize::from(used), ..set };
            if !used {
                self.change("the set", proxmox.delete_ipset(host, vmid, SET)).await?;
            }
        }
        Ok((turned, [one(turned), one(enabled), rules, set].into_iter().sum()))
    }

    /// Deletes our rules among those that were read before so many were added; the last first, for the others move up. How many
    /// they were.
    async fn delete_rules(&self, known: &[FirewallRule], added: u64) -> Result<usize, Error> {
        let (proxmox, host, vmid) = (&self.parts.proxmox, self.host, self.node.vmid);
        let old: Vec<u64> = known.iter().filter(is_mine).filter_map(|rule| rule.pos).collect();
        for pos in old.iter().rev() {
            let at = pos + added;
            self.change(format!("old rule {at}"), proxmox.delete_firewall_rule(host, vmid, at)).await?;
        }
        Ok(old.len())
    }

    /// Whether the firewall filters the node's network card at all. The MAC is always sent, or Proxmox makes one up.
    async fn filtered(&self, on: bool) -> Result<bool, Error> {
        let (proxmox, host, vmid) = (&self.parts.proxmox, self.host, self.node.vmid);
        let config = proxmox.vm_config(host, vmid).await?;
        let Some(nic) = config.nics.get(FIRST_NIC).filter(|nic| nic.firewall != on) else { return Ok(false) };
        let mut nic = nic.clone();
        nic.firewall = on;
        let update = UpdateVm::new().set(FIRST_NIC, nic.property_string()).digest(&config.digest);
        self.change("the card", proxmox.update_vm(host, vmid, &update)).await?;
        Ok(true)
    }
}
