//! Inventories as a folder of `cluster.yaml`, `nodes.yaml`, `secrets.sops.yaml` and `patches/` → the tree of a document.
//!
//! Every value keeps its place, so that what is wrong is pointed at in the file that somebody wrote; [`Words`] says it in the
//! words of that file.

use std::collections::HashSet;
use std::path::Path as FilePath;

use crate::base::Layers;
use crate::diagnostic::Finding;
use crate::merge::merge;
use crate::path::first_word;
use crate::schema;
use crate::suggest::{listed, nearest};
use crate::yaml::{Entry, Kind, Node, Span, Value};

/// The key that tells such a `cluster.yaml` from others.
const NAME: &str = "cluster_name";
const NODES: &str = "nodes.yaml";
const SECRETS: &str = "secrets.sops.yaml";
const PATCHES: &str = "patches";
/// The key of the token's secret in the file of secrets.
const TOKEN_SECRET: &str = "proxmox_token_secret";
/// What anything else of an inventory stands under.
const OURS: &str = "spec";

/// What a value becomes.
#[derive(Clone, Copy, PartialEq)]
enum How {
    /// Itself.
    Same,
    /// A list with it, unless it is one.
    Listed,
    /// An amount, in this unit where it is a plain number.
    In(&'static str),
}

/// A key there, its place in a document, and what its value becomes.
type Key = (&'static str, &'static str, How);

const CLUSTER: [Key; 27] = [
    (NAME, "metadata.name", How::Same),
    ("environment", "spec.environment", How::Same),
    ("talos_version", "spec.talos.version", How::Same),
    ("talos_extensions", "spec.talos.extensions", How::Listed),
    ("kubernetes_version", "spec.kubernetes.version", How::Same),
    ("network.pod_cidr", "spec.kubernetes.podSubnets", How::Listed),
    ("network.svc_cidr", "spec.kubernetes.serviceSubnets", How::Listed),
    ("network.cidr", "spec.network.cidr", How::Same),
    ("network.gateway", "spec.network.gateway", How::Same),
    ("network.dns", "spec.network.dns", How::Listed),
    ("network.ntp", "spec.network.ntp", How::Listed),
    ("network.vip", "spec.network.vip", How::Same),
    ("network.mtu", "spec.network.mtu", How::Same),
    ("network.dhcp", "spec.network.dhcp", How::Same),
    ("proxmox.endpoint", "spec.proxmox.endpoint", How::Same),
    ("proxmox.token_id", "spec.proxmox.token.id", How::Same),
    ("proxmox.token_secret", "spec.proxmox.token.secret", How::Same),
    ("proxmox.ca", "spec.proxmox.tls.ca", How::Same),
    ("proxmox.fingerprint", "spec.proxmox.tls.fingerprint", How::Same),
    ("proxmox.insecure", "spec.proxmox.tls.insecure", How::Same),
    ("proxmox.node", "spec.proxmox.hosts", How::Listed),
    ("proxmox.nodes", "spec.proxmox.hosts", How::Listed),
    ("proxmox.datastore", "spec.proxmox.storage.disks", How::Same),
    ("proxmox.image_datastore", "spec.proxmox.storage.images", How::Same),
    ("proxmox.bridge", "spec.proxmox.bridge", How::Same),
    ("proxmox.vlan", "spec.proxmox.vlan", How::Same),
    ("proxmox.pool", "spec.proxmox.pool", How::Same),
];
const NODE: [Key; 11] = [
    ("name", "name", How::Same),
    ("ip", "address", How::Same),
    ("cpu", "cores", How::Same),
    ("ram", "memory", How::In("MiB")),
    ("disk", "disk", How::In("GiB")),
    ("vmid", "vmid", How::Same),
    ("mac", "mac", How::Same),
    ("host", "host", How::Same),
    ("labels", "labels", How::Same),
    ("taints", "taints", How::Same),
    ("tags", "tags", How::Same),
];
/// Lists of nodes, with what these do.
const ROLES: [(&str, &str); 2] = [("controlplane", "controlplane"), ("workers", "worker")];
/// What there must be, and an example of it.
const NEEDED: [(&str, &str); 7] = [
    ("talos_version", "talos_version: v1.12.0"),
    ("network.cidr", "cidr: 10.0.10.0/24"),
    ("network.gateway", "gateway: 10.0.10.1"),
    ("proxmox.endpoint", "endpoint: https://pve1.lan:8006"),
    ("proxmox.token_id", "token_id: daedal@pve!cli"),
    ("proxmox.node", "node: pve1"),
    ("proxmox.datastore", "datastore: local-lvm"),
];

/// A document's places, and what they are called where somebody wrote them.
#[derive(Debug, Default)]
pub(crate) struct Words(Vec<(String, String)>);

impl Words {
    fn add(&mut self, ours: impl Into<String>, theirs: impl Into<String>) {
        self.0.push((ours.into(), theirs.into()));
    }

    /// Says findings in the words of the files.
    pub(crate) fn translate(&self, findings: &mut [Finding]) {
        let mut words: Vec<&(String, String)> = self.0.iter().collect();
        // The longest first: a place begins like those it is in.
        words.sort_by_key(|(ours, _)| std::cmp::Reverse(ours.len()));
        for finding in findings {
            for text in std::iter::once(&mut finding.message).chain(&mut finding.help) {
                for (ours, theirs) in &words {
                    if text.contains(ours.as_str()) {
                        *text = text.replace(ours.as_str(), theirs);
                    }
                }
            }
        }
    }
}

/// A folder's inventory as a document.
pub(crate) struct Translated {
    pub(crate) root: Node,
    pub(crate) words: Words,
    /// Places of which it was said already that they are empty.
    pub(crate) said: HashSet<String>,
}

/// Whether a tree is such a `cluster.yaml`.
pub(crate) fn is_one(root: &Node) -> bool {
    root.get(NAME).is_some() && root.get("apiVersion").is_none() && root.get("kind").is_none()
}

/// The document that a folder comes to; nothing if one of its files cannot be read, which is said.
pub(crate) fn translated(root: &Node, layers: &mut Layers<'_>) -> Option<Translated> {
    let span = first_word(root);
    let mut translator = Translator { layers, words: Words::default(), said: HashSet::new(), start: span };
    let mut document = map(span, Vec::new());
    put(&mut document, "apiVersion", span, word(span, "daedal.dev/v1alpha1"));
    put(&mut document, "kind", span, word(span, "Cluster"));
    translator.keys(root, &CLUSTER, "", &mut document, "");
    translator.secrets(root, &mut document);
    let mut pools = translator.pools()?;
    let shared = translator.patches(&mut pools);
    put(&mut document, "spec.pools", span, list(span, pools));
    if !shared.is_empty() {
        put(&mut document, "spec.patches", span, list(span, shared));
    }
    if let Some(entry) = root.get(OURS) {
        let own = Entry { key: OURS.to_owned(), key_span: entry.key_span, value: entry.value.clone() };
        document = merge(document, map(root.span, vec![own]), schema::cached());
    }
    translator.defaults(root, &mut document);
    let Translator { words, said, .. } = translator;
    Some(Translated { root: document, words, said })
}

struct Translator<'l, 'a> {
    layers: &'l mut Layers<'a>,
    words: Words,
    said: HashSet<String>,
    /// Where the inventory begins.
    start: Span,
}

impl Translator<'_, '_> {
    /// Carries over the keys of a mapping, whose path there is `theirs`, to a place of the document.
    fn keys(&mut self, from: &Node, known: &[Key], theirs: &str, to: &mut Node, ours: &str) {
        let Value::Map(entries) = &from.value else { return };
        for entry in entries {
            let path = joined(theirs, &entry.key);
            if theirs.is_empty() && entry.key == OURS {
                continue;
            }
            let within = joined(&entry.key, "");
            if known.iter().any(|(key, ..)| key.starts_with(&within)) {
                if matches!(entry.value.value, Value::Map(_)) {
                    let below: Vec<Key> = known
                        .iter()
                        .filter_map(|(key, place, how)| Some((key.strip_prefix(&within)?, *place, *how)))
                        .collect();
                    self.keys(&entry.value, &below, &path, to, ours);
                } else if !entry.value.is_null() {
                    let help = "Write its keys below it, indented.";
                    self.error(
                        "wrong-type",
                        first_word(&entry.value),
                        format!("`{path}` is a mapping."),
                        help,
                    );
                }
                continue;
            }
            let Some((_, place, how)) = known.iter().find(|(key, ..)| *key == entry.key) else {
                self.unknown(entry, known, theirs);
                continue;
            };
            if entry.value.is_null() {
                continue;
            }
            put(to, place, entry.key_span, changed(&entry.value, *how));
            self.words.add(joined(ours, place), path);
        }
    }

    fn unknown(&mut self, entry: &Entry, known: &[Key], owner: &str) {
        let mut keys: Vec<&str> =
            known.iter().map(|(key, ..)| key.split('.').next().unwrap_or(key)).collect();
        keys.dedup();
        let near = nearest(&entry.key, &keys);
        // Its value was probably given, under this name: not a word about its absence.
        let within = near.map(|near| joined(near, ""));
        let meant = known.iter().filter(|(key, ..)| {
            Some(*key) == near || within.as_ref().is_some_and(|within| key.starts_with(within))
        });
        self.said.extend(meant.map(|(_, place, _)| (*place).to_owned()));
        let help = match near {
            Some(near) => format!("Did you mean `{near}`?"),
            None => format!(
                "The keys here are {}; anything else of an inventory stands under `spec` of cluster.yaml.",
                listed(keys.iter().map(|key| format!("`{key}`")), "and")
            ),
        };
        let owner = if owner.is_empty() { "the cluster".to_owned() } else { format!("`{owner}`") };
        let message = format!("`{}` is not a key of {owner}.", entry.key);
        self.error("unknown-key", entry.key_span, message, &help);
    }

    /// The pools of the nodes that are listed.
    fn pools(&mut self) -> Option<Vec<Node>> {
        let text = match self.layers.files.read(FilePath::new(NODES)) {
            Ok(text) => text,
            Err(error) => {
                let message = format!("{NODES} cannot be read: {error}.");
                let help = "It lists the nodes under `controlplane` and `workers`, beside cluster.yaml.";
                self.error("document", self.start, message, help);
                return None;
            }
        };
        let source = self.layers.add(FilePath::new(NODES), text);
        let trees = self.layers.parsed(source);
        let start = Span { source, start: 0, end: 0 };
        let root = self.layers.only(trees).unwrap_or(map(start, Vec::new()));
        let Value::Map(entries) = &root.value else {
            let help = "It lists the nodes under `controlplane` and `workers`.";
            self.error("document", first_word(&root), format!("{NODES} has no keys."), help);
            return None;
        };
        let mut pools = Vec::new();
        for entry in entries {
            let Some((name, role)) = ROLES.iter().find(|(name, _)| *name == entry.key) else {
                self.unknown(entry, &ROLES.map(|(name, _)| (name, name, How::Same)), NODES);
                continue;
            };
            if let Some(pool) = self.pool(entry, name, role, pools.len()) {
                pools.push(pool);
            }
        }
        if pools.is_empty() {
            self.said.insert("spec.pools".to_owned());
            let help = "For example `controlplane: [{name: dev-cp-1, ip: 10.0.10.11, cpu: 4, ram: 8192, disk: 40G}]`.";
            self.error("missing", first_word(&root), format!("{NODES} lists no nodes."), help);
        }
        Some(pools)
    }

    fn pool(&mut self, entry: &Entry, name: &str, role: &str, at: usize) -> Option<Node> {
        let items = match &entry.value.value {
            Value::Seq(items) if items.is_empty() => return None,
            Value::Seq(items) => items,
            _ if entry.value.is_null() => return None,
            _ => {
                let message = format!("`{name}` is a list of nodes.");
                self.error("wrong-type", entry.key_span, message, "Begin each with `- name:`.");
                return None;
            }
        };
        let place = format!("spec.pools[{at}]");
        let mut nodes = Vec::new();
        for (i, item) in items.iter().enumerate() {
            let (theirs, ours) = (format!("{name}[{i}]"), format!("{place}.nodes[{i}]"));
            let mut node = map(item.span, Vec::new());
            self.keys(item, &NODE, &theirs, &mut node, &ours);
            nodes.push(if matches!(item.value, Value::Map(_)) { node } else { item.clone() });
            self.words.add(ours, theirs);
        }
        self.words.add(format!("{place}.nodes"), name);
        self.words.add(place, name);
        let mut pool = map(entry.key_span, Vec::new());
        put(&mut pool, "name", entry.key_span, word(entry.key_span, name));
        put(&mut pool, "role", entry.key_span, word(entry.key_span, role));
        put(&mut pool, "nodes", entry.key_span, list(entry.value.span, nodes));
        Some(pool)
    }

    /// The patches beside the inventory: those of a node go to it, what is left is for all or for a role.
    fn patches(&mut self, pools: &mut [Node]) -> Vec<Node> {
        let mut names = self.layers.files.list(FilePath::new(PATCHES)).unwrap_or_default();
        names.retain(|name| [".yaml", ".yml", ".json"].iter().any(|end| name.ends_with(end)));
        names.sort();
        let mut shared = Vec::new();
        for name in names {
            let stem = name.rsplit_once('.').map_or(name.as_str(), |(stem, _)| stem);
            let mut patch = map(self.start, Vec::new());
            put(&mut patch, "file", self.start, word(self.start, &format!("{PATCHES}/{name}")));
            if let Some(node) = pools.iter_mut().find_map(|pool| node_called(pool, stem)) {
                put(node, PATCHES, self.start, list(self.start, vec![patch]));
                continue;
            }
            let role = ROLES.iter().find(|(list, role)| stem == *list || stem == *role);
            if let Some((_, role)) = role {
                put(&mut patch, "role", self.start, word(self.start, role));
            }
            shared.push(patch);
        }
        shared
    }

    /// The secrets of the cluster and of the token are in the file of secrets, unless the inventory says where else.
    fn secrets(&mut self, root: &Node, document: &mut Node) {
        let beside = self.layers.files.list(FilePath::new(".")).unwrap_or_default();
        let has_file = beside.iter().any(|name| name == SECRETS);
        if has_file && find(root, "spec.secrets").is_none() {
            put(document, "spec.secrets.sops", self.start, word(self.start, SECRETS));
        }
        let is_said = find(document, "spec.proxmox.token.secret").is_some()
            || find(root, "spec.proxmox.token").is_some();
        if is_said {
            return;
        }
        let span = root.get("proxmox").map_or(self.start, |entry| entry.key_span);
        if has_file {
            let mut secret = map(span, Vec::new());
            put(&mut secret, "sops.file", span, word(span, SECRETS));
            put(&mut secret, "sops.key", span, word(span, TOKEN_SECRET));
            put(document, "spec.proxmox.token.secret", span, secret);
            return;
        }
        self.said.insert("spec.proxmox.token.secret".to_owned());
        let help = format!(
            "Put it into {SECRETS} as `{TOKEN_SECRET}`, or write `token_secret: {{env: PROXMOX_TOKEN_SECRET}}`."
        );
        self.error("missing", span, "The secret of the Proxmox token is nowhere.", &help);
    }

    /// What such a folder leaves out, and what it must not.
    fn defaults(&mut self, root: &Node, document: &mut Node) {
        let images = "spec.proxmox.storage.images";
        if find(document, images).is_none()
            && let Some(disks) = find(document, "spec.proxmox.storage.disks").map(|disks| disks.span)
        {
            put(document, images, disks, word(disks, "local"));
        }
        for (key, example) in NEEDED {
            let Some((_, place, _)) = CLUSTER.iter().find(|(known, ..)| *known == key) else { continue };
            if find(document, place).is_some() {
                continue;
            }
            let above = place.match_indices('.').filter_map(|(end, _)| place.get(..end));
            self.said.extend(above.filter(|above| find(document, above).is_none()).map(str::to_owned));
            if !self.said.insert((*place).to_owned()) {
                continue;
            }
            let (group, name) = key.split_once('.').unwrap_or(("", key));
            let at = root.get(group).map_or(self.start, |entry| entry.key_span);
            let owner = if group.is_empty() { "cluster.yaml".to_owned() } else { format!("`{group}`") };
            self.said.insert((*place).to_owned());
            let above = place.match_indices('.').filter_map(|(end, _)| place.get(..end));
            self.said.extend(above.filter(|above| find(document, above).is_none()).map(str::to_owned));
            self.error(
                "missing",
                at,
                format!("`{name}` is missing in {owner}."),
                &format!("For example `{example}`."),
            );
        }
    }

    fn error(&mut self, code: &'static str, span: Span, message: impl Into<String>, help: &str) {
        self.layers.findings.push(Finding::error(code, span, message).help(help));
    }
}

fn joined(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// A value as a document has it.
fn changed(value: &Node, how: How) -> Node {
    match (how, &value.value) {
        (How::Listed, Value::Scalar { .. }) => list(value.span, vec![value.clone()]),
        (How::In(unit), Value::Scalar { kind: Kind::Int, text }) => {
            word(value.span, &format!("{text}{unit}"))
        }
        _ => value.clone(),
    }
}

/// Sets the value at a dotted path; mappings on the way are made.
fn put(node: &mut Node, path: &str, key_span: Span, value: Node) {
    let Value::Map(entries) = &mut node.value else { return };
    let (key, rest) = path.split_once('.').map_or((path, None), |(key, rest)| (key, Some(rest)));
    let at = match entries.iter().position(|entry| entry.key == key) {
        Some(at) => at,
        None => {
            entries.push(Entry { key: key.to_owned(), key_span, value: map(key_span, Vec::new()) });
            entries.len() - 1
        }
    };
    let Some(entry) = entries.get_mut(at) else { return };
    match rest {
        Some(rest) => put(&mut entry.value, rest, key_span, value),
        None => entry.value = value,
    }
}

/// What a dotted path leads to.
fn find<'n>(node: &'n Node, path: &str) -> Option<&'n Node> {
    path.split('.').try_fold(node, |node, key| node.get(key).map(|entry| &entry.value))
}

/// The node of a pool that has a name.
fn node_called<'n>(pool: &'n mut Node, name: &str) -> Option<&'n mut Node> {
    let Value::Map(entries) = &mut pool.value else { return None };
    let nodes = entries.iter_mut().find(|entry| entry.key == "nodes")?;
    let Value::Seq(nodes) = &mut nodes.value.value else { return None };
    nodes.iter_mut().find(|node| {
        node.get("name")
            .is_some_and(|entry| matches!(&entry.value.value, Value::Scalar { text, .. } if text == name))
    })
}

fn map(span: Span, entries: Vec<Entry>) -> Node {
    Node { span, value: Value::Map(entries) }
}

fn list(span: Span, items: Vec<Node>) -> Node {
    Node { span, value: Value::Seq(items) }
}

fn word(span: Span, text: &str) -> Node {
    Node { span, value: Value::Scalar { kind: Kind::Str, text: text.to_owned() } }
}
