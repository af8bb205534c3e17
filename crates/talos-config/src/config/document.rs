//! A machine config as its documents: reading, looking into, writing.

use std::fmt;

use serde::{Deserialize, de::DeserializeSeed as _};
use serde_json::{Map, Value as Json};
use yaml_serde::Value;

use crate::{
    Error, Result,
    config::{options::Role, schema, spelling::Spelled},
    secret::Secret,
    yaml,
};

/// A machine config: one or more YAML documents, the one without a `kind` being the main one.
///
/// It holds private keys, therefore `Debug` shows only which documents there are.
#[derive(Clone, PartialEq)]
pub struct MachineConfig {
    pub(crate) documents: Vec<Value>,
}

impl fmt::Debug for MachineConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.documents.iter().map(DocumentId::of)).finish()
    }
}

/// By what a document is recognised: documents of the same identity are merged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DocumentId {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
}

impl DocumentId {
    pub(crate) fn of(document: &Value) -> Self {
        // Talos reads a number or a flag as the text it is written with.
        let field = |name: &str| match document.get(name) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            Some(Value::Bool(flag)) => flag.to_string(),
            _ => String::new(),
        };
        let kind = field("kind");
        // The main document has no kind; a `name` in it would be an unknown key, not an identity.
        let name = if kind.is_empty() { String::new() } else { field("name") };
        Self { api_version: field("apiVersion"), kind, name }
    }
}

impl fmt::Display for DocumentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind.as_str(), self.name.as_str()) {
            ("", _) => f.write_str("the main document"),
            (kind, "") => f.write_str(kind),
            (kind, name) => write!(f, "{kind} {name}"),
        }
    }
}

impl MachineConfig {
    /// Reads a config of one or more documents.
    pub fn from_yaml(text: &str) -> Result<Self> {
        let documents = read_documents(text).map_err(Unreadable::in_config)?;
        if documents.is_empty() {
            return Err(Error::Config { reason: "there is no document in it".into() });
        }
        Ok(Self { documents })
    }

    /// Writes the config, main document first.
    pub fn to_yaml(&self) -> Secret {
        let mut text = String::new();
        for document in &self.documents {
            if !text.is_empty() {
                text.push_str("---\n");
            }
            text.push_str(&yaml::to_string(document));
        }
        Secret::new(text)
    }

    /// Every document, in order.
    pub fn documents(&self) -> &[Value] {
        &self.documents
    }

    /// Every document of a kind, such as `LinkConfig`.
    pub fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.documents
            .iter()
            .filter(move |document| document.get("kind").and_then(Value::as_str) == Some(kind))
    }

    /// A value of the main document by its dotted path, such as `machine.type`.
    pub fn get(&self, path: &str) -> Option<&Value> {
        let main = self.documents.iter().find(|document| document.get("kind").is_none())?;
        path.split('.').try_fold(main, |value, key| value.get(key))
    }

    /// A text of the main document by its dotted path.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.get(path).and_then(Value::as_str)
    }

    /// A value of the document of a kind by its dotted path.
    pub(crate) fn in_document<'a>(&'a self, kind: &'a str, path: &str) -> Option<&'a Value> {
        let document = self.of_kind(kind).next()?;
        path.split('.').try_fold(document, |value, key| value.get(key))
    }

    /// A text of the main document, or of the document that holds it from Talos 1.14 on.
    pub(crate) fn text_or<'a>(&'a self, path: &str, kind: &'a str, inner: &str) -> Option<&'a str> {
        self.text(path).or_else(|| self.in_document(kind, inner)?.as_str())
    }

    /// Where the Kubernetes API is.
    pub fn endpoint(&self) -> Option<&str> {
        self.text_or("cluster.controlPlane.endpoint", "KubeClusterConfig", "endpoint")
    }

    /// The cluster's name.
    pub fn cluster_name(&self) -> Option<&str> {
        self.text_or("cluster.clusterName", "KubeClusterConfig", "clusterName")
    }

    /// What the machine is for.
    pub fn role(&self) -> Option<Role> {
        match self.text("machine.type")? {
            "controlplane" | "init" => Some(Role::ControlPlane),
            "worker" | "join" => Some(Role::Worker),
            _ => None,
        }
    }

    /// The machine's name, if the config sets one.
    pub fn hostname(&self) -> Option<&str> {
        self.of_kind("HostnameConfig")
            .find_map(|document| document.get("hostname").and_then(Value::as_str))
            .or_else(|| self.text("machine.network.hostname"))
    }
}

/// Why a text cannot be read as documents.
pub(crate) struct Unreadable {
    /// Which document it is, empty ones aside.
    pub(crate) document: usize,
    pub(crate) reason: &'static str,
    /// Where in the whole text, if the parser says so.
    pub(crate) line: Option<usize>,
}

impl Unreadable {
    fn in_config(self) -> Error {
        let at = self.line.map(|line| format!(" at line {line}")).unwrap_or_default();
        Error::Config { reason: format!("{}{at}", self.reason) }
    }
}

/// Reads YAML documents, leaving out empty ones. Every document must be a mapping.
pub(crate) fn read_documents(text: &str) -> Result<Vec<Value>, Unreadable> {
    let mut documents = Vec::new();
    // Read once to see of what kind it is, and again as that kind is read.
    let again = yaml_serde::Deserializer::from_str(text);
    for (part, again) in yaml_serde::Deserializer::from_str(text).zip(again) {
        let document = documents.len();
        // The parser's own words may quote a secret.
        let wrong = |error: yaml_serde::Error| Unreadable {
            document,
            reason: "it is not valid YAML",
            line: error.location().map(|at| at.line()),
        };
        let value = Value::deserialize(part).map_err(wrong)?;
        match value {
            Value::Null => {}
            Value::Mapping(mapping) if mapping.is_empty() => {}
            Value::Mapping(_) => {
                let field = schema::of_kind(&DocumentId::of(&value).kind);
                documents.push(match field {
                    Some(field) => Spelled { field, seen: &value }.deserialize(again).map_err(wrong)?,
                    None => value,
                });
            }
            _ => return Err(Unreadable { document, reason: "a document is not a mapping", line: None }),
        }
    }
    Ok(documents)
}

/// `kind` and `name` first, then what the document says.
pub(crate) fn document(kind: &str, name: Option<&str>, fields: Map<String, Json>) -> Json {
    let mut document = Map::new();
    document.insert("apiVersion".into(), "v1alpha1".into());
    document.insert("kind".into(), kind.into());
    if let Some(name) = name {
        document.insert("name".into(), name.into());
    }
    document.extend(fields);
    Json::Object(document)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_a_config_says() {
        let config = MachineConfig::from_yaml(
            "machine: {type: worker}\n---\n---\nkind: HostnameConfig\napiVersion: v1alpha1\nhostname: w1\nauto: \"off\"\n",
        )
        .unwrap();
        assert_eq!(config.role(), Some(Role::Worker));
        assert_eq!(config.hostname(), Some("w1"));
        assert_eq!(config.documents().len(), 2);
        assert_eq!(MachineConfig::from_yaml(config.to_yaml().expose()).unwrap(), config);
    }

    #[test]
    fn errors_quote_nothing() {
        for text in ["", "---\n", "[canary]", "a: 'canary\n", "a: {canary"] {
            let error = MachineConfig::from_yaml(text).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
        }
        let config = MachineConfig::from_yaml("machine: {token: canary}").unwrap();
        assert!(!format!("{config:?}").contains("canary"));
    }
}
