//! Parsed templates. They borrow their words from the text they were parsed from, and live where the caller keeps them.

use crate::funcs::Function;

/// Names a node within the text it was parsed from, so that errors can point at it.
pub(crate) type NodeId = u32;

/// One template: a file's body or a `define`.
#[derive(Debug)]
pub(crate) struct Tree<'a> {
    pub(crate) name: &'a str,
    /// The file the text came from.
    pub(crate) source: Source<'a>,
    pub(crate) root: &'a [Node<'a>],
}

/// Template text and its name, for error locations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    pub(crate) name: &'a str,
    pub(crate) text: &'a str,
}

impl Source<'_> {
    /// Line and column of a byte offset, counted as Go counts them: lines from 1, columns from 0 in bytes.
    pub(crate) fn line_column(&self, position: u32) -> (usize, usize) {
        let text = self.text.as_bytes();
        let before = &text[..(position as usize).min(text.len())];
        let line = 1 + before.iter().filter(|b| **b == b'\n').count();
        let column = match before.iter().rposition(|b| *b == b'\n') {
            Some(newline) => before.len() - newline - 1,
            None => before.len(),
        };
        (line, column)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Node<'a> {
    Text(&'a str),
    Action { id: NodeId, position: u32, pipe: &'a Pipe<'a> },
    If(&'a Branch<'a>),
    With(&'a Branch<'a>),
    Range(&'a Branch<'a>),
    Template(&'a Invocation<'a>),
    Break,
    Continue,
}

/// `template` or `block`: another template in this place.
#[derive(Debug)]
pub(crate) struct Invocation<'a> {
    pub(crate) id: NodeId,
    pub(crate) position: u32,
    pub(crate) name: &'a str,
    pub(crate) pipe: Option<&'a Pipe<'a>>,
}

#[derive(Debug)]
pub(crate) struct Branch<'a> {
    pub(crate) id: NodeId,
    pub(crate) position: u32,
    pub(crate) pipe: &'a Pipe<'a>,
    pub(crate) list: &'a [Node<'a>],
    pub(crate) otherwise: Option<&'a [Node<'a>]>,
}

#[derive(Debug)]
pub(crate) struct Pipe<'a> {
    pub(crate) id: NodeId,
    pub(crate) position: u32,
    pub(crate) assign: bool,
    pub(crate) declared: &'a [&'a str],
    /// Every command but the first gets the value of the one before as its last argument.
    pub(crate) commands: &'a [Command<'a>],
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Command<'a> {
    pub(crate) id: NodeId,
    pub(crate) position: u32,
    /// What is evaluated or called.
    pub(crate) first: Expr<'a>,
    pub(crate) args: &'a [Expr<'a>],
}

impl<'a> Command<'a> {
    pub(crate) fn operands(&self) -> impl Iterator<Item = &Expr<'a>> {
        std::iter::once(&self.first).chain(self.args)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Expr<'a> {
    pub(crate) id: NodeId,
    pub(crate) position: u32,
    pub(crate) kind: ExprKind<'a>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum ExprKind<'a> {
    Bool(bool),
    Dot,
    Nil,
    Number(&'a Number<'a>),
    String(&'a Quoted<'a>),
    /// `.a.b` as `a.b`.
    Field(&'a str),
    /// `$a.b` as it is.
    Variable(&'a str),
    Function(&'static Function),
    Pipe(&'a Pipe<'a>),
    /// What follows a parenthesis or a function, as `a.b`.
    Chain(&'a Expr<'a>, &'a str),
}

/// A string constant as it was written, and what it means.
#[derive(Debug)]
pub(crate) struct Quoted<'a> {
    pub(crate) quoted: &'a str,
    pub(crate) text: &'a [u8],
}

/// A numeric constant under every type that can hold it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Number<'a> {
    pub(crate) int: Option<i64>,
    pub(crate) uint: Option<u64>,
    pub(crate) float: Option<f64>,
    pub(crate) complex: bool,
    pub(crate) text: &'a str,
}
