//! The metadata of a file: for whom its data key is encrypted, which values are, and the code that authenticates all.

use serde_json::{Map, Value as Json, json};
use zeroize::Zeroizing;

use crate::cipher::DataKey;
use crate::config::Rule;
use crate::error::Error;
use crate::keys::{self, Identities};
use crate::selection::Selection;
use crate::shamir;
use crate::tree::{Content, Node};
use crate::value::Kind;

/// The version of sops that our files say they are of.
const VERSION: &str = "3.11.0";

/// The kinds of keys, with the parts that name one.
const KINDS: [(&str, &[&str]); 7] = [
    ("kms", &["arn"]),
    ("gcp_kms", &["resource_id"]),
    ("azure_kv", &["vault_url", "name"]),
    ("hc_vault", &["vault_address", "engine_path", "key_name"]),
    ("hckms", &["key_id"]),
    ("age", &["recipient"]),
    ("pgp", &["fp"]),
];

/// Metadata as they are in a file, with everything that is not understood.
#[derive(Clone, Debug)]
pub(crate) struct Metadata {
    pub(crate) raw: Map<String, Json>,
    pub(crate) selection: Selection,
    pub(crate) mac_only_encrypted: bool,
    groups: Vec<Group>,
    threshold: usize,
}

/// Keys of which each opens the same part of the data key.
#[derive(Clone, Debug, Default)]
struct Group {
    /// Recipient and armored text.
    age: Vec<(String, String)>,
    /// All keys by their names, those of other kinds with the kind.
    names: Vec<String>,
}

fn wrong(key: &str, why: &str) -> Error {
    Error::Metadata { key: key.to_owned(), why: why.to_owned() }
}

impl Metadata {
    /// New metadata for a rule, and the data key in them.
    pub(crate) fn create(
        rule: &Rule,
        single: bool,
        rng: &mut (impl rand::CryptoRng + rand::RngCore),
    ) -> Result<(Self, DataKey), Error> {
        let key = DataKey::random(rng);
        let count = rule.groups.len();
        let threshold = rule.threshold.unwrap_or(count);
        let mut raw = Map::new();
        let mut groups = Vec::new();
        let parts = match u8::try_from(count) {
            Ok(1) => vec![Zeroizing::new(key.expose().to_vec())],
            Ok(count @ 2..) if (2..=usize::from(count)).contains(&threshold) => {
                shamir::split(key.expose(), count, u8::try_from(threshold).unwrap_or(count), rng)
            }
            _ => {
                let why = format!("{threshold} of {count} key groups cannot be asked for");
                return Err(Error::Rule { why });
            }
        };
        for (recipients, part) in rule.groups.iter().zip(&parts) {
            if recipients.is_empty() {
                return Err(Error::Rule { why: "it has no age recipients".to_owned() });
            }
            let entry = |recipient: &String| {
                let sealed = keys::encrypt_for(recipient, part)?;
                Ok(json!({"recipient": recipient, "enc": sealed}))
            };
            groups.push(json!({"age": recipients.iter().map(entry).collect::<Result<Vec<_>, Error>>()?}));
        }
        if count > 1 {
            raw.insert("shamir_threshold".to_owned(), json!(threshold));
            raw.insert("key_groups".to_owned(), Json::Array(groups));
        } else if let Some(Json::Object(group)) = groups.pop() {
            raw.extend(group);
        }
        raw.insert("lastmodified".to_owned(), Json::Null);
        raw.insert("mac".to_owned(), Json::Null);
        if !single {
            let (name, text) = rule.selection.parts();
            raw.insert(name.to_owned(), json!(text));
            if rule.mac_only_encrypted {
                raw.insert("mac_only_encrypted".to_owned(), json!(true));
            }
        }
        raw.insert("version".to_owned(), json!(VERSION));
        Ok((Self::of(raw)?, key))
    }

    /// Metadata of a file.
    pub(crate) fn of(raw: Map<String, Json>) -> Result<Self, Error> {
        let text = |key: &str| raw.get(key).and_then(Json::as_str).filter(|text| !text.is_empty());
        if text("version").is_none() {
            return Err(wrong("version", "is missing"));
        }
        let mut rules = Selection::NAMES.iter().filter_map(|name| Selection::named(name, text(name)?));
        let selection = rules.next().unwrap_or_default();
        if let Some(second) = rules.next() {
            return Err(wrong(second.parts().0, "cannot be used beside another rule of that kind"));
        }
        let mac_only_encrypted = match raw.get("mac_only_encrypted") {
            None | Some(Json::Bool(false)) => false,
            Some(Json::Bool(true)) => true,
            Some(_) => return Err(wrong("mac_only_encrypted", "is neither true nor false")),
        };
        let flat = Group::of(&raw)?;
        let groups = match raw.get("key_groups") {
            _ if !flat.names.is_empty() => vec![flat],
            Some(Json::Array(groups)) => {
                let group = |group: &Json| group.as_object().map_or_else(|| Ok(Group::default()), Group::of);
                groups.iter().map(group).collect::<Result<_, Error>>()?
            }
            _ => return Err(wrong("age", "is missing: the file is encrypted for nobody")),
        };
        let threshold = match raw.get("shamir_threshold") {
            None | Some(Json::Null) => 0,
            Some(number) => number
                .as_f64()
                .filter(|number| number.fract() == 0.0 && (0.0..=255.0).contains(number))
                .map(|number| number as usize)
                .ok_or_else(|| wrong("shamir_threshold", "is not a number of groups"))?,
        };
        let threshold = if threshold == 0 { groups.len() } else { threshold };
        Ok(Self { selection, mac_only_encrypted, groups, threshold, raw })
    }

    /// All for whom the file is encrypted.
    pub(crate) fn names(&self) -> Vec<String> {
        self.groups.iter().flat_map(|group| group.names.clone()).collect()
    }

    /// The data key, opened by what is at hand.
    pub(crate) fn data_key(&self, identities: &Identities) -> Result<DataKey, Error> {
        let mut parts = Vec::new();
        let mut needed = Vec::new();
        for group in &self.groups {
            match group.open(identities)? {
                Some(part) => parts.push(part),
                None => needed.extend(group.names.clone()),
            }
        }
        let had = identities.recipients();
        let key = if self.groups.len() == 1 {
            parts.pop().ok_or(Error::NoIdentity { needed, had })?
        } else if parts.len() < self.threshold {
            let (opened, wanted) = (parts.len(), self.threshold);
            return Err(Error::TooFewGroups { opened, wanted, needed, had });
        } else {
            shamir::combine(&parts)
                .ok_or_else(|| wrong("key_groups", "hold parts that do not belong together"))?
        };
        DataKey::of(&key).ok_or_else(|| wrong("enc", "does not hold a key of 32 bytes"))
    }

    /// When the file was changed, as the code is bound to it: without fractions of a second.
    pub(crate) fn last_modified(&self) -> Result<String, Error> {
        let text = self.text("lastmodified")?;
        let (clock, zone) = match text.rfind(['Z', '+', '-']).filter(|at| *at > 10) {
            Some(at) => text.split_at(at),
            None => return Err(wrong("lastmodified", "is not a time (RFC 3339)")),
        };
        let clock = clock.split_once('.').map_or(clock, |(whole, _)| whole);
        let zone = if matches!(zone, "+00:00" | "-00:00") { "Z" } else { zone };
        Ok(format!("{clock}{zone}"))
    }

    pub(crate) fn text(&self, key: &str) -> Result<&str, Error> {
        self.raw.get(key).and_then(Json::as_str).ok_or_else(|| wrong(key, "is missing"))
    }
}

impl Group {
    fn of(raw: &Map<String, Json>) -> Result<Self, Error> {
        let mut group = Self::default();
        for (kind, parts) in KINDS {
            let entries = raw.get(kind).and_then(Json::as_array).into_iter().flatten();
            for entry in entries {
                let text = |key: &str| entry.get(key).and_then(Json::as_str);
                let name: Vec<&str> = parts.iter().filter_map(|part| text(part)).collect();
                let name = name.join("/").escape_debug().to_string();
                if kind == "age" {
                    let sealed =
                        text("enc").ok_or_else(|| wrong("enc", "is missing for an age recipient"))?;
                    group.age.push((name.clone(), sealed.to_owned()));
                    group.names.push(name);
                } else {
                    group.names.push(format!("{kind} {name}"));
                }
            }
        }
        Ok(group)
    }

    fn open(&self, identities: &Identities) -> Result<Option<Zeroizing<Vec<u8>>>, Error> {
        let mut damaged = None;
        for (recipient, sealed) in &self.age {
            match identities.open(recipient, sealed) {
                Ok(Some(part)) => return Ok(Some(part)),
                Ok(None) => {}
                Err(error) => damaged = Some(error),
            }
        }
        damaged.map_or(Ok(None), Err)
    }
}

/// A node as JSON: for the metadata and for `.sops.yaml`, in which nothing is secret.
pub(crate) fn to_json(node: &Node) -> Json {
    match &node.content {
        Content::Map(branch) => {
            let pairs =
                branch.items.iter().map(|item| (item.key.clone().unwrap_or_default(), to_json(&item.node)));
            Json::Object(pairs.collect())
        }
        Content::Seq(branch) => Json::Array(branch.items.iter().map(|item| to_json(&item.node)).collect()),
        Content::Leaf(leaf) => {
            let text = leaf.value.plain.expose_text().unwrap_or_default();
            let number = |text: &str| serde_json::from_str::<Json>(text).ok();
            match leaf.value.kind {
                Kind::Null => Json::Null,
                Kind::Bool => Json::Bool(text == "True"),
                Kind::Int | Kind::Float => number(text).unwrap_or_else(|| json!(text)),
                _ => json!(text),
            }
        }
    }
}
