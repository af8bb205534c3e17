//! Patches by Talos' rules: strategic merge, and JSON patches where Talos accepts them.

mod json;
mod merge;
mod read;

use yaml_serde::Value;

pub use self::read::PatchFault;
use crate::{
    Error, Result,
    config::{
        document::{DocumentId, MachineConfig},
        schema::{self, Field, Shape},
    },
};

/// A patch: documents to be merged and places to be deleted, or the operations of a JSON patch.
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
    /// Does what a JSON patch says.
    Json(Vec<json::Operation>),
}

fn fault(reason: &str) -> Error {
    Error::Patch { reason: reason.into() }
}

/// A path as it may be shown: without what may be a secret where a key should be.
fn shown(path: &[String]) -> String {
    path.iter()
        .map(|part| if part == "[]" { part } else { schema::shown(part) })
        .collect::<Vec<_>>()
        .join(".")
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
                    let is_split =
                        documents.iter().any(|document| DocumentId::of(document).kind == "KubeClusterConfig");
                    match documents.iter_mut().find(|left| DocumentId::of(left) == id) {
                        Some(left) => merge::document(left, right, &id.kind, is_split)?,
                        None => documents.push(right.clone()),
                    }
                }
                Operation::Delete { document, path, element } => {
                    // Nothing is to be done where the document is not there, so that one patch serves every version.
                    let index = documents.iter().position(|left| DocumentId::of(left) == *document);
                    match index {
                        Some(index) if path.is_empty() => {
                            documents.remove(index);
                        }
                        Some(index) => {
                            delete(&mut documents[index], &document.kind, path, element.as_ref())?;
                        }
                        None => {}
                    }
                }
                Operation::Json(operations) => json::apply(&mut documents, operations)?,
            }
        }
        self.documents = documents;
        Ok(())
    }
}

fn delete(
    document: &mut Value,
    kind: &str,
    path: &[String],
    element: Option<&(String, String)>,
) -> Result<()> {
    let missing = || fault(&format!("`{}` is to be deleted but is not there", shown(path)));
    let root = schema::of_kind(kind);
    match element {
        None => {
            let (last, parents) = path.split_last().ok_or_else(missing)?;
            let shape = parents.iter().try_fold(root, |field, key| Some(field?.child(key))).flatten();
            if shape.is_some_and(|field| matches!(field.shape, Shape::Pem | Shape::PemKey)) {
                return Err(fault(&format!(
                    "`{}` cannot be deleted alone; delete or set `{}`",
                    shown(path),
                    shown(parents)
                )));
            }
            let Some(parent) = find(document, parents, root).ok_or_else(missing)? else { return Ok(()) };
            let parent = parent.as_mapping_mut().ok_or_else(missing)?;
            let key = parent.keys().find(|key| scalar_text(key).as_ref() == Some(last)).cloned();
            match key {
                Some(key) => {
                    parent.shift_remove(&key);
                }
                // A field that is not set is as good as deleted; an entry of a map must be there.
                None if shape
                    .is_some_and(|field| field.shape == Shape::Object && field.child(last).is_some()) => {}
                None => return Err(missing()),
            }
        }
        Some((key, wanted)) => {
            let field = path.iter().try_fold(root, |field, part| Some(field?.child(part))).flatten();
            // Talos finds elements by texts only.
            let by_text = field.and_then(|field| field.child("[]")?.child(key)).is_some_and(Field::is_text);
            if !by_text {
                let (list, key) = (shown(path), schema::shown(key));
                return Err(fault(&format!("elements of `{list}` cannot be deleted by `{key}`")));
            }
            let list = find(document, path, root).ok_or_else(missing)?.ok_or_else(missing)?;
            let list = list.as_sequence_mut().ok_or_else(missing)?;
            let index = list
                .iter()
                .position(|item| item.get(key).and_then(scalar_text).unwrap_or_default() == *wanted)
                .ok_or_else(missing)?;
            list.remove(index);
        }
    }
    Ok(())
}

/// What stands at a path; `Some(None)` if it is not there but could be without anything else being set.
fn find<'a>(value: &'a mut Value, path: &[String], field: Option<&Field>) -> Option<Option<&'a mut Value>> {
    let (mut value, mut field) = (value, field);
    for part in path {
        field = field.and_then(|field| field.child(part));
        let fields = value.as_mapping_mut()?;
        match fields.iter_mut().find(|(key, _)| scalar_text(key).as_ref() == Some(part)) {
            Some((_, child)) => value = child,
            None if field.is_some_and(|field| field.shape == Shape::Object && !field.is_optional) => {
                return Some(None);
            }
            None => return None,
        }
    }
    Some(Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::contract::Contract;

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
    fn what_came_with_a_later_version_is_refused_by_an_earlier_one() {
        let of = |version: &str, patch: &str| {
            let patch = format!("apiVersion: v1alpha1\nkind: {patch}");
            Patch::for_contract(&patch, Contract::of(version).unwrap()).map(drop).map_err(|e| e.to_string())
        };
        let refused = of("v1.12.0", "SysctlConfig\nparams: {a: b}").unwrap_err();
        assert!(refused.contains("Talos v1.12 does not know; it came with v1.14"), "{refused}");
        assert_eq!(of("v1.14.0", "SysctlConfig\nparams: {a: b}"), Ok(()));
        assert_eq!(of("v1.12.0", "SysctlConfig\n$patch: delete"), Ok(()), "one patch serves every version");
        assert!(of("v1.13.0", "UserVolumeConfig\nname: a\ntrim: {enabled: true}").is_err());
        assert!(of("v1.13.0", "UserVolumeConfig\nname: a\ntrim: {$patch: delete}").is_err());
        assert!(of("v1.11.0", "LinkConfig\nname: a").is_err());
        assert_eq!(of("v1.12.0", "LinkConfig\nname: a"), Ok(()));
    }

    #[test]
    fn documents_of_one_name_are_merged_in_turn_from_1_14_on() {
        let patch = "machine: {type: controlplane}\n---\nmachine: {type: worker}\n";
        let mut config = MachineConfig::from_yaml("machine: {token: t}").unwrap();
        let of = |version: &str| Patch::for_contract(patch, Contract::of(version).unwrap());
        assert!(of("v1.13.0").map(drop).unwrap_err().to_string().contains("twice"));
        config.apply_patch(&of("v1.14.0").unwrap()).unwrap();
        assert_eq!(config.text("machine.type"), Some("worker"));
    }

    #[test]
    fn entries_without_a_value_are_entries() {
        check(
            "machine: {nodeLabels: {a: b}, kubelet: {extraArgs: {v: '1'}, extraConfig: {x: 1}}}",
            "machine: {nodeLabels: {c: , a: }, kubelet: {image: , extraArgs: {v: , w: }, extraConfig: {x: , y: }}}",
            "machine: {nodeLabels: {a: b, c: ''}, kubelet: {extraArgs: {v: '1', w: ''}, extraConfig: {x: 1, y: null}}}",
        );
    }

    #[test]
    fn everything_wrong_with_a_patch_is_told_with_its_place() {
        let faults = |patch: &str| -> Vec<(usize, String)> {
            let faults = Patch::faults(patch, Contract::of("v1.12.0").unwrap());
            faults.into_iter().map(|fault| (fault.document, fault.path)).collect()
        };
        let at = |document: usize, path: &str| (document, path.to_owned());
        assert_eq!(
            faults(
                "{}\n---\nmachine: {kubelt: {}, network: {interfaces: [{mtu: 1}, {mut: 2}]}}\n---\napiVersion: v1alpha1\nkind: LinkConfg\n---\nkind: LinkConfig\n---\napiVersion: v1alpha1\nkind: LinkConfig\nname: a\nuq: true\n"
            ),
            [
                at(0, "machine.kubelt"),
                at(0, "machine.network.interfaces[1].mut"),
                at(1, "kind"),
                at(2, ""),
                at(3, "uq")
            ]
        );
        assert_eq!(
            faults("- {op: test, path: /a}\n- {op: add}\n- {op: x, path: /a}"),
            [at(0, "[1]"), at(0, "[2]")]
        );
        assert_eq!(faults("machine: ["), [at(0, "")]);
        assert_eq!(faults("---\nmachine: {type: worker}\n---\n- a\n"), [at(1, "")]);
        let inside = "machine: {sysctls: {a: b}, kernel: {modules: [{name: {$patch: delete}}]}}";
        assert_eq!(faults(inside), [at(0, "machine.kernel.modules")]);
        assert_eq!(faults("machine: {type: worker}"), []);
    }

    #[test]
    fn wrong_patches_are_refused_and_change_nothing() {
        let cases = [
            ("- op: add", "path"),
            ("- 5", "JSON patch"),
            ("machine: 5", "must hold keys"),
            ("machine: {certSANs: x}", "must be a list"),
            ("machine: {instal: {}}", "did you mean `install`"),
            ("$patch: delete", "main document"),
            ("kind: LinkConfig\nname: a", "apiVersion"),
            ("machine: {kernel: {modules: [{$patch: delete}]}}", "not said"),
            ("machine: {kernel: {modules: [{name: {$patch: delete}}]}}", "inside"),
            ("machine: {certSANs: [{$patch: delete, a: b}]}", "cannot be deleted by"),
            ("machine: {kernel: {modules: [{$patch: delete, name: b}]}}", "not there"),
            ("machine: {sysctls: {a: {$patch: delete}}}", "not there"),
            ("machine: {kubelet: {$patch: replace, image: x}}", "can only be `delete`"),
            ("machine: {kubelet: {$patch: Delete}}", "can only be `delete`"),
            ("machine: {network: {interfaces: [{interface: eth0, $patch: merge}]}}", "can only be `delete`"),
            ("apiVersion: v1alpha1\nkind: LinkConfig\nname: a\n$patch: replace", "can only be `delete`"),
            ("apiVersion: v1alpha2\nkind: LinkConfig\nname: a", "`apiVersion` of LinkConfig must be"),
            ("5: x", "`5` is not a known key"),
            ("Password=hunter2;Host=db: 5", "`***` is not a known key"),
            ("machine: {sysctls: {hunter2: {a: b}}}", "`machine.sysctls.***`"),
            ("apiVersion: v1alpha1\nkind: hunter2", "`***` is not a known kind"),
            ("machine: {sysctls: {hunter2: {$patch: delete}}}", "`machine.sysctls.***` is to be deleted"),
            ("[{op: remove, path: /machine/hunter2}]", "`/machine/***` is to be removed"),
            ("machine: {true: x}", "`machine.***` is not a known key"),
            ("machine: {kubelet: {~: x}}", "is not a known key"),
            ("machine: {ca: {5: x}}", "is not a known key"),
            ("machine: {sysctls: {? [a] : b}}", "is no name"),
        ];
        for (patch, words) in cases {
            let error = patched("machine: {certSANs: [a]}", patch).unwrap_err().to_string();
            assert!(error.contains(words), "{patch}: {error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
