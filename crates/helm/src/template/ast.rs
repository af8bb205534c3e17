//! Parsed templates.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use crate::chart::File;
use crate::funcs::Function;
use crate::strconv;

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
    text: SourceText,
}

#[derive(Debug)]
enum SourceText {
    /// One of a chart's files, which is valid UTF-8.
    File(Arc<[File]>, usize),
    Own(Vec<u8>),
}

impl Source {
    /// A text of its own.
    pub(crate) fn of_text(name: Rc<str>, text: &[u8]) -> Self {
        Source { name, text: SourceText::Own(strconv::lossy(text).into_owned().into_bytes()) }
    }

    /// One of several files, without a copy of it.
    pub(crate) fn of_file(name: Rc<str>, files: &Arc<[File]>, index: usize) -> Self {
        match std::str::from_utf8(&files[index].data) {
            Ok(_) => Source { name, text: SourceText::File(files.clone(), index) },
            Err(_) => Source::of_text(name, &files[index].data),
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.text {
            SourceText::File(files, index) => &files[*index].data,
            SourceText::Own(text) => text,
        }
    }

    /// A part of the text.
    pub(crate) fn text(&self, range: &Range<u32>) -> &[u8] {
        self.bytes().get(range.start as usize..range.end as usize).unwrap_or_default()
    }

    /// Line and column of a byte offset, counted as Go counts them: lines from 1, columns from 0 in bytes.
    pub(crate) fn line_column(&self, position: u32) -> (usize, usize) {
        let text = self.bytes();
        let before = &text[..(position as usize).min(text.len())];
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
    /// Where in the source the text is.
    Text(Range<u32>),
    Action {
        id: NodeId,
        position: u32,
        pipe: Pipe,
    },
    If(Box<Branch>),
    With(Box<Branch>),
    Range(Box<Branch>),
    Template {
        id: NodeId,
        position: u32,
        name: Rc<str>,
        pipe: Option<Box<Pipe>>,
    },
    Break,
    Continue,
}

#[derive(Debug)]
pub(crate) struct Branch {
    pub(crate) id: NodeId,
    pub(crate) position: u32,
    pub(crate) pipe: Pipe,
    pub(crate) list: ListNode,
    pub(crate) otherwise: Option<ListNode>,
}

#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) id: NodeId,
    pub(crate) position: u32,
    pub(crate) assign: bool,
    pub(crate) declared: Vec<Rc<str>>,
    pub(crate) first: Command,
    /// The commands that get the value of the one before as their last argument.
    pub(crate) rest: Vec<Command>,
}

impl Pipe {
    pub(crate) fn commands(&self) -> impl Iterator<Item = &Command> {
        std::iter::once(&self.first).chain(&self.rest)
    }
}

#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) id: NodeId,
    pub(crate) position: u32,
    /// What is evaluated or called.
    pub(crate) first: Expr,
    pub(crate) args: Vec<Expr>,
}

impl Command {
    pub(crate) fn operands(&self) -> impl Iterator<Item = &Expr> {
        std::iter::once(&self.first).chain(&self.args)
    }
}

#[derive(Debug)]
pub(crate) struct Expr {
    pub(crate) id: NodeId,
    pub(crate) position: u32,
    pub(crate) kind: ExprKind,
}

#[derive(Debug)]
pub(crate) enum ExprKind {
    Bool(bool),
    Dot,
    Nil,
    Number(Box<Number>),
    String(Box<Quoted>),
    /// `.a.b` as `a.b`.
    Field(Box<str>),
    /// `$a.b` as it is.
    Variable(Box<str>),
    Function(&'static Function),
    Pipe(Box<Pipe>),
    /// What follows a parenthesis or a function, as `a.b`.
    Chain(Box<Expr>, Box<str>),
}

/// A string constant as it was written, and what it means.
#[derive(Debug)]
pub(crate) struct Quoted {
    pub(crate) quoted: Box<str>,
    pub(crate) text: crate::value::Str,
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
