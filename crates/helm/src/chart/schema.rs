//! Checks values against the charts' `values.schema.json`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jsonschema::{Retrieve, Uri};
use serde_json::{Map, Value as Json};

use super::{Chart, plain_schema};
use crate::error::Error;

/// Documents that schemas refer to, by address.
type Documents = BTreeMap<String, Vec<u8>>;

/// Validates the values of a chart and its sub-charts.
pub(crate) fn validate(
    chart: &Chart,
    values: &Map<String, Json>,
    documents: &Documents,
) -> Result<(), Error> {
    let mut problems = String::new();
    collect(chart, values, documents, &mut problems)?;
    if problems.is_empty() { Ok(()) } else { Err(Error::Schema(problems)) }
}

fn collect(
    chart: &Chart,
    values: &Map<String, Json>,
    documents: &Documents,
    problems: &mut String,
) -> Result<(), Error> {
    match chart.schema.as_ref().map(|schema| check(schema, values, documents)) {
        None | Some(Ok(())) => {}
        Some(Err(Problem::Values(message))) => {
            problems.push_str(&format!("{}:\n{message}", chart.name()));
        }
        Some(Err(Problem::Missing(url))) => {
            return Err(Error::SchemaReference { chart: chart.name().to_owned(), url });
        }
    }
    for dependency in &chart.dependencies {
        if let Some(Json::Object(inner)) = values.get(dependency.name()) {
            collect(dependency, inner, documents, problems)?;
        }
    }
    Ok(())
}

/// Why values do not pass.
enum Problem {
    /// They break the schema, or it is not one.
    Values(String),
    /// The schema is not complete without the document of this address.
    Missing(String),
}

/// Hands out the documents that are there, and remembers the first that is not.
struct Known {
    documents: Documents,
    missing: Arc<Mutex<Option<Problem>>>,
}

impl Known {
    fn lack(&self, problem: Problem) {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(problem);
    }
}

impl Retrieve for Known {
    fn retrieve(&self, uri: &Uri<String>) -> Result<Json, Box<dyn std::error::Error + Send + Sync>> {
        let url = uri.as_str();
        if let Some(document) = self.documents.get(url) {
            return serde_json::from_slice(document).map_err(|e| format!("{url} is not JSON: {e}").into());
        }
        self.lack(match uri.scheme().as_str() {
            "http" | "https" => Problem::Missing(url.to_owned()),
            _ => {
                // What the library puts before references that are relative to nothing.
                let path = url.trim_start_matches("json-schema:///");
                Problem::Values(format!(
                    "the schema refers to {path}; only http and https addresses are fetched\n"
                ))
            }
        });
        Err("not there".into())
    }
}

/// Whole numbers that YAML made floating point count as integers to a schema.
fn whole(value: &Json) -> Json {
    match value {
        Json::Number(n) if n.is_f64() => match n.as_f64() {
            Some(f) if f.fract() == 0.0 && f.abs() < 9e15 => Json::from(f as i64),
            _ => value.clone(),
        },
        Json::Array(items) => Json::Array(items.iter().map(whole).collect()),
        Json::Object(entries) => Json::Object(entries.iter().map(|(k, v)| (k.clone(), whole(v))).collect()),
        other => other.clone(),
    }
}

fn check(schema: &[u8], values: &Map<String, Json>, documents: &Documents) -> Result<(), Problem> {
    if plain_schema::certainly_fits(schema, values) {
        return Ok(());
    }
    let schema: Json = serde_json::from_slice(schema).map_err(|e| Problem::Values(format!("{e}\n")))?;
    let missing = Arc::new(Mutex::new(None));
    let known = Known { documents: documents.clone(), missing: missing.clone() };
    let validator = match jsonschema::options().with_retriever(known).build(&schema) {
        Ok(validator) => validator,
        Err(e) => {
            let missing = missing.lock().unwrap_or_else(PoisonError::into_inner).take();
            return Err(missing.unwrap_or_else(|| Problem::Values(format!("{e}\n"))));
        }
    };
    let instance = whole(&Json::Object(values.clone()));
    let problems: Vec<String> = validator
        .iter_errors(&instance)
        .map(|e| {
            let at = e.instance_path().to_string();
            format!("- at '{at}': {e}\n")
        })
        .collect();
    if problems.is_empty() { Ok(()) } else { Err(Problem::Values(problems.concat())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(schema: &str, documents: &Documents) -> String {
        let values = Map::from_iter([("a".to_owned(), Json::from("x"))]);
        match check(schema.as_bytes(), &values, documents) {
            Ok(()) => "fits".to_owned(),
            Err(Problem::Values(message)) => message,
            Err(Problem::Missing(url)) => format!("missing {url}"),
        }
    }

    #[test]
    fn references_lead_to_the_network_or_nowhere() {
        let none = Documents::new();
        let remote = r##"{"$ref": "https://example.org/a.json#/b"}"##;
        assert_eq!(told(remote, &none), "missing https://example.org/a.json");
        let nested = r#"{"$id": "https://example.org/s/x.json", "properties": {"a": {"$ref": "../t.json"}}}"#;
        assert_eq!(told(nested, &none), "missing https://example.org/t.json");
        for (reference, shown) in [("file:///etc/passwd", "file:///etc/passwd"), ("other.json", "other.json")]
        {
            let schema = format!(r#"{{"$ref": "{reference}"}}"#);
            let expected =
                format!("the schema refers to {shown}; only http and https addresses are fetched\n");
            assert_eq!(told(&schema, &none), expected);
        }
        let known = |text: &str| Documents::from([("https://example.org/a.json".to_owned(), text.into())]);
        assert_eq!(told(remote, &known(r#"{"b": {"type": "object"}}"#)), "fits");
        assert_eq!(told(remote, &known(r#"{"b": {"type": "array"}}"#)).lines().count(), 1);
    }
}
