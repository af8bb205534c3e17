//! What fields there are, read from the table that our own lint goes by, and values to put there.

use std::collections::BTreeMap;

use rand::{Rng as _, rngs::StdRng};
use serde_json::{Value as Json, json};

use crate::values::pools;

/// A field: the Talos 1.x that began it, and what it holds.
pub struct Field {
    pub since: u32,
    shape: String,
    format: String,
}

/// The fields of every kind by their paths; the main document has the empty kind.
pub struct Shapes(BTreeMap<String, (u32, BTreeMap<String, Field>)>);

const ENDPOINTS: &[&str] = &[
    "10.0.0.1:51820",
    "a.lan:80",
    "10.0.0.1",
    "'[fd00::1]:5'",
    "'fd00::1:5'",
    "'a:b:c'",
    "':80'",
    "'a:'",
    "''",
];
const HEX: &[&str] = &["'00:01'", "0001", "'0'", "'02:00:00:00:00:01'", "xyz", "''", "'02-00-00-00-00-01'"];
const TABLES: &[&str] =
    &["main", "local", "default", "unspec", "'100'", "'252'", "'253'", "'0'", "''", "blue", "100"];
const TEXTS: &[&str] = &[
    "a",
    "''",
    "'a b'",
    "/a",
    "a/b",
    "../a",
    "/",
    "'a=b'",
    "a.lan",
    "Ä",
    "'1000'",
    "'0'",
    "'32766'",
    "'4294967296'",
    "'-1'",
    "100-200",
    "'200-100'",
    "'70000'",
    "NET_ADMIN",
    "CAP_NET_ADMIN",
    "ALL",
    "ro",
    "rw",
    "host",
    "none",
    "node-1",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "a_b",
    "a-b",
    "'.'",
    "'..'",
    "'a:b'",
    "eth0",
    "'1500m'",
    "'0m'",
    "'5'",
    "hosts",
    "os-release",
    "kubernetes/a",
    "5",
    "true",
    "'nginx:'",
    "'nginx:1'",
    "privileged",
    "Webhook",
    "custom",
    "addresses",
    "\"a\\nb\"",
    "'YQ=='",
];
const FREE: &[&str] = &[
    "{}",
    "{a: b}",
    "{port: 5}",
    "{cpu: 1}",
    "{disk: 1}",
    "[]",
    "a",
    "{a: {b: [1, true]}}",
    "{process: {rlimits: 5}}",
];
const ARGUMENTS: &[&str] =
    &["{}", "{a: b}", "{a: [b, c]}", "{a: 5}", "{a: {}}", "{a: ~}", "{oidc-a: b}", "a"];

impl Shapes {
    pub fn read() -> Self {
        let mut kinds: BTreeMap<String, (u32, BTreeMap<String, Field>)> = BTreeMap::new();
        let mut kind = String::new();
        let table = include_str!("../../../src/config/schema/fields.txt");
        for line in table.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let number = words[1..].iter().find_map(|word| word.parse().ok());
            if !line.starts_with(' ') {
                kind = if words[0] == "main" { String::new() } else { words[0].to_owned() };
                kinds.insert(kind.clone(), (number.unwrap_or(12), BTreeMap::new()));
                continue;
            }
            let (of_kind, fields) = kinds.get_mut(&kind).unwrap();
            let shape = words[1].split(':').next().unwrap();
            let (shape, format) = shape.split_once('/').unwrap_or((shape, ""));
            let since = number.unwrap_or(*of_kind);
            let field = Field { since, shape: shape.to_owned(), format: format.to_owned() };
            fields.insert(words[0].to_owned(), field);
        }
        Self(kinds)
    }

    /// Every kind that Talos 1.`minor` knows.
    pub fn kinds(&self, minor: u32) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(_, (since, _))| *since <= minor).map(|(kind, _)| kind.as_str())
    }

    pub fn fields(&self, kind: &str) -> &BTreeMap<String, Field> {
        &self.0[kind].1
    }

    /// The field at a path of a document, in which elements and entries have their own names.
    pub fn at(&self, kind: &str, path: &[String]) -> Option<&Field> {
        let fields = self.fields(kind);
        let mut known = String::new();
        for key in path {
            let before = if known.is_empty() { String::new() } else { format!("{known}.") };
            let is_there = |path: &str| {
                fields.contains_key(path) || fields.keys().any(|key| key.starts_with(&format!("{path}.")))
            };
            let candidates = [key.as_str(), "[]", "*"].map(|key| format!("{before}{key}"));
            known = candidates.into_iter().find(|path| is_there(path))?;
        }
        fields.get(&known)
    }

    /// A value for a field, which may be one that it does not take.
    pub fn value(&self, path: &str, field: Option<&Field>, rng: &mut StdRng) -> Json {
        let Some(field) = field else { return from(TEXTS, rng) };
        match (field.shape.as_str(), field.format.as_str()) {
            _ if path.ends_with("match") || path.ends_with("Expression") => {
                from(if rng.gen_bool(0.5) { pools::DISKS } else { pools::LINKS }, rng)
            }
            ("T", "prefix" | "address") => from(pools::ADDRESSES, rng),
            ("T", "endpoint") => from(ENDPOINTS, rng),
            ("T", "hex") => from(HEX, rng),
            ("T", "bytes" | "size") => from(pools::SIZES, rng),
            ("T", "table") => from(TABLES, rng),
            ("T", words) if words.contains('|') && rng.gen_bool(0.7) => {
                let words: Vec<&str> = words.split('|').collect();
                json!(words[rng.gen_range(0..words.len())].split('@').next())
            }
            ("T", _) => match rng.gen_range(0..10) {
                0 => from(pools::ADDRESSES, rng),
                1 => from(pools::URLS, rng),
                2 => from(ENDPOINTS, rng),
                3 => from(pools::KEYS, rng),
                4 => from(pools::SIZES, rng),
                5 => from(pools::WORDS, rng),
                _ => from(TEXTS, rng),
            },
            ("N", _) => from(pools::NUMBERS, rng),
            ("B", _) => from(pools::FLAGS, rng),
            ("D", _) => from(pools::DURATIONS, rng),
            ("U", _) => from(pools::URLS, rng),
            ("A", _) => from(ARGUMENTS, rng),
            ("F", _) => from(FREE, rng),
            ("L", _) => json!([]),
            _ => json!({}),
        }
    }
}

fn from(pool: &[&str], rng: &mut StdRng) -> Json {
    let text = pool[rng.gen_range(0..pool.len())];
    let value: yaml_serde::Value = yaml_serde::from_str(text).unwrap();
    serde_json::to_value(value).unwrap()
}
