//! What the values of templates are to the writer of YAML.

use std::borrow::Cow;

use daedal_go_yaml::{Emit, Shape, Style};

use crate::value::Value;

impl Emit for Value {
    fn shape(&self, style: Style) -> Shape<'_, Value> {
        match self {
            Value::List(list) if list.nil => Shape::Null,
            Value::Map(map) if map.nil.get() => Shape::Null,
            Value::List(list) => Shape::Sequence(&list.items),
            Value::Map(map) => {
                let entries = map.entries.borrow();
                Shape::Mapping(entries.iter().map(|(k, v)| (k.text().into_owned(), v.clone())).collect())
            }
            Value::Files(files) => {
                Shape::Mapping(files.iter().map(|(k, v)| (k.to_owned(), Value::Bytes(v.into()))).collect())
            }
            Value::Struct(s) => {
                let fields = s.fields.iter().filter(|f| !(f.omit_empty && f.value.is_empty()));
                Shape::Mapping(fields.map(|f| (f.json.to_owned(), f.value.clone())).collect())
            }
            Value::Nil | Value::NilInterface => Shape::Null,
            Value::Bool(b) => Shape::Bool(*b),
            Value::Int(i) | Value::Int64(i) | Value::Duration(i) | Value::Named(_, i, _) => Shape::Int(*i),
            Value::Uint8(u) => Shape::Uint(u64::from(*u)),
            Value::Uint64(u) => Shape::Uint(*u),
            Value::Float(f) => Shape::Float(*f),
            Value::Str(s) => Shape::Text(s.text()),
            Value::Bytes(b) => {
                use base64::Engine as _;
                Shape::Text(Cow::Owned(base64::engine::general_purpose::STANDARD.encode(b)))
            }
            Value::Time(t) => {
                let text = t.format("2006-01-02T15:04:05.999999999Z07:00");
                // The pretty style knows times; the other gets them as JSON strings.
                match style {
                    Style::Pretty => Shape::Plain(text),
                    Style::Kubernetes => Shape::Text(Cow::Owned(text)),
                }
            }
            Value::Version(v) => Shape::Text(Cow::Owned(v.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::{from_yaml, to_yaml};

    fn round(text: &str) -> String {
        String::from_utf8(to_yaml(&from_yaml(text.as_bytes()).unwrap(), Style::Kubernetes).unwrap()).unwrap()
    }

    #[test]
    fn lists_are_not_indented_under_keys() {
        assert_eq!(
            round("{a: [1, {b: 2, c: [x]}], e: [], f: {}, g: null}"),
            "a:\n- 1\n- b: 2\n  c:\n  - x\ne: []\nf: {}\ng: null\n"
        );
        assert_eq!(round("[[1, 2], [3]]"), "- - 1\n  - 2\n- - 3\n");
    }

    #[test]
    fn strings_are_quoted_only_when_they_must() {
        assert_eq!(
            round(
                r#"["true", "1", "a: b", " x", "a\tb", "", "~", "2024-01-01", "a#b", "a #b", "1:30", "yes", "é😀", "-", "- a", "0x1f", "1e3", "x\u0001"]"#
            ),
            "- \"true\"\n- \"1\"\n- 'a: b'\n- ' x'\n- \"a\\tb\"\n- \"\"\n- \"~\"\n- \"2024-01-01\"\n- a#b\n- 'a #b'\n- \"1:30\"\n- \"yes\"\n- \"é\\U0001F600\"\n- '-'\n- '- a'\n- \"0x1f\"\n- \"1e3\"\n- \"x\\x01\"\n"
        );
    }

    #[test]
    fn multi_line_strings_are_literal_blocks() {
        assert_eq!(
            round("a: \"x\\ny\\n\"\nb: \"x\\ny\"\nc: \" x\\ny\\n\\n\"\nd: \"x \\ny\""),
            "a: |\n  x\n  y\nb: |-\n  x\n  y\nc: |2+\n   x\n  y\n\nd: \"x \\ny\"\n"
        );
    }

    #[test]
    fn long_lines_fold() {
        let long = "word ".repeat(30);
        let text = round(&format!("a: '{}'", long.trim()));
        assert!(text.lines().count() > 1 && text.lines().all(|l| l.len() < 90), "{text}");
        assert_eq!(round(&text), text);
    }
}
