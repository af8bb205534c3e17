//! The commands, one per file.

mod apply;
pub(crate) mod backup;
mod carry_out;
mod check;
pub(crate) mod completions;
mod destroy;
mod execute;
mod generation;
pub(crate) mod helm;
pub(crate) mod init;
mod init_survey;
mod inventory;
mod lab;
mod man;
pub(crate) mod node;
mod node_list;
mod node_mark;
mod node_remove;
mod node_show;
mod outputs;
mod plan;
pub(crate) mod proxmox;
mod proxmox_ccm;
mod proxmox_guard;
mod saved;
pub(crate) mod secrets;
mod status;
pub(crate) mod templates;
pub(crate) mod volumes;

pub(crate) use apply::command as call;

use crate::cli::{Cli, Command, PlanCommand};
use crate::failure::Outcome;

/// Runs the command.
pub async fn run(cli: Cli, color: bool) -> Outcome {
    let format = cli.global.output;
    if cli.global.untrusted {
        crate::untrusted::allows(&cli.command)?;
    }
    match cli.command {
        Command::Init(args) => init::run(&args, format, color).await,
        Command::Check { target, live } => check::run(&target, live, format, color).await,
        Command::Plan { saved: Some(PlanCommand::Show { file, full }), .. } => {
            plan::show_saved(&file, full, format, color)
        }
        Command::Plan { saved: None, target, detailed_exitcode, save, full } => {
            let options = plan::Options { detailed_exitcode, save, full };
            plan::run(&target, &options, format, color).await
        }
        Command::Apply { target, saved, expect, yes, onto, timeline, full } => {
            let options = apply::Options { saved, expect, yes, onto, timeline, full };
            Box::pin(apply::run(target, &options, format, color)).await
        }
        Command::Destroy { target, confirm, onto, without_secrets, full } => {
            let options = destroy::Options { confirm, onto, without_secrets, full };
            Box::pin(destroy::run(&target, options, format, color)).await
        }
        Command::Status { target, detailed_exitcode } => {
            status::run(&target, detailed_exitcode, format, color).await
        }
        Command::Outputs { target, name } => outputs::outputs(&target, name.as_deref(), format, color).await,
        Command::Env { target, shell } => outputs::env(&target, shell, format, color).await,
        Command::Backup(command) => backup::run(&command, format, color).await,
        Command::Node(command) => node::run(&command, format, color).await,
        Command::Secrets(command) => secrets::run(command, format, color).await,
        Command::Inventory(command) => inventory::run(&command, format, color),
        Command::Helm(command) => helm::run(&command, format).await,
        Command::Templates(command) => templates::run(&command, format, color).await,
        Command::Volumes(command) => volumes::run(&command, format, color).await,
        Command::Proxmox(command) => proxmox::run(&command, format, color).await,
        Command::Lab(command) => lab::run(&command, format, color).await,
        Command::Completions { shell } => completions::run(shell, format),
        Command::Complete { what, target } => completions::names(what, &target),
        Command::Man { command, to } => man::run(&command, to.as_deref(), format),
    }
}
