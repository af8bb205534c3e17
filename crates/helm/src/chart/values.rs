//! Values: read from YAML, overridden from the command line, merged down through the sub-charts.

use std::sync::Arc;

use serde_json::{Map, Number, Value as Json};

use super::{Chart, set};
use crate::error::Error;
use crate::yaml::{self, Yaml};

/// A table of values, as a chart or a user writes it. Copies share it.
///
/// Numbers read from YAML are floating point, as Helm's are; numbers from `--set` are integers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Values(pub(crate) Arc<Map<String, Json>>);

impl Values {
    /// Reads a YAML document that is a mapping, or empty.
    pub fn from_yaml(text: &[u8]) -> Result<Values, Error> {
        let document = yaml::parse_document(text)
            .map_err(|e| Error::Values(format!("error converting YAML to JSON: yaml: {e}")))?;
        match to_json(&document, 0).map_err(Error::Values)? {
            Json::Object(map) => Ok(Values::from_json(map)),
            Json::Null => Ok(Values::default()),
            other => Err(Error::Values(format!(
                "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                match other {
                    Json::Array(_) => "array",
                    Json::String(_) => "string",
                    Json::Bool(_) => "bool",
                    _ => "number",
                }
            ))),
        }
    }

    /// Values from JSON.
    pub fn from_json(map: Map<String, Json>) -> Values {
        Values(Arc::new(map))
    }

    /// The values as JSON.
    pub fn as_json(&self) -> &Map<String, Json> {
        &self.0
    }
}

/// How deep values may nest.
const MAX_DEPTH: usize = 1000;

fn to_json(document: &Yaml<'_>, depth: usize) -> Result<Json, String> {
    if depth > MAX_DEPTH {
        return Err("values nest too deep".to_owned());
    }
    let float = |f: f64| match Number::from_f64(f) {
        Some(number) => Ok(Json::Number(number)),
        None => Err(format!("json: unsupported value: {}", crate::strconv::format_g(f, None))),
    };
    Ok(match document {
        Yaml::Null => Json::Null,
        Yaml::Bool(b) => Json::Bool(*b),
        Yaml::Int(i) => float(*i as f64)?,
        Yaml::Uint(u) => float(*u as f64)?,
        Yaml::Float(f) => float(*f)?,
        Yaml::String(s) => Json::String(crate::strconv::lossy(s).into_owned()),
        Yaml::Sequence(items) => {
            Json::Array(items.iter().map(|i| to_json(i, depth + 1)).collect::<Result<_, _>>()?)
        }
        Yaml::Mapping(entries) => {
            let mut map = Map::new();
            for (key, value) in entries {
                let key = yaml::coerced_string(key)
                    .ok_or_else(|| format!("unsupported map key of type: {}", key.type_name()))?;
                map.insert(key, to_json(value, depth + 1)?);
            }
            Json::Object(map)
        }
    })
}

/// Collects values in the order Helm's command line gives them weight: files, then JSON, settings, strings, files,
/// literals.
#[derive(Clone, Debug, Default)]
pub struct ValuesBuilder {
    base: Map<String, Json>,
}

impl ValuesBuilder {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lays a values file over what is there: tables merge, everything else replaces.
    pub fn file(mut self, text: &[u8]) -> Result<Self, Error> {
        let Values(over) = Values::from_yaml(text)?;
        merge_maps(&mut self.base, Arc::unwrap_or_clone(over));
        Ok(self)
    }

    /// `--set`: `a.b=c,d[0]=e`, with numbers, booleans and nulls recognised.
    pub fn set(mut self, line: &str) -> Result<Self, Error> {
        set::parse_into(line, &mut self.base, set::Mode::Typed)
            .map_err(|e| Error::Values(format!("failed parsing --set data: {e}")))?;
        Ok(self)
    }

    /// `--set-string`: as `--set`, but every value is a string.
    pub fn set_string(mut self, line: &str) -> Result<Self, Error> {
        set::parse_into(line, &mut self.base, set::Mode::Text)
            .map_err(|e| Error::Values(format!("failed parsing --set-string data: {e}")))?;
        Ok(self)
    }

    /// `--set-json`: as `--set`, but every value is JSON.
    pub fn set_json(mut self, line: &str) -> Result<Self, Error> {
        set::parse_into(line, &mut self.base, set::Mode::Json)
            .map_err(|_| Error::Values(format!("failed parsing --set-json data {line}")))?;
        Ok(self)
    }

    /// `--set-file`: as `--set`, but every value names a file, which `read` returns.
    pub fn set_file(
        mut self,
        line: &str,
        read: &mut dyn FnMut(&str) -> Result<String, String>,
    ) -> Result<Self, Error> {
        set::parse_into(line, &mut self.base, set::Mode::File(read))
            .map_err(|e| Error::Values(format!("failed parsing --set-file data: {e}")))?;
        Ok(self)
    }

    /// `--set-literal`: one path and one string, in which nothing but the first `=` is special.
    pub fn set_literal(mut self, line: &str) -> Result<Self, Error> {
        set::parse_literal_into(line, &mut self.base)
            .map_err(|e| Error::Values(format!("failed parsing --set-literal data: {e}")))?;
        Ok(self)
    }

    /// The values.
    pub fn build(self) -> Values {
        Values::from_json(self.base)
    }
}

fn merge_maps(base: &mut Map<String, Json>, over: Map<String, Json>) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Json::Object(into)), Json::Object(from)) => merge_maps(into, from),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

const GLOBAL: &str = "global";

/// Merges a chart's own values, and those of its sub-charts, under what was given. With `merge`, nulls are kept.
pub(crate) fn coalesce_values(
    chart: &Chart,
    given: &Map<String, Json>,
    merge: bool,
    warnings: &mut Vec<String>,
) -> Result<Map<String, Json>, Error> {
    let mut values = given.clone();
    coalesce(chart, &mut values, "", merge, warnings)?;
    Ok(values)
}

fn join(a: &str, b: &str) -> String {
    if a.is_empty() { b.to_owned() } else { format!("{a}.{b}") }
}

fn coalesce(
    chart: &Chart,
    values: &mut Map<String, Json>,
    prefix: &str,
    merge: bool,
    warnings: &mut Vec<String>,
) -> Result<(), Error> {
    coalesce_own(chart, values, prefix, merge, warnings);
    for dependency in &chart.dependencies {
        let name = dependency.name();
        let globals = values.get(GLOBAL).cloned();
        let entry = values.entry(name.to_owned()).or_insert_with(|| Json::Object(Map::new()));
        let Json::Object(inner) = entry else {
            return Err(Error::Values(format!("type mismatch on {name}: expected a table")));
        };
        let inner_prefix = join(prefix, chart.name());
        coalesce_globals(inner, globals, &inner_prefix, warnings);
        coalesce(dependency, inner, &inner_prefix, merge, warnings)?;
    }
    Ok(())
}

fn coalesce_globals(
    values: &mut Map<String, Json>,
    parent: Option<Json>,
    prefix: &str,
    warnings: &mut Vec<String>,
) {
    let mut own = match values.get(GLOBAL) {
        None => Map::new(),
        Some(Json::Object(map)) => map.clone(),
        Some(_) => {
            warnings.push("skipping globals because destination global is not a table.".to_owned());
            return;
        }
    };
    let inherited = match parent {
        None => Map::new(),
        Some(Json::Object(map)) => map,
        Some(_) => {
            warnings.push("skipping globals because source global is not a table.".to_owned());
            return;
        }
    };
    for (key, value) in inherited {
        match (value, own.get(&key)) {
            (Json::Object(table), None) => {
                own.insert(key, Json::Object(table));
            }
            (Json::Object(mut table), Some(Json::Object(existing))) => {
                let existing = existing.clone();
                coalesce_tables(&mut table, &existing, &join(prefix, &key), true, warnings);
                own.insert(key, Json::Object(table));
            }
            (Json::Object(_), Some(_)) => {
                warnings.push(format!("Conflict: cannot merge map onto non-map for {key:?}. Skipping."));
            }
            (_, Some(Json::Object(_))) => warnings.push(format!("key {key} is table. Skipping")),
            (value, _) => {
                own.insert(key, value);
            }
        }
    }
    values.insert(GLOBAL.to_owned(), Json::Object(own));
}

fn coalesce_own(
    chart: &Chart,
    values: &mut Map<String, Json>,
    prefix: &str,
    merge: bool,
    warnings: &mut Vec<String>,
) {
    let prefix = join(prefix, chart.name());
    for (key, default) in chart.values.as_json() {
        match values.get_mut(key) {
            None => {
                values.insert(key.clone(), default.clone());
            }
            Some(Json::Null) if !merge => {
                values.remove(key);
            }
            Some(Json::Object(given)) => match default {
                Json::Object(default) => {
                    let merge = merge || chart.dependencies.iter().any(|d| d.name() == key);
                    coalesce_tables(given, default, &join(&prefix, key), merge, warnings);
                }
                Json::Null => {}
                _ => warnings.push(format!("skipped value for {prefix}.{key}: Not a table.")),
            },
            Some(_) => {}
        }
    }
}

/// Merges a table under another that has precedence.
pub(super) fn coalesce_tables(
    over: &mut Map<String, Json>,
    under: &Map<String, Json>,
    prefix: &str,
    merge: bool,
    warnings: &mut Vec<String>,
) {
    for (key, value) in under {
        let full = join(prefix, key);
        match over.get_mut(key) {
            Some(Json::Null) if !merge => {
                over.remove(key);
            }
            None => {
                over.insert(key.clone(), value.clone());
            }
            Some(existing) => match (value, existing) {
                (Json::Object(value), Json::Object(existing)) => {
                    coalesce_tables(existing, value, &full, merge, warnings);
                }
                (Json::Object(_), _) => {
                    warnings.push(format!("cannot overwrite table with non table for {full}"));
                }
                (value, Json::Object(_)) if !value.is_null() => {
                    warnings.push(format!(
                        "destination for {full} is a table. Ignoring non-table value ({value})"
                    ));
                }
                _ => {}
            },
        }
    }
}

/// The table at a dotted path.
pub(super) fn table<'a>(values: &'a Map<String, Json>, path: &str) -> Option<&'a Map<String, Json>> {
    path.split('.').try_fold(values, |table, key| match table.get(key) {
        Some(Json::Object(inner)) => Some(inner),
        _ => None,
    })
}

/// The value at a dotted path, unless it is a table.
pub(super) fn path_value<'a>(values: &'a Map<String, Json>, path: &str) -> Option<&'a Json> {
    let (parent, key) = match path.rsplit_once('.') {
        Some((parent, key)) => (table(values, parent)?, key),
        None => (values, path),
    };
    parent.get(key).filter(|v| !v.is_object())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(name: &str, values: &str, dependencies: Vec<Chart>) -> Chart {
        Chart {
            metadata: super::super::Metadata { name: name.into(), ..Default::default() },
            templates: Arc::default(),
            files: Arc::default(),
            values: Values::from_yaml(values.as_bytes()).unwrap(),
            schema: None,
            dependencies,
        }
    }

    fn coalesced(chart: &Chart, given: &str) -> Json {
        let given = Values::from_yaml(given.as_bytes()).unwrap();
        Json::Object(coalesce_values(chart, &given.0, false, &mut Vec::new()).unwrap())
    }

    #[test]
    fn nulls_delete_defaults() {
        let chart = chart("a", "x: {y: 1, z: 2}\nw: 3\n", vec![]);
        assert_eq!(coalesced(&chart, "x: {y: null}\nw: null\n"), serde_json::json!({"x": {"z": 2.0}}));
    }

    #[test]
    fn globals_reach_sub_charts_and_parents_win() {
        let child = chart("child", "port: 80\nname: c\n", vec![]);
        let parent = chart("parent", "global: {region: eu}\nchild: {port: 8080}\n", vec![child]);
        assert_eq!(
            coalesced(&parent, "global: {zone: z}"),
            serde_json::json!({
                "global": {"region": "eu", "zone": "z"},
                "child": {"port": 8080.0, "name": "c", "global": {"region": "eu", "zone": "z"}},
            })
        );
    }

    #[test]
    fn files_merge_and_settings_override() {
        let values = ValuesBuilder::new()
            .file(b"a: {b: 1, c: [1, 2]}")
            .unwrap()
            .file(b"a: {c: [3]}")
            .unwrap()
            .set("a.b=2,d[1]=x,e={p,q},f=null,g=true,h=01")
            .unwrap()
            .build();
        assert_eq!(
            Json::Object(values.as_json().clone()),
            serde_json::json!({
                "a": {"b": 2, "c": [3.0]}, "d": [null, "x"], "e": ["p", "q"], "f": null, "g": true, "h": "01",
            })
        );
    }
}
