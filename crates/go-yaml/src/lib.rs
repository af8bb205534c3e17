//! YAML as Go programs read and write it, through go-yaml and `sigs.k8s.io/yaml`.
//!
//! [`parse_document`] gives the value of a document; what is a number, a word or a text follows go-yaml's rules, and errors are
//! worded as there. [`to_yaml`] writes any [`Emit`] byte for byte as go-yaml does.

mod decode;
mod emit;
pub mod numbers;
mod parse;
mod resolve;
mod scan;
mod sort;
mod timestamp;

use std::borrow::Cow;

pub use decode::Yaml;
pub use emit::{Emit, Shape, Style, to_yaml};
pub use parse::parse_document;
pub use timestamp::is_timestamp;

/// Text, with U+FFFD in place of invalid bytes. Valid text, which is nearly all of it, is only checked.
pub fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(bytes),
    }
}

/// What a typed reader (a Go struct field of type string) makes of a scalar.
pub fn coerced_string(yaml: &Yaml<'_>) -> Option<String> {
    match yaml {
        Yaml::String(s) => Some(lossy(s).into_owned()),
        Yaml::Int(i) => Some(i.to_string()),
        Yaml::Uint(u) => Some(u.to_string()),
        Yaml::Float(f) => Some(float32(*f)),
        Yaml::Bool(b) => Some(b.to_string()),
        _ => None,
    }
}

/// `strconv.FormatFloat(f, 'g', -1, 32)`.
fn float32(f: f64) -> String {
    let shortest: f64 = format!("{}", f as f32).parse().unwrap_or(f);
    numbers::format_g(shortest, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_types_that_go_tells_apart() {
        let document =
            parse_document(b"{a: 010, b: 18446744073709551615, c: '1', d: off, e: [~, 1e3]}").unwrap();
        assert_eq!(document.get("a"), Some(&Yaml::Int(8)));
        assert_eq!(document.get("b"), Some(&Yaml::Uint(u64::MAX)));
        assert_eq!(document.get("c"), Some(&Yaml::String(b"1".into())));
        assert_eq!(document.get("d"), Some(&Yaml::Bool(false)));
        assert_eq!(document.get("e"), Some(&Yaml::Sequence(vec![Yaml::Null, Yaml::Float(1000.0)])));
    }

    #[test]
    fn an_alias_within_what_it_names_is_told_as_go_does() {
        for text in ["a: &x [*x]", "a: 1\nb: &x {c: *x}", "a: &x 1\nb: &x [*x]"] {
            assert_eq!(parse_document(text.as_bytes()), Err("anchor 'x' value contains itself".to_owned()));
        }
        assert_eq!(parse_document(b"a: &x 1\nb: [*y]"), Err("unknown anchor 'y' referenced".to_owned()));
        let after = parse_document(b"a: &x [&y 1]\nb: *x\nc: *y").unwrap();
        assert_eq!((after.get("b"), after.get("c")), (after.get("a"), Some(&Yaml::Int(1))));
    }

    #[test]
    fn scalars_become_texts_as_in_typed_fields() {
        for (text, coerced) in
            [("1.10", "1.1"), ("010", "8"), ("yes", "true"), ("0x1F", "31"), ("'010'", "010")]
        {
            assert_eq!(coerced_string(&parse_document(text.as_bytes()).unwrap()).as_deref(), Some(coerced));
        }
        assert_eq!(coerced_string(&Yaml::Null), None);
    }
}
