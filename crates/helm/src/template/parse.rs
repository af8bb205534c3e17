//! Builds templates from tokens, with the same grammar and the same complaints as Go's parser.

use std::rc::Rc;

use super::ast::{
    Branch, Command, Expr, ExprKind, ListNode, Node, NodeId, Number, Pipe, Quoted, Source, Tree,
};
use super::lex::{Kind, Lexer, Token};
use super::show;
use crate::{funcs, strconv};

/// How deep parentheses and blocks may nest.
const MAX_DEPTH: usize = 2000;

/// Why a template text is not a template.
#[derive(Debug)]
pub(crate) struct ParseError {
    pub(crate) source: Rc<str>,
    pub(crate) line: usize,
    pub(crate) message: String,
}

impl std::fmt::Display for ParseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "template: {}:{}: {}", self.source, self.line, self.message)
    }
}

type Result<T> = std::result::Result<T, ParseError>;

/// Parses a text: its own body under the source's name, and every `define` and `block` in it.
pub(crate) fn parse(source: Source) -> Result<Vec<Rc<Tree>>> {
    let source = Rc::new(source);
    // A source holds nothing else; what is positioned in its text is positioned in its bytes.
    let text = std::str::from_utf8(source.bytes()).unwrap_or_default();
    let mut parser = Parser {
        lexer: Lexer::new(text),
        tokens: [empty_token(), empty_token(), empty_token()],
        peeked: 0,
        source: source.clone(),
        variables: vec!["$".into()],
        trees: Vec::new(),
        action_start: None,
        range_depth: 0,
        depth: 0,
        next_id: 0,
    };
    let root = parser.top_level()?;
    parser.add(source.name.clone(), root)?;
    Ok(parser.trees)
}

fn empty_token() -> Token<'static> {
    Token { kind: Kind::Eof, position: 0, text: "" }
}

/// Whether nothing but space and comments is in a template.
pub(crate) fn is_blank(tree: &Tree) -> bool {
    tree.root.nodes.iter().all(|node| match node {
        Node::Text(range) => strconv::lossy(tree.source.text(range)).trim().is_empty(),
        _ => false,
    })
}

/// A place in a text, which is never larger than what a chart's file or a template's output may be.
fn place(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

enum Item {
    Node(Node),
    End,
    Else,
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    tokens: [Token<'a>; 3],
    peeked: usize,
    source: Rc<Source>,
    variables: Vec<Rc<str>>,
    trees: Vec<Rc<Tree>>,
    /// Where the action that is being read begins.
    action_start: Option<usize>,
    range_depth: usize,
    depth: usize,
    next_id: NodeId,
}

impl<'a> Parser<'a> {
    fn id(&mut self) -> NodeId {
        self.next_id += 1;
        self.next_id
    }

    fn next(&mut self) -> Token<'a> {
        if self.peeked > 0 {
            self.peeked -= 1;
        } else {
            self.tokens[0] = self.lexer.next_token();
        }
        self.tokens[self.peeked]
    }

    fn backup(&mut self) {
        self.peeked += 1;
    }

    fn peek(&mut self) -> Token<'a> {
        if self.peeked == 0 {
            self.tokens[0] = self.lexer.next_token();
            self.peeked = 1;
        }
        self.tokens[self.peeked - 1]
    }

    fn next_non_space(&mut self) -> Token<'a> {
        loop {
            let token = self.next();
            if token.kind != Kind::Space {
                return token;
            }
        }
    }

    fn peek_non_space(&mut self) -> Token<'a> {
        let token = self.next_non_space();
        self.backup();
        token
    }

    fn error<T>(&self, message: impl Into<String>) -> Result<T> {
        Err(ParseError {
            source: self.source.name.clone(),
            line: self.lexer.line(self.tokens[0].position),
            message: message.into(),
        })
    }

    fn unexpected<T>(&self, token: &Token<'_>, context: &str) -> Result<T> {
        if token.kind == Kind::Error {
            let message = self.lexer.message();
            let mut extra = String::new();
            if let Some(start) = self.action_start.map(|start| self.lexer.line(start))
                && start != self.lexer.line(token.position)
            {
                extra = format!(" in action started at {}:{start}", self.source.name);
                if message.ends_with(" action") {
                    extra = extra[" in action".len()..].to_owned();
                }
            }
            return self.error(format!("{message}{extra}"));
        }
        self.error(format!("unexpected {} in {context}", token.show()))
    }

    fn expect(&mut self, kind: Kind, context: &str) -> Result<Token<'a>> {
        let token = self.next_non_space();
        if token.kind == kind { Ok(token) } else { self.unexpected(&token, context) }
    }

    fn add(&mut self, name: Rc<str>, root: ListNode) -> Result<()> {
        let tree = Rc::new(Tree { name, source: self.source.clone(), root });
        if let Some(existing) = self.trees.iter_mut().find(|t| t.name == tree.name) {
            if is_blank(existing) {
                *existing = tree;
            } else if !is_blank(&tree) {
                let name = strconv::quote(tree.name.as_bytes());
                return self.error(format!("template: multiple definition of template {name}"));
            }
            return Ok(());
        }
        self.trees.push(tree);
        Ok(())
    }

    fn top_level(&mut self) -> Result<ListNode> {
        let mut root = ListNode::default();
        while self.peek().kind != Kind::Eof {
            if self.peek().kind == Kind::LeftDelim {
                let delimiter = self.next();
                if self.next_non_space().kind == Kind::Define {
                    self.definition()?;
                    continue;
                }
                self.tokens[1] = delimiter;
                self.peeked = 2;
            }
            match self.text_or_action()? {
                Item::End => return self.error("unexpected {{end}}"),
                Item::Else => return self.error("unexpected {{else}}"),
                Item::Node(node) => root.nodes.push(node),
            }
        }
        Ok(root)
    }

    /// Runs a nested parse with variables of its own.
    fn isolated<T>(&mut self, run: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let variables = std::mem::replace(&mut self.variables, vec!["$".into()]);
        let range_depth = std::mem::take(&mut self.range_depth);
        let action_start = self.action_start.take();
        let result = run(self);
        self.variables = variables;
        self.range_depth = range_depth;
        self.action_start = action_start;
        result
    }

    fn definition(&mut self) -> Result<()> {
        const CONTEXT: &str = "define clause";
        let token = self.next_non_space();
        if !matches!(token.kind, Kind::String | Kind::RawString) {
            return self.unexpected(&token, CONTEXT);
        }
        let name = self.template_name(&token, CONTEXT)?;
        self.expect(Kind::RightDelim, CONTEXT)?;
        let (root, end) = self.isolated(Self::item_list)?;
        if !matches!(end, Item::End) {
            return self.error(format!("unexpected {{{{else}}}} in {CONTEXT}"));
        }
        self.add(name, root)
    }

    fn item_list(&mut self) -> Result<(ListNode, Item)> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.error("template blocks nest too deep");
        }
        let mut list = ListNode::default();
        while self.peek_non_space().kind != Kind::Eof {
            match self.text_or_action()? {
                Item::Node(node) => list.nodes.push(node),
                end => {
                    self.depth -= 1;
                    return Ok((list, end));
                }
            }
        }
        self.error("unexpected EOF")
    }

    fn text_or_action(&mut self) -> Result<Item> {
        let token = self.next_non_space();
        match token.kind {
            Kind::Text => {
                let end = place(token.position + token.text.len());
                Ok(Item::Node(Node::Text(place(token.position)..end)))
            }
            Kind::LeftDelim => {
                self.action_start = Some(token.position);
                let item = self.action()?;
                self.action_start = None;
                Ok(item)
            }
            _ => self.unexpected(&token, "input"),
        }
    }

    fn action(&mut self) -> Result<Item> {
        let token = self.next_non_space();
        let node = match token.kind {
            Kind::Block => self.block()?,
            Kind::Break | Kind::Continue => {
                let word = if token.kind == Kind::Break { "{{break}}" } else { "{{continue}}" };
                let next = self.next_non_space();
                if next.kind != Kind::RightDelim {
                    return self.unexpected(&next, word);
                }
                if self.range_depth == 0 {
                    return self.error(format!("{word} outside {{{{range}}}}"));
                }
                if token.kind == Kind::Break { Node::Break } else { Node::Continue }
            }
            Kind::Else => {
                let next = self.peek_non_space();
                if !matches!(next.kind, Kind::If | Kind::With) {
                    self.expect(Kind::RightDelim, "else")?;
                }
                return Ok(Item::Else);
            }
            Kind::End => {
                self.expect(Kind::RightDelim, "end")?;
                return Ok(Item::End);
            }
            Kind::If => Node::If(self.control("if")?),
            Kind::Range => Node::Range(self.control("range")?),
            Kind::With => Node::With(self.control("with")?),
            Kind::Template => self.invocation()?,
            _ => {
                self.backup();
                let token = self.peek();
                let id = self.id();
                let pipe = self.pipeline("command", Kind::RightDelim)?;
                Node::Action { id, position: place(token.position), pipe }
            }
        };
        Ok(Item::Node(node))
    }

    fn control(&mut self, context: &str) -> Result<Box<Branch>> {
        let scope = self.variables.len();
        let id = self.id();
        let pipe = self.pipeline(context, Kind::RightDelim)?;
        if context == "range" {
            self.range_depth += 1;
        }
        let (list, end) = self.item_list()?;
        if context == "range" {
            self.range_depth -= 1;
        }
        let mut otherwise = None;
        if matches!(end, Item::Else) {
            let next = self.peek().kind;
            if context == "if" && next == Kind::If {
                self.next();
                otherwise = Some(ListNode { nodes: vec![Node::If(self.chained("if")?)] });
            } else if context == "with" && next == Kind::With {
                self.next();
                otherwise = Some(ListNode { nodes: vec![Node::With(self.chained("with")?)] });
            } else {
                let (list, end) = self.item_list()?;
                if !matches!(end, Item::End) {
                    return self.error("expected end; found {{else}}");
                }
                otherwise = Some(list);
            }
        }
        self.variables.truncate(scope);
        Ok(Box::new(Branch { id, position: pipe.position, pipe, list, otherwise }))
    }

    /// An `else if`: a nested block, so that a long chain nests as deep.
    fn chained(&mut self, context: &str) -> Result<Box<Branch>> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.error("template blocks nest too deep");
        }
        let branch = self.control(context)?;
        self.depth -= 1;
        Ok(branch)
    }

    fn block(&mut self) -> Result<Node> {
        const CONTEXT: &str = "block clause";
        let token = self.next_non_space();
        let name = self.template_name(&token, CONTEXT)?;
        let id = self.id();
        let pipe = self.pipeline(CONTEXT, Kind::RightDelim)?;
        let (root, end) = self.isolated(Self::item_list)?;
        if !matches!(end, Item::End) {
            return self.error(format!("unexpected {{{{else}}}} in {CONTEXT}"));
        }
        self.add(name.clone(), root)?;
        Ok(Node::Template { id, position: place(token.position), name, pipe: Some(Box::new(pipe)) })
    }

    fn invocation(&mut self) -> Result<Node> {
        const CONTEXT: &str = "template clause";
        let token = self.next_non_space();
        let name = self.template_name(&token, CONTEXT)?;
        let id = self.id();
        let mut pipe = None;
        if self.next_non_space().kind != Kind::RightDelim {
            self.backup();
            pipe = Some(Box::new(self.pipeline(CONTEXT, Kind::RightDelim)?));
        }
        Ok(Node::Template { id, position: place(token.position), name, pipe })
    }

    fn template_name(&self, token: &Token<'_>, context: &str) -> Result<Rc<str>> {
        if !matches!(token.kind, Kind::String | Kind::RawString) {
            return self.unexpected(token, context);
        }
        match strconv::unquote(token.text) {
            Some(name) => Ok(crate::strconv::lossy(&name).as_ref().into()),
            None => self.error("invalid syntax"),
        }
    }

    fn pipeline(&mut self, context: &str, end: Kind) -> Result<Pipe> {
        let start = self.peek_non_space();
        let id = self.id();
        let (mut assign, mut declared) = (false, Vec::new());
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
                self.declare(&mut declared, variable.text);
            } else if next.kind == Kind::Char && next.text == "," {
                self.next_non_space();
                self.declare(&mut declared, variable.text);
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
        let mut first = None;
        let mut rest = Vec::new();
        loop {
            let token = self.next_non_space();
            match token.kind {
                kind if kind == end => {
                    let Some(first) = first else {
                        return self.error(format!("missing value for {context}"));
                    };
                    self.check(&rest)?;
                    return Ok(Pipe { id, position: place(start.position), assign, declared, first, rest });
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
                    match first {
                        None => first = Some(command),
                        Some(_) => rest.push(command),
                    }
                }
                _ => return self.unexpected(&token, context),
            }
        }
    }

    fn declare(&mut self, declared: &mut Vec<Rc<str>>, name: &str) {
        let name: Rc<str> = name.into();
        declared.push(name.clone());
        self.variables.push(name);
    }

    /// Refuses what cannot be called in the later stages of a pipeline.
    fn check(&self, later: &[Command]) -> Result<()> {
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

    fn command(&mut self) -> Result<Command> {
        let position = place(self.peek_non_space().position);
        let id = self.id();
        let mut first = None;
        let mut args = Vec::new();
        loop {
            self.peek_non_space();
            if let Some(operand) = self.operand()? {
                match first {
                    None => first = Some(operand),
                    Some(_) => args.push(operand),
                }
            }
            let token = self.next();
            match token.kind {
                Kind::Space => continue,
                Kind::RightDelim | Kind::RightParen => self.backup(),
                Kind::Pipe => {}
                _ => return self.unexpected(&token, "operand"),
            }
            break;
        }
        match first {
            Some(first) => Ok(Command { id, position, first, args }),
            None => self.error("empty command"),
        }
    }

    fn operand(&mut self) -> Result<Option<Expr>> {
        let Some(mut term) = self.term()? else { return Ok(None) };
        let next = self.peek();
        if next.kind != Kind::Field {
            return Ok(Some(term));
        }
        // Fields follow each other without a gap, so the whole path is one piece of the text.
        let mut end = next.position;
        while self.peek().kind == Kind::Field {
            end += self.next().text.len();
        }
        let position = place(next.position);
        let fields = &self.lexer.input()[next.position..end];
        match &mut term.kind {
            ExprKind::Field(path) | ExprKind::Variable(path) => {
                *path = [&**path, fields].concat().into();
                term.position = position;
            }
            ExprKind::Bool(_) | ExprKind::String(_) | ExprKind::Number(_) | ExprKind::Nil | ExprKind::Dot => {
                let text = strconv::quote(show::show_expr(&term).as_bytes());
                return self.error(format!("unexpected . after term {text}"));
            }
            _ => {
                let id = self.id();
                term = Expr { id, position, kind: ExprKind::Chain(Box::new(term), fields[1..].into()) };
            }
        }
        Ok(Some(term))
    }

    fn term(&mut self) -> Result<Option<Expr>> {
        let token = self.next_non_space();
        let kind = match token.kind {
            Kind::Identifier => {
                let Some(function) = funcs::find(token.text) else {
                    let name = strconv::quote(token.text.as_bytes());
                    return self.error(format!("function {name} not defined"));
                };
                ExprKind::Function(function)
            }
            Kind::Dot => ExprKind::Dot,
            Kind::Nil => ExprKind::Nil,
            Kind::Variable => {
                if !self.variables.iter().any(|v| **v == *token.text) {
                    let name = strconv::quote(token.text.as_bytes());
                    return self.error(format!("undefined variable {name}"));
                }
                ExprKind::Variable(token.text.into())
            }
            Kind::Field => ExprKind::Field(token.text[1..].into()),
            Kind::Bool => ExprKind::Bool(token.text == "true"),
            Kind::CharConstant | Kind::Complex | Kind::Number => match number(token.text, token.kind) {
                Ok(number) => ExprKind::Number(Box::new(number)),
                Err(message) => return self.error(message),
            },
            Kind::LeftParen => {
                if self.depth >= MAX_DEPTH {
                    return self.error("max expression depth exceeded");
                }
                self.depth += 1;
                let pipe = self.pipeline("parenthesized pipeline", Kind::RightParen)?;
                self.depth -= 1;
                ExprKind::Pipe(Box::new(pipe))
            }
            Kind::String | Kind::RawString => match strconv::unquote(token.text) {
                Some(text) => {
                    ExprKind::String(Box::new(Quoted { quoted: token.text.into(), text: text.into() }))
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
            _ => place(token.position),
        };
        Ok(Some(Expr { id: self.id(), position, kind }))
    }
}

fn number(text: &str, kind: Kind) -> std::result::Result<Number, String> {
    let mut n = Number { text: text.to_owned(), ..Number::default() };
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

#[cfg(test)]
mod tests {
    use super::*;

    fn fail(text: &str) -> String {
        parse(Source::of_text("t".into(), text.as_bytes())).unwrap_err().to_string()
    }

    #[test]
    fn complaints_are_those_of_go() {
        assert_eq!(fail("{{g}}"), "template: t:1: function \"g\" not defined");
        assert_eq!(fail("\n{{if}}"), "template: t:2: missing value for if");
        assert_eq!(fail("{{if 1}}"), "template: t:1: unexpected EOF");
        assert_eq!(fail("{{end}}"), "template: t:1: unexpected {{end}}");
        assert_eq!(fail("{{$x}}"), "template: t:1: undefined variable \"$x\"");
        assert_eq!(fail("{{now | 1}}"), "template: t:1: non executable command in pipeline stage 2");
        assert_eq!(fail("{{break}}"), "template: t:1: {{break}} outside {{range}}");
        assert_eq!(
            fail("{{define \"a\"}}x{{end}}{{define \"a\"}}y{{end}}"),
            "template: t:1: template: multiple definition of template \"a\""
        );
    }

    #[test]
    fn nesting_is_bounded() {
        let check = || {
            let deep = format!("{{{{ {}1{} }}}}", "(".repeat(5000), ")".repeat(5000));
            assert!(fail(&deep).contains("max expression depth"));
            assert!(fail(&"{{if 1}}".repeat(5000)).contains("nest too deep"));
        };
        // Rendering has a large stack of its own.
        std::thread::Builder::new().stack_size(64 << 20).spawn(check).unwrap().join().unwrap();
    }
}
