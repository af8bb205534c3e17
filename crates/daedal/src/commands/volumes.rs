//! `daedal volumes list|prune`: volumes that Proxmox left behind.

use clap::Subcommand;
use daedal_app::{Answers, Intent};
use daedal_engine::LeftoverList;
use daedal_planner::{Leftover, Pruning};

use crate::cli::{Consent, Format, Many, Target};
use crate::commands::carry_out::{self, Manner};
use crate::commands::many;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::session::{Session, engine_failure};
use crate::{advice, console, table};

/// Manage volumes that no VM uses.
#[derive(Debug, Subcommand)]
pub enum VolumesCommand {
    /// List volumes that carry a VMID of this cluster and that no VM uses.
    List {
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// One cluster or all.
        #[command(flatten)]
        many: Many,
    },
    /// Delete volumes that carry a VMID of this cluster and that no VM uses.
    #[command(after_long_help = "Examples:\n  daedal volumes prune\n  daedal volumes prune --plan-only")]
    Prune {
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// One cluster or all.
        #[command(flatten)]
        many: Many,
        /// Also if the cluster has `protect: true`.
        #[arg(long)]
        protected: bool,
        /// Delete volumes although no secrets prove that they are yours; asks for their number unless it is given.
        #[arg(long, value_name = "NUMBER", num_args = 0..=1, require_equals = true, conflicts_with = "all")]
        without_secrets: Option<Option<usize>>,
        /// What is agreed to.
        #[command(flatten)]
        consent: Consent,
    },
}

/// Runs the command.
pub async fn run(command: &VolumesCommand, format: Format, color: bool) -> Outcome {
    match command {
        VolumesCommand::List { target, many } => {
            let list = |target: Target| async move { Box::pin(list(&target, format, color)).await };
            many::run(target.clone(), many.all, format, color, list).await
        }
        VolumesCommand::Prune { target, many, protected, without_secrets, consent } => {
            let without = without_secrets.is_some();
            let pruning = Pruning { all: false, protected: *protected, without_secrets: without };
            let prune = |target: Target| async move {
                let answers = consent.answers(without_secrets.flatten());
                Box::pin(prune(&target, pruning, answers, consent.plan_only, format, color)).await
            };
            many::run(target.clone(), many.all, format, color, prune).await
        }
    }
}

async fn list(target: &Target, format: Format, color: bool) -> Outcome {
    let session = Session::open_lacking(target, color).await?;
    let mut found =
        session.engine.leftovers(&session.cluster).await.map_err(|error| engine_failure(&error))?;
    found.unobserved.iter_mut().for_each(|one| advice::complete(&mut one.fix));
    match format {
        Format::Json => console::json(&found),
        Format::Text => console::result(&listed(&found)),
    }
    Ok(Exit::Done)
}

async fn prune(
    target: &Target,
    pruning: Pruning,
    answers: Answers,
    plan_only: bool,
    format: Format,
    color: bool,
) -> Outcome {
    let doing = "volumes prune";
    let manner = Manner { target, doing, words: doing, plan_only, full: false, answers, format, color };
    carry_out::run(&Intent::PruneVolumes(pruning), &manner, |refused, _| carry_out::despite(refused)).await
}

/// The volumes, and what could not be seen: none is said only where all was.
fn listed(found: &LeftoverList) -> String {
    let LeftoverList { volumes, unobserved } = found;
    let text = match (volumes.is_empty(), unobserved.is_empty()) {
        (true, true) => return "There are no volumes left over.".to_owned(),
        (true, false) => "No volumes left over were found, but not everything was seen:\n".to_owned(),
        (false, true) => return render(volumes),
        (false, false) => format!("{}\nNot everything was seen:\n", render(volumes)),
    };
    text + &console::unseen(unobserved)
}

fn render(all: &[Leftover]) -> String {
    let row = |one: &Leftover| {
        let owner = if one.beside_vm { "a VM has this VMID" } else { "no VM has this VMID" };
        let mib = format!("{} MiB", one.size >> 20);
        vec![one.volid.clone(), one.host.clone(), one.vmid.to_string(), mib, owner.to_owned()]
    };
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    table::render(&["VOLUME", "HOST", "VMID", "SIZE", "STATE"], &rows)
}
