//! What a run tells while it goes on: codes for programs, and words for people.

use std::time::Duration;

use daedal_planner::{Fix, Purpose, Step, StepId};
use daedal_words::stage;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::ErrorKind;

/// The step that an event or a report is about: in codes for programs, in words for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepRef {
    /// The step's position in the plan.
    #[serde(rename = "step")]
    pub id: StepId,
    /// Node it is about.
    pub node: Option<String>,
    /// Add-on it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub addon: Option<String>,
    /// What it does, as the plan's `do` names it.
    pub action: &'static str,
    /// The same in words, such as `creating the VM`.
    pub stage: &'static str,
}

impl StepRef {
    /// What an event about a step says of it.
    pub fn of(step: &Step) -> Self {
        let action = &step.action;
        let addon = action.addon().map(|(addon, _)| addon.to_owned());
        Self { id: step.id, node: step.node.clone(), addon, action: action.code(), stage: stage(action) }
    }

    /// The node or the add-on that it is about.
    pub fn of_whom(&self) -> Option<&str> {
        self.node.as_deref().or(self.addon.as_deref())
    }

    /// Whose stage it is, as people read it: `cp-1: creating the VM`.
    pub fn subject(&self) -> String {
        subject(self.of_whom(), self.stage)
    }
}

/// Whose stage it is, as people read it.
pub(crate) fn subject(node: Option<&str>, stage: &str) -> String {
    match node {
        Some(node) => format!("{node}: {stage}"),
        None => stage.to_owned(),
    }
}

/// One thing that happened in a run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "event", rename_all_fields = "camelCase")]
pub enum Event {
    /// The run begins.
    RunStarted {
        /// What it is for.
        purpose: Purpose,
        /// Cluster name.
        cluster: String,
        /// How many steps there are.
        steps: usize,
        /// When.
        #[schemars(with = "String")]
        at: Timestamp,
    },
    /// A step has all it needs and its turn has come.
    StepStarted {
        /// Which step.
        #[serde(flatten)]
        of: StepRef,
    },
    /// A running step waits for something outside; sent again whenever what it waits for changes.
    StepWaiting {
        /// Which step.
        #[serde(flatten)]
        of: StepRef,
        /// What for, such as `task qmcreate on atlas`.
        what: String,
        /// For how long already.
        #[serde(serialize_with = "seconds")]
        #[schemars(with = "f64")]
        since: Duration,
    },
    /// A step is done.
    StepDone {
        /// Which step.
        #[serde(flatten)]
        of: StepRef,
        /// Whether there was anything to do.
        already: bool,
        /// How long it took.
        #[serde(serialize_with = "seconds")]
        #[schemars(with = "f64")]
        took: Duration,
    },
    /// A step gave up on a peer that does not answer. It is begun again if the peer comes back while the run goes on.
    StepGaveUp {
        /// Which step.
        #[serde(flatten)]
        of: StepRef,
        /// What sort of failure it is.
        kind: ErrorKind,
        /// The whole error chain in one line.
        error: String,
        /// How long it took.
        #[serde(serialize_with = "seconds")]
        #[schemars(with = "f64")]
        took: Duration,
    },
    /// A step failed; what depends on it is skipped, all else goes on.
    StepFailed {
        /// Which step.
        #[serde(flatten)]
        of: StepRef,
        /// What sort of failure it is.
        kind: ErrorKind,
        /// The whole error chain in one line.
        error: String,
        /// A command or edit that helps.
        fix: Option<Fix>,
        /// How long it took.
        #[serde(serialize_with = "seconds")]
        #[schemars(with = "f64")]
        took: Duration,
    },
    /// A step will not be started in this run.
    StepSkipped {
        /// Which step.
        #[serde(flatten)]
        of: StepRef,
        /// Why.
        because: String,
    },
    /// The run is over.
    RunFinished {
        /// Steps done, failed, and left.
        done: usize,
        /// Steps failed.
        failed: usize,
        /// Steps not begun, or abandoned.
        left: usize,
        /// How long it took.
        #[serde(serialize_with = "seconds")]
        #[schemars(with = "f64")]
        took: Duration,
    },
}

/// Writes a duration as seconds with fractions.
pub(crate) fn seconds<S: serde::Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64((duration.as_secs_f64() * 1000.0).round() / 1000.0)
}
