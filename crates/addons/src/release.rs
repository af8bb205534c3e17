//! A release: what an add-on is made of, once it is rendered.

use serde_json::Value;

use crate::inputs::ServedKind;
use crate::kinds::defined_by;
use crate::object::{Object, ObjectId, Stage};

pub use daedal_helm::HookEvent;

/// An add-on, rendered.
#[derive(Clone, Debug, PartialEq)]
pub struct Release {
    /// Its name.
    pub name: String,
    /// The namespace of the release.
    pub namespace: String,
    /// The chart that it was rendered from, if it is one.
    pub chart: Option<ChartInfo>,
    /// SHA-256 of everything that decides what it is: chart, values, versions; as lower-case hex.
    pub inputs: String,
    /// Its objects, in the order in which they are applied.
    pub objects: Vec<Object>,
    /// What runs around it.
    pub hooks: Vec<Hook>,
}

impl Release {
    /// The kinds that its definitions add. What comes after it is rendered as if the cluster served them already, so that
    /// it is the same before and after.
    pub fn defines(&self) -> Vec<ServedKind> {
        self.objects.iter().flat_map(|object| defined_by(&object.body)).collect()
    }

    /// Its objects that are applied together.
    pub fn of_stage(&self, stage: Stage) -> impl Iterator<Item = &Object> {
        self.objects.iter().filter(move |object| object.stage == stage)
    }
}

/// A chart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChartInfo {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The version of what it installs.
    pub app_version: String,
    /// SHA-256 of its files, as lower-case hex.
    pub digest: String,
}

/// An object that runs before or after the others.
#[derive(Clone, Debug, PartialEq)]
pub struct Hook {
    /// What it is called.
    pub id: ObjectId,
    /// When it runs.
    pub events: Vec<HookEvent>,
    /// Hooks of one event run by ascending weight.
    pub weight: i64,
    /// When it is deleted: `before-hook-creation`, `hook-succeeded`, `hook-failed`.
    pub delete_policies: Vec<String>,
    /// The whole of it.
    pub body: Value,
}
