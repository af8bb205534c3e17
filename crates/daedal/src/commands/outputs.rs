//! `daedal outputs` and `daedal env`: the files a cluster's users need.

use std::path::{Path, PathBuf};

use daedal_app::dhcp;
use daedal_engine::{Outputs, views};
use daedal_inventory::Cluster;
use daedal_store::{ENCRYPTED, Store};
use daedal_talos_config::Secret;

use super::proxmox_ccm::CCM_CONFIG;
use crate::cli::{Format, ShellSyntax, Target};
use crate::commands::apply::command;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::session::engine_failure;
use crate::{advice, console, documents, keys, session};

/// Access for a working day, in a file that nobody else can read.
pub(super) const MINT: &str = "secrets kubeconfig --ttl 8h --to FILE";

const KUBECONFIG: &str = "kubeconfig";

/// The machines in the languages of other tools, by the name under which they are asked for.
pub(super) const VIEWS: [&str; 5] = ["tfvars", "tfvars.json", "ansible", "ssh-config", "envrc"];

/// Lists the files, or prints one.
pub async fn outputs(target: &Target, name: Option<&str>, format: Format, color: bool) -> Outcome {
    // Reservations follow from the inventory alone: a DHCP server is told before anything is made.
    if let Some(server) = name.filter(|name| dhcp::SERVERS.contains(name)) {
        let cluster = documents::of_lacking(target, color)?.loaded.cluster;
        if cluster.network.discovered {
            let message = "there is nothing to reserve: the inventory declares no addresses";
            return Err(Failure::new(Exit::Usage, message)
                .hint("Write `dhcp: true` instead of `dhcp: discovered`, and addresses in the pools."));
        }
        let text = dhcp::reservations(&cluster, server).unwrap_or_default();
        match format {
            Format::Json => console::json(&serde_json::json!({"name": server, "content": text})),
            Format::Text => console::document(&text),
        }
        return Ok(Exit::Done);
    }
    if let Some(view) = name.filter(|name| VIEWS.contains(name)) {
        let text = view_of(target, view, color).await?;
        match format {
            Format::Json => console::json(&serde_json::json!({"name": view, "content": text})),
            Format::Text => console::document(&text),
        }
        return Ok(Exit::Done);
    }
    let place = place(target, color).await?;
    let content = match name {
        None => {
            let (folder, files) = (place.outputs.folder(), place.files(target)?);
            match format {
                Format::Json => console::json(&serde_json::json!({"folder": folder, "files": files})),
                Format::Text => {
                    // The files are here, whether or not the store can be asked for what it has besides.
                    let controller = place.controller_place(target).await.unwrap_or_else(|failure| {
                        let why = [vec![failure.message], failure.causes].concat().join(": ");
                        console::say(&format!("warning: {CCM_CONFIG} was not looked for: {why}"));
                        None
                    });
                    let all = files.iter().map(|file| folder.join(file)).chain(controller);
                    let lines: Vec<_> = all.map(|file| file.display().to_string()).collect();
                    console::result(&lines.join("\n"));
                }
            }
            return Ok(Exit::Done);
        }
        Some(CCM_CONFIG) => place.controller_config(target).await?,
        Some(name) => place.file(name, target)?,
    };
    match format {
        Format::Json => console::json(&serde_json::json!({
            "name": content.name, "path": content.path, "content": content.text.expose(),
        })),
        Format::Text => console::document(content.text.expose()),
    }
    Ok(Exit::Done)
}

/// What another tool wants to know of the cluster. Of the world it says no more than the outputs do.
async fn view_of(target: &Target, view: &str, color: bool) -> Outcome<String> {
    if view == "envrc" {
        let Plain { kubeconfig, talosconfig } = plain(target, color).await?;
        let variables = [("KUBECONFIG", kubeconfig), ("TALOSCONFIG", talosconfig)];
        let quoted = variables.map(|(name, path)| (name, quote(&path.display().to_string())));
        let exports = quoted.iter().map(|(name, path)| format!("export {name}={path}\n"));
        let watched = quoted.iter().map(|(_, path)| format!("watch_file {path}\n"));
        return Ok(exports.chain(watched).collect());
    }
    let inventory = documents::of_lacking(target, color)?;
    let cluster = &inventory.loaded.cluster;
    if view == "ssh-config" {
        let folder = std::path::absolute(&inventory.folder).unwrap_or_else(|_| inventory.folder.clone());
        return views::ssh_config(cluster, &folder).ok_or_else(|| {
            let message = format!("the inventory of cluster {} reaches its nodes without SSH", cluster.name);
            Failure::new(Exit::Usage, message).hint("Declare the server with `reach: {ssh: {host: …}}`.")
        });
    }
    let outputs = session::outputs(target, &inventory.folder, cluster);
    let (hosts, found) = (outputs.hosts().await, outputs.addresses().await);
    let cluster = cluster.located(&found);
    Ok(match view {
        "ansible" => views::ansible(&cluster, &hosts),
        _ => views::tfvars(&cluster, &hosts, view),
    })
}

/// The files that other programs use.
pub struct Plain {
    /// For kubectl.
    pub kubeconfig: PathBuf,
    /// For talosctl.
    pub talosconfig: PathBuf,
}

/// Where the files are that other programs use, if these can read them.
pub async fn plain(target: &Target, color: bool) -> Outcome<Plain> {
    let place = place(target, color).await?;
    let files = place.files(target)?;
    let Place { cluster, outputs, .. } = place;
    if !files.iter().any(|file| file == KUBECONFIG) && files.iter().any(|file| file.ends_with(ENCRYPTED)) {
        let what =
            format!("the outputs of cluster {} are encrypted: no other program can read them", cluster.name);
        return Err(Failure::new(Exit::NoInput, what)
            .hint(format!("Mint one that ends soon: {}", command(target, MINT)))
            .hint("Or let them be written in plain: `outputs: plain` in the inventory, and apply."));
    }
    // Whoever takes these files to a lab expects it to answer.
    if target.lab {
        crate::lab::connect(&target.lab_options, &cluster).await?;
    }
    let folder = outputs.folder();
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    Ok(Plain { kubeconfig: absolute.join(KUBECONFIG), talosconfig: absolute.join("talosconfig") })
}

/// Prints the variables for a shell.
pub async fn env(target: &Target, shell: ShellSyntax, format: Format, color: bool) -> Outcome {
    let Plain { kubeconfig, talosconfig } = plain(target, color).await?;
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

/// What is not written, but made when it is asked for.
pub(super) fn computed() -> Vec<&'static str> {
    dhcp::SERVERS.into_iter().chain(VIEWS).collect()
}

/// A declared cluster, and where its files are.
struct Place {
    cluster: Cluster,
    folder: PathBuf,
    outputs: Outputs,
}

/// What is printed.
struct Content {
    name: String,
    path: PathBuf,
    text: Secret,
}

async fn place(target: &Target, color: bool) -> Outcome<Place> {
    let inventory = documents::of_lacking(target, color)?;
    let cluster = inventory.loaded.cluster;
    let outputs = session::outputs(target, &inventory.folder, &cluster);
    Ok(Place { outputs, cluster, folder: inventory.folder })
}

impl Place {
    /// The names of the files.
    fn files(&self, target: &Target) -> Outcome<Vec<String>> {
        let names = self.outputs.names();
        if names.is_empty() {
            let message = format!("there are no outputs in {}", self.outputs.folder().display());
            return Err(Failure::new(Exit::NoInput, message)
                .hint(format!("They are written by: {}", command(target, "apply"))));
        }
        Ok(names)
    }

    /// One file. `cp-1.yaml` is enough for `nodes/cp-1.yaml`, and for `nodes/cp-1.yaml.age`.
    fn file(&self, name: &str, target: &Target) -> Outcome<Content> {
        let files = self.files(target)?;
        let named = |file: &&String| {
            let whole = file.strip_suffix(ENCRYPTED).unwrap_or(file);
            [file.as_str(), whole].iter().any(|file| *file == name || file.rsplit('/').next() == Some(name))
        };
        let Some(file) = files.iter().find(named) else {
            return Err(Failure::new(Exit::NoInput, format!("there is no output called {name}"))
                .hint(format!("There are: {}, {}", files.join(", "), computed().join(", "))));
        };
        let text = self.outputs.read(file).map_err(|error| match error {
            daedal_engine::Error::ReadOutput { .. } => Failure::from_error(Exit::NoInput, &error),
            daedal_engine::Error::Store(inner) if keys::unopened(&inner).is_some() => {
                keys::failure(&inner, Exit::Failed)
                    .hint(format!("If the key is lost: {} writes it again.", command(target, "apply")))
            }
            _ => engine_failure(&error),
        })?;
        Ok(Content { name: file.clone(), path: self.outputs.folder().join(file), text })
    }

    /// The store, which the files are not in: it is opened only for what is.
    async fn store(&self, target: &Target) -> Outcome<Store> {
        session::store(target, &self.folder, &self.cluster).await
    }

    /// Where the configuration of the cloud-controller-manager is in the store; none if it is not.
    async fn controller_place(&self, target: &Target) -> Outcome<Option<PathBuf>> {
        let place = self.store(target).await?.where_kept(CCM_CONFIG).await;
        place.map_err(|error| keys::store_failure(&error, Exit::Failed))
    }

    /// The configuration of the cloud-controller-manager, which is in the store.
    async fn controller_config(&self, target: &Target) -> Outcome<Content> {
        let kept = self.store(target).await?.kept(CCM_CONFIG).await;
        let kept = kept.map_err(|error| keys::store_failure(&error, Exit::Failed))?;
        let text = kept.and_then(|bytes| String::from_utf8(bytes.expose().to_vec()).ok());
        match (text, self.controller_place(target).await?) {
            (Some(text), Some(path)) => {
                Ok(Content { name: CCM_CONFIG.to_owned(), path, text: Secret::new(text) })
            }
            _ => Err(Failure::new(Exit::NoInput, format!("there is no output called {CCM_CONFIG}")).hint(
                format!(
                    "To make the account and keep its configuration: {}",
                    advice::with_file("proxmox ccm")
                ),
            )),
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
