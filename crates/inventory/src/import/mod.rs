//! What other tools were told about a cluster → the text of an inventory, with a list of what could not be carried over and why.
//!
//! Enter through [`import`]. What a file is, is seen by what it says. No secret is copied: the document names a variable for it.

mod draft;
mod flat;
mod group_vars;
mod hcl;
mod input;
mod modules;
mod node_list;
#[cfg(test)]
mod tests;
mod writer;

use serde::Serialize;

use crate::base::Layers;
use crate::diagnostic::{self, Diagnostic, Diagnostics, Finding, Severity};
use crate::load::{Files, Source};
use crate::yaml::{Entry, Node, Span, Value};
use draft::{Draft, Missing};
use input::Input;

/// What a file was recognised as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// Terraform variables in groups: `proxmox_config`, `network_config`, `cluster_config` and so on.
    TerraformGroups,
    /// Terraform variables of their own: `cluster_name`, `proxmox`, `pve_capacity`, `sizing`.
    TerraformVariables,
    /// A list of nodes: `controlplanes` and `workers`, each with `name` and `dhcp`.
    NodeList,
    /// Variables of an Ansible group: `proxmox_host`, `controlplane_nodes`, `worker_nodes`.
    GroupVariables,
}

/// An imported inventory.
#[derive(Clone, Debug)]
pub struct Imported {
    /// What the files were recognised as.
    pub shape: Shape,
    /// The text of the document.
    pub document: String,
    /// What is not carried over, and why.
    pub lost: Vec<Diagnostic>,
    /// Keys that an inventory needs and that stand in the document as comments to fill in.
    pub missing: Vec<String>,
}

struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _: &std::path::Path) -> std::io::Result<String> {
        Err(std::io::Error::from(std::io::ErrorKind::Unsupported))
    }
}

/// Reads what other tools were told.
///
/// # Errors
/// What of the files cannot be read, or that they are nothing known.
pub fn import(files: &[Source]) -> Result<Imported, Diagnostics> {
    let mut layers = Layers::new(files, &NoFiles);
    let root = variables(&mut layers);
    if layers.findings.iter().any(|finding| finding.severity == Severity::Error) {
        return Err(failed(layers));
    }
    let Some(shape) = Shape::of(&root) else {
        let help = "Known are: Terraform variables (terraform.tfvars or JSON) with `proxmox_config` and the like or with \
                    `cluster_name` and `proxmox`; a nodes.json with `controlplanes`; Ansible group variables with \
                    `controlplane_nodes`.";
        let finding =
            Finding::error("unknown-shape", root.span, "These files are nothing that can be imported.");
        layers.findings.push(finding.help(help));
        return Err(failed(layers));
    };
    let mut input = Input::new(root);
    let draft: Draft = match shape {
        Shape::TerraformGroups => modules::read(&mut input),
        Shape::TerraformVariables => flat::read(&mut input),
        Shape::NodeList => node_list::read(&mut input),
        Shape::GroupVariables => group_vars::read(&mut input),
    };
    let (document, missing) = draft.document();
    let lost = diagnostic::finish(input.finish(), &layers.sources, &[]);
    let missing = missing.into_iter().map(|Missing { key, .. }| key.to_owned()).collect();
    Ok(Imported { shape, document, lost, missing })
}

fn failed(layers: Layers<'_>) -> Diagnostics {
    // Nobody knows what is a secret in there.
    let findings = layers.findings.into_iter().map(Finding::unquoted).collect();
    Diagnostics::new(diagnostic::finish(findings, &layers.sources, &layers.masked))
}

/// The variables of all files; a later file wins.
fn variables(layers: &mut Layers<'_>) -> Node {
    let mut all: Vec<Entry> = Vec::new();
    for source in 0..layers.sources.len() {
        let text = layers.sources.get(source).map_or("", |source| source.text.as_str());
        let read = match is_hcl(text) {
            true => hcl::parse(text, source).map_err(|finding| layers.findings.push(*finding)).ok(),
            false => {
                let trees = layers.parsed(source);
                layers.only(trees)
            }
        };
        let Some(read) = read else { continue };
        let Value::Map(entries) = read.value else {
            let finding = Finding::error("unknown-shape", read.span, "This file has no keys.");
            layers.findings.push(finding.help("Name the file with the variables."));
            continue;
        };
        for entry in entries {
            all.retain(|other| other.key != entry.key);
            all.push(entry);
        }
    }
    Node { span: Span { source: 0, start: 0, end: 0 }, value: Value::Map(all) }
}

/// Whether the first line that says something sets a variable as Terraform does.
fn is_hcl(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim).skip_while(|line| {
        line.is_empty() || ["#", "//", "/*", "*"].iter().any(|sign| line.starts_with(sign))
    });
    let name = lines.next().and_then(|line| line.split_once('=')).map(|(name, _)| name.trim());
    let is_name = |name: &str| name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '"'));
    name.is_some_and(|name| !name.is_empty() && is_name(name))
}

impl Shape {
    fn of(root: &Node) -> Option<Self> {
        let has = |keys: &[&str]| keys.iter().any(|key| root.get(key).is_some());
        let groups = ["proxmox_config", "network_config", "cluster_config", "node_config", "resource_config"];
        if has(&groups) || has(&["vm_id_ranges", "node_distribution", "template_config", "tagging_config"]) {
            return Some(Self::TerraformGroups);
        }
        if has(&["controlplane_nodes", "worker_nodes"]) {
            return Some(Self::GroupVariables);
        }
        if has(&["controlplanes"]) {
            return Some(Self::NodeList);
        }
        let own = ["pve_capacity", "sizing", "control_plane_count", "proxmox_api_url", "proxmox"];
        has(&own).then_some(Self::TerraformVariables)
    }

    /// What it is, in words.
    pub fn shown(self) -> &'static str {
        match self {
            Self::TerraformGroups => "Terraform variables in groups (proxmox_config, network_config, …)",
            Self::TerraformVariables => "Terraform variables (cluster_name, proxmox, sizing, …)",
            Self::NodeList => "a list of nodes (controlplanes, workers)",
            Self::GroupVariables => "variables of an Ansible group (proxmox_host, controlplane_nodes, …)",
        }
    }
}

/// An amount in mebibytes as people write it.
fn mebibytes(amount: u64) -> String {
    match amount {
        0 => "0MiB".to_owned(),
        amount if amount.is_multiple_of(1024) => format!("{}GiB", amount / 1024),
        amount => format!("{amount}MiB"),
    }
}

/// The address of a server: scheme, host and port, without a path and without credentials.
fn server(text: &str) -> Option<String> {
    let url = url::Url::parse(text).ok()?;
    let host = url.host_str()?;
    Some(match url.port() {
        Some(port) => format!("https://{host}:{port}"),
        None => format!("https://{host}:8006"),
    })
}

/// Host and port of a URL.
fn authority(url: &str) -> String {
    let bare = url.split_once("://").map_or(url, |(_, rest)| rest);
    bare.trim_end_matches('/').to_owned()
}

/// Why secrets of the token are not copied.
fn export() -> String {
    format!("the inventory reads it from the environment: export {}=…", draft::TOKEN_SECRET)
}
