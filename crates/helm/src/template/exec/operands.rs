//! Pipelines, commands and what they name: variables, fields, constants.

use super::{Exec, Result};
use crate::funcs::Type;
use crate::strconv;
use crate::template::ast::{Command, Expr, ExprKind, NodeId, Number, Pipe};
use crate::template::{methods, show};
use crate::value::{Map, MapKind, Value};

impl<'a> Exec<'a> {
    pub(super) fn variable(&self, name: &str) -> Result<Value> {
        match self.variables.iter().rev().find(|(n, _)| *n == name) {
            Some((_, value)) => Ok(value.clone()),
            None => self.fail(format!("undefined variable: {name}")),
        }
    }

    pub(super) fn set_variable(&mut self, name: &str, value: Value) -> Result<()> {
        match self.variables.iter_mut().rev().find(|(n, _)| *n == name) {
            Some(slot) => {
                slot.1 = value;
                Ok(())
            }
            None => self.fail(format!("undefined variable: {name}")),
        }
    }

    pub(super) fn pipeline(&mut self, dot: &Value, pipe: &'a Pipe<'a>) -> Result<Value> {
        self.at = pipe.id;
        let mut last = None;
        for command in pipe.commands {
            last = Some(self.command(dot, command, last)?.into_argument());
        }
        let value = last.unwrap_or(Value::Nil);
        for name in pipe.declared {
            if pipe.assign {
                self.set_variable(name, value.clone())?;
            } else {
                self.variables.push((name, value.clone()));
            }
        }
        Ok(value)
    }

    pub(super) fn command(
        &mut self,
        dot: &Value,
        command: &'a Command<'a>,
        last: Option<Value>,
    ) -> Result<Value> {
        let (first, args) = (&command.first, command.args);
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
                    ExprKind::String(string) => Ok(Value::string(string.text)),
                    _ => self.fail(format!("can't evaluate command {}", show::show_expr(first))),
                }
            }
        }
    }

    pub(super) fn not_a_function(
        &self,
        first: &Expr<'_>,
        args: &[Expr<'_>],
        last: Option<&Value>,
    ) -> Result<()> {
        if !args.is_empty() || last.is_some() {
            return self.fail(format!("can't give argument to non-function {}", show::show_expr(first)));
        }
        Ok(())
    }

    /// The value of a number where nothing says which type is wanted.
    pub(super) fn constant(&self, number: &Number<'_>) -> Result<Value> {
        let text = number.text;
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

    pub(super) fn chain(
        &mut self,
        dot: &Value,
        expr: &'a Expr<'a>,
        args: &'a [Expr<'a>],
        last: Option<Value>,
    ) -> Result<Value> {
        self.at = expr.id;
        let ExprKind::Chain(inner, path) = expr.kind else { return self.fail("not a chain") };
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

    pub(super) fn variable_chain(
        &mut self,
        dot: &Value,
        path: &'a str,
        expr: &'a Expr<'a>,
        args: &'a [Expr<'a>],
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
    pub(super) fn field_chain(
        &mut self,
        dot: &Value,
        mut receiver: Value,
        mut from_interface: bool,
        path: &str,
        node: NodeId,
        args: &'a [Expr<'a>],
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
    pub(super) fn field(
        &mut self,
        dot: &Value,
        receiver: &Value,
        name: &str,
        node: NodeId,
        args: &'a [Expr<'a>],
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

    pub(super) fn map_field(&self, map: &Map, name: &str, has_args: bool) -> Result<Value> {
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
}
