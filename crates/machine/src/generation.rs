//! Which apply a cluster was changed by.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One apply that changed a cluster, as the marks on its VMs tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Generation {
    /// Its number, from 1.
    pub number: u32,
    /// Who, as `user@host`.
    pub by: String,
    /// When it began, in RFC 3339.
    pub at: String,
}
