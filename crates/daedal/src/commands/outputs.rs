//! `daedal outputs` and `daedal env`: the files a cluster's users need.

use std::path::{Path, PathBuf};

use daedal_inventory::Cluster;

use crate::cli::{Format, ShellSyntax, Target};
use crate::commands::apply::command;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::session::outputs_folder;
use crate::{console, dhcp, documents};

/// Lists the files, or prints one.
pub fn outputs(target: &Target, name: Option<&str>, format: Format, color: bool) -> Outcome {
    // Reservations follow from the inventory alone: a DHCP server is told before anything is made.
    if let Some(server) = name.filter(|name| dhcp::SERVERS.contains(name)) {
        let cluster = place(target, color)?.cluster;
        if cluster.network.discovered {
            let message = "there is nothing to reserve: the inventory declares no addresses";
            return Err(Failure::new(Exit::Usage, message)
                .hint("Write `dhcp: true` instead of `dhcp: discovered`, and addresses in the pools."));
        }
        let text = dhcp::reservations(&cluster, server).unwrap_or_default();
        match format {
            Format::Json => console::json(&serde_json::json!({"name": server, "content": text})),
            Format::Text => console::result(&text),
        }
        return Ok(Exit::Done);
    }
    let folder = place(target, color)?.folder;
    let files = list(&folder, target)?;
    match name {
        Some(name) => {
            // `cp-1.yaml` is enough for `nodes/cp-1.yaml`.
            let named = |file: &&String| *file == name || file.rsplit('/').next() == Some(name);
            let Some(file) = files.iter().find(named) else {
                return Err(Failure::new(Exit::NoInput, format!("there is no output called {name}"))
                    .hint(format!("There are: {}, {}", files.join(", "), dhcp::SERVERS.join(", "))));
            };
            let path = folder.join(file);
            let text = std::fs::read_to_string(&path).map_err(|error| {
                Failure::new(Exit::NoInput, format!("cannot read {}", path.display())).because(&error)
            })?;
            match format {
                Format::Json => {
                    console::json(&serde_json::json!({"name": file, "path": path, "content": text}));
                }
                Format::Text => console::result(&text),
            }
        }
        None => match format {
            Format::Json => console::json(&serde_json::json!({"folder": folder, "files": files})),
            Format::Text => {
                let lines: Vec<String> = files.iter().map(|f| folder.join(f).display().to_string()).collect();
                console::result(&lines.join("\n"));
            }
        },
    }
    Ok(Exit::Done)
}

/// Prints the variables for a shell.
pub async fn env(target: &Target, shell: ShellSyntax, format: Format, color: bool) -> Outcome {
    let Place { folder, cluster } = place(target, color)?;
    list(&folder, target)?;
    // Whoever takes these files to a lab expects it to answer.
    if target.lab {
        crate::lab::connect(&target.lab_options, &cluster).await?;
    }
    let absolute = std::path::absolute(&folder).unwrap_or(folder);
    let (kubeconfig, talosconfig) = (absolute.join("kubeconfig"), absolute.join("talosconfig"));
    match format {
        Format::Json => {
            console::json(&serde_json::json!({"KUBECONFIG": kubeconfig, "TALOSCONFIG": talosconfig}));
        }
        Format::Text => {
            let line = |name: &str, path: &Path| {
                let quoted = quote(&path.display().to_string());
                match shell {
                    ShellSyntax::Posix => format!("export {name}={quoted}\n"),
                    ShellSyntax::Fish => format!("set -gx {name} {quoted}\n"),
                }
            };
            console::result(&(line("KUBECONFIG", &kubeconfig) + &line("TALOSCONFIG", &talosconfig)));
        }
    }
    Ok(Exit::Done)
}

/// A declared cluster, and where its files are.
struct Place {
    cluster: Cluster,
    folder: PathBuf,
}

fn place(target: &Target, color: bool) -> Outcome<Place> {
    let file = target.inventory();
    let inventory = documents::read(&file, color)?;
    let cluster = inventory.loaded.cluster;
    Ok(Place { folder: outputs_folder(target, &inventory.folder, &cluster.name), cluster })
}

/// The names of the files relative to the folder, sorted; hidden ones are bookkeeping.
fn list(folder: &Path, target: &Target) -> Outcome<Vec<String>> {
    let mut names = Vec::new();
    collect(folder, "", &mut names);
    if names.is_empty() {
        return Err(Failure::new(Exit::NoInput, format!("there are no outputs in {} yet", folder.display()))
            .hint(format!("They are written by: {}", command(target, "apply"))));
    }
    names.sort();
    Ok(names)
}

fn collect(folder: &Path, prefix: &str, names: &mut Vec<String>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.filter_map(Result::ok) {
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(&entry.path(), &format!("{name}/"), names);
        } else {
            names.push(name);
        }
    }
}

/// Quotes for a shell where needed.
fn quote(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%:,=".contains(c);
    if text.chars().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::quote;

    #[test]
    fn only_what_a_shell_would_change_is_quoted() {
        assert_eq!(quote("/home/me/.daedal/kubeconfig"), "/home/me/.daedal/kubeconfig");
        assert_eq!(quote("/a b/it's"), r"'/a b/it'\''s'");
    }
}
