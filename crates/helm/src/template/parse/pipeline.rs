//! Pipelines: declarations, commands, operands, constants.

use std::borrow::Cow;

use super::{MAX_DEPTH, Parser, Result};
use crate::template::ast::{Command, Expr, ExprKind, Number, Pipe, Quoted};
use crate::template::lex::Kind;
use crate::template::show;
use crate::{funcs, strconv};

impl<'a> Parser<'a> {
    pub(super) fn pipeline(&mut self, context: &str, end: Kind) -> Result<&'a Pipe<'a>> {
        let start = self.peek_non_space();
        let id = self.id();
        let mut assign = false;
        let mut declared: &'a [&'a str] = &[];
        loop {
            let variable = self.peek_non_space();
            if variable.kind != Kind::Variable {
                break;
            }
            self.next();
            let after = self.peek();
            let next = self.peek_non_space();
            if matches!(next.kind, Kind::Assign | Kind::Declare) {
                assign = next.kind == Kind::Assign;
                self.next_non_space();
                declared = self.declare(declared, self.lexer.text_of(variable));
            } else if next.kind == Kind::Char && self.lexer.text_of(next) == "," {
                self.next_non_space();
                declared = self.declare(declared, self.lexer.text_of(variable));
                if context == "range" && declared.len() < 2 {
                    match self.peek_non_space().kind {
                        Kind::Variable | Kind::RightDelim | Kind::RightParen => continue,
                        _ => return self.error("range can only initialize variables"),
                    }
                }
                return self.error(format!("too many declarations in {context}"));
            } else if after.kind == Kind::Space {
                self.tokens[1] = after;
                self.tokens[2] = variable;
                self.peeked = 3;
            } else {
                self.tokens[1] = variable;
                self.peeked = 2;
            }
            break;
        }
        let from = self.commands.len();
        loop {
            let token = self.next_non_space();
            match token.kind {
                kind if kind == end => {
                    if self.commands.len() == from {
                        return self.error(format!("missing value for {context}"));
                    }
                    self.check(&self.commands[from + 1..])?;
                    let commands = self.arena.alloc_slice_copy(&self.commands[from..]);
                    self.commands.truncate(from);
                    let position = start.position;
                    return Ok(self.arena.alloc(Pipe { id, position, assign, declared, commands }));
                }
                Kind::Bool
                | Kind::CharConstant
                | Kind::Complex
                | Kind::Dot
                | Kind::Field
                | Kind::Identifier
                | Kind::Number
                | Kind::Nil
                | Kind::RawString
                | Kind::String
                | Kind::Variable
                | Kind::LeftParen => {
                    self.backup();
                    let command = self.command()?;
                    self.commands.push(command);
                }
                _ => return self.unexpected(token, context),
            }
        }
    }

    /// Adds a variable to those a pipeline declares, of which there are two at most.
    fn declare(&mut self, declared: &'a [&'a str], name: &'a str) -> &'a [&'a str] {
        self.variables.push(name);
        match declared.first() {
            None => self.arena.alloc_slice_copy(&[name]),
            Some(before) => self.arena.alloc_slice_copy(&[*before, name]),
        }
    }

    /// Refuses what cannot be called in the later stages of a pipeline.
    pub(super) fn check(&self, later: &[Command<'a>]) -> Result<()> {
        for (command, stage) in later.iter().zip(2..) {
            if let ExprKind::Bool(_)
            | ExprKind::Dot
            | ExprKind::Nil
            | ExprKind::Number(_)
            | ExprKind::String(_) = command.first.kind
            {
                return self.error(format!("non executable command in pipeline stage {stage}"));
            }
        }
        Ok(())
    }

    pub(super) fn command(&mut self) -> Result<Command<'a>> {
        let position = self.peek_non_space().position;
        let id = self.id();
        let mut first = None;
        let from = self.operands.len();
        loop {
            self.peek_non_space();
            if let Some(operand) = self.operand()? {
                match first {
                    None => first = Some(operand),
                    Some(_) => self.operands.push(operand),
                }
            }
            let token = self.next();
            match token.kind {
                Kind::Space => continue,
                Kind::RightDelim | Kind::RightParen => self.backup(),
                Kind::Pipe => {}
                _ => return self.unexpected(token, "operand"),
            }
            break;
        }
        match first {
            Some(first) => {
                let args = self.arena.alloc_slice_copy(&self.operands[from..]);
                self.operands.truncate(from);
                Ok(Command { id, position, first, args })
            }
            None => self.error("empty command"),
        }
    }

    pub(super) fn operand(&mut self) -> Result<Option<Expr<'a>>> {
        let Some(mut term) = self.term()? else { return Ok(None) };
        let next = self.peek();
        if next.kind != Kind::Field {
            return Ok(Some(term));
        }
        // Fields follow each other without a gap, so the whole path is one piece of the text.
        let position = next.position;
        let from = position as usize;
        let mut end = from;
        while self.peek().kind == Kind::Field {
            end += self.next().len();
        }
        let fields = &self.lexer.input()[from..end];
        match &mut term.kind {
            ExprKind::Field(path) | ExprKind::Variable(path) => {
                // What the term is stands right before its fields.
                *path = &self.lexer.input()[from - path.len()..end];
                term.position = position;
            }
            ExprKind::Bool(_) | ExprKind::String(_) | ExprKind::Number(_) | ExprKind::Nil | ExprKind::Dot => {
                let text = strconv::quote(show::show_expr(&term).as_bytes());
                return self.error(format!("unexpected . after term {text}"));
            }
            _ => {
                let id = self.id();
                term = Expr { id, position, kind: ExprKind::Chain(self.arena.alloc(term), &fields[1..]) };
            }
        }
        Ok(Some(term))
    }

    pub(super) fn term(&mut self) -> Result<Option<Expr<'a>>> {
        let token = self.next_non_space();
        let text = self.lexer.text_of(token);
        let kind = match token.kind {
            Kind::Identifier => {
                let Some(function) = funcs::find(text) else {
                    let name = strconv::quote(text.as_bytes());
                    return self.error(format!("function {name} not defined"));
                };
                ExprKind::Function(function)
            }
            Kind::Dot => ExprKind::Dot,
            Kind::Nil => ExprKind::Nil,
            Kind::Variable => {
                if !self.variables.contains(&text) {
                    let name = strconv::quote(text.as_bytes());
                    return self.error(format!("undefined variable {name}"));
                }
                ExprKind::Variable(text)
            }
            Kind::Field => ExprKind::Field(&text[1..]),
            Kind::Bool => ExprKind::Bool(text == "true"),
            Kind::CharConstant | Kind::Complex | Kind::Number => match number(text, token.kind) {
                Ok(number) => ExprKind::Number(self.arena.alloc(number)),
                Err(message) => return self.error(message),
            },
            Kind::LeftParen => {
                if self.depth >= MAX_DEPTH {
                    return self.error("max expression depth exceeded");
                }
                self.depth += 1;
                let pipe = self.pipeline("parenthesized pipeline", Kind::RightParen)?;
                self.depth -= 1;
                ExprKind::Pipe(pipe)
            }
            Kind::String | Kind::RawString => match strconv::unquote(text) {
                Some(meaning) => {
                    let meaning = match meaning {
                        Cow::Borrowed(meaning) => meaning,
                        Cow::Owned(meaning) => self.arena.alloc_slice_copy(&meaning),
                    };
                    ExprKind::String(self.arena.alloc(Quoted { quoted: text, text: meaning }))
                }
                None => return self.error("invalid syntax"),
            },
            _ => {
                self.backup();
                return Ok(None);
            }
        };
        let position = match &kind {
            ExprKind::Pipe(pipe) => pipe.position,
            _ => token.position,
        };
        Ok(Some(Expr { id: self.id(), position, kind }))
    }
}

pub(super) fn number(text: &str, kind: Kind) -> std::result::Result<Number<'_>, String> {
    let mut n = Number { text, ..Number::default() };
    let quoted = || strconv::quote(text.as_bytes());
    if kind == Kind::CharConstant {
        let inner = text.strip_prefix('\'').unwrap_or(text);
        let (piece, tail) = strconv::unquote_char(inner, '\'').ok_or("invalid syntax")?;
        if tail != "'" {
            return Err(format!("malformed character constant: {text}"));
        }
        let code = match piece {
            strconv::Unquoted::Char(c) => c as u32,
            strconv::Unquoted::Byte(b) => u32::from(b),
        };
        n.int = Some(i64::from(code));
        n.uint = Some(u64::from(code));
        n.float = Some(f64::from(code));
        return Ok(n);
    }
    if kind == Kind::Complex || text.ends_with('i') {
        n.complex = true;
        return Ok(n);
    }
    n.uint = strconv::parse_uint_base0(text.strip_prefix('+').map_or(text, |_| ""));
    n.int = strconv::parse_int_base0(text);
    if n.int == Some(0) {
        n.uint = Some(0);
    }
    if let Some(i) = n.int {
        n.float = Some(i as f64);
    } else if let Some(u) = n.uint {
        n.float = Some(u as f64);
    } else if let Some(f) = strconv::parse_float(&text.replace('_', "")) {
        if !text.contains(['.', 'e', 'E', 'p', 'P']) {
            return Err(format!("integer overflow: {}", quoted()));
        }
        n.float = Some(f);
        if (f as i64) as f64 == f {
            n.int = Some(f as i64);
        }
        if (f as u64) as f64 == f {
            n.uint = Some(f as u64);
        }
    }
    if n.int.is_none() && n.uint.is_none() && n.float.is_none() {
        return Err(format!("illegal number syntax: {}", quoted()));
    }
    Ok(n)
}
