//! Builds templates from tokens, with the same grammar and the same complaints as Go's parser.

mod pipeline;

use bumpalo::Bump;

use super::ast::{Branch, Command, Expr, Invocation, Node, NodeId, Pipe, Source, Tree};
use super::lex::{Kind, Lexer, Token};
use crate::strconv;

/// How deep parentheses and blocks may nest.
const MAX_DEPTH: usize = 2000;

/// Why a template text is not a template.
#[derive(Debug)]
pub(crate) struct ParseError {
    pub(crate) source: String,
    pub(crate) line: usize,
    pub(crate) message: String,
}

impl std::fmt::Display for ParseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "template: {}:{}: {}", self.source, self.line, self.message)
    }
}

type Result<T> = std::result::Result<T, Box<ParseError>>;

/// Parses a text: its own body under the source's name, and every `define` and `block` in it. They live in the arena.
pub(crate) fn parse<'a>(arena: &'a Bump, source: Source<'a>) -> Result<Vec<Tree<'a>>> {
    let mut parser = Parser {
        arena,
        lexer: Lexer::new(source.text),
        tokens: [empty_token(), empty_token(), empty_token()],
        peeked: 0,
        source,
        variables: vec!["$"],
        nodes: Vec::new(),
        commands: Vec::new(),
        operands: Vec::new(),
        trees: Vec::new(),
        action_start: None,
        range_depth: 0,
        depth: 0,
        next_id: 0,
    };
    let root = parser.top_level()?;
    parser.add(source.name, root)?;
    Ok(parser.trees)
}

fn empty_token() -> Token {
    Token::new(Kind::Eof, 0, 0)
}

/// Whether nothing but space and comments is in a template.
pub(crate) fn is_blank(tree: &Tree<'_>) -> bool {
    tree.root.iter().all(|node| matches!(node, Node::Text(text) if text.trim().is_empty()))
}

enum Item<'a> {
    Node(Node<'a>),
    End,
    Else,
}

struct Parser<'a> {
    arena: &'a Bump,
    lexer: Lexer<'a>,
    tokens: [Token; 3],
    peeked: usize,
    source: Source<'a>,
    variables: Vec<&'a str>,
    /// What the lists, pipelines and commands that are being read have so far: the inner ones after the outer ones.
    nodes: Vec<Node<'a>>,
    commands: Vec<Command<'a>>,
    operands: Vec<Expr<'a>>,
    trees: Vec<Tree<'a>>,
    /// Where the action that is being read begins.
    action_start: Option<u32>,
    range_depth: usize,
    depth: usize,
    next_id: NodeId,
}

impl<'a> Parser<'a> {
    fn id(&mut self) -> NodeId {
        self.next_id += 1;
        self.next_id
    }

    fn next(&mut self) -> Token {
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

    fn peek(&mut self) -> Token {
        if self.peeked == 0 {
            self.tokens[0] = self.lexer.next_token();
            self.peeked = 1;
        }
        self.tokens[self.peeked - 1]
    }

    fn next_non_space(&mut self) -> Token {
        loop {
            let token = self.next();
            if token.kind != Kind::Space {
                return token;
            }
        }
    }

    fn peek_non_space(&mut self) -> Token {
        let token = self.next_non_space();
        self.backup();
        token
    }

    fn error<T>(&self, message: impl Into<String>) -> Result<T> {
        Err(Box::new(ParseError {
            source: self.source.name.to_owned(),
            line: self.lexer.line(self.tokens[0].position),
            message: message.into(),
        }))
    }

    fn unexpected<T>(&self, token: Token, context: &str) -> Result<T> {
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
        self.error(format!("unexpected {} in {context}", self.lexer.show(token)))
    }

    fn expect(&mut self, kind: Kind, context: &str) -> Result<Token> {
        let token = self.next_non_space();
        if token.kind == kind { Ok(token) } else { self.unexpected(token, context) }
    }

    fn add(&mut self, name: &'a str, root: &'a [Node<'a>]) -> Result<()> {
        let tree = Tree { name, source: self.source, root };
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

    /// The nodes that were read since there were this many.
    fn list_from(&mut self, start: usize) -> &'a [Node<'a>] {
        let list = self.arena.alloc_slice_copy(&self.nodes[start..]);
        self.nodes.truncate(start);
        list
    }

    fn top_level(&mut self) -> Result<&'a [Node<'a>]> {
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
                Item::Node(node) => self.nodes.push(node),
            }
        }
        Ok(self.list_from(0))
    }

    /// Runs a nested parse with variables of its own.
    fn isolated<T>(&mut self, run: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let variables = std::mem::replace(&mut self.variables, vec!["$"]);
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
            return self.unexpected(token, CONTEXT);
        }
        let name = self.template_name(token, CONTEXT)?;
        self.expect(Kind::RightDelim, CONTEXT)?;
        let (root, end) = self.isolated(Self::item_list)?;
        if !matches!(end, Item::End) {
            return self.error(format!("unexpected {{{{else}}}} in {CONTEXT}"));
        }
        self.add(name, root)
    }

    fn item_list(&mut self) -> Result<(&'a [Node<'a>], Item<'a>)> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.error("template blocks nest too deep");
        }
        let start = self.nodes.len();
        while self.peek_non_space().kind != Kind::Eof {
            match self.text_or_action()? {
                Item::Node(node) => self.nodes.push(node),
                end => {
                    self.depth -= 1;
                    return Ok((self.list_from(start), end));
                }
            }
        }
        self.error("unexpected EOF")
    }

    fn text_or_action(&mut self) -> Result<Item<'a>> {
        let token = self.next_non_space();
        match token.kind {
            Kind::Text => Ok(Item::Node(Node::Text(self.lexer.text_of(token)))),
            Kind::LeftDelim => {
                self.action_start = Some(token.position);
                let item = self.action()?;
                self.action_start = None;
                Ok(item)
            }
            _ => self.unexpected(token, "input"),
        }
    }

    fn action(&mut self) -> Result<Item<'a>> {
        let token = self.next_non_space();
        let node = match token.kind {
            Kind::Block => self.block()?,
            Kind::Break | Kind::Continue => {
                let word = if token.kind == Kind::Break { "{{break}}" } else { "{{continue}}" };
                let next = self.next_non_space();
                if next.kind != Kind::RightDelim {
                    return self.unexpected(next, word);
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
                Node::Action { id, position: token.position, pipe }
            }
        };
        Ok(Item::Node(node))
    }

    fn control(&mut self, context: &str) -> Result<&'a Branch<'a>> {
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
                let branch = self.chained("if")?;
                otherwise = Some(self.only(Node::If(branch)));
            } else if context == "with" && next == Kind::With {
                self.next();
                let branch = self.chained("with")?;
                otherwise = Some(self.only(Node::With(branch)));
            } else {
                let (list, end) = self.item_list()?;
                if !matches!(end, Item::End) {
                    return self.error("expected end; found {{else}}");
                }
                otherwise = Some(list);
            }
        }
        self.variables.truncate(scope);
        Ok(self.arena.alloc(Branch { id, position: pipe.position, pipe, list, otherwise }))
    }

    fn only(&self, node: Node<'a>) -> &'a [Node<'a>] {
        self.arena.alloc_slice_copy(&[node])
    }

    /// An `else if`: a nested block, so that a long chain nests as deep.
    fn chained(&mut self, context: &str) -> Result<&'a Branch<'a>> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.error("template blocks nest too deep");
        }
        let branch = self.control(context)?;
        self.depth -= 1;
        Ok(branch)
    }

    fn block(&mut self) -> Result<Node<'a>> {
        const CONTEXT: &str = "block clause";
        let token = self.next_non_space();
        let name = self.template_name(token, CONTEXT)?;
        let id = self.id();
        let pipe = self.pipeline(CONTEXT, Kind::RightDelim)?;
        let (root, end) = self.isolated(Self::item_list)?;
        if !matches!(end, Item::End) {
            return self.error(format!("unexpected {{{{else}}}} in {CONTEXT}"));
        }
        self.add(name, root)?;
        Ok(self.template(id, token, name, Some(pipe)))
    }

    fn template(&self, id: NodeId, token: Token, name: &'a str, pipe: Option<&'a Pipe<'a>>) -> Node<'a> {
        Node::Template(self.arena.alloc(Invocation { id, position: token.position, name, pipe }))
    }

    fn invocation(&mut self) -> Result<Node<'a>> {
        const CONTEXT: &str = "template clause";
        let token = self.next_non_space();
        let name = self.template_name(token, CONTEXT)?;
        let id = self.id();
        let mut pipe = None;
        if self.next_non_space().kind != Kind::RightDelim {
            self.backup();
            pipe = Some(self.pipeline(CONTEXT, Kind::RightDelim)?);
        }
        Ok(self.template(id, token, name, pipe))
    }

    fn template_name(&self, token: Token, context: &str) -> Result<&'a str> {
        if !matches!(token.kind, Kind::String | Kind::RawString) {
            return self.unexpected(token, context);
        }
        match strconv::unquote(self.lexer.text_of(token)) {
            Some(name) => Ok(self.arena.alloc_str(&strconv::lossy(&name))),
            None => self.error("invalid syntax"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fail(text: &str) -> String {
        parse(&Bump::new(), Source { name: "t", text }).unwrap_err().to_string()
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
