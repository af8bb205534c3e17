//! Charts: what they say of themselves, the files in them, the charts within them.

mod archive;
mod dependencies;
pub(crate) mod ignore;
mod load;
mod metadata;
mod plain_schema;
mod schema;
mod set;
mod values;

use std::sync::Arc;

pub use metadata::{Dependency, Maintainer, Metadata};
pub use values::{Values, ValuesBuilder};

pub(crate) use dependencies::process_dependencies;
pub(crate) use schema::validate;
pub(crate) use values::coalesce_values;

/// A file in a chart, by its path from the chart's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Slash-separated path.
    pub name: String,
    /// Content.
    pub data: Vec<u8>,
}

/// A chart with its sub-charts. A copy shares the files' content.
#[derive(Clone, Debug)]
pub struct Chart {
    /// `Chart.yaml`.
    pub metadata: Metadata,
    /// Files under `templates/`.
    pub templates: Arc<[File]>,
    /// Everything else templates may read.
    pub files: Arc<[File]>,
    /// `values.yaml`.
    pub values: Values,
    /// `values.schema.json`.
    pub schema: Option<Arc<[u8]>>,
    /// The charts under `charts/`.
    pub dependencies: Vec<Chart>,
}

impl Chart {
    /// The chart's name, or its alias once a parent gave it one.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// Whether the chart only lends its named templates to others.
    pub fn is_library(&self) -> bool {
        self.metadata.chart_type.eq_ignore_ascii_case("library")
    }

    /// The files under `crds/` of this chart and those within it, as source path and content.
    pub(crate) fn crds(&self, parent: &str) -> Vec<(String, &File)> {
        let path = full_path(parent, self.name());
        let mut found: Vec<(String, &File)> = self
            .files
            .iter()
            .filter(|f| f.name.starts_with("crds/") && is_manifest(&f.name))
            .map(|f| (format!("{path}/{}", f.name), f))
            .collect();
        for dependency in &self.dependencies {
            found.extend(dependency.crds(&path));
        }
        found
    }
}

/// A chart's path from the root chart's name on.
pub(crate) fn full_path(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.to_owned() } else { format!("{parent}/charts/{name}") }
}

fn is_manifest(name: &str) -> bool {
    let extension = name.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    matches!(extension.as_str(), "yaml" | "yml" | "json")
}
