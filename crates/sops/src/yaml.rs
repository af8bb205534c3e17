//! YAML → tree.

use std::collections::HashMap;
use std::ops::Range;

use base64::Engine as _;
use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span, Tag};

use crate::comments;
use crate::error::Error;
use crate::file::Format;
use crate::path::Path;
use crate::resolve;
use crate::tree::{Branch, Content, Document, Item, Leaf, Node, Tree, position};
use crate::value::{Kind, Value};

/// Deeper nesting than this is refused, so that everything that walks a tree may recurse.
const MAX_DEPTH: usize = 64;
/// More values than this after aliases are expanded are refused: a few lines of aliases can ask for billions.
const MAX_VALUES: usize = 200_000;

/// Reads all documents of a text.
pub(crate) fn parse(text: &str) -> Result<Tree, Error> {
    let mut builder = Builder {
        text,
        bytes: (!text.is_ascii()).then(|| text.char_indices().map(|(at, _)| at).collect()),
        stack: Vec::new(),
        anchors: HashMap::new(),
        values: 0,
        last: 0,
        tokens: Vec::new(),
        root: None,
        documents: Vec::new(),
    };
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        match event {
            Ok((event, span)) => builder.event(event, span)?,
            Err(error) => return Err(builder.syntax(builder.offset(*error.marker()), "")),
        }
    }
    let mut tree = Tree { documents: builder.documents, comments: Vec::new(), flat: false };
    comments::find(text, &builder.tokens, &mut tree);
    Ok(tree)
}

struct Frame {
    start: usize,
    anchor: usize,
    map: bool,
    branch: Branch,
    /// A key that waits for its value, and where it begins.
    key: Option<(String, usize)>,
}

struct Builder<'a> {
    text: &'a str,
    /// Byte offset of every character, when they differ.
    bytes: Option<Vec<usize>>,
    stack: Vec<Frame>,
    anchors: HashMap<usize, Node>,
    values: usize,
    /// Where the last key, value or alias ended.
    last: usize,
    /// Where keys, values and aliases stand; a `#` between them begins a comment.
    tokens: Vec<Range<usize>>,
    root: Option<Node>,
    documents: Vec<Document>,
}

impl Builder<'_> {
    fn offset(&self, marker: Marker) -> usize {
        match &self.bytes {
            Some(bytes) => bytes.get(marker.index()).copied().unwrap_or(self.text.len()),
            None => marker.index().min(self.text.len()),
        }
    }

    fn syntax(&self, at: usize, why: &'static str) -> Error {
        let (line, column) = position(self.text, at);
        Error::Syntax { format: Format::Yaml, line, column, why }
    }

    /// Where we are.
    fn path(&self) -> Path {
        let mut path = Path::default();
        for frame in &self.stack {
            path = match &frame.key {
                Some((key, _)) => path.key(key),
                None if frame.map => path,
                None => path.index(frame.branch.items.len()),
            };
        }
        path
    }

    fn shape(&self, why: &'static str) -> Error {
        Error::Shape { path: self.path(), why }
    }

    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), Error> {
        let (start, end) = (self.offset(span.start), self.offset(span.end));
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.scalar(&text, style, anchor, tag.as_deref(), start..end)
            }
            Event::SequenceStart(anchor, _) => self.open(false, anchor, start, end),
            Event::MappingStart(anchor, _) => self.open(true, anchor, start, end),
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(frame) = self.stack.pop() else { return Ok(()) };
                let stop = if frame.branch.flow { end } else { frame.start };
                if frame.branch.flow {
                    self.last = end;
                }
                let content = if frame.map { Content::Map(frame.branch) } else { Content::Seq(frame.branch) };
                self.add(Node { span: frame.start..stop, content }, frame.anchor, None)
            }
            Event::Alias(anchor) => self.alias(anchor, start..end),
            Event::DocumentStart(_) => {
                self.last = end;
                Ok(())
            }
            Event::DocumentEnd => {
                let nothing = Node { span: start..start, content: Content::Map(Branch::default()) };
                let root = match self.root.take() {
                    Some(Node { content: Content::Leaf(leaf), span })
                        if leaf.value.kind == Kind::Null && span.is_empty() =>
                    {
                        nothing
                    }
                    Some(root) => root,
                    None => nothing,
                };
                if !matches!(root.content, Content::Map(_)) {
                    return Err(self.shape("a document must be a mapping"));
                }
                self.documents.push(Document { root, end: start });
                self.anchors.clear();
                Ok(())
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd => Ok(()),
        }
    }

    fn open(&mut self, map: bool, anchor: usize, start: usize, end: usize) -> Result<(), Error> {
        if self.stack.len() >= MAX_DEPTH {
            return Err(self.syntax(start, "it is nested too deeply"));
        }
        self.no_complex_key()?;
        let flow = self.text.get(start..end).is_some_and(|text| text.ends_with(['{', '[']));
        // What is written before a block mapping (an anchor, a tag) belongs to the line of its key.
        let start = if flow { start } else { end };
        self.last = end;
        self.stack.push(Frame {
            start,
            anchor,
            map,
            branch: Branch { flow, ..Branch::default() },
            key: None,
        });
        Ok(())
    }

    /// A mapping or list cannot be a key.
    fn no_complex_key(&self) -> Result<(), Error> {
        match self.stack.last() {
            Some(frame) if frame.map && frame.key.is_none() => Err(self.shape("a key is not text")),
            _ => Ok(()),
        }
    }

    fn alias(&mut self, anchor: usize, span: Range<usize>) -> Result<(), Error> {
        self.no_complex_key()?;
        let Some(node) = self.anchors.get(&anchor).cloned() else {
            return Err(self.syntax(span.start, "an alias stands inside the value it names"));
        };
        let (values, depth) = extent(&node);
        if self.values + values > MAX_VALUES || self.stack.len() + depth > MAX_DEPTH {
            return Err(self.syntax(span.start, "it is far too large with its aliases written out"));
        }
        self.values += values;
        self.tokens.push(span.clone());
        self.last = span.end;
        self.add(node, 0, Some(span))
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
        span: Range<usize>,
    ) -> Result<(), Error> {
        let (span, aside) = self.exact(span, style, anchor > 0 || tag.is_some());
        match &aside {
            Some(aside) => self.tokens.extend([span.start..aside.start - 1, aside.end..span.end]),
            None => self.tokens.push(span.clone()),
        }
        self.last = span.end;
        let frame = self.stack.last();
        if frame.is_some_and(|frame| frame.map && frame.key.is_none()) {
            return self.name(text, style, tag, span.start);
        }
        // Go takes no line break for granted where the text has none.
        let open_end = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded)
            && !self.text.ends_with('\n')
            && span.end >= self.text.trim_end_matches(' ').len();
        let text = if open_end { text.trim_end_matches('\n') } else { text };
        let value = self.means(text, style, tag)?;
        let flow = frame.is_some_and(|frame| frame.branch.flow);
        let own = frame.map_or(0, |frame| match &frame.key {
            Some((_, start)) => *start,
            None => dash(self.text, span.start),
        });
        let indent = column(self.text, own);
        let block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
        let leaf = Leaf { value, aside, flow, indent, block, whole: None };
        self.add(Node { span, content: Content::Leaf(leaf) }, anchor, None)
    }

    fn name(&mut self, text: &str, style: ScalarStyle, tag: Option<&Tag>, start: usize) -> Result<(), Error> {
        let value = self.means(text, style, tag)?;
        if value.kind != Kind::Str {
            return Err(self.shape("a key is not text; put it in quotes"));
        }
        if let Some(frame) = self.stack.last_mut() {
            frame.key = Some((text.to_owned(), start));
            if frame.branch.items.iter().any(|item| item.key.as_deref() == Some(text)) {
                return Err(self.shape("the key is given twice"));
            }
        }
        Ok(())
    }

    fn means(&self, text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, Error> {
        let core = tag.filter(|tag| tag.is_yaml_core_schema()).map(|tag| tag.suffix.as_str());
        let refused = || self.shape("a number is too large: sops knows integers of 64 bits");
        let other = || self.shape("the value is not of the type that its tag names");
        match core {
            Some("binary") => {
                let letters: String = text.chars().filter(|c| !c.is_whitespace()).collect();
                let bytes = base64::engine::general_purpose::STANDARD.decode(letters);
                Ok(Value::new(Kind::Str, bytes.map_err(|_| other())?))
            }
            Some("str") => Ok(Value::text(text)),
            Some(name @ ("int" | "float" | "bool" | "null" | "timestamp")) => {
                let value = resolve::plain(text).ok_or_else(refused)?;
                match (name, value.kind) {
                    ("float", Kind::Int) => Ok(Value { kind: Kind::Float, ..value }),
                    ("int", Kind::Int) | ("float", Kind::Float) | ("bool", Kind::Bool) => Ok(value),
                    ("null", Kind::Null) | ("timestamp", Kind::Time) => Ok(value),
                    _ => Err(other()),
                }
            }
            _ if tag.is_some() || style != ScalarStyle::Plain => Ok(Value::text(text)),
            _ => resolve::plain(text).ok_or_else(refused),
        }
    }

    /// The exact span of a scalar with its anchor, tag and header, without what follows; and a comment of its header.
    fn exact(
        &self,
        span: Range<usize>,
        style: ScalarStyle,
        properties: bool,
    ) -> (Range<usize>, Option<Range<usize>>) {
        let text = self.text;
        let inner = if properties { after_properties(text, span.start) } else { span.start };
        match style {
            ScalarStyle::Plain => (span, None),
            ScalarStyle::DoubleQuoted | ScalarStyle::SingleQuoted => {
                (span.start..quoted_end(text, inner).unwrap_or(span.end), None)
            }
            ScalarStyle::Literal | ScalarStyle::Folded => {
                let gap = text.get(self.last..span.end).unwrap_or_default();
                let header = match properties {
                    true => inner,
                    false => header(gap).map_or(span.start, |at| self.last + at),
                };
                let line = text.get(header..).and_then(|rest| rest.lines().next()).unwrap_or_default();
                let aside =
                    line.find(" #").map(|at| header + at + 2..header + line.trim_end_matches('\r').len());
                let whole = text.get(header..span.end.max(header)).unwrap_or_default();
                let end = header + whole.trim_end_matches(['\n', '\r', ' ']).len();
                let start = if properties { span.start } else { header };
                (start..end.max(header + line.trim_end().len()), aside)
            }
        }
    }

    fn add(&mut self, node: Node, anchor: usize, alias: Option<Range<usize>>) -> Result<(), Error> {
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err(self.syntax(node.span.start, "it is far too large"));
        }
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        let at = alias.as_ref().map_or(node.span.start, |span| span.start);
        let text = self.text;
        match self.stack.last_mut() {
            None => self.root = Some(node),
            Some(frame) => {
                let (key, start) = match frame.key.take() {
                    Some((key, start)) => (Some(key), start),
                    None if frame.branch.flow => (None, at),
                    None => (None, dash(text, at)),
                };
                frame.branch.items.push(Item { key, start, node, comments: Vec::new(), alias });
            }
        }
        Ok(())
    }
}

/// Number of values in a node and how deep they nest.
fn extent(node: &Node) -> (usize, usize) {
    let items = node.content.branch().map_or(&[][..], |branch| &branch.items);
    items.iter().fold((1, 1), |(count, depth), item| {
        let (values, levels) = extent(&item.node);
        (count + values, depth.max(levels + 1))
    })
}

/// Where the dash before an element stands.
fn dash(text: &str, at: usize) -> usize {
    text.get(..at).and_then(|before| before.rfind('-')).unwrap_or(at)
}

/// The column of a place, from 0, in bytes.
pub(crate) fn column(text: &str, at: usize) -> usize {
    at - text.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |newline| newline + 1)
}

/// Where a scalar begins after its anchor and tag.
fn after_properties(text: &str, start: usize) -> usize {
    let mut at = start;
    while let Some(rest) = text.get(at..)
        && rest.starts_with(['&', '!'])
    {
        let word = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let space = rest[word..].find(|c: char| !c.is_whitespace()).unwrap_or(0);
        at += word + space;
        if word + space == 0 {
            break;
        }
    }
    at
}

/// Where a quoted scalar ends.
fn quoted_end(text: &str, start: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let quote = *bytes.get(start)?;
    let mut at = start + 1;
    loop {
        match *bytes.get(at)? {
            b'\\' if quote == b'"' => at += 2,
            b'\'' if quote == b'\'' && bytes.get(at + 1) == Some(&b'\'') => at += 2,
            byte if byte == quote => return Some(at + 1),
            _ => at += 1,
        }
    }
}

/// Where the `|` or `>` of a block scalar stands in what is between its key and its content.
fn header(gap: &str) -> Option<usize> {
    let mut comment = false;
    for (at, byte) in gap.bytes().enumerate() {
        match byte {
            b'\n' => comment = false,
            b'#' if at == 0 || gap.as_bytes()[at - 1].is_ascii_whitespace() => comment = true,
            b'|' | b'>' if !comment => return Some(at),
            _ => {}
        }
    }
    None
}
