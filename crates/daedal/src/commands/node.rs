//! `daedal node`: single nodes, listed, shown from all three sides, marked again, or removed.

use clap::Subcommand;
use daedal_inventory::{Cluster, Node, nearest};

use crate::cli::{Consent, Format, Many, Target};
use crate::commands::{many, node_list, node_mark, node_remove, node_show};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};

/// Manage single nodes.
#[derive(Debug, Subcommand)]
pub enum NodeCommand {
    /// List the nodes: those that are declared, and nodes that exist but are no longer declared.
    List {
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// One cluster or all.
        #[command(flatten)]
        many: Many,
    },
    /// Remove nodes that the inventory no longer declares: evict their pods, leave etcd, delete them from Kubernetes,
    /// destroy their VMs.
    #[command(
        after_long_help = "Examples:\n  daedal node remove worker-3\n  daedal node remove worker-3 worker-4 --plan-only"
    )]
    Remove {
        /// Nodes that were removed from the inventory.
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// What is agreed to.
        #[command(flatten)]
        consent: Consent,
        /// Do not evict pods first; they stop with their node.
        #[arg(long)]
        no_drain: bool,
        /// Show every node in full; do not fold nodes that are alike.
        #[arg(long)]
        full: bool,
    },
    /// Restore the mark of a node in the notes of its VM, after somebody removed or damaged it. The VMID, the SMBIOS uuid
    /// and the MAC must all be the node's.
    #[command(after_long_help = "Examples:\n  daedal node mark worker-2")]
    Mark {
        /// The node's name.
        name: String,
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// What is agreed to.
        #[command(flatten)]
        consent: Consent,
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
        NodeCommand::List { target, many } => {
            let list = |target: Target| async move { Box::pin(node_list::run(&target, format, color)).await };
            many::run(target.clone(), many.all, format, color, list).await
        }
        NodeCommand::Remove { names, target, consent, no_drain, full } => {
            let (Consent { yes, onto, plan_only }, full) = (*consent, *full);
            let options = node_remove::Options { yes, onto, plan_only, drain: !no_drain, full };
            Box::pin(node_remove::run(names, target, &options, format, color)).await
        }
        NodeCommand::Mark { name, target, consent } => {
            Box::pin(node_mark::run(name, target, consent, format, color)).await
        }
        NodeCommand::Show { name, target } => Box::pin(node_show::run(name, target, format, color)).await,
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
