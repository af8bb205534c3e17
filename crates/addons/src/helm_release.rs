//! Releases as Helm keeps them.

use daedal_helm::Metadata;
use serde_json::{Map, Value, json};

/// `Chart.yaml` as Helm writes it: fields that say nothing are left out.
pub(crate) fn metadata(metadata: &Metadata) -> Value {
    let mut entries = Map::new();
    let mut put = |key: &str, value: Value| {
        let says = match &value {
            Value::Null => false,
            Value::Bool(b) => *b,
            Value::String(text) => !text.is_empty(),
            Value::Array(items) => !items.is_empty(),
            Value::Object(entries) => !entries.is_empty(),
            Value::Number(_) => true,
        };
        if says {
            entries.insert(key.to_owned(), value);
        }
    };
    put("name", json!(metadata.name));
    put("home", json!(metadata.home));
    put("sources", json!(metadata.sources));
    put("version", json!(metadata.version));
    put("description", json!(metadata.description));
    put("keywords", json!(metadata.keywords));
    let maintainers =
        metadata.maintainers.iter().map(|m| json!({"name": m.name, "email": m.email, "url": m.url}));
    put("maintainers", Value::Array(maintainers.collect()));
    put("icon", json!(metadata.icon));
    put("apiVersion", json!(metadata.api_version));
    put("condition", json!(metadata.condition));
    put("tags", json!(metadata.tags));
    put("appVersion", json!(metadata.app_version));
    put("deprecated", json!(metadata.deprecated));
    put("annotations", json!(metadata.annotations));
    put("kubeVersion", json!(metadata.kube_version));
    let dependencies = metadata.dependencies.iter().flatten().map(|d| {
        json!({"name": d.name, "version": d.version, "repository": d.repository, "condition": d.condition,
            "tags": d.tags, "import-values": d.import_values, "alias": d.alias})
    });
    put("dependencies", Value::Array(dependencies.collect()));
    put("type", json!(metadata.chart_type));
    Value::Object(entries)
}
