//! A text of any format as a tree in which every value and comment knows where it stands, and how to change the text there.
//!
//! Texts are never written anew: values are replaced where they stand, so that order, layout and comments stay.

use std::ops::Range;

use crate::cipher;
use crate::path::Path;
use crate::value::Value;

/// The key of the metadata.
pub(crate) const METADATA: &str = "sops";
/// How the keys of flat metadata begin.
pub(crate) const PREFIX: &str = "sops_";

/// A text that was read.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) documents: Vec<Document>,
    /// All comments, in the order of the text.
    pub(crate) comments: Vec<Comment>,
    /// Whether the metadata are keys with a prefix instead of one mapping.
    pub(crate) flat: bool,
}

impl Tree {
    /// Whether a key of the root belongs to the metadata.
    pub(crate) fn is_metadata(&self, key: &str) -> bool {
        if self.flat { key.starts_with(PREFIX) } else { key == METADATA }
    }
}

/// One document of a text.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) root: Node,
    /// Where a block of lines can be put after everything that is in it.
    pub(crate) end: usize,
}

/// A value, mapping or list.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Where it stands; of a block mapping or list only where it begins.
    pub(crate) span: Range<usize>,
    pub(crate) content: Content,
}

/// What a node is.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    Leaf(Leaf),
    Map(Branch),
    Seq(Branch),
}

/// A single value.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    pub(crate) value: Value,
    /// The comment behind the header of a block of lines, which goes behind what replaces the block.
    pub(crate) aside: Option<Range<usize>>,
    /// Whether it stands in brackets or braces.
    pub(crate) flow: bool,
    /// The column from which its lines may be indented further.
    pub(crate) indent: usize,
    /// Whether it is a block of lines, which may end with the text.
    pub(crate) block: bool,
    /// The same number as other programs may read it: a whole number of JSON.
    pub(crate) whole: Option<Value>,
}

/// The content of a mapping or list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Branch {
    pub(crate) items: Vec<Item>,
    /// Whether it is written in brackets or braces.
    pub(crate) flow: bool,
    /// Comments after the last item.
    pub(crate) after: Vec<usize>,
}

/// A key with its value, or an element of a list.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) key: Option<String>,
    /// Where it begins: the key, or the dash of the element.
    pub(crate) start: usize,
    pub(crate) node: Node,
    /// Comments that belong to it.
    pub(crate) comments: Vec<usize>,
    /// Whether it was brought by an alias, whose whole text is replaced.
    pub(crate) alias: Option<Range<usize>>,
}

/// A comment.
#[derive(Clone, Debug)]
pub(crate) struct Comment {
    /// Where its text stands, after the `#`.
    pub(crate) span: Range<usize>,
    pub(crate) text: String,
    /// Where other readers may think that it belongs.
    pub(crate) places: Vec<Path>,
}

impl Content {
    pub(crate) fn branch(&self) -> Option<&Branch> {
        match self {
            Self::Map(branch) | Self::Seq(branch) => Some(branch),
            Self::Leaf(_) => None,
        }
    }
}

impl Node {
    /// The item of a key, if this is a mapping that has it.
    pub(crate) fn get(&self, key: &str) -> Option<&Item> {
        match &self.content {
            Content::Map(branch) => branch.items.iter().find(|item| item.key.as_deref() == Some(key)),
            _ => None,
        }
    }

    /// The text of a single value that is text.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.content {
            Content::Leaf(leaf) => leaf.value.plain.expose_text(),
            _ => None,
        }
    }
}

/// What a walk comes to.
#[derive(Clone, Copy)]
pub(crate) enum Visit<'a> {
    /// A value.
    Value { path: &'a Path, comments: &'a [Vec<&'a str>], node: &'a Node, leaf: &'a Leaf, item: &'a Item },
    /// A comment, whose own text is the last of the comments.
    Comment { path: &'a Path, comments: &'a [Vec<&'a str>], comment: &'a Comment },
}

/// Goes through a document in its order, with the comments that are in force at every place: those before the value and
/// before each of the mappings and lists around it.
pub(crate) fn walk<'a, E>(
    tree: &'a Tree,
    document: &'a Document,
    visit: &mut dyn FnMut(Visit<'_>) -> Result<(), E>,
) -> Result<(), E> {
    walk_node(tree, &document.root, &Path::default(), &mut Vec::new(), true, visit)
}

fn walk_node<'a, E>(
    tree: &'a Tree,
    node: &'a Node,
    path: &Path,
    comments: &mut Vec<Vec<&'a str>>,
    root: bool,
    visit: &mut dyn FnMut(Visit<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let (Content::Map(branch) | Content::Seq(branch)) = &node.content else { return Ok(()) };
    comments.push(Vec::new());
    let own = comments.len() - 1;
    let mut index = 0;
    for item in &branch.items {
        let metadata = root && item.key.as_deref().is_some_and(|key| tree.is_metadata(key));
        walk_comments(tree, &item.comments, path, comments, visit)?;
        if metadata {
            continue;
        }
        let below = match &item.key {
            Some(key) => path.key(key),
            None => path.index(index),
        };
        // Comments that stand in a list like values have no position in it.
        index += usize::from(!item.node.text().is_some_and(cipher::is_comment));
        match &item.node.content {
            Content::Leaf(leaf) => {
                visit(Visit::Value { path: &below, comments, node: &item.node, leaf, item })?;
            }
            _ => walk_node(tree, &item.node, &below, comments, false, visit)?,
        }
        comments[own].clear();
    }
    walk_comments(tree, &branch.after, path, comments, visit)?;
    comments.pop();
    Ok(())
}

fn walk_comments<'a, E>(
    tree: &'a Tree,
    indices: &[usize],
    path: &Path,
    comments: &mut [Vec<&'a str>],
    visit: &mut dyn FnMut(Visit<'_>) -> Result<(), E>,
) -> Result<(), E> {
    for comment in indices.iter().filter_map(|index| tree.comments.get(*index)) {
        if let Some(own) = comments.last_mut() {
            own.push(&comment.text);
        }
        visit(Visit::Comment { path, comments, comment })?;
    }
    Ok(())
}

/// Changes of a text, each at its place.
#[derive(Default)]
pub(crate) struct Edits(Vec<(Range<usize>, String)>);

impl Edits {
    /// Replaces what stands there.
    pub(crate) fn replace(&mut self, span: Range<usize>, text: impl Into<String>) {
        self.0.push((span, text.into()));
    }

    /// The changed text. Of two changes at one place the first stays; what is within another is left out.
    pub(crate) fn apply(mut self, text: &str) -> String {
        self.0.sort_by_key(|(span, _)| (span.start, std::cmp::Reverse(span.end)));
        let more: usize = self.0.iter().map(|(_, with)| with.len()).sum();
        let mut out = String::with_capacity(text.len() + more);
        let mut at = 0;
        for (span, with) in &self.0 {
            if span.start < at {
                continue;
            }
            out.push_str(text.get(at..span.start).unwrap_or_default());
            out.push_str(with);
            at = span.end;
        }
        out.push_str(text.get(at..).unwrap_or_default());
        out
    }
}

/// Line and column of a place in a text, from 1.
pub(crate) fn position(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}
