//! `daedal secrets rekey`: the same secrets, encrypted with another key.

use super::Kept;
use crate::cli::{Format, Target};
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::session::{engine_failure, lock};
use crate::{console, keys};

/// Runs the command.
pub async fn run(target: &Target, format: Format, color: bool) -> Outcome {
    let Kept { store, outputs, .. } = Kept::open(target, color).await?;
    let _lock = lock(&store, "secrets rekey").await?;
    let kept = store.rekey().await.map_err(|error| keys::failure(&error, Exit::CannotWrite))?;
    let written = outputs.rekey().await.map_err(|error| engine_failure(&error))?;
    let key = store.keys().public().map_err(|error| keys::failure(&error, Exit::Failed))?;
    match format {
        Format::Json => console::json(&serde_json::json!({"key": key, "kept": kept, "outputs": written})),
        Format::Text => console::result(&format!(
            "{} file(s) in {} and {written} output(s) are encrypted for {key} now.\n\
             Copies that were made before, in backups or in Git, still open with the old key.",
            kept.len(),
            store.place().display()
        )),
    }
    Ok(Exit::Done)
}
