//! A machine configuration as the simulated node reads it: documents, and what the node does with them.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize as _;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{fold, validate};

/// Why a node refuses a configuration, worded as the node words it.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Not YAML at all.
    #[error("failed to parse config: decode error")]
    Yaml(#[source] yaml_serde::Error),
    /// A document of a kind that this version does not know.
    #[error(
        "error decoding document {api_version}/{kind}/ (line {line}): \"{kind}\" \"{api_version}\": not registered"
    )]
    UnknownKind {
        /// The document's `apiVersion`.
        api_version: String,
        /// The document's `kind`.
        kind: String,
        /// Where the document starts.
        line: usize,
    },
    /// Not what a config can be read from.
    #[error("failed to parse config: decode error")]
    Unreadable(#[source] daedal_talos_config::Error),
    /// A value that cannot stand where it does.
    #[error("error decoding document {document}/ (line {line}): {fault}")]
    Value {
        /// The document's `apiVersion` and `kind`.
        document: String,
        /// Where the document starts.
        line: usize,
        /// What does not fit, and where.
        fault: String,
    },
    /// A key that this version does not know.
    #[error("unknown keys found during decoding:\n{0}")]
    UnknownKeys(String),
    /// No v1alpha1 document, so the configuration is not complete.
    #[error("the machine configuration is incomplete: no v1alpha1 document")]
    Incomplete,
    /// Rules that the configuration breaks.
    #[error("{} error{} occurred:\n{}", .0.len(), if .0.len() == 1 { "" } else { "s" }, bullets(.0))]
    Invalid(Vec<String>),
}

fn bullets(problems: &[String]) -> String {
    problems.iter().map(|p| format!("\t* {p}\n")).collect()
}

/// What a machine is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Runs etcd and the Kubernetes control plane.
    ControlPlane,
    /// Runs workloads.
    Worker,
}

/// A validated machine configuration.
#[derive(Clone, Debug)]
pub struct MachineConfig {
    text: String,
    documents: Vec<Value>,
    /// The v1alpha1 document with what newer versions say in documents of their own.
    whole: Value,
    role: Role,
    keys: Keys,
}

/// The secrets, or digests of them, that decide who belongs together. Asked for all the time, so made once.
#[derive(Clone, Debug, Default)]
struct Keys {
    trust: Trust,
    etcd: String,
    kubernetes: Trust,
}

/// What makes machines trust each other: for their node APIs, or for Kubernetes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trust {
    token: String,
    /// The authority that signs.
    issuing: Option<String>,
    /// The authorities that are believed, that one among them.
    believed: Vec<String>,
}

impl Trust {
    /// What a section of a configuration says. Authorities are compared all the time, so only their digests are kept.
    fn of(config: &MachineConfig, section: &str) -> Self {
        let digest = |pem: String| hex::encode(Sha256::digest(pem));
        Self {
            token: config.text_at(&format!("{section}/token")).unwrap_or_default().to_owned(),
            issuing: config.pem_at(&format!("{section}/ca/crt")).map(digest),
            believed: config.authorities(section).into_iter().map(digest).collect(),
        }
    }

    /// Whether both believe the other's authority, and have the same token to be let in with.
    pub(crate) fn is_mutual(&self, other: &Self) -> bool {
        let believes = |one: &Self, other: &Self| {
            other.issuing.as_ref().is_some_and(|issuing| one.believed.contains(issuing))
        };
        self.token == other.token && believes(self, other) && believes(other, self)
    }
}

impl MachineConfig {
    /// Parses and validates what a node of `version` was given.
    pub fn load(text: &str, version: &str) -> Result<Self, ConfigError> {
        let mut documents = Vec::new();
        let mut line = 1;
        for part in split_documents(text) {
            let value =
                Value::deserialize(yaml_serde::Deserializer::from_str(part)).map_err(ConfigError::Yaml)?;
            if value.is_object() {
                validate::document(part, version, line)?;
                documents.push(value);
            } else if !value.is_null() {
                return Err(ConfigError::Invalid(vec!["a document is not a mapping".into()]));
            }
            line += part.lines().count() + 1;
        }
        documents.sort_by_key(|d| d.get("kind").is_some());
        let Some(main) = documents.first().filter(|d| d.get("kind").is_none()) else {
            return Err(ConfigError::Incomplete);
        };
        let role = match main.pointer("/machine/type").and_then(Value::as_str) {
            Some("worker" | "join") => Role::Worker,
            _ => Role::ControlPlane,
        };
        let whole = fold::whole(&documents);
        let mut config = Self { text: text.to_owned(), documents, whole, role, keys: Keys::default() };
        config.keys = Keys {
            trust: Trust::of(&config, "/machine"),
            etcd: config.digest(&["/cluster/etcd/ca/crt", "/cluster/id", "/cluster/secret"]),
            kubernetes: Trust::of(&config, "/cluster"),
        };
        let problems = validate::rules(&config);
        if problems.is_empty() { Ok(config) } else { Err(ConfigError::Invalid(problems)) }
    }

    /// The text it was made from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What the machine is for.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Whether this is a control plane.
    pub fn is_control_plane(&self) -> bool {
        self.role == Role::ControlPlane
    }

    /// The v1alpha1 document as it was given.
    pub fn main(&self) -> &Value {
        self.documents.first().unwrap_or(&Value::Null)
    }

    /// The v1alpha1 document with what newer versions say in documents of their own, in the places it came from.
    pub fn whole(&self) -> &Value {
        &self.whole
    }

    /// The other documents of a kind.
    pub fn kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> + 'a {
        self.documents.iter().filter(move |d| d.get("kind").and_then(Value::as_str) == Some(kind))
    }

    /// A text inside the v1alpha1 document.
    pub fn text_at(&self, pointer: &str) -> Option<&str> {
        self.whole().pointer(pointer).and_then(Value::as_str).filter(|s| !s.is_empty())
    }

    /// A base64 PEM inside the v1alpha1 document, decoded to PEM.
    pub fn pem_at(&self, pointer: &str) -> Option<String> {
        decode_pem(self.whole().pointer(pointer)?)
    }

    /// Certificates that clients of the node API may be signed by.
    pub fn client_cas(&self) -> Vec<String> {
        self.authorities("/machine")
    }

    /// Certificates that clients of Kubernetes may be signed by, and its API servers as well.
    pub fn kubernetes_cas(&self) -> Vec<String> {
        self.authorities("/cluster")
    }

    /// The authorities that are accepted, and after them the one that signs.
    fn authorities(&self, section: &str) -> Vec<String> {
        let accepted = self.whole().pointer(&format!("{section}/acceptedCAs")).and_then(Value::as_array);
        let accepted = accepted.into_iter().flatten().filter_map(|ca| decode_pem(ca.get("crt")?));
        accepted.chain(self.pem_at(&format!("{section}/ca/crt"))).collect()
    }

    /// Which machines it trusts, and which trust it.
    pub(crate) fn trust(&self) -> &Trust {
        &self.keys.trust
    }

    /// Names the etcd cluster that this control plane may be part of.
    pub fn etcd_key(&self) -> &str {
        &self.keys.etcd
    }

    /// Which API servers its kubelet trusts and may register with, and which kubelets its API server lets in.
    pub(crate) fn kubernetes_trust(&self) -> &Trust {
        &self.keys.kubernetes
    }

    fn digest(&self, pointers: &[&str]) -> String {
        let mut hash = Sha256::new();
        for pointer in pointers {
            hash.update(self.text_at(pointer).unwrap_or_default());
            hash.update([0]);
        }
        hex::encode(hash.finalize())
    }

    /// The cluster's name.
    pub fn cluster_name(&self) -> &str {
        self.text_at("/cluster/clusterName").unwrap_or("kubernetes")
    }

    /// The URL under which the Kubernetes API is meant to be reached.
    pub fn endpoint(&self) -> &str {
        self.text_at("/cluster/controlPlane/endpoint").unwrap_or_default()
    }

    /// The host part of [`MachineConfig::endpoint`].
    pub fn endpoint_host(&self) -> Option<String> {
        url::Url::parse(self.endpoint()).ok()?.host_str().map(|h| h.trim_matches(['[', ']']).to_owned())
    }

    /// The hostname the configuration sets; none means a generated one.
    pub fn hostname(&self) -> Option<&str> {
        self.kind("HostnameConfig")
            .find_map(|d| d.get("hostname").and_then(Value::as_str))
            .or_else(|| self.text_at("/machine/network/hostname"))
            .filter(|h| !h.is_empty())
    }

    /// Kubelet version without `v`, from its image.
    pub fn kubernetes_version(&self) -> String {
        self.text_at("/machine/kubelet/image")
            .and_then(|image| image.split('@').next()?.rsplit_once(":v").map(|(_, v)| v.to_owned()))
            .unwrap_or_else(|| "1.35.0".into())
    }

    /// Which network plugin the cluster brings by itself: `flannel`, `none`, `custom`.
    pub fn cni(&self) -> &str {
        self.text_at("/cluster/network/cni/name").unwrap_or("flannel")
    }

    /// Labels, annotations or taints of the Kubernetes node.
    pub fn node_map(&self, field: &str) -> BTreeMap<String, String> {
        self.whole()
            .pointer(&format!("/machine/{field}"))
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(k, v)| (k.clone(), v.as_str().unwrap_or_default().to_owned()))
            .collect()
    }

    /// A list of texts inside the v1alpha1 document.
    pub fn list_at(&self, pointer: &str) -> Vec<String> {
        let list = self.whole().pointer(pointer).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// A flag inside the v1alpha1 document.
    pub fn flag_at(&self, pointer: &str) -> bool {
        self.whole().pointer(pointer).and_then(Value::as_bool).unwrap_or(false)
    }
}

fn decode_pem(value: &Value) -> Option<String> {
    let text = value.as_str().filter(|s| !s.is_empty())?;
    String::from_utf8(STANDARD.decode(text.trim()).ok()?).ok()
}

/// Splits a YAML stream at its document markers, so that each piece keeps its line.
fn split_documents(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.trim_end() == "---" || line.starts_with("--- ") {
            parts.push(&text[start..at]);
            start = at + line.len();
        }
        at += line.len();
    }
    parts.push(&text[start.min(text.len())..]);
    parts
}
