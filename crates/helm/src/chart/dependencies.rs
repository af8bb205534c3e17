//! Which sub-charts are used, under which names, and what parents take over from their values.

use std::collections::HashSet;

use serde_json::{Map, Value as Json};

use super::values::{coalesce_tables, coalesce_values, path_value, table};
use super::{Chart, Dependency, Values};
use crate::error::Error;
use crate::semver::compatible;

/// Drops disabled sub-charts, applies aliases, imports values. The chart is changed in place.
pub(crate) fn process_dependencies(
    chart: &mut Chart,
    values: &Map<String, Json>,
    warnings: &mut Vec<String>,
) -> Result<(), Error> {
    check_present(chart)?;
    enable(chart, values, "", warnings)?;
    import(chart, warnings)
}

/// Refuses a chart whose `Chart.yaml` lists charts that are not in `charts/`.
fn check_present(chart: &Chart) -> Result<(), Error> {
    let missing: Vec<&str> = chart
        .metadata
        .dependencies
        .iter()
        .flatten()
        .filter(|wanted| !chart.dependencies.iter().any(|found| found.name() == wanted.name))
        .map(|wanted| wanted.name.as_str())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::Chart(format!(
        "An error occurred while checking for chart dependencies. You may need to run `helm dependency build` to fetch missing dependencies: found in Chart.yaml, but missing in charts/ directory: {}",
        missing.join(", ")
    )))
}

fn enable(
    chart: &mut Chart,
    values: &Map<String, Json>,
    path: &str,
    warnings: &mut Vec<String>,
) -> Result<(), Error> {
    let Some(mut wanted) = chart.metadata.dependencies.clone() else { return Ok(()) };
    let matches = |wanted: &Dependency, found: &Chart| {
        found.name() == wanted.name && compatible(&wanted.version, &found.metadata.version)
    };
    // Charts that are there without being listed stay; listed ones come in the order of the list.
    let mut used: Vec<Chart> = chart
        .dependencies
        .iter()
        .filter(|found| !wanted.iter().any(|w| matches(w, found)))
        .cloned()
        .collect();
    for dependency in &mut wanted {
        if let Some(found) = chart.dependencies.iter().find(|found| matches(dependency, found)) {
            let mut found = found.clone();
            if !dependency.alias.is_empty() {
                found.metadata.name.clone_from(&dependency.alias);
            }
            used.push(found);
        }
        if !dependency.alias.is_empty() {
            dependency.name.clone_from(&dependency.alias);
        }
        dependency.enabled = true;
    }
    chart.dependencies = used;
    let merged = coalesce_values(chart, values, false, warnings)?;
    apply_tags(&mut wanted, &merged, warnings);
    apply_conditions(&mut wanted, &merged, path, warnings);
    let disabled: HashSet<String> = wanted.iter().filter(|d| !d.enabled).map(|d| d.name.clone()).collect();
    chart.dependencies.retain(|d| !disabled.contains(d.name()));
    wanted.retain(|d| !disabled.contains(&d.name));
    for dependency in &mut chart.dependencies {
        let inner = format!("{path}{}.", dependency.name());
        enable(dependency, &merged, &inner, warnings)?;
    }
    chart.metadata.dependencies = Some(wanted);
    Ok(())
}

fn apply_tags(wanted: &mut [Dependency], values: &Map<String, Json>, warnings: &mut Vec<String>) {
    let Some(Json::Object(tags)) = values.get("tags") else { return };
    for dependency in wanted {
        let (mut on, mut off) = (false, false);
        for tag in &dependency.tags {
            match tags.get(tag) {
                Some(Json::Bool(true)) => on = true,
                Some(Json::Bool(false)) => off = true,
                Some(_) => {
                    warnings
                        .push(format!("Tag '{tag}' for chart {} returned non-bool value", dependency.name));
                }
                None => {}
            }
        }
        dependency.enabled = on || !off;
    }
}

fn apply_conditions(
    wanted: &mut [Dependency],
    values: &Map<String, Json>,
    path: &str,
    warnings: &mut Vec<String>,
) {
    for dependency in wanted {
        for condition in dependency.condition.trim().split(',').filter(|c| !c.is_empty()) {
            match path_value(values, &format!("{path}{condition}")) {
                Some(Json::Bool(on)) => {
                    dependency.enabled = *on;
                    break;
                }
                Some(_) => warnings.push(format!(
                    "Condition path '{condition}' for chart {} returned non-bool value",
                    dependency.name
                )),
                None => {}
            }
        }
    }
}

/// Imports what parents ask for, innermost charts first.
fn import(chart: &mut Chart, warnings: &mut Vec<String>) -> Result<(), Error> {
    for dependency in &mut chart.dependencies {
        import(dependency, warnings)?;
    }
    let Some(wanted) = chart.metadata.dependencies.clone() else { return Ok(()) };
    let mut values = coalesce_values(chart, &Map::new(), true, warnings)?;
    let mut imported = Map::new();
    for dependency in &wanted {
        for entry in &dependency.import_values {
            let (child, parent) = match entry {
                Json::String(name) => (format!("exports.{name}"), ".".to_owned()),
                Json::Object(pair) => (shown(pair.get("child")), shown(pair.get("parent"))),
                _ => continue,
            };
            let Some(found) = table(&values, &format!("{}.{child}", dependency.name)) else {
                warnings.push(format!("ImportValues missing table from chart {}: {child}", dependency.name));
                continue;
            };
            let nested = match parent.as_str() {
                "." => found.clone(),
                path => path.rsplit('.').fold(found.clone(), |inner, key| {
                    Map::from_iter([(key.to_owned(), Json::Object(inner))])
                }),
            };
            coalesce_tables(&mut imported, &nested, "", true, warnings);
        }
    }
    coalesce_tables(&mut values, &imported, "", true, warnings);
    chart.values = Values::from_json(values);
    Ok(())
}

fn shown(value: Option<&Json>) -> String {
    match value {
        Some(Json::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => "<nil>".to_owned(),
    }
}
