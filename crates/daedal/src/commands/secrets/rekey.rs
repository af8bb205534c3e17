//! `daedal secrets rekey`: the same secrets, encrypted with another key.

use daedal_engine::Outputs;
use daedal_inventory::{Cluster, SecretRef};
use daedal_store::Keyring;

use crate::cli::{Format, Target};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::session::{engine_failure, lock, outputs_folder, store};
use crate::words::count;
use crate::{console, documents, keys, secrets};

/// Runs the command.
pub async fn run(target: &Target, format: Format, color: bool) -> Outcome {
    let inventory = documents::of(target, color)?;
    let cluster = &inventory.loaded.cluster;
    let store = store(target, &inventory.folder, cluster);
    let _lock = lock(&store, "secrets rekey").await?;
    let failed = |error: &daedal_store::Error| keys::failure(error, Exit::CannotWrite);
    let key = store.keys().public().map_err(|error| failed(&error))?;
    let mut kept = store.rekey().await.map_err(|error| failed(&error))?;
    if !target.lab {
        kept.extend(token(cluster, &inventory.folder, store.keys())?);
    }
    let folder = outputs_folder(target, &inventory.folder, &cluster.name);
    let outputs = Outputs::new(folder, store.keys().clone());
    let written = outputs.rekey().await.map_err(|error| engine_failure(&error))?;
    match format {
        Format::Json => console::json(&serde_json::json!({"key": key, "kept": kept, "outputs": written})),
        Format::Text => console::result(&format!(
            "{} and {} are encrypted for {key} now{}.\n\
             Copies that were made before, in backups or in Git, still open with the old key.",
            count(kept.len(), "kept file"),
            count(written, "output"),
            if kept.is_empty() { String::new() } else { format!(": {}", kept.join(", ")) },
        )),
    }
    Ok(Exit::Done)
}

/// The file with the API token's secret, where it is encrypted.
fn token(cluster: &Cluster, folder: &std::path::Path, keys: &Keyring) -> Outcome<Option<String>> {
    let SecretRef::File(named) = &cluster.proxmox.token_secret else { return Ok(None) };
    let path = secrets::resolve(named, folder);
    let Ok(bytes) = std::fs::read(&path) else { return Ok(None) };
    if !Keyring::is_encrypted(&bytes) {
        return Ok(None);
    }
    let failed = |error: daedal_store::Error| -> Failure { keys::failure(&error, Exit::CannotWrite) };
    let secret = keys.decrypt(&path, &bytes).map_err(failed)?;
    keys.replace(&path, &secret).map_err(failed)?;
    Ok(Some(named.display().to_string()))
}
