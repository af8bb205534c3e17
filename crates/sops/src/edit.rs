//! One value of a plain text changed or added, all else left as it is.

use crate::error::Error;
use crate::file::Format;
use crate::path::{Path, Step};
use crate::render;
use crate::tree::{Content, Edits, Leaf, Node, Tree};
use crate::value::Value;
use crate::yaml::column;

/// The text with a value at a path. A mapping that is on the way must be there.
pub(crate) fn set(
    format: Format,
    text: &str,
    tree: &Tree,
    path: &Path,
    value: &Value,
) -> Result<String, Error> {
    let refused = |why| Error::Shape { path: path.clone(), why };
    let mut node = &tree.documents.first().ok_or_else(|| refused("the file is empty"))?.root;
    let mut edits = Edits::default();
    for (number, step) in path.0.iter().enumerate() {
        let below = match (step, &node.content) {
            (Step::Key(key), _) => node.get(key).map(|item| &item.node),
            (Step::Index(index), Content::Seq(branch)) => branch.items.get(*index).map(|item| &item.node),
            _ => None,
        };
        match (below, step) {
            (Some(below), _) => node = below,
            (None, Step::Key(key))
                if number + 1 == path.0.len() && matches!(node.content, Content::Map(_)) =>
            {
                let end = tree.documents.first().map_or(text.len(), |document| document.end);
                insert(format, text, node, end, key, value, &mut edits);
                return Ok(edits.apply(text));
            }
            (None, _) => return Err(refused("there is no mapping or list that it could be put into")),
        }
    }
    let Content::Leaf(leaf) = &node.content else {
        return Err(refused("a mapping or list is there, which a single value cannot replace"));
    };
    let rest = text.get(node.span.end..).unwrap_or_default();
    let line = rest.split('\n').next().unwrap_or_default().trim();
    let alone = line.is_empty() || line == ":";
    let written = render::value(format, value, leaf, alone);
    if node.span.is_empty() && format == Format::Yaml {
        // A value that is nothing stands right behind its key.
        let colon = rest.trim_start().starts_with(':').then(|| rest.find(':')).flatten();
        let at = node.span.end + colon.map_or(0, |at| at + 1);
        edits.replace(at..at, format!(" {written}"));
    } else {
        edits.replace(node.span.clone(), written);
    }
    Ok(edits.apply(text))
}

fn insert(format: Format, text: &str, node: &Node, end: usize, key: &str, value: &Value, edits: &mut Edits) {
    let Some(branch) = node.content.branch() else { return };
    let flow = branch.flow;
    let first = branch.items.first();
    let indent = first.map_or(0, |item| column(text, item.start));
    let leaf = Leaf { value: value.clone(), aside: None, flow, indent, block: false, whole: None };
    let written = render::value(format, value, &leaf, true);
    if flow {
        let name = render::double_quoted(key);
        let close = node.span.end - 1;
        match branch.items.last() {
            Some(last) => {
                let at = last.node.span.end;
                let before = &text[..last.start];
                let lead = &before[before.trim_end().len()..];
                let lead = if lead.is_empty() { " " } else { lead };
                edits.replace(at..at, format!(",{lead}{name}: {written}"));
            }
            None => edits.replace(close..close, format!("{name}: {written}")),
        }
        return;
    }
    let at = branch.items.last().map_or(end, |last| line_end(text, last_place(&last.node, last.start)));
    let newline = if at == 0 || text[..at].ends_with('\n') { "" } else { "\n" };
    let line = match format {
        Format::Dotenv => format!("{newline}{key}={written}\n"),
        _ => {
            let name = render::yaml(&Value::text(key), false);
            format!("{newline}{}{name}: {written}\n", " ".repeat(indent))
        }
    };
    edits.replace(at..at, line);
}

/// Where the last value in a node ends.
fn last_place(node: &Node, start: usize) -> usize {
    let own = node.span.end.max(start);
    match node.content.branch().and_then(|branch| branch.items.last()) {
        Some(item) => own.max(last_place(&item.node, item.start)),
        None => own,
    }
}

fn line_end(text: &str, at: usize) -> usize {
    text.get(at..).and_then(|rest| rest.find('\n')).map_or(text.len(), |length| at + length + 1)
}
