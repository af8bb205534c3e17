//! What can go wrong between a chart and its manifests.

use std::fmt;
use std::path::PathBuf;

/// A place in a chart's template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The template, by its path from the chart's name on; `gotpl` for text given to `tpl`.
    pub file: String,
    /// Line, from one.
    pub line: usize,
    /// Column in bytes, from zero, as Helm counts it.
    pub column: usize,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// Why a chart could not be loaded or rendered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The chart is not one, or breaks the rules for charts.
    #[error("{0}")]
    Chart(String),
    /// The archive is malformed or dangerous.
    #[error("cannot unpack the chart archive: {0}")]
    Archive(String),
    /// Values could not be read or merged.
    #[error("{0}")]
    Values(String),
    /// Values break the chart's schema.
    #[error("values don't meet the specifications of the schema(s) in the following chart(s):\n{0}")]
    Schema(String),
    /// A chart's schema refers to a document that [`RenderOptions::schemas`](crate::RenderOptions::schemas) lacks.
    #[error("cannot check the values: the schema of chart {chart} refers to {url}, which was not fetched")]
    SchemaReference {
        /// The chart.
        chart: String,
        /// The document's address.
        url: String,
    },
    /// A template is not a template.
    #[error("parse error at ({file}:{line}): {message}")]
    Parse {
        /// The template.
        file: String,
        /// Line, from one.
        line: usize,
        /// What is wrong with it.
        message: String,
    },
    /// A template failed.
    #[error("{message}")]
    Render {
        /// What happened, in Helm's words: where, on which expression, with which value.
        message: String,
        /// The places it went through, outermost first.
        locations: Vec<Location>,
    },
    /// What a template rendered is not YAML.
    #[error("YAML parse error on {file}: {message}")]
    Manifest {
        /// The template.
        file: String,
        /// What is wrong with its output.
        message: String,
        /// What all templates rendered, in the order of their names, for finding out why.
        rendered: String,
    },
    /// A template asked for with `show_only` renders nothing.
    #[error("could not find template {0} in chart")]
    NotFound(String),
    /// A release may not be called that.
    #[error("release name {name:?}: {message}")]
    ReleaseName {
        /// The name.
        name: String,
        /// What is wrong with it.
        message: &'static str,
    },
    /// A repository or registry gave no answer.
    #[error("cannot reach {what}: {message}")]
    Unreachable {
        /// The chart that was asked for.
        what: String,
        /// Why.
        message: String,
    },
    /// A chart could not be fetched.
    #[error("cannot fetch {what}: {message}")]
    Fetch {
        /// The chart, index or manifest.
        what: String,
        /// Why.
        message: String,
    },
}
