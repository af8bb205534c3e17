//! Which bytes of a text may be secrets.

use crate::check::looks_secret;
use crate::yaml::{Entry, Kind, Node, Span, Value};

/// Everything in a text but YAML's own signs, what says no more than yes, no or nothing, and the words that are known: also comments,
/// tags, and what is written but does not count. A key that nobody knows may be a secret as well as a value.
pub(crate) fn values(text: &str, documents: &[Node], knows: &dyn Fn(&str) -> bool) -> Vec<Span> {
    let mut sorted = Sorted { text, knows, shown: Vec::new(), values: Vec::new() };
    documents.iter().for_each(|document| sorted.sort(document, 0));
    hidden(text, &sorted.shown, &sorted.values)
}

/// What a document holds: what may be seen, and what may not.
struct Sorted<'a> {
    text: &'a str,
    knows: &'a dyn Fn(&str) -> bool,
    shown: Vec<Span>,
    values: Vec<Span>,
}

impl Sorted<'_> {
    fn sort(&mut self, node: &Node, depth: usize) {
        match &node.value {
            Value::Scalar { kind: Kind::Null | Kind::Bool, text } if self.is_just(node.span, text) => {
                self.shown.push(node.span);
            }
            Value::Scalar { .. } => self.values.push(node.span),
            Value::Seq(items) => items.iter().for_each(|item| self.sort(item, depth)),
            Value::Map(entries) => {
                for Entry { key, key_span, value } in entries {
                    self.word(*key_span, key);
                    // What a document, or an operation of a JSON patch, is.
                    let tells = depth == 0 && matches!(key.as_str(), "apiVersion" | "kind" | "op");
                    match &value.value {
                        Value::Scalar { text, .. } if tells => self.word(value.span, text),
                        _ => self.sort(value, depth + 1),
                    }
                }
            }
        }
    }

    /// A word that is shown if it is known.
    fn word(&mut self, span: Span, word: &str) {
        match (self.knows)(word) && self.is_just(span, word) {
            true => self.shown.push(span),
            false => self.values.push(span),
        }
    }

    /// Whether nothing but this word stands there: no tag, no escapes.
    fn is_just(&self, span: Span, word: &str) -> bool {
        let there = self.text.get(span.start..span.end).unwrap_or_default();
        let unquoted = there.trim_matches(['"', '\'']);
        unquoted == word
    }
}

/// What is left when what may be seen is taken away, and YAML's own signs where they are no part of a value.
fn hidden(text: &str, shown: &[Span], values: &[Span]) -> Vec<Span> {
    let mut hide: Vec<bool> =
        text.bytes().map(|byte| !byte.is_ascii_whitespace() && !b":-{}[],|>?".contains(&byte)).collect();
    let mut paint = |spans: &[Span], hidden: bool| {
        for Span { start, end, .. } in spans {
            hide.iter_mut().take(*end).skip(*start).for_each(|byte| *byte = hidden);
        }
    };
    paint(shown, false);
    // Last: what a merge or an alias brings elsewhere is a value where it stands.
    paint(values, true);
    let mut spans: Vec<Span> = Vec::new();
    for (at, _) in hide.iter().enumerate().filter(|(_, hide)| **hide) {
        match spans.last_mut() {
            Some(last) if last.end == at => last.end = at + 1,
            _ => spans.push(Span { source: 0, start: at, end: at + 1 }),
        }
    }
    spans
}

/// Values that follow a suspicious key on the same line.
pub(crate) fn suspects(text: &str, source: usize) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut line_start = 0;
    for line in text.split_inclusive('\n') {
        let mut from = 0;
        while let Some(sign) = line.get(from..).and_then(|rest| rest.find([':', '='])).map(|i| i + from) {
            let key =
                line[from..sign].trim_end().rsplit([' ', '{', ',', '\t', '"', '\'']).next().unwrap_or("");
            let value = line[sign + 1..].trim_end();
            let start = sign + 1 + (value.len() - value.trim_start().len());
            if looks_secret(key) && !value.trim_start().starts_with('{') && !value.trim().is_empty() {
                spans.push(Span {
                    source,
                    start: line_start + start,
                    end: line_start + sign + 1 + value.len(),
                });
                break;
            }
            from = sign + 1;
        }
        line_start += line.len();
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml;

    /// A text without what is hidden.
    fn seen(text: &str, spans: &[Span]) -> String {
        let mut bytes = text.as_bytes().to_vec();
        for span in spans {
            let hidden = bytes[span.start..span.end].iter_mut();
            hidden.filter(|byte| !byte.is_ascii_whitespace()).for_each(|byte| *byte = b'*');
        }
        String::from_utf8(bytes).unwrap_or_default()
    }

    #[test]
    fn only_known_words_are_seen_of_a_patch() {
        let knows = |word: &str| matches!(word, "kind" | "op" | "add" | "path" | "Known" | "a" | "b" | "");
        let all = |text: &str| seen(text, &values(text, &yaml::parse(text, 0).0, &knows));
        assert_eq!(all("kind: Known # b\nname: c\n"), "kind: Known * *\n****: *\n");
        assert_eq!(all("kind: Unknown\n"), "kind: *******\n");
        assert_eq!(all("a: {b: 1, c: true, kind: Known, e: }\n"), "a: {b: *, *: true, kind: *****, *: }\n");
        assert_eq!(all("a: |\n  b\n  c: d\nb: 'g h'\n"), "a: |\n  *\n  ** *\nb: ** **\n");
        assert_eq!(all("a: {<<: {b: h}, b: b}\n"), "a: {**: {*: *}, b: *}\n");
        assert_eq!(all("- {op: add, path: /a-b, value: 7}\n"), "- {op: add, path: ****, *****: *}\n");
        assert_eq!(all("a: &x ü\nb: *x\nkind: [c]\n"), "a: ** **\nb: **\nkind: [*]\n");
        assert_eq!(all("a: !!bool true\n"), "a: ****** ****\n");
        assert_eq!(all("Password=x;Host=db: 5\n!!str b: 1\n"), "******************: *\n***** *: *\n");
    }

    #[test]
    fn what_follows_a_suspicious_key_is_hidden() {
        let text =
            "a: b\ntoken: {id: x, secret: abc def}\npassword : hunter2\nTS_AUTHKEY: k\n- TS_AUTHKEY=l\n";
        let hidden: Vec<&str> = suspects(text, 0).iter().map(|s| &text[s.start..s.end]).collect();
        assert_eq!(hidden, ["abc def}", "hunter2", "k", "l"]);
    }
}
