//! `daedal secrets`: what is kept for a cluster, brought in, taken out, looked at, and what is minted from it.

mod import;
mod mint;
mod misfit;
mod rekey;
mod show;

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args, Subcommand};
use daedal_engine::Outputs;
use daedal_inventory::{Cluster, Reach};
use daedal_store::{SecretBytes, Store};
use daedal_talos_config::{ApiRole, Secret, SecretsBundle};
use jiff::SignedDuration;

use crate::cli::{Format, Many, Target};
use crate::commands::apply::command;
use crate::commands::many;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::session::engine_failure;
use crate::{console, documents, keys, lab, session};

/// Secrets and what is minted from them. Only `import` asks Proxmox and the nodes anything.
#[derive(Debug, Subcommand)]
pub enum SecretsCommand {
    /// Show the fingerprint, subject, key type and end of each authority; never a secret.
    Show {
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// One cluster or all.
        #[command(flatten)]
        many: Many,
    },
    /// Store the secrets of a file for this cluster: from `talosctl gen secrets`, from another store, or from a control
    /// plane's machine config.
    ///
    /// Refused if the store has other secrets, or if a node of the cluster runs on others. --replace replaces the stored ones, once
    /// every node runs on the new ones; the old ones stay under another name. This is the last step of changing an authority.
    Import {
        /// The file.
        #[arg(value_name = "SECRETS")]
        source: PathBuf,
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// Do not ask Proxmox and the nodes whether the cluster runs on other secrets.
        #[arg(long, conflicts_with = "replace")]
        unchecked: bool,
        /// Replace the stored secrets, if every node already runs on these.
        #[arg(long)]
        replace: bool,
    },
    /// Write the secrets bundle as `talosctl gen secrets` does.
    Export {
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// Where to write it.
        #[command(flatten)]
        to: Destination,
    },
    /// Issue a talosconfig with a role and a lifetime; works offline.
    Talosconfig {
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// What its holder may do: os:admin, os:operator, os:reader or os:etcd:backup.
        #[arg(long, default_value = "os:admin", value_parser = role)]
        role: ApiRole,
        /// Lifetime: 90m, 8h, 30d, 1y.
        #[arg(long, default_value = "1y", value_parser = lifetime)]
        ttl: SignedDuration,
        /// Where to write it.
        #[command(flatten)]
        to: Destination,
    },
    /// Issue an admin kubeconfig with a lifetime; works offline.
    Kubeconfig {
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// Lifetime: 90m, 8h, 30d, 1y.
        #[arg(long, default_value = "1y", value_parser = lifetime)]
        ttl: SignedDuration,
        /// Where to write it.
        #[command(flatten)]
        to: Destination,
    },
    /// Re-encrypt the store with the first key in the key file; keep the old key below it until then.
    Rekey {
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// One cluster or all.
        #[command(flatten)]
        many: Many,
    },
    /// Replace the admin talosconfig and kubeconfig in the outputs by new ones.
    RotateAdmin {
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// Lifetime: 90m, 8h, 30d, 1y.
        #[arg(long, default_value = "1y", value_parser = lifetime)]
        ttl: SignedDuration,
    },
}

/// Where something secret goes: said aloud, so that keys land on no terminal by accident.
#[derive(Debug, Args)]
#[group(skip)]
#[command(group = ArgGroup::new("destination").args(["to", "stdout"]).required(true))]
pub struct Destination {
    /// Write to this file, readable only by you (0600).
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    /// Overwrite the file if it exists.
    #[arg(long, conflicts_with = "stdout")]
    force: bool,
    /// Print it, including the keys.
    #[arg(long)]
    stdout: bool,
}

fn role(text: &str) -> Result<ApiRole, String> {
    ApiRole::parse(text)
        .ok_or_else(|| format!("a role is one of {}", ApiRole::ALL.map(ApiRole::as_str).join(", ")))
}

/// A lifetime: a number and m, h, d, w or y.
pub fn lifetime(text: &str) -> Result<SignedDuration, String> {
    let wrong = || "a lifetime is a number and a unit, such as 90m, 8h, 30d, 2w or 1y".to_owned();
    let unit = text.chars().last().ok_or_else(wrong)?;
    let number: i64 = text[..text.len() - unit.len_utf8()].parse().map_err(|_| wrong())?;
    let minutes = match unit {
        'm' => 1,
        'h' => 60,
        'd' => 60 * 24,
        'w' => 60 * 24 * 7,
        'y' => 60 * 24 * 365,
        _ => return Err(wrong()),
    };
    let minutes = number.checked_mul(minutes).ok_or_else(wrong)?;
    // The authorities last ten years; nothing they sign is good for longer.
    match minutes {
        1..=5_256_000 => Ok(SignedDuration::from_mins(minutes)),
        _ => Err("a lifetime is at least a minute and at most ten years".to_owned()),
    }
}

/// Runs the command.
pub async fn run(command: SecretsCommand, format: Format, color: bool) -> Outcome {
    match command {
        SecretsCommand::Show { target, many } => {
            let show = |target: Target| async move { show::run(&target, format, color).await };
            Box::pin(many::run(target, many.all, format, color, show)).await
        }
        SecretsCommand::Import { source, target, unchecked, replace } => {
            let how = match (unchecked, replace) {
                (true, _) => import::How::Unchecked,
                (false, true) => import::How::Replacing,
                (false, false) => import::How::New,
            };
            Box::pin(import::run(&source, &target, how, format, color)).await
        }
        SecretsCommand::Export { target, to } => mint::export(&target, &to, format, color).await,
        SecretsCommand::Talosconfig { target, role, ttl, to } => {
            mint::talosconfig(&target, role, ttl, &to, format, color).await
        }
        SecretsCommand::Kubeconfig { target, ttl, to } => {
            mint::kubeconfig(&target, ttl, &to, format, color).await
        }
        SecretsCommand::Rekey { target, many } => {
            let rekey = |target: Target| async move { rekey::run(&target, format, color).await };
            Box::pin(many::run(target, many.all, format, color, rekey)).await
        }
        SecretsCommand::RotateAdmin { target, ttl } => mint::rotate_admin(&target, ttl, format, color).await,
    }
}

/// What is kept for a cluster, without asking the world anything.
struct Kept {
    cluster: Cluster,
    store: Store,
    outputs: Outputs,
    secrets: SecretsBundle,
}

impl Kept {
    /// Reads the inventory and the kept secrets. With a lab, what is minted leads there.
    async fn open(target: &Target, color: bool) -> Outcome<Self> {
        let inventory = documents::of_lacking(target, color)?;
        let mut cluster = inventory.loaded.cluster;
        let store = session::store(target, &inventory.folder, &cluster).await?;
        let outputs = session::outputs(target, &inventory.folder, &cluster);
        let Some(secrets) = stored(&store).await? else {
            return Err(Failure::new(
                Exit::NoInput,
                format!(
                    "there are no secrets of cluster {} in {} yet",
                    cluster.name,
                    store.secrets_place().display()
                ),
            )
            .hint(format!("The first apply makes them: {}", command(target, "apply")))
            .hint(format!("Or bring them along: {}", command(target, "secrets import FILE"))));
        };
        if target.lab {
            cluster.reach = Reach::Proxy(lab::connect(&target.lab_options, &cluster).await?.proxy_url());
        }
        Ok(Self { cluster, store, outputs, secrets })
    }

    /// The cluster with the addresses that its nodes were found at.
    async fn located(&self) -> Outcome<Cow<'_, Cluster>> {
        let found = daedal_engine::found_addresses(&self.store, &self.outputs).await;
        Ok(self.cluster.located(&found.map_err(|error| engine_failure(&error))?))
    }
}

/// The kept secrets; none if there never were any.
async fn stored(store: &Store) -> Outcome<Option<SecretsBundle>> {
    let kept = store.secrets().await.map_err(|error| keys::store_failure(&error, Exit::Failed))?;
    kept.map(|bytes| bundle_of(store, &bytes)).transpose()
}

/// The bundle in what is kept.
fn bundle_of(store: &Store, bytes: &SecretBytes) -> Outcome<SecretsBundle> {
    let unreadable = || {
        Failure::new(
            Exit::BadDocument,
            format!("the secrets in {} cannot be used", store.secrets_place().display()),
        )
    };
    let text = std::str::from_utf8(bytes.expose()).map_err(|error| unreadable().because(&error))?;
    SecretsBundle::from_yaml(text).map_err(|error| unreadable().because(&error))
}

/// Hands out something secret where it was asked for.
fn hand_out(content: &Secret, what: &str, to: &Destination, format: Format) -> Outcome {
    match (&to.to, format) {
        (Some(path), _) if path.is_dir() => {
            let message = format!("{what} was not written: {} is a folder", path.display());
            return Err(Failure::new(Exit::CannotWrite, message).hint("Name a file in it."));
        }
        // What is there may be the only copy of another cluster's keys; a link may lead to it.
        (Some(path), _) if path.symlink_metadata().is_ok() && !to.force => {
            let message = format!("{what} was not written: {} is there already", path.display());
            return Err(Failure::new(Exit::CannotWrite, message).hint("Name another file, or give --force."));
        }
        (Some(path), _) => {
            write(path, content, what)?;
            match format {
                Format::Json => console::json(&serde_json::json!({"written": path})),
                Format::Text => console::say(&format!("Wrote {what} to {}", path.display())),
            }
        }
        (None, Format::Json) => console::json(&serde_json::json!({"content": content.expose()})),
        (None, Format::Text) => console::document(content.expose()),
    }
    Ok(Exit::Done)
}

fn write(path: &Path, content: &Secret, what: &str) -> Outcome<()> {
    daedal_store::write_private(path, content.expose().as_bytes()).map_err(|error| {
        Failure::new(Exit::CannotWrite, format!("cannot write {what} to {}", path.display())).because(&error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_are_numbers_with_a_unit() {
        for (text, minutes) in [("90m", 90), ("8h", 480), ("30d", 43_200), ("2w", 20_160), ("1y", 525_600)] {
            assert_eq!(lifetime(text), Ok(SignedDuration::from_mins(minutes)), "{text}");
        }
        for wrong in ["", "h", "8", "8 h", "-8h", "0h", "11y", "9999999999999999999y", "8µ", "1.5h"] {
            assert!(lifetime(wrong).is_err(), "{wrong}");
        }
        assert!(role("admin").unwrap_err().contains("os:admin, os:operator, os:reader, os:etcd:backup"));
    }
}
