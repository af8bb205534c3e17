//! The shape of machine configs as data: which kinds and fields there are, since when, and how patches meet them.

mod misfits;
mod scalar;
mod vocabulary;

use std::{collections::HashMap, sync::OnceLock};

pub(crate) use misfits::{ANY_VERSION, empties, meant, misfits};
pub use misfits::{Misfit, Part};
pub(crate) use scalar::{Format, Size, bytes, duration_nanoseconds, is_address, is_network, is_prefix, size};
pub use vocabulary::is_word;
pub(crate) use vocabulary::{shown, shown_path};
use yaml_serde::Value;

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Object,
    List,
    Map,
    Text,
    Number,
    Bool,
    Duration,
    Url,
    Arguments,
    Pem,
    PemKey,
    Free,
}

/// How a patch's value meets the one that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Maps recurse, lists append, scalars replace unless zero.
    Usual,
    /// The right side stands instead of the left.
    Replace,
    /// The same, from the version on that has Kubernetes in documents of its own.
    ReplaceIfSplit,
    /// List elements with an equal value of this key are merged.
    MergeByKey(&'static str),
    /// List elements with an equal value of this key are replaced.
    ReplaceByKey(&'static str),
    /// Interfaces are merged by name, else by an equal selector.
    MergeInterfaces,
    /// Zero counts as a value.
    TakeZero,
    /// Not being there counts as a value.
    TakeAbsent,
    /// This word counts as zero.
    ZeroIs(&'static str),
}

impl Rule {
    /// Whether elements of a list that have the same key become one.
    pub(crate) fn is_keyed(self) -> bool {
        matches!(self, Self::MergeByKey(_) | Self::MergeInterfaces)
    }
}

/// What of a field's value people may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    /// What does not look like a secret.
    Usual,
    /// Nothing.
    Secret,
    /// `NAME=value`: the name.
    Assigned,
    /// All of it, whatever its name.
    Plain,
}

/// A field and what is below it.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) shape: Shape,
    pub(crate) rule: Rule,
    /// What a single value must look like.
    format: Option<Format>,
    /// Not there at all unless set, rather than there and empty.
    pub(crate) is_optional: bool,
    /// The Talos 1.x that began it; 8 for those that are older.
    pub(crate) since: u32,
    /// Whether this or anything below that is always there is unset by patches that leave it out.
    pub(crate) unsets: bool,
    pub(crate) sight: Sight,
    children: HashMap<&'static str, Field>,
}

impl Field {
    fn new(since: u32) -> Self {
        Self {
            shape: Shape::Object,
            rule: Rule::Usual,
            format: None,
            is_optional: false,
            since,
            unsets: false,
            sight: Sight::Usual,
            children: HashMap::new(),
        }
    }

    /// The field of this name, or what every element or entry is.
    pub(crate) fn child(&self, key: &str) -> Option<&Self> {
        match self.shape {
            Shape::List => self.children.get("[]"),
            Shape::Map => self.children.get("*"),
            _ => self.children.get(key),
        }
    }

    /// Whether Talos has a text here, by which an element of a list can be found.
    pub(crate) fn is_text(&self) -> bool {
        !matches!(self.shape, Shape::Number | Shape::Bool | Shape::Free)
            && self.format != Some(Format::Base64)
    }

    /// The field of this name below, or what every element, entry or argument is.
    pub(crate) fn within(&self, key: &str) -> Option<&Self> {
        if self.shape == Shape::Arguments { Some(self) } else { self.child(key) }
    }

    /// Whether a single value here is a text as it is spelled.
    pub(crate) fn is_spelled(&self) -> bool {
        matches!(self.shape, Shape::Text | Shape::Url | Shape::Arguments)
            && self.format != Some(Format::Ports)
    }

    /// Whether a value is a whole number that fits.
    pub(crate) fn takes_number(&self, value: &Value) -> bool {
        self.format.is_some_and(|format| scalar::is_whole_number(value, format))
    }

    /// Every field of an object.
    pub(crate) fn children(&self) -> impl Iterator<Item = (&'static str, &Self)> {
        self.children.iter().map(|(key, field)| (*key, field))
    }

    fn settle(&mut self) {
        if self.children.contains_key("[]") {
            self.shape = Shape::List;
        } else if self.children.contains_key("*") && self.shape == Shape::Object {
            self.shape = Shape::Map;
        }
        self.unsets = self.rule == Rule::TakeAbsent;
        for child in self.children.values_mut() {
            child.settle();
            let always_there = self.shape == Shape::Object && !child.is_optional;
            self.unsets |= always_there && child.unsets;
        }
    }
}

/// The shape of a kind of document; the main one has the empty kind.
pub(crate) fn of_kind(kind: &str) -> Option<&'static Field> {
    kinds().get(kind)
}

/// Every kind with the Talos 1.x that began it (8 for those that are older).
pub(crate) fn all_kinds() -> impl Iterator<Item = (&'static str, u32)> {
    kinds().iter().map(|(kind, field)| (*kind, field.since))
}

fn kinds() -> &'static HashMap<&'static str, Field> {
    static KINDS: OnceLock<HashMap<&'static str, Field>> = OnceLock::new();
    KINDS.get_or_init(|| read(include_str!("schema/fields.txt")))
}

/// Reads a table of fields.
pub(crate) fn read(text: &'static str) -> HashMap<&'static str, Field> {
    let mut kinds: HashMap<&'static str, Field> = HashMap::new();
    let mut current = "";
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        let first = words.next().unwrap_or_default();
        if !line.starts_with(' ') {
            current = if first == "main" { "" } else { first };
            let since = words.next().and_then(|word| word.parse().ok()).unwrap_or(12);
            kinds.insert(current, Field::new(since));
            continue;
        }
        let (shape, flags) = words.next().map_or(("", ""), |word| word.split_once(':').unwrap_or((word, "")));
        let Some(root) = kinds.get_mut(current) else { continue };
        let (mut since, mut sight) = (root.since, Sight::Usual);
        for word in words {
            match word {
                "secret" => sight = Sight::Secret,
                "assigned" => sight = Sight::Assigned,
                "plain" => sight = Sight::Plain,
                number => since = number.parse().unwrap_or(since),
            }
        }
        let mut field = root;
        for key in first.split('.') {
            field = field.children.entry(key).or_insert_with(|| Field::new(since));
        }
        let (shape, format) = shape.split_once('/').unwrap_or((shape, ""));
        field.format = Format::read(format);
        field.shape = match shape {
            "L" => Shape::List,
            "M" => Shape::Map,
            "T" => Shape::Text,
            "N" => Shape::Number,
            "B" => Shape::Bool,
            "D" => Shape::Duration,
            "U" => Shape::Url,
            "A" => Shape::Arguments,
            "P" => Shape::Pem,
            "K" => Shape::PemKey,
            "F" => Shape::Free,
            _ => Shape::Object,
        };
        field.is_optional = flags == "p";
        field.sight = sight;
        field.rule = match flags.split_once('=').unwrap_or((flags, "")) {
            ("r", _) => Rule::Replace,
            ("r14", _) => Rule::ReplaceIfSplit,
            ("z", _) => Rule::TakeZero,
            ("a", _) => Rule::TakeAbsent,
            ("i", _) => Rule::MergeInterfaces,
            ("k", key) => Rule::MergeByKey(key),
            ("q", key) => Rule::ReplaceByKey(key),
            ("0", word) => Rule::ZeroIs(word),
            _ => Rule::Usual,
        };
    }
    for field in kinds.values_mut() {
        field.settle();
    }
    kinds
}

/// A document as Talos reads it, which takes numbers for texts, and words for flags.
pub(crate) fn as_read(document: &Value, kind: &str) -> Value {
    of_kind(kind).map_or_else(|| document.clone(), |field| value_as_read(document, field))
}

fn value_as_read(value: &Value, field: &Field) -> Value {
    match value {
        Value::Mapping(fields) => {
            let read = |(key, value): (&Value, &Value)| {
                let below = key.as_str().and_then(|key| field.child(key));
                (key.clone(), below.map_or_else(|| value.clone(), |below| value_as_read(value, below)))
            };
            Value::Mapping(fields.iter().map(read).collect())
        }
        Value::Sequence(list) => match field.child("[]") {
            // Nothing is left out, unless nothing is something there.
            Some(below) => {
                let there = list.iter().filter(|item| below.is_optional || !item.is_null());
                Value::Sequence(there.map(|item| value_as_read(item, below)).collect())
            }
            None => value.clone(),
        },
        _ => scalar::as_read(field.shape, value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_knows_what_the_versions_brought() {
        let count =
            |minor: u32| all_kinds().filter(|(kind, since)| !kind.is_empty() && *since <= minor).count();
        assert_eq!((count(8), count(9), count(10), count(11)), (10, 10, 13, 17));
        assert_eq!((count(12), count(13), count(14)), (36, 44, 89));
        let volume = of_kind("UserVolumeConfig").unwrap();
        assert_eq!(volume.child("trim").unwrap().since, 14);
        assert!(volume.unsets);
        let interfaces =
            of_kind("").and_then(|f| f.child("machine")?.child("network")?.child("interfaces")).unwrap();
        assert_eq!((interfaces.shape, interfaces.rule), (Shape::List, Rule::MergeInterfaces));
    }

    #[test]
    fn what_does_not_fit_is_named_with_what_was_meant() {
        let of_version = |kind: &str, text: &str, minor: u32| -> Vec<String> {
            let mut document: yaml_serde::Value = yaml_serde::from_str(text).unwrap();
            if !kind.is_empty() {
                document["apiVersion"] = "v1alpha1".into();
            }
            let found = super::misfits(&document, kind, minor);
            found.iter().map(|m| format!("{} {}", m.path, m.message)).collect()
        };
        let misfits = |kind: &str, text: &str| of_version(kind, text, ANY_VERSION);
        assert_eq!(
            misfits(
                "",
                "machine: {instal: {}, certSANs: a, sysctls: [a], kubelet: {extraConfig: {any: thing}}}"
            ),
            [
                "machine.instal is not a known key; did you mean `install`?",
                "machine.certSANs must be a list",
                "machine.sysctls must hold keys",
            ]
        );
        assert_eq!(
            misfits(
                "LinkConfig",
                "apiVersion: v1alpha1\nkind: LinkConfig\nname: a\naddresses: [{adress: a}]\nmtu: [1]"
            ),
            ["addresses[0].adress is not a known key; did you mean `address`?", "mtu must be a single value"]
        );
        assert_eq!(
            misfits("HostnamConfig", "{}"),
            ["HostnamConfig is not a known kind of document; did you mean `HostnameConfig`?"]
        );
        assert_eq!(misfits("", "nonsense: 1"), ["nonsense is not a known key"]);
        assert_eq!(
            misfits("", "5: x\nmachine: {kubelet: {$patch: delete}, sysctls: {? [a] : b}}"),
            [
                "5 is not a known key",
                "machine.kubelet.$patch can only be `delete`, and only in a patch",
                "machine.sysctls.- a is no name for an entry",
            ]
        );
        for (kind, minor, since) in
            [("SysctlConfig", 13, 14), ("LinkConfig", 11, 12), ("KubeSpanConfig", 8, 13)]
        {
            let words =
                format!("is a kind of document that Talos v1.{minor} does not know; it came with v1.{since}");
            assert_eq!(of_version(kind, "{}", minor), [format!("{kind} {words}")]);
            assert_eq!(of_version(kind, "{}", since), Vec::<String>::new());
        }
        assert_eq!(
            of_version("UserVolumeConfig", "name: a\ntrim: {}", 13),
            ["trim is a key that Talos v1.13 does not know; it came with v1.14"]
        );
        assert_eq!(of_version("UserVolumeConfig", "name: a\ntrim: {}", 14), Vec::<String>::new());
        for (text, kind, since) in [
            ("machine: {install: {grubUseUKICmdline: true}}", "", 12),
            ("machine: {features: {imageCache: {}}}", "", 9),
            ("machine: {network: {searchDomains: [a]}}", "", 9),
            ("name: EPHEMERAL\nencryption: {provider: luks2}", "VolumeConfig", 11),
            ("name: a\nvolumeType: disk", "UserVolumeConfig", 12),
        ] {
            let found = of_version(kind, text, since - 1);
            assert!(
                matches!(&found[..], [one] if one.ends_with(&format!("it came with v1.{since}"))),
                "{found:?}"
            );
            assert_eq!(of_version(kind, text, since), Vec::<String>::new());
        }
    }
}
