//! `daedal volumes list|prune`: volumes that Proxmox left behind.

use clap::Subcommand;
use daedal_planner::{Leftover, PlanError, plan_prune_volumes};

use crate::cli::{Format, Target};
use crate::commands::carry_out::{self, Manner};
use crate::commands::plan;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::session::{Session, engine_failure};
use crate::{console, table};

/// Volumes that no VM uses.
#[derive(Debug, Subcommand)]
pub enum VolumesCommand {
    /// List volumes that have the number of a VM of this cluster and that no VM uses.
    List {
        /// Which inventory.
        #[command(flatten)]
        target: Target,
    },
    /// Delete them.
    Prune {
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// Also in a cluster that says `protect: true`.
        #[arg(long)]
        protected: bool,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
        /// Only show what would be done.
        #[arg(long)]
        plan_only: bool,
    },
}

/// Runs the command.
pub async fn run(command: &VolumesCommand, format: Format, color: bool) -> Outcome {
    match command {
        VolumesCommand::List { target } => {
            let session = Session::open(target, color).await?;
            let all = found(&session).await?;
            match format {
                Format::Json => console::json(&all),
                Format::Text if all.is_empty() => console::result("There are no volumes left over."),
                Format::Text => console::result(render(&all).trim_end()),
            }
            Ok(Exit::Done)
        }
        VolumesCommand::Prune { target, protected, yes, plan_only } => {
            prune(target, *protected, *plan_only, *yes, format, color).await
        }
    }
}

async fn found(session: &Session) -> Outcome<Vec<Leftover>> {
    session.engine.leftovers(&session.cluster).await.map_err(|error| engine_failure(&error))
}

async fn prune(
    target: &Target,
    protected: bool,
    plan_only: bool,
    yes: bool,
    format: Format,
    color: bool,
) -> Outcome {
    let session = Session::open(target, color).await?;
    let _lock = match plan_only {
        true => None,
        false => Some(session.lock("volumes prune").await?),
    };
    let world = session.observe().await?;
    let plan = plan_prune_volumes(&session.cluster, &world, protected);
    let is_protected = matches!(plan, Err(PlanError::Protected { .. }));
    let plan = plan::made(&session, &world, plan).map_err(|failure| match is_protected {
        true => failure.hint("To prune them all the same: --protected"),
        false => failure,
    })?;
    let manner = Manner { target, words: "volumes prune", plan_only, format, color };
    carry_out::run(&session, &world, &plan, &manner, carry_out::asking(yes)).await
}

fn render(all: &[Leftover]) -> String {
    let row = |one: &Leftover| {
        let owner = if one.beside_vm { "a VM has this number" } else { "no VM has this number" };
        let mib = format!("{} MiB", one.size >> 20);
        vec![one.volid.clone(), one.host.clone(), one.vmid.to_string(), mib, owner.to_owned()]
    };
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    table::render(&["VOLUME", "HOST", "VMID", "SIZE", "STATE"], &rows)
}
