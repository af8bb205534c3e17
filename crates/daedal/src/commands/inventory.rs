//! `daedal inventory`: the inventory itself, resolved, and its schema.

use std::path::Path;

use daedal_inventory::Cluster;

use crate::cli::{Format, InventoryCommand};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::keys::KeyArgs;
use crate::{console, documents};

/// Runs the command.
pub fn run(command: &InventoryCommand, format: Format, color: bool) -> Outcome {
    match command {
        InventoryCommand::Schema => console::json(&daedal_inventory::schema()),
        InventoryCommand::Show { file, resolved: false } => show_as_written(file, format, color)?,
        InventoryCommand::Show { file, resolved: true } => {
            let inventory = documents::read(file, &KeyArgs::default(), color)?;
            let cluster = &inventory.loaded.cluster;
            match format {
                Format::Json => console::json(&as_json(cluster)?),
                Format::Text => {
                    console::result(&daedal_inventory::resolved_yaml(cluster).map_err(|e| odd(&e))?);
                }
            }
        }
    }
    Ok(Exit::Done)
}

/// The document as it is written, once it is known to be good.
fn show_as_written(file: &Path, format: Format, color: bool) -> Outcome<()> {
    let inventory = documents::read(file, &KeyArgs::default(), color)?;
    match format {
        // JSON has no comments to keep: the resolved form is the useful one.
        Format::Json => console::json(&as_json(&inventory.loaded.cluster)?),
        Format::Text => {
            let text = std::fs::read_to_string(&inventory.path).map_err(|error| {
                Failure::new(Exit::NoInput, format!("cannot read {}", inventory.path.display()))
                    .because(&error)
            })?;
            console::result(&text);
        }
    }
    Ok(())
}

fn as_json(cluster: &Cluster) -> Outcome<serde_json::Value> {
    daedal_inventory::resolved_json(cluster).map_err(|e| odd(&e))
}

fn odd(error: &daedal_inventory::ShowError) -> Failure {
    Failure::from_error(Exit::Failed, error)
}
