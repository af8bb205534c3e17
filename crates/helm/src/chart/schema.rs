//! Checks values against the charts' `values.schema.json`.

use serde_json::{Map, Value as Json};

use super::{Chart, plain_schema};
use crate::error::Error;

/// Validates the values of a chart and its sub-charts.
pub(crate) fn validate(chart: &Chart, values: &Map<String, Json>) -> Result<(), Error> {
    let mut problems = String::new();
    collect(chart, values, &mut problems);
    if problems.is_empty() { Ok(()) } else { Err(Error::Schema(problems)) }
}

fn collect(chart: &Chart, values: &Map<String, Json>, problems: &mut String) {
    if let Some(schema) = &chart.schema
        && let Err(message) = check(schema, values)
    {
        problems.push_str(&format!("{}:\n{message}", chart.name()));
    }
    for dependency in &chart.dependencies {
        if let Some(Json::Object(inner)) = values.get(dependency.name()) {
            collect(dependency, inner, problems);
        }
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

fn check(schema: &[u8], values: &Map<String, Json>) -> Result<(), String> {
    if plain_schema::certainly_fits(schema, values) {
        return Ok(());
    }
    let schema: Json = serde_json::from_slice(schema).map_err(|e| format!("{e}\n"))?;
    let validator = jsonschema::options().build(&schema).map_err(|e| format!("{e}\n"))?;
    let instance = whole(&Json::Object(values.clone()));
    let problems: Vec<String> = validator
        .iter_errors(&instance)
        .map(|e| {
            let at = e.instance_path().to_string();
            format!("- at '{at}': {e}\n")
        })
        .collect();
    if problems.is_empty() { Ok(()) } else { Err(problems.concat()) }
}
