//! `daedal volumes list|prune`: volumes that Proxmox left behind.

use clap::Subcommand;
use daedal_planner::Leftover;

use crate::cli::{Format, Target};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::session::{Session, engine_failure};
use crate::words::count;
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
        /// Do not ask.
        #[arg(long)]
        yes: bool,
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
        VolumesCommand::Prune { target, yes } => prune(target, *yes, format, color).await,
    }
}

async fn found(session: &Session) -> Outcome<Vec<Leftover>> {
    session.engine.leftovers(&session.cluster).await.map_err(|error| engine_failure(&error))
}

async fn prune(target: &Target, yes: bool, format: Format, color: bool) -> Outcome {
    let session = Session::open(target, color).await?;
    let _lock = session.lock("volumes prune").await?;
    let all = found(&session).await?;
    let going = all.iter().filter(|volume| !volume.beside_vm).count();
    if going > 0 && !yes {
        console::progress(render(&all).trim_end());
        let agrees = console::agrees(&format!("Delete {}?", count(going, "volume"))).ok_or_else(|| {
            Failure::new(Exit::Usage, "nothing was deleted: there is no terminal to ask on")
                .hint("Give --yes")
        })?;
        if !agrees {
            return Err(Failure::new(Exit::Failed, "nothing was deleted: the answer was not yes"));
        }
    }
    let pruned = session.engine.prune_leftovers(all).await.map_err(|error| engine_failure(&error))?;
    session.keep().await?;
    match format {
        Format::Json => console::json(&pruned),
        Format::Text if pruned.is_empty() => console::result("There are no volumes left over."),
        Format::Text => {
            for one in &pruned {
                let (volid, host) = (&one.volume.volid, &one.volume.host);
                console::result(&match &one.kept {
                    None => format!("deleted  {volid} on {host}"),
                    Some(why) => format!("kept     {volid} on {host}: {why}"),
                });
            }
        }
    }
    let failed = pruned.iter().filter(|one| !one.volume.beside_vm && one.kept.is_some()).count();
    Ok(if failed > 0 { Exit::Failed } else { Exit::Done })
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
