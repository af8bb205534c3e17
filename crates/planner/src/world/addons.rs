//! What was seen of add-ons: what each is rendered to, and what of it is in the cluster.

use std::collections::BTreeMap;

use daedal_addons::{ObjectId, Stage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::FieldChange;

/// The add-ons, declared ones and those that are left of an earlier inventory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AddonsView {
    /// Whether Kubernetes was asked, and told all of it. If not, nothing is known of what is in the cluster.
    pub told: bool,
    /// The declared ones, by name.
    pub declared: BTreeMap<String, AddonView>,
    /// Those that are in the cluster and no longer declared, by name.
    pub former: BTreeMap<String, FormerAddonView>,
}

/// A declared add-on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AddonView {
    /// The chart that it is rendered from, and its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chart: Option<(String, String)>,
    /// Why it could not be rendered. Nothing else is known of it then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unrendered: Option<String>,
    /// Its objects, in the order in which they are applied.
    pub objects: Vec<AddonObject>,
    /// What its chart wants to be run before or after its objects are applied.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<ObjectId>,
    /// Objects of its set that it no longer has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extra: Vec<ObjectId>,
    /// Whether the record of its set says exactly what is in it.
    pub recorded: bool,
    /// Whether the record says more than is in it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub surplus: bool,
    /// Who has it instead of us, and the object that says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<(AddonOwner, ObjectId)>,
}

impl AddonView {
    /// Whether everything is in the cluster as it is rendered.
    pub fn is_as_declared(&self) -> bool {
        self.objects.iter().all(|object| object.state == ObjectState::AsDeclared)
    }

    /// The first object that is not ready, and why.
    pub fn unready(&self) -> Option<(&ObjectId, &str)> {
        self.objects.iter().find_map(|object| match &object.readiness {
            Readiness::Ready => None,
            Readiness::Waiting(why) | Readiness::Failed(why) => Some((&object.id, why.as_str())),
        })
    }
}

/// An add-on that is no longer declared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FormerAddonView {
    /// What is left of it.
    pub objects: Vec<ObjectId>,
}

/// One object of an add-on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AddonObject {
    /// What it is called.
    pub id: ObjectId,
    /// When its turn comes.
    pub stage: Stage,
    /// Digest of what it is to be.
    pub digest: String,
    /// What it is in the cluster.
    pub state: ObjectState,
    /// Whether it is ready, where it is there.
    #[serde(default)]
    pub readiness: Readiness,
}

/// What an object is in the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "is")]
pub enum ObjectState {
    /// Not seen.
    #[default]
    NotSeen,
    /// Not there.
    Absent,
    /// As it is rendered, and in our set.
    AsDeclared,
    /// Something else, or not in our set.
    Differs {
        /// What changes.
        changes: Vec<FieldChange>,
        /// The fields that others own.
        conflicts: Vec<FieldConflict>,
    },
    /// Kubernetes refuses it as it is rendered.
    Refused {
        /// Why, in Kubernetes' words.
        why: String,
        /// Whether the object that is there would have to be deleted first.
        immutable: bool,
    },
}

/// Whether an object is ready.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "is", content = "why")]
pub enum Readiness {
    /// It is, or nobody can tell.
    #[default]
    Ready,
    /// Not yet.
    Waiting(String),
    /// It will not become so by itself.
    Failed(String),
}

/// A field that somebody else owns, and wants otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldConflict {
    /// Who owns it: the field manager.
    pub manager: String,
    /// Its path.
    pub field: String,
}

/// Who looks after an add-on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "is")]
pub enum AddonOwner {
    /// We.
    #[default]
    Daedal,
    /// A release of Helm.
    Helm {
        /// Its name.
        release: String,
        /// Its namespace.
        namespace: String,
    },
    /// Flux.
    Flux {
        /// `Kustomization` or `HelmRelease`.
        kind: String,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// Argo CD.
    ArgoCd {
        /// The Application.
        application: String,
    },
}
