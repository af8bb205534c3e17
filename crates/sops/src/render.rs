//! Values as the formats write them.

use base64::Engine as _;

use crate::file::Format;
use crate::resolve;
use crate::secret::Secret;
use crate::tree::{Branch, Content, Leaf, Node};
use crate::value::{Kind, Value};

/// How far the lines of a block are indented under their key.
const INDENT: usize = 4;

/// A value in the place of another.
pub(crate) fn value(format: Format, value: &Value, leaf: &Leaf, alone: bool) -> String {
    match format {
        Format::Json | Format::Binary => json(value),
        Format::Dotenv => value.as_written().expose_text().unwrap_or_default().replace('\n', "\\n"),
        Format::Yaml if leaf.flow || !alone => yaml(value, leaf.flow),
        Format::Yaml => lines(value, leaf.indent + INDENT).unwrap_or_else(|| yaml(value, false)),
    }
}

/// An encrypted text in the place of a value.
pub(crate) fn encrypted(format: Format, text: &str, leaf: &Leaf) -> String {
    match format {
        Format::Json | Format::Binary => format!("\"{text}\""),
        Format::Dotenv => text.to_owned(),
        Format::Yaml if leaf.flow => format!("\"{text}\""),
        Format::Yaml => text.to_owned(),
    }
}

fn json(value: &Value) -> String {
    let text = value.plain.expose();
    match value.kind {
        Kind::Null => "null".to_owned(),
        Kind::Bool => String::from_utf8_lossy(text).to_lowercase(),
        Kind::Int | Kind::Float => String::from_utf8_lossy(text).into_owned(),
        _ => serde_json::Value::from(String::from_utf8_lossy(text)).to_string(),
    }
}

/// A value of YAML on one line.
pub(crate) fn yaml(value: &Value, flow: bool) -> String {
    let Some(text) = value.plain.expose_text() else {
        let letters = base64::engine::general_purpose::STANDARD.encode(value.plain.expose());
        return format!("!!binary {letters}");
    };
    match value.kind {
        Kind::Null => "null".to_owned(),
        Kind::Bool => text.to_lowercase(),
        Kind::Float => match text {
            "NaN" => ".nan".to_owned(),
            "+Inf" => ".inf".to_owned(),
            "-Inf" => "-.inf".to_owned(),
            // Without a point it would be read back as a whole number.
            _ if text.contains('.') => text.to_owned(),
            _ => format!("{text}.0"),
        },
        Kind::Int | Kind::Time => text.to_owned(),
        _ if is_plain(text, flow) => text.to_owned(),
        _ => double_quoted(text),
    }
}

/// Whether a text needs no quotes, and is a text to every reader of YAML.
fn is_plain(text: &str, flow: bool) -> bool {
    const OLD_WORDS: [&str; 8] = ["y", "n", "yes", "no", "on", "off", "true", "false"];
    let usual =
        |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '@' | '+' | '$' | ')' | '*');
    let inner = |c: char| usual(c) || matches!(c, '=' | '^' | '(' | '|' | '\\' | '?') || c == ' ' && !flow;
    let version = text.matches('.').count() > 1;
    text.chars().next().is_some_and(|c| {
        c.is_alphabetic() || matches!(c, '_' | '/' | '^' | '(' | '$' | '\\') || version && c.is_numeric()
    }) && text.chars().last().is_some_and(|c| usual(c) || c == '=')
        && text.chars().all(inner)
        && !OLD_WORDS.contains(&text.to_lowercase().as_str())
        && resolve::plain(text).is_some_and(|value| value.kind == Kind::Str)
}

pub(crate) fn double_quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if is_printable(c) => out.push(c),
            c if u32::from(c) <= 0xFF => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if u32::from(c) <= 0xFFFF => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push_str(&format!("\\U{:08x}", u32::from(c))),
        }
    }
    out.push('"');
    out
}

/// Whether a character may stand in YAML as it is, and is not taken for a line break or a mark of byte order.
fn is_printable(c: char) -> bool {
    matches!(c, ' '..='~' | '\u{a0}'..='\u{2027}' | '\u{202a}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}' | '\u{10000}'..='\u{10ffff}')
}

/// A text of several lines as a block, if it can stand in one.
pub(crate) fn lines(value: &Value, indent: usize) -> Option<String> {
    let text = value.plain.expose_text().filter(|_| value.kind == Kind::Str)?;
    let (body, header) = match text.strip_suffix('\n') {
        Some(body) => (body, "|"),
        None => (text, "|-"),
    };
    let usable = text.contains('\n')
        && !body.is_empty()
        && !body.starts_with([' ', '\t', '\n'])
        && !body.ends_with(['\n', ' ', '\t'])
        && !body.lines().any(|line| line.trim().is_empty() && !line.is_empty())
        && body.chars().all(|c| c == '\n' || c == '\t' || is_printable(c));
    if !usable {
        return None;
    }
    let mut out = header.to_owned();
    for line in body.split('\n') {
        out.push('\n');
        if !line.is_empty() {
            out.extend(std::iter::repeat_n(' ', indent));
            out.push_str(line);
        }
    }
    Some(out)
}

/// A whole node of YAML in braces and brackets, as an alias of it is written out.
pub(crate) fn flow(node: &Node) -> Secret {
    let mut out = String::new();
    write_flow(node, &mut out);
    Secret::new(out)
}

fn write_flow(node: &Node, out: &mut String) {
    let list = |branch: &Branch, out: &mut String| {
        for (number, item) in branch.items.iter().enumerate() {
            if number > 0 {
                out.push_str(", ");
            }
            if let Some(key) = &item.key {
                // `<<` must stay what it is to readers that merge.
                out.push_str(&if key == "<<" { key.clone() } else { double_quoted(key) });
                out.push_str(": ");
            }
            write_flow(&item.node, out);
        }
    };
    match &node.content {
        Content::Leaf(leaf) => out.push_str(&yaml(&leaf.value, true)),
        Content::Map(branch) => {
            out.push('{');
            list(branch, out);
            out.push('}');
        }
        Content::Seq(branch) => {
            out.push('[');
            list(branch, out);
            out.push(']');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        for text in [
            "x",
            "yes",
            "1",
            "1.5",
            "2026-11-17",
            "",
            " a",
            "a: b",
            "a #b",
            "- a",
            "\t",
            "\u{7}",
            "ä ü",
            "a\nb",
            "a\nb\n",
            "\n",
            "a\n\n",
            " a\nb",
            "a\n b\n",
            "a\r\nb",
            "\u{2028}",
            "😀",
            "~",
            "null",
            "a=b=",
            "a\n\nb",
            "a \nb",
            "{a}",
            "*a",
            "&a",
            "!a",
            "%a",
            "@a",
            "`a",
            "'",
            "\"",
            "\\",
            "#",
            "\u{feff}x",
            "<<",
            "=",
        ] {
            let value = Value::text(text);
            let blocks = lines(&value, 8).into_iter().map(|block| format!("a:\n    b: {block}\n"));
            for document in blocks.chain([
                format!("a:\n    b: {}\n", yaml(&value, false)),
                format!("a: {{b: {}}}\n", yaml(&value, true)),
            ]) {
                let tree = crate::yaml::parse(&document).unwrap();
                let node = &tree.documents[0].root.get("a").unwrap().node.get("b").unwrap().node;
                let Content::Leaf(leaf) = &node.content else { panic!("{document}") };
                assert!(leaf.value == value, "{document}");
            }
        }
    }
}
