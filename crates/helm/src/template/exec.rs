//! Runs parsed templates.

mod calls;
mod operands;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use bumpalo::Bump;

use super::ast::{Branch, Node, NodeId, Pipe, Tree};
use super::methods;
use super::parse;
use super::show;
use crate::error::Location;
use crate::funcs::cost;
use crate::limits::Limits;
use crate::lookup::Lookup;
use crate::printf;
use crate::random::Random;
use crate::strconv;
use crate::time::GoTime;
use crate::value::{MapKind, Value};

/// Templates by name.
pub(crate) type Templates<'a> = HashMap<&'a str, &'a Tree<'a>>;

/// All templates there are; what `tpl` defines lies over what the chart's files defined.
#[derive(Clone, Default)]
pub(crate) struct TemplateSet<'a> {
    base: Rc<Templates<'a>>,
    overlay: Templates<'a>,
}

impl<'a> TemplateSet<'a> {
    pub(crate) fn new(base: Templates<'a>) -> Self {
        TemplateSet { base: Rc::new(base), overlay: HashMap::new() }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&'a Tree<'a>> {
        self.overlay.get(name).or_else(|| self.base.get(name)).copied()
    }
}

/// Adds a tree to a name space: an empty one never replaces a definition.
pub(crate) fn associate<'a>(map: &mut Templates<'a>, base: Option<&TemplateSet<'a>>, tree: &'a Tree<'a>) {
    let exists = map.contains_key(tree.name) || base.is_some_and(|b| b.get(tree.name).is_some());
    if exists && parse::is_blank(tree) {
        return;
    }
    map.insert(tree.name, tree);
}

/// What every template of one rendering shares.
pub(crate) struct Env<'a> {
    /// Where the templates are that `tpl` parses.
    pub(crate) arena: &'a Bump,
    pub(crate) now: GoTime,
    pub(crate) random: RefCell<Random>,
    pub(crate) limits: Limits,
    pub(crate) regexes: RefCell<HashMap<Rc<str>, Rc<regex::bytes::Regex>>>,
    /// Missing keys are errors.
    pub(crate) strict: bool,
    /// What templates see of a cluster.
    pub(crate) lookup: &'a dyn Lookup,
    includes: RefCell<HashMap<Rc<str>, u32>>,
    /// The templates of the texts that `tpl` has seen.
    parsed: RefCell<HashMap<Rc<[u8]>, &'a [Tree<'a>]>>,
    steps: Cell<u64>,
    depth: Cell<usize>,
}

impl<'a> Env<'a> {
    pub(crate) fn new(
        arena: &'a Bump,
        now: GoTime,
        random: Random,
        limits: Limits,
        strict: bool,
        lookup: &'a dyn Lookup,
    ) -> Self {
        Env {
            arena,
            now,
            random: RefCell::new(random),
            limits,
            strict,
            lookup,
            regexes: RefCell::default(),
            includes: RefCell::default(),
            parsed: RefCell::default(),
            steps: Cell::new(0),
            depth: Cell::new(0),
        }
    }
}

/// Why a template failed: Go's whole message, and the places it went through, outermost first.
#[derive(Debug)]
pub(crate) struct ExecError {
    pub(crate) message: String,
    pub(crate) chain: Vec<Location>,
}

/// Why a function failed.
#[derive(Debug)]
pub(crate) struct FuncError {
    pub(crate) message: String,
    pub(crate) chain: Vec<Location>,
}

impl<S: Into<String>> From<S> for FuncError {
    fn from(message: S) -> Self {
        FuncError { message: message.into(), chain: Vec::new() }
    }
}

impl From<Box<ExecError>> for FuncError {
    fn from(error: Box<ExecError>) -> Self {
        FuncError { message: error.message, chain: error.chain }
    }
}

pub(crate) type Result<T> = std::result::Result<T, Box<ExecError>>;
pub(crate) type FuncResult = std::result::Result<Value, FuncError>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    Break,
    Continue,
}

/// One execution of one template.
pub(crate) struct Exec<'a> {
    pub(crate) env: &'a Env<'a>,
    pub(crate) set: Rc<TemplateSet<'a>>,
    tree: &'a Tree<'a>,
    at: NodeId,
    variables: Vec<(&'a str, Value)>,
    /// Dot is an element of an `interface {}` container, which is the type errors about its fields name.
    dot_is_interface: bool,
    out: Vec<u8>,
}

/// Runs a named template over data and returns what it wrote.
pub(crate) fn execute<'a>(
    env: &'a Env<'a>,
    set: &Rc<TemplateSet<'a>>,
    name: &str,
    data: &Value,
) -> Result<Vec<u8>> {
    let Some(tree) = set.get(name) else {
        return Err(Box::new(ExecError {
            message: format!(
                "template: no template {} associated with template \"gotpl\"",
                strconv::quote(name.as_bytes())
            ),
            chain: Vec::new(),
        }));
    };
    execute_tree(env, set, tree, data)
}

fn execute_tree<'a>(
    env: &'a Env<'a>,
    set: &Rc<TemplateSet<'a>>,
    tree: &'a Tree<'a>,
    data: &Value,
) -> Result<Vec<u8>> {
    let mut exec = Exec {
        env,
        set: set.clone(),
        tree,
        at: 0,
        variables: vec![("$", data.clone())],
        dot_is_interface: false,
        out: Vec::new(),
    };
    exec.enter()?;
    let result = exec.list(data, tree.root);
    exec.leave();
    result?;
    Ok(exec.out)
}

impl<'a> Exec<'a> {
    fn enter(&self) -> Result<()> {
        let depth = self.env.depth.get() + 1;
        if depth > self.env.limits.depth {
            return self.fail(format!("exceeded maximum template depth ({})", self.env.limits.depth));
        }
        self.env.depth.set(depth);
        Ok(())
    }

    fn leave(&self) {
        self.env.depth.set(self.env.depth.get() - 1);
    }

    fn fail<T>(&self, message: impl Into<String>) -> Result<T> {
        self.fail_with(FuncError::from(message.into()))
    }

    fn fail_with<T>(&self, error: FuncError) -> Result<T> {
        let name = self.tree.name;
        let quoted = strconv::quote(name.as_bytes());
        let (position, context) =
            show::locate(self.tree, self.at).unwrap_or_else(|| (0, String::from("template")));
        let (line, column) = self.tree.source.line_column(position);
        let file = self.tree.source.name;
        let mut chain = vec![Location { file: file.to_owned(), line, column }];
        chain.extend(error.chain);
        Err(Box::new(ExecError {
            message: format!(
                "template: {file}:{line}:{column}: executing {quoted} at <{context}>: {}",
                error.message
            ),
            chain,
        }))
    }

    fn step(&self) -> Result<()> {
        self.spend(1)
    }

    /// Takes some steps from what one rendering may take.
    fn spend(&self, steps: u64) -> Result<()> {
        let steps = self.env.steps.get().saturating_add(steps);
        self.env.steps.set(steps);
        if steps > self.env.limits.steps {
            return self.fail("the chart's templates run for too long");
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if self.out.len() + bytes.len() > self.env.limits.output {
            return self.fail("the template's output is too large");
        }
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    fn list(&mut self, dot: &Value, list: &'a [Node<'a>]) -> Result<Flow> {
        for node in list {
            let flow = self.node(dot, node)?;
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    fn node(&mut self, dot: &Value, node: &'a Node<'a>) -> Result<Flow> {
        match node {
            Node::Text(text) => self.write(text.as_bytes())?,
            Node::Action { id, pipe, .. } => {
                self.at = *id;
                self.step()?;
                let value = self.pipeline(dot, pipe)?;
                if pipe.declared.is_empty() {
                    self.at = *id;
                    self.print(&value)?;
                }
            }
            Node::If(branch) => return self.conditional(dot, branch, false),
            Node::With(branch) => return self.conditional(dot, branch, true),
            Node::Range(branch) => return self.range(dot, branch),
            Node::Template(invocation) => {
                self.at = invocation.id;
                self.invoke(dot, invocation.name, invocation.pipe)?;
            }
            Node::Break => return Ok(Flow::Break),
            Node::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    fn print(&mut self, value: &Value) -> Result<()> {
        match value {
            Value::Str(s) => self.write(s.as_bytes()),
            Value::Nil | Value::NilInterface => self.write(b"<no value>"),
            other => {
                self.spend(cost::content(std::slice::from_ref(other), self.env.limits.steps))?;
                let text = match methods::addressable_stringer(other) {
                    Some(text) => text.into_bytes(),
                    None => printf::display(other),
                };
                self.write(&text)
            }
        }
    }

    fn conditional(&mut self, dot: &Value, branch: &'a Branch<'a>, with: bool) -> Result<Flow> {
        self.at = branch.id;
        self.step()?;
        let mark = self.variables.len();
        let value = self.pipeline(dot, branch.pipe)?;
        let flow = if value.truth() {
            let outer = self.dot_is_interface;
            self.dot_is_interface &= !with;
            let flow = self.list(if with { &value } else { dot }, branch.list);
            self.dot_is_interface = outer;
            flow
        } else if let Some(otherwise) = branch.otherwise {
            self.list(dot, otherwise)
        } else {
            Ok(Flow::Next)
        };
        self.variables.truncate(mark);
        flow
    }

    fn range(&mut self, dot: &Value, branch: &'a Branch<'a>) -> Result<Flow> {
        self.at = branch.id;
        let mark = self.variables.len();
        let outer = self.dot_is_interface;
        let flow = self.range_over(dot, branch);
        self.dot_is_interface = outer;
        self.variables.truncate(mark);
        flow
    }

    fn range_over(&mut self, dot: &Value, branch: &'a Branch<'a>) -> Result<Flow> {
        let value = self.pipeline(dot, branch.pipe)?;
        let as_element = |v: &Value| if v.is_nil() { Value::NilInterface } else { v.clone() };
        let outer = self.dot_is_interface;
        self.dot_is_interface = match &value {
            Value::List(list) => list.kind.holds_interfaces(),
            Value::Map(map) => map.kind != MapKind::Strings,
            _ => false,
        };
        let mut any = false;
        let count = match &value {
            Value::Int(n) | Value::Int64(n) | Value::Named(_, n, _) | Value::Duration(n) => Some(*n),
            Value::Uint8(n) => Some(i64::from(*n)),
            Value::Uint64(n) => Some(i64::try_from(*n).unwrap_or(i64::MAX)),
            _ => None,
        };
        if let Some(count) = count {
            if branch.pipe.declared.len() > 1 {
                let shown = crate::strconv::lossy(&printf::display(&value)).into_owned();
                return self.fail(format!("can't use {shown} to iterate over more than one variable"));
            }
            for i in 0..count {
                any = true;
                let element = match &value {
                    Value::Int64(_) => Value::Int64(i),
                    Value::Uint8(_) => Value::Uint8(u8::try_from(i).unwrap_or(0)),
                    Value::Uint64(_) => Value::Uint64(i.unsigned_abs()),
                    _ => Value::Int(i),
                };
                if self.iteration(branch, Value::Nil, &element)? == Flow::Break {
                    return Ok(Flow::Next);
                }
            }
        } else {
            match &value {
                Value::List(_) | Value::Bytes(_) => {
                    let interfaces = matches!(&value, Value::List(l) if l.kind.holds_interfaces());
                    let elements = value.elements().unwrap_or_default();
                    for (index, element) in elements.iter().enumerate() {
                        any = true;
                        let index = Value::Int(i64::try_from(index).unwrap_or(0));
                        let element = if interfaces { as_element(element) } else { element.clone() };
                        if self.iteration(branch, index, &element)? == Flow::Break {
                            return Ok(Flow::Next);
                        }
                    }
                }
                Value::Map(map) => {
                    let entries: Vec<_> =
                        map.entries.borrow().iter().map(|(k, v)| (k.clone(), v.clone())).collect();
                    for (key, element) in entries {
                        any = true;
                        if self.iteration(branch, Value::Str(key), &as_element(&element))? == Flow::Break {
                            return Ok(Flow::Next);
                        }
                    }
                }
                Value::Files(files) => {
                    for (name, data) in files.clone().iter() {
                        any = true;
                        let flow = self.iteration(branch, Value::string(name), &Value::Bytes(data.into()))?;
                        if flow == Flow::Break {
                            return Ok(Flow::Next);
                        }
                    }
                }
                Value::Nil | Value::NilInterface => {}
                other => {
                    let shown = crate::strconv::lossy(&printf::display(other)).into_owned();
                    return self.fail(format!("range can't iterate over {shown}"));
                }
            }
        }
        self.dot_is_interface = outer;
        match branch.otherwise {
            Some(otherwise) if !any => self.list(dot, otherwise),
            _ => Ok(Flow::Next),
        }
    }

    fn iteration(&mut self, branch: &'a Branch<'a>, index: Value, element: &Value) -> Result<Flow> {
        self.step()?;
        let mark = self.variables.len();
        let declared = branch.pipe.declared;
        if branch.pipe.assign {
            match declared {
                [one] => self.set_variable(one, element.clone())?,
                [first, second] => {
                    self.set_variable(first, index)?;
                    self.set_variable(second, element.clone())?;
                }
                _ => {}
            }
        } else if !declared.is_empty() {
            self.variables[mark - 1].1 = element.clone();
            if declared.len() > 1 {
                self.variables[mark - 2].1 = index;
            }
        }
        let flow = self.list(element, branch.list);
        self.variables.truncate(mark);
        flow
    }

    fn invoke(&mut self, dot: &Value, name: &str, pipe: Option<&'a Pipe<'a>>) -> Result<()> {
        let Some(tree) = self.set.get(name) else {
            return self.fail(format!("template {} not defined", strconv::quote(name.as_bytes())));
        };
        let data = match pipe {
            Some(pipe) => self.pipeline(dot, pipe)?,
            None => Value::Nil,
        };
        self.enter()?;
        let caller = std::mem::replace(&mut self.tree, tree);
        let at = self.at;
        let variables = std::mem::replace(&mut self.variables, vec![("$", data.clone())]);
        let outer = std::mem::replace(&mut self.dot_is_interface, false);
        let result = self.list(&data, tree.root);
        self.dot_is_interface = outer;
        self.leave();
        self.tree = caller;
        self.at = at;
        self.variables = variables;
        result.map(|_| ())
    }
}
