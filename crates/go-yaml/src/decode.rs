//! What the nodes of a YAML document mean: scalars resolved, aliases followed, merge keys merged.

use std::borrow::Cow;

use super::parse::Node;
use super::resolve::{self, Resolved};

/// A YAML value with the types go-yaml tells apart.
#[derive(Clone, Debug, PartialEq)]
pub enum Yaml<'a> {
    /// Nothing.
    Null,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A whole number that only fits without a sign.
    Uint(u64),
    /// Any other number.
    Float(f64),
    /// Text; bytes when it came from `!!binary`.
    String(Cow<'a, [u8]>),
    /// A list.
    Sequence(Vec<Yaml<'a>>),
    /// Keys with their values, as they stand in the document.
    Mapping(Vec<(Yaml<'a>, Yaml<'a>)>),
}

impl<'a> Yaml<'a> {
    /// The value of a string key in a mapping.
    pub fn get(&self, key: &str) -> Option<&Yaml<'a>> {
        match self {
            Yaml::Mapping(entries) => entries
                .iter()
                .rev()
                .find(|(k, _)| matches!(k, Yaml::String(s) if **s == *key.as_bytes()))
                .map(|(_, v)| v),
            _ => None,
        }
    }

    /// What Go calls its type.
    pub fn type_name(&self) -> &'static str {
        match self {
            Yaml::Null => "%!s(<nil>)",
            Yaml::Bool(_) => "bool",
            Yaml::Int(_) => "int",
            Yaml::Uint(_) => "uint64",
            Yaml::Float(_) => "float64",
            Yaml::String(_) => "string",
            Yaml::Sequence(_) => "[]interface {}",
            Yaml::Mapping(_) => "map[interface {}]interface {}",
        }
    }
}

type Result<T> = std::result::Result<T, String>;
type Entry<T> = (T, T);

/// Most nodes a document may expand to through its aliases.
const MAX_NODES: usize = 4_000_000;

/// The value of a document.
pub(super) fn decode(mut root: Node<'_>) -> Result<Yaml<'_>> {
    Decoder { count: 0, aliased: 0, alias_depth: 0 }.owned(&mut root)
}

struct Decoder {
    count: usize,
    aliased: usize,
    alias_depth: usize,
}

impl Decoder {
    /// go-yaml's guard against documents that expand through their aliases.
    fn count(&mut self) -> Result<()> {
        self.count += 1;
        if self.alias_depth > 0 {
            self.aliased += 1;
        }
        let allowed = match self.count {
            0..=400_000 => 0.99,
            400_001..4_000_000 => 0.99 - 0.89 * ((self.count - 400_000) as f64 / 3_600_000.0),
            _ => 0.10,
        };
        if self.aliased > 100 && self.count > 1000 && self.aliased as f64 / self.count as f64 > allowed
            || self.count > MAX_NODES
        {
            return Err("document contains excessive aliasing".to_owned());
        }
        Ok(())
    }

    /// The value of a node that nothing else refers to.
    fn owned<'a>(&mut self, node: &mut Node<'a>) -> Result<Yaml<'a>> {
        match node {
            Node::Scalar { value, tag, implicit } => {
                self.count()?;
                scalar(std::mem::take(value), tag, *implicit)
            }
            Node::Sequence(items) => {
                self.count()?;
                Ok(Yaml::Sequence(items.iter_mut().map(|item| self.owned(item)).collect::<Result<_>>()?))
            }
            Node::Mapping(entries) => {
                self.count()?;
                let mut out = Vec::with_capacity(entries.len());
                for (key, value) in entries {
                    if is_merge(key) {
                        self.merge(value, &mut out)?;
                        continue;
                    }
                    let key = map_key(self.owned(key)?)?;
                    let value = self.owned(value)?;
                    set(&mut out, key, value);
                }
                Ok(Yaml::Mapping(out))
            }
            Node::Anchored(_) | Node::Alias(..) => self.shared(node),
        }
    }

    /// The value of a node that aliases may refer to.
    fn shared<'a>(&mut self, node: &Node<'a>) -> Result<Yaml<'a>> {
        if let Node::Anchored(node) = node {
            return self.shared(node);
        }
        self.count()?;
        match node {
            Node::Anchored(node) => self.shared(node),
            Node::Alias(name, target) => {
                if self.alias_depth > 100 {
                    return Err(format!("anchor '{name}' value contains itself"));
                }
                self.alias_depth += 1;
                let value = self.shared(target);
                self.alias_depth -= 1;
                value
            }
            Node::Scalar { value, tag, implicit } => scalar(value.clone(), tag, *implicit),
            Node::Sequence(items) => {
                Ok(Yaml::Sequence(items.iter().map(|item| self.shared(item)).collect::<Result<_>>()?))
            }
            Node::Mapping(entries) => {
                let mut out = Vec::with_capacity(entries.len());
                self.shared_mapping(entries, &mut out)?;
                Ok(Yaml::Mapping(out))
            }
        }
    }

    fn shared_mapping<'a>(
        &mut self,
        entries: &[Entry<Node<'a>>],
        out: &mut Vec<Entry<Yaml<'a>>>,
    ) -> Result<()> {
        for (key, value) in entries {
            if is_merge(key) {
                self.merge(value, out)?;
                continue;
            }
            let key = map_key(self.shared(key)?)?;
            let value = self.shared(value)?;
            set(out, key, value);
        }
        Ok(())
    }

    fn merge<'a>(&mut self, node: &Node<'a>, out: &mut Vec<Entry<Yaml<'a>>>) -> Result<()> {
        let want_map = || Err("map merge requires map or sequence of maps as the value".to_owned());
        match plain(node) {
            Node::Mapping(entries) => self.shared_mapping(entries, out),
            Node::Alias(_, target) => match plain(target) {
                Node::Mapping(entries) => {
                    self.alias_depth += 1;
                    let result = self.shared_mapping(entries, out);
                    self.alias_depth -= 1;
                    result
                }
                _ => want_map(),
            },
            Node::Sequence(items) => {
                for item in items.iter().rev() {
                    match plain(item) {
                        Node::Sequence(_) | Node::Scalar { .. } => return want_map(),
                        map => self.merge(map, out)?,
                    }
                }
                Ok(())
            }
            Node::Scalar { .. } | Node::Anchored(_) => want_map(),
        }
    }
}

/// The node itself, whether or not it has an anchor.
fn plain<'n, 'a>(node: &'n Node<'a>) -> &'n Node<'a> {
    match node {
        Node::Anchored(inner) => inner,
        node => node,
    }
}

fn map_key(key: Yaml<'_>) -> Result<Yaml<'_>> {
    if matches!(key, Yaml::Sequence(_) | Yaml::Mapping(_)) {
        return Err("invalid map key".to_owned());
    }
    Ok(key)
}

/// Sets a key as a Go map would: a later value replaces an earlier one.
fn set<'a>(out: &mut Vec<Entry<Yaml<'a>>>, key: Yaml<'a>, value: Yaml<'a>) {
    // Only small maps are searched; duplicates in large ones are settled when the map is sorted by its reader.
    if out.len() < 32
        && let Some(slot) = out.iter_mut().find(|(k, _)| *k == key)
    {
        slot.1 = value;
        return;
    }
    out.push((key, value));
}

fn is_merge(node: &Node<'_>) -> bool {
    matches!(plain(node), Node::Scalar { value, tag, implicit }
        if **value == *b"<<" && (*implicit || tag == "tag:yaml.org,2002:merge"))
}

fn scalar<'a>(value: Cow<'a, [u8]>, tag: &str, implicit: bool) -> Result<Yaml<'a>> {
    if tag.is_empty() && !implicit {
        return Ok(Yaml::String(value));
    }
    match resolve::resolve(tag, &crate::lossy(&value))? {
        Resolved::Null => Ok(Yaml::Null),
        Resolved::Bool(b) => Ok(Yaml::Bool(b)),
        Resolved::Int(i) => Ok(Yaml::Int(i)),
        Resolved::Uint(u) => Ok(Yaml::Uint(u)),
        Resolved::Float(f) => Ok(Yaml::Float(f)),
        Resolved::Timestamp | Resolved::String => Ok(Yaml::String(value)),
        Resolved::Binary => {
            use base64::Engine as _;
            let compact: Vec<u8> = value.iter().copied().filter(|b| !matches!(b, b'\n' | b'\r')).collect();
            base64::engine::general_purpose::STANDARD
                .decode(compact)
                .map(|bytes| Yaml::String(bytes.into()))
                .map_err(|_| "!!binary value contains invalid base64 data".to_owned())
        }
    }
}
