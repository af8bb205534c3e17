//! The part of the document that says which findings are accepted.

use schemars::JsonSchema;
use serde::Deserialize;

/// What `daedal check` may pass over in this inventory.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Lint {
    /// Ids of warnings and notes that are accepted, such as `plain-outputs`; docs/ci.md lists them. Errors cannot be ignored.
    #[schemars(extend("examples" = [["plain-outputs"]]))]
    pub(crate) ignore: Option<Vec<String>>,
}
