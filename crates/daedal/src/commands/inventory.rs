//! `daedal inventory`: the inventory itself, resolved, its schema, and inventories made of other tools' files.

use std::io;
use std::path::{Path, PathBuf};

use daedal_inventory::{Cluster, Diagnostic, Severity, Source};

use super::init::{refuse_existing, write_new};
use crate::cli::{Format, InventoryCommand};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::keys::KeyArgs;
use crate::words::count;
use crate::{console, documents, file};

/// Runs the command.
pub fn run(command: &InventoryCommand, format: Format, color: bool) -> Outcome {
    match command {
        InventoryCommand::Schema => console::json(&daedal_inventory::schema()),
        InventoryCommand::Import { files, to } => import(files, to.as_deref(), format, color)?,
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

/// Makes an inventory of other tools' files, and says what of them is not in it.
fn import(files: &[PathBuf], to: Option<&Path>, format: Format, color: bool) -> Outcome<()> {
    let mut sources = Vec::new();
    for path in files {
        let cannot = || Failure::new(Exit::NoInput, format!("cannot read {}", path.display()));
        let bytes = file::read(path).map_err(|error| cannot().because(&error))?;
        let text = String::from_utf8(bytes).map_err(|_| cannot().hint("It is not UTF-8."))?;
        sources.push(Source { name: path.display().to_string(), text });
    }
    let imported = daedal_inventory::import(&sources)
        .map_err(|found| documents::refused(found, "The files cannot be imported.", color))?;
    let name = to.map_or_else(|| "cluster.yaml".to_owned(), |to| to.display().to_string());
    let findings = judged(&name, &imported.document);
    if let Some(to) = to {
        refuse_existing(to, "--to")?;
        write_new(to, &imported.document)?;
    }
    let is_complete = findings.is_empty();
    if format == Format::Json {
        console::json(&serde_json::json!({
            "shape": imported.shape,
            "document": imported.document,
            "file": to,
            "complete": is_complete,
            "missing": imported.missing,
            "lost": imported.lost,
            "findings": findings,
        }));
        return Ok(());
    }
    if to.is_none() {
        console::document(&imported.document);
    }
    console::progress(&format!("Recognised: {}.", imported.shape.shown()));
    imported.lost.iter().for_each(|lost| console::say(&documents::one_line(lost)));
    imported
        .missing
        .iter()
        .for_each(|key| console::say(&format!("{name}: fill in `{key}`: it is not in the files.")));
    if imported.missing.is_empty() {
        findings.iter().for_each(|finding| console::say(&documents::one_line(finding)));
    }
    console::say(&match (is_complete, imported.missing.len()) {
        (true, _) => format!("The inventory is valid. {} not carried over.", are(imported.lost.len())),
        (false, 0) => "The inventory is not valid yet: see above.".to_owned(),
        (false, missing) => {
            let lines = count(missing, "line");
            format!("The inventory is incomplete: fill in {lines}, then run `daedal check -f {name}`.")
        }
    });
    Ok(())
}

fn are(values: usize) -> String {
    format!("{} {}", count(values, "value"), if values == 1 { "is" } else { "are" })
}

/// What is wrong with a document by itself; files and secrets that it names need not be there yet.
fn judged(name: &str, document: &str) -> Vec<Diagnostic> {
    let source = Source { name: name.to_owned(), text: document.to_owned() };
    let nothing = |_: &Path| -> io::Result<String> { Err(io::ErrorKind::NotFound.into()) };
    match daedal_inventory::load_lacking(&[source], &nothing) {
        Ok(_) => Vec::new(),
        Err(found) => found.iter().filter(|finding| finding.severity == Severity::Error).cloned().collect(),
    }
}

fn as_json(cluster: &Cluster) -> Outcome<serde_json::Value> {
    daedal_inventory::resolved_json(cluster).map_err(|e| odd(&e))
}

fn odd(error: &daedal_inventory::ShowError) -> Failure {
    Failure::from_error(Exit::Failed, error)
}
