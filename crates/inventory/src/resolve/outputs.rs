//! What the files of a cluster's users are called, and how they are written.

use std::collections::BTreeMap;

use super::Context;
use crate::cluster::{OutputNames, Outputs};
use crate::document::{self, OutputsName};
use crate::path::Path;

/// The port of `daedal proxy` that a kubeconfig names.
const PORT: u16 = 1080;
/// What other files of the folder are called.
const TAKEN: [&str; 4] = ["talosconfig", "kubeconfig", "secrets.yaml", "machines.json"];

pub(crate) fn outputs<'n>(
    outputs: Option<&document::Outputs>,
    nodes: impl Iterator<Item = &'n str>,
    at: &Path<'_>,
    cx: &mut Context<'_>,
) -> Option<Outputs> {
    let settings = match outputs {
        None => return Some(Outputs::default()),
        Some(document::Outputs::Named(name)) => {
            return Some(Outputs { encrypted: *name == OutputsName::Encrypted, ..Outputs::default() });
        }
        Some(document::Outputs::Settings(settings)) => settings,
    };
    let at = at.key("outputs");
    let kubeconfig = settings.kubeconfig.as_ref();
    let proxied = kubeconfig.is_some_and(|kubeconfig| kubeconfig.proxy.unwrap_or(false));
    let port = kubeconfig.and_then(|kubeconfig| kubeconfig.port);
    if !proxied && port.is_some() {
        let help = "Add `proxy: true`, or leave the port out.";
        let of_kubeconfig = at.key("kubeconfig");
        cx.error("outputs", &of_kubeconfig.key("port"), "The kubeconfig goes through no proxy.", help);
        return None;
    }
    Some(Outputs {
        encrypted: settings.encrypted.unwrap_or(false),
        kubeconfig_proxy: proxied.then_some(port.unwrap_or(PORT)),
        names: match &settings.names {
            Some(declared) => names(declared, nodes, &at.key("names"), cx)?,
            None => OutputNames::default(),
        },
    })
}

fn names<'n>(
    declared: &document::OutputNames,
    nodes: impl Iterator<Item = &'n str>,
    at: &Path<'_>,
    cx: &mut Context<'_>,
) -> Option<OutputNames> {
    let usual = OutputNames::default();
    let names = OutputNames {
        control_plane: declared.controlplane.clone().unwrap_or(usual.control_plane),
        worker: declared.worker.clone().unwrap_or(usual.worker),
        node: declared.node.clone().unwrap_or(usual.node),
        tfvars: declared.tfvars.clone(),
    };
    let mut good = true;
    let given = [
        ("controlplane", &declared.controlplane, false),
        ("worker", &declared.worker, false),
        ("node", &declared.node, true),
        ("tfvars", &declared.tfvars, false),
    ];
    for (key, name, of_node) in given {
        let Some(name) = name else { continue };
        let refused = match (name.contains(OutputNames::NODE), of_node) {
            _ if !is_inside(name) => Some((
                format!("`{name}` is not a path inside the folder of the outputs."),
                "Write a relative path without `..` whose parts do not begin with a dot.",
            )),
            (false, true) => Some((
                format!("`{name}` is the same for every node."),
                "Put `<node>` where the node's name belongs, as in `<node>.yaml`.",
            )),
            (true, false) => Some((format!("`{name}` is about no single node."), "Leave out `<node>`.")),
            _ => None,
        };
        if let Some((message, help)) = refused {
            cx.error("outputs", &at.key(key), message, help);
            good = false;
        }
    }
    good.then_some(())?;
    let mut all: BTreeMap<String, (&str, String)> =
        TAKEN.map(|name| (name.to_owned(), ("node", name.to_owned()))).into();
    let files = [("controlplane", &names.control_plane), ("worker", &names.worker)];
    let files = files.into_iter().chain(names.tfvars.as_ref().map(|name| ("tfvars", name)));
    let files: Vec<(&str, String)> = files.map(|(key, name)| (key, name.clone())).collect();
    for (key, file) in files.into_iter().chain(nodes.map(|node| ("node", names.of_node(node)))) {
        // Some file systems do not tell cases apart.
        if let Some((other, taken)) = all.insert(file.to_ascii_lowercase(), (key, file.clone())) {
            let declared = |key: &str| match key {
                "controlplane" => declared.controlplane.is_some(),
                "worker" => declared.worker.is_some(),
                "tfvars" => declared.tfvars.is_some(),
                _ => declared.node.is_some(),
            };
            let whose = if declared(key) { key } else { other };
            let message = format!("Two files would be called `{taken}`.");
            cx.error("outputs", &at.key(whose), message, "Give each file a name of its own.");
            return None;
        }
    }
    Some(names)
}

/// Whether a name stays inside its folder, in which files that begin with a dot are bookkeeping.
fn is_inside(name: &str) -> bool {
    let part = |part: &str| !part.is_empty() && !part.starts_with('.');
    name.split('/').all(part) && !name.contains(['\\', '\0']) && !name.chars().any(char::is_control)
}
