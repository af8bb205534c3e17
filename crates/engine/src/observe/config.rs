//! The machine config a node runs on, beside the declared one.

use daedal_inventory::Node;
use daedal_machine::Configs;
use daedal_planner::{
    ConfigDifference, ConfigFacts, ConfigView, DocumentChange, DryRun, FieldChange, RunningVersions,
    names_kubernetes, why_config_stays,
};
use daedal_talos_client::ApplyMode;
use daedal_talos_config::{DocumentDifference, MachineConfig};

use crate::error::chain;
use crate::limits::Limits;
use crate::nodes::{Configured, Nodes, refusal};

/// Compares with what is declared for the versions that the node runs, and says which those are if they are not the
/// declared ones. Where the configs differ in what may change, the node is asked what it would do with the declared one. An
/// error is what was not seen.
pub(super) async fn look(
    nodes: &Nodes,
    configs: &Configs,
    node: &Node,
    version: &str,
    limits: &Limits,
) -> Result<(ConfigView, Option<RunningVersions>), String> {
    let whole = configs.node(&node.name).map_err(|error| chain(&error))?;
    let wanted = configs.declared();
    let mut runs = RunningVersions { talos: version.to_owned(), ..wanted.clone() };
    let behind = |runs: &RunningVersions| (runs != wanted).then(|| runs.clone());
    let found = nodes.running_config(node, limits.probe_timeout).await?;
    if found.expose() == whole.text().expose() {
        return Ok((ConfigView::AsDeclared, behind(&runs)));
    }
    let running = MachineConfig::from_yaml(found.expose()).map_err(|error| chain(&error))?;
    let marks = configs.marks(node);
    let declared_for = |runs: &RunningVersions| {
        let made = configs.node_of(&node.name, runs).map_err(|error| chain(&error))?;
        let read = made.read().map_err(|error| chain(&error))?;
        Ok::<_, String>((made, read))
    };
    let not_made = |why: String, runs: &RunningVersions| {
        Ok((ConfigView::NotMade { talos: runs.talos.clone(), why }, behind(runs)))
    };
    let (mut made, mut declared) = match declared_for(&runs) {
        Ok(declared) => declared,
        Err(why) => return not_made(why, &runs),
    };
    let mut differences = running.differences(&declared, &marks);
    if let Some(kubernetes) = other_kubernetes(&differences, &wanted.kubernetes) {
        runs.kubernetes = kubernetes;
        (made, declared) = match declared_for(&runs) {
            Ok(declared) => declared,
            Err(why) => return not_made(why, &runs),
        };
        differences = running.differences(&declared, &marks);
    }
    if differences.is_empty() {
        return Ok((ConfigView::AsDeclared, behind(&runs)));
    }
    let mut difference = ConfigDifference {
        running: facts(&running),
        declared: facts(&declared),
        changes: differences.into_iter().map(change).collect(),
        answer: DryRun::NotAsked,
    };
    if why_config_stays(node, &difference).is_none() {
        let told = |error| refusal(&declared, &marks, &error);
        let patience = limits.probe_timeout;
        difference.answer = match nodes.configure(node, made.text(), ApplyMode::Auto, true, patience).await {
            Configured::Accepted { reboot } => DryRun::Accepted { reboot },
            Configured::Refused(error) => DryRun::Refused { text: told(error) },
            Configured::NotYet(error) | Configured::Unknown(error) => return Err(told(error)),
            Configured::Silent => return Err("no answer in time".to_owned()),
        };
    }
    Ok((ConfigView::Differs(Box::new(difference)), behind(&runs)))
}

fn facts(config: &MachineConfig) -> ConfigFacts {
    ConfigFacts {
        digest: config.digest(),
        installer: config.installer_image().map(str::to_owned),
        addresses: config.addresses(),
        macs: config.macs().iter().map(ToString::to_string).collect(),
        asks_dhcp: config.uses_dhcp(),
    }
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

fn change(difference: DocumentDifference) -> DocumentChange {
    let fields = difference.fields.into_iter();
    DocumentChange {
        document: difference.document,
        fields: fields
            .map(|field| FieldChange { path: field.path, from: field.from, to: field.to })
            .collect(),
    }
}
