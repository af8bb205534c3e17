//! Splits what templates rendered into objects, finds hooks, and puts both in installation order.

use std::collections::BTreeMap;

use crate::error::Error;
use crate::parallel;
use crate::yaml::{self, Yaml};

/// One rendered object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The template it came from, from the chart's name on.
    pub source: String,
    /// Its `kind`.
    pub kind: String,
    /// Its `apiVersion`.
    pub api_version: String,
    /// Its `metadata.name`.
    pub name: String,
    /// The YAML.
    pub content: String,
}

/// When a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names are Helm's and say it all")]
pub enum HookEvent {
    PreInstall,
    PostInstall,
    PreDelete,
    PostDelete,
    PreUpgrade,
    PostUpgrade,
    PreRollback,
    PostRollback,
    Test,
}

impl HookEvent {
    fn parse(text: &str) -> Option<HookEvent> {
        Some(match text {
            "pre-install" => HookEvent::PreInstall,
            "post-install" => HookEvent::PostInstall,
            "pre-delete" => HookEvent::PreDelete,
            "post-delete" => HookEvent::PostDelete,
            "pre-upgrade" => HookEvent::PreUpgrade,
            "post-upgrade" => HookEvent::PostUpgrade,
            "pre-rollback" => HookEvent::PreRollback,
            "post-rollback" => HookEvent::PostRollback,
            "test" | "test-success" => HookEvent::Test,
            _ => return None,
        })
    }
}

/// An object that is not part of the release but runs around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// The object.
    pub manifest: Manifest,
    /// When it runs.
    pub events: Vec<HookEvent>,
    /// Hooks of one event run by ascending weight.
    pub weight: i64,
    /// When it is deleted: `before-hook-creation`, `hook-succeeded`, `hook-failed`.
    pub delete_policies: Vec<String>,
}

/// Kinds in the order they are installed.
const INSTALL_ORDER: &[&str] = &[
    "PriorityClass",
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodSecurityPolicy",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "SecretList",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleList",
    "ClusterRoleBinding",
    "ClusterRoleBindingList",
    "Role",
    "RoleList",
    "RoleBinding",
    "RoleBindingList",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
    "APIService",
];

/// Kinds that Helm 4 puts between those above and all others.
const INSTALL_ORDER_HELM4: &[&str] = &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];

fn rank(kind: &str, helm4: bool) -> (usize, &str) {
    let more = if helm4 { INSTALL_ORDER_HELM4 } else { &[] };
    match INSTALL_ORDER.iter().chain(more).position(|k| *k == kind) {
        Some(position) => (position, ""),
        None => (usize::MAX, kind),
    }
}

/// Splits a file's YAML at its `---` lines, and drops the space around them.
pub(crate) fn split(text: &str) -> Vec<String> {
    const SPACE: [char; 5] = ['\t', '\n', '\x0c', '\r', ' '];
    let mut parts = Vec::new();
    let mut rest = text.trim();
    // At the very start a separator needs no line before it.
    if let Some(after) = rest.strip_prefix("---") {
        rest = after.trim_start_matches(SPACE);
    }
    while let Some((part, after)) = rest.split_once("\n---") {
        parts.push(part.trim_end_matches(SPACE));
        rest = after.trim_start_matches(SPACE);
    }
    parts.push(rest);
    parts.into_iter().filter(|part| !part.is_empty()).map(|part| part.trim().to_owned()).collect()
}

/// Hooks and other objects of the rendered files, each in installation order.
pub(crate) fn sort(
    files: &BTreeMap<String, String>,
    helm4: bool,
    warnings: &mut Vec<String>,
) -> Result<(Vec<Hook>, Vec<Manifest>), Error> {
    let parts: Vec<(&str, String)> = files
        .iter()
        .filter(|(source, text)| !crate::funcs::path_base(source).starts_with('_') && !text.trim().is_empty())
        .flat_map(|(source, text)| split(text).into_iter().map(|content| (source.as_str(), content)))
        .collect();
    let size: usize = parts.iter().map(|(_, content)| content.len()).sum();
    let heads: Vec<Head> = if size < SMALL {
        parts.iter().map(head_of).collect()
    } else {
        parallel::map(&parts, [(), ()], |()| head_of)
    };
    let (mut hooks, mut manifests) = (Vec::new(), Vec::new());
    for ((source, content), head) in parts.into_iter().zip(heads) {
        let (mut manifest, annotations) = head.map_err(|message| Error::Manifest {
            file: source.to_owned(),
            message,
            rendered: together(files),
        })?;
        manifest.content = content;
        match annotations.get("helm.sh/hook") {
            None => manifests.push(manifest),
            Some(events) => hooks.extend(hook(manifest, events, &annotations, warnings)),
        }
    }
    hooks.sort_by(|a, b| rank(&a.manifest.kind, helm4).cmp(&rank(&b.manifest.kind, helm4)));
    manifests.sort_by(|a, b| rank(&a.kind, helm4).cmp(&rank(&b.kind, helm4)));
    Ok((hooks, manifests))
}

/// The rendered files as they are, one after the other.
fn together(files: &BTreeMap<String, String>) -> String {
    let some = files.iter().filter(|(_, text)| !text.trim().is_empty());
    some.map(|(source, text)| format!("---\n# Source: {source}\n{text}\n")).collect()
}

/// Texts that are not worth a second thread.
const SMALL: usize = 32 << 10;

type Annotations = BTreeMap<String, String>;
type Head = Result<(Manifest, Annotations), String>;

/// What a manifest says of itself, its content left out.
fn head_of((source, content): &(&str, String)) -> Head {
    let document = yaml::parse_document(content.as_bytes())
        .map_err(|e| format!("error converting YAML to JSON: yaml: {e}"))?;
    head(source, &document)
}

fn head(source: &str, document: &Yaml<'_>) -> Head {
    const TYPE: &str = "releaseutil.SimpleHead";
    let wrong = |found: &Yaml<'_>, what: &str, wanted: &str| {
        let kind = match found {
            Yaml::Sequence(_) => "array",
            Yaml::Mapping(_) => "object",
            Yaml::String(_) => "string",
            Yaml::Bool(_) => "bool",
            _ => "number",
        };
        Err(format!(
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {kind} into Go {what} of type {wanted}"
        ))
    };
    let mut manifest = Manifest {
        source: source.to_owned(),
        kind: String::new(),
        api_version: String::new(),
        name: String::new(),
        content: String::new(),
    };
    let mut annotations = BTreeMap::new();
    if !matches!(document, Yaml::Mapping(_) | Yaml::Null) {
        return wrong(document, "value", TYPE);
    }
    let string = |table: &Yaml<'_>, key: &str| match table.get(key) {
        None | Some(Yaml::Null) => Ok(String::new()),
        Some(value) => match yaml::coerced_string(value) {
            Some(text) => Ok(text),
            None => wrong(value, &format!("struct field .{key}"), "string").map(|_| String::new()),
        },
    };
    manifest.kind = string(document, "kind")?;
    manifest.api_version = string(document, "apiVersion")?;
    match document.get("metadata") {
        None | Some(Yaml::Null) => {}
        Some(metadata @ Yaml::Mapping(_)) => {
            manifest.name = string(metadata, "name")?;
            match metadata.get("annotations") {
                None | Some(Yaml::Null) => {}
                Some(Yaml::Mapping(entries)) => {
                    for (key, value) in entries {
                        let text = |y: &Yaml<'_>| match y {
                            Yaml::Null => Some(String::new()),
                            other => yaml::coerced_string(other),
                        };
                        match (text(key), text(value)) {
                            (Some(key), Some(value)) => {
                                annotations.insert(key, value);
                            }
                            _ => return wrong(value, "struct field .metadata.annotations", "string"),
                        }
                    }
                }
                Some(other) => {
                    return wrong(other, "struct field .metadata.annotations", "map[string]string");
                }
            }
        }
        Some(other) => return wrong(other, "struct field SimpleHead.metadata", "struct { … }"),
    }
    Ok((manifest, annotations))
}

fn hook(
    manifest: Manifest,
    events: &str,
    annotations: &Annotations,
    warnings: &mut Vec<String>,
) -> Option<Hook> {
    let words = |text: &str| -> Vec<String> { text.split(',').map(|w| w.trim().to_lowercase()).collect() };
    let parsed: Option<Vec<HookEvent>> = words(events).iter().map(|w| HookEvent::parse(w)).collect();
    let Some(parsed) = parsed else {
        warnings.push(format!("skipping unknown hook: {events:?}"));
        return None;
    };
    Some(Hook {
        manifest,
        events: parsed,
        weight: annotations.get("helm.sh/hook-weight").and_then(|w| w.parse().ok()).unwrap_or(0),
        delete_policies: annotations.get("helm.sh/hook-delete-policy").map(|p| words(p)).unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_split_at_separator_lines() {
        assert_eq!(split("---\na: 1\n---\n\nb: 2\n \t\n---\n"), ["a: 1", "b: 2"]);
        assert_eq!(split("a: 1 ---\n--- # next\nb: 2"), ["a: 1 ---", "# next\nb: 2"]);
        // The line break after a separator is part of it, so that no other can follow at once.
        assert_eq!(split("---\n---\na: 1"), ["---\na: 1"]);
        assert_eq!(split(" \n"), Vec::<String>::new());
        assert_eq!(split("a\n----\nb"), ["a", "-\nb"]);
    }
}
