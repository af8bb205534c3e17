//! Which bytes of a text may be secrets.

use crate::check::looks_secret;
use crate::yaml::{Entry, Kind, Node, Span, Value};

/// Everything in a text but its keys, its signs, and what says no more than yes, no or nothing: also comments, and what is
/// written but does not count.
pub(crate) fn values(text: &str, documents: &[Node]) -> Vec<Span> {
    let (mut shown, mut values) = (Vec::new(), Vec::new());
    documents.iter().for_each(|document| sort(document, 0, &mut shown, &mut values));
    hidden(text, &shown, &values)
}

/// Sorts what a document holds: what may be seen, and what may not.
fn sort(node: &Node, depth: usize, shown: &mut Vec<Span>, values: &mut Vec<Span>) {
    match &node.value {
        Value::Scalar { kind: Kind::Null | Kind::Bool, .. } => shown.push(node.span),
        Value::Scalar { .. } => values.push(node.span),
        Value::Seq(items) => items.iter().for_each(|item| sort(item, depth, shown, values)),
        Value::Map(entries) => {
            for Entry { key, key_span, value } in entries {
                shown.push(*key_span);
                // What a document, or an operation of a JSON patch, is.
                let tells = depth == 0 && matches!(key.as_str(), "apiVersion" | "kind" | "op");
                match value.value {
                    Value::Scalar { .. } if tells => shown.push(value.span),
                    _ => sort(value, depth + 1, shown, values),
                }
            }
        }
    }
}

/// The same of a text that cannot be read: all but what stands before the first colon of a line.
pub(crate) fn all_but_keys(text: &str) -> Vec<Span> {
    let mut shown = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let key = line.find(':').filter(|end| !line[..*end].contains(['#', '{', '[']));
        shown.extend(key.map(|end| Span { source: 0, start: at, end: at + end }));
        at += line.len();
    }
    hidden(text, &shown, &[])
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
    fn only_keys_are_seen_of_a_patch() {
        let all = |text: &str| seen(text, &values(text, &yaml::parse(text, 0).0));
        assert_eq!(all("kind: A # b\nname: c\n"), "kind: A * *\nname: *\n");
        assert_eq!(all("a: {b: 1, c: true, kind: d, e: }\n"), "a: {b: *, c: true, kind: *, e: }\n");
        assert_eq!(all("a: |\n  b\n  c: d\nf: 'g h'\n"), "a: |\n  *\n  ** *\nf: ** **\n");
        assert_eq!(all("x: {<<: {A: h}, A: b}\n"), "x: {**: {*: *}, A: *}\n");
        assert_eq!(all("- {op: add, path: /a-b, value: 7}\n"), "- {op: add, path: ****, value: *}\n");
        assert_eq!(all("a: &x ü\nb: *x\nkind: [c]\n"), "a: ** **\nb: **\nkind: [*]\n");
        let broken = "a:\tb\n  # c: d\n- e: {f: g}\n h\n";
        assert_eq!(seen(broken, &all_but_keys(broken)), "a:\t*\n  * *: *\n- e: {*: *}\n *\n");
    }

    #[test]
    fn what_follows_a_suspicious_key_is_hidden() {
        let text =
            "a: b\ntoken: {id: x, secret: abc def}\npassword : hunter2\nTS_AUTHKEY: k\n- TS_AUTHKEY=l\n";
        let hidden: Vec<&str> = suspects(text, 0).iter().map(|s| &text[s.start..s.end]).collect();
        assert_eq!(hidden, ["abc def}", "hunter2", "k", "l"]);
    }
}
