//! Firewalls of VMs: only of VMs that are proven ours, nothing let in that was not meant, nothing filtered before the rules are
//! there.

use std::collections::BTreeSet;
use std::net::IpAddr;

use daedal_inventory::Role;
use daedal_machine::vm::{FIRST_NIC, Value};

use super::{Checker, Rule};
use crate::guards::{RULE_COMMENT, from_set};
use crate::plan::{Action, Impact, Step, StepId};
use crate::world::{FirewallView, ObjectOptions, Ownership, VmRule};

/// The VM whose firewall a step changes.
pub(super) fn vmid(action: &Action) -> Option<u32> {
    match action {
        Action::FillIpSet { vmid, .. }
        | Action::DropIpSet { vmid }
        | Action::SetFirewallRules { vmid, .. }
        | Action::SetFirewallOptions { vmid, .. }
        | Action::FilterCard { vmid, .. } => Some(*vmid),
        _ => None,
    }
}

impl Checker<'_> {
    /// What is true of every such step: the VM is proven ours, is where the step says, and was looked at; nothing is done twice.
    pub(super) fn firewall(&mut self, step: &Step) {
        let Some(vmid) = vmid(&step.action) else { return };
        let guest = self.world.guests.get(&vmid);
        let here = guest.is_some_and(|guest| {
            Some(guest.host.as_str()) == step.host.as_deref()
                && matches!(&guest.ownership, Ownership::Ours { node, .. } if Some(node) == step.node.as_ref())
        });
        let proven = self.is_proven(vmid) && here && self.firewall_of(vmid).is_some();
        self.demand(proven, Rule::Ownership, step, "The VM is not proven ours, or was not looked at");
        let kind = std::mem::discriminant(&step.action);
        self.once(step, |action| std::mem::discriminant(action) == kind && self::vmid(action) == Some(vmid));
        match &step.action {
            Action::FillIpSet { members, .. } => self.fill(step, members),
            Action::DropIpSet { vmid } => self.drop_set(step, *vmid),
            Action::SetFirewallRules { vmid, rules, before } => self.rules(step, *vmid, rules, before),
            Action::SetFirewallOptions { vmid, options, .. } => self.filter(step, *vmid, options),
            Action::FilterCard { vmid, on } => self.card(step, *vmid, *on),
            _ => {}
        }
    }

    fn firewall_of(&self, vmid: u32) -> Option<&FirewallView> {
        self.world.firewalls.as_ref()?.seen.get(&vmid)
    }

    /// The step of this plan that does this to the same VM.
    fn step_of(&self, of: u32, such: impl Fn(&Action) -> bool) -> Option<StepId> {
        self.plan.steps.iter().find(|step| vmid(&step.action) == Some(of) && such(&step.action)).map(|s| s.id)
    }

    /// Whether this is done before the step, or is so already and not touched by the plan.
    fn first(&self, step: &Step, done: Option<StepId>, already: bool) -> bool {
        match done {
            Some(id) => self.after(step, |earlier| earlier.id == id),
            None => already,
        }
    }

    /// The set holds the cluster's own addresses, all of them, and no others.
    fn fill(&mut self, step: &Step, members: &BTreeSet<String>) {
        let network = &self.cluster.network;
        let missing = self.cluster.nodes.iter().filter_map(|node| node.ip()).chain(network.vip);
        let all = missing.into_iter().all(|address| members.contains(&address.to_string()));
        self.demand(all, Rule::Creation, step, "A node of the cluster would be locked out");
        let own = |member: &String| {
            let node = |address: IpAddr| self.cluster.nodes.iter().any(|node| node.ip() == Some(address));
            let address = member.parse::<IpAddr>().ok();
            address.is_some_and(|address| node(address) || network.vip == Some(address))
                || self.cluster.kubernetes.pod_subnets.iter().any(|pods| pods.to_string() == *member)
                || (network.discovered && network.cidr.to_string() == *member)
        };
        self.demand(members.iter().all(own), Rule::Creation, step, "A stranger would pass for the cluster");
    }

    fn drop_set(&mut self, step: &Step, vmid: u32) {
        let Some(view) = self.firewall_of(vmid) else { return };
        let (there, set) = (view.members.is_some(), Some(from_set()));
        let theirs = view.rules.iter().any(|rule| !ours(rule) && rule.source == set);
        let used = view.rules.iter().any(|rule| ours(rule) && rule.source == set);
        self.demand(there && !theirs, Rule::Destruction, step, "The set is not there, or others use it");
        let cleared =
            self.step_of(vmid, |a| matches!(a, Action::SetFirewallRules { rules, .. } if rules.is_empty()));
        let free = self.first(step, cleared, !used);
        self.demand(free, Rule::Order, step, "A rule of ours uses the set");
    }

    fn rules(&mut self, step: &Step, vmid: u32, rules: &[VmRule], before: &[VmRule]) {
        let Some(view) = self.firewall_of(vmid) else { return };
        let known: Vec<&VmRule> = view.rules.iter().filter(|rule| ours(rule)).collect();
        let (seen, has_set) = (known.into_iter().eq(before), view.members.is_some());
        self.demand(
            seen,
            Rule::Ownership,
            step,
            "The rules that go are not ours, or not the ones that were seen",
        );
        if rules.is_empty() {
            let opened = self.step_of(vmid, |action| matches!(action, Action::FilterCard { on: false, .. }));
            let first = self.first(step, opened, !self.is_filtered(vmid));
            return self.demand(first, Rule::Order, step, "The VM would be locked in before it is let go");
        }
        let told = self.lets_in(step, rules);
        self.demand(told, Rule::Creation, step, "The rules are not what the node should take");
        let filled = self.step_of(vmid, |action| matches!(action, Action::FillIpSet { .. }));
        let first = self.first(step, filled, has_set);
        self.demand(first, Rule::Order, step, "The set that a rule names is not there");
    }

    /// Whether rules let in the cluster, pings and the APIs, single ports besides, and nothing that is wider.
    fn lets_in(&self, step: &Step, rules: &[VmRule]) -> bool {
        let node = step.node.as_deref().and_then(|name| self.nodes.get(name));
        let Some(node) = node else { return false };
        let mut ports = BTreeSet::new();
        let narrow = rules.iter().all(|rule| {
            let plain = ours(rule) && rule.enable && rule.direction == "in" && rule.action == "ACCEPT";
            let port = rule.dport.as_ref().map(|port| port.parse::<u16>().unwrap_or(0));
            plain
                && match (rule.proto.as_deref(), port, &rule.source) {
                    (None, None, Some(source)) => *source == from_set(),
                    (Some("icmp"), None, None) => true,
                    (Some("tcp"), Some(port), None) => port > 0 && ports.insert(port),
                    _ => false,
                }
        });
        let cluster = rules.iter().filter(|rule| rule.source.is_some()).count() == 1;
        let api = node.role != Role::ControlPlane || ports.contains(&6443);
        narrow && cluster && api && ports.contains(&50_000)
    }

    fn filter(&mut self, step: &Step, vmid: u32, options: &ObjectOptions) {
        let pairs: Vec<(&str, &str)> = options.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let Some(view) = self.firewall_of(vmid) else { return };
        match &pairs[..] {
            [("enable", "1"), ("policy_in", "DROP"), ("policy_out", "ACCEPT")] => {
                let known: Vec<VmRule> = view.rules.iter().filter(|rule| ours(rule)).cloned().collect();
                let right = self.lets_in(step, &known);
                let set = self.step_of(vmid, |a| matches!(a, Action::SetFirewallRules { .. }));
                let first = self.first(step, set, right);
                self.demand(first, Rule::Order, step, "The VM would be locked in without its rules");
            }
            [("enable", "0")] => {
                let opened = self.step_of(vmid, |action| matches!(action, Action::FilterCard { .. }));
                let first = self.first(step, opened, !self.is_filtered(vmid));
                self.demand(first, Rule::Order, step, "The card is let go first");
            }
            _ => self.demand(false, Rule::Creation, step, "The options are not what they should be"),
        }
    }

    fn card(&mut self, step: &Step, vmid: u32, on: bool) {
        let (running, filtered) =
            (self.world.guests.get(&vmid).is_some_and(|guest| guest.running), self.is_filtered(vmid));
        self.demand(filtered != on, Rule::Creation, step, "The card is as it should be");
        let said = step.impact >= Impact::Interrupt || !running;
        self.demand(said, Rule::Destruction, step, "The step does more harm than it says");
        if on {
            let enabled = self.firewall_of(vmid).is_some_and(|view| {
                view.options.get("enable").is_some_and(|enable| enable == "1") && view.rules.iter().any(ours)
            });
            let set = self.step_of(vmid, |action| {
                matches!(action, Action::SetFirewallOptions { .. } | Action::SetFirewallRules { .. })
            });
            let first = self.first(step, set, enabled);
            self.demand(first, Rule::Order, step, "The card is filtered before the rules are there");
        } else {
            let cleared =
                self.plan.steps.iter().any(|s| self::vmid(&s.action) == Some(vmid) && s.id < step.id);
            self.demand(!cleared, Rule::Order, step, "The card is let go first");
        }
        self.one_at_a_time(step, running);
    }

    /// Control planes that run lose their network one after the other.
    fn one_at_a_time(&mut self, step: &Step, running: bool) {
        let votes = |step: &Step| {
            let node = step.node.as_deref().and_then(|name| self.nodes.get(name));
            node.is_some_and(|node| {
                let guest = self.world.guests.get(&node.vmid);
                node.role == Role::ControlPlane && guest.is_some_and(|guest| guest.running)
            })
        };
        if !running || !votes(step) {
            return;
        }
        let earlier = self.plan.steps[..step.id as usize]
            .iter()
            .rfind(|s| matches!(s.action, Action::FilterCard { .. }) && votes(s))
            .map(|s| s.id);
        let first = self.first(step, earlier, true);
        self.demand(first, Rule::Etcd, step, "Two control planes would lose their network at once");
    }

    fn is_filtered(&self, vmid: u32) -> bool {
        let config = self.world.guests.get(&vmid).and_then(|guest| guest.config.as_ref());
        let card = config.and_then(|config| config.options.get(FIRST_NIC));
        matches!(card, Some(Value::Card(card)) if card.firewall)
    }
}

/// Whether a rule is ours by its comment.
fn ours(rule: &VmRule) -> bool {
    rule.comment.as_ref().is_some_and(|comment| comment.starts_with(RULE_COMMENT))
}
