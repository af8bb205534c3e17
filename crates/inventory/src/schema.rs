//! The JSON Schema of the document, generated from its types.

use std::sync::OnceLock;

use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::document::Document;

/// The JSON Schema (draft 2020-12) of an inventory, for editors and other tools.
pub fn schema() -> Value {
    let mut schema = cached().clone();
    // An amount without a unit is read only to say better what is wrong with it.
    schema["$defs"]["Size"]["type"] = "string".into();
    schema
}

pub(crate) fn cached() -> &'static Value {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        SchemaSettings::draft2020_12()
            .for_deserialize()
            .into_generator()
            .into_root_schema_for::<Document>()
            .to_value()
    })
}
