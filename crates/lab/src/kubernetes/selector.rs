//! Label and field selectors.

use serde_json::Value;

/// A condition on an object, from the query parameters `labelSelector` and `fieldSelector`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selector {
    labels: Vec<Term>,
    fields: Vec<(String, String, bool)>,
}

#[derive(Clone, Debug)]
enum Term {
    Is(String, Vec<String>),
    IsNot(String, Vec<String>),
    Has(String),
    HasNot(String),
}

impl Selector {
    pub(crate) fn parse(labels: &str, fields: &str) -> Self {
        Self { labels: split(labels).iter().filter_map(|t| term(t)).collect(), fields: field_terms(fields) }
    }

    /// Whether an object fits.
    pub(crate) fn fits(&self, object: &Value) -> bool {
        let label = |key: &str| object["metadata"]["labels"].get(key).and_then(Value::as_str);
        self.labels.iter().all(|term| match term {
            Term::Is(key, values) => label(key).is_some_and(|v| values.iter().any(|w| w == v)),
            Term::IsNot(key, values) => label(key).is_none_or(|v| values.iter().all(|w| w != v)),
            Term::Has(key) => label(key).is_some(),
            Term::HasNot(key) => label(key).is_none(),
        }) && self.fields.iter().all(|(path, value, wanted)| {
            let found = path.split('.').fold(object, |at, part| &at[part]);
            let found = match found {
                Value::String(text) => text.clone(),
                Value::Null => String::new(),
                other => other.to_string(),
            };
            (found == *value) == *wanted
        })
    }
}

/// Whether a selector inside an object (`matchLabels`, `matchExpressions`) selects what has these labels.
pub(crate) fn selects(selector: &Value, labels: &Value) -> bool {
    let equal = selector["matchLabels"].as_object().into_iter().flatten();
    equal.into_iter().all(|(key, value)| labels.get(key) == Some(value))
        && expressions_fit(&selector["matchExpressions"], labels)
}

/// Whether all expressions hold for these labels.
pub(crate) fn expressions_fit(expressions: &Value, labels: &Value) -> bool {
    expressions.as_array().into_iter().flatten().all(|expression| {
        let key = expression["key"].as_str().unwrap_or_default();
        let value = labels.get(key).and_then(Value::as_str);
        let listed = |value: &str| {
            expression["values"].as_array().into_iter().flatten().any(|wanted| wanted.as_str() == Some(value))
        };
        let number = || -> Option<(i64, i64)> {
            Some((value?.parse().ok()?, expression["values"][0].as_str()?.parse().ok()?))
        };
        match expression["operator"].as_str() {
            Some("In") => value.is_some_and(listed),
            Some("NotIn") => !value.is_some_and(listed),
            Some("Exists") => value.is_some(),
            Some("DoesNotExist") => value.is_none(),
            Some("Gt") => number().is_some_and(|(value, bound)| value > bound),
            Some("Lt") => number().is_some_and(|(value, bound)| value < bound),
            _ => false,
        }
    })
}

/// Splits at commas outside parentheses.
fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut depth = 0;
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = parts.last_mut() {
            last.push(c);
        }
    }
    parts.into_iter().map(|p| p.trim().to_owned()).filter(|p| !p.is_empty()).collect()
}

fn term(text: &str) -> Option<Term> {
    let set = |rest: &str| -> Vec<String> {
        rest.trim()
            .trim_start_matches('(')
            .trim_end_matches(')')
            .split(',')
            .map(|v| v.trim().to_owned())
            .collect()
    };
    if let Some((key, rest)) = text.split_once(" notin ") {
        return Some(Term::IsNot(key.trim().into(), set(rest)));
    }
    if let Some((key, rest)) = text.split_once(" in ") {
        return Some(Term::Is(key.trim().into(), set(rest)));
    }
    if let Some((key, value)) = text.split_once("!=") {
        return Some(Term::IsNot(key.trim().into(), vec![value.trim().into()]));
    }
    if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return Some(Term::Is(key.trim().into(), vec![value.trim().into()]));
    }
    match text.strip_prefix('!') {
        Some(key) => Some(Term::HasNot(key.trim().into())),
        None => Some(Term::Has(text.into())),
    }
}

fn field_terms(text: &str) -> Vec<(String, String, bool)> {
    let parts = text.split(',').filter(|p| !p.is_empty());
    parts
        .filter_map(|part| {
            if let Some((path, value)) = part.split_once("!=") {
                return Some((path.to_owned(), value.to_owned(), false));
            }
            let (path, value) = part.split_once("==").or_else(|| part.split_once('='))?;
            Some((path.to_owned(), value.to_owned(), true))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn selectors_select() {
        let object =
            json!({"metadata": {"name": "x", "labels": {"a": "1", "b": "2"}}, "spec": {"nodeName": "n"}});
        for yes in ["a=1", "a==1,b=2", "a in (1,3),b", "c notin (1)", "!c", "a!=2", ""] {
            assert!(Selector::parse(yes, "").fits(&object), "{yes}");
        }
        for no in ["a=2", "c", "a notin (1, 2)", "!a", "a=1,b=3"] {
            assert!(!Selector::parse(no, "").fits(&object), "{no}");
        }
        assert!(Selector::parse("", "metadata.name=x,spec.nodeName!=m").fits(&object));
        assert!(!Selector::parse("", "metadata.name=y").fits(&object));
    }

    #[test]
    fn selectors_of_objects_select() {
        let labels = json!({"a": "1", "b": "2"});
        let selector =
            |expressions: Value| json!({"matchLabels": {"a": "1"}, "matchExpressions": expressions});
        let expression = |key: &str, operator: &str, values: &[&str]| json!([{"key": key, "operator": operator, "values": values}]);
        assert!(selects(&json!({}), &labels) && selects(&selector(json!([])), &labels));
        for (key, operator, values, fits) in [
            ("b", "In", &["2", "3"][..], true),
            ("b", "NotIn", &["2"], false),
            ("c", "NotIn", &["2"], true),
            ("c", "Exists", &[], false),
            ("c", "DoesNotExist", &[], true),
            ("b", "Gt", &["1"], true),
        ] {
            assert_eq!(
                selects(&selector(expression(key, operator, values)), &labels),
                fits,
                "{key} {operator}"
            );
        }
        assert!(!selects(&json!({"matchLabels": {"a": "2"}}), &labels));
    }
}
