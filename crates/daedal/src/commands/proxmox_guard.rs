//! `daedal proxmox firewall|ha|backup-job`: what is done for a cluster's VMs on request, and undone with --off.

use clap::Args;
use daedal_engine::Use;
use daedal_inventory::Cluster;
use daedal_planner::{
    BackupWish, FirewallWish, Plan, PlanError, Purpose, World, plan_backup_job, plan_firewall, plan_ha,
};

use crate::cli::{Format, Target};
use crate::commands::carry_out::{self, Manner};
use crate::commands::plan;
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
    #[arg(long, value_name = "PORT", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..))]
    allow: Vec<u16>,
    #[command(flatten)]
    consent: ConsentArgs,
}

/// Whether a command that guards VMs asks, and does anything.
#[derive(Debug, Args)]
pub struct ConsentArgs {
    /// Do not ask.
    #[arg(long)]
    yes: bool,
    /// Only show what would be done.
    #[arg(long)]
    plan_only: bool,
    /// Show every node in full, also those that are alike.
    #[arg(long)]
    full: bool,
}

/// What `proxmox ha` understands.
#[derive(Debug, Args)]
pub struct HaArgs {
    #[command(flatten)]
    target: Target,
    /// Take the control planes out again.
    #[arg(long)]
    off: bool,
    #[command(flatten)]
    consent: ConsentArgs,
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
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    keep: u32,
    /// Remove the job.
    #[arg(long)]
    off: bool,
    #[command(flatten)]
    consent: ConsentArgs,
}

/// The firewall.
pub async fn firewall(args: &FirewallArgs, format: Format, color: bool) -> Outcome {
    let wish = (!args.off).then(|| FirewallWish { ports: args.allow.iter().copied().collect() });
    let ports: Vec<String> = args.allow.iter().map(ToString::to_string).collect();
    let words = match (args.off, ports.is_empty()) {
        (true, _) => "proxmox firewall --off".to_owned(),
        (false, true) => "proxmox firewall".to_owned(),
        (false, false) => format!("proxmox firewall --allow {}", ports.join(",")),
    };
    let guard = Guard {
        target: &args.target,
        consent: &args.consent,
        purpose: Purpose::Firewall,
        usage: None,
        words,
    };
    let plan = |cluster: &Cluster, world: &World| plan_firewall(cluster, world, wish.as_ref());
    guard.run(plan, format, color).await
}

/// High availability.
pub async fn ha(args: &HaArgs, format: Format, color: bool) -> Outcome {
    let guard = Guard {
        target: &args.target,
        consent: &args.consent,
        purpose: Purpose::Ha,
        usage: Some(Use::Ha),
        words: if args.off { "proxmox ha --off" } else { "proxmox ha" }.to_owned(),
    };
    let plan = |cluster: &Cluster, world: &World| plan_ha(cluster, world, !args.off);
    guard.run(plan, format, color).await
}

/// The backup job.
pub async fn backup(args: &BackupArgs, format: Format, color: bool) -> Outcome {
    let wish = match (&args.storage, args.off) {
        (Some(storage), false) => {
            Some(BackupWish { storage: storage.clone(), schedule: args.schedule.clone(), keep: args.keep })
        }
        _ => None,
    };
    let words = match &wish {
        Some(BackupWish { storage, schedule, keep }) => {
            format!("proxmox backup-job --storage {storage} --schedule '{schedule}' --keep {keep}")
        }
        None => "proxmox backup-job --off".to_owned(),
    };
    let guard = Guard {
        target: &args.target,
        consent: &args.consent,
        purpose: Purpose::BackupJob,
        usage: Some(Use::Backup),
        words,
    };
    let plan = |cluster: &Cluster, world: &World| plan_backup_job(cluster, world, wish.as_ref());
    guard.run(plan, format, color).await
}

/// A command that guards VMs.
struct Guard<'a> {
    target: &'a Target,
    consent: &'a ConsentArgs,
    purpose: Purpose,
    /// What the token must be allowed for it, besides the usual.
    usage: Option<Use>,
    /// The command without its target.
    words: String,
}

impl Guard<'_> {
    /// Looks, plans, and carries the plan out.
    async fn run(
        &self,
        plan: impl FnOnce(&Cluster, &World) -> Result<Plan, PlanError>,
        format: Format,
        color: bool,
    ) -> Outcome {
        let Self { target, consent, words, .. } = self;
        // No machine config is made for it.
        let session = Session::open_lacking(target, color).await?;
        let _lock = match consent.plan_only {
            true => None,
            false => Some(session.lock(words).await?),
        };
        let world = session.engine.observe_for(&session.cluster, self.purpose).await;
        let world = world.map_err(|error| self.denied(engine_failure(&error)))?;
        let plan = plan(&session.cluster, &world);
        let fix = match &plan {
            Err(PlanError::NoBackups { fix, .. }) => Some(fix.clone()),
            _ => None,
        };
        let plan = plan::made(&session, &world, plan).map_err(|failure| match fix {
            Some(fix) => failure.hint(fix),
            None => failure,
        })?;
        let manner =
            Manner { target, words, plan_only: consent.plan_only, full: consent.full, format, color };
        let done = carry_out::run(&session, &world, &plan, &manner, carry_out::asking(consent.yes)).await;
        done.map_err(|failure| self.denied(failure))
    }

    /// A token that may not do it is allowed to by `setup`.
    fn denied(&self, failure: Failure) -> Failure {
        let file = self.target.inventory();
        match (failure.exit, self.usage.map(Use::told)) {
            (Exit::Denied, Some((usage, _))) => failure
                .hint(format!("`daedal proxmox setup --with {usage} -f {}` allows it.", file.display())),
            _ => failure,
        }
    }
}
