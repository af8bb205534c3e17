//! Nodes that are done the same to are told once.

use daedal_planner::{Action, PlannedNode, Step};

use crate::action;

/// A node and its steps.
type Told<'a, 'p> = (&'p PlannedNode, &'a [&'p Step]);

/// So many nodes that are like the one before them are summed up; fewer are told one by one.
const MANY: usize = 4;

/// Splits the nodes into runs of which the first is told and the others are like it.
pub(super) fn groups<'s, 'a, 'p>(nodes: &'s [Told<'a, 'p>], full: bool) -> Vec<&'s [Told<'a, 'p>]> {
    let shapes: Vec<String> = nodes.iter().map(shape).collect();
    let mut groups = Vec::new();
    let mut at = 0;
    while at < nodes.len() {
        let alike = shapes[at..].iter().take_while(|shape| **shape == shapes[at]).count();
        let taken = if full || alike <= MANY { 1 } else { alike };
        groups.push(&nodes[at..at + taken]);
        at += taken;
    }
    groups
}

/// The line for nodes that are like the one before them.
pub(super) fn the_same(nodes: &[&PlannedNode]) -> String {
    let (Some(first), Some(last)) = (nodes.first(), nodes.last()) else { return String::new() };
    let mut hosts: Vec<&str> = nodes.iter().filter_map(|node| node.host.as_deref()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let on = if hosts.is_empty() { String::new() } else { format!(" on {}", hosts.join(", ")) };
    let addresses = match (first.address.as_str(), last.address.as_str()) {
        ("", _) | (_, "") => String::new(),
        (from, to) => format!(", {from} … {to}"),
    };
    format!(
        "{} … {}: the same ({} nodes, VMs {} … {}{on}{addresses}; --full shows each)",
        first.name,
        last.name,
        nodes.len(),
        first.vmid,
        last.vmid
    )
}

/// What is done to a node, with what is its own left out.
fn shape((node, steps): &Told<'_, '_>) -> String {
    let vmid = node.vmid.to_string();
    let neutral = |text: String| {
        let mut text = text.replace(&node.name, "NAME").replace(&vmid, "VMID");
        if !node.address.is_empty() {
            text = text.replace(&node.address, "ADDRESS");
        }
        text
    };
    let mut shape = format!("{:?} {:?} {} {} {}\n", node.fate, node.role, node.cores, node.memory, node.disk);
    for step in *steps {
        shape.push_str(&neutral(format!("{} | {}", action::phrase(step, Some(node)), step.reason)));
        shape.push_str(&format!(" | {:?}\n", step.impact));
        match &step.action {
            Action::ApplyConfig { changes, .. } => shape.push_str(&neutral(format!("{changes:?}\n"))),
            Action::UpdateVm { changes, .. } => {
                for change in changes {
                    // A description holds a digest, which is each node's own.
                    let (from, to) = match change.option.as_str() {
                        "description" => Default::default(),
                        _ => change.words(),
                    };
                    shape.push_str(&neutral(format!(
                        "{} {from} {to} {}\n",
                        change.option, change.needs_restart
                    )));
                }
            }
            Action::SetFirewallOptions { .. } | Action::FillIpSet { .. } => {
                shape.push_str(&neutral(action::changes(&step.action).join("\n")));
            }
            _ => {}
        }
    }
    shape
}
