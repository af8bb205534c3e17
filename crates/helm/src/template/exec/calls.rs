//! Calls of functions: their arguments, the types these must have, and the functions that run other templates.

use std::rc::Rc;

use super::{Exec, FuncResult, Result, associate, execute, execute_tree};
use crate::funcs::{Function, Signature, Type, cost};
use crate::strconv;
use crate::template::ast::{Expr, ExprKind, NodeId, Source};
use crate::template::parse;
use crate::template::show;
use crate::value::Value;

impl<'a> Exec<'a> {
    pub(super) fn function(
        &mut self,
        dot: &Value,
        function: &'static Function,
        identifier: NodeId,
        command: NodeId,
        args: &'a [Expr<'a>],
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
        self.spend(1 + function.cost.steps(&args, self.env.limits.steps))?;
        match (function.run)(self, &mut args) {
            Ok(value) => {
                self.check_size(&value)?;
                self.spend(cost::length(&value))?;
                Ok(value)
            }
            Err(mut error) => {
                self.at = command;
                error.message = format!("error calling {name}: {}", error.message);
                self.fail_with(error)
            }
        }
    }

    pub(super) fn check_size(&self, value: &Value) -> Result<()> {
        let too_large = match value {
            Value::Str(s) => s.len() > self.env.limits.output,
            Value::List(l) => l.items.len() > self.env.limits.list,
            _ => false,
        };
        if too_large { self.fail("the value is too large") } else { Ok(()) }
    }

    pub(super) fn short_circuit(
        &mut self,
        dot: &Value,
        name: &str,
        args: &'a [Expr<'a>],
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

    pub(super) fn call_arguments(
        &mut self,
        dot: &Value,
        name: &str,
        signature: &Signature,
        args: &'a [Expr<'a>],
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

    pub(super) fn argument(&mut self, dot: &Value, wanted: Type, expr: &'a Expr<'a>) -> Result<Value> {
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

    pub(super) fn literal(&self, literal: &ExprKind<'_>, wanted: Type, expr: &Expr<'_>) -> Result<Value> {
        let expected = |what: &str| self.fail(format!("expected {what}; found {}", show::show_expr(expr)));
        match (wanted, literal) {
            (Type::Bool, ExprKind::Bool(b)) => Ok(Value::Bool(*b)),
            (Type::Bool, _) => expected("bool"),
            (Type::Str, ExprKind::String(string)) => Ok(Value::string(string.text)),
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
            (Type::Any | Type::Reflect, ExprKind::String(string)) => Ok(Value::string(string.text)),
            (Type::Any | Type::Reflect, ExprKind::Number(number)) => self.constant(number),
            _ => self.fail(format!(
                "can't handle {} for arg of type {}",
                show::show_expr(expr),
                wanted.go_name()
            )),
        }
    }

    /// Checks that a value may be passed as a parameter of a type.
    pub(super) fn validate(&self, value: Value, wanted: Type) -> Result<Value> {
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
        let cached = self.env.parsed.borrow().get(text).copied();
        let trees = match cached {
            Some(trees) => trees,
            None => {
                let arena = self.env.arena;
                let source = Source { name: "gotpl", text: arena.alloc_str(&strconv::lossy(text)) };
                let trees = parse::parse(arena, source)
                    .map_err(|e| format!("cannot parse template {}: {e}", quoted()))?;
                let trees: &[_] = arena.alloc_slice_fill_iter(trees);
                self.env.parsed.borrow_mut().insert(text.into(), trees);
                trees
            }
        };
        let mut set = (*self.set).clone();
        let mut main = None;
        for tree in trees {
            if tree.name == "gotpl" {
                main = Some(tree);
            }
            associate(&mut set.overlay, Some(&self.set), tree);
        }
        let Some(main) = main else { return Err("template has no body".into()) };
        let output = execute_tree(self.env, &Rc::new(set), main, data).map_err(|mut e| {
            e.message = format!("error during tpl function execution for {}: {}", quoted(), e.message);
            e
        })?;
        Ok(Value::string(crate::engine::without_no_value(output)))
    }
}
