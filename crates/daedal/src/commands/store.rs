//! `daedal store`: where a cluster's secrets, lock and snapshots are kept, and how they get elsewhere.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use daedal_store::Store;

use crate::cli::{Format, Target};
use crate::commands::approval::agreed;
use crate::commands::store_reset;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::words::count;
use crate::{console, documents, keys, session, stores};

/// Manage the store.
#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Copy everything that is kept from another place to the store that the inventory declares, and verify it.
    Migrate {
        /// Which inventory: it declares where the store is from now on.
        #[command(flatten)]
        target: Target,
        /// Where the store was: its folder, or the inventory that declared it [default: .daedal/<cluster> beside the
        /// inventory].
        #[arg(long, value_name = "PATH")]
        from: Option<PathBuf>,
        /// Do not ask for confirmation.
        #[arg(short, long)]
        yes: bool,
    },
    /// Remove everything in the store, also if it is damaged, and keep a copy of the secrets bundle; refused while somebody works on
    /// the cluster. VMs are not touched.
    #[command(after_long_help = "Examples:\n  daedal store reset\n  daedal store reset --confirm home")]
    Reset {
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// Confirm with the cluster's name instead of being asked for it.
        #[arg(long, value_name = "NAME")]
        confirm: Option<String>,
    },
}

/// Runs the command.
pub async fn run(command: &StoreCommand, format: Format, color: bool) -> Outcome {
    match command {
        StoreCommand::Migrate { target, from, yes } => {
            Box::pin(migrate(target, from.as_deref(), *yes, format, color)).await
        }
        StoreCommand::Reset { target, confirm } => {
            Box::pin(store_reset::run(target, confirm.as_deref(), format, color)).await
        }
    }
}

async fn migrate(target: &Target, from: Option<&Path>, yes: bool, format: Format, color: bool) -> Outcome {
    let inventory = documents::of_lacking(target, color)?;
    let cluster = &inventory.loaded.cluster;
    let new = session::store(target, &inventory.folder, cluster).await?;
    let ring = session::ring(target, &inventory.folder, cluster);
    let old = match from {
        Some(file) if file.is_file() => {
            // Secrets that only nodes need may be missing here, too.
            let before = Target { files: vec![file.to_owned()], cluster: None, ..target.clone() };
            let before = documents::of_lacking(&before, color)?;
            let other = &before.loaded.cluster;
            if other.uuid != cluster.uuid {
                let (name, file) = (&other.name, file.display());
                let text = format!("{file} is the inventory of another cluster: {name} ({})", other.uuid);
                return Err(Failure::new(Exit::Usage, text));
            }
            stores::declared(other, &before.folder, ring).await?
        }
        Some(folder) => session::store_in(folder.to_owned(), cluster, ring),
        None => session::store_in(session::state_beside(&inventory.folder, &cluster.name), cluster, ring),
    };
    let (there, here) = (old.place().display().to_string(), new.place().display().to_string());
    if there == here {
        return Err(Failure::new(Exit::Usage, format!("the store is in {here} already"))
            .hint("Name where it was with --from: a folder, or the inventory that declared it."));
    }
    let failed = |error: daedal_store::Error| keys::store_failure(&error, Exit::CannotWrite);
    let names = old.names().await.map_err(failed)?;
    if names.is_empty() {
        return Err(Failure::new(
            Exit::NoInput,
            format!("nothing of cluster {} is kept in {there}", cluster.name),
        )
        .hint("Name where the store was with --from: a folder, or the inventory that declared it."));
    }
    if !yes {
        let what = count(names.len(), "object");
        let question = format!("Copy {what} of cluster {} from {there} to {here}?", cluster.name);
        agreed(&question, "nothing was copied", "Give --yes.")?;
    }
    let copied = copy(&old, &new).await?;
    match format {
        Format::Json => console::json(&serde_json::json!({"from": there, "to": here, "copied": copied})),
        Format::Text => console::answer(&format!(
            "{} copied from {there} to {here} and verified: {}.\nThe copies in {there} are unchanged. Remove them once every \
             operator uses the new inventory: two stores of one cluster do not know of each other.\n",
            count(copied.len(), "object"),
            copied.join(", ")
        )),
    }
    Ok(Exit::Done)
}

/// Copies under both locks: nobody works on the cluster meanwhile, wherever its store is for them.
async fn copy(old: &Store, new: &Store) -> Outcome<Vec<String>> {
    let failed = |error: daedal_store::Error| keys::store_failure(&error, Exit::CannotWrite);
    let from = session::lock(old, "store migrate").await?;
    let to = session::lock(new, "store migrate").await?;
    let copied = old.copy_to(new).await.map_err(failed)?;
    to.release().await.map_err(failed)?;
    from.release().await.map_err(failed)?;
    Ok(copied)
}
