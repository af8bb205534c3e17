//! Builds the nodes of a YAML document from tokens: collections, anchors, tags.

use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;

use super::decode::{self, Yaml};
use super::scan::{Payload, Scanner, TokenKind};

/// A node as it stands in the document.
pub(super) enum Node<'a> {
    Scalar {
        value: Cow<'a, [u8]>,
        tag: String,
        /// Whether nothing but the text says what it means.
        implicit: bool,
    },
    Alias(String, Rc<Node<'a>>),
    Sequence(Vec<Node<'a>>),
    Mapping(Vec<(Node<'a>, Node<'a>)>),
    /// A node that aliases may name.
    Anchored(Rc<Node<'a>>),
}

type Result<T> = std::result::Result<T, String>;

/// Reads the first document of a text; an empty text is null.
pub fn parse_document(text: &[u8]) -> Result<Yaml<'_>> {
    let plain = check_characters(text)?;
    let mut parser = Parser {
        scanner: Scanner::new(text, plain),
        anchors: HashMap::new(),
        tags: HashMap::new(),
        open: Vec::new(),
        depth: 0,
    };
    match parser.document()? {
        Some(root) => decode::decode(root),
        None => Ok(Yaml::Null),
    }
}

/// Refuses what YAML does not allow in a stream at all. Tells whether there is nothing but printable ASCII and line feeds.
fn check_characters(text: &[u8]) -> Result<bool> {
    // Whole blocks at a time, which the compiler turns into a few wide instructions.
    let harmless =
        |block: &[u8]| block.iter().fold(true, |ok, b| ok & ((*b == b'\n') | (*b >= b' ') & (*b <= b'~')));
    if text.chunks(64).all(harmless) {
        return Ok(true);
    }
    let text = std::str::from_utf8(text).map_err(|_| "invalid leading UTF-8 octet".to_owned())?;
    if text.chars().all(is_allowed) {
        Ok(false)
    } else {
        Err("control characters are not allowed".to_owned())
    }
}

/// Whether a character may stand in a stream.
pub(super) fn is_allowed(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{fffd}' | '\u{10000}'..)
}

struct Parser<'a> {
    scanner: Scanner<'a>,
    anchors: HashMap<String, Rc<Node<'a>>>,
    /// The document's own tag handles.
    tags: HashMap<String, String>,
    /// Anchors of the nodes that are being read.
    open: Vec<String>,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn kind(&mut self) -> Result<TokenKind> {
        Ok(self.scanner.peek()?.kind)
    }

    fn is(&mut self, kinds: &[TokenKind]) -> Result<bool> {
        Ok(kinds.contains(&self.scanner.peek()?.kind))
    }

    fn error<T>(&mut self, problem: &str) -> Result<T> {
        let line = self.scanner.peek()?.line;
        Err(if line == 0 { problem.to_owned() } else { format!("line {line}: {problem}") })
    }

    fn document(&mut self) -> Result<Option<Node<'a>>> {
        let mut explicit = false;
        loop {
            match self.kind()? {
                TokenKind::StreamEnd if explicit => {
                    return self.error("did not find expected <document start>");
                }
                TokenKind::StreamEnd => return Ok(None),
                TokenKind::VersionDirective => {
                    self.scanner.skip_token();
                    explicit = true;
                }
                TokenKind::TagDirective => {
                    if let Payload::Pair(pair) = self.scanner.take_token() {
                        self.tags.insert(pair.0, pair.1);
                    }
                    explicit = true;
                }
                TokenKind::DocumentStart => {
                    self.scanner.skip_token();
                    break;
                }
                _ if explicit => return self.error("did not find expected <document start>"),
                _ => break,
            }
        }
        let empty = matches!(
            self.kind()?,
            TokenKind::VersionDirective
                | TokenKind::TagDirective
                | TokenKind::DocumentStart
                | TokenKind::DocumentEnd
                | TokenKind::StreamEnd
        );
        let root = if empty { empty_scalar() } else { self.node(true, false)? };
        self.scanner.peek()?;
        Ok(Some(root))
    }

    fn node(&mut self, block: bool, indentless: bool) -> Result<Node<'a>> {
        self.depth += 1;
        let node = self.node_inner(block, indentless);
        self.depth -= 1;
        node
    }

    fn node_inner(&mut self, block: bool, indentless: bool) -> Result<Node<'a>> {
        if self.depth > 600 {
            return self.error("exceeded max depth");
        }
        let (mut anchor, mut tag) = (None, None);
        loop {
            match self.kind()? {
                TokenKind::Alias if anchor.is_none() && tag.is_none() => {
                    let name = self.name();
                    if self.open.contains(&name) {
                        return Err(format!("anchor '{name}' value contains itself"));
                    }
                    let Some(target) = self.anchors.get(&name).cloned() else {
                        return Err(format!("unknown anchor '{name}' referenced"));
                    };
                    return Ok(Node::Alias(name, target));
                }
                TokenKind::Anchor if anchor.is_none() => anchor = Some(self.name()),
                TokenKind::Tag if tag.is_none() => tag = Some(self.tag()?),
                _ => break,
            }
        }
        self.open.extend(anchor.clone());
        let node = match self.kind()? {
            TokenKind::BlockEntry if indentless => self.indentless_sequence()?,
            kind @ (TokenKind::PlainScalar | TokenKind::Scalar) => {
                let value = self.scanner.take_token().into_text();
                let tag = tag.unwrap_or_default();
                let unspecific = tag.is_empty() || tag == "!";
                let implicit = unspecific && kind == TokenKind::PlainScalar;
                Node::Scalar { value, tag: if unspecific { String::new() } else { tag }, implicit }
            }
            TokenKind::FlowSequenceStart => self.flow_sequence()?,
            TokenKind::FlowMappingStart => self.flow_mapping()?,
            TokenKind::BlockSequenceStart if block => self.block_sequence()?,
            TokenKind::BlockMappingStart if block => self.block_mapping()?,
            _ if anchor.is_some() || tag.is_some() => {
                let tag = tag.unwrap_or_default();
                Node::Scalar { value: Cow::Borrowed(&[]), implicit: tag.is_empty(), tag }
            }
            _ => return self.error("did not find expected node content"),
        };
        let Some(name) = anchor else { return Ok(node) };
        self.open.pop();
        let node = Rc::new(node);
        self.anchors.insert(name, node.clone());
        Ok(Node::Anchored(node))
    }

    /// Takes an alias or anchor.
    fn name(&mut self) -> String {
        crate::lossy(&self.scanner.take_token().into_text()).into_owned()
    }

    /// Takes a tag.
    fn tag(&mut self) -> Result<String> {
        let (handle, suffix) = match &self.scanner.peek()?.payload {
            Payload::Pair(pair) => (**pair).clone(),
            _ => Default::default(),
        };
        let prefix = match (self.tags.get(&handle), handle.as_str()) {
            (Some(prefix), _) => prefix,
            (None, "") => "",
            (None, "!") => "!",
            (None, "!!") => "tag:yaml.org,2002:",
            _ => return self.error("found undefined tag handle"),
        };
        let tag = format!("{prefix}{suffix}");
        self.scanner.skip_token();
        Ok(tag)
    }

    fn block_sequence(&mut self) -> Result<Node<'a>> {
        self.scanner.skip_token();
        let mut items = Vec::new();
        loop {
            match self.kind()? {
                TokenKind::BlockEntry => {
                    self.scanner.skip_token();
                    items.push(self.unless(&[TokenKind::BlockEntry, TokenKind::BlockEnd], (true, false))?);
                }
                TokenKind::BlockEnd => {
                    self.scanner.skip_token();
                    return Ok(Node::Sequence(items));
                }
                _ => return self.error("did not find expected '-' indicator"),
            }
        }
    }

    fn indentless_sequence(&mut self) -> Result<Node<'a>> {
        const NEXT: [TokenKind; 4] =
            [TokenKind::BlockEntry, TokenKind::Key, TokenKind::Value, TokenKind::BlockEnd];
        let mut items = Vec::new();
        while self.is(&[TokenKind::BlockEntry])? {
            self.scanner.skip_token();
            items.push(self.unless(&NEXT, (true, false))?);
        }
        Ok(Node::Sequence(items))
    }

    fn block_mapping(&mut self) -> Result<Node<'a>> {
        const NEXT: [TokenKind; 3] = [TokenKind::Key, TokenKind::Value, TokenKind::BlockEnd];
        self.scanner.skip_token();
        let mut entries = Vec::new();
        loop {
            match self.kind()? {
                TokenKind::Key => {
                    self.scanner.skip_token();
                    entries.push(self.entry(&NEXT, &NEXT, (true, true))?);
                }
                TokenKind::BlockEnd => {
                    self.scanner.skip_token();
                    return Ok(Node::Mapping(entries));
                }
                _ => return self.error("did not find expected key"),
            }
        }
    }

    fn flow_sequence(&mut self) -> Result<Node<'a>> {
        let mut items = Vec::new();
        self.flow(TokenKind::FlowSequenceEnd, "did not find expected ',' or ']'", |item| {
            items.push(match item {
                (key, Some(value)) => Node::Mapping(vec![(key, value)]),
                (item, None) => item,
            });
        })?;
        Ok(Node::Sequence(items))
    }

    fn flow_mapping(&mut self) -> Result<Node<'a>> {
        let mut entries = Vec::new();
        self.flow(TokenKind::FlowMappingEnd, "did not find expected ',' or '}'", |(key, value)| {
            entries.push((key, value.unwrap_or_else(empty_scalar)));
        })?;
        Ok(Node::Mapping(entries))
    }

    /// Reads what is between brackets or braces: entries with their values, and nodes that are no entries.
    fn flow(
        &mut self,
        end: TokenKind,
        problem: &str,
        mut add: impl FnMut((Node<'a>, Option<Node<'a>>)),
    ) -> Result<()> {
        self.scanner.skip_token();
        let mut first = true;
        while !self.is(&[end])? {
            if !first {
                if !self.is(&[TokenKind::FlowEntry])? {
                    return self.error(problem);
                }
                self.scanner.skip_token();
            }
            first = false;
            match self.kind()? {
                TokenKind::Key => {
                    self.scanner.skip_token();
                    let no_key = [TokenKind::Value, TokenKind::FlowEntry, end];
                    let (key, value) = self.entry(&no_key, &no_key[1..], (false, false))?;
                    add((key, Some(value)));
                }
                kind if kind == end => break,
                _ => add((self.node(false, false)?, None)),
            }
        }
        self.scanner.skip_token();
        Ok(())
    }

    /// A key and its value, each empty when one of the tokens that follow it comes at once.
    fn entry(
        &mut self,
        after_key: &[TokenKind],
        after_value: &[TokenKind],
        style: (bool, bool),
    ) -> Result<(Node<'a>, Node<'a>)> {
        let key = self.unless(after_key, style)?;
        if !self.is(&[TokenKind::Value])? {
            return Ok((key, empty_scalar()));
        }
        self.scanner.skip_token();
        Ok((key, self.unless(after_value, style)?))
    }

    /// A node, or nothing when one of these tokens comes instead.
    fn unless(&mut self, instead: &[TokenKind], (block, indentless): (bool, bool)) -> Result<Node<'a>> {
        if self.is(instead)? { Ok(empty_scalar()) } else { self.node(block, indentless) }
    }
}

fn empty_scalar<'a>() -> Node<'a> {
    Node::Scalar { value: Cow::Borrowed(&[]), tag: String::new(), implicit: true }
}
