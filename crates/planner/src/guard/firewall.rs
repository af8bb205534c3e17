//! `plan_firewall`: what the VMs take from outside, or the end of that.

use std::collections::BTreeSet;

use daedal_inventory::{Cluster, Node, Role};
use daedal_machine::vm::{FIRST_NIC, Value};

use super::{Guarded, former, options};
use crate::advice::Advice;
use crate::error::PlanError;
use crate::graph::{Graph, Subject};
use crate::guards::{RULE_COMMENT, from_set, is_our_rule};
use crate::plan::{Action, Fate, Impact, Plan, PlannedNode, Purpose, StepId};
use crate::survey::Notes;
use crate::world::{FirewallView, GuestView, ObjectOptions, VmRule, World, object_differs};

/// What the VMs' firewalls are asked to let in besides the cluster itself and the APIs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FirewallWish {
    /// TCP ports.
    pub ports: BTreeSet<u16>,
}

/// Plans the firewall of every VM that is proven ours: it takes what comes from the cluster itself, pings, the Talos API, on
/// control planes the Kubernetes API, the wished ports, and nothing else. Without a wish, its end.
pub fn plan_firewall(
    cluster: &Cluster,
    world: &World,
    wish: Option<&FirewallWish>,
) -> Result<Plan, PlanError> {
    let seen = world.firewalls.as_ref().ok_or(PlanError::NotLooked { what: "the VMs' firewalls" })?;
    let mut notes = Notes::default();
    let guarded = Guarded::of(cluster, world, cluster.nodes.iter(), &mut notes)?;
    let declared = guarded.proven.iter().map(|(node, guest)| (node.name.as_str(), *guest));
    let vms: Vec<(&str, &GuestView)> = match wish {
        Some(_) => {
            guarded.tell_absent(cluster, &mut notes);
            // Whether the datacenter's firewall is on is not for the token to see.
            notes.info(Advice::DatacenterFirewall {});
            declared.collect()
        }
        None => declared.chain(former(cluster, world)).collect(),
    };
    let mut plan = Firewalls { cluster, world, graph: Graph::default(), notes, last_cut: None };
    for (name, guest) in vms {
        match (seen.seen.get(&guest.vmid), wish, cluster.node(name)) {
            (None, ..) => plan.unread(name, seen.unread.get(&guest.vmid)),
            (Some(view), Some(wish), Some(node)) => plan.turn_on(node, guest, view, wish),
            (Some(view), ..) => plan.turn_off(name, guest, view),
        }
    }
    let nodes = plan.nodes(&guarded);
    let empty = Plan::empty(Purpose::Firewall, cluster, world);
    Ok(Plan { nodes, steps: plan.graph.steps, notes: plan.notes.sorted(), ..empty })
}

/// What a node takes from outside, in order.
pub(crate) fn rules(node: &Node, ports: &BTreeSet<u16>) -> Vec<VmRule> {
    let accept = |proto: Option<&str>, port: Option<u16>, source: Option<String>, why: &str| VmRule {
        direction: "in".to_owned(),
        action: "ACCEPT".to_owned(),
        proto: proto.map(str::to_owned),
        dport: port.map(|port| port.to_string()),
        source,
        comment: Some(format!("{RULE_COMMENT}{why}")),
        enable: true,
    };
    let mut rules = vec![
        // etcd, trustd, kubelets, the network of the pods.
        accept(None, None, Some(from_set()), "the cluster itself"),
        accept(Some("icmp"), None, None, "ping"),
        accept(Some("tcp"), Some(50_000), None, "the Talos API"),
    ];
    let mut open = BTreeSet::from([50_000]);
    if node.role == Role::ControlPlane {
        rules.push(accept(Some("tcp"), Some(6443), None, "the Kubernetes API"));
        open.insert(6443);
    }
    for port in ports.difference(&open) {
        rules.push(accept(Some("tcp"), Some(*port), None, "as asked for"));
    }
    rules
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

/// Whether the firewall filters a VM's network card at all.
fn is_filtered(guest: &GuestView) -> bool {
    let card = guest.config.as_ref().and_then(|config| config.options.get(FIRST_NIC));
    matches!(card, Some(Value::Card(card)) if card.firewall)
}

struct Firewalls<'a> {
    cluster: &'a Cluster,
    world: &'a World,
    graph: Graph,
    notes: Notes,
    /// The step that last cut a control plane's network for a moment: the next one waits for it, so that etcd loses one member
    /// at a time.
    last_cut: Option<StepId>,
}

impl<'a> Firewalls<'a> {
    fn unread(&mut self, name: &str, why: Option<&String>) {
        self.notes.problem(Advice::FirewallUnreadable { node: name.to_owned(), why: why.cloned() });
    }

    fn turn_on(&mut self, node: &Node, guest: &GuestView, view: &FirewallView, wish: &FirewallWish) {
        let (vmid, subject) = (guest.vmid, Subject { node: Some(&node.name), host: Some(&guest.host) });
        let mut before: Option<StepId> = None;
        let members = members(self.cluster);
        if view.members.as_ref() != Some(&members) {
            let action = Action::FillIpSet { vmid, members, before: view.members.clone() };
            let reason = "the addresses of the nodes, the virtual IP and the pods";
            before = Some(self.graph.add(subject, action, reason, [before]));
        }
        let (rules, known) = (rules(node, &wish.ports), ours(view));
        if known != rules {
            let reason = format!("accepts {}", told(&rules));
            let action = Action::SetFirewallRules { vmid, rules, before: known };
            before = Some(self.graph.add(subject, action, reason, [before]));
        }
        let wanted = options([
            ("enable", "1".to_owned()),
            ("policy_in", "DROP".to_owned()),
            ("policy_out", "ACCEPT".to_owned()),
        ]);
        if object_differs(&view.options, &wanted) {
            before = Some(self.set_options(subject, vmid, view, wanted, "drops everything else", before));
        }
        // Last of all: nothing is filtered before the rules are there.
        if !is_filtered(guest) {
            self.filter_card(subject, guest, true, before);
        }
    }

    /// Only where something shows that it was turned on by us: other people's firewalls stay on.
    fn turn_off(&mut self, name: &str, guest: &GuestView, view: &FirewallView) {
        let (vmid, subject) = (guest.vmid, Subject { node: Some(name), host: Some(&guest.host) });
        let known = ours(view);
        let enabled = view.options.get("enable").is_some_and(|enable| enable == "1");
        if known.is_empty() && view.members.is_none() {
            if enabled {
                self.notes.info(Advice::FirewallStays { node: name.to_owned() });
            }
            return;
        }
        let mut before = None;
        if is_filtered(guest) {
            before = Some(self.filter_card(subject, guest, false, None));
        }
        if enabled {
            let off = options([("enable", "0".to_owned())]);
            before = Some(self.set_options(subject, vmid, view, off, "turned off", before));
        }
        if !known.is_empty() {
            let action = Action::SetFirewallRules { vmid, rules: Vec::new(), before: known };
            before = Some(self.graph.add(subject, action, "turned off; rules of others stay", [before]));
        }
        if view.members.is_none() {
            return;
        }
        if view.rules.iter().any(|rule| !is_our_rule(rule.comment.as_deref()) && uses_set(rule)) {
            return self.notes.info(Advice::IpSetStays { node: name.to_owned() });
        }
        self.graph.add(subject, Action::DropIpSet { vmid }, "no rule uses it any more", [before]);
    }

    fn set_options(
        &mut self,
        subject: Subject<'_>,
        vmid: u32,
        view: &FirewallView,
        options: ObjectOptions,
        reason: &str,
        before: Option<StepId>,
    ) -> StepId {
        let had = view.options.iter().filter(|(option, _)| options.contains_key(*option));
        let had = had.map(|(option, value)| (option.clone(), value.clone())).collect();
        let action = Action::SetFirewallOptions { vmid, options, before: had };
        self.graph.add(subject, action, reason, [before])
    }

    fn filter_card(
        &mut self,
        subject: Subject<'_>,
        guest: &GuestView,
        on: bool,
        before: Option<StepId>,
    ) -> StepId {
        let node = subject.node.and_then(|name| self.cluster.node(name));
        let votes = guest.running && node.is_some_and(|node| node.role == Role::ControlPlane);
        let impact = if guest.running { Impact::Interrupt } else { Impact::None };
        let reason = if on {
            "its network card is filtered from now on"
        } else {
            "its network card is filtered no more"
        };
        let needs = [before, self.last_cut.filter(|_| votes)];
        let action = Action::FilterCard { vmid: guest.vmid, on };
        let step = self.graph.add_with(subject, action, reason, needs, impact);
        if votes {
            self.last_cut = Some(step);
        }
        step
    }

    /// The nodes whose VMs are changed, and those that are left out.
    fn nodes(&self, guarded: &Guarded<'_>) -> Vec<PlannedNode> {
        let touched: BTreeSet<&str> =
            self.graph.steps.iter().filter_map(|step| step.node.as_deref()).collect();
        let declared = |node: &Node, host: Option<String>, fate: Fate| PlannedNode {
            name: node.name.clone(),
            role: Some(node.role),
            vmid: node.vmid,
            host,
            address: self.world.address(node).map(|address| address.to_string()).unwrap_or_default(),
            cores: node.cores,
            memory: node.memory,
            disk: node.disk,
            fate,
        };
        let proven = guarded.proven.iter().map(|(node, guest)| {
            let fate = if touched.contains(node.name.as_str()) { Fate::Change } else { Fate::Keep };
            declared(node, Some(guest.host.clone()), fate)
        });
        let unproven = guarded.unproven.iter().map(|node| declared(node, None, Fate::Blocked));
        let gone = former(self.cluster, self.world).filter(|(name, _)| touched.contains(name));
        let gone = gone.map(|(name, guest)| PlannedNode {
            name: name.to_owned(),
            role: None,
            vmid: guest.vmid,
            host: Some(guest.host.clone()),
            address: String::new(),
            cores: guest.cores,
            memory: guest.memory,
            disk: guest.system_disk(),
            fate: Fate::Change,
        });
        proven.chain(unproven).chain(gone).collect()
    }
}

/// The rules that are ours, in order.
fn ours(view: &FirewallView) -> Vec<VmRule> {
    view.rules.iter().filter(|rule| is_our_rule(rule.comment.as_deref())).cloned().collect()
}

fn uses_set(rule: &VmRule) -> bool {
    rule.source == Some(from_set())
}

/// What rules let in, in short.
fn told(rules: &[VmRule]) -> String {
    let one = |rule: &VmRule| match (&rule.source, &rule.proto, &rule.dport) {
        (Some(_), ..) => "the cluster".to_owned(),
        (None, Some(proto), Some(port)) => format!("{proto}/{port}"),
        (None, Some(proto), None) => proto.clone(),
        (None, None, _) => "everything".to_owned(),
    };
    rules.iter().map(one).collect::<Vec<_>>().join(", ")
}
