//! Strategic-merge patches by Talos' rules, without a typed model of the config.

use yaml_serde::{Mapping, Value};

use crate::{
    Error, Result,
    config::document::{DocumentId, MachineConfig, read_documents},
};

/// A patch: documents to be merged and places to be deleted.
#[derive(Clone)]
pub struct Patch {
    operations: Vec<Operation>,
}

#[derive(Clone)]
enum Operation {
    /// Removes a whole document, or what stands at a path in it.
    Delete { document: DocumentId, path: Vec<String>, element: Option<(String, String)> },
    /// Merges a document into the one of the same identity, or adds it.
    Merge(Value),
}

/// How the right side meets the left at places where the usual rules do not hold.
#[derive(Clone, Copy, PartialEq)]
enum Rule {
    /// Maps recurse, lists append, scalars replace unless zero.
    Usual,
    /// The right side stands instead of the left.
    Replace,
    /// Entries of a map replace each other whole, zero or not.
    ReplaceEntries,
    /// List elements with an equal value of this key are merged.
    MergeByKey(&'static str),
    /// List elements with an equal value of this key are replaced.
    ReplaceByKey(&'static str),
    /// Interfaces are merged by name, else by an equal selector.
    MergeInterfaces,
    /// Zero counts as a value.
    TakeZero,
}

/// Places with a rule of their own: kind (empty for the main document), path, rule. `[]` is any list element.
const RULES: &[(&str, &str, Rule)] = &[
    ("", "cluster.network.podSubnets", Rule::Replace),
    ("", "cluster.network.serviceSubnets", Rule::Replace),
    ("", "cluster.apiServer.auditPolicy", Rule::Replace),
    ("", "cluster.apiServer.admissionControl", Rule::MergeByKey("name")),
    ("", "cluster.apiServer.extraArgs", Rule::ReplaceEntries),
    ("", "cluster.controllerManager.extraArgs", Rule::ReplaceEntries),
    ("", "cluster.scheduler.extraArgs", Rule::ReplaceEntries),
    ("", "cluster.proxy.extraArgs", Rule::ReplaceEntries),
    ("", "cluster.etcd.extraArgs", Rule::ReplaceEntries),
    ("", "machine.kubelet.extraArgs", Rule::ReplaceEntries),
    ("", "machine.network.interfaces", Rule::MergeInterfaces),
    ("", "machine.network.interfaces.[].vlans", Rule::MergeByKey("vlanId")),
    ("", "machine.network.kubespan.mtu", Rule::TakeZero),
    ("NetworkRuleConfig", "ingress", Rule::Replace),
    ("NetworkRuleConfig", "portSelector.ports", Rule::Replace),
    ("ExtensionServiceConfig", "configFiles", Rule::MergeByKey("mountPath")),
    ("ImageVerificationConfig", "rules", Rule::ReplaceByKey("image")),
    ("KubeSpanConfig", "mtu", Rule::TakeZero),
    ("ZswapConfig", "maxPoolPercent", Rule::TakeZero),
];

/// Kinds whose numbers are all optional, so that zero is a value like any other.
const ZERO_IS_A_VALUE: [&str; 2] = ["EthernetConfig", "BondConfig"];

fn rule(kind: &str, path: &[&str]) -> Rule {
    let at = |pattern: &str| pattern.split('.').eq(path.iter().copied());
    match RULES.iter().find(|(of, pattern, _)| *of == kind && at(pattern)) {
        Some((_, _, rule)) => *rule,
        None if ZERO_IS_A_VALUE.contains(&kind) => Rule::TakeZero,
        None => Rule::Usual,
    }
}

impl Patch {
    /// Reads a patch. It fails for JSON patches, which do not work on configs of several documents.
    pub fn from_yaml(text: &str) -> Result<Self> {
        if text.trim_start().starts_with(['[', '-']) && !text.trim_start().starts_with("---") {
            return Err(fault("JSON patches are not supported; write it as a strategic-merge patch"));
        }
        let mut operations = Vec::new();
        let mut seen = Vec::new();
        for mut document in read_documents(text)? {
            let id = DocumentId::of(&document);
            if id.kind.is_empty() != id.api_version.is_empty() {
                return Err(fault("`kind` and `apiVersion` must both be set, or neither"));
            }
            let root_is_deleted = collect_deletes(&mut document, &id, &mut Vec::new(), &mut operations)?;
            if root_is_deleted {
                continue;
            }
            if seen.contains(&id) {
                return Err(fault(&format!("{id} stands in it twice")));
            }
            seen.push(id);
            operations.push(Operation::Merge(document));
        }
        Ok(Self { operations })
    }
}

fn fault(reason: &str) -> Error {
    Error::Patch { reason: reason.into() }
}

fn asks_for_delete(value: &Value) -> bool {
    value.get("$patch").and_then(Value::as_str) == Some("delete")
}

/// Moves every `$patch: delete` below `value` into `operations`; true if `value` itself is to go.
fn collect_deletes(
    value: &mut Value,
    document: &DocumentId,
    path: &mut Vec<String>,
    operations: &mut Vec<Operation>,
) -> Result<bool> {
    let inside_list = |path: &[String]| path.iter().any(|part| part == "[]");
    if asks_for_delete(value) {
        if inside_list(path) {
            return Err(fault(&format!(
                "nothing inside the list element `{}` can be deleted",
                path.join(".")
            )));
        }
        if path.is_empty() && document.kind.is_empty() {
            return Err(fault("the main document cannot be deleted"));
        }
        operations.push(Operation::Delete { document: document.clone(), path: path.clone(), element: None });
        return Ok(true);
    }
    match value {
        Value::Mapping(fields) => {
            let mut gone = Vec::new();
            for (key, child) in fields.iter_mut() {
                path.push(scalar_text(key).unwrap_or_default());
                if collect_deletes(child, document, path, operations)? {
                    gone.push(key.clone());
                }
                path.pop();
            }
            for key in &gone {
                fields.shift_remove(key);
            }
            Ok(!gone.is_empty() && fields.is_empty())
        }
        Value::Sequence(items) => {
            let before = items.len();
            let mut kept = Vec::with_capacity(before);
            for mut item in std::mem::take(items) {
                if asks_for_delete(&item) {
                    if inside_list(path) {
                        return Err(fault(&format!(
                            "nothing inside the list `{}` can be deleted",
                            path.join(".")
                        )));
                    }
                    let element = first_other_key(&item).ok_or_else(|| {
                        fault(&format!(
                            "which element of the list `{}` to delete is not said",
                            path.join(".")
                        ))
                    })?;
                    operations.push(Operation::Delete {
                        document: document.clone(),
                        path: path.clone(),
                        element: Some(element),
                    });
                    continue;
                }
                path.push("[]".into());
                let goes = collect_deletes(&mut item, document, path, operations)?;
                path.pop();
                if !goes {
                    kept.push(item);
                }
            }
            *items = kept;
            Ok(before > 0 && items.is_empty())
        }
        _ => Ok(false),
    }
}

fn first_other_key(item: &Value) -> Option<(String, String)> {
    let (key, value) = item.as_mapping()?.iter().find(|(key, _)| key.as_str() != Some("$patch"))?;
    Some((scalar_text(key)?, scalar_text(value)?))
}

fn scalar_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

impl MachineConfig {
    /// Applies a patch. On an error the config is unchanged.
    pub fn apply_patch(&mut self, patch: &Patch) -> Result<()> {
        let mut documents = self.documents.clone();
        for operation in &patch.operations {
            match operation {
                Operation::Merge(right) => {
                    let id = DocumentId::of(right);
                    match documents.iter_mut().find(|left| DocumentId::of(left) == id) {
                        Some(left) => merge(left, right, &id.kind, &mut Vec::new())?,
                        None => documents.push(right.clone()),
                    }
                }
                Operation::Delete { document, path, element } => {
                    let index =
                        documents.iter().position(|left| DocumentId::of(left) == *document).ok_or_else(
                            || fault(&format!("{document} is to be deleted from but is not there")),
                        )?;
                    if path.is_empty() {
                        documents.remove(index);
                    } else {
                        delete(&mut documents[index], path, element.as_ref())?;
                    }
                }
            }
        }
        self.documents = documents;
        Ok(())
    }
}

fn delete(document: &mut Value, path: &[String], element: Option<&(String, String)>) -> Result<()> {
    let missing = || fault(&format!("`{}` is to be deleted but is not there", path.join(".")));
    match element {
        None => {
            let (last, parents) = path.split_last().ok_or_else(missing)?;
            let parent = find(document, parents).and_then(Value::as_mapping_mut).ok_or_else(missing)?;
            let key = parent.keys().find(|key| scalar_text(key).as_ref() == Some(last)).cloned();
            if let Some(key) = key {
                parent.shift_remove(&key);
            }
        }
        Some((key, wanted)) => {
            let list = find(document, path).and_then(Value::as_sequence_mut).ok_or_else(missing)?;
            let index = list
                .iter()
                .position(|item| item.get(key).and_then(scalar_text).as_ref() == Some(wanted))
                .ok_or_else(missing)?;
            list.remove(index);
        }
    }
    Ok(())
}

fn find<'a>(value: &'a mut Value, path: &[String]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |value, part| {
        let fields = value.as_mapping_mut()?;
        fields.iter_mut().find(|(key, _)| scalar_text(key).as_ref() == Some(part)).map(|(_, child)| child)
    })
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
        _ => false,
    }
}

fn merge<'a>(left: &mut Value, right: &'a Value, kind: &str, path: &mut Vec<&'a str>) -> Result<()> {
    if right.is_null() {
        return Ok(());
    }
    let rule = rule(kind, path);
    if left.is_null() || rule == Rule::Replace {
        *left = right.clone();
        return Ok(());
    }
    match (&mut *left, right) {
        (Value::Mapping(left), Value::Mapping(right)) => merge_maps(left, right, rule, kind, path),
        (Value::Sequence(left), Value::Sequence(right)) => merge_lists(left, right, rule, kind, path),
        (Value::Mapping(_) | Value::Sequence(_), _) | (_, Value::Mapping(_) | Value::Sequence(_)) => {
            Err(fault(&format!("`{}` is of another type in the config", path.join("."))))
        }
        (left, right) => {
            if !is_zero(right) || rule == Rule::TakeZero {
                *left = right.clone();
            }
            Ok(())
        }
    }
}

fn merge_maps<'a>(
    left: &mut Mapping,
    right: &'a Mapping,
    rule: Rule,
    kind: &str,
    path: &mut Vec<&'a str>,
) -> Result<()> {
    for (key, value) in right {
        match left.get_mut(key) {
            Some(existing) if rule != Rule::ReplaceEntries => {
                path.push(key.as_str().unwrap_or_default());
                merge(existing, value, kind, path)?;
                path.pop();
            }
            None if value.is_null() => {}
            _ => {
                left.insert(key.clone(), value.clone());
            }
        }
    }
    Ok(())
}

fn merge_lists<'a>(
    left: &mut Vec<Value>,
    right: &'a [Value],
    rule: Rule,
    kind: &str,
    path: &mut Vec<&'a str>,
) -> Result<()> {
    for item in right {
        let same = |existing: &&mut Value| match rule {
            Rule::MergeByKey(key) | Rule::ReplaceByKey(key) => existing.get(key) == item.get(key),
            Rule::MergeInterfaces => match item.get("interface").filter(|name| !is_zero(name)) {
                Some(name) => existing.get("interface") == Some(name),
                None => item.get("deviceSelector").is_some_and(|s| existing.get("deviceSelector") == Some(s)),
            },
            _ => false,
        };
        match left.iter_mut().find(same) {
            Some(existing) if matches!(rule, Rule::ReplaceByKey(_)) => *existing = item.clone(),
            Some(existing) => {
                path.push("[]");
                merge(existing, item, kind, path)?;
                path.pop();
            }
            None => left.push(item.clone()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patched(config: &str, patch: &str) -> Result<String> {
        let mut config = MachineConfig::from_yaml(config)?;
        config.apply_patch(&Patch::from_yaml(patch)?)?;
        Ok(config.to_yaml().expose().to_owned())
    }

    #[track_caller]
    fn check(config: &str, patch: &str, expected: &str) {
        let expected = MachineConfig::from_yaml(expected).unwrap().to_yaml();
        assert_eq!(patched(config, patch).unwrap(), expected.expose());
    }

    #[test]
    fn scalars_maps_and_lists() {
        check(
            "machine: {type: worker, certSANs: [a], kubelet: {image: x}, sysctls: {a: '1'}}",
            "machine: {type: '', certSANs: [b], kubelet: {image: y}, sysctls: {b: ''}, install: null}",
            "machine: {type: worker, certSANs: [a, b], kubelet: {image: y}, sysctls: {a: '1', b: ''}}",
        );
        check("debug: true", "debug: false", "debug: false");
    }

    #[test]
    fn places_with_rules_of_their_own() {
        check(
            "cluster: {network: {podSubnets: [a], serviceSubnets: [b]}, apiServer: {auditPolicy: {rules: [1]}, extraArgs: {x: '1'}}}",
            "cluster: {network: {podSubnets: [c]}, apiServer: {auditPolicy: {rules: [2]}, extraArgs: {x: ''}}}",
            "cluster: {network: {podSubnets: [c], serviceSubnets: [b]}, apiServer: {auditPolicy: {rules: [2]}, extraArgs: {x: ''}}}",
        );
        check(
            "machine: {network: {interfaces: [{interface: eth0, vlans: [{vlanId: 5, mtu: 1}]}, {deviceSelector: {driver: x}}]}}",
            "machine: {network: {interfaces: [{interface: eth0, vlans: [{vlanId: 5, mtu: 2}, {vlanId: 6}]}, {deviceSelector: {driver: x}, mtu: 9}, {interface: eth1}]}}",
            "machine: {network: {interfaces: [{interface: eth0, vlans: [{vlanId: 5, mtu: 2}, {vlanId: 6}]}, {deviceSelector: {driver: x}, mtu: 9}, {interface: eth1}]}}",
        );
        check(
            "cluster: {apiServer: {admissionControl: [{name: PodSecurity, configuration: {exemptions: {namespaces: [a]}}}]}}",
            "cluster: {apiServer: {admissionControl: [{name: PodSecurity, configuration: {exemptions: {namespaces: [b]}}}, {name: Other}]}}",
            "cluster: {apiServer: {admissionControl: [{name: PodSecurity, configuration: {exemptions: {namespaces: [a, b]}}}, {name: Other}]}}",
        );
    }

    #[test]
    fn documents_meet_by_kind_and_name() {
        check(
            "machine: {}\n---\napiVersion: v1alpha1\nkind: LinkConfig\nname: a\nmtu: 1\n",
            "apiVersion: v1alpha1\nkind: LinkConfig\nname: a\nmtu: 2\n---\napiVersion: v1alpha1\nkind: LinkConfig\nname: b\n---\napiVersion: v1alpha1\nkind: LinkConfig\nname: c\nup: true\n",
            "machine: {}\n---\napiVersion: v1alpha1\nkind: LinkConfig\nname: a\nmtu: 2\n---\napiVersion: v1alpha1\nkind: LinkConfig\nname: b\n---\napiVersion: v1alpha1\nkind: LinkConfig\nname: c\nup: true\n",
        );
    }

    #[test]
    fn deletes() {
        let delete = "$patch: delete";
        check(
            "machine: {network: {kubespan: {enabled: true}}, sysctls: {a: '1', b: '2'}}",
            &format!(
                "machine: {{network: {{kubespan: {{{delete}}}}}, sysctls: {{a: {{{delete}}}, c: '3'}}}}"
            ),
            "machine: {network: {}, sysctls: {b: '2', c: '3'}}",
        );
        check(
            "cluster: {apiServer: {admissionControl: [{name: A}, {name: B}]}}",
            &format!("cluster: {{apiServer: {{admissionControl: [{{{delete}, name: A}}]}}}}"),
            "cluster: {apiServer: {admissionControl: [{name: B}]}}",
        );
        check(
            "machine: {}\n---\napiVersion: v1alpha1\nkind: HostnameConfig\nauto: stable\n",
            &format!(
                "apiVersion: v1alpha1\nkind: HostnameConfig\n{delete}\n---\napiVersion: v1alpha1\nkind: HostnameConfig\nhostname: x\n"
            ),
            "machine: {}\n---\napiVersion: v1alpha1\nkind: HostnameConfig\nhostname: x\n",
        );
    }

    #[test]
    fn wrong_patches_are_refused_and_change_nothing() {
        let cases = [
            ("- op: add", "JSON patches"),
            ("[]", "JSON patches"),
            ("machine: 5", "another type"),
            ("machine: {certSANs: x}", "another type"),
            ("$patch: delete", "main document"),
            ("kind: LinkConfig\nname: a", "apiVersion"),
            ("apiVersion: v1alpha1\nkind: LinkConfig\nname: a\n$patch: delete", "not there"),
            ("machine: {list: [{$patch: delete}]}", "not said"),
            ("machine: {list: [{a: {$patch: delete}}]}", "inside"),
            ("machine: {certSANs: [{$patch: delete, a: b}]}", "not there"),
            ("machine: {a: 1}\n---\nmachine: {a: 2}\n", "twice"),
        ];
        for (patch, words) in cases {
            let error = patched("machine: {certSANs: [a]}", patch).unwrap_err().to_string();
            assert!(error.contains(words), "{patch}: {error}");
        }
    }
}
