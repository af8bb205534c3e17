//! `daedal secrets rekey`: the same secrets, encrypted with another key.

use std::path::{Path, PathBuf};

use daedal_engine::Rekeyed;
use daedal_inventory::{Cluster, SecretRef};
use daedal_store::{Keyring, SecretBytes};

use crate::cli::{Format, Target};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::session::{engine_failure, lock, outputs, store};
use crate::words::count;
use crate::{console, documents, keys, secrets};

/// Runs the command.
pub async fn run(target: &Target, format: Format, color: bool) -> Outcome {
    let inventory = documents::of(target, color)?;
    let cluster = &inventory.loaded.cluster;
    let store = store(target, &inventory.folder, cluster).await?;
    let _lock = lock(&store, "secrets rekey").await?;
    let failed = |error: &daedal_store::Error| keys::failure(error, Exit::CannotWrite);
    let key = store.keys().public().map_err(|error| failed(&error))?;
    // What cannot be opened stops it while nothing has changed.
    let token = match target.lab {
        true => None,
        false => token(cluster, &inventory.folder, store.keys())?,
    };
    let mut kept = store.rekey().await.map_err(|error| keys::store_failure(&error, Exit::CannotWrite))?;
    if let Some(token) = token {
        store.keys().replace(&token.path, &token.secret).map_err(|error| failed(&error))?;
        kept.push(token.path.display().to_string());
    }
    let outputs = outputs(target, &inventory.folder, cluster);
    let Rekeyed { written, left } = outputs.rekey().await.map_err(|error| engine_failure(&error))?;
    match format {
        Format::Json => console::json(
            &serde_json::json!({"key": key, "kept": kept, "outputs": {"written": written, "left": left}}),
        ),
        Format::Text => console::answer(&format!(
            "{} and {} are encrypted for {key} now{}.\n{}\
             Copies that were made before, in backups or in Git, still open with the old key.",
            count(kept.len(), "kept file"),
            count(written, "output"),
            if kept.is_empty() { String::new() } else { format!(": {}", kept.join(", ")) },
            if left == 0 {
                String::new()
            } else {
                format!(
                    "{} could not be opened; the next apply writes all of them again.\n",
                    count(left, "output")
                )
            },
        )),
    }
    Ok(Exit::Done)
}

/// The file with the API token's secret.
struct Token {
    path: PathBuf,
    secret: SecretBytes,
}

/// The API token's secret, where it is encrypted.
fn token(cluster: &Cluster, folder: &Path, keys: &Keyring) -> Outcome<Option<Token>> {
    let SecretRef::File(named) = cluster.proxmox.token_secret.place() else { return Ok(None) };
    let path = secrets::resolve(named, folder);
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            let message = format!("cannot read the API token's secret in {}", path.display());
            return Err(Failure::new(Exit::NoInput, message).because(&error));
        }
    };
    if !Keyring::is_encrypted(&bytes) {
        return Ok(None);
    }
    let secret = keys.decrypt(&path, &bytes).map_err(|error| keys::failure(&error, Exit::Failed))?;
    Ok(Some(Token { path, secret }))
}
