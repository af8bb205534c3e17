//! What differs between two configs, document by document and field by field, with no secret in it.
//!
//! Compared is what the documents mean: order, comments, and fields that say nothing make no difference.

use std::fmt::Write as _;

use base64::{Engine, engine::general_purpose::STANDARD};
use sha2::{Digest, Sha256};
use yaml_serde::Value;

use super::{MachineConfig, document::DocumentId};
use crate::secret::Secret;

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

    /// What has to change in this config to become the other. Secrets show as marks made with `key`, which only tell
    /// whether two of them are the same.
    pub fn differences(&self, other: &Self, key: &Secret) -> Vec<DocumentDifference> {
        let (before, after) = (self.meant(), other.meant());
        let marks = Marks { key };
        let find = |documents: &[(DocumentId, Value)], id: &DocumentId| {
            documents.iter().find(|(found, _)| found == id).map(|(_, value)| value.clone())
        };
        let mut ids: Vec<&DocumentId> = before.iter().chain(&after).map(|(id, _)| id).collect();
        let mut seen = std::collections::HashSet::new();
        ids.retain(|id| seen.insert((*id).clone()));
        let mut differences = Vec::new();
        for id in ids {
            let mut fields = Vec::new();
            let (from, to) = (find(&before, id), find(&after, id));
            marks.compare(&mut Path::default(), from.as_ref(), to.as_ref(), &mut fields);
            if !fields.is_empty() {
                let document = if id.kind.is_empty() { "v1alpha1".to_owned() } else { id.to_string() };
                differences.push(DocumentDifference { document, fields });
            }
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

fn scalar(value: &Value) -> String {
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

    /// The name of the field, indices left out.
    fn field(&self) -> &str {
        self.0.iter().rev().find(|part| !part.starts_with('[')).map_or("", String::as_str)
    }

    fn within<T>(&mut self, part: String, act: impl FnOnce(&mut Self) -> T) -> T {
        self.0.push(part);
        let result = act(self);
        self.0.pop();
        result
    }
}

/// Fields whose text is somebody's own and may hold anything.
const CONTENTS: [&str; 3] = ["content", "contents", "environment"];
/// How the names of fields end that hold secrets.
const SECRET_ENDS: [&str; 6] = ["token", "secret", "password", "passphrase", "key", "auth"];
/// Maps whose keys are the user's own words, not Talos' field names.
const PLAIN_MAPS: [&str; 5] = ["nodeLabels", "nodeAnnotations", "nodeTaints", "sysctls", "extraArgs"];

/// Shows values, secrets as marks.
struct Marks<'a> {
    key: &'a Secret,
}

impl Marks<'_> {
    fn compare(
        &self,
        path: &mut Path,
        from: Option<&Value>,
        to: Option<&Value>,
        found: &mut Vec<FieldDifference>,
    ) {
        if from == to {
            return;
        }
        match (from, to) {
            (Some(Value::Mapping(_)), None | Some(Value::Mapping(_))) | (None, Some(Value::Mapping(_))) => {
                let none = yaml_serde::Mapping::new();
                let map = |value: Option<&Value>| value.and_then(Value::as_mapping).unwrap_or(&none).clone();
                let (before, after) = (map(from), map(to));
                let mut keys: Vec<&Value> = before.keys().collect();
                keys.extend(after.keys().filter(|key| !before.contains_key(*key)));
                for key in keys {
                    let identity =
                        path.0.is_empty() && ["apiVersion", "kind", "name"].contains(&scalar(key).as_str());
                    if identity && (from.is_none() || to.is_none()) {
                        continue;
                    }
                    path.within(scalar(key), |path| {
                        self.compare(path, before.get(key), after.get(key), found);
                    });
                }
                // A document of nothing but its name.
                if path.0.is_empty() && found.is_empty() {
                    let whole = |value: Option<&Value>| value.map(|_| "(nothing else)".to_owned());
                    found.push(FieldDifference { path: String::new(), from: whole(from), to: whole(to) });
                }
            }
            (Some(Value::Sequence(before)), Some(Value::Sequence(after))) => {
                self.lists(path, before, after, found);
            }
            (Some(Value::String(before)), Some(Value::String(after)))
                if before.contains('\n')
                    && after.contains('\n')
                    && !self.hidden(path, before)
                    && !self.hidden(path, after) =>
            {
                let (before, after): (Vec<&str>, Vec<&str>) =
                    (before.lines().collect(), after.lines().collect());
                let line = |text: &str| Some(text.to_owned());
                for (from, to) in aligned(&before, &after) {
                    found.push(FieldDifference {
                        path: path.text(),
                        from: from.and_then(|at| line(before[at])),
                        to: to.and_then(|at| line(after[at])),
                    });
                }
            }
            _ => found.push(FieldDifference {
                path: path.text(),
                from: from.map(|value| self.shown(path, value)),
                to: to.map(|value| self.shown(path, value)),
            }),
        }
    }

    fn lists(&self, path: &mut Path, before: &[Value], after: &[Value], found: &mut Vec<FieldDifference>) {
        for (from, to) in aligned(before, after) {
            let at = from.or(to).unwrap_or_default();
            let (from, to) = (from.map(|at| &before[at]), to.map(|at| &after[at]));
            path.within(format!("[{at}]"), |path| self.compare(path, from, to, found));
        }
    }

    /// A value in one line.
    fn shown(&self, path: &mut Path, value: &Value) -> String {
        match value {
            Value::Mapping(map) => {
                let fields: Vec<String> = map
                    .iter()
                    .map(|(key, value)| {
                        let name = scalar(key);
                        let shown = path.within(name.clone(), |path| self.shown(path, value));
                        format!("{name}: {shown}")
                    })
                    .collect();
                format!("{{{}}}", fields.join(", "))
            }
            Value::Sequence(items) => {
                let items: Vec<String> = items.iter().map(|item| self.shown(path, item)).collect();
                format!("[{}]", items.join(", "))
            }
            Value::String(text) => self.text(path, text),
            other => scalar(other),
        }
    }

    fn text(&self, path: &Path, text: &str) -> String {
        if path.field() == "environment"
            && let Some((name, value)) = text.split_once('=')
        {
            return format!("{name}={}", self.mark("secret", value));
        }
        if self.hidden(path, text) {
            return self.mark("secret", text);
        }
        let decoded = STANDARD.decode(text).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        if [Some(text), decoded.as_deref()]
            .into_iter()
            .flatten()
            .any(|text| text.contains("BEGIN CERTIFICATE"))
        {
            return self.mark("certificate", text);
        }
        let text = without_userinfo(text);
        match text.lines().count() {
            0 => "\"\"".to_owned(),
            1 => text,
            lines => format!("{} … ({lines} lines)", text.lines().next().unwrap_or_default()),
        }
    }

    /// Whether a text must not be shown.
    fn hidden(&self, path: &Path, text: &str) -> bool {
        let field = path.field().to_ascii_lowercase();
        let own_words = path.0.iter().any(|part| PLAIN_MAPS.contains(&part.as_str()));
        let decoded = STANDARD.decode(text).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let private = |text: &str| text.contains("PRIVATE KEY");
        CONTENTS.contains(&field.as_str())
            || (!own_words && SECRET_ENDS.iter().any(|end| field.ends_with(end)))
            || private(text)
            || decoded.is_some_and(|text| private(&text))
    }

    /// A mark that is the same for the same text. The key keeps short secrets from being guessed by trying.
    fn mark(&self, what: &str, text: &str) -> String {
        let mut hash = Sha256::new();
        hash.update(self.key.expose().as_bytes());
        hash.update([0]);
        hash.update(text.as_bytes());
        format!("[{what} {}]", &hex(&hash.finalize())[..8])
    }
}

/// A URL's user and password are nobody's business.
fn without_userinfo(text: &str) -> String {
    match text.split_once("://") {
        Some((scheme, rest)) => {
            let authority = rest.find('/').unwrap_or(rest.len());
            match rest[..authority].rfind('@') {
                Some(at) => format!("{scheme}://[secret]@{}", &rest[at + 1..]),
                None => text.to_owned(),
            }
        }
        None => text.to_owned(),
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

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> MachineConfig {
        MachineConfig::from_yaml(text).unwrap()
    }

    fn lines(before: &str, after: &str) -> Vec<String> {
        let key = Secret::new("the key");
        config(before)
            .differences(&config(after), &key)
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
        let text = |middle: &str| format!("machine:\n  note: |\n    one\n    {middle}\n    three\n");
        assert_eq!(lines(&text("two"), &text("zwei")), ["v1alpha1 machine.note: two → zwei"]);
    }

    #[test]
    fn secrets_are_marks() {
        let before = "machine:\n  token: canary-one\n  registries: {config: {a: {auth: {password: canary-two, username: me}}}}\n  files: [{content: canary-three, path: /a}]\n  env: {http_proxy: 'http://me:canary@proxy:3128'}\n---\napiVersion: v1alpha1\nkind: ExtensionServiceConfig\nname: tailscale\nenvironment: [TS_AUTHKEY=canary-four]\n";
        let after = before.replace("canary", "kanarie").replace("proxy:3128", "proxy:3129");
        let shown = lines(before, &after).join("\n");
        assert!(!shown.contains("canary") && !shown.contains("kanarie"), "{shown}");
        assert!(
            shown.contains("machine.token: [secret ") && shown.contains("TS_AUTHKEY=[secret "),
            "{shown}"
        );
        assert!(shown.contains("http://[secret]@proxy:3128 → http://[secret]@proxy:3129"), "{shown}");
        assert!(lines(before, "machine: {type: worker}").iter().all(|line| !line.contains("canary")));
    }
}
