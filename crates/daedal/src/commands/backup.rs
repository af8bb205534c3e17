//! `daedal backup`: snapshots of etcd, taken, listed, and restored into a fresh cluster.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use daedal_app::{Answers, Intent};
use daedal_engine::Kept;

use crate::cli::{Format, Many, Target};
use crate::commands::apply::Ended;
use crate::commands::approval::{self, Otherwise};
use crate::commands::{apply, execute, many, plan};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::session::{self, Session, engine_failure};
use crate::{console, keys, table};

/// Manage snapshots of etcd.
#[derive(Debug, Subcommand)]
pub enum BackupCommand {
    /// Take a snapshot of etcd from a control plane, verify it, and store it with a description.
    Create {
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// One cluster or all.
        #[command(flatten)]
        many: Many,
        /// The file [default: a dated one in the cluster's store].
        #[arg(long, value_name = "FILE", conflicts_with = "all")]
        to: Option<PathBuf>,
    },
    /// List the snapshots in the cluster's store.
    List {
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// One cluster or all.
        #[command(flatten)]
        many: Many,
    },
    /// Create the cluster, or change it to match the inventory, with an etcd restored from a snapshot; refused if its etcd
    /// is alive.
    #[command(after_long_help = "Examples:\n  daedal backup restore etcd-2026-11-18.db --plan-only")]
    Restore {
        /// The snapshot.
        #[arg(value_name = "FILE")]
        snapshot: PathBuf,
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// Do not ask for confirmation.
        #[arg(short, long)]
        yes: bool,
        /// Continue from this generation of the cluster although this store has not seen it.
        #[arg(long, value_name = "GENERATION")]
        onto: Option<u32>,
        /// Only show the plan.
        #[arg(long)]
        plan_only: bool,
    },
}

/// Runs the command.
pub async fn run(command: &BackupCommand, format: Format, color: bool) -> Outcome {
    match command {
        BackupCommand::Create { target, many, to } => {
            let create =
                |target: Target| async move { Box::pin(create(&target, to.as_deref(), format, color)).await };
            many::run(target.clone(), many.all, format, color, create).await
        }
        BackupCommand::List { target, many } => {
            let list = |target: Target| async move { Box::pin(list(&target, format, color)).await };
            many::run(target.clone(), many.all, format, color, list).await
        }
        BackupCommand::Restore { snapshot, target, yes, onto, plan_only } => {
            let options = Restoring { yes: *yes, onto: *onto, plan_only: *plan_only };
            Box::pin(restore(snapshot, target, &options, format, color)).await
        }
    }
}

/// What went wrong with a snapshot, under the exit code that fits.
fn failed(error: &daedal_engine::Error) -> Failure {
    use daedal_engine::Error;
    let exit = match error {
        Error::BackupFile { what: "read", .. } => Exit::NoInput,
        Error::BackupFile { .. } => Exit::CannotWrite,
        Error::Backup { .. } | Error::BackupDamaged { .. } => Exit::BadDocument,
        Error::NoSnapshot { .. } => Exit::Unavailable,
        Error::Store(daedal_store::Error::Io { .. }) => Exit::CannotWrite,
        _ => return engine_failure(error),
    };
    Failure { exit, ..engine_failure(error) }
}

async fn create(target: &Target, to: Option<&Path>, format: Format, color: bool) -> Outcome {
    let session = Session::open(target, color).await?;
    if let Some(file) = to.filter(|file| file.exists()) {
        let message =
            format!("{} exists already; a snapshot is never written over another file", file.display());
        return Err(Failure::new(Exit::CannotWrite, message));
    }
    let kept = session.engine.backup(&session.cluster, to).await.map_err(|error| failed(&error))?;
    match format {
        Format::Json => console::json(&kept),
        Format::Text => {
            let told = kept.backup.as_ref().map_or_else(String::new, |backup| {
                let (size, node) = (bytes(backup.size), &backup.node);
                format!(
                    ": {size} from {node}, revision {}, {} keys, checksum verified",
                    backup.revision, backup.keys
                )
            });
            console::answer(&format!("{}{told}\n", kept.file.display()));
        }
    }
    Ok(Exit::Done)
}

async fn list(target: &Target, format: Format, color: bool) -> Outcome {
    let session = Session::open_lacking(target, color).await?;
    let all = session.engine.backups().await.map_err(|error| failed(&error))?;
    match format {
        Format::Json => console::json(&all),
        Format::Text if all.is_empty() => {
            let command = apply::command(target, "backup create");
            console::answer(&format!("There are none. To take one: {command}\n"));
        }
        Format::Text => console::result(&render(&all)),
    }
    Ok(Exit::Done)
}

fn render(all: &[Kept]) -> String {
    let row = |kept: &Kept| {
        let cells = match &kept.backup {
            Some(backup) => [
                backup.taken.strftime("%Y-%m-%d %H:%M UTC").to_string(),
                bytes(backup.size),
                backup.revision.to_string(),
                backup.talos.clone(),
                backup.kubernetes.clone(),
            ],
            None => {
                ["no description".to_owned(), "?".to_owned(), "?".to_owned(), "?".to_owned(), "?".to_owned()]
            }
        };
        cells.into_iter().chain([kept.file.display().to_string()]).collect()
    };
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    table::render(&["TAKEN", "SIZE", "REVISION", "TALOS", "KUBERNETES", "FILE"], &rows)
}

/// What a restore was told besides its snapshot.
struct Restoring {
    yes: bool,
    onto: Option<u32>,
    plan_only: bool,
}

/// A snapshot of a remote store on this machine, for as long as it is needed.
struct Fetched {
    file: PathBuf,
    folder: PathBuf,
}

impl Drop for Fetched {
    fn drop(&mut self) {
        // It holds the cluster's secrets.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Brings a snapshot that `backup list` names to this machine; none if the store has none of that name.
async fn fetch(session: &Session, target: &Target, place: &Path) -> Outcome<Option<Fetched>> {
    let failed = |error: daedal_store::Error| keys::store_failure(&error, Exit::Failed);
    let folder = session::local_folder(target, session).join("fetched");
    daedal_store::make_private_folder(&folder).map_err(failed)?;
    let mut fetched = Fetched { file: PathBuf::new(), folder: folder.clone() };
    let found = session.store.fetch_backup(place, &folder).await.map_err(failed)?;
    Ok(found.map(|file| {
        fetched.file = file;
        fetched
    }))
}

async fn restore(named: &Path, target: &Target, options: &Restoring, format: Format, color: bool) -> Outcome {
    let plan_only = options.plan_only;
    let session = Session::open(target, color).await?;
    plan::vet(&session, color).await?;
    let _lock = match plan_only {
        true => None,
        false => Some(session.lock("backup restore").await?),
    };
    let fetched = match named.exists() {
        true => None,
        false => fetch(&session, target, named).await?,
    };
    let file = fetched.as_ref().map_or(named, |fetched| &fetched.file);
    let (recovery, backup) =
        session.engine.examine(&session.cluster, file).await.map_err(|error| failed(&error))?;
    let intent = Intent::Restore(recovery);
    let (world, plan) = plan::made(&session, &intent).await?;
    plan::buildable(&session, &plan).await?;
    if format == Format::Text || plan_only {
        if let (Format::Text, Some(backup)) = (format, &backup) {
            console::say(&format!(
                "The snapshot was taken on {} from {}: what happened since is not in it.",
                backup.taken.strftime("%Y-%m-%d %H:%M UTC"),
                backup.node
            ));
        }
        plan::show(&plan, false, format, color);
    }
    if plan_only {
        return Ok(plan::verdict(&plan));
    }
    let again = apply::command(target, &format!("backup restore {}", named.display()));
    let answers = Answers { yes: options.yes, onto: options.onto, ..Answers::default() };
    let otherwise = Otherwise { again: &again, yes: "Give --yes." };
    approval::approve(&session, &intent, &world, &plan, &answers, &otherwise).await?;
    let report = execute::execute_with(&session, &world, &plan, Some(file), format, color).await?;
    execute::conclude(&plan, &report, &again)?;
    match format {
        Format::Json => console::json(&execute::as_json(&plan, &report)),
        Format::Text => {
            let ended = Ended { found: &world, last: &plan, runs: &[(&plan, &report)] };
            console::answer(&apply::summary(&session, target, &ended).await);
        }
    }
    Ok(plan::verdict(&plan))
}

fn bytes(number: u64) -> String {
    match number {
        0..0x10_0000 => format!("{} KiB", number.div_ceil(1 << 10)),
        _ => format!("{:.1} MiB", number as f64 / f64::from(1 << 20)),
    }
}
