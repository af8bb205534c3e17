//! A document as text: in the order in which people read it, with notes, and with what is missing as comments to fill in.

use crate::yaml::{Kind, plain_kind};

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Out {
    /// A text, in quotes if it needs them.
    Word(String),
    /// A number, a truth, or what else means itself.
    Plain(String),
    List(Vec<Out>),
    Map(Vec<Item>),
}

/// A key of a mapping.
#[derive(Clone, Debug)]
pub(super) struct Item {
    key: &'static str,
    name: Option<String>,
    value: Out,
    note: Option<String>,
    /// The value is only an example.
    is_missing: bool,
}

/// A mapping in the making.
#[derive(Clone, Debug, Default)]
pub(super) struct Map(Vec<Item>);

impl Map {
    /// Adds a key, if there is a value.
    pub(super) fn put(&mut self, key: &'static str, value: Option<Out>) -> &mut Self {
        self.noted(key, value, None)
    }

    /// Adds a key with a note, if there is a value.
    pub(super) fn noted(&mut self, key: &'static str, value: Option<Out>, note: Option<&str>) -> &mut Self {
        let item = |value| Item { key, name: None, value, note: note.map(str::to_owned), is_missing: false };
        self.0.extend(value.map(item));
        self
    }

    /// Adds a key of a name that somebody chose.
    pub(super) fn named(&mut self, name: &str, value: Out) -> &mut Self {
        self.0.push(Item { key: "", name: Some(name.to_owned()), value, note: None, is_missing: false });
        self
    }

    /// Adds a line to fill in.
    pub(super) fn missing(&mut self, key: &'static str, example: Out, why: &str) -> &mut Self {
        let note = Some(format!("fill in: {why}"));
        self.0.push(Item { key, name: None, value: example, note, is_missing: true });
        self
    }

    /// Its keys.
    pub(super) fn items(self) -> Vec<Item> {
        self.0
    }

    /// The mapping; nothing if it is empty.
    pub(super) fn done(self) -> Option<Out> {
        (!self.0.is_empty()).then_some(Out::Map(self.0))
    }

    /// The text of a document.
    pub(super) fn document(self) -> String {
        let mut text = String::new();
        block(&self.0, 0, &mut text);
        text
    }
}

/// A text.
pub(super) fn word(text: impl Into<String>) -> Out {
    Out::Word(text.into())
}

/// What means itself.
pub(super) fn plain(value: impl std::fmt::Display) -> Out {
    Out::Plain(value.to_string())
}

/// A list of texts; nothing if it is empty.
pub(super) fn words(words: &[String]) -> Option<Out> {
    (!words.is_empty()).then(|| Out::List(words.iter().map(word).collect()))
}

fn block(items: &[Item], indent: usize, text: &mut String) {
    for item in items {
        let note = item.note.as_ref().map(|note| format!("   # {note}")).unwrap_or_default();
        let key = item.name.as_ref().map_or_else(|| item.key.to_owned(), |name| quoted(name));
        let sign = if item.is_missing { "# " } else { "" };
        text.push_str(&format!("{:indent$}{sign}{key}:", ""));
        match &item.value {
            value if is_flow(value, indent + key.len()) => {
                text.push_str(&format!(" {}{note}\n", flow(value)));
            }
            Out::Map(items) => {
                text.push_str(&format!("{note}\n"));
                block(items, indent + 2, text);
            }
            Out::List(all) => {
                text.push_str(&format!("{note}\n"));
                all.iter().for_each(|one| element(one, indent + 2, text));
            }
            value => text.push_str(&format!(" {}{note}\n", flow(value))),
        }
    }
}

fn element(value: &Out, indent: usize, text: &mut String) {
    match value {
        Out::Map(items) if !is_flow(value, indent) => {
            let mut below = String::new();
            block(items, indent + 2, &mut below);
            // The first key stands beside the dash.
            text.push_str(&format!("{:indent$}- {}", "", below.trim_start()));
        }
        value => text.push_str(&format!("{:indent$}- {}\n", "", flow(value))),
    }
}

/// Whether a value is written on one line.
fn is_flow(value: &Out, indent: usize) -> bool {
    fn plain(value: &Out) -> bool {
        match value {
            Out::Word(text) => !text.contains('\n'),
            Out::Plain(_) => true,
            Out::List(all) => all.iter().all(plain),
            Out::Map(items) => {
                items.iter().all(|item| item.note.is_none() && !item.is_missing && plain(&item.value))
            }
        }
    }
    let is_single = matches!(value, Out::Word(_) | Out::Plain(_));
    is_single || (plain(value) && indent + flow(value).len() < 100)
}

fn flow(value: &Out) -> String {
    match value {
        Out::Word(text) => quoted(text),
        Out::Plain(text) => text.clone(),
        Out::List(all) => format!("[{}]", all.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Out::Map(items) => {
            let all = items.iter().map(|item| {
                let key = item.name.as_ref().map_or_else(|| item.key.to_owned(), |name| quoted(name));
                format!("{key}: {}", flow(&item.value))
            });
            format!("{{{}}}", all.collect::<Vec<_>>().join(", "))
        }
    }
}

/// A text as YAML reads it as one.
fn quoted(text: &str) -> String {
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '+' | '.'))
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./+@:!=".contains(c))
        && !text.ends_with(':')
        && plain_kind(text) == Kind::Str
        && !["yes", "no", "on", "off"].contains(&text.to_ascii_lowercase().as_str());
    if is_plain { text.to_owned() } else { serde_json::Value::from(text).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_stay_texts() {
        for (text, written) in [
            ("v1.12.0", "v1.12.0"),
            ("10.0.0.1", "10.0.0.1"),
            ("https://a.lan:8006", "https://a.lan:8006"),
            ("user@pam!token", "user@pam!token"),
            ("true", "\"true\""),
            ("12", "\"12\""),
            ("1e3", "\"1e3\""),
            ("0x10", "\"0x10\""),
            ("yes", "\"yes\""),
            ("a: b", "\"a: b\""),
            ("- a", "\"- a\""),
            ("a\n\"b\"", "\"a\\n\\\"b\\\"\""),
            ("", "\"\""),
        ] {
            assert_eq!(quoted(text), written);
        }
    }

    #[test]
    fn short_mappings_stand_on_a_line_and_what_is_missing_is_a_comment() {
        let mut inner = Map::default();
        inner.put("a", Some(plain(1))).missing("b", word("x"), "why");
        let mut small = Map::default();
        small.put("c", Some(word("d"))).put("e", words(&["f".into(), "g h".into()]));
        let mut map = Map::default();
        map.put("k", inner.clone().done()).put("s", small.clone().done()).noted(
            "n",
            Some(plain(true)),
            Some("so"),
        );
        let list = Out::List(vec![small.done().unwrap(), inner.done().unwrap()]);
        map.put("l", Some(list)).put("nothing", None);
        let expected = "k:\n  a: 1\n  # b: x   # fill in: why\ns: {c: d, e: [f, \"g h\"]}\nn: true   # so\nl:\n  - {c: d, e: [f, \
                        \"g h\"]}\n  - a: 1\n    # b: x   # fill in: why\n";
        assert_eq!(map.document(), expected);
    }
}
