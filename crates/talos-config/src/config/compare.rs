//! What differs between two configs, document by document and field by field, with no secret in it.
//!
//! Compared is what the documents mean: order, comments, and fields that say nothing make no difference.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};
use yaml_serde::Value;

use super::MachineConfig;
use super::document::DocumentId;
use super::redact::{Marks, Redaction};

/// What differs in one document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentDifference {
    /// Which document, such as `HostnameConfig` or `LinkConfig eth0`; `v1alpha1` is the main one.
    pub document: String,
    /// Every field that differs.
    pub fields: Vec<FieldDifference>,
}

/// One field that differs. Texts are for people: secrets are replaced by marks that tell only whether two are the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldDifference {
    /// Its path in the document, such as `machine.sysctls."vm.max_map_count"`; empty for the document as a whole.
    pub path: String,
    /// What it is; none if it is not there.
    pub from: Option<String>,
    /// What it will be; none if it goes.
    pub to: Option<String>,
}

impl MachineConfig {
    /// SHA-256 of what the config says, secrets included, in hex: two texts that mean the same have the same.
    pub fn digest(&self) -> String {
        let mut documents: Vec<String> =
            self.meant().into_iter().map(|(id, value)| format!("{id:?}{}", canonical(&value))).collect();
        documents.sort();
        let mut hash = Sha256::new();
        for document in documents {
            hash.update(document.as_bytes());
            hash.update([0]);
        }
        hex(&hash.finalize())
    }

    /// What has to change in this config to become the other. Secrets show as marks, which only tell whether two of them
    /// are the same.
    pub fn differences(&self, other: &Self, marks: &Marks<'_>) -> Vec<DocumentDifference> {
        let (before, after) = (self.meant(), other.meant());
        let all = before.iter().chain(&after);
        let redaction = Redaction::new(marks, all.map(|(id, value)| (id.kind.as_str(), value)));
        let find = |documents: &[(DocumentId, Value)], id: &DocumentId| {
            let (_, meant) = documents.iter().find(|(found, _)| found == id)?;
            Some((meant.clone(), redaction.document(&id.kind, meant)))
        };
        let mut ids: Vec<&DocumentId> = before.iter().chain(&after).map(|(id, _)| id).collect();
        let mut seen = std::collections::HashSet::new();
        ids.retain(|id| seen.insert((*id).clone()));
        let mut differences = Vec::new();
        for id in ids {
            let (from, to) = (find(&before, id), find(&after, id));
            if from.as_ref().map(|(meant, _)| meant) == to.as_ref().map(|(meant, _)| meant) {
                continue;
            }
            let mut comparison = Comparison { marks, found: Vec::new() };
            comparison.compare(&mut Path::default(), from.as_ref().map(Side::of), to.as_ref().map(Side::of));
            let document =
                if id.kind.is_empty() { "v1alpha1".to_owned() } else { marks.name(&id.to_string()) };
            differences.push(DocumentDifference { document, fields: comparison.found });
        }
        differences
    }

    /// The documents by identity, without what says nothing.
    fn meant(&self) -> Vec<(DocumentId, Value)> {
        let meant =
            |document: &Value| (DocumentId::of(document), without_nothing(document).unwrap_or(Value::Null));
        self.documents.iter().map(meant).collect()
    }
}

/// A value without nulls and empty collections; none if nothing is left.
fn without_nothing(value: &Value) -> Option<Value> {
    match value {
        Value::Null => None,
        // Talos does not tell an empty text from none.
        Value::String(text) if text.is_empty() => None,
        Value::Mapping(map) => {
            let left: yaml_serde::Mapping =
                map.iter().filter_map(|(key, value)| Some((key.clone(), without_nothing(value)?))).collect();
            (!left.is_empty()).then_some(Value::Mapping(left))
        }
        Value::Sequence(items) if items.is_empty() => None,
        Value::Sequence(items) => {
            // An empty element still counts as one.
            Some(Value::Sequence(
                items.iter().map(|item| without_nothing(item).unwrap_or(Value::Null)).collect(),
            ))
        }
        other => Some(other.clone()),
    }
}

/// A text that is the same for values that mean the same, whatever the order of their keys.
fn canonical(value: &Value) -> String {
    match value {
        Value::Mapping(map) => {
            let mut fields: Vec<String> =
                map.iter().map(|(key, value)| format!("{}:{}", canonical(key), canonical(value))).collect();
            fields.sort();
            format!("{{{}}}", fields.join(","))
        }
        Value::Sequence(items) => format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(",")),
        Value::String(text) => format!("{text:?}"),
        other => scalar(other),
    }
}

pub(super) fn scalar(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        _ => String::new(),
    }
}

/// Where in a document we are.
#[derive(Default)]
struct Path(Vec<String>);

impl Path {
    fn text(&self) -> String {
        let mut text = String::new();
        for part in &self.0 {
            let index = part.starts_with('[');
            if !text.is_empty() && !index {
                text.push('.');
            }
            let plain = part.chars().all(|c| c.is_ascii_alphanumeric() || "-_/".contains(c));
            match plain || index {
                true => text.push_str(part),
                false => {
                    let _ = write!(text, "{part:?}");
                }
            }
        }
        text
    }

    fn within<T>(&mut self, part: String, act: impl FnOnce(&mut Self) -> T) -> T {
        self.0.push(part);
        let result = act(self);
        self.0.pop();
        result
    }
}

/// A value, and how it may be shown.
#[derive(Clone, Copy)]
struct Side<'a> {
    meant: &'a Value,
    shown: &'a Value,
}

impl<'a> Side<'a> {
    fn of((meant, shown): &'a (Value, Value)) -> Self {
        Self { meant, shown }
    }

    fn key(self, key: &Value) -> Option<Self> {
        Some(Self { meant: self.meant.get(key)?, shown: self.shown.get(key)? })
    }

    fn element(self, at: usize) -> Option<Self> {
        Some(Self { meant: self.meant.get(at)?, shown: self.shown.get(at)? })
    }

    fn keys(self) -> impl Iterator<Item = &'a Value> {
        self.meant.as_mapping().into_iter().flat_map(yaml_serde::Mapping::keys)
    }

    /// The lines of a text, meant and shown, if it has several and may be shown by them.
    fn lines(self) -> Option<(Vec<&'a str>, Vec<&'a str>)> {
        let (meant, shown) = (self.meant.as_str()?, self.shown.as_str()?);
        let (meant, shown): (Vec<&str>, Vec<&str>) = (meant.lines().collect(), shown.lines().collect());
        (meant.len() > 1 && meant.len() == shown.len()).then_some((meant, shown))
    }
}

/// Tells differences by what is meant, in the words that may be shown.
struct Comparison<'a> {
    marks: &'a Marks<'a>,
    found: Vec<FieldDifference>,
}

impl Comparison<'_> {
    fn compare(&mut self, path: &mut Path, from: Option<Side<'_>>, to: Option<Side<'_>>) {
        let meant = (from.map(|side| side.meant), to.map(|side| side.meant));
        if meant.0 == meant.1 {
            return;
        }
        match meant {
            (Some(Value::Mapping(_)), None | Some(Value::Mapping(_))) | (None, Some(Value::Mapping(_))) => {
                let mut keys: Vec<&Value> = from.into_iter().flat_map(Side::keys).collect();
                let before = keys.len();
                for key in to.into_iter().flat_map(Side::keys) {
                    if !keys[..before].contains(&key) {
                        keys.push(key);
                    }
                }
                for key in keys {
                    let identity =
                        path.0.is_empty() && ["apiVersion", "kind", "name"].contains(&scalar(key).as_str());
                    if identity && (from.is_none() || to.is_none()) {
                        continue;
                    }
                    path.within(self.marks.name(&scalar(key)), |path| {
                        self.compare(
                            path,
                            from.and_then(|side| side.key(key)),
                            to.and_then(|side| side.key(key)),
                        );
                    });
                }
                // A document of nothing but its name.
                if path.0.is_empty() && self.found.is_empty() {
                    let whole = |side: Option<Side<'_>>| side.map(|_| "(nothing else)".to_owned());
                    self.tell(path, whole(from), whole(to));
                }
            }
            (Some(Value::Sequence(before)), Some(Value::Sequence(after))) => {
                for (left, right) in aligned(before, after) {
                    let at = left.or(right).unwrap_or_default();
                    let left = left.and_then(|at| from?.element(at));
                    let right = right.and_then(|at| to?.element(at));
                    path.within(format!("[{at}]"), |path| self.compare(path, left, right));
                }
            }
            _ => match (from.and_then(Side::lines), to.and_then(Side::lines)) {
                (Some((before, before_shown)), Some((after, after_shown))) => {
                    for (left, right) in aligned(&before, &after) {
                        let line = |lines: &[&str], at: Option<usize>| at.map(|at| lines[at].to_owned());
                        self.tell(path, line(&before_shown, left), line(&after_shown, right));
                    }
                }
                _ => {
                    let shown = |side: Option<Side<'_>>| side.map(|side| self.in_a_line(side.shown));
                    self.tell(path, shown(from), shown(to));
                }
            },
        }
    }

    fn tell(&mut self, path: &Path, from: Option<String>, to: Option<String>) {
        self.found.push(FieldDifference { path: path.text(), from, to });
    }

    /// A value that may be shown, in one line.
    fn in_a_line(&self, value: &Value) -> String {
        match value {
            Value::Mapping(map) => {
                let fields: Vec<String> = map
                    .iter()
                    .map(|(key, value)| {
                        format!("{}: {}", self.marks.name(&scalar(key)), self.in_a_line(value))
                    })
                    .collect();
                format!("{{{}}}", fields.join(", "))
            }
            Value::Sequence(items) => {
                let items: Vec<String> = items.iter().map(|item| self.in_a_line(item)).collect();
                format!("[{}]", items.join(", "))
            }
            Value::String(text) => match text.lines().count() {
                0 => "\"\"".to_owned(),
                1 => text.clone(),
                lines => format!("{} … ({lines} lines)", text.lines().next().unwrap_or_default()),
            },
            other => scalar(other),
        }
    }
}

/// Pairs up what differs between two lists: what both have is left out, what one has alone has no partner, and as many as
/// are exchanged in one place are partners.
fn aligned<T: PartialEq>(before: &[T], after: &[T]) -> Vec<(Option<usize>, Option<usize>)> {
    // The longest common subsequence, from behind. Lists in configs are short; long texts are cut to their middle.
    let start = before.iter().zip(after).take_while(|(a, b)| a == b).count();
    let (b, a) = (&before[start..], &after[start..]);
    let end = b.iter().rev().zip(a.iter().rev()).take_while(|(x, y)| x == y).count();
    let (b, a) = (&b[..b.len() - end], &a[..a.len() - end]);
    let mut lengths = vec![vec![0_u32; a.len() + 1]; b.len() + 1];
    for i in (0..b.len()).rev() {
        for j in (0..a.len()).rev() {
            lengths[i][j] = match b[i] == a[j] {
                true => lengths[i + 1][j + 1] + 1,
                false => lengths[i + 1][j].max(lengths[i][j + 1]),
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut pairs = Vec::new();
    let (mut removed, mut added) = (Vec::new(), Vec::new());
    let mut settle = |removed: &mut Vec<usize>, added: &mut Vec<usize>| {
        for at in 0..removed.len().max(added.len()) {
            pairs.push((removed.get(at).copied(), added.get(at).copied()));
        }
        removed.clear();
        added.clear();
    };
    while i < b.len() || j < a.len() {
        if i < b.len() && j < a.len() && b[i] == a[j] {
            settle(&mut removed, &mut added);
            (i, j) = (i + 1, j + 1);
        } else if j == a.len() || (i < b.len() && lengths[i + 1][j] >= lengths[i][j + 1]) {
            removed.push(start + i);
            i += 1;
        } else {
            added.push(start + j);
            j += 1;
        }
    }
    settle(&mut removed, &mut added);
    pairs
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Secret;

    fn config(text: &str) -> MachineConfig {
        MachineConfig::from_yaml(text).unwrap()
    }

    fn lines(before: &str, after: &str) -> Vec<String> {
        let key = Secret::new("the key");
        config(before)
            .differences(&config(after), &Marks::new(&key))
            .into_iter()
            .flat_map(|document| {
                document.fields.into_iter().map(move |field| {
                    let text = |value: Option<String>| value.unwrap_or_else(|| "∅".to_owned());
                    format!("{} {}: {} → {}", document.document, field.path, text(field.from), text(field.to))
                })
            })
            .collect()
    }

    #[test]
    fn what_means_the_same_does_not_differ() {
        let one = "machine:\n  type: worker # a comment\n  sysctls: {}\n  kubelet: {image: a, extraArgs: null}\n---\napiVersion: v1alpha1\nkind: HostnameConfig\nhostname: a\n";
        let other = "apiVersion: v1alpha1\nkind: HostnameConfig\nhostname: \"a\"\n---\nmachine:\n  kubelet:\n    image: a\n  type: worker\n";
        assert_eq!(lines(one, other), Vec::<String>::new());
        assert_eq!(config(one).digest(), config(other).digest());
        assert_ne!(config(one).digest(), config(&other.replace("worker", "controlplane")).digest());
    }

    #[test]
    fn fields_lists_texts_and_documents_are_told_apart() {
        let before = "machine:\n  sysctls: {vm.swappiness: '10', net.x: '1'}\n  certSANs: [a, b, c]\n  kubelet:\n    extraMounts: [{destination: /a, options: [rw]}]\n---\napiVersion: v1alpha1\nkind: LinkConfig\nname: eth0\nmtu: 1500\n";
        let after = "machine:\n  sysctls: {vm.swappiness: '20'}\n  certSANs: [a, c, d]\n  kubelet:\n    extraMounts: [{destination: /a, options: [ro]}]\n---\napiVersion: v1alpha1\nkind: ResolverConfig\nnameservers: [{address: 1.1.1.1}]\n";
        assert_eq!(
            lines(before, after),
            [
                "v1alpha1 machine.sysctls.\"vm.swappiness\": 10 → 20",
                "v1alpha1 machine.sysctls.\"net.x\": 1 → ∅",
                "v1alpha1 machine.certSANs[1]: b → ∅",
                "v1alpha1 machine.certSANs[2]: ∅ → d",
                "v1alpha1 machine.kubelet.extraMounts[0].options[0]: rw → ro",
                "LinkConfig eth0 mtu: 1500 → ∅",
                "ResolverConfig nameservers: ∅ → [{address: 1.1.1.1}]",
            ]
        );
        let text =
            |middle: &str| format!("machine:\n  udev:\n    rules: ['a', \"one\\n{middle}\\nthree\"]\n");
        assert_eq!(lines(&text("two"), &text("zwei")), ["v1alpha1 machine.udev.rules[1]: two → zwei"]);
        // The lines of a text that differ are shown as the whole is.
        assert_eq!(
            lines(&text("http://u:canary@a"), &text("http://a"))[0].split('@').next_back(),
            Some("a → http://a")
        );
    }
}
