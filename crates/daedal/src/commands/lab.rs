//! `daedal lab`: the built-in datacenter as a process.

use std::time::Duration;

use daedal_lab::proxmox::DatacenterSpec;
use daedal_lab::{Handle, HandleError, LabSpec, Runner, ServeOptions, files};
use tokio_util::sync::CancellationToken;

use crate::cli::{Format, LabCommand, LabOptions};
use crate::commands::lab_command;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::keys::KeyArgs;
use crate::lab::{datacenter, dhcp, forget, trouble};
use crate::{console, documents};

/// Runs the command.
pub async fn run(command: &LabCommand, format: Format, color: bool) -> Outcome {
    match command {
        LabCommand::Status { lab } => status(lab, format).await,
        LabCommand::Stop { lab } => stop(lab, format).await,
        LabCommand::Reset { lab } => reset(lab, format).await,
        LabCommand::Extend { lab, file } => {
            let cluster = documents::read(file, &KeyArgs::default(), color)?.loaded.cluster;
            let link = crate::lab::extend(lab, &cluster).await?;
            crate::lab::keep(&link.handle).await?;
            say(format, "The lab has everything that the inventory names.", true);
            Ok(Exit::Done)
        }
        LabCommand::Serve { lab, file, idle } => {
            let spec = match file {
                Some(file) => Some(documents::read(file, &KeyArgs::default(), color)?.loaded.cluster),
                None => None,
            };
            serve(lab, spec.as_ref(), *idle, format).await
        }
    }
}

async fn status(lab: &LabOptions, format: Format) -> Outcome {
    let Some(handle) = Handle::find(&lab.lab_dir).await.map_err(|e| trouble(&e, &lab.lab_dir))? else {
        match format {
            Format::Json => console::json(&serde_json::json!({"running": false})),
            Format::Text => console::answer(&format!("No lab runs in {}.", lab.lab_dir.display())),
        }
        return Ok(Exit::Done);
    };
    let status = handle.status().await.map_err(|e| Failure::from_error(Exit::Unavailable, &e))?;
    match format {
        Format::Json => console::json(&status),
        Format::Text => {
            let idle = match status.idle_seconds {
                Some(seconds) => format!("idle for {seconds} s"),
                None => "in use".to_owned(),
            };
            console::answer(&format!(
                "The lab in {} runs as process {} since {}, at {} times real time, {idle}.\n\
                 Proxy (HTTP CONNECT and SOCKS5): {}\n\
                 Hosts: {}\n\
                 VMs: {} ({} running)\n\
                 Addresses that answer: {}",
                lab.lab_dir.display(),
                status.pid,
                status.started.strftime("%Y-%m-%d %H:%M:%S UTC"),
                status.speed,
                status.proxy,
                status.hosts.join(", "),
                status.vms,
                status.running,
                status.answering.join(", "),
            ));
        }
    }
    Ok(Exit::Done)
}

async fn stop(lab: &LabOptions, format: Format) -> Outcome {
    let ran = stopped(lab).await?;
    let text = if ran { "The lab is stopped; its world stays on disk." } else { "No lab was running." };
    say(format, text, ran);
    Ok(Exit::Done)
}

async fn reset(lab: &LabOptions, format: Format) -> Outcome {
    // Forgetting is how one gets rid of a control file that is not to be trusted, and of a world that cannot be written.
    match Handle::find(&lab.lab_dir).await {
        Err(HandleError::Distrusted { .. }) => {}
        Err(error) => return Err(trouble(&error, &lab.lab_dir)),
        Ok(Some(handle)) => handle.abandon().await.map_err(|e| trouble(&e, &lab.lab_dir))?,
        Ok(None) => {}
    }
    forget(&lab.lab_dir).map_err(|error| {
        Failure::new(Exit::CannotWrite, format!("cannot remove {}", lab.lab_dir.display())).because(&error)
    })?;
    say(format, "The lab's world is deleted.", true);
    Ok(Exit::Done)
}

async fn stopped(lab: &LabOptions) -> Outcome<bool> {
    match Handle::find(&lab.lab_dir).await.map_err(|e| trouble(&e, &lab.lab_dir))? {
        Some(handle) => {
            handle.stop().await.map_err(|e| match e {
                HandleError::Unkept { .. } => Failure::from_error(Exit::CannotWrite, &e).hint(format!(
                    "It still runs. Free some space and stop it again, or delete its world: {}",
                    lab_command(&lab.lab_dir, "reset")
                )),
                e => Failure::from_error(Exit::Unavailable, &e),
            })?;
            Ok(true)
        }
        None => Ok(false),
    }
}

fn say(format: Format, text: &str, changed: bool) {
    match format {
        Format::Json => console::json(&serde_json::json!({"changed": changed})),
        Format::Text => console::answer(text),
    }
}

/// Serves in the foreground until Ctrl-C, or until idle for long enough.
async fn serve(
    lab: &LabOptions,
    cluster: Option<&daedal_inventory::Cluster>,
    idle_minutes: u64,
    format: Format,
) -> Outcome {
    let stop = CancellationToken::new();
    let interrupted = stop.clone();
    let mut interrupts = crate::commands::execute::Interrupts::listen();
    tokio::spawn(async move {
        interrupts.next().await;
        interrupted.cancel();
    });
    let secret =
        daedal_lab::token_secret(&lab.lab_dir).map_err(|e| Failure::from_error(Exit::CannotWrite, &e))?;
    let spec = cluster.map_or_else(DatacenterSpec::default, |cluster| datacenter(cluster, &secret));
    let mut factories = LabSpec::default().factories;
    factories
        .extend(cluster.map(|cluster| cluster.talos.factory.clone()).filter(|own| !factories.contains(own)));
    let runner = match &lab.lab_runner {
        Some(command) => {
            let command = std::path::absolute(command).map_err(|error| {
                Failure::new(Exit::NoInput, format!("cannot find {}", command.display())).because(&error)
            })?;
            Some(Runner { command, folder: lab.lab_dir.join(files::MEDIA) })
        }
        None => None,
    };
    let options = ServeOptions {
        folder: lab.lab_dir.clone(),
        spec: LabSpec {
            speed: lab.lab_speed,
            datacenter: spec,
            factories,
            runner,
            dhcp: cluster.and_then(dhcp),
            ..LabSpec::default()
        },
        idle: (idle_minutes > 0).then(|| Duration::from_secs(idle_minutes * 60)),
    };
    daedal_lab::serve(options, stop, |announcement| {
        let proxy = format!("http://{}", announcement.proxy);
        match format {
            Format::Json => console::json(&serde_json::json!({
                "proxy": proxy,
                "ssh": announcement.ssh,
                "sshKey": lab.lab_dir.join(files::SSH_KEY),
                "sshKnownHosts": lab.lab_dir.join(files::SSH_KNOWN_HOSTS),
                "ca": lab.lab_dir.join(files::CA),
                "tokenSecret": lab.lab_dir.join(files::TOKEN),
                "pid": announcement.pid,
            })),
            Format::Text => {
                console::say(&format!("The lab answers through the proxy {proxy} (Ctrl-C ends it)."));
            }
        }
    })
    .await
    .map_err(|error| {
        let exit = match error {
            daedal_lab::ServeError::Running { .. } => Exit::Busy,
            daedal_lab::ServeError::World {
                source: daedal_lab::LabError::NoRunner | daedal_lab::LabError::UnusedRunner,
            } => Exit::Usage,
            _ => Exit::Failed,
        };
        let failure = Failure::from_error(exit, &error);
        match error {
            daedal_lab::ServeError::World { .. } => {
                failure.hint(format!("To delete the world: {}", lab_command(&lab.lab_dir, "reset")))
            }
            _ => failure,
        }
    })?;
    Ok(Exit::Done)
}
