//! `daedal node`: single nodes, listed, shown from all three sides, marked again, or removed.

use std::fmt::Write as _;

use clap::Subcommand;
use daedal_engine::{KubernetesDetails, NodeDetails, ProxmoxDetails, Side, TalosDetails};
use daedal_inventory::{Cluster, Node, Role, nearest};

use crate::cli::{Format, Target};
use crate::commands::{node_list, node_mark, node_remove};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::session::{Session, engine_failure};
use crate::{console, documents};

/// Single nodes.
#[derive(Debug, Subcommand)]
pub enum NodeCommand {
    /// List the nodes: those that are declared, and nodes that exist but are no longer declared.
    List {
        /// Which inventory.
        #[command(flatten)]
        target: Target,
    },
    /// Take nodes out that the inventory no longer names: evict their pods, leave etcd, delete them from Kubernetes and
    /// destroy their VMs.
    Remove {
        /// Names of nodes that were taken out of the inventory.
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// Do not ask.
        #[arg(short, long)]
        yes: bool,
        /// Go on from this generation of the cluster although this store has not seen it.
        #[arg(long, value_name = "GENERATION")]
        onto: Option<u32>,
        /// Only show what would be done.
        #[arg(long)]
        plan_only: bool,
        /// Do not evict pods first; they end with their node.
        #[arg(long)]
        no_drain: bool,
        /// Show every node in full, also those that are alike.
        #[arg(long)]
        full: bool,
    },
    /// Write the mark of a node into the notes of its VM again, after somebody removed or damaged it. The VMID, the SMBIOS
    /// uuid and the MAC must all be the node's.
    Mark {
        /// The node's name.
        name: String,
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// Do not ask.
        #[arg(short, long)]
        yes: bool,
    },
    /// Show everything about one node: what Proxmox, Talos and Kubernetes say of it.
    Show {
        /// The node's name.
        name: String,
        /// Which inventory.
        #[command(flatten)]
        target: Target,
    },
}

/// Runs the command.
pub async fn run(command: &NodeCommand, format: Format, color: bool) -> Outcome {
    match command {
        NodeCommand::List { target } => node_list::run(target, format, color).await,
        NodeCommand::Remove { names, target, yes, onto, plan_only, no_drain, full } => {
            let (yes, onto, plan_only, full) = (*yes, *onto, *plan_only, *full);
            let options = node_remove::Options { yes, onto, plan_only, drain: !no_drain, full };
            node_remove::run(names, target, &options, format, color).await
        }
        NodeCommand::Mark { name, target, yes } => node_mark::run(name, target, *yes, format, color).await,
        NodeCommand::Show { name, target } => Box::pin(show(name, target, format, color)).await,
    }
}

/// The node of this name. A name that nobody knows is no reason to call anywhere, or to start a lab.
pub fn declared<'a>(cluster: &'a Cluster, name: &str) -> Outcome<&'a Node> {
    cluster.node(name).ok_or_else(|| {
        let names: Vec<&str> = cluster.nodes.iter().map(|node| node.name.as_str()).collect();
        let failure = Failure::new(Exit::NoInput, format!("the inventory has no node called {name}"));
        // Another number is no typing error: cp-9 may be any of them.
        let letters = |name: &str| name.replace(|c: char| c.is_ascii_digit(), "");
        let meant = nearest(name, &names).filter(|meant| letters(meant) != letters(name));
        let failure =
            meant.into_iter().fold(failure, |failure, meant| failure.hint(format!("Did you mean {meant}?")));
        failure.hint(format!("Declared: {}", names.join(", ")))
    })
}

async fn show(name: &str, target: &Target, format: Format, color: bool) -> Outcome {
    let inventory = documents::of_lacking(target, color)?;
    let node = declared(&inventory.loaded.cluster, name)?.clone();
    let session = Session::with(inventory, target).await?;
    let details =
        session.engine.node_page(&session.cluster, &node).await.map_err(|error| engine_failure(&error))?;
    match format {
        Format::Json => console::json(&details),
        Format::Text => console::result(&render(&details)),
    }
    Ok(Exit::Done)
}

fn render(details: &NodeDetails) -> String {
    let role = match details.role {
        Role::ControlPlane => "control plane",
        Role::Worker => "worker",
    };
    let mut text = format!(
        "{}: {role} of {}, pool {}, {}\n",
        details.node, details.cluster, details.pool, details.address
    );
    side(&mut text, "Proxmox", &details.proxmox, proxmox);
    side(&mut text, "Talos", &details.talos, talos);
    side(&mut text, "Kubernetes", &details.kubernetes, kubernetes);
    text
}

fn side<T>(text: &mut String, name: &str, side: &Side<T>, lines: fn(&T) -> Vec<(&'static str, String)>) {
    let _ = writeln!(text, "\n{name}");
    match side {
        Side::Unseen(why) => {
            let _ = writeln!(text, "  could not be asked: {why}");
        }
        Side::Seen(details) => {
            for (label, value) in lines(details).iter().filter(|(_, value)| !value.is_empty()) {
                for (at, line) in value.lines().enumerate() {
                    let label = if at == 0 { *label } else { "" };
                    let _ = writeln!(text, "  {label:<12} {line}");
                }
            }
        }
    }
}

fn proxmox(details: &ProxmoxDetails) -> Vec<(&'static str, String)> {
    let disks: Vec<String> = details
        .disks
        .iter()
        .map(|(slot, (volume, size))| match size {
            Some(size) => format!("{slot}: {volume}, {}", bytes(*size)),
            None => format!("{slot}: {volume}"),
        })
        .collect();
    let nics: Vec<String> = details.nics.iter().map(|(slot, nic)| format!("{slot}: {nic}")).collect();
    let pending: Vec<String> = details
        .pending
        .iter()
        .map(|(option, value)| match value {
            Some(value) => format!("{option}: {value} from its next start on"),
            None => format!("{option}: none from its next start on"),
        })
        .collect();
    let on_boot = if details.on_boot { ", starts with its host" } else { "" };
    vec![
        (
            "VM",
            format!("{} ({}) on {}, {}{on_boot}", details.vmid, details.name, details.host, details.power),
        ),
        ("owner", details.ownership.clone()),
        ("lock", details.lock.clone().unwrap_or_default()),
        ("size", format!("{} vCPU, {} of memory", details.cores, bytes(details.memory))),
        ("pending", pending.join("\n")),
        ("disks", disks.join("\n")),
        ("network", nics.join("\n")),
        ("media", details.media.join("\n")),
        ("tags", details.tags.join(", ")),
        (
            "config",
            format!("digest {}, made from {}", details.digest, details.mark.as_deref().unwrap_or("?")),
        ),
    ]
}

fn talos(details: &TalosDetails) -> Vec<(&'static str, String)> {
    let ready = if details.ready { "ready" } else { "not ready" };
    let services = details.services.iter().map(|(name, state, healthy)| match healthy {
        Some(true) => format!("{name} {state}, healthy"),
        Some(false) => format!("{name} {state}, NOT healthy"),
        None => format!("{name} {state}"),
    });
    let etcd = match &details.etcd {
        None => String::new(),
        Some(Side::Unseen(why)) => format!("could not be asked: {why}"),
        Some(Side::Seen(etcd)) => {
            let part = match (etcd.leader, etcd.learner) {
                (true, _) => "leads",
                (false, true) => "is a learner",
                (false, false) => "votes",
            };
            let size = bytes(u64::try_from(etcd.db_size).unwrap_or_default());
            let errors: String = etcd.errors.iter().map(|error| format!("\n{error}")).collect();
            format!("member {} {part}, one of {}, database {size}{errors}", etcd.id, etcd.members)
        }
    };
    vec![
        ("version", format!("{} on {}", details.version, details.platform)),
        ("stage", format!("{}, {ready}", details.stage)),
        ("waits for", details.waits_for.join("\n")),
        ("services", services.collect::<Vec<_>>().join("\n")),
        ("addresses", details.addresses.join("\n")),
        (
            "links",
            details.links.iter().map(|(n, m, s)| format!("{n} {m} {s}")).collect::<Vec<_>>().join("\n"),
        ),
        (
            "disks",
            details.disks.iter().map(|(d, s, m)| format!("{d} {s} {m}")).collect::<Vec<_>>().join("\n"),
        ),
        ("extensions", details.extensions.join("\n")),
        ("etcd", etcd),
        (
            "certificate",
            details
                .certificate_ends
                .map(|at| format!("good until {}", at.strftime("%Y-%m-%d %H:%M UTC")))
                .unwrap_or_default(),
        ),
    ]
}

fn kubernetes(details: &KubernetesDetails) -> Vec<(&'static str, String)> {
    let conditions =
        details.conditions.iter().map(|(kind, status, reason)| format!("{kind}: {status} ({reason})"));
    let pods = if details.schedulable { "takes new pods" } else { "takes no new pods" };
    vec![
        ("name", details.name.clone()),
        (
            "versions",
            format!(
                "kubelet {}, {}, kernel {}, {}",
                details.kubelet, details.runtime, details.kernel, details.os
            ),
        ),
        ("conditions", conditions.collect::<Vec<_>>().join("\n")),
        (
            "addresses",
            details
                .addresses
                .iter()
                .map(|(kind, address)| format!("{kind}: {address}"))
                .collect::<Vec<_>>()
                .join("\n"),
        ),
        (
            "labels",
            details.labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join("\n"),
        ),
        ("taints", details.taints.join("\n")),
        ("scheduling", pods.to_owned()),
    ]
}

fn bytes(number: u64) -> String {
    match number {
        0..0x10_0000 => format!("{} KiB", number >> 10),
        0x10_0000..0x4000_0000 => format!("{} MiB", number >> 20),
        _ if number.is_multiple_of(1 << 30) => format!("{} GiB", number >> 30),
        _ => format!("{:.1} GiB", number as f64 / f64::from(1 << 30)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_that_could_not_be_asked_says_so() {
        let details = NodeDetails {
            node: "cp-1".into(),
            cluster: "home".into(),
            pool: "cp".into(),
            role: Role::ControlPlane,
            address: "10.0.0.11".into(),
            proxmox: Side::Unseen("there is no VM 300".into()),
            talos: Side::Unseen("no answer in time".into()),
            kubernetes: Side::Unseen("no answer in time".into()),
        };
        assert_eq!(
            render(&details),
            "cp-1: control plane of home, pool cp, 10.0.0.11\n\nProxmox\n  could not be asked: there is no VM 300\n\n\
             Talos\n  could not be asked: no answer in time\n\nKubernetes\n  could not be asked: no answer in time\n"
        );
        assert_eq!(
            [bytes(20 << 10), bytes(5 << 20), bytes(8 << 30), bytes(3 << 29)],
            ["20 KiB", "5 MiB", "8 GiB", "1.5 GiB"]
        );
    }
}
