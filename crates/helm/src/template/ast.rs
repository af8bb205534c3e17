//! Parsed templates.

use std::rc::Rc;

/// Names a node within the text it was parsed from, so that errors can point at it.
pub(crate) type NodeId = u32;

/// One template: a file's body or a `define`.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) name: Rc<str>,
    /// The file the text came from.
    pub(crate) source: Rc<Source>,
    pub(crate) root: ListNode,
}

/// Template text and its name, for error locations.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) name: Rc<str>,
    pub(crate) text: String,
}

impl Source {
    /// Line and column of a byte offset, counted as Go counts them: lines from 1, columns from 0 in bytes.
    pub(crate) fn line_column(&self, position: usize) -> (usize, usize) {
        let before = &self.text.as_bytes()[..position.min(self.text.len())];
        let line = 1 + before.iter().filter(|b| **b == b'\n').count();
        let column = match before.iter().rposition(|b| *b == b'\n') {
            Some(newline) => before.len() - newline - 1,
            None => before.len(),
        };
        (line, column)
    }
}

#[derive(Debug, Default)]
pub(crate) struct ListNode {
    pub(crate) nodes: Vec<Node>,
}

#[derive(Debug)]
pub(crate) enum Node {
    Text(Rc<[u8]>),
    Action { id: NodeId, position: usize, pipe: Pipe },
    If(Branch),
    With(Branch),
    Range(Branch),
    Template { id: NodeId, position: usize, name: Rc<str>, pipe: Option<Pipe> },
    Break,
    Continue,
}

#[derive(Debug)]
pub(crate) struct Branch {
    pub(crate) id: NodeId,
    pub(crate) position: usize,
    pub(crate) pipe: Pipe,
    pub(crate) list: ListNode,
    pub(crate) otherwise: Option<ListNode>,
}

#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) id: NodeId,
    pub(crate) position: usize,
    pub(crate) assign: bool,
    pub(crate) declared: Vec<Rc<str>>,
    pub(crate) commands: Vec<Command>,
}

#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) id: NodeId,
    pub(crate) position: usize,
    pub(crate) args: Vec<Expr>,
}

#[derive(Debug)]
pub(crate) struct Expr {
    pub(crate) id: NodeId,
    pub(crate) position: usize,
    pub(crate) kind: ExprKind,
}

#[derive(Debug)]
pub(crate) enum ExprKind {
    Bool(bool),
    Dot,
    Nil,
    Number(Number),
    String { quoted: String, text: crate::value::Str },
    Field(Vec<Rc<str>>),
    Variable(Vec<Rc<str>>),
    Identifier(Rc<str>),
    Pipe(Box<Pipe>),
    Chain(Box<Expr>, Vec<Rc<str>>),
}

/// A numeric constant under every type that can hold it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Number {
    pub(crate) int: Option<i64>,
    pub(crate) uint: Option<u64>,
    pub(crate) float: Option<f64>,
    pub(crate) complex: bool,
    pub(crate) text: String,
}
