//! `daedal secrets import`: secrets made elsewhere become this cluster's, unless it already runs on others.

use std::path::{Path, PathBuf};

use daedal_app::{Asked, fits};
use daedal_store::{Keyring, SecretBytes, Store};
use daedal_talos_config::{MachineConfig, Release, Secret, SecretsBundle};
use jiff::Timestamp;

use super::misfit::Refused;
use super::{bundle_of, stored};
use crate::cli::{Format, Target};
use crate::commands::apply::command;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::session::{self, Session, engine_failure};
use crate::{console, documents, keys};

/// The way around the check, where nothing is overwritten.
pub(super) const UNCHECKED: &str = "--unchecked imports without asking anybody.";

/// What is asked of a cluster before its secrets are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// That no node runs on others.
    New,
    /// Nothing.
    Unchecked,
    /// That every node runs on these instead of the kept ones.
    Replacing,
}

/// Runs the command.
pub async fn run(source: &Path, target: &Target, how: How, format: Format, color: bool) -> Outcome {
    let bundle = read(source, &target.keys.ring())?;
    let inventory = documents::of(target, color)?;
    let cluster = inventory.loaded.cluster;
    Release::of(&cluster.talos.version.to_string())
        .and_then(|release| bundle.check_readable_by(release))
        .map_err(|error| refused(source, &error))?;
    let store = session::store(target, &inventory.folder, &cluster).await?;
    let _lock = session::lock(&store, "secrets import").await?;
    let place = store.secrets_place().display().to_string();
    let before = Before::of(&store, &bundle).await?;
    match &before {
        Before::Same => {
            let text = format!("These are the secrets that are kept in {place} already.");
            say(format, &cluster.name, false, &text);
            return Ok(Exit::Done);
        }
        Before::Others(place) if how != How::Replacing => {
            return Err(others(&cluster.name, place, &store, target));
        }
        _ => {}
    }
    let (moves, replaces) = (matches!(before, Before::Elsewhere), matches!(before, Before::Others(_)));
    if how != How::Unchecked && !moves {
        let session = Session::open(target, color).await?;
        let failed = |error: daedal_engine::Error| {
            let failure = engine_failure(&error);
            match how {
                How::New => failure.hint(UNCHECKED),
                How::Unchecked | How::Replacing => failure,
            }
        };
        let (engine, cluster) = (&session.engine, &session.cluster);
        let world = engine.observe_with(cluster, Some(bundle.clone())).await.map_err(failed)?;
        let runs_on = engine.nodes_beside(cluster, &world, &bundle).await.map_err(failed)?;
        let asked = Asked { cluster, world: &world, runs_on: &runs_on, replacing: how == How::Replacing };
        let refused = Refused { cluster: &cluster.name, source, how, replaces };
        fits(&asked).map_err(|misfit| refused.failure(&misfit))?;
    }
    let bytes = SecretBytes::new(bundle.to_yaml().expose().as_bytes().to_vec());
    keys::ready_for_secrets(&store, target.lab).await?;
    if replaces {
        let name = format!("secrets-until-{}.yaml", Timestamp::now().strftime("%Y%m%dT%H%M%SZ"));
        let old = store.replace_secrets(&bytes, &name).await;
        let old = old.map_err(|error| keys::store_failure(&error, Exit::CannotWrite))?;
        let text = format!(
            "Imported: the secrets of cluster {} are kept in {place}, those before them in {}.\n\
             The outputs are renewed by: {}",
            cluster.name,
            old.display(),
            command(target, "apply"),
        );
        say(format, &cluster.name, true, &text);
        return Ok(Exit::Done);
    }
    store.write_new_secrets(&bytes).await.map_err(|error| keys::store_failure(&error, Exit::CannotWrite))?;
    let mut text = format!("Imported: the secrets of cluster {} are kept in {place}.", cluster.name);
    if moves {
        text.push_str(&format!("\nThe copy in {} is no longer used: remove it.", store.place().display()));
    }
    say(format, &cluster.name, true, &text);
    Ok(Exit::Done)
}

/// What is kept before an import.
enum Before {
    Nothing,
    /// The same bundle.
    Same,
    /// The same bundle in the store, though it is declared to be in a file: it moves, and the nodes run on it as before.
    Elsewhere,
    /// Another bundle, and where it is.
    Others(PathBuf),
}

impl Before {
    async fn of(store: &Store, bundle: &SecretsBundle) -> Outcome<Self> {
        let left = store.secrets_left_behind().await;
        if let Some(bytes) = left.map_err(|error| keys::store_failure(&error, Exit::Failed))? {
            return Ok(match bundle_of(store, &bytes)? == *bundle {
                true => Self::Elsewhere,
                false => Self::Others(store.place()),
            });
        }
        Ok(match stored(store).await? {
            None => Self::Nothing,
            Some(kept) if kept == *bundle => Self::Same,
            Some(_) => Self::Others(store.secrets_place()),
        })
    }
}

/// Why others are not written over.
fn others(cluster: &str, place: &Path, store: &Store, target: &Target) -> Failure {
    let message =
        format!("nothing was imported: other secrets of cluster {cluster} are kept in {}", place.display());
    Failure::new(Exit::Failed, message)
        .hint(format!("Compare them: {}", command(target, "secrets show")))
        .hint(format!(
            "Secrets are never overwritten. If no VM runs on the kept ones, move {} away first.",
            kept_in(store)
        ))
        .hint("If every node runs on the new ones, because an authority was changed: --replace.")
}

/// What the kept bundle is called.
fn kept_in(store: &Store) -> String {
    store.secrets_elsewhere().map_or_else(|| "secrets.yaml.age".to_owned(), |file| file.display().to_string())
}

fn say(format: Format, cluster: &str, imported: bool, text: &str) {
    match format {
        Format::Json => console::json(&serde_json::json!({"cluster": cluster, "imported": imported})),
        Format::Text => console::answer(text),
    }
}

fn refused(path: &Path, error: &(dyn std::error::Error + 'static)) -> Failure {
    Failure::new(Exit::BadDocument, format!("nothing was imported: {} cannot be used", path.display()))
        .because(error)
}

/// A bundle, or a control plane's machine config that holds one; encrypted or not.
fn read(path: &Path, keys: &Keyring) -> Outcome<SecretsBundle> {
    let unreadable = |error: &(dyn std::error::Error + 'static)| {
        Failure::new(Exit::NoInput, format!("cannot read the secrets {}", path.display())).because(error)
    };
    let bytes = std::fs::read(path).map_err(|error| unreadable(&error))?;
    let bytes = keys.open(path, bytes).map_err(|error| keys::failure(&error, Exit::NoInput))?;
    let text = std::str::from_utf8(bytes.expose()).map_err(|error| unreadable(&error))?;
    let text = Secret::new(text.to_owned());
    let refused = |error: &(dyn std::error::Error + 'static)| refused(path, error);
    // Keys at the margin tell the two apart; a bundle has neither of these.
    let is_config =
        text.expose().lines().any(|line| line.starts_with("machine:") || line.starts_with("apiVersion:"));
    if is_config {
        let config = MachineConfig::from_yaml(text.expose()).map_err(|error| refused(&error))?;
        return SecretsBundle::from_machine_config(&config).map_err(|error| refused(&error));
    }
    SecretsBundle::from_yaml(text.expose()).map_err(|error| refused(&error))
}
