//! Prints nodes the way Go does in error messages, and finds the node an error points at.

use std::fmt::Write;

use super::ast::{Branch, Command, Expr, ExprKind, Invocation, Node, NodeId, Pipe, Tree};

/// Position and text of a node.
pub(crate) fn locate(tree: &Tree<'_>, id: NodeId) -> Option<(u32, String)> {
    in_list(tree.root, id)
}

fn in_list(list: &[Node<'_>], id: NodeId) -> Option<(u32, String)> {
    list.iter().find_map(|node| in_node(node, id))
}

fn in_node(node: &Node<'_>, id: NodeId) -> Option<(u32, String)> {
    match node {
        Node::Text(_) | Node::Break | Node::Continue => None,
        Node::Action { id: own, position, pipe } => {
            if *own == id {
                return Some((*position, format!("{{{{{}}}}}", show_pipe(pipe))));
            }
            in_pipe(pipe, id)
        }
        Node::If(branch) => in_branch("if", branch, id),
        Node::With(branch) => in_branch("with", branch, id),
        Node::Range(branch) => in_branch("range", branch, id),
        Node::Template(Invocation { id: own, position, name, pipe }) => {
            if *own == id {
                let mut text = format!("{{{{template {}", crate::strconv::quote(name.as_bytes()));
                if let Some(pipe) = pipe {
                    let _ = write!(text, " {}", show_pipe(pipe));
                }
                return Some((*position, text + "}}"));
            }
            pipe.as_ref().and_then(|p| in_pipe(p, id))
        }
    }
}

fn in_branch(word: &str, branch: &Branch<'_>, id: NodeId) -> Option<(u32, String)> {
    if branch.id == id {
        return Some((branch.position, format!("{{{{{word} {}}}}}", show_pipe(branch.pipe))));
    }
    in_pipe(branch.pipe, id)
        .or_else(|| in_list(branch.list, id))
        .or_else(|| branch.otherwise.as_ref().and_then(|l| in_list(l, id)))
}

fn in_pipe(pipe: &Pipe<'_>, id: NodeId) -> Option<(u32, String)> {
    if pipe.id == id {
        return Some((pipe.position, show_pipe(pipe)));
    }
    pipe.commands.iter().find_map(|command| {
        if command.id == id {
            return Some((command.position, show_command(command)));
        }
        command.operands().find_map(|operand| in_expr(operand, id))
    })
}

fn in_expr(expr: &Expr<'_>, id: NodeId) -> Option<(u32, String)> {
    if expr.id == id {
        return Some((expr.position, show_expr(expr)));
    }
    match &expr.kind {
        ExprKind::Pipe(pipe) => in_pipe(pipe, id),
        ExprKind::Chain(inner, _) => in_expr(inner, id),
        _ => None,
    }
}

pub(crate) fn show_pipe(pipe: &Pipe<'_>) -> String {
    let mut out = String::new();
    if !pipe.declared.is_empty() {
        let _ = write!(out, "{} {} ", pipe.declared.join(", "), if pipe.assign { "=" } else { ":=" });
    }
    let commands: Vec<String> = pipe.commands.iter().map(show_command).collect();
    out + &commands.join(" | ")
}

fn show_command(command: &Command<'_>) -> String {
    let args: Vec<String> = command
        .operands()
        .map(|arg| match &arg.kind {
            ExprKind::Pipe(pipe) => format!("({})", show_pipe(pipe)),
            _ => show_expr(arg),
        })
        .collect();
    args.join(" ")
}

pub(crate) fn show_expr(expr: &Expr<'_>) -> String {
    match &expr.kind {
        ExprKind::Bool(b) => b.to_string(),
        ExprKind::Dot => ".".to_owned(),
        ExprKind::Nil => "nil".to_owned(),
        ExprKind::Number(number) => number.text.to_owned(),
        ExprKind::String(string) => string.quoted.to_owned(),
        ExprKind::Field(path) => format!(".{path}"),
        ExprKind::Variable(path) => (*path).to_owned(),
        ExprKind::Function(function) => function.name.to_owned(),
        ExprKind::Pipe(pipe) => show_pipe(pipe),
        ExprKind::Chain(inner, path) => {
            let head = match &inner.kind {
                ExprKind::Pipe(pipe) => format!("({})", show_pipe(pipe)),
                _ => show_expr(inner),
            };
            format!("{head}.{path}")
        }
    }
}
