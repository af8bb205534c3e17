//! One object: what it is called, and when its turn comes.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What an object is called: its kind, namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectId {
    /// `apiVersion`, such as `apps/v1`.
    pub api_version: String,
    /// `kind`, such as `DaemonSet`.
    pub kind: String,
    /// Namespace; none for an object of the whole cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
}

impl ObjectId {
    /// The API group; empty for the core group.
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// The object, or with an empty name the list, that a template looks up.
    pub(crate) fn of_lookup(api_version: &str, kind: &str, namespace: &str, name: &str) -> Self {
        Self {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
            name: name.to_owned(),
        }
    }

    /// Whether it is the same object, whatever version of its API it is written in.
    pub fn is(&self, other: &Self) -> bool {
        (self.group(), &self.kind, &self.namespace, &self.name)
            == (other.group(), &other.kind, &other.namespace, &other.name)
    }
}

impl fmt::Display for ObjectId {
    /// `DaemonSet kube-system/cilium`, `ClusterRole cilium`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

/// When the turn of an object comes within its release: each stage is there before the next one begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Stage {
    /// CustomResourceDefinitions, namespaces and cluster roles.
    Definitions,
    /// Every kind whose name ends with `Class`.
    Classes,
    /// Objects of Kubernetes' own kinds.
    Objects,
    /// Objects of the kinds that CustomResourceDefinitions add, and webhooks.
    Customs,
}

/// An object as it is to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// What it is called.
    pub id: ObjectId,
    /// When its turn comes.
    pub stage: Stage,
    /// The whole of it, as it is sent.
    pub body: Value,
    /// SHA-256 of the body before our own labels and annotations were added, as lower-case hex.
    pub digest: String,
}
