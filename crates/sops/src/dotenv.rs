//! dotenv → tree.

use crate::error::Error;
use crate::file::Format;
use crate::path::Path;
use crate::tree::{Branch, Comment, Content, Document, Item, Leaf, Node, Tree};
use crate::value::Value;

/// Reads a text.
pub(crate) fn parse(text: &str) -> Result<Tree, Error> {
    let mut tree = Tree { flat: true, ..Tree::default() };
    let mut branch = Branch::default();
    let mut comments = Vec::new();
    let mut at = 0;
    for (number, line) in text.split('\n').enumerate() {
        let start = at;
        at += line.len() + 1;
        if line.is_empty() {
            continue;
        }
        if let Some(comment) = line.strip_prefix('#') {
            comments.push(tree.comments.len());
            let span = start + 1..start + line.len();
            tree.comments.push(Comment { span, text: comment.to_owned(), places: vec![Path::default()] });
            continue;
        }
        let Some((key, written)) = line.split_once('=') else {
            let why = "a line is `KEY=VALUE` or a comment";
            return Err(Error::Syntax { format: Format::Dotenv, line: number + 1, column: 1, why });
        };
        let path = Path::default().key(key);
        if branch.items.iter().any(|item: &Item| item.key.as_deref() == Some(key)) {
            return Err(Error::Shape { path, why: "the key is given twice" });
        }
        let value = Value::text(&written.replace("\\n", "\n"));
        let leaf = Leaf { value, aside: None, flow: false, indent: 0, block: false, whole: None };
        let span = start + key.len() + 1..start + line.len();
        let node = Node { span, content: Content::Leaf(leaf) };
        let comments = std::mem::take(&mut comments);
        branch.items.push(Item { key: Some(key.to_owned()), start, node, comments, alias: None });
    }
    branch.after = comments;
    tree.documents
        .push(Document { root: Node { span: 0..0, content: Content::Map(branch) }, end: text.len() });
    Ok(tree)
}
