//! Objects from YAML texts.

use daedal_go_yaml::{Yaml, coerced_string, lossy, parse_document};
use serde_json::{Map, Number, Value};

use crate::error::Error;

/// An object as it is written, and where.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Document {
    /// The text that it is in.
    pub(crate) origin: String,
    /// Its place there, from one.
    pub(crate) number: usize,
    /// The object.
    pub(crate) body: Value,
}

impl Document {
    pub(crate) fn wrong(&self, message: impl Into<String>) -> Error {
        Error::Object { origin: self.origin.clone(), document: self.number, message: message.into() }
    }
}

/// How deep objects may nest.
const MAX_DEPTH: usize = 500;

/// The objects of a text; empty documents are none, and a list is what is in it.
pub(crate) fn read(origin: &str, text: &str) -> Result<Vec<Document>, Error> {
    let mut documents = Vec::new();
    for (index, part) in split(text).into_iter().enumerate() {
        let yaml = |message| Error::Yaml { origin: origin.to_owned(), document: index + 1, message };
        let parsed = parse_document(part.as_bytes()).map_err(yaml)?;
        let body = json(&parsed, 0).map_err(yaml)?;
        flatten(Document { origin: origin.to_owned(), number: index + 1, body }, &mut documents)?;
    }
    Ok(documents)
}

fn flatten(mut document: Document, into: &mut Vec<Document>) -> Result<(), Error> {
    if document.body.is_null() {
        return Ok(());
    }
    if !document.body.is_object() {
        return Err(document.wrong("is not an object"));
    }
    let is_list = document.body["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    if !is_list || !document.body["items"].is_array() {
        into.push(document);
        return Ok(());
    }
    let Value::Array(items) = document.body["items"].take() else { return Ok(()) };
    items.into_iter().try_for_each(|body| flatten(Document { body, ..document.clone() }, into))
}

/// The documents of a text, without those that are blank.
fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for line in text.trim_start_matches('\u{feff}').split_inclusive('\n') {
        let after =
            line.strip_prefix("---").filter(|rest| rest.starts_with(char::is_whitespace) || rest.is_empty());
        match (after, parts.last_mut()) {
            (Some(rest), _) => parts.push(rest.trim_start_matches([' ', '\t']).to_owned()),
            (None, Some(part)) => part.push_str(line),
            (None, None) => {}
        }
    }
    let says = |part: &str| part.lines().any(|l| !l.trim().is_empty() && !l.trim_start().starts_with('#'));
    parts.retain(|part| says(part));
    parts
}

fn json(yaml: &Yaml<'_>, depth: usize) -> Result<Value, String> {
    if depth > MAX_DEPTH {
        return Err("it nests too deep".to_owned());
    }
    Ok(match yaml {
        Yaml::Null => Value::Null,
        Yaml::Bool(b) => Value::Bool(*b),
        Yaml::Int(i) => Value::from(*i),
        Yaml::Uint(u) => Value::from(*u),
        Yaml::Float(f) => float(*f)?,
        Yaml::String(s) => Value::String(lossy(s).into_owned()),
        Yaml::Sequence(items) => {
            Value::Array(items.iter().map(|item| json(item, depth + 1)).collect::<Result<_, _>>()?)
        }
        Yaml::Mapping(entries) => {
            let mut map = Map::new();
            for (key, value) in entries {
                let key = coerced_string(key).ok_or("a key is neither text nor a number")?;
                map.insert(key, json(value, depth + 1)?);
            }
            Value::Object(map)
        }
    })
}

/// A number; what is whole is written without a point, as Go does.
fn float(number: f64) -> Result<Value, String> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() <= EXACT {
        return Ok(Value::from(number as i64));
    }
    Number::from_f64(number).map(Value::Number).ok_or_else(|| "a number is not finite".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn documents_lists_and_numbers() {
        let text = "# a comment\n---\nkind: ConfigMap\ndata: {a: 'x', b: z}\n---\n# nothing\n--- # note\nkind: List\nitems:\n- kind: A\n- kind: BList\n  items: [{kind: B, m: 1e3}]\n";
        let found = read("x.yaml", text).unwrap();
        let bodies: Vec<&Value> = found.iter().map(|d| &d.body).collect();
        assert_eq!(
            bodies,
            [
                &json!({"kind": "ConfigMap", "data": {"a": "x", "b": "z"}}),
                &json!({"kind": "A"}),
                &json!({"kind": "B", "m": 1000})
            ]
        );
        assert_eq!(found[0].number, 1);
    }

    #[test]
    fn dashes_within_a_text_split_nothing() {
        let found = read("x", "kind: A\ndata: |\n  a\n  ---\n  b\n").unwrap();
        assert_eq!(found[0].body["data"], "a\n---\nb\n");
        assert_eq!(read("x", "kind: A\n----x: 1\n").unwrap()[0].body["----x"], 1);
    }

    #[test]
    fn what_is_no_object_is_an_error_with_its_place() {
        let error = read("x.yaml", "kind: A\n---\n- 1\n").unwrap_err().to_string();
        assert_eq!(error, "x.yaml: document 2 is not an object");
        let error = read("x.yaml", "a: b: c\n").unwrap_err().to_string();
        assert!(error.starts_with("x.yaml: document 1 is not YAML: "), "{error}");
    }
}
