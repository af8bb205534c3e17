//! The commands, one per file.

mod account;
pub(crate) mod addons;
mod apply;
mod approval;
pub(crate) mod backup;
mod carry_out;
pub(crate) mod check;
pub(crate) mod completions;
mod destroy;
mod execute;
pub(crate) mod helm;
pub(crate) mod init;
mod inventory;
mod lab;
mod man;
mod many;
pub(crate) mod node;
mod node_list;
mod node_mark;
mod node_remove;
mod node_show;
mod outputs;
mod phase;
mod plan;
pub(crate) mod plan_report;
pub(crate) mod proxmox;
mod proxmox_ccm;
mod proxmox_guard;
mod proxy;
mod recreate;
mod saved;
pub(crate) mod secrets;
mod status;
pub(crate) mod store;
mod store_reset;
pub(crate) mod templates;
pub(crate) mod volumes;

pub(crate) use apply::{command as call, lab_command, program};

use std::process::ExitCode;

use daedal_planner::Phase;

use crate::cli::{Cli, Command, Format, PhaseArgs, PlanCommand, Target};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};

/// Runs the command. One that runs another program ends as that does.
pub async fn run(cli: Cli, color: bool) -> Outcome<ExitCode> {
    let format = cli.global.output;
    if cli.global.untrusted {
        crate::untrusted::allows(&cli.command)?;
    }
    if !cli.files.is_empty() {
        return Err(Failure::new(
            Exit::Usage,
            "-f before the command names an inventory, and this command takes none",
        ));
    }
    let ended = match cli.command {
        Command::Kubectl { target, arguments } => {
            return proxy::tool("kubectl", &target, &arguments, color).await;
        }
        Command::Talosctl { target, arguments } => {
            return proxy::tool("talosctl", &target, &arguments, color).await;
        }
        Command::Init(args) => Box::pin(init::run(&args, format, color)).await,
        Command::Check { target, many, live, findings } => {
            let options = &check::Options::of(findings, live);
            options.verify()?;
            if let Some(form) = options.form {
                return check::report(&target, many.all, form, options, color).map(ExitCode::from);
            }
            let check =
                |target: Target| async move { Box::pin(check::run(&target, options, format, color)).await };
            Box::pin(many::run(target, many.all, format, color, check)).await
        }
        Command::Plan { saved: Some(PlanCommand::Show { file, id, full }), .. } => match id {
            true => plan::show_id(&file, format),
            false => plan::show_saved(&file, full, format, color),
        },
        Command::Plan { saved: None, target, many, detailed_exitcode, files, full } => {
            let options = &plan::Options { detailed_exitcode, files, full };
            let plan =
                |target: Target| async move { Box::pin(plan::run(&target, options, format, color)).await };
            Box::pin(many::run(target, many.all, format, color, plan)).await
        }
        Command::Apply { target, many, saved, expect, max_age, yes, onto, timeline, full } => {
            let options = &apply::Options { saved, expect, max_age, yes, onto, timeline, full };
            let apply = |target| Box::pin(apply::run(target, options, format, color));
            Box::pin(many::run(target, many.all, format, color, apply)).await
        }
        Command::Generate { target, many } => {
            let options = &phase::Options::generate();
            let run =
                |target: Target| async move { Box::pin(phase::run(&target, options, format, color)).await };
            Box::pin(many::run(target, many.all, format, color, run)).await
        }
        Command::Provision(args) => phases(Phase::Provision, args, format, color).await,
        Command::Bootstrap(args) => phases(Phase::Bootstrap, args, format, color).await,
        Command::Addons { command: Some(command), .. } => {
            Box::pin(addons::run(&command, format, color)).await
        }
        Command::Addons { command: None, args } => phases(Phase::Addons, *args, format, color).await,
        Command::Recreate { target, many, confirm, onto, full } => {
            let options = &recreate::Options { confirm, onto, full };
            let run = |target: Target| async move {
                Box::pin(recreate::run(&target, options, format, color)).await
            };
            Box::pin(many::run(target, many.all, format, color, run)).await
        }
        Command::Destroy { target, many, confirm, onto, without_secrets, full } => {
            let options = &destroy::Options { confirm, onto, without_secrets, full };
            let destroy =
                |target: Target| async move { Box::pin(destroy::run(&target, options, format, color)).await };
            Box::pin(many::run(target, many.all, format, color, destroy)).await
        }
        Command::Status { target, many, detailed_exitcode } => {
            let status = |target: Target| async move {
                Box::pin(status::run(&target, detailed_exitcode, format, color)).await
            };
            Box::pin(many::run(target, many.all, format, color, status)).await
        }
        Command::Outputs { target, many, name } => {
            let name = name.as_deref();
            let print = |target: Target| async move { outputs::outputs(&target, name, format, color).await };
            Box::pin(many::run(target, many.all, format, color, print)).await
        }
        Command::Proxy { target, port } => proxy::run(&target, port, format, color).await,
        Command::Env { target, shell } => outputs::env(&target, shell, format, color).await,
        Command::Backup(command) => Box::pin(backup::run(&command, format, color)).await,
        Command::Node(command) => Box::pin(node::run(&command, format, color)).await,
        Command::Secrets(command) => secrets::run(command, format, color).await,
        Command::Store(command) => store::run(&command, format, color).await,
        Command::Inventory(command) => inventory::run(&command, format, color),
        Command::Schema { of } => {
            crate::console::json(&crate::schema::of(of));
            Ok(Exit::Done)
        }
        Command::Helm(command) => helm::run(&command, format).await,
        Command::Templates(command) => Box::pin(templates::run(&command, format, color)).await,
        Command::Volumes(command) => Box::pin(volumes::run(&command, format, color)).await,
        Command::Proxmox(command) => Box::pin(proxmox::run(&command, format, color)).await,
        Command::Lab(command) => lab::run(&command, format, color).await,
        Command::Completions { shell } => completions::run(shell, format),
        Command::Complete { what, target } => completions::names(what, &target),
        Command::Man { command, to } => man::run(&command, to.as_deref(), format),
    };
    ended.map(ExitCode::from)
}

/// One phase of an apply.
async fn phases(phase: Phase, args: PhaseArgs, format: Format, color: bool) -> Outcome {
    let PhaseArgs { target, many, consent, full } = args;
    let options = &phase::Options { phase, consent, full };
    let run = |target: Target| async move { Box::pin(phase::run(&target, options, format, color)).await };
    Box::pin(many::run(target, many.all, format, color, run)).await
}
