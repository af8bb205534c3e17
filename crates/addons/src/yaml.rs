//! Objects as YAML, as `kubectl` and Helm write them.

use std::borrow::Cow;
use std::rc::Rc;

use daedal_go_yaml::{Emit, Shape, Style, to_yaml};
use serde_json::Value;

/// A value that is cheap to copy.
#[derive(Clone)]
enum Node {
    Scalar(Value),
    List(Rc<[Node]>),
    Map(Rc<[(String, Node)]>),
}

impl From<&Value> for Node {
    fn from(value: &Value) -> Self {
        match value {
            Value::Array(items) => Self::List(items.iter().map(Self::from).collect()),
            Value::Object(entries) => {
                Self::Map(entries.iter().map(|(key, value)| (key.clone(), Self::from(value))).collect())
            }
            scalar => Self::Scalar(scalar.clone()),
        }
    }
}

impl Emit for Node {
    fn shape(&self, _: Style) -> Shape<'_, Self> {
        match self {
            Self::List(items) => Shape::Sequence(items),
            Self::Map(entries) => Shape::Mapping(entries.to_vec()),
            Self::Scalar(Value::Bool(b)) => Shape::Bool(*b),
            Self::Scalar(Value::String(text)) => Shape::Text(Cow::Borrowed(text)),
            Self::Scalar(Value::Number(number)) => match (number.as_i64(), number.as_u64()) {
                (Some(i), _) => Shape::Int(i),
                (None, Some(u)) => Shape::Uint(u),
                (None, None) => Shape::Float(number.as_f64().unwrap_or_default()),
            },
            Self::Scalar(_) => Shape::Null,
        }
    }
}

/// The YAML of an object; JSON, which is YAML too, if it nests too deep.
pub fn of(object: &Value) -> String {
    let text = to_yaml(&Node::from(object), Style::Kubernetes);
    match text.map(String::from_utf8) {
        Some(Ok(text)) => text,
        _ => format!("{object}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_written_is_read_as_the_same() {
        let object = json!({"kind": "A", "metadata": {"name": "a", "labels": {}},
            "list": [1, -2, 1.5, "on", "1", null, true, "a\nb\n", []], "big": u64::MAX});
        let text = of(&object);
        assert!(text.starts_with("big: 18446744073709551615\nkind: A\nlist:\n- 1\n"), "{text}");
        let read = crate::manifests::read("x", &text).unwrap();
        assert_eq!(read[0].body, object);
    }
}
