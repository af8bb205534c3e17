//! The firewall of a cluster's VMs: off until it is asked for. What is right already is left alone.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;

use daedal_inventory::{Cluster, Node, Role};
use daedal_proxmox::{FirewallRule, Options, UpdateVm};
use futures::future::BoxFuture;

use crate::account::{Ensured, Tally};
use crate::effects::EffectKind;
use crate::engine::{Engine, Parts};
use crate::error::Error;
use crate::machine::FIRST_NIC;

/// The IP set that holds everything of a cluster.
const SET: &str = "cluster";

impl Engine {
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
