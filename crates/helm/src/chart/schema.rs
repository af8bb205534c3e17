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
    missing: Arc<Mutex<Option<String>>>,
}

impl Retrieve for Known {
    fn retrieve(&self, uri: &Uri<String>) -> Result<Json, Box<dyn std::error::Error + Send + Sync>> {
        let url = uri.as_str();
        if let Some(document) = self.documents.get(url) {
            return serde_json::from_slice(document).map_err(|e| format!("{url} is not JSON: {e}").into());
        }
        if !matches!(uri.scheme().as_str(), "http" | "https") {
            return Err(format!("only addresses of http and https can be fetched, not {url}").into());
        }
        let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        missing.get_or_insert_with(|| url.to_owned());
        Err(format!("{url} was not fetched").into())
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
            return Err(missing.map_or_else(|| Problem::Values(format!("{e}\n")), Problem::Missing));
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
