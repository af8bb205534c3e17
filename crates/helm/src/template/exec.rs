//! Runs parsed templates.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use super::ast::{Branch, Command, Expr, ExprKind, ListNode, Node, NodeId, Number, Pipe, Source, Tree};
use super::methods;
use super::parse::{self, ParseError};
use super::show;
use crate::error::Location;
use crate::funcs::{Function, Signature, Type};
use crate::limits::Limits;
use crate::printf;
use crate::random::Random;
use crate::strconv;
use crate::time::GoTime;
use crate::value::{Map, MapKind, Value};

/// Templates by name; what `tpl` defines lies over what the chart's files defined.
#[derive(Clone, Default)]
pub(crate) struct TemplateSet {
    base: Rc<HashMap<Rc<str>, Rc<Tree>>>,
    overlay: HashMap<Rc<str>, Rc<Tree>>,
}

impl TemplateSet {
    pub(crate) fn new(base: HashMap<Rc<str>, Rc<Tree>>) -> Self {
        TemplateSet { base: Rc::new(base), overlay: HashMap::new() }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Rc<Tree>> {
        self.overlay.get(name).or_else(|| self.base.get(name))
    }
}

/// Adds a tree to a name space: an empty one never replaces a definition.
pub(crate) fn associate(map: &mut HashMap<Rc<str>, Rc<Tree>>, base: Option<&TemplateSet>, tree: &Rc<Tree>) {
    let exists = map.contains_key(&tree.name) || base.is_some_and(|b| b.get(&tree.name).is_some());
    if exists && parse::is_blank(tree) {
        return;
    }
    map.insert(tree.name.clone(), tree.clone());
}

/// The templates of one text.
type Parsed = Rc<[Rc<Tree>]>;

/// What every template of one rendering shares.
pub(crate) struct Env {
    pub(crate) now: GoTime,
    pub(crate) random: RefCell<Random>,
    pub(crate) limits: Limits,
    pub(crate) regexes: RefCell<HashMap<Rc<str>, Rc<regex::bytes::Regex>>>,
    /// Missing keys are errors.
    pub(crate) strict: bool,
    includes: RefCell<HashMap<Rc<str>, u32>>,
    parsed: RefCell<HashMap<Rc<[u8]>, Parsed>>,
    steps: Cell<u64>,
    depth: Cell<usize>,
}

impl Env {
    pub(crate) fn new(now: GoTime, random: Random, limits: Limits, strict: bool) -> Self {
        Env {
            now,
            random: RefCell::new(random),
            limits,
            strict,
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
pub(crate) struct Exec<'e> {
    pub(crate) env: &'e Env,
    pub(crate) set: Rc<TemplateSet>,
    tree: Rc<Tree>,
    at: NodeId,
    variables: Vec<(Rc<str>, Value)>,
    /// Dot is an element of an `interface {}` container, which is the type errors about its fields name.
    dot_is_interface: bool,
    out: Vec<u8>,
}

/// Runs a named template over data and returns what it wrote.
pub(crate) fn execute(env: &Env, set: &Rc<TemplateSet>, name: &str, data: &Value) -> Result<Vec<u8>> {
    let Some(tree) = set.get(name).cloned() else {
        return Err(Box::new(ExecError {
            message: format!(
                "template: no template {} associated with template \"gotpl\"",
                strconv::quote(name.as_bytes())
            ),
            chain: Vec::new(),
        }));
    };
    execute_tree(env, set, &tree, data)
}

fn execute_tree(env: &Env, set: &Rc<TemplateSet>, tree: &Rc<Tree>, data: &Value) -> Result<Vec<u8>> {
    let mut exec = Exec {
        env,
        set: set.clone(),
        tree: tree.clone(),
        at: 0,
        variables: vec![("$".into(), data.clone())],
        dot_is_interface: false,
        out: Vec::new(),
    };
    exec.enter()?;
    let result = exec.list(data, &tree.root);
    exec.leave();
    result?;
    Ok(exec.out)
}

impl<'e> Exec<'e> {
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
        let name = &self.tree.name;
        let quoted = strconv::quote(name.as_bytes());
        let (position, context) =
            show::locate(&self.tree, self.at).unwrap_or_else(|| (0, String::from("template")));
        let (line, column) = self.tree.source.line_column(position);
        let file = &self.tree.source.name;
        let mut chain = vec![Location { file: file.to_string(), line, column }];
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
        let steps = self.env.steps.get() + 1;
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

    fn list(&mut self, dot: &Value, list: &ListNode) -> Result<Flow> {
        for node in &list.nodes {
            let flow = self.node(dot, node)?;
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    fn node(&mut self, dot: &Value, node: &Node) -> Result<Flow> {
        match node {
            Node::Text(range) => {
                let tree = self.tree.clone();
                self.write(tree.source.text(range))?;
            }
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
            Node::Template { id, name, pipe, .. } => {
                self.at = *id;
                self.invoke(dot, name, pipe.as_deref())?;
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
                let text = match methods::addressable_stringer(other) {
                    Some(text) => text.into_bytes(),
                    None => printf::display(other),
                };
                self.write(&text)
            }
        }
    }

    fn conditional(&mut self, dot: &Value, branch: &Branch, with: bool) -> Result<Flow> {
        self.at = branch.id;
        self.step()?;
        let mark = self.variables.len();
        let value = self.pipeline(dot, &branch.pipe)?;
        let flow = if value.truth() {
            let outer = self.dot_is_interface;
            self.dot_is_interface &= !with;
            let flow = self.list(if with { &value } else { dot }, &branch.list);
            self.dot_is_interface = outer;
            flow
        } else if let Some(otherwise) = &branch.otherwise {
            self.list(dot, otherwise)
        } else {
            Ok(Flow::Next)
        };
        self.variables.truncate(mark);
        flow
    }

    fn range(&mut self, dot: &Value, branch: &Branch) -> Result<Flow> {
        self.at = branch.id;
        let mark = self.variables.len();
        let outer = self.dot_is_interface;
        let flow = self.range_over(dot, branch);
        self.dot_is_interface = outer;
        self.variables.truncate(mark);
        flow
    }

    fn range_over(&mut self, dot: &Value, branch: &Branch) -> Result<Flow> {
        let value = self.pipeline(dot, &branch.pipe)?;
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
        match &branch.otherwise {
            Some(otherwise) if !any => self.list(dot, otherwise),
            _ => Ok(Flow::Next),
        }
    }

    fn iteration(&mut self, branch: &Branch, index: Value, element: &Value) -> Result<Flow> {
        self.step()?;
        let mark = self.variables.len();
        let declared = &branch.pipe.declared;
        if branch.pipe.assign {
            match declared.as_slice() {
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
        let flow = self.list(element, &branch.list);
        self.variables.truncate(mark);
        flow
    }

    fn invoke(&mut self, dot: &Value, name: &str, pipe: Option<&Pipe>) -> Result<()> {
        let Some(tree) = self.set.get(name).cloned() else {
            return self.fail(format!("template {} not defined", strconv::quote(name.as_bytes())));
        };
        let data = match pipe {
            Some(pipe) => self.pipeline(dot, pipe)?,
            None => Value::Nil,
        };
        self.enter()?;
        let caller = std::mem::replace(&mut self.tree, tree.clone());
        let at = self.at;
        let variables = std::mem::replace(&mut self.variables, vec![("$".into(), data.clone())]);
        let outer = std::mem::replace(&mut self.dot_is_interface, false);
        let result = self.list(&data, &tree.root);
        self.dot_is_interface = outer;
        self.leave();
        self.tree = caller;
        self.at = at;
        self.variables = variables;
        result.map(|_| ())
    }

    fn variable(&self, name: &str) -> Result<Value> {
        match self.variables.iter().rev().find(|(n, _)| **n == *name) {
            Some((_, value)) => Ok(value.clone()),
            None => self.fail(format!("undefined variable: {name}")),
        }
    }

    fn set_variable(&mut self, name: &str, value: Value) -> Result<()> {
        match self.variables.iter_mut().rev().find(|(n, _)| **n == *name) {
            Some(slot) => {
                slot.1 = value;
                Ok(())
            }
            None => self.fail(format!("undefined variable: {name}")),
        }
    }

    fn pipeline(&mut self, dot: &Value, pipe: &Pipe) -> Result<Value> {
        self.at = pipe.id;
        let mut value = self.command(dot, &pipe.first, None)?.into_argument();
        for command in &pipe.rest {
            value = self.command(dot, command, Some(value))?.into_argument();
        }
        for name in &pipe.declared {
            if pipe.assign {
                self.set_variable(name, value.clone())?;
            } else {
                self.variables.push((name.clone(), value.clone()));
            }
        }
        Ok(value)
    }

    fn command(&mut self, dot: &Value, command: &Command, last: Option<Value>) -> Result<Value> {
        let (first, args) = (&command.first, command.args.as_slice());
        match &first.kind {
            ExprKind::Field(path) => {
                self.at = first.id;
                self.field_chain(dot, dot.clone(), self.dot_is_interface, path, first.id, args, last)
            }
            ExprKind::Chain(..) => self.chain(dot, first, args, last),
            ExprKind::Variable(path) => self.variable_chain(dot, path, first, args, last),
            ExprKind::Function(function) => self.function(dot, function, first.id, command.id, args, last),
            ExprKind::Pipe(pipe) => {
                self.not_a_function(first, args, last.as_ref())?;
                self.pipeline(dot, pipe)
            }
            kind => {
                self.at = first.id;
                self.not_a_function(first, args, last.as_ref())?;
                match kind {
                    ExprKind::Bool(b) => Ok(Value::Bool(*b)),
                    ExprKind::Dot => Ok(dot.clone()),
                    ExprKind::Nil => self.fail("nil is not a command"),
                    ExprKind::Number(number) => self.constant(number),
                    ExprKind::String(string) => Ok(Value::Str(string.text.clone())),
                    _ => self.fail(format!("can't evaluate command {}", show::show_expr(first))),
                }
            }
        }
    }

    fn not_a_function(&self, first: &Expr, args: &[Expr], last: Option<&Value>) -> Result<()> {
        if !args.is_empty() || last.is_some() {
            return self.fail(format!("can't give argument to non-function {}", show::show_expr(first)));
        }
        Ok(())
    }

    /// The value of a number where nothing says which type is wanted.
    fn constant(&self, number: &Number) -> Result<Value> {
        let text = number.text.as_str();
        if number.complex {
            return self.fail(format!("complex number {text} is not supported"));
        }
        let hex = text.len() > 2
            && (text.starts_with("0x") || text.starts_with("0X"))
            && !text.contains(['p', 'P']);
        match (number.float, number.int) {
            (Some(f), _) if !hex && !text.starts_with('\'') && text.contains(['.', 'e', 'E', 'p', 'P']) => {
                Ok(Value::Float(f))
            }
            (_, Some(i)) => Ok(Value::Int(i)),
            _ => self.fail(format!("{text} overflows int")),
        }
    }

    fn chain(&mut self, dot: &Value, expr: &Expr, args: &[Expr], last: Option<Value>) -> Result<Value> {
        self.at = expr.id;
        let ExprKind::Chain(inner, path) = &expr.kind else { return self.fail("not a chain") };
        let receiver = match &inner.kind {
            ExprKind::Nil => {
                return self.fail(format!("indirection through explicit nil in {}", show::show_expr(expr)));
            }
            ExprKind::Pipe(pipe) => self.pipeline(dot, pipe)?,
            ExprKind::Function(function) => self.function(dot, function, inner.id, inner.id, &[], None)?,
            _ => self.argument(dot, Type::Any, inner)?,
        };
        self.field_chain(dot, receiver, false, path, expr.id, args, last)
    }

    fn variable_chain(
        &mut self,
        dot: &Value,
        path: &str,
        expr: &Expr,
        args: &[Expr],
        last: Option<Value>,
    ) -> Result<Value> {
        self.at = expr.id;
        let Some((name, fields)) = path.split_once('.') else {
            let value = self.variable(path)?;
            self.not_a_function(expr, args, last.as_ref())?;
            return Ok(value);
        };
        let value = self.variable(name)?;
        self.field_chain(dot, value, false, fields, expr.id, args, last)
    }

    #[expect(clippy::too_many_arguments, reason = "a chain carries the context of its call")]
    fn field_chain(
        &mut self,
        dot: &Value,
        mut receiver: Value,
        mut from_interface: bool,
        path: &str,
        node: NodeId,
        args: &[Expr],
        last: Option<Value>,
    ) -> Result<Value> {
        let mut path = path;
        while let Some((name, rest)) = path.split_once('.') {
            let next = self.field(dot, &receiver, name, node, &[], None, from_interface)?;
            from_interface = matches!(&receiver, Value::Map(m) if m.kind != MapKind::Strings);
            receiver = next;
            path = rest;
        }
        self.field(dot, &receiver, path, node, args, last, from_interface)
    }

    #[expect(clippy::too_many_arguments, reason = "mirrors one step of a chain, which has this much context")]
    fn field(
        &mut self,
        dot: &Value,
        receiver: &Value,
        name: &str,
        node: NodeId,
        args: &[Expr],
        last: Option<Value>,
        from_interface: bool,
    ) -> Result<Value> {
        match receiver {
            Value::Nil if self.env.strict => {
                return self.fail(format!("nil data; no entry for key {}", strconv::quote(name.as_bytes())));
            }
            Value::Nil => return Ok(Value::Nil),
            Value::NilInterface => {
                return self.fail(format!("nil pointer evaluating interface {{}}.{name}"));
            }
            Value::Map(map) if map.kind != MapKind::Values => {
                return self.map_field(map, name, !args.is_empty() || last.is_some());
            }
            _ => {}
        }
        if let Some(method) = methods::find(receiver, name) {
            let args = self.call_arguments(dot, name, &method.signature, args, last)?;
            return match (method.run)(receiver, self, &args) {
                Ok(value) => Ok(value),
                Err(mut error) => {
                    self.at = node;
                    error.message = format!("error calling {name}: {}", error.message);
                    self.fail_with(error)
                }
            };
        }
        let has_args = !args.is_empty() || last.is_some();
        match receiver {
            Value::Map(map) => return self.map_field(map, name, has_args),
            Value::Struct(s) => {
                if let Some(value) = s.field(name) {
                    if has_args {
                        return self.fail(format!("{name} has arguments but cannot be invoked as function"));
                    }
                    return Ok(value.clone());
                }
            }
            Value::Files(files) => {
                if has_args {
                    return self.fail(format!("{name} is not a method but has arguments"));
                }
                return Ok(Value::Bytes(files.get(name).unwrap_or_default().into()));
            }
            _ => {}
        }
        let type_name = if from_interface { "interface {}".into() } else { receiver.type_name() };
        self.fail(format!("can't evaluate field {name} in type {type_name}"))
    }

    fn map_field(&self, map: &Map, name: &str, has_args: bool) -> Result<Value> {
        if has_args {
            return self.fail(format!("{name} is not a method but has arguments"));
        }
        match map.get(name.as_bytes()) {
            Some(Value::Nil) => Ok(Value::NilInterface),
            Some(value) => Ok(value),
            None if self.env.strict => {
                self.fail(format!("map has no entry for key {}", strconv::quote(name.as_bytes())))
            }
            None if map.kind == MapKind::Strings => Ok(Value::string("")),
            None => Ok(Value::NilInterface),
        }
    }

    fn function(
        &mut self,
        dot: &Value,
        function: &'static Function,
        identifier: NodeId,
        command: NodeId,
        args: &[Expr],
        last: Option<Value>,
    ) -> Result<Value> {
        self.at = identifier;
        let name = function.name;
        if matches!(name, "and" | "or") {
            return self.short_circuit(dot, name, args, last);
        }
        let callee = (name == "call").then(|| match (args.first(), &last) {
            (Some(expr), _) => show::show_expr(expr),
            (None, Some(Value::Str(text))) => text.text().into_owned(),
            (None, Some(value)) => format!("<{} Value>", value.type_name()),
            (None, None) => String::new(),
        });
        let mut args = self.call_arguments(dot, name, &function.signature, args, last)?;
        // `call` names what it was given; no value a template can reach is a function.
        args.extend(callee.map(Value::string));
        self.step()?;
        match (function.run)(self, &mut args) {
            Ok(value) => {
                self.check_size(&value)?;
                Ok(value)
            }
            Err(mut error) => {
                self.at = command;
                error.message = format!("error calling {name}: {}", error.message);
                self.fail_with(error)
            }
        }
    }

    fn check_size(&self, value: &Value) -> Result<()> {
        let too_large = match value {
            Value::Str(s) => s.len() > self.env.limits.output,
            Value::List(l) => l.items.len() > self.env.limits.list,
            _ => false,
        };
        if too_large { self.fail("the value is too large") } else { Ok(()) }
    }

    fn short_circuit(
        &mut self,
        dot: &Value,
        name: &str,
        args: &[Expr],
        last: Option<Value>,
    ) -> Result<Value> {
        if args.is_empty() && last.is_none() {
            return self.fail(format!("wrong number of args for {name}: want at least 1 got 0"));
        }
        let mut value = Value::Nil;
        for arg in args {
            value = self.argument(dot, Type::Reflect, arg)?;
            if value.truth() == (name == "or") {
                return Ok(value);
            }
        }
        Ok(last.unwrap_or(value))
    }

    fn call_arguments(
        &mut self,
        dot: &Value,
        name: &str,
        signature: &Signature,
        args: &[Expr],
        last: Option<Value>,
    ) -> Result<Vec<Value>> {
        let given = args.len() + usize::from(last.is_some());
        let fixed = signature.params.len();
        if signature.variadic.is_some() {
            if given < fixed {
                return self.fail(format!(
                    "wrong number of args for {name}: want at least {fixed} got {}",
                    args.len()
                ));
            }
        } else if given != fixed {
            return self.fail(format!("wrong number of args for {name}: want {fixed} got {given}"));
        }
        let parameter =
            |i: usize| signature.params.get(i).copied().or(signature.variadic).unwrap_or(Type::Any);
        let mut values = Vec::with_capacity(given);
        for (i, arg) in args.iter().enumerate() {
            values.push(self.argument(dot, parameter(i), arg)?);
        }
        if let Some(value) = last {
            values.push(self.validate(value, parameter(given - 1))?);
        }
        Ok(values)
    }

    fn argument(&mut self, dot: &Value, wanted: Type, expr: &Expr) -> Result<Value> {
        self.at = expr.id;
        let value = match &expr.kind {
            ExprKind::Dot => dot.clone(),
            ExprKind::Nil => {
                return match wanted.nil() {
                    Some(nil) => Ok(nil),
                    None => self.fail(format!("cannot assign nil to {}", wanted.go_name())),
                };
            }
            ExprKind::Field(path) => {
                self.field_chain(dot, dot.clone(), self.dot_is_interface, path, expr.id, &[], None)?
            }
            ExprKind::Variable(path) => self.variable_chain(dot, path, expr, &[], None)?,
            ExprKind::Pipe(pipe) => self.pipeline(dot, pipe)?,
            ExprKind::Function(function) => self.function(dot, function, expr.id, expr.id, &[], None)?,
            ExprKind::Chain(..) => self.chain(dot, expr, &[], None)?,
            literal => return self.literal(literal, wanted, expr),
        };
        self.validate(value, wanted)
    }

    fn literal(&self, literal: &ExprKind, wanted: Type, expr: &Expr) -> Result<Value> {
        let expected = |what: &str| self.fail(format!("expected {what}; found {}", show::show_expr(expr)));
        match (wanted, literal) {
            (Type::Bool, ExprKind::Bool(b)) => Ok(Value::Bool(*b)),
            (Type::Bool, _) => expected("bool"),
            (Type::Str, ExprKind::String(string)) => Ok(Value::Str(string.text.clone())),
            (Type::Str, _) => expected("string"),
            (Type::Int, ExprKind::Number(number)) => {
                number.int.map_or_else(|| expected("integer"), |i| Ok(Value::Int(i)))
            }
            (Type::Int, _) => expected("integer"),
            (Type::Uint32, ExprKind::Number(number)) => {
                number.uint.map_or_else(|| expected("unsigned integer"), |u| Ok(Value::Uint64(u)))
            }
            (Type::Uint32, _) => expected("unsigned integer"),
            (Type::Float, ExprKind::Number(number)) => {
                number.float.map_or_else(|| expected("float"), |f| Ok(Value::Float(f)))
            }
            (Type::Float, _) => expected("float"),
            (Type::Any | Type::Reflect, ExprKind::Bool(b)) => Ok(Value::Bool(*b)),
            (Type::Any | Type::Reflect, ExprKind::String(string)) => Ok(Value::Str(string.text.clone())),
            (Type::Any | Type::Reflect, ExprKind::Number(number)) => self.constant(number),
            _ => self.fail(format!(
                "can't handle {} for arg of type {}",
                show::show_expr(expr),
                wanted.go_name()
            )),
        }
    }

    /// Checks that a value may be passed as a parameter of a type.
    fn validate(&self, value: Value, wanted: Type) -> Result<Value> {
        if matches!(value, Value::Nil) {
            return match wanted.nil() {
                Some(nil) => Ok(nil),
                None => self.fail(format!("invalid value; expected {}", wanted.go_name())),
            };
        }
        if wanted == Type::Reflect {
            return Ok(value);
        }
        if wanted == Type::Any {
            return Ok(value.into_argument());
        }
        if wanted.accepts(&value) {
            return Ok(value);
        }
        self.fail(format!("wrong type for value; expected {}; got {}", wanted.go_name(), value.type_name()))
    }

    /// Helm's `include`: a named template's output as a string.
    pub(crate) fn include(&mut self, name: &str, data: &Value) -> FuncResult {
        let key: Rc<str> = name.into();
        {
            let mut includes = self.env.includes.borrow_mut();
            let count = includes.entry(key.clone()).or_insert(0);
            if *count > 1000 {
                return Err(format!(
                    "rendering template has a nested reference name: {name}: unable to execute template"
                )
                .into());
            }
            *count += 1;
        }
        let result = execute(self.env, &self.set.clone(), name, data);
        if let Some(count) = self.env.includes.borrow_mut().get_mut(&key) {
            *count = count.saturating_sub(1);
        }
        Ok(Value::string(result?))
    }

    /// Helm's `tpl`: a string rendered as a template that sees all others.
    pub(crate) fn tpl(&mut self, text: &[u8], data: &Value) -> FuncResult {
        let quoted = || strconv::quote(text);
        let cached = self.env.parsed.borrow().get(text).cloned();
        let trees = match cached {
            Some(trees) => trees,
            None => {
                let trees: Parsed = parse::parse(Source::of_text("gotpl".into(), text))
                    .map_err(|e: ParseError| format!("cannot parse template {}: {e}", quoted()))?
                    .into();
                self.env.parsed.borrow_mut().insert(text.into(), trees.clone());
                trees
            }
        };
        let mut set = (*self.set).clone();
        let mut main = None;
        for tree in trees.iter() {
            if &*tree.name == "gotpl" {
                main = Some(tree.clone());
            }
            let base = self.set.clone();
            associate(&mut set.overlay, Some(&base), tree);
        }
        let Some(main) = main else { return Err("template has no body".into()) };
        let output = execute_tree(self.env, &Rc::new(set), &main, data).map_err(|mut e| {
            e.message = format!("error during tpl function execution for {}: {}", quoted(), e.message);
            e
        })?;
        Ok(Value::string(crate::engine::without_no_value(output)))
    }
}
