//! One document over another, by the rules of `machine`: maps and lists are merged, and what stands above wins.
//!
//! Exceptions are few and named here: what says one thing as a whole is replaced as a whole.

use std::collections::HashMap;

use serde_json::Value as Json;

use crate::path::Path;
use crate::yaml::{Entry, Node, Value};

/// Lists that say one thing as a whole, and mappings that do so without their schema saying it. By the end of the path.
const WHOLE: [&str; 11] = [
    "spec.proxmox.hosts",
    "network.dns",
    "network.ntp",
    "kubernetes.podSubnets",
    "kubernetes.serviceSubnets",
    "kubernetes.cniManifests",
    "machine.encryption",
    "machine.installDisk",
    "hardware.bond",
    "ssh.jump",
    ".endpoints",
];
/// By what two elements of a list are the same, where it is not their `name`. By the end of the path.
const KNOWN_BY: [(&str, &str); 4] =
    [("extraMounts", "destination"), ("vlans", "id"), ("routes", "to"), ("spec.addons", ITSELF)];
/// The name of an element is what it says, if that is a text.
const ITSELF: &str = "";
/// Lists whose elements are merged and not replaced.
const MERGED: [&str; 3] = ["spec.pools", "spec.pools.nodes", "spec.addons"];
/// Values of charts, whose lists are replaced, as Helm replaces them.
const VALUES: &str = "spec.addons.values";

/// Merges a document over another.
pub(crate) fn merge(below: Node, above: Node, schema: &Json) -> Node {
    Merger { schema }.node(below, above, Some(schema), &Path::Root)
}

struct Merger<'s> {
    schema: &'s Json,
}

impl<'s> Merger<'s> {
    fn node(&self, below: Node, above: Node, schema: Option<&'s Json>, path: &Path<'_>) -> Node {
        let kind = path.kind();
        let is_whole =
            WHOLE.iter().any(|end| kind.ends_with(end)) || schema.is_some_and(|s| self.is_one_of(s));
        let is_replaced = is_whole || kind.starts_with(VALUES);
        let span = above.span;
        let value = match (below.value, above.value) {
            (Value::Map(below), Value::Map(above)) if !is_whole => {
                Value::Map(self.entries(below, above, schema, path))
            }
            (Value::Seq(below), Value::Seq(above)) if !is_replaced => {
                Value::Seq(self.items(below, above, schema, path, &kind))
            }
            (_, above) => above,
        };
        Node { span, value }
    }

    fn entries(
        &self,
        below: Vec<Entry>,
        above: Vec<Entry>,
        schema: Option<&'s Json>,
        path: &Path<'_>,
    ) -> Vec<Entry> {
        let places: HashMap<String, usize> =
            below.iter().enumerate().map(|(at, entry)| (entry.key.clone(), at)).collect();
        let mut merged: Vec<Option<Entry>> = below.into_iter().map(Some).collect();
        for entry in above {
            let Some(place) = places.get(&entry.key).and_then(|at| merged.get_mut(*at)) else {
                merged.push(Some(entry));
                continue;
            };
            // A key without a value takes back what the base says.
            if entry.value.is_null() {
                *place = None;
                continue;
            }
            *place = Some(match place.take() {
                Some(there) => {
                    let schema = schema.and_then(|schema| self.below(schema, &entry.key));
                    let value = self.node(there.value, entry.value, schema, &path.key(&entry.key));
                    Entry { value, ..entry }
                }
                None => entry,
            });
        }
        merged.into_iter().flatten().collect()
    }

    fn items(
        &self,
        below: Vec<Node>,
        above: Vec<Node>,
        schema: Option<&'s Json>,
        path: &Path<'_>,
        kind: &str,
    ) -> Vec<Node> {
        let is_merged = MERGED.contains(&kind);
        let known_by = KNOWN_BY.iter().find(|(end, _)| kind.ends_with(end)).map_or("name", |(_, key)| *key);
        let schema = schema.and_then(|schema| {
            let choices = self.choices(schema);
            choices.into_iter().find_map(|choice| choice.get("items"))
        });
        let mut merged = below;
        for item in above {
            let same = merged.iter().position(|there| match (name(there, known_by), name(&item, known_by)) {
                (Some(there), Some(here)) => there == here,
                (None, None) => alike(there, &item),
                _ => false,
            });
            let Some(at) = same else {
                merged.push(item);
                continue;
            };
            let there = merged.remove(at);
            let item = match &item.value {
                // A name alone says nothing about the settings that the base gives it.
                Value::Scalar { .. } if is_merged => there,
                _ if is_merged => self.node(there, item, schema, &path.index(at)),
                _ => item,
            };
            merged.insert(at, item);
        }
        merged
    }

    /// Whether a schema is of a mapping that takes one key of several: another key replaces it.
    fn is_one_of(&self, schema: &'s Json) -> bool {
        self.choices(schema).iter().any(|choice| crate::check::takes_one(choice))
    }

    /// The schema of a key's value.
    fn below(&self, schema: &'s Json, key: &str) -> Option<&'s Json> {
        let choices = self.choices(schema);
        let own = choices.iter().find_map(|choice| choice.get("properties")?.get(key));
        own.or_else(|| {
            choices.iter().find_map(|choice| choice.get("additionalProperties").filter(|s| s.is_object()))
        })
    }

    /// The schemas that a value may fit.
    fn choices(&self, schema: &'s Json) -> Vec<&'s Json> {
        let target = match schema.get("$ref").and_then(Json::as_str) {
            Some(reference) => reference.strip_prefix('#').and_then(|path| self.schema.pointer(path)),
            None => Some(schema),
        };
        let Some(target) = target else { return Vec::new() };
        match target.get("anyOf").and_then(Json::as_array) {
            Some(any) => any.iter().flat_map(|schema| self.choices(schema)).collect(),
            None => vec![target],
        }
    }
}

/// What an element of a list is called.
fn name<'n>(node: &'n Node, key: &str) -> Option<&'n str> {
    if key == ITSELF
        && let Value::Scalar { text, .. } = &node.value
    {
        return Some(text);
    }
    let key = if key == ITSELF { "name" } else { key };
    match &node.get(key)?.value.value {
        Value::Scalar { text, .. } => Some(text),
        _ => None,
    }
}

/// Whether two values say the same.
fn alike(one: &Node, other: &Node) -> bool {
    match (&one.value, &other.value) {
        (Value::Scalar { kind: a, text: x }, Value::Scalar { kind: b, text: y }) => a == b && x == y,
        (Value::Seq(a), Value::Seq(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b)),
        (Value::Map(a), Value::Map(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.key == b.key && alike(&a.value, &b.value))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml;

    fn merged(below: &str, above: &str) -> Node {
        let one = |text: &str, source| yaml::parse(text, source).0.remove(0);
        merge(one(below, 0), one(above, 1), crate::schema::cached())
    }

    /// A tree as one line, each scalar with the file it is from.
    fn shown(node: &Node) -> String {
        match &node.value {
            Value::Scalar { text, .. } => format!("{text}@{}", node.span.source),
            Value::Seq(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(", ")),
            Value::Map(entries) => {
                let entries = entries.iter().map(|e| format!("{}: {}", e.key, shown(&e.value)));
                format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
            }
        }
    }

    #[test]
    fn maps_add_up_and_what_is_above_wins() {
        let tree =
            merged("spec: {ha: true, talos: {version: a}}", "spec: {talos: {version: b, arch: arm64}}");
        assert_eq!(shown(&tree), "{spec: {ha: true@0, talos: {version: b@1, arch: arm64@1}}}");
        let tree = merged("spec: {ha: true, protect: true}", "spec: {ha: , machine: {}}");
        assert_eq!(shown(&tree), "{spec: {protect: true@0, machine: {}}}");
    }

    #[test]
    fn pools_and_nodes_are_merged_by_name_and_other_lists_replace_what_has_the_same() {
        let tree = merged(
            "spec: {pools: [{name: cp, count: 1}, {name: w, nodes: [{name: a, vmid: 1}, {name: b}]}]}",
            "spec: {pools: [{name: w, nodes: [{name: a, host: h}, {name: c}]}, {name: x}]}",
        );
        let expected = "{spec: {pools: [{name: cp@0, count: 1@0}, {name: w@1, nodes: [{name: a@1, vmid: 1@0, host: h@1}, \
                        {name: b@0}, {name: c@1}]}, {name: x@1}]}}";
        assert_eq!(shown(&tree), expected);
        let tree = merged(
            "spec: {tags: [a, b], machine: {vlans: [{id: 5, mtu: 1400}], logs: [x]}}",
            "spec: {tags: [b, c], machine: {vlans: [{id: 5}, {id: 6}], logs: [y]}}",
        );
        let expected =
            "{spec: {tags: [a@0, b@1, c@1], machine: {vlans: [{id: 5@1}, {id: 6@1}], logs: [x@0, y@1]}}}";
        assert_eq!(shown(&tree), expected);
    }

    #[test]
    fn add_ons_are_merged_by_name_and_lists_of_values_are_replaced() {
        let tree = merged(
            "spec: {addons: [cilium, {name: a, values: {l: [x], m: {k: v}}}, {name: b, timeout: 5m}]}",
            "spec: {addons: [{name: cilium, version: v}, {name: a, values: {l: [y], m: {n: w}}}, b, c]}",
        );
        let expected = "{spec: {addons: [{name: cilium@1, version: v@1}, {name: a@1, values: {l: [y@1], m: {k: v@0, n: w@1}}}, \
                        {name: b@0, timeout: 5m@0}, c@1]}}";
        assert_eq!(shown(&tree), expected);
    }

    #[test]
    fn what_is_one_thing_is_replaced_as_one() {
        let tree = merged(
            "spec: {proxmox: {tls: {ca: a}, hosts: [a, b], token: {id: x, secret: {env: A}}}, network: {dns: [d]}}",
            "spec: {proxmox: {tls: {insecure: true}, hosts: [c], token: {secret: {file: f}}}, network: {dns: [e]}}",
        );
        let expected = "{spec: {proxmox: {tls: {insecure: true@1}, hosts: [c@1], token: {id: x@0, secret: {file: f@1}}}, \
                        network: {dns: [e@1]}}}";
        assert_eq!(shown(&tree), expected);
        let tree = merged("spec: {reach: {proxy: p}}", "spec: {reach: direct}");
        assert_eq!(shown(&tree), "{spec: {reach: direct@1}}");
        let tree = merged(
            "spec: {machine: {encryption: {state: []}}}",
            "spec: {machine: {encryption: {ephemeral: []}}}",
        );
        assert_eq!(shown(&tree), "{spec: {machine: {encryption: {ephemeral: []}}}}");
    }
}
