//! The way to a value in a document, such as `spec.pools[0].name`.

use std::fmt;

use crate::yaml::{Node, Span, Value};

/// A path, as a chain of borrowed steps: making one costs nothing until it is shown.
#[derive(Clone, Copy)]
pub(crate) enum Path<'a> {
    Root,
    Key(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl Path<'_> {
    pub(crate) fn key<'b>(&'b self, key: &'b str) -> Path<'b> {
        Path::Key(self, key)
    }

    pub(crate) fn index(&self, index: usize) -> Path<'_> {
        Path::Index(self, index)
    }

    /// Whether a predicate holds for this path or one it leads through.
    pub(crate) fn any_step(&self, holds: &impl Fn(&Path<'_>) -> bool) -> bool {
        holds(self)
            || match self {
                Path::Root => false,
                Path::Key(parent, _) | Path::Index(parent, _) => parent.any_step(holds),
            }
    }

    /// The value it leads to, if it is there.
    pub(crate) fn find<'n>(&self, root: &'n Node) -> Option<&'n Node> {
        match self {
            Path::Root => Some(root),
            Path::Key(parent, key) => parent.find(root)?.get(key).map(|e| &e.value),
            Path::Index(parent, index) => parent.find(root)?.item(*index),
        }
    }

    /// What to point at when speaking of it: the value; of a mapping or list its key; of an absent one what should hold it.
    pub(crate) fn point(&self, root: &Node) -> Span {
        match (self.find(root), self) {
            (None, Path::Root) => root.span,
            (None, Path::Key(parent, _) | Path::Index(parent, _)) => parent.point(root),
            (Some(node), Path::Key(parent, key)) if !matches!(node.value, Value::Scalar { .. }) => {
                parent.find(root).and_then(|p| p.get(key)).map_or(node.span, |e| e.key_span)
            }
            (Some(node), _) => first_word(node),
        }
    }

    /// The key it ends with, if that is there; else what should hold it.
    pub(crate) fn point_key(&self, root: &Node) -> Span {
        let entry = match self {
            Path::Key(parent, key) => parent.find(root).and_then(|p| p.get(key)),
            _ => None,
        };
        entry.map_or_else(|| self.point(root), |e| e.key_span)
    }

    /// The path without list positions, such as `spec.pools.name`.
    pub(crate) fn kind(&self) -> String {
        match self {
            Path::Root => String::new(),
            Path::Key(Path::Root, key) => (*key).to_owned(),
            Path::Key(parent, key) => format!("{}.{key}", parent.kind()),
            Path::Index(parent, _) => parent.kind(),
        }
    }
}

/// A scalar whole; of a mapping its first key; of a list its first element.
pub(crate) fn first_word(node: &Node) -> Span {
    match &node.value {
        Value::Scalar { .. } => node.span,
        Value::Seq(items) => items.first().map_or(node.span, first_word),
        Value::Map(entries) => entries.first().map_or(node.span, |e| e.key_span),
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => f.write_str("the document"),
            Path::Key(Path::Root, key) => f.write_str(key),
            Path::Key(parent, key) => write!(f, "{parent}.{key}"),
            Path::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}
