//! JSON → tree.

use daedal_go_yaml::numbers;

use crate::error::Error;
use crate::file::Format;
use crate::path::Path;
use crate::tree::{Branch, Content, Document, Item, Leaf, Node, Tree, position};
use crate::value::{Kind, Value};

/// Reads a text.
pub(crate) fn parse(text: &str) -> Result<Tree, Error> {
    if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(text) {
        let why = "";
        return Err(Error::Syntax { format: Format::Json, line: error.line(), column: error.column(), why });
    }
    let mut reader = Reader { text, at: 0 };
    let root = reader.node(&Path::default())?;
    if !matches!(root.content, Content::Map(_)) {
        return Err(Error::Shape { path: Path::default(), why: "a document must be a mapping" });
    }
    Ok(Tree { documents: vec![Document { root, end: text.len() }], comments: Vec::new(), flat: false })
}

/// Reads a text that is known to be valid.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn peek(&mut self) -> u8 {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        self.at += rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.text.as_bytes().get(self.at).copied().unwrap_or_default()
    }

    fn unexpected(&self) -> Error {
        let (line, column) = position(self.text, self.at);
        Error::Syntax { format: Format::Json, line, column, why: "" }
    }

    fn node(&mut self, path: &Path) -> Result<Node, Error> {
        match self.peek() {
            b'{' => self.branch(path, true),
            b'[' => self.branch(path, false),
            _ => self.leaf(),
        }
    }

    fn branch(&mut self, path: &Path, map: bool) -> Result<Node, Error> {
        let start = self.at;
        self.at += 1;
        let mut branch = Branch { flow: true, ..Branch::default() };
        loop {
            match self.peek() {
                b'}' | b']' => break,
                b',' => self.at += 1,
                0 => return Err(self.unexpected()),
                _ => {
                    let item = self.item(path, map, &branch)?;
                    branch.items.push(item);
                }
            }
        }
        self.at += 1;
        let content = if map { Content::Map(branch) } else { Content::Seq(branch) };
        Ok(Node { span: start..self.at, content })
    }

    fn item(&mut self, path: &Path, map: bool, branch: &Branch) -> Result<Item, Error> {
        let start = self.at;
        if !map {
            let node = self.node(&path.index(branch.items.len()))?;
            return Ok(Item { key: None, start, node, comments: Vec::new(), alias: None });
        }
        let key = self.string()?;
        let below = path.key(&key);
        if branch.items.iter().any(|item| item.key.as_deref() == Some(key.as_str())) {
            return Err(Error::Shape { path: below, why: "the key is given twice" });
        }
        if self.peek() != b':' {
            return Err(self.unexpected());
        }
        self.at += 1;
        let node = self.node(&below)?;
        Ok(Item { key: Some(key), start, node, comments: Vec::new(), alias: None })
    }

    fn string(&mut self) -> Result<String, Error> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        self.at += 1;
        while let Some(byte) = bytes.get(self.at) {
            self.at += if *byte == b'\\' { 2 } else { 1 };
            if *byte == b'"' {
                break;
            }
        }
        let quoted = self.text.get(start..self.at).unwrap_or_default();
        serde_json::from_str(quoted).map_err(|_| self.unexpected())
    }

    fn leaf(&mut self) -> Result<Node, Error> {
        let start = self.at;
        let mut whole = None;
        let value = if self.peek() == b'"' {
            Value::text(&self.string()?)
        } else {
            let rest = self.text.get(start..).unwrap_or_default();
            let end = rest.find([',', '}', ']', ' ', '\t', '\r', '\n']).unwrap_or(rest.len());
            self.at += end;
            match &rest[..end] {
                "null" => Value::new(Kind::Null, ""),
                "true" => Value::new(Kind::Bool, "True"),
                "false" => Value::new(Kind::Bool, "False"),
                number => {
                    let float = numbers::parse_float(number).ok_or_else(|| self.unexpected())?;
                    whole = number.parse::<i64>().ok();
                    Value::new(Kind::Float, numbers::format_f(float, None))
                }
            }
        };
        let whole = whole.map(|int| Value::new(Kind::Int, int.to_string()));
        let leaf = Leaf { value, aside: None, flow: true, indent: 0, block: false, whole };
        Ok(Node { span: start..self.at, content: Content::Leaf(leaf) })
    }
}
