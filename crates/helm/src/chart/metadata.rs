//! `Chart.yaml`, and `requirements.yaml` of old charts.

use serde_json::Value as Json;

use crate::error::Error;
use crate::semver::Version;
use crate::yaml::{self, Yaml};

/// Somebody who keeps a chart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Maintainer {
    /// Name of a person or organisation.
    pub name: String,
    /// Address.
    pub email: String,
    /// Page.
    pub url: String,
}

/// A chart that another needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dependency {
    /// Its name; its alias once dependencies have been processed.
    pub name: String,
    /// The versions that will do.
    pub version: String,
    /// Where it comes from.
    pub repository: String,
    /// Comma-separated paths of booleans in the values that switch it.
    pub condition: String,
    /// Tags that switch it.
    pub tags: Vec<String>,
    /// What the parent takes over from its values: names under `exports`, or child and parent paths.
    pub import_values: Vec<Json>,
    /// The name it goes by here.
    pub alias: String,
    pub(crate) enabled: bool,
}

/// What a chart says of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    /// `v1` or `v2`.
    pub api_version: String,
    /// Name.
    pub name: String,
    /// Version of the chart.
    pub version: String,
    /// Version of what it installs.
    pub app_version: String,
    /// The Kubernetes versions it works with.
    pub kube_version: String,
    /// `application` or `library`.
    pub chart_type: String,
    /// One sentence.
    pub description: String,
    /// Project page.
    pub home: String,
    /// Picture.
    pub icon: String,
    /// Legacy condition.
    pub condition: String,
    /// Legacy tags.
    pub tags: String,
    /// Source code.
    pub sources: Vec<String>,
    /// Words to find it by.
    pub keywords: Vec<String>,
    /// Who keeps it.
    pub maintainers: Vec<Maintainer>,
    /// Whether it should not be used any more.
    pub deprecated: bool,
    /// Anything else.
    pub annotations: Option<std::collections::BTreeMap<String, String>>,
    /// Charts it needs; `None` when it lists none.
    pub dependencies: Option<Vec<Dependency>>,
}

/// A mapping with Go's forgiving, case-insensitive field names.
struct Fields<'a>(&'a Yaml<'a>, &'a str);

impl<'a> Fields<'a> {
    fn get(&self, name: &str) -> Option<&'a Yaml<'a>> {
        if let Some(found) = self.0.get(name) {
            return Some(found);
        }
        let Yaml::Mapping(entries) = self.0 else { return None };
        entries
            .iter()
            .find(|(k, _)| matches!(k, Yaml::String(s) if s.eq_ignore_ascii_case(name.as_bytes())))
            .map(|(_, v)| v)
    }

    fn wrong<T>(&self, name: &str, wanted: &str) -> Result<T, Error> {
        Err(Error::Chart(format!("cannot load {}: {name} must be a {wanted}", self.1)))
    }

    fn string(&self, name: &str) -> Result<String, Error> {
        match self.get(name) {
            None | Some(Yaml::Null) => Ok(String::new()),
            Some(value) => match yaml::coerced_string(value) {
                Some(text) => Ok(sanitize(&text)),
                None => self.wrong(name, "string"),
            },
        }
    }

    fn strings(&self, name: &str) -> Result<Vec<String>, Error> {
        match self.get(name) {
            None | Some(Yaml::Null) => Ok(Vec::new()),
            Some(Yaml::Sequence(items)) => items
                .iter()
                .map(|item| match item {
                    Yaml::Null => Ok(String::new()),
                    other => match yaml::coerced_string(other) {
                        Some(text) => Ok(sanitize(&text)),
                        None => self.wrong(name, "list of strings"),
                    },
                })
                .collect(),
            Some(_) => self.wrong(name, "list of strings"),
        }
    }

    fn list(&self, name: &str) -> Result<Option<&'a [Yaml<'a>]>, Error> {
        match self.get(name) {
            None | Some(Yaml::Null) => Ok(None),
            Some(Yaml::Sequence(items)) => Ok(Some(items)),
            Some(_) => self.wrong(name, "list"),
        }
    }
}

fn sanitize(text: &str) -> String {
    text.chars()
        .filter_map(|c| {
            if c.is_whitespace() {
                Some(' ')
            } else if crate::strconv::is_print(c) {
                Some(c)
            } else {
                None
            }
        })
        .collect()
}

impl Metadata {
    /// Reads `Chart.yaml`.
    pub(super) fn parse(text: &[u8]) -> Result<Metadata, Error> {
        const FILE: &str = "Chart.yaml";
        let document = document(text, FILE)?;
        let fields = Fields(&document, FILE);
        let mut metadata = Metadata {
            api_version: fields.string("apiVersion")?,
            name: fields.string("name")?,
            version: fields.string("version")?,
            app_version: fields.string("appVersion")?,
            kube_version: fields.string("kubeVersion")?,
            chart_type: fields.string("type")?,
            description: fields.string("description")?,
            home: fields.string("home")?,
            icon: fields.string("icon")?,
            condition: fields.string("condition")?,
            tags: fields.string("tags")?,
            sources: fields.strings("sources")?,
            keywords: fields.strings("keywords")?,
            deprecated: match fields.get("deprecated") {
                None | Some(Yaml::Null) => false,
                Some(Yaml::Bool(b)) => *b,
                Some(_) => return fields.wrong("deprecated", "boolean"),
            },
            ..Metadata::default()
        };
        if metadata.api_version.is_empty() {
            "v1".clone_into(&mut metadata.api_version);
        }
        for item in fields.list("maintainers")?.unwrap_or_default() {
            let person = Fields(item, FILE);
            if matches!(item, Yaml::Null) {
                return Err(Error::Chart(
                    "validation: maintainers must not contain empty or null nodes".into(),
                ));
            }
            metadata.maintainers.push(Maintainer {
                name: person.string("name")?,
                email: person.string("email")?,
                url: person.string("url")?,
            });
        }
        if let Some(Yaml::Mapping(entries)) = fields.get("annotations") {
            let mut annotations = std::collections::BTreeMap::new();
            for (key, value) in entries {
                let text = |y: &Yaml<'_>| match y {
                    Yaml::Null => Some(String::new()),
                    other => yaml::coerced_string(other),
                };
                match (text(key), text(value)) {
                    (Some(key), Some(value)) => annotations.insert(key, value),
                    _ => return fields.wrong("annotations", "mapping of strings"),
                };
            }
            metadata.annotations = Some(annotations);
        }
        metadata.dependencies = dependencies(&fields)?;
        Ok(metadata)
    }

    /// Takes over what `requirements.yaml` lists.
    pub(super) fn add_requirements(&mut self, text: &[u8]) -> Result<(), Error> {
        const FILE: &str = "requirements.yaml";
        let document = document(text, FILE)?;
        if let Some(found) = dependencies(&Fields(&document, FILE))? {
            self.dependencies = Some(found);
        }
        Ok(())
    }

    /// Checks what Helm checks before it uses a chart.
    pub(super) fn validate(&self) -> Result<(), Error> {
        let invalid = |why: String| Err(Error::Chart(format!("validation: {why}")));
        if self.name.is_empty() {
            return invalid("chart.metadata.name is required".into());
        }
        if self.name.contains('/') || self.name == "." || self.name == ".." {
            return invalid(format!("chart.metadata.name {:?} is invalid", self.name));
        }
        if self.version.is_empty() {
            return invalid("chart.metadata.version is required".into());
        }
        if Version::parse(&self.version).is_err() {
            return invalid(format!("chart.metadata.version {:?} is invalid", self.version));
        }
        if !matches!(self.chart_type.as_str(), "" | "application" | "library") {
            return invalid("chart.metadata.type must be application or library".into());
        }
        let mut seen = std::collections::HashSet::new();
        for dependency in self.dependencies.iter().flatten() {
            let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            if !dependency.alias.chars().all(allowed) {
                return invalid(format!(
                    "dependency {:?} has disallowed characters in the alias",
                    dependency.name
                ));
            }
            let key = if dependency.alias.is_empty() { &dependency.name } else { &dependency.alias };
            if !seen.insert(key) {
                return invalid(format!("more than one dependency with name or alias {key:?}"));
            }
        }
        Ok(())
    }
}

fn document<'a>(text: &'a [u8], file: &str) -> Result<Yaml<'a>, Error> {
    let document =
        yaml::parse_document(text).map_err(|e| Error::Chart(format!("cannot load {file}: yaml: {e}")))?;
    match document {
        Yaml::Mapping(_) | Yaml::Null => Ok(document),
        other => {
            Err(Error::Chart(format!("cannot load {file}: expected a mapping, found {}", other.type_name())))
        }
    }
}

fn dependencies(fields: &Fields<'_>) -> Result<Option<Vec<Dependency>>, Error> {
    let Some(items) = fields.list("dependencies")? else { return Ok(None) };
    let mut found = Vec::new();
    for item in items {
        if matches!(item, Yaml::Null) {
            return Err(Error::Chart("validation: dependencies must not contain empty or null nodes".into()));
        }
        let entry = Fields(item, fields.1);
        let mut import_values = Vec::new();
        for value in entry.list("import-values")?.unwrap_or_default() {
            let value = yaml::json_value(value, 0).map_err(Error::Chart)?;
            import_values.push(crate::json::to_serde(&value));
        }
        found.push(Dependency {
            name: entry.string("name")?,
            version: entry.string("version")?,
            repository: entry.string("repository")?,
            condition: entry.string("condition")?,
            tags: entry.strings("tags")?,
            import_values,
            alias: entry.string("alias")?,
            enabled: false,
        });
    }
    Ok(Some(found))
}
