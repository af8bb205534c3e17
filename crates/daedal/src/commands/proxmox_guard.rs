//! `daedal proxmox firewall|ha|backup-job`: what is done for a cluster's VMs on request, and undone with --off.

use clap::Args;
use daedal_app::Intent;
use daedal_engine::Use;
use daedal_planner::{BackupWish, FirewallWish, PlanError};

use crate::advice;
use crate::cli::{Consent, Format, Many, Target};
use crate::commands::carry_out::{self, Manner};
use crate::commands::many;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};

/// What `proxmox firewall` understands.
#[derive(Debug, Args)]
pub struct FirewallArgs {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    many: Many,
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
#[derive(Clone, Copy, Debug, Args)]
pub struct ConsentArgs {
    #[command(flatten)]
    consent: Consent,
    /// Show every node in full; do not fold nodes that are alike.
    #[arg(long)]
    full: bool,
}

/// What `proxmox ha` understands.
#[derive(Debug, Args)]
pub struct HaArgs {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    many: Many,
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
    #[command(flatten)]
    many: Many,
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
    let guard = Guard { target: &args.target, many: args.many, consent: &args.consent, usage: None, words };
    guard.run(&Intent::Firewall(wish), format, color).await
}

/// High availability.
pub async fn ha(args: &HaArgs, format: Format, color: bool) -> Outcome {
    let guard = Guard {
        target: &args.target,
        many: args.many,
        consent: &args.consent,
        usage: Some(Use::Ha),
        words: if args.off { "proxmox ha --off" } else { "proxmox ha" }.to_owned(),
    };
    guard.run(&Intent::Ha { on: !args.off }, format, color).await
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
        many: args.many,
        consent: &args.consent,
        usage: Some(Use::Backup),
        words,
    };
    guard.run(&Intent::BackupJob(wish), format, color).await
}

/// A command that guards VMs.
struct Guard<'a> {
    target: &'a Target,
    many: Many,
    consent: &'a ConsentArgs,
    /// What the token must be allowed for it, besides the usual.
    usage: Option<Use>,
    /// The command without its target.
    words: String,
}

impl Guard<'_> {
    /// Carries out what is asked for.
    async fn run(&self, intent: &Intent<'_>, format: Format, color: bool) -> Outcome {
        let carry_out =
            |target: Target| async move { Box::pin(self.carry_out(&target, intent, format, color)).await };
        many::run(self.target.clone(), self.many.all, format, color, carry_out).await
    }

    async fn carry_out(&self, target: &Target, intent: &Intent<'_>, format: Format, color: bool) -> Outcome {
        let Self { consent, words, .. } = self;
        let ConsentArgs { consent, full } = **consent;
        let (answers, plan_only) = (consent.answers(None), consent.plan_only);
        let manner = Manner { target, doing: words, words, plan_only, full, answers, format, color };
        let done = carry_out::run(intent, &manner, |refused, _| match refused {
            PlanError::NoBackups { fix, .. } => Some(fix.clone()),
            _ => None,
        });
        done.await.map_err(|failure| self.denied(failure))
    }

    /// A token that may not do it is allowed to by `setup`.
    fn denied(&self, failure: Failure) -> Failure {
        match (failure.exit, self.usage.map(Use::told)) {
            (Exit::Denied, Some((usage, _))) => failure.hint(format!(
                "To allow it: {}",
                advice::with_file(&format!("proxmox setup --with {usage}"))
            )),
            _ => failure,
        }
    }
}
