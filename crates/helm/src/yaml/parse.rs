//! Builds YAML values from tokens: nodes, anchors, merge keys and tags.

use std::collections::HashMap;
use std::rc::Rc;

use super::resolve::{self, Resolved};
use super::scan::{Scanner, TokenKind};

/// A YAML value with the types go-yaml tells apart.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Yaml {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    String(Rc<YamlString>),
    Sequence(Vec<Yaml>),
    Mapping(Vec<(Yaml, Yaml)>),
}

/// Text; bytes when it came from `!!binary`.
#[derive(Debug, PartialEq)]
pub(crate) struct YamlString(Vec<u8>);

impl YamlString {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Yaml {
    pub(crate) fn text(bytes: Vec<u8>) -> Yaml {
        Yaml::String(Rc::new(YamlString(bytes)))
    }

    /// The value of a string key in a mapping.
    pub(crate) fn get(&self, key: &str) -> Option<&Yaml> {
        match self {
            Yaml::Mapping(entries) => entries
                .iter()
                .rev()
                .find(|(k, _)| matches!(k, Yaml::String(s) if s.as_bytes() == key.as_bytes()))
                .map(|(_, v)| v),
            _ => None,
        }
    }

    pub(crate) fn type_name(&self) -> &'static str {
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

enum Node {
    Scalar { value: Vec<u8>, tag: String, implicit: bool },
    Alias(String, Rc<Node>),
    Sequence(Vec<Rc<Node>>),
    Mapping(Vec<(Rc<Node>, Rc<Node>)>),
}

type Result<T> = std::result::Result<T, String>;

/// Most nodes a document may expand to through its aliases.
const MAX_NODES: usize = 4_000_000;

/// Reads the first document of a text; an empty text is null.
pub(crate) fn parse_document(text: &[u8]) -> Result<Yaml> {
    check_characters(text)?;
    let mut parser =
        Parser { scanner: Scanner::new(text), anchors: HashMap::new(), tags: default_tags(), depth: 0 };
    let Some(root) = parser.document()? else { return Ok(Yaml::Null) };
    let mut decoder = Decoder { count: 0, aliased: 0, alias_depth: 0 };
    decoder.value(&root)
}

fn default_tags() -> HashMap<String, String> {
    HashMap::from([("!".to_owned(), "!".to_owned()), ("!!".to_owned(), "tag:yaml.org,2002:".to_owned())])
}

/// Refuses what YAML does not allow in a stream at all.
pub(super) fn check_characters(text: &[u8]) -> Result<()> {
    let text = std::str::from_utf8(text).map_err(|_| "invalid leading UTF-8 octet".to_owned())?;
    let allowed = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{fffd}' | '\u{10000}'..);
    if text.bytes().all(|b| b == b'\n' || (b' '..=b'~').contains(&b)) || text.chars().all(allowed) {
        Ok(())
    } else {
        Err("control characters are not allowed".to_owned())
    }
}

struct Parser<'a> {
    scanner: Scanner<'a>,
    anchors: HashMap<String, Rc<Node>>,
    tags: HashMap<String, String>,
    depth: usize,
}

impl Parser<'_> {
    fn kind(&mut self) -> Result<TokenKind> {
        // Scalars are taken, not copied, by `node`.
        Ok(match &self.scanner.peek()?.kind {
            TokenKind::Scalar { plain, .. } => TokenKind::Scalar { value: Vec::new(), plain: *plain },
            other => other.clone(),
        })
    }

    fn is(&mut self, kinds: &[TokenKind]) -> Result<bool> {
        let kind = &self.scanner.peek()?.kind;
        Ok(kinds.contains(kind))
    }

    fn error<T>(&mut self, problem: &str) -> Result<T> {
        let line = self.scanner.peek()?.line;
        Err(if line == 0 { problem.to_owned() } else { format!("line {line}: {problem}") })
    }

    fn document(&mut self) -> Result<Option<Rc<Node>>> {
        let mut explicit = false;
        loop {
            match self.kind()? {
                TokenKind::StreamEnd if explicit => {
                    return self.error("did not find expected <document start>");
                }
                TokenKind::StreamEnd => return Ok(None),
                TokenKind::VersionDirective => explicit = true,
                TokenKind::TagDirective(handle, prefix) => {
                    self.tags.insert(handle, prefix);
                    explicit = true;
                }
                TokenKind::DocumentStart => {
                    self.scanner.skip_token();
                    break;
                }
                _ if explicit => return self.error("did not find expected <document start>"),
                _ => break,
            }
            self.scanner.skip_token();
        }
        let empty = matches!(
            self.kind()?,
            TokenKind::VersionDirective
                | TokenKind::TagDirective(..)
                | TokenKind::DocumentStart
                | TokenKind::DocumentEnd
                | TokenKind::StreamEnd
        );
        let root = if empty { empty_scalar() } else { self.node(true, false)? };
        self.scanner.peek()?;
        Ok(Some(root))
    }

    fn node(&mut self, block: bool, indentless: bool) -> Result<Rc<Node>> {
        self.depth += 1;
        let node = self.node_inner(block, indentless);
        self.depth -= 1;
        node
    }

    fn node_inner(&mut self, block: bool, indentless: bool) -> Result<Rc<Node>> {
        if self.depth > 600 {
            return self.error("exceeded max depth");
        }
        let (mut anchor, mut tag) = (None, None);
        loop {
            match self.kind()? {
                TokenKind::Alias(name) if anchor.is_none() && tag.is_none() => {
                    self.scanner.skip_token();
                    let Some(target) = self.anchors.get(&name).cloned() else {
                        return Err(format!("unknown anchor '{name}' referenced"));
                    };
                    return Ok(Rc::new(Node::Alias(name, target)));
                }
                TokenKind::Anchor(name) if anchor.is_none() => anchor = Some(name),
                TokenKind::Tag(handle, suffix) if tag.is_none() => {
                    tag = Some(if handle.is_empty() {
                        suffix
                    } else {
                        match self.tags.get(&handle) {
                            Some(prefix) => format!("{prefix}{suffix}"),
                            None => return self.error("found undefined tag handle"),
                        }
                    });
                }
                _ => break,
            }
            self.scanner.skip_token();
        }
        let node = match self.kind()? {
            TokenKind::BlockEntry if indentless => self.indentless_sequence()?,
            TokenKind::Scalar { plain, .. } => {
                let value = match self.scanner.peek()?.kind.clone() {
                    TokenKind::Scalar { value, .. } => value,
                    _ => Vec::new(),
                };
                self.scanner.skip_token();
                let tag = tag.unwrap_or_default();
                let implicit = tag.is_empty() && plain || tag == "!";
                Node::Scalar {
                    value,
                    tag: if tag == "!" { String::new() } else { tag },
                    implicit: implicit && plain,
                }
            }
            TokenKind::FlowSequenceStart => self.flow_sequence()?,
            TokenKind::FlowMappingStart => self.flow_mapping()?,
            TokenKind::BlockSequenceStart if block => self.block_sequence()?,
            TokenKind::BlockMappingStart if block => self.block_mapping()?,
            _ if anchor.is_some() || tag.is_some() => {
                let tag = tag.unwrap_or_default();
                Node::Scalar { value: Vec::new(), implicit: tag.is_empty(), tag }
            }
            _ => return self.error("did not find expected node content"),
        };
        let node = Rc::new(node);
        if let Some(name) = anchor {
            self.anchors.insert(name, node.clone());
        }
        Ok(node)
    }

    fn block_sequence(&mut self) -> Result<Node> {
        self.scanner.skip_token();
        let mut items = Vec::new();
        loop {
            match self.kind()? {
                TokenKind::BlockEntry => {
                    self.scanner.skip_token();
                    if self.is(&[TokenKind::BlockEntry, TokenKind::BlockEnd])? {
                        items.push(empty_scalar());
                    } else {
                        items.push(self.node(true, false)?);
                    }
                }
                TokenKind::BlockEnd => {
                    self.scanner.skip_token();
                    return Ok(Node::Sequence(items));
                }
                _ => return self.error("did not find expected '-' indicator"),
            }
        }
    }

    fn indentless_sequence(&mut self) -> Result<Node> {
        let mut items = Vec::new();
        while self.is(&[TokenKind::BlockEntry])? {
            self.scanner.skip_token();
            if self.is(&[TokenKind::BlockEntry, TokenKind::Key, TokenKind::Value, TokenKind::BlockEnd])? {
                items.push(empty_scalar());
            } else {
                items.push(self.node(true, false)?);
            }
        }
        Ok(Node::Sequence(items))
    }

    fn block_mapping(&mut self) -> Result<Node> {
        const NEXT: [TokenKind; 3] = [TokenKind::Key, TokenKind::Value, TokenKind::BlockEnd];
        self.scanner.skip_token();
        let mut entries = Vec::new();
        loop {
            match self.kind()? {
                TokenKind::Key => {
                    self.scanner.skip_token();
                    let key = if self.is(&NEXT)? { empty_scalar() } else { self.node(true, true)? };
                    let mut value = empty_scalar();
                    if self.is(&[TokenKind::Value])? {
                        self.scanner.skip_token();
                        if !self.is(&NEXT)? {
                            value = self.node(true, true)?;
                        }
                    }
                    entries.push((key, value));
                }
                TokenKind::BlockEnd => {
                    self.scanner.skip_token();
                    return Ok(Node::Mapping(entries));
                }
                _ => return self.error("did not find expected key"),
            }
        }
    }

    fn flow_sequence(&mut self) -> Result<Node> {
        self.scanner.skip_token();
        let mut items = Vec::new();
        let mut first = true;
        loop {
            if self.is(&[TokenKind::FlowSequenceEnd])? {
                break;
            }
            if !first {
                if !self.is(&[TokenKind::FlowEntry])? {
                    return self.error("did not find expected ',' or ']'");
                }
                self.scanner.skip_token();
            }
            first = false;
            match self.kind()? {
                TokenKind::Key => {
                    self.scanner.skip_token();
                    const ENDS: [TokenKind; 3] =
                        [TokenKind::Value, TokenKind::FlowEntry, TokenKind::FlowSequenceEnd];
                    let key = if self.is(&ENDS)? { empty_scalar() } else { self.node(false, false)? };
                    let mut value = empty_scalar();
                    if self.is(&[TokenKind::Value])? {
                        self.scanner.skip_token();
                        if !self.is(&[TokenKind::FlowEntry, TokenKind::FlowSequenceEnd])? {
                            value = self.node(false, false)?;
                        }
                    }
                    items.push(Rc::new(Node::Mapping(vec![(key, value)])));
                }
                TokenKind::FlowSequenceEnd => break,
                _ => items.push(self.node(false, false)?),
            }
        }
        self.scanner.skip_token();
        Ok(Node::Sequence(items))
    }

    fn flow_mapping(&mut self) -> Result<Node> {
        self.scanner.skip_token();
        let mut entries = Vec::new();
        let mut first = true;
        loop {
            if self.is(&[TokenKind::FlowMappingEnd])? {
                break;
            }
            if !first {
                if !self.is(&[TokenKind::FlowEntry])? {
                    return self.error("did not find expected ',' or '}'");
                }
                self.scanner.skip_token();
            }
            first = false;
            match self.kind()? {
                TokenKind::Key => {
                    self.scanner.skip_token();
                    const ENDS: [TokenKind; 3] =
                        [TokenKind::Value, TokenKind::FlowEntry, TokenKind::FlowMappingEnd];
                    let key = if self.is(&ENDS)? { empty_scalar() } else { self.node(false, false)? };
                    let mut value = empty_scalar();
                    if self.is(&[TokenKind::Value])? {
                        self.scanner.skip_token();
                        if !self.is(&[TokenKind::FlowEntry, TokenKind::FlowMappingEnd])? {
                            value = self.node(false, false)?;
                        }
                    }
                    entries.push((key, value));
                }
                TokenKind::FlowMappingEnd => break,
                _ => entries.push((self.node(false, false)?, empty_scalar())),
            }
        }
        self.scanner.skip_token();
        Ok(Node::Mapping(entries))
    }
}

fn empty_scalar() -> Rc<Node> {
    Rc::new(Node::Scalar { value: Vec::new(), tag: String::new(), implicit: true })
}

struct Decoder {
    count: usize,
    aliased: usize,
    alias_depth: usize,
}

impl Decoder {
    fn value(&mut self, node: &Node) -> Result<Yaml> {
        self.count += 1;
        if self.alias_depth > 0 {
            self.aliased += 1;
        }
        // go-yaml's guard against documents that expand through their aliases.
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
        match node {
            Node::Alias(name, target) => {
                if self.alias_depth > 100 {
                    return Err(format!("anchor '{name}' value contains itself"));
                }
                self.alias_depth += 1;
                let value = self.value(target);
                self.alias_depth -= 1;
                value
            }
            Node::Scalar { value, tag, implicit } => scalar(value, tag, *implicit),
            Node::Sequence(items) => {
                Ok(Yaml::Sequence(items.iter().map(|i| self.value(i)).collect::<Result<_>>()?))
            }
            Node::Mapping(entries) => {
                let mut out = Vec::with_capacity(entries.len());
                self.mapping(entries, &mut out)?;
                Ok(Yaml::Mapping(out))
            }
        }
    }

    fn mapping(&mut self, entries: &[(Rc<Node>, Rc<Node>)], out: &mut Vec<(Yaml, Yaml)>) -> Result<()> {
        for (key, value) in entries {
            if is_merge(key) {
                self.merge(value, out)?;
                continue;
            }
            let key = self.value(key)?;
            if matches!(key, Yaml::Sequence(_) | Yaml::Mapping(_)) {
                return Err("invalid map key".to_owned());
            }
            let value = self.value(value)?;
            set(out, key, value);
        }
        Ok(())
    }

    fn merge(&mut self, node: &Node, out: &mut Vec<(Yaml, Yaml)>) -> Result<()> {
        let want_map = || Err("map merge requires map or sequence of maps as the value".to_owned());
        match node {
            Node::Mapping(entries) => self.mapping(entries, out),
            Node::Alias(_, target) => match &**target {
                Node::Mapping(entries) => {
                    self.alias_depth += 1;
                    let result = self.mapping(entries, out);
                    self.alias_depth -= 1;
                    result
                }
                _ => want_map(),
            },
            Node::Sequence(items) => {
                for item in items.iter().rev() {
                    match &**item {
                        Node::Sequence(_) | Node::Scalar { .. } => return want_map(),
                        map => self.merge(map, out)?,
                    }
                }
                Ok(())
            }
            Node::Scalar { .. } => want_map(),
        }
    }
}

/// Sets a key as a Go map would: a later value replaces an earlier one.
fn set(out: &mut Vec<(Yaml, Yaml)>, key: Yaml, value: Yaml) {
    // Only small maps are searched; duplicates in large ones are settled when the map is sorted by its reader.
    if out.len() < 32
        && let Some(slot) = out.iter_mut().find(|(k, _)| *k == key)
    {
        slot.1 = value;
        return;
    }
    out.push((key, value));
}

fn is_merge(node: &Node) -> bool {
    matches!(node, Node::Scalar { value, tag, implicit }
        if value == b"<<" && (*implicit || tag == "tag:yaml.org,2002:merge"))
}

fn scalar(value: &[u8], tag: &str, implicit: bool) -> Result<Yaml> {
    if tag.is_empty() && !implicit {
        return Ok(Yaml::text(value.to_vec()));
    }
    let text = String::from_utf8_lossy(value);
    match resolve::resolve(tag, &text)? {
        Resolved::Null => Ok(Yaml::Null),
        Resolved::Bool(b) => Ok(Yaml::Bool(b)),
        Resolved::Int(i) => Ok(Yaml::Int(i)),
        Resolved::Uint(u) => Ok(Yaml::Uint(u)),
        Resolved::Float(f) => Ok(Yaml::Float(f)),
        Resolved::Timestamp | Resolved::String => Ok(Yaml::text(value.to_vec())),
        Resolved::Binary => {
            use base64::Engine as _;
            let compact: Vec<u8> = value.iter().copied().filter(|b| !matches!(b, b'\n' | b'\r')).collect();
            base64::engine::general_purpose::STANDARD
                .decode(compact)
                .map(Yaml::text)
                .map_err(|_| "!!binary value contains invalid base64 data".to_owned())
        }
    }
}
