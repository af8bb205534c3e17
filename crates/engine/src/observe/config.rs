//! The machine config a node runs on, beside the declared one.

use daedal_inventory::{Cluster, Node};
use daedal_planner::{ConfigView, DocumentChange, FieldChange, RunningVersions};
use daedal_talos_client::ApplyMode;
use daedal_talos_config::{DocumentDifference, MachineConfig, SecretsBundle};

use crate::error::chain;
use crate::limits::Limits;
use crate::machine;
use crate::nodes::{Configured, Nodes};

/// Compares with what is declared for the versions that the node runs, and says which those are if they are not the
/// declared ones. Where the configs differ, the node is asked what it would do with the declared one. An error is what was
/// not seen.
pub(super) async fn look(
    nodes: &Nodes,
    cluster: &Cluster,
    node: &Node,
    secrets: &SecretsBundle,
    version: &str,
    limits: &Limits,
) -> Result<(ConfigView, Option<RunningVersions>), String> {
    let whole = machine::patched(cluster, node, secrets).map_err(|error| chain(&error))?;
    let wanted = RunningVersions {
        talos: format!("v{}", cluster.talos.version),
        kubernetes: format!("v{}", cluster.kubernetes.version),
    };
    let mut runs = RunningVersions { talos: version.to_owned(), ..wanted.clone() };
    let behind = |runs: &RunningVersions| (*runs != wanted).then(|| runs.clone());
    let found = nodes.running_config(node, limits.probe_timeout).await?;
    if found.expose() == whole.to_yaml().expose() {
        return Ok((ConfigView::AsDeclared, behind(&runs)));
    }
    let running = MachineConfig::from_yaml(found.expose()).map_err(|error| chain(&error))?;
    let marks = machine::marks(cluster, node, secrets);
    let declared_for = |runs: &RunningVersions| {
        let cluster =
            machine::of_versions(cluster, runs).ok_or_else(|| format!("`{version}` is no version"))?;
        machine::patched(&cluster, node, secrets).map_err(|error| chain(&error))
    };
    let unlike = |why: String, runs: &RunningVersions| {
        let why = format!(
            "it runs Talos {}, declared is {}, and for that no config can be made ({why})",
            runs.talos, wanted.talos
        );
        Ok((ConfigView::Held { why }, behind(runs)))
    };
    let mut declared = match runs == wanted {
        true => whole,
        false => match declared_for(&runs) {
            Ok(declared) => declared,
            Err(why) => return unlike(why, &runs),
        },
    };
    let mut differences = running.differences(&declared, &marks);
    if let Some(kubernetes) = other_kubernetes(&differences, &wanted.kubernetes) {
        runs.kubernetes = kubernetes;
        declared = match declared_for(&runs) {
            Ok(declared) => declared,
            Err(why) => return unlike(why, &runs),
        };
        differences = running.differences(&declared, &marks);
    }
    if differences.is_empty() {
        return Ok((ConfigView::AsDeclared, behind(&runs)));
    }
    let text = declared.to_yaml();
    if let Some(why) = held(node, found.expose(), text.expose(), &differences) {
        return Ok((ConfigView::Held { why }, behind(&runs)));
    }
    let told = |error| machine::refusal(&declared, &marks, &error);
    let view = match nodes.configure(node, &text, ApplyMode::Auto, true, limits.probe_timeout).await {
        Configured::Accepted { reboot } => ConfigView::Differs {
            running: running.digest(),
            declared: declared.digest(),
            reboot,
            changes: differences.into_iter().map(change).collect(),
        },
        Configured::Refused(error) => {
            let why = format!("the node refuses it ({}).", told(error));
            ConfigView::Held { why }
        }
        Configured::NotYet(error) | Configured::Unknown(error) => return Err(told(error)),
        Configured::Silent => return Err("no answer in time".to_owned()),
    };
    Ok((view, behind(&runs)))
}

/// The version of Kubernetes that a config names, where all its images would change from that to the declared one.
fn other_kubernetes(differences: &[DocumentDifference], declared: &str) -> Option<String> {
    let images = differences.iter().flat_map(|document| {
        let fields = document.fields.iter();
        fields.filter(|field| names_kubernetes(&document.document, &field.path))
    });
    let tag = |image: &Option<String>| {
        let (_, tag) = image.as_deref()?.rsplit_once(':')?;
        Some(tag.trim_end_matches('"').to_owned())
    };
    let mut runs: Option<String> = None;
    for field in images {
        let (from, to) = (tag(&field.from)?, tag(&field.to)?);
        if to != declared || runs.as_ref().is_some_and(|other| *other != from) {
            return None;
        }
        runs = Some(from);
    }
    runs
}

/// Whether a field names an image of Kubernetes itself.
fn names_kubernetes(document: &str, path: &str) -> bool {
    path == "machine.kubelet.image"
        || (path.ends_with("image") && (path.starts_with("cluster.") || document.starts_with("Kube")))
}

fn change(difference: DocumentDifference) -> DocumentChange {
    let fields = difference.fields.into_iter();
    DocumentChange {
        document: difference.document,
        fields: fields
            .map(|field| FieldChange { path: field.path, from: field.from, to: field.to })
            .collect(),
    }
}

/// Fields that say which cluster and which machine a node is.
const IDENTITY: [&str; 12] = [
    "machine.type",
    "machine.token",
    "machine.ca",
    "cluster.id",
    "cluster.secret",
    "cluster.token",
    "cluster.ca",
    "cluster.aggregatorCA",
    "cluster.serviceAccount",
    "cluster.etcd.ca",
    "cluster.secretboxEncryptionSecret",
    "cluster.aescbcEncryptionSecret",
];
/// The same from Talos 1.14 on.
const IDENTITY_DOCUMENTS: [&str; 5] = [
    "DiscoveryIdentityConfig",
    "KubeAPIServerCAConfig",
    "KubeAggregatorCAConfig",
    "KubeServiceAccountConfig",
    "KubeEtcdEncryptionConfig",
];

/// Why the change must not be made on a running node, if it must not.
fn held(node: &Node, running: &str, declared: &str, differences: &[DocumentDifference]) -> Option<String> {
    let fields = || {
        differences
            .iter()
            .flat_map(|document| document.fields.iter().map(move |field| (document.document.as_str(), field)))
    };
    let below = |path: &str, prefix: &str| {
        path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    let main = |document: &str| document == "v1alpha1";
    let told = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".to_owned());
    for (document, field) in fields() {
        let path = field.path.as_str();
        // Accepted authorities are there to be changed.
        let identity = (main(document) && IDENTITY.iter().any(|prefix| below(path, prefix)))
            || (IDENTITY_DOCUMENTS.contains(&document) && !below(path, "acceptedCAs"));
        if identity {
            return Some(format!(
                "{document} {path} would change, which says what cluster or machine it is. See docs/talos.md, \
                 \"Changing an authority\"."
            ));
        }
        let disk = (main(document)
            && ["machine.install.disk", "machine.install.diskSelector"].iter().any(|p| below(path, p)))
            || (document == "UnattendedInstallConfig" && path.to_ascii_lowercase().contains("disk"));
        if disk {
            let (from, to) = (told(&field.from), told(&field.to));
            return Some(format!(
                "its install disk would change from {from} to {to}. Re-create the node for that."
            ));
        }
        let name = (main(document) && path == "machine.network.hostname")
            || (document == "HostnameConfig" && path == "hostname");
        if name {
            return Some(format!("its name would change from {} to {}.", told(&field.from), told(&field.to)));
        }
        if names_kubernetes(document, path) {
            return Some(format!(
                "{path} would change from {} to {}. Another version of Kubernetes is an upgrade, which apply does not \
                 do.",
                told(&field.from),
                told(&field.to)
            ));
        }
    }
    let moves = |text: &str| declared.contains(text) && !running.contains(text);
    // Who asked for its address and answers where it is declared has that very address.
    let asks =
        ["kind: DHCPv4Config", "kind: DHCPv6Config", "dhcp: true"].iter().any(|word| running.contains(word));
    if let Some(address) = node.address
        && moves(&address.to_string())
        && !asks
    {
        return Some(format!("its address would become {address}. Re-create the node for that."));
    }
    let (upper, lower) = (node.mac.to_ascii_uppercase(), node.mac.to_ascii_lowercase());
    if (moves(&lower) && !running.contains(&upper)) || (moves(&upper) && !running.contains(&lower)) {
        return Some(format!(
            "it would look for a network card with the MAC {lower}, which it does not have."
        ));
    }
    None
}
