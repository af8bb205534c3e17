//! What decides about a release besides the add-on itself, all of it brought by the caller.

use std::collections::BTreeMap;
use std::fmt;

use daedal_helm::Chart;
use daedal_inventory::Addon;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::object::ObjectId;
use crate::release::Release;

/// Everything that a release is rendered from. The same inputs always give the same release.
pub struct Inputs<'a> {
    /// The add-on.
    pub addon: &'a Addon,
    /// Its chart, if it is made of one.
    pub chart: Option<&'a Chart>,
    /// The manifests that its source refers to by address.
    pub manifests: &'a [Fetched],
    /// Secret values by their dotted path in the values of the chart.
    pub secrets: &'a BTreeMap<String, String>,
    /// What the cluster serves.
    pub capabilities: &'a Capabilities,
    /// What the templates' `lookup` answers.
    pub lookup: &'a dyn Lookup,
    /// What random values, and the marks of secrets, are derived from.
    pub seed: &'a Seed,
    /// The time that templates see, in seconds since 1970. Certificates made by a chart begin here.
    pub now: i64,
    /// The documents that schemas of the chart's values refer to, by address.
    pub schemas: &'a BTreeMap<String, Vec<u8>>,
}

/// A text that was fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// Its address, as the add-on writes it.
    pub origin: String,
    /// The YAML.
    pub text: String,
}

/// A secret of the cluster that must stay the same as long as its add-ons shall.
#[derive(Clone)]
pub struct Seed([u8; 32]);

impl Seed {
    /// A seed of these bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Bytes for one purpose, which tell nothing of those for others.
    pub(crate) fn derive(&self, purpose: &str, name: &str) -> [u8; 32] {
        let mut hash = self.hash(purpose);
        hash.update(name.as_bytes());
        hash.finalize().into()
    }

    /// A hash that nobody can repeat without the seed.
    pub(crate) fn hash(&self, purpose: &str) -> Sha256 {
        let mut hash = Sha256::new();
        hash.update(self.0);
        hash.update([u8::try_from(purpose.len()).unwrap_or(u8::MAX)]);
        hash.update(purpose.as_bytes());
        hash
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed(…)")
    }
}

/// What a cluster serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// The version of Kubernetes, such as `v1.34.1`.
    pub kube_version: String,
    /// Every kind that the API server serves. Kinds of Kubernetes itself are assumed while none of them is here.
    pub kinds: Vec<ServedKind>,
}

impl Capabilities {
    /// What a cluster serves once these definitions are in it, too ([`Release::defines`]). An add-on that renders more where others'
    /// definitions are is rendered with them from the beginning, so that it is the same before and after they are applied.
    #[must_use]
    pub fn and(mut self, kinds: impl IntoIterator<Item = ServedKind>) -> Self {
        for kind in kinds {
            if !self.kinds.contains(&kind) {
                self.kinds.push(kind);
            }
        }
        self
    }

    /// Whether the API server told what it serves of Kubernetes itself.
    pub(crate) fn is_told(&self) -> bool {
        self.kinds.iter().any(|kind| kind.api_version == "v1")
    }
}

/// A kind that an API server serves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServedKind {
    /// `apiVersion`, such as `apps/v1`.
    pub api_version: String,
    /// `kind`, such as `DaemonSet`.
    pub kind: String,
    /// Whether its objects are in a namespace.
    pub namespaced: bool,
}

impl ServedKind {
    /// The API group; empty for the core group.
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }
}

/// Answers what templates look up in the cluster.
pub trait Lookup {
    /// An object by its name; with an empty name the list of all objects of the kind, in one namespace or, if that is empty too, in all.
    fn get(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> LookupAnswer;
}

/// What is known of an object that a template looks up.
#[derive(Clone, Debug, PartialEq)]
pub enum LookupAnswer {
    /// The object, or the list.
    Known(Value),
    /// There is no such object.
    Absent,
    /// Nobody asked the cluster yet.
    NotAsked,
}

/// A lookup that knows nothing, and so finds out what templates ask for.
#[derive(Clone, Copy, Debug, Default)]
pub struct NothingAsked;

impl Lookup for NothingAsked {
    fn get(&self, _: &str, _: &str, _: &str, _: &str) -> LookupAnswer {
        LookupAnswer::NotAsked
    }
}

/// Answers by what object is asked for; what is not in the map was not asked. The name of a list is empty.
impl Lookup for BTreeMap<ObjectId, Option<Value>> {
    fn get(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> LookupAnswer {
        match self.get(&ObjectId::of_lookup(api_version, kind, namespace, name)) {
            Some(Some(object)) => LookupAnswer::Known(object.clone()),
            Some(None) => LookupAnswer::Absent,
            None => LookupAnswer::NotAsked,
        }
    }
}

/// A rendered add-on.
#[derive(Clone, Debug)]
pub struct Rendered {
    /// What it is made of. While `asked` is not empty it was rendered as if those objects were absent.
    pub release: Release,
    /// What templates looked up and nobody knew: the caller fetches it and renders again. The name of a list is empty.
    pub asked: Vec<ObjectId>,
    /// What templates looked up and found. Such an object may be missing in the release because it is there.
    pub found: Vec<ObjectId>,
    /// What the chart says to whoever installs it.
    pub notes: String,
    /// What Helm would have warned of.
    pub warnings: Vec<String>,
}
