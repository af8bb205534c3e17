//! `daedal proxmox firewall|ha|backup-job`: what is done for a cluster's VMs on request, and undone with --off.

use clap::Args;
use daedal_engine::{BackupJob, Ensured, Tally, Use};

use crate::cli::{Format, Target};
use crate::console;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::session::{Session, engine_failure};

/// What `proxmox firewall` understands.
#[derive(Debug, Args)]
pub struct FirewallArgs {
    #[command(flatten)]
    target: Target,
    /// Turn it off again.
    #[arg(long)]
    off: bool,
    /// TCP ports that the nodes take besides the Talos and the Kubernetes API, such as 80,443.
    #[arg(long, value_name = "PORT", value_delimiter = ',')]
    allow: Vec<u16>,
}

/// What `proxmox ha` understands.
#[derive(Debug, Args)]
pub struct HaArgs {
    #[command(flatten)]
    target: Target,
    /// Take the control planes out again.
    #[arg(long)]
    off: bool,
}

/// What `proxmox backup-job` understands.
#[derive(Debug, Args)]
pub struct BackupArgs {
    #[command(flatten)]
    target: Target,
    /// Where the backups go: a Proxmox Backup Server, or any storage for backups.
    #[arg(long, required_unless_present = "off")]
    storage: Option<String>,
    /// When, as Proxmox writes it (02:30, sun 01:00).
    #[arg(long, default_value = "02:30")]
    schedule: String,
    /// How many of the last backups are kept.
    #[arg(long, value_name = "N", default_value_t = 7)]
    keep: u32,
    /// Remove the job.
    #[arg(long)]
    off: bool,
}

/// The firewall.
pub async fn firewall(args: &FirewallArgs, format: Format, color: bool) -> Outcome {
    let session = Session::open(&args.target, color).await?;
    let done = session.engine.firewall(&session.cluster, !args.off, &args.allow).await;
    let hint = (!args.off).then_some(
        "It filters once the datacenter's firewall is on, too: Datacenter → Firewall → Options, or `pvesh set \
         /cluster/firewall/options --enable 1`.",
    );
    say(done, hint, None, format)
}

/// High availability.
pub async fn ha(args: &HaArgs, format: Format, color: bool) -> Outcome {
    let session = Session::open(&args.target, color).await?;
    let done = session.engine.high_availability(&session.cluster, !args.off).await;
    say(done, None, Some((Use::Ha, &args.target)), format)
}

/// The backup job.
pub async fn backup(args: &BackupArgs, format: Format, color: bool) -> Outcome {
    let session = Session::open(&args.target, color).await?;
    let job = match (&args.storage, args.off) {
        (Some(storage), false) => {
            Some(BackupJob { storage: storage.clone(), schedule: args.schedule.clone(), keep: args.keep })
        }
        _ => None,
    };
    let done = session.engine.backup_job(&session.cluster, job.as_ref()).await;
    say(done, None, Some((Use::Backup, &args.target)), format)
}

/// Says how it went. A token that may not do it is allowed to by `usage`.
fn say(
    done: Result<Vec<Ensured>, daedal_engine::Error>,
    hint: Option<&str>,
    usage: Option<(Use, &Target)>,
    format: Format,
) -> Outcome {
    let done = done.map_err(|error| match (engine_failure(&error), usage) {
        (failure, Some((usage, target))) if failure.exit == Exit::Denied => {
            let file = target.inventory();
            let setup =
                format!("`daedal proxmox setup --with {} -f {}` allows it.", usage.told().0, file.display());
            failure.hint(setup)
        }
        (failure, _) => failure,
    })?;
    if done.is_empty() {
        return Err(Failure::new(Exit::Failed, "none of the cluster's VMs is there")
            .hint("`daedal apply` makes them."));
    }
    let counts: Tally = done.iter().map(|one| one.counts).sum();
    match format {
        Format::Json => console::json(&serde_json::json!({"steps": done, "counts": counts})),
        Format::Text => {
            for one in &done {
                console::result(&one.line());
            }
            console::result(&format!("{counts}."));
            if let Some(hint) = hint {
                console::progress(hint);
            }
        }
    }
    Ok(Exit::Done)
}
