//! `daedal volumes list|prune`: volumes that Proxmox left behind.

use clap::Subcommand;
use daedal_engine::LeftoverList;
use daedal_planner::{Leftover, PlanError, plan_prune_volumes};

use crate::cli::{Format, Target};
use crate::commands::carry_out::{self, Manner};
use crate::commands::plan;
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
    },
    /// Delete volumes that carry a VMID of this cluster and that no VM uses.
    Prune {
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// Also if the cluster has `protect: true`.
        #[arg(long)]
        protected: bool,
        /// Do not ask for confirmation.
        #[arg(long)]
        yes: bool,
        /// Only show the plan.
        #[arg(long)]
        plan_only: bool,
    },
}

/// Runs the command.
pub async fn run(command: &VolumesCommand, format: Format, color: bool) -> Outcome {
    match command {
        VolumesCommand::List { target } => {
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
        VolumesCommand::Prune { target, protected, yes, plan_only } => {
            prune(target, *protected, *plan_only, *yes, format, color).await
        }
    }
}

async fn prune(
    target: &Target,
    protected: bool,
    plan_only: bool,
    yes: bool,
    format: Format,
    color: bool,
) -> Outcome {
    let session = Session::open_lacking(target, color).await?;
    let _lock = match plan_only {
        true => None,
        false => Some(session.lock("volumes prune").await?),
    };
    let world = session.observe_proxmox().await?;
    let plan = plan_prune_volumes(&session.cluster, &world, protected);
    let is_protected = matches!(plan, Err(PlanError::Protected { .. }));
    let plan = plan::made(&session, &world, plan).map_err(|failure| match is_protected {
        true => failure.hint("To prune them all the same: --protected"),
        false => failure,
    })?;
    let manner = Manner { target, words: "volumes prune", plan_only, full: false, format, color };
    carry_out::run(&session, &world, &plan, &manner, carry_out::asking(yes)).await
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
